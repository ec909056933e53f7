"""The content of the list of keys, independent of its screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from textual.app import App
from textual.binding import Binding
from textual.screen import Screen

from podtui.client.protocol import AGENT, ServerCapabilities
from podtui.tui.commands.availability import is_binding_available
from podtui.tui.commands.key_registry import (
    bindings_of,
    group_order,
    group_title,
    known_bindings,
    words_of,
)
from podtui.tui.widgets.cells import Line, Span, line_width, sized, width_of, wrap
from podtui.tui.widgets.key_names import UNBOUND

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
    words: str
    here: bool = False

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]


def key_lines(
    screen: Screen[Any],
    keymap: Mapping[str, str],
    capabilities: ServerCapabilities = AGENT,
    own: Sequence[Binding] = (),
) -> list[KeyLine]:
    """Return every binding that the server supports, those of ``screen`` and its widgets first.
    ``own`` are the bindings of the user's commands and hotkeys.
    """
    app = cast("App[Any]", cast("Any", screen).app)
    here: dict[str, KeyLine] = {}
    for node in (*screen.walk_children(with_self=True), app):
        for binding in (*bindings_of(type(node)), *(own if node is app else ())):
            if is_binding_available(capabilities, binding.id or "", binding.action):
                _add(here, app, binding, keymap, here=True)
    others: dict[str, KeyLine] = {}
    for known in known_bindings():
        if not is_binding_available(capabilities, known.id, known.action):
            continue
        for key in known.keys:
            binding = Binding(key, "", known.words, id=known.id)
            if known.id not in here:
                _add(others, app, binding, keymap, here=False)
    return [*sorted(here.values(), key=_order), *others.values()]


def _order(line: KeyLine) -> tuple[int, str]:
    return group_order(line.group)


def _add(
    found: dict[str, KeyLine],
    app: App[Any],
    binding: Binding,
    keymap: Mapping[str, str],
    *,
    here: bool,
) -> None:
    name = binding.id
    if not name:
        return
    shown = tuple(app.get_key_display(each) for each in _chosen(binding, keymap.get(name)))
    before = found.get(name) or KeyLine(name, (), words_of(binding), here)
    found[name] = replace(before, shown=tuple(dict.fromkeys((*before.shown, *shown))))


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
        exact = [line for line in lines if text in line.shown]
        if exact:
            return exact
    words = text.lower().split()
    return [line for line in lines if all(word in _haystack(line) for word in words)]


def _haystack(line: KeyLine) -> str:
    return " ".join((*line.shown, line.words, line.id, group_title(line.group))).lower()


def help_lines(lines: Sequence[KeyLine], *, ids: bool, width: int) -> list[Line]:
    """Return the list as drawn; with ``ids``, it includes the binding IDs used in the settings."""
    found: list[Line] = []
    group = ""
    elsewhere = False
    for line in lines:
        if not line.here and not elsewhere:
            elsewhere = True
            group = ""
            if found:
                found += [(), (Span(" On other screens ".center(width, "─"), "muted"),)]
        if line.group != group:
            group = line.group
            found += [(), (Span(group_title(group), "heading"),)]
        found += _drawn(line, ids=ids, width=width)
    return found[1:] if found and not found[0] else found


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
    rows = wrap((Span(line.words),), max(1, width - width_of(head)))
    drawn.append((Span(head, tone), *rows[0]))
    drawn += [(Span(" " * width_of(head)), *row) for row in rows[1:]]
    if ids:
        free = width - line_width(drawn[-1])
        if width_of(line.id) + 2 <= free:
            drawn[-1] = (*drawn[-1], Span(" " * (free - width_of(line.id))), Span(line.id, "muted"))
        else:
            drawn.append((Span(" " * max(0, width - width_of(line.id))), Span(line.id, "muted")))
    return drawn
