"""Decide which state changes cause a notification, and deliver it.

Each change is reported once. States that existed when the screen was opened are not reported. A
crash loop is reported once, and "ready again" only after the pod has been ready for a while:
between two crashes of a loop, every container is ready for a moment.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from podtui.api.health import Health, is_starting, unready, unready_words
from podtui.api.v1 import Node, Pod
from podtui.tui.views.pod_status import pod_status_line
from podtui.tui.widgets.sanitize import clean

READY_SECONDS: Final = 20.0
"""Seconds that a pod must be ready before it is reported as ready again."""
FORGET_SECONDS: Final = 60.0
"""Seconds that the state of a removed pod is kept, so that an edited pod can return."""
_LOOPS: Final = frozenset({"CrashLoopBackOff", "Init:CrashLoopBackOff"})
LOOP: Final = 3
"""Number of restarts, the last of them recent, that count as a loop even without back-off."""


class AlertKind(StrEnum):
    """The kinds of alerts; the values are those of the setting ``notifyOn``."""

    NONE = ""
    CRASH_LOOP = "crashLoop"
    FAILED = "failed"
    NODE_NOT_READY = "nodeNotReady"


READY: Final = "ready"


class Condition(Struct, frozen=True):
    """The current state of a pod or node. ``healthy``: ready or completed."""

    kind: AlertKind = AlertKind.NONE
    healthy: bool = False
    word: str = ""


class ObjectState(Struct, frozen=True):
    """The remembered state of one object: the reported ``kind`` that is not resolved yet, and
    since when (epoch seconds) the object has been healthy, or missing."""

    kind: AlertKind = AlertKind.NONE
    healthy_since: float | None = None
    missing_since: float | None = None


class Alert(Struct, frozen=True):
    """One notification; ``kind`` is a value of the setting ``notifyOn``, ``namespace`` is empty for
    a node."""

    kind: str
    name: str
    namespace: str = ""
    word: str = ""

    @property
    def text(self) -> str:
        """The message in one line; external text in it is not sanitized yet."""
        if not self.namespace:
            return f"node {self.name}: {self.word}"
        return f"{self.namespace}/{self.name}: {self.word}"


def pod_condition(pod: Pod, now: float) -> Condition:
    line = pod_status_line(pod, now)
    health = line.health
    if line.word in _LOOPS:
        return Condition(AlertKind.CRASH_LOOP, word=line.word)
    if pod.status.phase == "Failed":
        return Condition(AlertKind.FAILED, word=line.word)
    if health.until is not None and line.restarts >= LOOP:
        return Condition(AlertKind.CRASH_LOOP, word=f"{line.word}, restarted {line.restarts} times")
    if health.health is Health.COMPLETED:
        return Condition(healthy=True, word="Completed")
    return Condition(healthy=health.health is Health.RUNNING, word="ready again")


def node_condition(node: Node) -> Condition:
    """Return the condition of a node.

    Pressure conditions are not reported, since pods keep running, nor is an agent that is still
    starting.
    """
    condition = unready(node)
    if condition is None:
        return Condition(healthy=True, word="Ready again")
    if is_starting(condition):
        return Condition()
    return Condition(AlertKind.NODE_NOT_READY, word=f"NotReady: {unready_words(condition)}")


def initial_state(condition: Condition) -> ObjectState:
    """Return the state after the first observation, for which no notification is sent."""
    return ObjectState(condition.kind)


def next_state(
    before: ObjectState, condition: Condition, now: float, steady: float = READY_SECONDS
) -> tuple[ObjectState, str]:
    """Return the new state and the kind of notification to send, empty for none."""
    if condition.kind is not AlertKind.NONE:
        is_new = condition.kind is not before.kind
        return ObjectState(condition.kind), condition.kind.value if is_new else ""
    if before.kind is AlertKind.NONE:
        return before, ""
    if not condition.healthy:
        return replace(before, healthy_since=None), ""
    since = now if before.healthy_since is None else before.healthy_since
    if now - since < steady:
        return replace(before, healthy_since=since), ""
    return ObjectState(), READY


class AlertTracker:
    """Remembers what was reported for each pod and node.

    Pods are identified by ``namespace/name``, so that a replaced pod continues under its name.
    """

    def __init__(self) -> None:
        self._pods: dict[str, ObjectState] = {}
        self._nodes: dict[str, ObjectState] = {}

    def observe_pods(self, pods: Iterable[Pod], now: float, *, first: bool) -> list[Alert]:
        """Return the alerts for these pods.

        With ``first``, the unknown ones among them existed when the screen was opened and are not
        reported. Otherwise unknown pods were just created, and their alerts are returned.
        """
        alerts: list[Alert] = []
        for pod in pods:
            name, namespace = pod.metadata.name, pod.metadata.namespace
            condition = pod_condition(pod, now)
            kind = self._observe(self._pods, f"{namespace}/{name}", condition, now, first=first)
            if kind:
                alerts.append(Alert(kind, name, namespace, condition.word))
        return alerts

    def observe_node(self, node: Node, now: float, *, first: bool) -> list[Alert]:
        condition, name = node_condition(node), node.metadata.name
        kind = self._observe(self._nodes, name, condition, now, first=first, steady=0.0)
        return [Alert(kind, name, word=condition.word)] if kind else []

    def is_recovering(self, pod: Pod) -> bool:
        """Return True if a pod is healthy again, but not yet for long enough to report it."""
        state = self._pods.get(f"{pod.metadata.namespace}/{pod.metadata.name}")
        return state is not None and state.healthy_since is not None

    def forget_missing(self, pods: Iterable[Pod], now: float) -> None:
        """Forget pods that have been missing for more than `FORGET_SECONDS` seconds."""
        names = {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods}
        for key in self._pods.keys() - names:
            state = self._pods[key]
            if state.missing_since is None:
                self._pods[key] = replace(state, missing_since=now)
            elif now - state.missing_since > FORGET_SECONDS:
                del self._pods[key]

    def _observe(
        self,
        states: dict[str, ObjectState],
        key: str,
        condition: Condition,
        now: float,
        *,
        first: bool,
        steady: float = READY_SECONDS,
    ) -> str:
        before = states.get(key)
        if before is not None and before.missing_since is not None:
            before = replace(before, missing_since=None)
        if before is None and first:
            states[key] = initial_state(condition)
            return ""
        states[key], kind = next_state(before or ObjectState(), condition, now, steady)
        return kind


COMMAND_SECONDS: Final = 10.0

LONGEST: Final = 200
"""Maximum number of characters of a notification."""

_ENVIRONMENT: Final = ("KIND", "NAME", "NAMESPACE", "REASON", "TEXT")


def osc9(text: str, environ: Mapping[str, str]) -> str:
    """Return the escape sequence by which a terminal shows a notification.

    Inside tmux, it is wrapped to be passed through (the option ``allow-passthrough`` must be on).
    """
    # Some terminals interpret a number and a semicolon as a command, for example a progress bar
    # or even the start of a program.
    sequence = f"\x1b]9;{clean(text)[:LONGEST].replace(';', ',')}\x07"
    if environ.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    return sequence


def alert_environment(alert: Alert) -> dict[str, str]:
    """Return the environment variables of an alert for a program: ``PODTUI_ALERT_KIND`` etc."""
    values = (alert.kind, alert.name, alert.namespace, alert.word, alert.text)
    return {
        f"PODTUI_ALERT_{name}": clean(value)
        for name, value in zip(_ENVIRONMENT, values, strict=True)
    }


async def run_command(
    command: Sequence[str], alert: Alert, seconds: float = COMMAND_SECONDS
) -> str:
    """Run the user's program without a shell, with the alert text as its last argument.

    Returns the error message, or an empty string.
    """
    text = clean(alert.text)[:LONGEST]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, text,
            env={**os.environ, **alert_environment(alert)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return f"{command[0]}: {error}"
    try:
        async with asyncio.timeout(seconds):
            status = await process.wait()
    except TimeoutError:
        return f"{command[0]}: killed after {seconds:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return f"{command[0]}: exit status {status}" if status else ""


def terminal_text(alert: Alert, by: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the text to write to the terminal for an alert."""
    return ("\x07" if "bell" in by else "") + (
        osc9(f"podtui: {alert.text}", environ) if "osc9" in by else ""
    )
