"""A pod's start as a waterfall: the duration of each step, the steps on the critical path, and the
differences from the previous start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from podtui.api.insight import PodStart, Step, StepKind
from podtui.api.times import epoch, short_duration
from podtui.tui.widgets.cells import Line, Span, sized, width_of, wrap
from podtui.tui.widgets.sanitize import clean

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


def waterfall_lines(start: Waterfall, width: int, *, number: int, of: int) -> list[Line]:
    """Return lines of at most ``width`` cells; the start is ``number`` (from 1) of ``of``."""
    lines = _head(start, width, number, of)
    lines.append(())
    name = min(
        max((width_of(bar.label) for bar in start.bars), default=8), max(14, min(36, width // 3))
    )
    room = width - name - 4 - _LENGTH - 1
    compared = any(bar.change is not None for bar in start.bars)
    if compared:
        room -= _CHANGE
    room = max(_LEAST_BARS, room)
    ticks = _ticks(start.until, room)
    lines.append(_axis(ticks, room, name + 3))
    lines += [_row(bar, start.until, ticks, name, room, compared=compared) for bar in start.bars]
    lines += _notes(start, width)
    lines += [(), *wrap(_legend(of), width, indent=1)]
    return lines


def _head(start: Waterfall, width: int, number: int, of: int) -> list[Line]:
    which = {1: "this start", 2: "the previous start"}.get(number, f"{number - 1} starts ago")
    state: list[Span] = [
        Span(" ● ready after " if start.ready else " ◔ not ready for ",
             "running" if start.ready else "pending"),
        Span(length(start.until), "name"),
    ]  # fmt: skip
    if start.before is not None and start.ready:
        delta = start.until - start.before
        tone = "muted" if abs(delta) < NOT_SAME else "warning" if delta > 0 else "good"
        state += [
            Span(f" · the previous start took {length(start.before)} ", "soft"),
            Span(f"({change(delta)})", tone),
        ]
    state.append(Span(f" · {which} ({number} of {of}), {_start_time(start)}", "muted"))
    if start.cause:
        state.append(Span(f" · {start.cause}", "soft"))
    lines = wrap(state, width, indent=3)
    if start.until > 0 and start.critical:
        parts: list[Span] = [Span(" longest steps: ", "key")]
        for bar in start.critical[:3]:
            share = 100 * bar.seconds / start.until
            parts.append(Span(f"{bar.label} {length(bar.seconds)} {share:.0f}%  "))
        if start.waited > start.until / 10:
            share = 100 * start.waited / start.until
            parts.append(Span(f"between steps {length(start.waited)} {share:.0f}%", "soft"))
        lines += wrap(parts, width, indent=3)
    return lines


def _start_time(start: Waterfall) -> str:
    """Return the time of the start, with the date if it is not today: starts are kept for days."""
    when, seen = (
        datetime.fromtimestamp(moment, UTC).astimezone() for moment in (start.began, start.seen)
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
    for column, word in ticks:
        if column >= len(text) and column + len(word) <= room:
            text = text.ljust(column) + word + " "
    return (Span(" " * (indent + 1) + text, "muted"),)


def _row(
    bar: StepBar, until: float, ticks: tuple[tuple[int, str], ...], name: int, room: int, *,
    compared: bool,
) -> Line:  # fmt: skip
    glyph, tone = _state(bar)
    left, wide = _place(bar, until, room)
    scale = [" "] * room
    for column, _ in ticks:
        scale[column] = "┊"
    beyond = bar.open or bar.ended > until + SLACK
    body = ("█" if bar.critical else "░" if bar.keeps_running else "▒") * wide
    if beyond and wide:
        body = body[:-1] + "▸"
    spans = [
        Span(f" {glyph} ", tone),
        Span(sized(bar.label, name), "name" if bar.critical else "soft"),
        Span(" "),
        Span("".join(scale[:left]), "muted"),
        Span(body, "error" if bar.failed else "bar-chosen" if bar.critical else "muted"
             if bar.keeps_running else "bar-one"),
        Span("".join(scale[left + wide :]), "muted"),
        Span(f"{length(bar.seconds):>{_LENGTH}}", "name" if bar.critical else "soft"),
    ]  # fmt: skip
    if compared and bar.change is not None:
        same = abs(bar.change) < NOT_SAME
        slower = "muted" if same else "warning" if bar.change > 0 else "good"
        spans.append(Span(f"{change(bar.change):>{_CHANGE}}", slower))
    return tuple(spans)


def _place(bar: StepBar, until: float, room: int) -> tuple[int, int]:
    """Return the first cell and the number of cells, at least one."""
    if until <= 0:
        return 0, 1
    left = min(room - 1, int(bar.began / until * room))
    right = min(room, math.ceil(bar.ended / until * room - 1e-6))
    return left, max(1, right - left)


def _state(bar: StepBar) -> tuple[str, str]:
    if bar.failed:
        return "✖", "error"
    if bar.open:
        return ("●", "running") if bar.keeps_running else ("◔", "pending")
    return "✔", "good"


def _notes(start: Waterfall, width: int) -> list[Line]:
    lines: list[Line] = []
    noted = [bar for bar in start.bars if bar.note]
    for bar in noted:
        lines += wrap(
            (Span(f"   {bar.label}: ", "key"), Span(bar.note, "error" if bar.failed else "soft")),
            width,
            indent=5,
        )
    if start.gone:
        steps = "  ".join(f"{label} {length(took)}" for label, took in start.gone)
        lines += wrap(
            (Span("   only in the previous start: ", "key"), Span(steps, "soft")), width, indent=5
        )
    if start.later:
        lines += [(), (Span(" After readiness", "heading"),)]
        for bar in start.later:
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
        Span(" █ ", "bar-chosen"), Span("critical path  ", "muted"),
        Span("▒ ", "bar-one"), Span("other steps  ", "muted"),
        Span("░ ", "muted"), Span("running  ", "muted"),
        Span("✖ ", "error"), Span("failed  ", "muted"),
        Span("▸ ", "soft"), Span("continues", "muted"),
    ]  # fmt: skip
    if of > 1:
        spans += [Span("   [/] ", "hint-key"), Span("previous, next start", "muted")]
    return tuple(spans)


_WORDS: Final = {
    StepKind.ADMIT: "admit",
    StepKind.VOLUMES: "volumes",
    StepKind.SANDBOX: "sandbox",
    StepKind.PULL: "pull",
    StepKind.CREATE: "start",
    StepKind.POST_START: "postStart",
    StepKind.RUN: "run",
    StepKind.STARTUP: "startup",
    StepKind.READY: "readiness",
}
SLACK: Final = 0.02
"""Maximum seconds between two steps that count as consecutive."""
WORTH_A_BAR: Final = 0.25
"""Seconds of waiting after admission from which the wait gets its own bar."""
_NOTHING: Final = 0.001
_Key = tuple[StepKind, str]


@dataclass(frozen=True, slots=True)
class StepBar:
    """One step; ``began`` and ``ended`` are seconds since the beginning of the start.

    ``critical`` means that the pod would have been ready earlier without it. ``change`` is the
    difference in seconds from the previous start, None if there is nothing to compare. ``open``
    means that the step is still running.
    """

    label: str
    key: _Key
    began: float
    ended: float
    open: bool = False
    init: bool = False
    failed: bool = False
    note: str = ""
    critical: bool = False
    change: float | None = None

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def keeps_running(self) -> bool:
        """True for a container that is meant to keep running: the start does not wait for it."""
        return self.key[0] is StepKind.RUN and not self.init


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The waterfall of a start.

    ``until`` is seconds from the beginning to readiness, or to the last known step. ``bars`` are
    the steps of the start, ``later`` those after readiness. ``before`` is the duration of the
    previous start; ``gone`` lists the steps (label, seconds) that only that one had.
    """

    began: float
    until: float
    ready: bool
    bars: tuple[StepBar, ...]
    later: tuple[StepBar, ...] = ()
    before: float | None = None
    gone: tuple[tuple[str, float], ...] = ()
    cause: str = ""
    waited: float = 0.0
    """Seconds on the critical path without any running step."""
    seen: float = 0.0
    """The current time in Unix seconds."""

    @property
    def critical(self) -> tuple[StepBar, ...]:
        """The critical steps, the longest first."""
        steps = [bar for bar in self.bars if bar.critical]
        return tuple(sorted(steps, key=lambda bar: -bar.seconds))


