"""The pod phase (kubelet.md §7.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from podtui.api.pod_resources import is_static
from podtui.api.pods import is_sidecar
from podtui.api.v1 import ContainerStatus, Pod
from podtui.kubelet.containers.restart import init_restarts_after, restarts_after

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
TERMINAL: Final = (SUCCEEDED, FAILED)
RESTARTING_ALL: Final = "RestartingAllContainers"
"""Reason of a container that was removed by a RestartAllContainers rule."""


@dataclass(slots=True)
class _Counts:
    running: int = 0
    waiting: int = 0
    stopped: int = 0
    succeeded: int = 0
    unknown: int = 0
    may_restart: bool = False
    pending_init: int = 0
    pending_sidecars: int = 0
    failed_for_good: bool = False


def _last_exit(status: ContainerStatus) -> int | None:
    """Return the exit code of the last run; None while running or if there was none."""
    if status.state.running is not None:
        return None
    ended = status.state.terminated or status.lastState.terminated
    return None if ended is None else ended.exitCode


def _reset(status: ContainerStatus) -> bool:
    """Return True if the container waits because all containers of the pod restart."""
    ended = status.lastState.terminated
    return status.state.waiting is not None and ended is not None and ended.reason == RESTARTING_ALL


def _count_init(pod: Pod, statuses: Mapping[str, ContainerStatus], counts: _Counts) -> None:
    for container in pod.spec.initContainers:
        status = statuses.get(container.name)
        if is_sidecar(container):
            if status is None:
                counts.unknown += 1
            elif status.state.running is not None:
                counts.running += 1
                counts.pending_sidecars += not status.started
            elif _last_exit(status) is None:
                counts.pending_sidecars += 1
                counts.waiting += status.state.waiting is not None
                counts.unknown += status.state.waiting is None
            continue
        code = None if status is None else _last_exit(status)
        if code is None or status is None:
            counts.pending_init += 1
            continue
        if code != 0:
            again = _reset(status) or init_restarts_after(pod, container, code)
            counts.failed_for_good |= not again


def _count_regular(pod: Pod, statuses: Mapping[str, ContainerStatus], counts: _Counts) -> None:
    for container in pod.spec.containers:
        status = statuses.get(container.name)
        if status is None:
            counts.unknown += 1
        elif status.state.running is not None:
            counts.running += 1
        elif (code := _last_exit(status)) is not None:
            counts.stopped += 1
            counts.succeeded += status.state.terminated is not None and code == 0
            counts.may_restart |= _reset(status) or restarts_after(pod, container, code)
        elif status.state.waiting is not None:
            counts.waiting += 1
        else:
            counts.unknown += 1


def pod_phase(
    pod: Pod,
    statuses: Iterable[ContainerStatus],
    *,
    created_in_newest_sandbox: bool,
    terminal: bool = False,
) -> str:
    """Compute the phase from the containers' statuses, init containers included.

    ``created_in_newest_sandbox``: a regular container was. ``terminal``: this is
    the last status of a pod that is being torn down, which decides between Succeeded and Failed
    for every pod but a static one.
    """
    by_name = {status.name: status for status in statuses}
    counts = _Counts()
    _count_init(pod, by_name, counts)
    _count_regular(pod, by_name, counts)
    if counts.failed_for_good:
        return FAILED
    if (
        counts.pending_init
        or (counts.pending_sidecars and not created_in_newest_sandbox)
        or counts.waiting
    ):
        return PENDING
    if counts.running and not counts.unknown:
        return RUNNING
    if counts.stopped and not counts.unknown:
        all_well = counts.stopped == counts.succeeded
        if terminal and not is_static(pod):
            return SUCCEEDED if all_well else FAILED
        if counts.may_restart:
            return RUNNING
        return SUCCEEDED if all_well else FAILED
    return PENDING
