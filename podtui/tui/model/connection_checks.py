"""Connections that the agent tries from inside pods while a screen explains them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from podtui.api.insight import ConnectionCheck
from podtui.api.v1 import Pod
from podtui.client.protocol import Client
from podtui.errors import PodtuiError
from podtui.why.connection_checks import fails

AGAIN_SECONDS: Final = 10.0
"""Seconds after which a connection that failed is tried again."""
Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class _Answer:
    result: ConnectionCheck | str
    restarts: int
    time: float

    @property
    def is_good(self) -> bool:
        return isinstance(self.result, ConnectionCheck) and not fails(self.result)


class ConnectionChecks:
    """The last answers. A connection that was accepted is tried again only after a restart of a
    container: some servers count connections without a request as errors."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._answers: dict[Key, _Answer] = {}
        self._wanted: dict[Key, Pod] = {}
        self._asking = False

    def of(self, pod: Pod, host: str, port: int) -> ConnectionCheck | str | None:
        """Return the last answer, or why the pod cannot be asked; None before the first one. Note
        that an answer is wanted, unless it is known."""
        key = (pod.metadata.uid, host, port)
        answer = self._answers.get(key)
        if answer is None or self._is_old(pod, answer):
            self._wanted[key] = pod
        return None if answer is None else answer.result

    def _is_old(self, pod: Pod, answer: _Answer) -> bool:
        if answer.restarts != _restarts(pod):
            return True
        return not answer.is_good and self._now() - answer.time >= AGAIN_SECONDS

    @property
    def is_due(self) -> bool:
        """Return whether answers are wanted that `ask` does not get already."""
        return bool(self._wanted) and not self._asking

    async def ask(self, client: Client, on_answer: Callable[[], None]) -> None:
        """Get the answers that are wanted; ``on_answer`` is called after each."""
        if self._asking:
            return
        self._asking = True
        try:
            while self._wanted:
                key = next(iter(self._wanted))
                pod = self._wanted[key]
                meta, (_, host, port) = pod.metadata, key
                result: ConnectionCheck | str
                try:
                    result = await client.check_connection(meta.namespace, meta.name, host, port)
                except PodtuiError as error:
                    result = str(error)
                self._answers[key] = _Answer(result, _restarts(pod), self._now())
                self._wanted.pop(key, None)
                on_answer()
        finally:
            self._asking = False


def _restarts(pod: Pod) -> int:
    statuses = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    return sum(status.restartCount for status in statuses)