def waterfall(start: PodStart, before: PodStart | None, now: float) -> Waterfall:
    """Return the waterfall of a start; unfinished steps extend to ``now`` (Unix seconds)."""
    began = epoch(start.began) or now
    every = _with_wait(_bars(start, began, now), start, before, now - began)
    ready = epoch(start.ready)
    until = ready - began if ready is not None else _last_end(every, start, began, now)
    bars = tuple(bar for bar in every if bar.began <= until + SLACK)
    later = tuple(bar for bar in every if bar.began > until + SLACK and _is_notable(bar))
    bars, waited = with_critical_path(bars, until)
    result = Waterfall(
        began,
        max(until, 0.0),
        ready is not None,
        bars,
        later,
        cause=clean(start.cause),
        waited=waited,
        seen=now,
    )
    return result if before is None else _compared(result, waterfall(before, None, now))


def _bars(start: PodStart, began: float, now: float) -> tuple[StepBar, ...]:
    counts: dict[_Key, int] = {}
    bars: list[StepBar] = []
    for step in start.steps:
        key = (step.kind, step.subject)
        counts[key] = counts.get(key, 0) + 1
        at = (epoch(step.began) or began) - began
        end = epoch(step.ended)
        is_open = end is None
        upto = max(at, (now if end is None else end) - began)
        bars.append(
            StepBar(
                label_of(step, counts[key]),
                key,
                at,
                upto,
                open=is_open,
                init=step.init,
                failed=step.failed,
                note=clean(step.note),
            )
        )
    return tuple(bars)


