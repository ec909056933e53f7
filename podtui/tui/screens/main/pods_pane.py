"""The pods pane: the table, and below it the explanation of the pod under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.api.local import Manifest
from podtui.api.v1 import Pod
from podtui.terminal_text import plural
from podtui.tui.commands.session import session_of
from podtui.tui.model.model import Changes, Model
from podtui.tui.model.usage import Usage
from podtui.tui.views.events import MANIFEST_KEY
from podtui.tui.views.pods.rows import (
    CLUSTER_COLUMNS,
    POD_COLUMNS,
    RequestsAndLimits,
    Totals,
    is_wrong,
    manifest_row,
    measured_row,
    pod_row,
    requests_and_limits,
)
from podtui.tui.views.pulls import pull_line, pull_of
from podtui.tui.views.waiting import Waiting, refused_text, waiting_text
from podtui.tui.widgets.cells import Line, Row, Span, line_width, sized, width_of, wrap
from podtui.tui.widgets.columns import ColumnChoice
from podtui.tui.widgets.format import natural_key
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.table_pane import TablePane
from podtui.tui.widgets.tones import LinesView

if TYPE_CHECKING:
    from podtui.tui.views.why import Explanations

WHY_LINES = 2
"""Rows of the explanation, unless the pane is low."""
LOW = 8
MOST_ON_TOP = 3
"""Maximum invalid files above the pods; the others are below them."""
MORE: Final = (Span("  X", "hint-key"), Span(": details", "muted"))
"""Shown after an explanation that does not fit."""


class PodsPane(TablePane):
    """The pods, and the manifest files that define no pod."""

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

    def __init__(
        self, model: Model, folder: Callable[[], str], is_missing: Callable[[], bool], *, id: str
    ) -> None:
        super().__init__(id=id)
        self._model = model
        self._folder = folder
        self._is_missing = is_missing
        columns = CLUSTER_COLUMNS if model.server.is_cluster else POD_COLUMNS
        self.table = Table(columns, sort="name", home_pin=1, id="pods-table")
        self.totals = Totals()
        self._waiting = Waiting(model)
        self._asked: dict[str, RequestsAndLimits] = {}
        self._on_top: frozenset[str] = frozenset()
        """Names of the invalid files above the pods."""
        self._explained: tuple[Line, int, int] = ((), 0, 0)
        self.why = LinesView(id="why")
        self.why.can_focus = False

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.why

    def on_resize(self) -> None:
        self.set_class(self.size.height < LOW, "-low")
        self.explain()
        self.call_after_refresh(self._resized)

    def _resized(self) -> None:
        rows = map(self._file_row, self._place_files())
        self.table.change([row for row in rows if row is not None])
        self.update_title()

    # --- selection

    @property
    def pod(self) -> Pod | None:
        """The pod under the cursor."""
        return self._model.pods.get(self.table.cursor_key)

    @property
    def chosen(self) -> tuple[Pod, ...]:
        """The marked pods in the order of the table, else the pod under the cursor."""
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

    # --- display

    def publish(self, changes: Changes, now: float, start_error: str) -> None:
        """Update the table from the changes."""
        changed: list[Row] = []
        removed: list[str] = []
        model = self._model
        namespaced = self._namespaced
        for key in changes.pods:
            pod = model.pods.get(key)
            if pod is None:
                removed.append(key)
                self.totals.drop(key)
                self._asked.pop(key, None)
            elif key in changes.measured and key in self._asked:
                before = self.table.set.rows[key]
                changed.append(measured_row(before, self._use(pod), self._asked[key]))
            else:
                changed.append(self._row(pod, namespaced, now))
        names = changes.manifests | self._waiting.update(changes)
        if changes.manifests:
            names |= self._place_files()
        for name in names:
            row = self._file_row(name)
            if row is None:
                removed.append(MANIFEST_KEY + name)
            else:
                changed.append(row)
        if changed or removed:
            self.table.change(changed, removed)
        came = self.table.tick(now)
        if not len(self.table.set):
            self.table.empty = self._empty(start_error)
        if changes or came:
            self.update_title()
        self.explain()

    def _row(self, pod: Pod, namespaced: bool, moment: float) -> Row:
        ask = requests_and_limits(pod)
        row = pod_row(pod, self._use(pod), now=moment, ask=ask, namespaced=namespaced)
        self._asked[row.key] = ask
        self.totals.put(pod, row, ask)
        return row

    def _file_row(self, name: str) -> Row | None:
        manifest = self._model.manifests.get(name)
        if manifest is None:
            return None
        return manifest_row(manifest, self._waiting.reason_of(name), on_top=name in self._on_top)

    def _place_files(self) -> frozenset[str]:
        """Choose the invalid files above the pods, leaving most rows to pods. Return the files to
        move.
        """
        wrong = (name for name, one in self._model.manifests.items() if is_wrong(one))
        room = min(MOST_ON_TOP, self.table.size.height // 3)
        selected = frozenset(sorted(wrong, key=natural_key)[:room])
        moved, self._on_top = selected ^ self._on_top, selected
        return moved

    def _use(self, pod: Pod) -> Usage | None:
        return self._model.usage.get((pod.metadata.namespace, pod.metadata.name))

    @property
    def _namespaced(self) -> bool:
        """True if a separate column shows the namespace."""
        return any(POD_COLUMNS[n].key == "namespace" for n in self.table.shown_columns())

    def show_columns(self, choice: ColumnChoice) -> None:
        before = self._namespaced
        super().show_columns(choice)
        now = self._namespaced
        if now is not before:
            moment = self.table.now
            self.table.change([self._row(pod, now, moment) for pod in self._model.pods.values()])
        self.update_title()

    @cached_property
    def _explanations(self) -> Explanations:
        # Created late: importing the many rules would delay the first paint.
        from podtui.tui.views.why import Explanations

        return Explanations(self._model)

    def explain(self) -> None:
        """Update the explanation of the selected row below the table."""
        width = max(10, self.content_size.width - 2)
        line: Line = ()
        if self.manifest is not None:
            from podtui.tui.views.why import explain_manifest

            line = explain_manifest(self.manifest, self._model.node)
        elif self.pod is not None:
            pull = pull_of(self.pod, self._model.pods.values())
            explained = self._explanations
            line = pull_line(pull) if pull else explained.of(self.pod, self.table.now)
        height = 1 if self.has_class("-low") else WHY_LINES
        if (line, width, height) == self._explained:
            return
        self._explained = line, width, height
        rows = wrap(line, width)
        if len(rows) > height:
            # The cause matters more than the remedy, which one key shows.
            cause = takewhile(lambda span: span.tone != "hint-key", line)
            rows = wrap((*cause, *MORE), width)
        if len(rows) > height:
            rows[height - 1 :] = [(*_cut(rows[height - 1], width - line_width(MORE)), *MORE)]
        self.why.show(list(rows))

    def on_table_marks_changed(self) -> None:
        self.update_title()

    async def on_click(self, event: events.Click) -> None:
        if event.widget is self.why and event.button == 1:
            await self.run_action("screen.why")

    def update_title(self) -> None:
        table = self.table
        shown = sum(not key.startswith(MANIFEST_KEY) for key in table.set.order)
        total = len(self._model.pods)
        text = f"· {total:,}" if shown == total else f"· {shown:,} of {total:,}"
        marked = len(table.marked)
        self.set_detail(text + self.filter_words + (f" · ◆ {marked:,} marked" if marked else ""))
        wrong = sum(map(is_wrong, self._model.manifests.values()))
        notes: list[str] = []
        if wrong:
            below = wrong - len(self._on_top)
            where = f", {below:,} below the pods" if below and self._model.pods else ""
            verb = "file needs" if wrong == 1 else "files need"
            notes.append(f"▲ {wrong:,} {verb} attention{where}")
        if table.left_out and (table.choice.wide or table.choice.chosen is not None):
            notes.append(f"{plural(table.left_out, 'more column')} in a wider pane")
        self.set_note(" · ".join(notes))

    def _empty(self, start_error: str) -> tuple[Line, ...]:
        waiting = waiting_text(self._model, start_error) or refused_text(self._model, Pod)
        if waiting and not self._model.pods:
            return waiting
        if self.table.set.is_filtered and self._model.pods:
            text = self.table.set.filter.text
            words = f"No pod matches /{clean(text)}" if text else "No unhealthy pods"
            return (
                (Span(words, "soft"),),
                (Span("Esc clears the filter", "muted"),),
            )
        if not self._model.is_synced(Pod):
            return ((Span("◔ loading the pods…", "init"),),)
        if self._model.server.is_cluster:
            where = clean(self._model.namespace or "")
            return ((Span(f"No pods in {where}." if where else "No pods.", "soft"),),)
        folder = self._folder() or "the static-pod folder"
        missing: tuple[Line, ...] = ()
        keys: Line = (Span("?", "hint-key"), Span(" shows all keys", "muted"))
        if not session_of(self).readonly:
            keys = (Span("n", "hint-key"), Span(" creates one from a template, ", "muted"), *keys)
        if self._is_missing():
            missing = ((Span("That folder does not exist yet: create it first.", "warning"),),)
        return (
            (Span("No pods yet.", "soft"),),
            (),
            (Span("Put a Pod manifest into ", "muted"), Span(clean(folder), "key")),
            (Span("to start the pod; edit the file to replace it.", "muted"),),
            *missing,
            keys,
        )

    def action_sort(self, key: str) -> None:
        self.table.sort_by(key)


def _cut(row: Sequence[Span], room: int) -> Line:
    """Return the beginning of a row that fits, with an ellipsis."""
    kept: list[Span] = []
    room -= 1
    for span in row:
        text = span.text if width_of(span.text) <= room else sized(span.text, room)[:-1]
        kept.append(Span(text, span.tone))
        room -= width_of(text)
    return (*kept[:-1], Span(kept[-1].text.rstrip() + "…", kept[-1].tone)) if kept else ()
