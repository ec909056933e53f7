"""The pods whose requests count, and what they request."""

from __future__ import annotations

from collections.abc import Mapping

from podtui.api.v1 import Pod
from podtui.kubelet.base.resources import pod_requests


class AdmittedPods:
    """Reckons the requests of each pod once: to let one more in, the quantities of all the others
    need not be parsed again."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._requests: dict[str, Mapping[str, int]] = {}

    def add(self, pod: Pod) -> None:
        """Count the pod; one of the same UID gives way to it."""
        uid = pod.metadata.uid
        if self._pods.get(uid) is not pod:
            self._requests.pop(uid, None)
        self._pods[uid] = pod

    def drop(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._requests.pop(uid, None)

    def pods(self) -> tuple[Pod, ...]:
        """In the order in which they came."""
        return tuple(self._pods.values())

    def requests(self, pod: Pod) -> Mapping[str, int]:
        """`pod_requests` of any pod, remembered for those that count."""
        uid = pod.metadata.uid
        if self._pods.get(uid) is not pod:
            return pod_requests(pod)
        found = self._requests.get(uid)
        if found is None:
            found = self._requests[uid] = pod_requests(pod)
        return found
