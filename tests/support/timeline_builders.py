"""Builders of pod starts, step by step."""

from __future__ import annotations

from datetime import UTC, datetime

from tui_scene import NOW

from podtui.api.insight import PodStart, Step, StepKind

BASE = NOW.timestamp()


def t(seconds: float) -> str:
    return f"{datetime.fromtimestamp(BASE + seconds, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def step(
    kind: StepKind, began: float, ended: float | None, subject: str = "", **more: object
) -> Step:
    end = None if ended is None else t(ended)
    return Step(kind=kind, began=t(began), ended=end, subject=subject, **more)  # type: ignore[arg-type]


def start(*steps: Step, ready: float | None = None, over: float | None = None) -> PodStart:
    return PodStart(
        uid="u",
        began=t(0),
        steps=steps,
        ready=None if ready is None else t(ready),
        over=None if over is None else t(over),
    )


USUAL = start(
    step(StepKind.ADMIT, 0, 0.01),
    step(StepKind.VOLUMES, 0.01, 0.02),
    step(StepKind.SANDBOX, 0.02, 0.5),
    step(StepKind.PULL, 0.5, 3.5, "registry.example/team/app:1.2"),
    step(StepKind.CREATE, 3.5, 3.8, "setup"),
    step(StepKind.RUN, 3.8, 5.8, "setup", init=True),
    step(StepKind.CREATE, 5.9, 6.2, "app"),
    step(StepKind.RUN, 6.2, None, "app"),
    step(StepKind.READY, 6.2, 9.0, "app"),
    step(StepKind.CREATE, 6.2, 6.5, "side"),
    step(StepKind.RUN, 6.5, None, "side"),
    ready=9.0,
)
