"""The desired pods, as given by the folder: by UID and by full name."""

from __future__ import annotations

from collections.abc import Iterator

from podtui.api.pods import full_name
from podtui.api.v1 import Pod


class PodManager:
    """Desired pods, written by the sync loop and by requests for ephemeral containers.

    A pod is removed with its manifest, even while its containers still use their grace period.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, Pod] = {}
        self._by_name: dict[str, str] = {}

    def set(self, pod: Pod) -> None:
        self._by_uid[pod.metadata.uid] = pod
        self._by_name[full_name(pod)] = pod.metadata.uid

    def remove(self, uid: str) -> Pod | None:
        pod = self._by_uid.pop(uid, None)
        if pod is not None and self._by_name.get(full_name(pod)) == uid:
            del self._by_name[full_name(pod)]
        return pod

    def get(self, uid: str) -> Pod | None:
        return self._by_uid.get(uid)

    def by_name(self, namespace: str, name: str) -> Pod | None:
        uid = self._by_name.get(f"{name}_{namespace}")
        return None if uid is None else self._by_uid.get(uid)

    def by_full_name(self, name: str) -> Pod | None:
        uid = self._by_name.get(name)
        return None if uid is None else self._by_uid.get(uid)

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid

    def __iter__(self) -> Iterator[Pod]:
        return iter(tuple(self._by_uid.values()))

    def __len__(self) -> int:
        return len(self._by_uid)
