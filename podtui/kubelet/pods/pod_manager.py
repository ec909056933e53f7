"""The desired pods, as given by the folder and the API: by UID and by full name."""

from __future__ import annotations

from collections.abc import Iterator

from podtui.api.pods import full_name
from podtui.api.v1 import Pod


class PodManager:
    """Desired pods, written by the sync loop and by requests for ephemeral containers.

    A pod is removed with its manifest or record, even while its containers still use their grace
    period. If a static pod and an API pod have one full name, the later one is found by it.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, Pod] = {}
        self._by_name: dict[str, list[str]] = {}

    def set(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if uid not in self._by_uid:
            self._by_name.setdefault(full_name(pod), []).append(uid)
        self._by_uid[uid] = pod

    def remove(self, uid: str) -> Pod | None:
        pod = self._by_uid.pop(uid, None)
        if pod is not None:
            uids = self._by_name[full_name(pod)]
            uids.remove(uid)
            if not uids:
                del self._by_name[full_name(pod)]
        return pod

    def get(self, uid: str) -> Pod | None:
        return self._by_uid.get(uid)

    def by_name(self, namespace: str, name: str) -> Pod | None:
        return self.by_full_name(f"{name}_{namespace}")

    def by_full_name(self, name: str) -> Pod | None:
        uids = self._by_name.get(name)
        return self._by_uid[uids[-1]] if uids else None

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid

    def __iter__(self) -> Iterator[Pod]:
        return iter(tuple(self._by_uid.values()))

    def __len__(self) -> int:
        return len(self._by_uid)
