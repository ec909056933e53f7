"""The pods pane: the table, and in its border the explanation of the pod under the cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.api.local import Manifest
from podtui.api.v1 import Pod
from podtui.text.terminal_text import plural
from podtui.tui.commands.session import session_of
from podtui.tui.model.model import Changes, Model
from podtui.tui.model.usage import Usage
from podtui.tui.views.events import MANIFEST_KEY
from podtui.tui.views.pods.rows import (
    CLUSTER_COLUMNS,
    FILES_KEY,
    POD_COLUMNS,
    RequestsAndLimits,
    Totals,
    files_row,
    files_text,
    is_wrong,
    manifest_row,
    measured_row,
    pod_row,
    requests_and_limits,
    shares_row,
)
from podtui.tui.views.pulls import pull_line, pull_of
from podtui.tui.views.waiting import Waiting, refused_text, waiting_text
from podtui.tui.widgets.cells import Line, Row, Span, line_width, sized, width_of, wrap
from podtui.tui.widgets.columns import ColumnChoice
from podtui.tui.widgets.filters import Filter
from podtui.tui.widgets.format import natural_key
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.table_pane import TablePane
from podtui.tui.widgets.tones import LinesView

if TYPE_CHECKING:
    from podtui.tui.views.why import Explanations

WHY_ROWS: Final = 2
"""Maximum rows of the explanation."""
MORE: Final = (Span("  X", "hint-key"), Span(": details", "muted"))
"""Shown after an explanation that does not fit."""


class PodsPane(TablePane):
    """The pods, and the manifest files that define no pod."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("N", "sort('name')", "Sort by name", show=False, id="pods.sort-name"),
        Binding("A", "sort('age')", "Sort by age", show=False, id="pods.sort-age"),
        Binding(
            "S",
            "sort('status')",
            "Sort by status",
            show=False,
            id="pods.sort-status",
            tooltip="Sort by status, failing pods first",
        ),
        Binding("R", "sort('restarts')", "Sort by restarts", show=False, id="pods.sort-restarts"),
        Binding("C", "sort('cpu')", "Sort by CPU", show=False, id="pods.sort-cpu"),
        Binding("M", "sort('memory')", "Sort by memory", show=False, id="pods.sort-memory"),
        Binding("I", "sort('ip')", "Sort by address", show=False, id="pods.sort-ip"),
    ]
    DEFAULT_CSS = """
    PodsPane {
        border-subtitle-align: left; border-subtitle-color: $foreground;
        & > Table { height: 1fr; }
        & > LinesView { height: 1; background: $background; padding: 0 1; display: none; }
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
        self.table.no_match = ()  # `_empty` says more
        self.totals = Totals()
        self._waiting = Waiting(model)
        self._asked: dict[str, RequestsAndLimits] = {}
        self._wrong: dict[str, Manifest] = {}
        """The invalid files by name."""
        self._unwell: dict[tuple[str, str], str] = {}
        """The keys of unhealthy pods by namespace and name."""
        self._files_shown = False
        """True after files were shown, which is when the pods are known."""
        self._expanded = False
        """True if the user wants each invalid file in a row of its own."""
        self._folded = False
        """True if the invalid files share one row."""
        self._apart = False
        """True if the namespace has its own column."""
        self.explanation: list[Line] = []
        """The explanation of the row under the cursor; its last row is in the lower border."""
        self.why = LinesView(id="why")
        """The row of the explanation above the border, if it needs two."""
        self.why.can_focus = False
        self._explained: tuple[Line, int] = ((), 0)
        self._pressed_row = -1

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.why

    def on_resize(self) -> None:
        self.explain()
        self.call_after_refresh(self._resized)

    def _resized(self) -> None:
        self._arrange_files()
        self._name_pods()
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

    @property
    def is_on_files(self) -> bool:
        """True if the cursor is on the row that stands for the invalid files."""
        return self.table.cursor_key == FILES_KEY

    @property
    def namespaces(self) -> dict[str, int]:
        """The namespaces with their number of pods."""
        return Counter(pod.metadata.namespace for pod in self._model.pods.values())

    # --- display

    def publish(self, changes: Changes, now: float, start_error: str) -> None:
        """Update the table from the changes."""
        changed: list[Row] = []
        removed: list[str] = []
        model = self._model
        for key in changes.pods | self._explained_by(changes):
            pod = model.pods.get(key)
            if pod is None:
                removed.append(key)
                self.totals.drop(key)
                self._asked.pop(key, None)
            elif key in changes.measured and key in self._asked:
                before = self.table.set.rows[key]
                changed.append(measured_row(before, self._use(pod), self._asked[key]))
            else:
                changed.append(self._row(pod, now))
        if removed:
            self._unwell = {name: key for name, key in self._unwell.items() if key in model.pods}
        if not model.is_synced(Pod):
            # The cursor begins on a pod, not on a file that is known earlier.
            names = frozenset[str]()
        elif not self._files_shown:
            self._files_shown = True
            self._waiting.update(changes)
            names = frozenset(model.manifests)
        else:
            names = changes.manifests | self._waiting.update(changes)
        for name in names:
            manifest = model.manifests.get(name)
            if manifest is not None and is_wrong(manifest):
                self._wrong[name] = manifest
            else:
                self._wrong.pop(name, None)
            row = self._file_row(name)
            if row is None:
                removed.append(MANIFEST_KEY + name)
            else:
                changed.append(row)
        if changed or removed:
            self.table.change(changed, removed)
        pods_changed = bool(changes.pods - changes.measured)
        if names or pods_changed:
            self._arrange_files()
        if pods_changed or changes.node:
            self._need_columns()
        came = self.table.tick(now)
        if not len(self.table.set):
            self.table.empty = self._empty(start_error)
        if changes or came:
            self.update_title()
        self.explain()

    def _explained_by(self, changes: Changes) -> frozenset[str]:
        """Return the unhealthy pods with new events, which may tell the cause."""
        if not self._unwell:
            return frozenset()
        events = (self._model.events.get(key) for key in changes.events)
        about = {(e.involvedObject.namespace, e.involvedObject.name) for e in events if e}
        return frozenset(self._unwell[name] for name in about if name in self._unwell)

    def _row(self, pod: Pod, moment: float) -> Row:
        ask = requests_and_limits(pod)
        row = pod_row(
            pod, self._use(pod),
            now=moment, ask=ask, namespaced=self._apart, cause_of=self._cause_of,
        )  # fmt: skip
        self._asked[row.key] = ask
        self.totals.put(pod, row, ask)
        name = (pod.metadata.namespace, pod.metadata.name)
        if row.fault:
            self._unwell[name] = row.key
        elif self._unwell.get(name) == row.key:
            del self._unwell[name]
        return row

    def _cause_of(self, pod: Pod) -> str:
        return self._explanations.cause_of(pod, self.table.now)

    def _file_row(self, name: str) -> Row | None:
        manifest = self._model.manifests.get(name)
        if manifest is None or (self._folded and name in self._wrong):
            return None
        return manifest_row(manifest, self._waiting.reason_of(name))

    def _arrange_files(self) -> None:
        """Give each invalid file its row, or one row to all of them if they are many."""
        # Without the row of titles, but with the row that a long explanation takes: moving the
        # cursor must not fold the rows.
        height = self.content_size.height - 1
        # A filter must find each file.
        shares = not self.table.set.filter.text and shares_row(
            len(self._wrong), len(self._model.pods), height
        )
        folded = shares and not self._expanded
        changed: list[Row] = []
        removed: list[str] = []
        if shares:
            names = sorted(self._wrong, key=natural_key)
            changed.append(files_row([self._wrong[n] for n in names], expanded=self._expanded))
        else:
            removed.append(FILES_KEY)
        if folded is not self._folded:
            self._folded = folded
            if folded and self.manifest is not None and self.manifest.metadata.name in self._wrong:
                self.table.change(changed)
                self.table.select(FILES_KEY)
            if folded:
                removed += [MANIFEST_KEY + name for name in self._wrong]
            else:
                changed += [row for row in map(self._file_row, self._wrong) if row is not None]
        self.table.change(changed, removed)

    def toggle_files(self) -> None:
        """List the invalid files that share one row, or fold them again."""
        self._expanded = not self._expanded
        self._arrange_files()
        self.update_title()

    def show_scope(self, namespace: str) -> None:
        super().show_scope(namespace)
        self._name_pods()

    def filter_by(self, wanted: Filter) -> None:
        super().filter_by(wanted)
        self._arrange_files()
        self.update_title()

    def clear_filter(self) -> None:
        super().clear_filter()
        self._arrange_files()
        self.update_title()

    def _use(self, pod: Pod) -> Usage | None:
        return self._model.usage.get((pod.metadata.namespace, pod.metadata.name))

    def _need_columns(self) -> None:
        needed = {"namespace"} if len(self.namespaces) > 1 else set[str]()
        if self._model.member_of:
            needed.add("source")
        self.table.need_columns(frozenset(needed))
        self._name_pods()

    def _name_pods(self) -> None:
        """Name the pods without their namespaces if these have their own column, or if only one is
        shown."""
        apart = bool(self.scope) or self.table.shows("namespace")
        if apart is not self._apart:
            self._apart = apart
            moment = self.table.now
            self.table.change([self._row(pod, moment) for pod in self._model.pods.values()])

    def show_columns(self, choice: ColumnChoice) -> None:
        super().show_columns(choice)
        self._name_pods()
        self.update_title()

    @cached_property
    def _explanations(self) -> Explanations:
        # Created late: importing the many rules would delay the first paint.
        from podtui.tui.views.why import Explanations

        return Explanations(self._model)

    def explain(self) -> None:
        """Update the explanation of the selected row in the lower border."""
        line: Line = ()
        if self.manifest is not None:
            from podtui.tui.views.why import explain_manifest

            line = explain_manifest(self.manifest, self._model.node)
        elif self.pod is not None:
            pull = pull_of(self.pod, self._model.pods.values())
            explained = self._explanations
            line = pull_line(pull) if pull else explained.of(self.pod, self.table.now)
        elif self.is_on_files:
            line = (Span(files_text(list(self._wrong.values()))),)
        width = max(10, self.outer_size.width - 6)
        if (line, width) == self._explained:
            return
        self._explained = line, width
        rows = wrap(line, width)
        if len(rows) > WHY_ROWS:
            # The cause matters more than the remedy, which one key shows.
            cause = takewhile(lambda span: span.tone != "hint-key", line)
            rows = wrap((*cause, *MORE), width)
        if len(rows) > WHY_ROWS:
            rows[WHY_ROWS - 1 :] = [(*_cut(rows[WHY_ROWS - 1], width - line_width(MORE)), *MORE)]
        self.explanation = rows
        # The last row is in the border, the one before takes a row from the table.
        self.why.display = len(rows) > 1
        self.why.show(rows[:-1])
        self.set_note(rows[-1])

    def on_table_marks_changed(self) -> None:
        self.update_title()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed_row = event.screen_y

    async def on_click(self, event: events.Click) -> None:
        on_border = event.screen_y == self.region.bottom - 1
        # A drag of the border also ends with a click.
        on_border = on_border and event.screen_y == self._pressed_row
        on_why = self.why.display and event.screen_y == self.why.region.y
        if event.button == 1 and (on_border or on_why):
            await self.run_action("screen.why")

    def update_title(self) -> None:
        table = self.table
        shown = sum(key in self._model.pods for key in table.set.order)
        total = len(self._model.pods)
        text = f"· {total:,}" if shown == total else f"· {shown:,} of {total:,}"
        marked = len(table.marked)
        details = self.filter_words + (f" · ◆ {marked:,} marked" if marked else "")
        if self._wrong:
            hidden = " hidden" if self.scope else ""  # an invalid file is in no namespace
            details += f" · ▲ {plural(len(self._wrong), 'file')}{hidden}"
        if table.left_out and (table.choice.wide or table.choice.chosen is not None):
            details += f" · {plural(table.left_out, 'more column')} in a wider pane"
        self.set_detail(text + details)

    def _empty(self, start_error: str) -> tuple[Line, ...]:
        waiting = waiting_text(self._model, start_error) or refused_text(self._model, Pod)
        if waiting and not self._model.pods:
            return waiting
        rows = self.table.set
        if rows.is_filtered and self._model.pods:
            text = rows.filter.text
            message = f"No pod matches /{clean(text)}" if text else "No unhealthy pods"
            return (
                (Span(message, "soft"),),
                (Span("Esc clears the filter", "muted"),),
            )
        if rows.scope.text and self._model.pods:
            return (
                (Span(f"No pods in namespace {self.namespace}", "soft"),),
                (Span(":ns", "hint-key"), Span(" selects another one", "muted")),
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
