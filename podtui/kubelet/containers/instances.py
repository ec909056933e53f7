"""Find a container's instance by the pod's record and the container's name (reference §16)."""

from __future__ import annotations

from typing import Final

from podtui.api.pods import all_containers
from podtui.api.v1 import ContainerStatus, Pod, PodStatus
from podtui.errors import LogError, SessionError

_PULLING: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def only_container(pod: Pod) -> str:
    names = [one.name for one in pod.spec.containers]
    if len(names) == 1 and not pod.spec.initContainers:
        return names[0]
    if len(names) == 1:
        init = " ".join(one.name for one in pod.spec.initContainers)
        choice = f"choose one of: [{names[0]}] or one of the init containers: [{init}]"
    else:
        choice = f"choose one of: [{' '.join(names)}]"
        if pod.spec.initContainers:
            init = " ".join(one.name for one in pod.spec.initContainers)
            choice += f" or one of the init containers: [{init}]"
    raise LogError(400, f"a container name must be specified for pod {pod.metadata.name}, {choice}")


def log_container(pod: Pod, name: str, *, previous: bool) -> str:
    """Return the engine's id of the instance whose log is requested. Raises `LogError`."""
    pod_name = pod.metadata.name
    if not any(one.name == name for _, one in all_containers(pod)):
        raise LogError(404, f'container "{name}" not found in pod "{pod_name}"')
    status = status_of(pod.status, name)
    if status is None:
        raise LogError(400, f'container "{name}" in pod "{pod_name}" is not available')
    state = status.state
    last = status.lastState.terminated
    last_id = "" if last is None else last.containerID
    if previous:
        if not last_id:
            text = f'previous terminated container "{name}" in pod "{pod_name}" not found'
            raise LogError(400, text)
        return bare_id(last_id)
    if state.running is not None:
        return bare_id(status.containerID)
    if state.terminated is not None and state.terminated.containerID:
        return bare_id(state.terminated.containerID)
    if last_id:
        return bare_id(last_id)
    if state.waiting is not None and state.waiting.reason:
        why = _PULLING.get(state.waiting.reason, state.waiting.reason)
        raise LogError(400, f'container "{name}" in pod "{pod_name}" is waiting to start: {why}')
    raise LogError(400, f'container "{name}" in pod "{pod_name}" is not available')


def status_of(status: PodStatus, name: str) -> ContainerStatus | None:
    every = (
        *status.initContainerStatuses,
        *status.containerStatuses,
        *status.ephemeralContainerStatuses,
    )
    return next((one for one in every if one.name == name), None)


def bare_id(container_id: str) -> str:
    return container_id.partition("://")[2] or container_id


def running_container(pod: Pod, name: str) -> str:
    """Return the engine's id of the instance that runs according to the pod's record.

    Raises `SessionError`.
    """
    if not any(one.name == name for _, one in all_containers(pod)):
        raise SessionError(400, f"container {name} is not valid for pod {pod.metadata.name}")
    status = status_of(pod.status, name)
    if status is None or status.state.running is None:
        raise SessionError(500, f'container not found ("{name}")')
    return bare_id(status.containerID)
