"""Convert a log line to styled text: keep colours, neutralise all other control sequences.

Colour sequences (SGR) become styles. Sequences that could move the cursor, set a title, write the
clipboard or change the text direction are removed or replaced by a visible symbol.
"""

from __future__ import annotations

import re
from typing import Final

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from podtui.text.terminal_text import (
    CONTROL,
    LONGEST,
    NO_LETTER,
    TAB,
    after_return,
    control_symbol,
    cut_words,
    settled,
)

NO_STYLE: Final = Style.null()
MAX_SHOWN: Final = LONGEST
"""Maximum number of characters drawn of one line; the buffer keeps the rest."""

_PLAIN: Final = re.compile(rb"[\x20-\x7e]*")
_COLORS: Final = (
    "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
)  # fmt: skip


def is_plain(line: bytes) -> bool:
    """Return True if the line is printable ASCII, so that each byte takes one cell."""
    return _PLAIN.fullmatch(line) is not None


def parse(line: bytes, base: Style = NO_STYLE) -> list[Segment]:
    """Return the segments of one line; their text never contains a control character."""
    line = after_return(line)
    text = line[: MAX_SHOWN * 4].decode(errors="replace")
    wide = text[: MAX_SHOWN + 1].expandtabs(TAB)
    cut = len(wide) > MAX_SHOWN or len(line) > MAX_SHOWN * 4
    text = wide[:MAX_SHOWN]
    segments: list[Segment] = []
    style = base
    position, marks = 0, NO_LETTER

    def add(piece: str) -> None:
        nonlocal marks
        piece, marks = settled(piece, marks)
        if piece:
            segments.append(Segment(piece, style))

    for match in CONTROL.finditer(text):
        add(text[position : match.start()])
        position = match.end()
        sgr = match.group(1)
        if sgr is not None:
            style = apply_sgr(style, sgr, base)
        else:
            add(control_symbol(match.group()))
    add(text[position:])
    if cut:
        segments.append(Segment(cut_words(len(line)), base + Style(reverse=True)))
    return segments


def plain_text(line: bytes) -> str:
    """Return the text of `parse` without styles."""
    return "".join(segment.text for segment in parse(line))


def colours_only(line: bytes) -> bytes:
    """Strip all control sequences but colours, for display by another program."""
    if is_plain(line):
        return line
    line = after_return(line)
    text = line.decode(errors="replace").replace("\0", "").replace("\t", "\0")
    kept = CONTROL.sub(lambda m: m[0] if m[1] is not None else "\t" * (m[0] == "\0"), text)
    return (kept + "\x1b[0m" * ("\x1b" in kept)).encode()


def apply_sgr(style: Style, parameters: str, base: Style) -> Style:
    """Return the style after one SGR sequence; ignore unknown codes."""
    codes = [int(code) if code else 0 for code in re.split("[;:]", parameters) if len(code) < 4]
    index = 0
    while index < len(codes):
        code = codes[index]
        index += 1
        if code == 0:
            style = base
        elif code in _ATTRIBUTES:
            style += _ATTRIBUTES[code]
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style += Style(color=_named(code - 30 if code < 90 else code - 90, code >= 90))
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style += Style(bgcolor=_named(code - 40 if code < 100 else code - 100, code >= 100))
        elif code == 39:
            style = style.without_color + Style(bgcolor=style.bgcolor, color=base.color)
        elif code == 49:
            style = style.without_color + Style(color=style.color, bgcolor=base.bgcolor)
        elif code in (38, 48):
            color, used = _extended(codes[index:])
            index += used
            if color is not None:
                style += Style(color=color) if code == 38 else Style(bgcolor=color)
    return style


_ATTRIBUTES: Final = {
    1: Style(bold=True),
    2: Style(dim=True),
    3: Style(italic=True),
    4: Style(underline=True),
    7: Style(reverse=True),
    9: Style(strike=True),
    21: Style(bold=False),
    22: Style(bold=False, dim=False),
    23: Style(italic=False),
    24: Style(underline=False),
    27: Style(reverse=False),
    29: Style(strike=False),
}


def _named(number: int, bright: bool) -> str:
    return ("bright_" if bright else "") + _COLORS[number]


def _extended(codes: list[int]) -> tuple[Color | None, int]:
    """Parse the part after 38 or 48 (``5;N`` or ``2;R;G;B``).

    Returns the colour and the number of codes consumed.
    """
    if len(codes) >= 2 and codes[0] == 5 and codes[1] <= 255:
        return Color.from_ansi(codes[1]), 2
    if len(codes) >= 4 and codes[0] == 2 and max(codes[1:4]) <= 255:
        return Color.from_rgb(*codes[1:4]), 4
    return None, len(codes)
