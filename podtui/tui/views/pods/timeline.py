"""A pod's start as a waterfall: the duration of each step, the steps on the critical path, and the
differences from the previous start. Plain values; drawn by `podtui.tui.views.pods.timeline_lines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from podtui.api.insight import PodStart, Step, StepKind
from podtui.tui.widgets.format import epoch
from podtui.tui.widgets.sanitize import clean

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
class Bar:
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
    def lives_on(self) -> bool:
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
    bars: tuple[Bar, ...]
    later: tuple[Bar, ...] = ()
    before: float | None = None
    gone: tuple[tuple[str, float], ...] = ()
    cause: str = ""
    waited: float = 0.0
    """Seconds on the critical path without any running step."""
    seen: float = 0.0
    """The current time in Unix seconds."""

    @property
    def critical(self) -> tuple[Bar, ...]:
        """The critical steps, the longest first."""
        found = [bar for bar in self.bars if bar.critical]
        return tuple(sorted(found, key=lambda bar: -bar.seconds))


def waterfall(start: PodStart, before: PodStart | None, now: float) -> Waterfall:
    """Return the waterfall of a start; unfinished steps extend to ``now`` (Unix seconds)."""
    began = epoch(start.began) or now
    every = _with_wait(_bars(start, began, now), start, before, now - began)
    ready = epoch(start.ready)
    until = ready - began if ready is not None else _last_end(every, start, began, now)
    bars = tuple(bar for bar in every if bar.began <= until + SLACK)
    later = tuple(bar for bar in every if bar.began > until + SLACK and _tells(bar))
    bars, waited = with_critical_path(bars, until)
    found = Waterfall(
        began,
        max(until, 0.0),
        ready is not None,
        bars,
        later,
        cause=clean(start.cause),
        waited=waited,
        seen=now,
    )
    return found if before is None else _compared(found, waterfall(before, None, now))


def _bars(start: PodStart, began: float, now: float) -> tuple[Bar, ...]:
    counts: dict[_Key, int] = {}
    found: list[Bar] = []
    for step in start.steps:
        key = (step.kind, step.subject)
        counts[key] = counts.get(key, 0) + 1
        at = (epoch(step.began) or began) - began
        end = epoch(step.ended)
        is_open = end is None
        upto = max(at, (now if end is None else end) - began)
        found.append(
            Bar(
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
    return tuple(found)


def _with_wait(
    bars: tuple[Bar, ...], start: PodStart, before: PodStart | None, now: float
) -> tuple[Bar, ...]:
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
    note = "for the pod before it to end" if replaces else ""
    wait = Bar("wait", (StepKind.ADMIT, "wait"), admitted.ended, ended, open=is_open, note=note)
    place = bars.index(admitted) + 1
    return (*bars[:place], wait, *bars[place:])


def with_pull(found: Waterfall, image: str, amount: str) -> Waterfall:
    """Add the progress of an unfinished image pull to its bar."""
    if not amount:
        return found
    bars = tuple(
        replace(bar, note=amount) if bar.open and bar.key == (StepKind.PULL, image) else bar
        for bar in found.bars
    )
    return replace(found, bars=bars)


def _tells(bar: Bar) -> bool:
    """Return whether a step after readiness is more than a repeated start of the container."""
    return bar.failed or bar.key[0] in (StepKind.RUN, StepKind.PULL)


def label_of(step: Step, number: int = 1) -> str:
    """Return a label such as ``pull nginx:1.27``; repetitions are numbered from 2."""
    subject = clean(step.subject)
    if step.kind is StepKind.PULL:
        subject = subject.rsplit("/", 1)[-1]
    again = f" #{number}" if number > 1 else ""
    return f"{_WORDS[step.kind]} {subject}".strip() + again


def _last_end(bars: Sequence[Bar], start: PodStart, began: float, now: float) -> float:
    over = epoch(start.over)
    ends = [bar.ended for bar in bars]
    if over is not None:
        ends = [min(end, over - began) for end in ends]
    elif not bars:
        ends = [now - began]
    return max(ends, default=0.0)


def with_critical_path(bars: Sequence[Bar], until: float) -> tuple[tuple[Bar, ...], float]:
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
            and not bar.lives_on
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
    found = tuple(replace(bar, critical=i in marked) for i, bar in enumerate(bars))
    return found, waited if waited > SLACK else 0.0


def totals(bars: Iterable[Bar]) -> dict[_Key, float]:
    """Return seconds by step, with repetitions added up and without long-running containers."""
    found: dict[_Key, float] = {}
    for bar in bars:
        if not bar.lives_on:
            found[bar.key] = found.get(bar.key, 0.0) + bar.seconds
    return found


def _compared(found: Waterfall, before: Waterfall) -> Waterfall:
    then, now = totals(before.bars), totals(found.bars)
    last = {bar.key: index for index, bar in enumerate(found.bars)}
    bars = tuple(
        replace(bar, change=now[bar.key] - then[bar.key])
        if last[bar.key] == index and bar.key in now and bar.key in then
        else bar
        for index, bar in enumerate(found.bars)
    )
    names = {bar.key: bar.label.partition(" #")[0] for bar in before.bars}
    gone = tuple((names[key], took) for key, took in then.items() if key not in now)
    return replace(found, bars=bars, gone=gone, before=before.until if before.ready else None)
