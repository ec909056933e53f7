"""Series of usage."""

from __future__ import annotations

from tui_scene import NOW

from podtui.api.insight import UsageSeries

AT = NOW.timestamp()
MI = 1024 * 1024


TIMES = tuple(AT - 590 + 10 * n for n in range(60))


def ramp(peak: float) -> tuple[float, ...]:
    return tuple(peak * n / 59 for n in range(60))


def series(name: str, peak: float = 20.0) -> UsageSeries:
    return UsageSeries(
        container=name,
        times=TIMES,
        cpu=ramp(peak),
        memory=tuple(MI * n for n in range(60)),
        read=(None, *ramp(2048)[1:]),
        written=(None, *ramp(3 * MI)[1:]),
        storage=ramp(12 * MI),
    )
