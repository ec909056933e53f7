"""Why containers wait: the last failed start of each of them (reference §6.5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping


class ReasonCache:
    """(reason, message) by pod UID and container name; a successful start clears it."""

    def __init__(self) -> None:
        self._reasons: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)

    def fail(self, uid: str, container: str, reason: str, message: str) -> None:
        self._reasons[uid][container] = (reason, message)

    def clear(self, uid: str, container: str) -> None:
        if uid in self._reasons:
            self._reasons[uid].pop(container, None)

    def of(self, uid: str) -> Mapping[str, tuple[str, str]]:
        return self._reasons.get(uid, {})

    def forget(self, uid: str) -> None:
        self._reasons.pop(uid, None)
