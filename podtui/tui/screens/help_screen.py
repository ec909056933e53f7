"""The lists of all keys, generated from the bindings, and of the commands of the prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, cast

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from podtui.client.protocol import AGENT, ServerCapabilities
from podtui.tui.commands.availability import is_binding_available
from podtui.tui.commands.key_registry import (
    bindings_of,
    group_order,
    group_title,
    known_bindings,
    words_of,
)
from podtui.tui.commands.registry import Command
from podtui.tui.widgets.cells import Line, Span, line_width, sized, width_of, wrap
from podtui.tui.widgets.key_names import UNBOUND, shown_key
from podtui.tui.widgets.tones import LinesView

KEYS: Final = 16
"""Cells for the keys of a binding; longer ones shift the description."""
NARROW: Final = 50
"""Below this width, keys have half as many cells, and longer ones a separate line."""
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One binding. ``shown`` are the display names of its keys; ``here`` is true if it is active on
    the screen below.
    """

    id: str
    shown: tuple[str, ...]
    description: str
    here: bool = False
    names: tuple[str, ...] = ()
    """The keys as they are written in settings and documents, such as ``ctrl+d``."""

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]


def key_lines(
    screen: Screen[Any],
    keymap: Mapping[str, str],
    capabilities: ServerCapabilities = AGENT,
    app_bindings: Sequence[Binding] = (),
) -> list[KeyLine]:
    """Return every binding that the server supports, those of ``screen`` and its widgets first.
    ``app_bindings`` are those of the user's commands and hotkeys."""
    app = cast("App[Any]", cast("Any", screen).app)
    here: dict[str, KeyLine] = {}
    for node in (*screen.walk_children(with_self=True), app):
        for binding in (*bindings_of(type(node)), *(app_bindings if node is app else ())):
            if is_binding_available(capabilities, binding.id or "", binding.action):
                _add(here, app, binding, keymap, here=True)
    others: dict[str, KeyLine] = {}
    for supported in known_bindings():
        if not is_binding_available(capabilities, supported.id, supported.action):
            continue
        for key in supported.keys:
            binding = Binding(key, "", supported.description, id=supported.id)
            if supported.id not in here:
                _add(others, app, binding, keymap, here=False)
    return [*sorted(here.values(), key=_order), *others.values()]


def _order(line: KeyLine) -> tuple[int, str]:
    return group_order(line.group)


def _add(
    by_id: dict[str, KeyLine],
    app: App[Any],
    binding: Binding,
    keymap: Mapping[str, str],
    *,
    here: bool,
) -> None:
    name = binding.id
    if not name:
        return
    chosen = _chosen(binding, keymap.get(name))
    shown = map(app.get_key_display, chosen)
    names = (shown_key(each.key) for each in chosen)
    before = by_id.get(name) or KeyLine(name, (), words_of(binding), here)
    by_id[name] = replace(
        before,
        shown=tuple(dict.fromkeys((*before.shown, *shown))),
        names=tuple(dict.fromkeys((*before.names, *names))),
    )


def _chosen(binding: Binding, keys: str | None) -> list[Binding]:
    """Return the binding for each of the user's keys."""
    if keys is None:
        return [binding]
    return [binding.with_key(key) for key in keys.split(",") if key != UNBOUND]


def matching(lines: Iterable[KeyLine], wanted: str) -> list[KeyLine]:
    """Return the lines that contain every word of ``wanted`` in key, description, ID or title. A
    single character is matched as a key first.
    """
    text = wanted.strip()
    if len(text) == 1:
        exact = [line for line in lines if text in (*line.shown, *line.names)]
        if exact:
            return exact
    tokens = text.lower().split()
    return [line for line in lines if all(token in _search_text(line) for token in tokens)]


def _search_text(line: KeyLine) -> str:
    return " ".join(
        (*line.shown, *line.names, line.description, line.id, group_title(line.group))
    ).lower()


def help_lines(lines: Sequence[KeyLine], *, ids: bool, width: int) -> list[Line]:
    """Return the list as drawn; with ``ids``, it includes the binding IDs used in the settings."""
    result: list[Line] = []
    group = ""
    elsewhere = False
    for line in lines:
        if not line.here and not elsewhere:
            elsewhere = True
            group = ""
            if result:
                result += [(), (Span(" On other screens ".center(width, "─"), "muted"),)]
        if line.group != group:
            group = line.group
            result += [(), (Span(group_title(group), "heading"),)]
        result += _drawn(line, ids=ids, width=width)
    return result[1:] if result and not result[0] else result


