"""The rules' view of a pod: its containers in start order, and its events sorted by time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from podtui.api.events import event_count, event_order, last_seen
from podtui.api.health import on_trial_until
from podtui.api.kills import Kill, KillReason, kill_of, kills_of
from podtui.api.names import CONFIG_HASH, CONFIG_MIRROR
from podtui.api.places import Path
from podtui.api.pods import is_sidecar, run_began
from podtui.api.times import epoch
from podtui.api.v1 import (
    Container,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Event,
    Pod,
)
from podtui.why.types import Facts

_NO_REASON = ContainerStateWaiting()
_BY_SIGNAL = (137, 143)
_MANY_KILLS = 3
"""With at least this many kills for one reason, that reason is assumed, whatever the exit code."""


_LOG_FAILURE = re.compile(
    r"(unable to retrieve container logs for \S+://"
    r"|failed to try resolving symlinks in path |failed to get container status )"
)
POLICY: Path = ("spec", "restartPolicy")


def newest(events: Iterator[Event] | tuple[Event, ...]) -> Event | None:
    """Return the last of events that are sorted oldest first."""
    last = None
    for event in events:
        last = event
    return last


def ordered(events: Iterator[Event] | tuple[Event, ...] | list[Event]) -> tuple[Event, ...]:
    """Sort events by their last occurrence."""
    return tuple(sorted(events, key=event_order))


def log_failure(lines: Sequence[str]) -> str:
    """Return the kubelet's error if it was sent as the content of the log; empty for a real log."""
    return lines[0] if len(lines) == 1 and _LOG_FAILURE.match(lines[0]) else ""


