"""The pane of pods: the table, and below it why the pod under the cursor is as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.api.local import Manifest, ManifestState
from podtui.api.v1 import Pod
from podtui.tui.cells import Line, Row, Span, wrap
from podtui.tui.filters import Filter
from podtui.tui.model import Changes, Model
from podtui.tui.pane import EmptyText, Pane, waiting_text
from podtui.tui.pod_rows import POD_COLUMNS, manifest_row, pod_row
from podtui.tui.rows import MANIFEST_KEY
from podtui.tui.sanitize import clean
from podtui.tui.table import Table
from podtui.tui.tones import LinesView
from podtui.tui.why import explain_manifest, explain_pod

WHY_LINES = 2
"""Rows that the explanation takes where the pane is not low."""
LOW = 14


class PodsPane(Pane):
    """Pods, and the files of the folder that give none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("N", "sort('name')", "Sort by name", show=False, id="pods.sort-name"),
        Binding("A", "sort('age')", "Sort by age", show=False, id="pods.sort-age"),
        Binding("S", "sort('status')", "Sort by status", show=False, id="pods.sort-status"),
        Binding("R", "sort('restarts')", "Sort by restarts", show=False, id="pods.sort-restarts"),
        Binding("C", "sort('cpu')", "Sort by CPU", show=False, id="pods.sort-cpu"),
        Binding("M", "sort('memory')", "Sort by memory", show=False, id="pods.sort-memory"),
        Binding("I", "sort('ip')", "Sort by address", show=False, id="pods.sort-ip"),
    ]
    DEFAULT_CSS = """
    PodsPane {
        & > Table { height: 1fr; }
        & > LinesView { height: 2; background: $background; padding: 0 1; }
        &.-low > LinesView { height: 1; }
    }
    """
    number = 1
    name_ = "Pods"

    def __init__(self, model: Model, folder: str, *, id: str) -> None:
        super().__init__(id=id)
        self._model = model
        self._folder = folder
        self.table = Table(POD_COLUMNS, sort="name", home_pin=1, id="pods-table")
        self.why = LinesView(id="why")
        self.why.can_focus = False

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.why

    def on_resize(self) -> None:
        self.set_class(self.size.height < LOW, "-low")
        self.explain()

    # --- what is chosen

    @property
    def pod(self) -> Pod | None:
        """The pod under the cursor."""
        return self._model.pods.get(self.table.cursor_key)

    @property
    def chosen(self) -> tuple[Pod, ...]:
        """The marked pods in the order of the table, else the one under the cursor."""
        pods = self._model.pods
        marked = tuple(pods[row.key] for row in self.table.marked if row.key in pods)
        if marked:
            return marked
        return (self.pod,) if self.pod is not None else ()

    @property
    def manifest(self) -> Manifest | None:
        """The file under the cursor."""
        key = self.table.cursor_key
        if not key.startswith(MANIFEST_KEY):
            return None
        return self._model.manifests.get(key.removeprefix(MANIFEST_KEY))

    # --- what is shown

    def publish(self, changes: Changes, now: float, start_error: str) -> None:
        """Take in what changed."""
        changed: list[Row] = []
        removed: list[str] = []
        model = self._model
        for key in changes.pods:
            pod = model.pods.get(key)
            if pod is None:
                removed.append(key)
            else:
                use = model.usage.get((pod.metadata.namespace, pod.metadata.name))
                changed.append(pod_row(pod, use))
        for name in changes.manifests:
            manifest = model.manifests.get(name)
            row = manifest_row(manifest) if manifest is not None else None
            if row is None:
                removed.append(MANIFEST_KEY + name)
            else:
                changed.append(row)
        if changed or removed:
            self.table.change(changed, removed)
        self.table.empty = self._empty(start_error)
        self.table.tick(now)
        self._count()
        self.explain()

    def explain(self) -> None:
        """Say below the table why the chosen pod is as it is."""
        width = max(10, self.content_size.width - 2)
        line: Line = ()
        if self.manifest is not None:
            line = explain_manifest(self.manifest)
        elif self.pod is not None:
            line = explain_pod(self.pod, None, self.table.now)
        height = 1 if self.has_class("-low") else WHY_LINES
        rows = wrap(line, width)
        if len(rows) > height:
            rows[height - 1 :] = [(*rows[height - 1][:-1], *_cut(rows[height - 1]))]
        self.why.show(list(rows))

    def filter_by(self, wanted: Filter) -> None:
        self.table.filter_by(wanted)
        self._count()

    def on_table_marks_changed(self) -> None:
        self._count()

    def _count(self) -> None:
        shown = sum(not key.startswith(MANIFEST_KEY) for key in self.table.set.order)
        total = len(self._model.pods)
        text = f"· {total:,}" if shown == total else f"· {shown:,} of {total:,}"
        if self.table.set.filter.text:
            text += f" · /{clean(self.table.set.filter.text)}"
        states = [m.status.state for m in self._model.manifests.values()]
        wrong = sum(s in _WRONG for s in states)
        self.set_detail(text)
        self.set_note(
            f"▲ {wrong} {'file needs' if wrong == 1 else 'files need'} a look" * (wrong > 0)
        )

    def _empty(self, start_error: str) -> EmptyText:
        waiting = waiting_text(self._model, start_error)
        if waiting and not self._model.pods:
            return waiting
        if self.table.set.filter.text and self._model.pods:
            return (
                (Span(f"No pod matches /{clean(self.table.set.filter.text)}", "soft"),),
                (Span("Esc clears the filter", "muted"),),
            )
        if not self._model.is_synced(Pod):
            return ((Span("◔ asking for the pods…", "init"),),)
        folder = self._folder or "the static-pod folder"
        return (
            (Span("No pods yet.", "soft"),),
            (),
            (Span("Drop a Pod manifest into ", "muted"), Span(clean(folder), "key")),
            (Span("and it starts here; edit it and it is replaced.", "muted"),),
            (Span("?", "hint-key"), Span(" shows every key", "muted")),
        )

    def action_sort(self, key: str) -> None:
        self.table.sort_by(key)


_WRONG = frozenset({ManifestState.INVALID, ManifestState.LAST_GOOD, ManifestState.DUPLICATE})


def _cut(row: Sequence[Span]) -> Line:
    """The last span of a row with an ellipsis at its end."""
    if not row:
        return ()
    last = row[-1]
    return (Span(last.text.rstrip()[: max(0, len(last.text) - 2)] + "…", last.tone),)