def _drawn(line: KeyLine, *, ids: bool, width: int) -> list[Line]:
    keys = "  ".join(line.shown) or NONE
    tone = "hint-key" if line.shown else "muted"
    narrow = width < NARROW
    indent, cells = ("", KEYS // 2) if narrow else ("  ", KEYS)
    head = f"{indent}{sized(keys, cells) if width_of(keys) < cells else keys + ' '}"
    drawn: list[Line] = []
    if narrow and width_of(head) > cells:
        drawn += wrap((Span(head.rstrip(), tone),), width)
        head = " " * cells
    rows = wrap((Span(line.description),), max(1, width - width_of(head)))
    drawn.append((Span(head, tone), *rows[0]))
    drawn += [(Span(" " * width_of(head)), *row) for row in rows[1:]]
    if ids:
        free = width - line_width(drawn[-1])
        if width_of(line.id) + 2 <= free:
            drawn[-1] = (*drawn[-1], Span(" " * (free - width_of(line.id))), Span(line.id, "muted"))
        else:
            drawn.append((Span(" " * max(0, width - width_of(line.id))), Span(line.id, "muted")))
    return drawn


class HelpScreen(ModalScreen[None]):
    """The searchable list of keys. ``lines`` are all bindings, those of the screen below first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Close", id="help.back",
                tooltip="Leave the search, then close the list"),
        Binding("q,question_mark", "dismiss", "Close", id="help.close", tooltip="Close the list"),
        Binding("slash", "search", "Search", id="help.search",
                tooltip="Search by word, by key or by id"),
        Binding("i", "ids", "Ids", id="help.ids",
                tooltip="Show the ids of bindings, to change their keys"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        & > Vertical {
            width: 90%; max-width: 100; height: 90%;
            border: round $pane-border-focus; background: $background; padding: 0 1;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
        &.-narrow > Vertical { width: 100%; height: 100%; padding: 0; }
        LinesView { height: 1fr; padding: 0 1; scrollbar-gutter: stable; }
        Input {
            display: none; border: none; height: 1; padding: 0 1; background: $panel;
            &:focus { border: none; background-tint: $panel 0%; }
            &.-open { display: block; }
        }
    }
    """
    AUTO_FOCUS = "LinesView"

    def __init__(self, lines: Sequence[KeyLine]) -> None:
        super().__init__()
        self._lines = tuple(lines)
        self._ids = False

    def compose(self) -> ComposeResult:
        with Vertical() as frame:
            frame.border_title = " Keys "
            yield LinesView(id="help")
            yield Input(placeholder="a word, a key, or an id", select_on_focus=False)

    def on_resize(self) -> None:
        self.set_class(self.size.width < NARROW, "-narrow")
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        view = self.query_one(LinesView)
        text = self.query_one(Input).value
        lines = matching(self._lines, text)
        width = max(1, view.scrollable_content_region.width)
        view.show(help_lines(lines, ids=self._ids, width=width))
        self.query_one(Vertical).border_subtitle = (
            f" {len(lines)} of {len(self._lines)} · esc clears " if text
            else " / search · i ids · esc closes " if width >= NARROW else " / search · esc "
        )  # fmt: skip

    def action_search(self) -> None:
        entry = self.query_one(Input)
        entry.add_class("-open")
        self.set_focus(entry)

    def action_ids(self) -> None:
        self._ids = not self._ids
        self._show()

    def action_back(self) -> None:
        entry = self.query_one(Input)
        if entry.has_class("-open"):
            entry.remove_class("-open")
            entry.value = ""
            self.set_focus(self.query_one(LinesView))
        else:
            self.dismiss()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one(LinesView).scroll_home(animate=False)
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.set_focus(self.query_one(LinesView))


class AliasesScreen(ModalScreen[None]):
    """The commands of the prompt with their aliases."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+a", "dismiss", "Close", id="aliases.close", tooltip="Close"),
    ]
    DEFAULT_CSS = """
    AliasesScreen {
        align: center middle;
        & > LinesView {
            width: 90%; max-width: 76; height: auto; max-height: 90%;
            border: round $pane-border-focus; background: $background; padding: 0 1;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
    }
    """

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__()
        self._commands = tuple(commands)

    def compose(self) -> ComposeResult:
        view = LinesView(id="aliases")
        view.border_title = " Commands "
        view.border_subtitle = " : opens the prompt · esc closes "
        yield view

    def on_resize(self) -> None:
        view = self.query_one(LinesView)
        width = min(76, int(self.size.width * 0.9)) - 5
        lines = command_lines(self._commands, width)
        view.styles.height = len(lines) + 2
        view.show(lines)


def command_lines(commands: Sequence[Command], width: int) -> list[Line]:
    """Return syntax, aliases and description of each command; on two lines on narrow screens."""
    lines: list[Line] = []
    for command in commands:
        typed, names = f":{command.name} {command.argument}", " ".join(command.aliases)
        if width < NARROW:
            lines.append((Span(f"{typed} ", "hint-key"), Span(names, "key")))
            lines += [(Span("  "), *row) for row in wrap((Span(command.help),), max(1, width - 2))]
        else:
            head = (Span(sized(typed, 17) + " ", "hint-key"), Span(sized(names, 13), "key"))
            lines.append((*head, Span(command.help)))
    return lines