def _with_wait(
    bars: tuple[StepBar, ...], start: PodStart, before: PodStart | None, now: float
) -> tuple[StepBar, ...]:
    """Add a bar for the time from admission to the next step if that is long: a pod that replaces
    another waits for its end.
    """
    admitted = next((bar for bar in bars if bar.key == (StepKind.ADMIT, "")), None)
    if admitted is None or admitted.open or admitted.failed:
        return bars
    later = [bar.began for bar in bars if bar.key != admitted.key]
    is_open = not later and start.over is None
    ended = min(later) if later else now if is_open else admitted.ended
    if ended - admitted.ended < WORTH_A_BAR:
        return bars
    over = None if before is None else epoch(before.over)
    replaces = over is not None and abs(over - (epoch(start.began) or 0.0)) < 1
    note = "for the previous pod to terminate" if replaces else ""
    wait = StepBar("wait", (StepKind.ADMIT, "wait"), admitted.ended, ended, open=is_open, note=note)
    index = bars.index(admitted) + 1
    return (*bars[:index], wait, *bars[index:])


def with_pull(start: Waterfall, image: str, amount: str) -> Waterfall:
    """Add the progress of an unfinished image pull to its bar."""
    if not amount:
        return start
    bars = tuple(
        replace(bar, note=amount) if bar.open and bar.key == (StepKind.PULL, image) else bar
        for bar in start.bars
    )
    return replace(start, bars=bars)


def _is_notable(bar: StepBar) -> bool:
    """Return whether a step after readiness is more than a repeated start of the container."""
    return bar.failed or bar.key[0] in (StepKind.RUN, StepKind.PULL)


def label_of(step: Step, number: int = 1) -> str:
    """Return a label such as ``pull nginx:1.27``; repetitions are numbered from 2."""
    subject = clean(step.subject)
    if step.kind is StepKind.PULL:
        subject = subject.rsplit("/", 1)[-1]
    again = f" #{number}" if number > 1 else ""
    return f"{_WORDS[step.kind]} {subject}".strip() + again


def _last_end(bars: Sequence[StepBar], start: PodStart, began: float, now: float) -> float:
    over = epoch(start.over)
    ends = [bar.ended for bar in bars]
    if over is not None:
        ends = [min(end, over - began) for end in ends]
    elif not bars:
        ends = [now - began]
    return max(ends, default=0.0)


def with_critical_path(bars: Sequence[StepBar], until: float) -> tuple[tuple[StepBar, ...], float]:
    """Mark the steps that determined ``until``: from there backwards, always the step that ended
    last before the next one began. Also return the seconds on this path without any step.
    """
    marked: set[int] = set()
    waited, at = 0.0, until
    while at > _NOTHING:
        fitting = [
            (min(bar.ended, at), -bar.began, index)
            for index, bar in enumerate(bars)
            if index not in marked
            and not bar.keeps_running
            and bar.ended <= at + SLACK
            and bar.began < at
        ]
        if not fitting:
            waited += at
            break
        end, _, index = max(fitting)
        marked.add(index)
        waited += max(0.0, at - end)
        at = bars[index].began
    marked_bars = tuple(replace(bar, critical=i in marked) for i, bar in enumerate(bars))
    return marked_bars, waited if waited > SLACK else 0.0


def totals(bars: Iterable[StepBar]) -> dict[_Key, float]:
    """Return seconds by step, with repetitions added up and without long-running containers."""
    seconds: dict[_Key, float] = {}
    for bar in bars:
        if not bar.keeps_running:
            seconds[bar.key] = seconds.get(bar.key, 0.0) + bar.seconds
    return seconds


def _compared(current: Waterfall, before: Waterfall) -> Waterfall:
    then, now = totals(before.bars), totals(current.bars)
    last = {bar.key: index for index, bar in enumerate(current.bars)}
    bars = tuple(
        replace(bar, change=now[bar.key] - then[bar.key])
        if last[bar.key] == index and bar.key in now and bar.key in then
        else bar
        for index, bar in enumerate(current.bars)
    )
    names = {bar.key: bar.label.partition(" #")[0] for bar in before.bars}
    gone = tuple((names[key], took) for key, took in then.items() if key not in now)
    return replace(current, bars=bars, gone=gone, before=before.until if before.ready else None)