@dataclass(frozen=True)
class Case:
    """One container of a pod, with its status and context."""

    facts: Facts
    container: Container
    status: ContainerStatus | None
    path: Path
    init: bool

    @property
    def pod(self) -> Pod:
        return self.facts.pod

    @property
    def name(self) -> str:
        return self.container.name

    @property
    def sidecar(self) -> bool:
        return self.init and is_sidecar(self.container)

    @property
    def waiting(self) -> ContainerStateWaiting:
        """The waiting state; empty if the container is not waiting."""
        state = self.status.state.waiting if self.status is not None else None
        return state or _NO_REASON

    @property
    def running(self) -> bool:
        return self.status is not None and self.status.state.running is not None

    @property
    def restarts(self) -> int:
        return self.status.restartCount if self.status is not None else 0

    @property
    def ended(self) -> ContainerStateTerminated | None:
        return self.status.state.terminated if self.status is not None else None

    @property
    def last_end(self) -> ContainerStateTerminated | None:
        """The newest termination, however long ago."""
        if self.status is None:
            return None
        return self.ended or self.status.lastState.terminated

    @cached_property
    def kill(self) -> Kill | None:
        """The kubelet's record of stopping the instance that ended last."""
        return kill_of(self.pod, self.name, self.last_end)

    @cached_property
    def ending(self) -> ContainerStateTerminated | None:
        """The last termination while it is still relevant: the container is not running, or was
        restarted and is still on trial."""
        if self.status is None or not self.running:
            return self.last_end
        until = on_trial_until(self.pod, self.container, self.status, init=self.init)
        return self.last_end if until is not None and self.facts.now < until else None

    def killed_for(self, reason: KillReason, *texts: str) -> bool:
        """Return whether the kubelet stopped the last terminated instance for this reason;
        ``texts`` are parts of its ``Killing`` event.

        The kubelet's own record decides. Without one, the events decide: first an event seen during
        the life of the instance, then the counts, because a repeated event is aggregated and soon
        rate-limited, so that its time is older than the termination.
        """
        ending = self.ending
        if ending is None:
            return False
        if self.name in kills_of(self.pod.metadata.annotations):
            return self.kill is not None and self.kill.reason is reason
        if self.event_of_termination("Killing", *texts) is not None:
            return True
        kills = sum(event_count(event) for event in self.events_with("Killing", *texts))
        if not kills or ending.reason == "OOMKilled":
            return False
        if ending.exitCode in _BY_SIGNAL:
            return True
        return kills >= _MANY_KILLS or 2 * kills >= self.restarts

    @property
    def completed(self) -> bool:
        """True if the container has completed its work."""
        if self.ended is None or self.ended.exitCode != 0:
            return False
        return (self.init and not self.sidecar) or self.policy != "Always"

    @property
    def policy(self) -> str:
        """The restart policy in effect for the container."""
        return self.container.restartPolicy or self.pod.spec.restartPolicy or "Always"

    @property
    def policy_path(self) -> Path:
        return (*self.path, "restartPolicy") if self.container.restartPolicy else POLICY

    def security_path(self, name: str) -> Path:
        """Return the path of the effective field of a security context: the container's own, or the
        pod's if only that one is set."""
        pod_context = self.pod.spec.securityContext
        context = self.container.securityContext
        silent = context is None or getattr(context, name) is None
        if silent and pod_context is not None and getattr(pod_context, name) is not None:
            return ("spec", "securityContext", name)
        return (*self.path, "securityContext", name)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events about this container, oldest first."""
        suffix = f"{{{self.name}}}"
        return ordered(
            [
                e
                for e in events_of_this_pod(self.facts)
                if e.involvedObject.fieldPath.endswith(suffix)
            ]
        )

    def events_with(self, reason: str, *texts: str) -> Iterator[Event]:
        """Yield the events with this reason whose message contains all these texts."""
        return (
            event
            for event in self.events
            if event.reason == reason and all(text in event.message for text in texts)
        )

    def event_of_termination(self, reason: str, *texts: str) -> Event | None:
        """Return the newest matching event seen during the life of the terminated instance."""
        ending = self.ending
        began = epoch(run_began(ending)) if ending is not None else None
        for event in reversed(tuple(self.events_with(reason, *texts))):
            seen = epoch(last_seen(event))
            # Times are truncated to seconds.
            if began is None or seen is None or seen >= began - 1:
                return event
        return None

    @property
    def stopped(self) -> bool:
        """True if the container runs again after it was stopped for a reason of the pod, not its
        own: a new image, a new sandbox."""
        if not self.running or self.last_end is None:
            return False
        if self.kill is not None:
            return self.kill.on_purpose
        if self.ending is None:
            return False
        recreated = newest(pod_events(self.facts, "SandboxChanged"))
        ended = epoch(self.ending.finishedAt)
        seen = epoch(last_seen(recreated)) if recreated is not None else None
        if seen is not None and ended is not None and seen >= ended - 1:
            return True
        return any(
            self.event_of_termination("Killing", text) is not None
            for text in ("Stopping container", "definition changed", "resize requires restart")
        )

    @property
    def log(self) -> tuple[str, ...]:
        return self.facts.logs.get(self.name, ())

    @cached_property
    def output(self) -> str:
        """The final output: the termination message and the last log lines."""
        message = self.ending.message if self.ending is not None else ""
        return "\n".join((message, *self.log))


def cases(facts: Facts) -> Iterator[Case]:
    """Yield init containers, then regular ones, which is their start order."""
    spec, status = facts.pod.spec, facts.pod.status
    for kind, containers, statuses in (
        ("initContainers", spec.initContainers, status.initContainerStatuses),
        ("containers", spec.containers, status.containerStatuses),
    ):
        by_name = {status.name: status for status in statuses}
        for index, container in enumerate(containers):
            path = ("spec", kind, index)
            yield Case(
                facts, container, by_name.get(container.name), path, init=kind == "initContainers"
            )


def events_of_this_pod(facts: Facts) -> list[Event]:
    """Return the events of this pod, not of an earlier one with the same name. A static pod and its
    mirror pod have different UIDs."""
    meta = facts.pod.metadata
    uids = {"", meta.uid, *(meta.annotations.get(key, "") for key in (CONFIG_HASH, CONFIG_MIRROR))}
    return [event for event in facts.events if event.involvedObject.uid in uids]


def pod_events(facts: Facts, *reasons: str) -> tuple[Event, ...]:
    """Return the pod's events with these reasons, oldest first."""
    return ordered([event for event in facts.events if event.reason in reasons])


def condition(facts: Facts, kind: str) -> str:
    """Return the status of a condition of the pod; empty if it has no such condition."""
    return next((c.status for c in facts.pod.status.conditions if c.type == kind), "")


def is_terminating(pod: Pod) -> bool:
    return bool(pod.metadata.deletionTimestamp)
