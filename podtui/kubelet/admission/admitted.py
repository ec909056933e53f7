"""Admitted pods and their resource requests."""

from __future__ import annotations

from collections.abc import Mapping

from podtui.api.v1 import Pod
from podtui.kubelet.base.resources import pod_requests


class AdmittedPods:
    """Caches the requests of each admitted pod, so that admission of a new pod does not parse the
    quantities of all others again."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._requests: dict[str, Mapping[str, int]] = {}

    def add(self, pod: Pod) -> None:
        """Add the pod; it replaces a pod with the same UID."""
        uid = pod.metadata.uid
        if self._pods.get(uid) is not pod:
            self._requests.pop(uid, None)
        self._pods[uid] = pod

    def drop(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._requests.pop(uid, None)

    def pods(self) -> tuple[Pod, ...]:
        """Return the admitted pods in the order of their admission."""
        return tuple(self._pods.values())

    def requests(self, pod: Pod) -> Mapping[str, int]:
        """Return `pod_requests` of any pod; the result is cached for admitted pods."""
        uid = pod.metadata.uid
        if self._pods.get(uid) is not pod:
            return pod_requests(pod)
        found = self._requests.get(uid)
        if found is None:
            found = self._requests[uid] = pod_requests(pod)
        return found
