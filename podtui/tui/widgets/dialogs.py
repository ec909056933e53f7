"""Modal dialogs: confirmations with buttons that name the action, a prompt for text, and a choice
from a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Input

from podtui.tui.widgets.cells import Line, Span, line_width, width_of, wrap
from podtui.tui.widgets.sanitize import literal
from podtui.tui.widgets.tones import LinesView, Toned

CANCEL = "cancel"
WIDEST = 96
NARROW = 60
"""Cells of a terminal below which a dialog takes the whole width."""
GAP = 2
SCROLLBAR = 1
"""Cells that the scrollbar of a long text takes."""
MAX_PADDED_WIDTH: Final = 40
_INDENT = 4
"""Cells before the continuation of an item of a `Picker`."""
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Option:
    """One answer. ``key`` selects it directly; ``danger`` marks a destructive action."""

    id: str
    label: str
    key: str
    danger: bool = False


CANCELS = Option(CANCEL, "Cancel", "n")


class Buttons(Toned):
    """The options on one line, or one per line if they are too long; the selected one in
    brackets."""

    DEFAULT_CSS = "Buttons { height: 1; background: $background; }"
    chosen: reactive[int] = reactive(0)

    class Pressed(Message):
        def __init__(self, option: Option) -> None:
            super().__init__()
            self.option = option

    def __init__(self, options: Sequence[Option]) -> None:
        super().__init__()
        self.options = tuple(options)

    def _spans(self, index: int) -> Line:
        option, selected = self.options[index], index == self.chosen
        text = f"[ {option.label} ]" if selected else f"  {option.label}  "
        tone = "tab-active" if selected else "error" if option.danger else "soft"
        return (Span(f"{option.key} ", "hint-key"), Span(text, tone))

    @property
    def total_width(self) -> int:
        """The width of all options on one line."""
        widths = [line_width(self._spans(index)) for index in range(len(self.options))]
        return sum(widths) + GAP * (len(widths) - 1)

    def fit(self, width: int) -> int:
        """Set the height for a width in cells, and return it."""
        lines = 1 if self.total_width <= width else len(self.options)
        self.styles.height = lines
        return lines

    def _rows(self) -> list[list[tuple[int, int, int]]]:
        """Return for each line the list of (option index, first cell, cell after the last)."""
        if self.size.height > 1:
            return [[(n, 0, self.size.width)] for n in range(len(self.options))]
        start = max(0, (self.size.width - self.total_width) // 2)
        row: list[tuple[int, int, int]] = []
        for index in range(len(self.options)):
            end = start + line_width(self._spans(index))
            row.append((index, start, end))
            start = end + GAP
        return [row]

    def render_line(self, y: int) -> Strip:
        base: Style = self.rich_style
        rows, segments, column = self._rows(), list[Segment](), 0
        for index, start, end in rows[y] if y < len(rows) else ():
            segments.append(Segment(" " * (start - column), base))
            segments += self.segments(self._spans(index), base)
            column = end
        return Strip(segments).crop_extend(0, self.size.width, base)

    def on_click(self, event: events.Click) -> None:
        rows = self._rows()
        for index, start, end in rows[event.y] if event.y < len(rows) else ():
            if start <= event.x < end:
                self.post_message(self.Pressed(self.options[index]))
                return


class Dialog(ModalScreen[str]):
    """Asks a question and returns the id of the selected option; Esc returns `CANCEL`.

    ``lines`` are wrapped, and scroll if there are too many. Enter selects the first option by
    default.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,shift+tab,h", "choose(-1)", "Before", show=False, id="dialog.before",
                tooltip="Select the previous button"),
        Binding("right,tab,l", "choose(1)", "Next", show=False, id="dialog.next",
                tooltip="Select the next button"),
        Binding("enter", "press", "Press", id="dialog.press", tooltip="Press the selected button"),
        Binding("escape,q", "cancel", "Cancel", id="dialog.cancel", tooltip="Cancel"),
        Binding("up,k", "scroll(-1)", "Up", show=False, id="dialog.up", tooltip="Scroll up"),
        Binding("down,j", "scroll(1)", "Down", show=False, id="dialog.down",
                tooltip="Scroll down"),
        Binding("pageup", "scroll(-10)", "Page up", show=False, id="dialog.page-up",
                tooltip="Scroll up a page"),
        Binding("pagedown", "scroll(10)", "Page down", show=False, id="dialog.page-down",
                tooltip="Scroll down a page"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        & > Vertical {
            height: auto; max-height: 90%;
            border: round $pane-border-focus; background: $background; padding: 1 2;
            border-title-color: $pane-title-focus;
        }
        & LinesView { height: auto; min-height: 1; background: $background; margin-bottom: 1; }
    }
    """
    AUTO_FOCUS = ""

    def __init__(self, title: str, lines: Sequence[Line], options: Sequence[Option]) -> None:
        super().__init__()
        self._title = title
        self._text = tuple(lines)
        self.buttons = Buttons(options)
        self.view = LinesView()
        self.box = Vertical(self.view, self.buttons)

    def compose(self) -> ComposeResult:
        self.box.border_title = literal(f" {self._title} ")
        yield self.box

    def on_mount(self) -> None:
        self._place()

    def on_resize(self) -> None:
        self._place()

    def _place(self) -> None:
        """Fit the dialog to the longest line and to the height of the screen."""
        # On a narrow terminal, the dialog takes the whole width: next to it, there would be only
        # fragments of the screen below.
        narrow = self.size.width < NARROW
        widest = min(WIDEST, max(20, self.size.width - 4 * (not narrow)) - 6)
        longest = max(map(line_width, self._text), default=0)
        wanted = max(longest, self.buttons.total_width, len(self._title) + 4, 30)
        inner = widest if narrow else min(widest, wanted)
        lines = self._wrapped(inner)
        room = int(self.size.height * 0.9) - 5 - self.buttons.fit(inner)
        if len(lines) > room:
            lines = self._wrapped(min(inner, widest - SCROLLBAR))
            inner = min(inner + SCROLLBAR, widest)
        height = max(1, min(len(lines), room))
        self.box.styles.width = inner + 6
        self.view.styles.height = height
        self.view.show(lines)

    def _wrapped(self, width: int) -> list[Line]:
        return [row for line in self._text for row in (wrap(line, width, indent=4) or [()])]

    def on_key(self, event: events.Key) -> None:
        for option in self.buttons.options:
            if event.key == option.key:
                event.stop()
                self.dismiss(option.id)
                return

    def on_buttons_pressed(self, message: Buttons.Pressed) -> None:
        self.dismiss(message.option.id)

    def action_choose(self, step: int) -> None:
        self.buttons.chosen = (self.buttons.chosen + step) % len(self.buttons.options)

    def action_press(self) -> None:
        self.dismiss(self.buttons.options[self.buttons.chosen].id)

    def action_cancel(self) -> None:
        self.dismiss(CANCEL)

    def action_scroll(self, rows: int) -> None:
        self.view.scroll_relative(y=rows, animate=False)


def confirmation(title: str, lines: Sequence[Line], verb: str) -> Dialog:
    """Return a dialog with the options `CANCEL` (the default) and ``verb``, with the id ``yes``."""
    return Dialog(title, lines, (CANCELS, Option("yes", verb, "y", danger=True)))


class TextDialog(ModalScreen[str | None]):
    """Asks for a line of text; returns None if cancelled.

    ``check`` returns the error message for a text, empty if it is valid. With ``selected``, typing
    replaces the initial text.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="ask.cancel", tooltip="Cancel"),
    ]
    DEFAULT_CSS = """
    TextDialog {
        align: center middle;
        & > Vertical {
            height: auto; width: 90%; max-width: 72;
            border: round $pane-border-focus; background: $background; padding: 1 2;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
        & LinesView { height: auto; background: $background; }
        & Input { border: none; height: 1; padding: 0 1; background: $panel; margin: 1 0; }
        & Input:focus { border: none; background-tint: $panel 0%; }
    }
    """

    def __init__(
        self,
        title: str,
        lines: Sequence[Line] = (),
        *,
        text: str = "",
        selected: bool = False,
        check: Callable[[str], str] = lambda text: "",
    ) -> None:
        super().__init__()
        self._title = title
        self._text = tuple(lines)
        self._check = check
        self._begin = text
        self._selected = selected
        self._touched = False
        """True after the first change or submission; errors are not shown before."""
        self.view = LinesView(id="ask-text")
        self.wrong = LinesView(id="ask-wrong")
        self.input = Input(value=text, select_on_focus=False)

    def compose(self) -> ComposeResult:
        box = Vertical(self.view, self.input, self.wrong)
        box.border_title = literal(f" {self._title} ")
        box.border_subtitle = " enter continues · esc cancels "
        yield box

    def on_mount(self) -> None:
        self.view.can_focus = self.wrong.can_focus = False
        self.call_after_refresh(self._place)
        self.input.focus()
        if self._selected:
            self.input.select_all()

    def on_resize(self) -> None:
        self._place()

    def _place(self) -> None:
        inner = max(20, min(72, int(self.size.width * 0.9)) - 6)
        lines = [row for line in self._text for row in wrap(line, inner)]
        self.view.styles.height = len(lines)
        self.view.display = bool(lines)
        self.view.show(lines)
        self._show_error(self.input.value)

    def _show_error(self, text: str) -> str:
        wrong = self._check(text) if self._touched else ""
        inner = max(20, min(72, int(self.size.width * 0.9)) - 6)
        lines = wrap((Span(f"✗ {wrong}", "error"),), inner) if wrong else [()]
        self.wrong.styles.height = len(lines)
        self.wrong.show(lines)
        return wrong

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._touched = self._touched or event.value != self._begin
        self._show_error(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._touched = True
        if not self._show_error(event.value):
            self.dismiss(event.value)

    def action_cancel(self) -> None:
        self.dismiss(None)


def movement_bindings(group: str) -> list[Binding]:
    """Return bindings for ``action_move(step)`` with ids prefixed by ``group``."""
    return [
        Binding("up,k", "move(-1)", "Up", show=False, id=f"{group}.up", tooltip="Up"),
        Binding("down,j", "move(1)", "Down", show=False, id=f"{group}.down", tooltip="Down"),
        Binding("pageup,ctrl+b", "move(-10)", "Page up", show=False, id=f"{group}.page-up",
                tooltip="Ten up"),
        Binding("pagedown,ctrl+f", "move(10)", "Page down", show=False, id=f"{group}.page-down",
                tooltip="Ten down"),
        Binding("home,g", "move(-1000)", "First", show=False, id=f"{group}.first",
                tooltip="First"),
        Binding("end,G", "move(1000)", "Last", show=False, id=f"{group}.last", tooltip="Last"),
    ]  # fmt: skip


class ListDialog(ModalScreen[R | None]):
    """A list of ``count`` items with a cursor; returns None if cancelled.

    Subclasses implement `draw` and ``action_choose``.
    """

    DEFAULT_CSS = """
    ListDialog {
        align: center middle;
        & > LinesView {
            width: 90%; height: auto; max-height: 90%;
            border: round $pane-border-focus; background: $background;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
    }
    """
    # Keys move the cursor: a focused view would scroll instead.
    AUTO_FOCUS = ""
    FOOTER: ClassVar[str] = ""

    def __init__(self, title: str, count: int, *, start: int = 0) -> None:
        super().__init__()
        self._title = title
        self._count = count
        self.place = start
        self.rows: list[int | None] = []
        """The item index of each drawn line, None for a line of no item."""
        self.view = LinesView()
        self.view.can_focus = False

    def draw(self) -> None:
        """Show the items in `view`, and set ``rows``."""
        raise NotImplementedError

    def action_choose(self) -> None:
        """Return the item at the cursor."""
        raise NotImplementedError

    @property
    def room(self) -> Size:
        """The size of the terminal, also before the first frame."""
        return cast("Any", self).app.size

    def compose(self) -> ComposeResult:
        self.view.border_title = literal(f" {self._title} ")
        self.view.border_subtitle = f" {self.FOOTER} "
        yield self.view

    def on_mount(self) -> None:
        # Draw before the first frame, otherwise an empty box is visible for a moment.
        self.draw()

    def on_resize(self) -> None:
        self.draw()
        self.call_after_refresh(self._show_cursor)

    def _show_cursor(self) -> None:
        """Scroll to the item at the cursor. Keep the line above visible as well: it may be the
        title of a group."""
        lines = [line for line, item in enumerate(self.rows) if item == self.place]
        high, top = max(1, self.view.size.height), round(self.view.scroll_y)
        if lines and lines[0] - 1 < top:
            self.view.scroll_to(y=max(0, lines[0] - 1), animate=False)
        elif lines and lines[-1] >= top + high:
            self.view.scroll_to(y=lines[-1] - high + 1, animate=False)

    def item_at(self, event: events.Click) -> int | None:
        """Return the item that was clicked."""
        line = event.screen_y - self.view.content_region.y + round(self.view.scroll_y)
        return self.rows[line] if 0 <= line < len(self.rows) else None

    def action_move(self, step: int) -> None:
        self.place = max(0, min(self._count - 1, self.place + step))
        self.draw()
        self._show_cursor()

    def action_cancel(self) -> None:
        self.dismiss(None)


def aligned(items: Sequence[Line]) -> tuple[Line, ...]:
    """Return the items with their first spans padded, so that the second ones begin at one column.

    First spans of more than `MAX_PADDED_WIDTH` cells have no effect on the others.
    """
    widths = [width_of(item[0].text) for item in items if len(item) > 1]
    width = max((w for w in widths if w <= MAX_PADDED_WIDTH), default=0)
    return tuple(
        (Span(item[0].text + " " * (width - width_of(item[0].text)), item[0].tone), *item[1:])
        if len(item) > 1
        else item
        for item in items
    )


class Picker(ListDialog[int]):
    """Returns the index of the selected item.

    Long lines are wrapped, and the second spans of all items are aligned. A digit selects one of
    the first nine items directly. The cursor begins at ``start``.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *movement_bindings("picker"),
        Binding("enter", "choose", "Choose", id="picker.choose", tooltip="Select this item"),
        Binding("escape,q", "cancel", "Cancel", id="picker.cancel", tooltip="Cancel"),
    ]  # fmt: skip
    DEFAULT_CSS = "Picker > LinesView { max-width: 90; padding: 1 1; }"
    FOOTER = "enter selects · esc cancels"

    def __init__(self, title: str, items: Sequence[Line], *, start: int = 0) -> None:
        super().__init__(title, len(items), start=start)
        self.items = aligned(items)

    def on_key(self, event: events.Key) -> None:
        if event.character and event.character.isdecimal() and event.character.isascii():
            index = int(event.character) - 1
            if 0 <= index < len(self.items):
                event.stop()
                self.dismiss(index)

    def draw(self) -> None:
        width = max(16, min(90, int(self.room.width * 0.9)) - 4)
        lines: list[Line] = []
        self.rows = []
        for index, item in enumerate(self.items):
            selected = index == self.place
            for number, row in enumerate(wrap(item, width - 4, indent=_INDENT)):
                sign = "❯ " if selected and number == 0 else "  "
                digit = f"{index + 1} " if index < 9 and number == 0 else "  "
                lines.append((Span(sign, "name"), Span(digit, "hint-key"), *row))
                self.rows.append(index)
        self.view.styles.height = min(len(lines), int(self.room.height * 0.9) - 4) + 4
        self.view.show(lines)

    def on_click(self, event: events.Click) -> None:
        item = self.item_at(event)
        if event.widget is self.view and item is not None:
            again = item == self.place
            self.place = item
            self.draw()
            if again:
                self.action_choose()

    def action_choose(self) -> None:
        self.dismiss(self.place if self.items else None)
