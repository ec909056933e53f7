"""Draw a waterfall: one row per step with its bar on a common scale, duration and change."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from podtui.api.times import short_duration
from podtui.tui.pods.timeline import SLACK, Bar, Waterfall
from podtui.tui.widgets.cells import Line, Span, sized, width_of, wrap

_LENGTH: Final = 7
_CHANGE: Final = 8
_LEAST_BARS: Final = 10
_STEPS: Final = (1, 2, 5)
NOT_SAME: Final = 0.01
"""Maximum seconds by which two durations may differ to be shown as equal."""


def length(seconds: float) -> str:
    """Return ``240ms``, ``3.42s``, ``45.1s``, ``2m05s`` or ``3h12m``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10:
        return f"{seconds:.2f}s"
    if seconds < 60:
        return f"{seconds:.1f}s"
    if seconds < 3600:
        return f"{int(seconds) // 60}m{int(seconds) % 60:02d}s"
    return short_duration(seconds)


def change(seconds: float) -> str:
    """Return ``+1.20s``, ``−240ms`` or ``=``."""
    if abs(seconds) < NOT_SAME:
        return "="
    return ("+" if seconds > 0 else "−") + length(abs(seconds))


def waterfall_lines(found: Waterfall, width: int, *, number: int, of: int) -> list[Line]:
    """Return lines of at most ``width`` cells; the start is ``number`` (from 1) of ``of``."""
    lines = _head(found, width, number, of)
    lines.append(())
    name = min(
        max((width_of(bar.label) for bar in found.bars), default=8), max(14, min(36, width // 3))
    )
    room = width - name - 4 - _LENGTH - 1
    compared = any(bar.change is not None for bar in found.bars)
    if compared:
        room -= _CHANGE
    room = max(_LEAST_BARS, room)
    ticks = _ticks(found.until, room)
    lines.append(_axis(ticks, room, name + 3))
    lines += [_row(bar, found.until, ticks, name, room, compared=compared) for bar in found.bars]
    lines += _notes(found, width)
    lines += [(), *wrap(_legend(of), width, indent=1)]
    return lines


def _head(found: Waterfall, width: int, number: int, of: int) -> list[Line]:
    which = {1: "this start", 2: "the start before"}.get(number, f"{number - 1} starts ago")
    state: list[Span] = [
        Span(" ● ready after " if found.ready else " ◔ not ready for ",
             "running" if found.ready else "pending"),
        Span(length(found.until), "name"),
    ]  # fmt: skip
    if found.before is not None and found.ready:
        delta = found.until - found.before
        tone = "muted" if abs(delta) < NOT_SAME else "warning" if delta > 0 else "good"
        state += [
            Span(f" · the start before took {length(found.before)} ", "soft"),
            Span(f"({change(delta)})", tone),
        ]
    state.append(Span(f" · {which} ({number} of {of}), {_moment(found)}", "muted"))
    if found.cause:
        state.append(Span(f" · {found.cause}", "soft"))
    lines = wrap(state, width, indent=3)
    if found.until > 0 and found.critical:
        parts: list[Span] = [Span(" most of it: ", "key")]
        for bar in found.critical[:3]:
            share = 100 * bar.seconds / found.until
            parts.append(Span(f"{bar.label} {length(bar.seconds)} {share:.0f}%  "))
        if found.waited > found.until / 10:
            share = 100 * found.waited / found.until
            parts.append(Span(f"between steps {length(found.waited)} {share:.0f}%", "soft"))
        lines += wrap(parts, width, indent=3)
    return lines


def _moment(found: Waterfall) -> str:
    """Return the time of the start, with the date if it is not today: starts are kept for days."""
    when, seen = (
        datetime.fromtimestamp(moment, UTC).astimezone() for moment in (found.began, found.seen)
    )
    return f"{when:%H:%M:%S}" if when.date() == seen.date() else f"{when:%Y-%m-%d %H:%M:%S}"


def _ticks(until: float, room: int) -> tuple[tuple[int, str], ...]:
    """Return positions and labels of a scale with round steps of about a dozen cells."""
    if until <= 0:
        return ((0, "0s"),)
    wanted = until / max(2, room // 12)
    magnitude = 10 ** math.floor(math.log10(wanted))
    step = next(m * magnitude for m in (*_STEPS, 10) if m * magnitude >= wanted)
    count = int(until / step + 1e-9)
    return tuple(
        (min(room - 1, round(n * step / until * room)), _tick(n * step)) for n in range(count + 1)
    )


def _tick(seconds: float) -> str:
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 120:
        return f"{seconds:g}s"
    return length(seconds)


def _axis(ticks: tuple[tuple[int, str], ...], room: int, indent: int) -> Line:
    text = ""
    for place, word in ticks:
        if place >= len(text) and place + len(word) <= room:
            text = text.ljust(place) + word + " "
    return (Span(" " * (indent + 1) + text, "muted"),)


def _row(
    bar: Bar, until: float, ticks: tuple[tuple[int, str], ...], name: int, room: int, *,
    compared: bool,
) -> Line:  # fmt: skip
    glyph, tone = _state(bar)
    left, wide = _place(bar, until, room)
    scale = [" "] * room
    for place, _ in ticks:
        scale[place] = "┊"
    beyond = bar.open or bar.ended > until + SLACK
    body = ("█" if bar.critical else "░" if bar.lives_on else "▒") * wide
    if beyond and wide:
        body = body[:-1] + "▸"
    spans = [
        Span(f" {glyph} ", tone),
        Span(sized(bar.label, name), "name" if bar.critical else "soft"),
        Span(" "),
        Span("".join(scale[:left]), "muted"),
        Span(body, "error" if bar.failed else "bar-chosen" if bar.critical else "muted"
             if bar.lives_on else "bar-one"),
        Span("".join(scale[left + wide :]), "muted"),
        Span(f"{length(bar.seconds):>{_LENGTH}}", "name" if bar.critical else "soft"),
    ]  # fmt: skip
    if compared and bar.change is not None:
        same = abs(bar.change) < NOT_SAME
        slower = "muted" if same else "warning" if bar.change > 0 else "good"
        spans.append(Span(f"{change(bar.change):>{_CHANGE}}", slower))
    return tuple(spans)


def _place(bar: Bar, until: float, room: int) -> tuple[int, int]:
    """Return the first cell and the number of cells, at least one."""
    if until <= 0:
        return 0, 1
    left = min(room - 1, int(bar.began / until * room))
    right = min(room, math.ceil(bar.ended / until * room - 1e-6))
    return left, max(1, right - left)


def _state(bar: Bar) -> tuple[str, str]:
    if bar.failed:
        return "✖", "error"
    if bar.open:
        return ("●", "running") if bar.lives_on else ("◔", "pending")
    return "✔", "good"


def _notes(found: Waterfall, width: int) -> list[Line]:
    lines: list[Line] = []
    noted = [bar for bar in found.bars if bar.note]
    for bar in noted:
        lines += wrap(
            (Span(f"   {bar.label}: ", "key"), Span(bar.note, "error" if bar.failed else "soft")),
            width,
            indent=5,
        )
    if found.gone:
        words = "  ".join(f"{label} {length(took)}" for label, took in found.gone)
        lines += wrap((Span("   not this time: ", "key"), Span(words, "soft")), width, indent=5)
    if found.later:
        lines += [(), (Span(" After it was ready", "heading"),)]
        for bar in found.later:
            glyph, tone = _state(bar)
            note = f" · {bar.note}" if bar.note else ""
            lines += wrap(
                (
                    Span(f" {glyph} ", tone),
                    Span(f"+{length(bar.began):<8}", "muted"),
                    Span(f"{bar.label} ", "name"),
                    Span(length(bar.seconds), "soft"),
                    Span(note, tone),
                ),
                width,
                indent=12,
            )
    return [(), *lines] if lines else []


def _legend(of: int) -> Line:
    spans = [
        Span(" █ ", "bar-chosen"), Span("readiness waited for  ", "muted"),
        Span("▒ ", "bar-one"), Span("beside it  ", "muted"),
        Span("░ ", "muted"), Span("running  ", "muted"),
        Span("✖ ", "error"), Span("failed  ", "muted"),
        Span("▸ ", "soft"), Span("continues", "muted"),
    ]  # fmt: skip
    if of > 1:
        spans += [Span("   [/] ", "hint-key"), Span("earlier, later starts", "muted")]
    return tuple(spans)
