"""When a state is worth a call to somebody who looks elsewhere; how it is called is another's work.

Each change of a pod is told once. What was so when the screen was opened is no news. A pod that
crashes again and again is told once, and "ready again" only once it has been ready for a while:
between two crashes of a loop every container is ready for a moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from podtui.api.health import Health
from podtui.api.readiness import is_starting, unready, unready_words
from podtui.api.v1 import Node, Pod
from podtui.tui.pods.pod_status import pod_status_line

STEADY: Final = 20.0
"""Seconds that a pod must be ready before it is said to be so again."""
FORGET: Final = 60.0
"""Seconds after which a pod that is gone is a stranger: time for an edited one to come back."""
_LOOPS: Final = frozenset({"CrashLoopBackOff", "Init:CrashLoopBackOff"})
LOOP: Final = 3
"""So many restarts, the last of them recent, are a loop even without back-off."""


class Trouble(StrEnum):
    """What can be wrong, in the words of the setting ``notifyOn``."""

    NONE = ""
    CRASH_LOOP = "crashLoop"
    FAILED = "failed"
    NODE_NOT_READY = "nodeNotReady"


READY: Final = "ready"


class Condition(Struct, frozen=True):
    """How a pod or the node stands now. ``well``: ready, or ended as it should."""

    trouble: Trouble = Trouble.NONE
    well: bool = False
    word: str = ""


class Watched(Struct, frozen=True):
    """What is known of one thing: the ``trouble`` that was told last and not taken back, and since
    when (epoch seconds) it has been well, and gone."""

    trouble: Trouble = Trouble.NONE
    well_since: float | None = None
    gone_since: float | None = None


class Alert(Struct, frozen=True):
    """``kind`` is a word of ``notifyOn``; namespace and pod are empty where it is the node's."""

    kind: str
    name: str
    namespace: str = ""
    word: str = ""

    @property
    def text(self) -> str:
        """One line for people; what comes from outside in it is not cleaned yet."""
        if not self.namespace:
            return f"node {self.name}: {self.word}"
        return f"{self.namespace}/{self.name}: {self.word}"


def pod_condition(pod: Pod, now: float) -> Condition:
    line = pod_status_line(pod, now)
    health = line.health
    if line.word in _LOOPS:
        return Condition(Trouble.CRASH_LOOP, word=line.word)
    if pod.status.phase == "Failed":
        return Condition(Trouble.FAILED, word=line.word)
    if health.until is not None and line.restarts >= LOOP:
        return Condition(Trouble.CRASH_LOOP, word=f"{line.word}, restarted {line.restarts} times")
    if health.health is Health.DONE:
        return Condition(well=True, word="Completed")
    return Condition(well=health.health is Health.HEALTHY, word="ready again")


def node_condition(node: Node) -> Condition:
    """Pressures are no trouble here: pods go on; and an agent that starts is none yet."""
    condition = unready(node)
    if condition is None:
        return Condition(well=True, word="Ready again")
    if is_starting(condition):
        return Condition()
    return Condition(Trouble.NODE_NOT_READY, word=f"NotReady: {unready_words(condition)}")


def first_look(condition: Condition) -> Watched:
    """What was so before we looked is told to nobody."""
    return Watched(condition.trouble)


def look_again(
    before: Watched, condition: Condition, now: float, steady: float = STEADY
) -> tuple[Watched, str]:
    """What is known now, and the kind of what there is to tell, empty for nothing."""
    if condition.trouble is not Trouble.NONE:
        told = condition.trouble is not before.trouble
        return Watched(condition.trouble), condition.trouble.value if told else ""
    if before.trouble is Trouble.NONE:
        return before, ""
    if not condition.well:
        return replace(before, well_since=None), ""
    since = now if before.well_since is None else before.well_since
    if now - since < steady:
        return replace(before, well_since=since), ""
    return Watched(), READY


class AlertBook:
    """Remembers what was told, by pod and for the node. A pod that is replaced under its name is
    the same one to people: it goes on under ``namespace/name``."""

    def __init__(self) -> None:
        self._pods: dict[str, Watched] = {}
        self._nodes: dict[str, Watched] = {}

    def look_at_pods(self, pods: Iterable[Pod], now: float, *, first: bool) -> list[Alert]:
        """``first``: these were there when we came; others that are new have just been made, and
        what is wrong with them is news."""
        found: list[Alert] = []
        for pod in pods:
            name, namespace = pod.metadata.name, pod.metadata.namespace
            condition = pod_condition(pod, now)
            kind = self._look(self._pods, f"{namespace}/{name}", condition, now, first=first)
            if kind:
                found.append(Alert(kind, name, namespace, condition.word))
        return found

    def look_at_node(self, node: Node, now: float, *, first: bool) -> list[Alert]:
        condition, name = node_condition(node), node.metadata.name
        kind = self._look(self._nodes, name, condition, now, first=first, steady=0.0)
        return [Alert(kind, name, word=condition.word)] if kind else []

    def waits(self, pod: Pod) -> bool:
        """Whether time alone may bring news of a pod: it is well, and not yet for long enough."""
        known = self._pods.get(f"{pod.metadata.namespace}/{pod.metadata.name}")
        return known is not None and known.well_since is not None

    def keep_pods(self, pods: Iterable[Pod], now: float) -> None:
        """Forget those that have been gone for long."""
        names = {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods}
        for key in self._pods.keys() - names:
            known = self._pods[key]
            if known.gone_since is None:
                self._pods[key] = replace(known, gone_since=now)
            elif now - known.gone_since > FORGET:
                del self._pods[key]

    def _look(
        self,
        known: dict[str, Watched],
        key: str,
        condition: Condition,
        now: float,
        *,
        first: bool,
        steady: float = STEADY,
    ) -> str:
        before = known.get(key)
        if before is not None and before.gone_since is not None:
            before = replace(before, gone_since=None)
        if before is None and first:
            known[key] = first_look(condition)
            return ""
        known[key], kind = look_again(before or Watched(), condition, now, steady)
        return kind
