"""List and watch: keep track of all objects of one kind.

A watch that ends regularly continues from the last version seen. If that version is too old, the
client lists again. A broken connection is reported (`Lost`) and then retried with back-off; the
next list replaces all known objects. Long lists are read in pages. A server's ``Retry-After`` is
respected.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from podtui.api.v1 import ListMeta
from podtui.client.connection import HttpConnection
from podtui.client.decoding import LineSplitter, Versioned, WatchEvent
from podtui.client.protocol import Changed, Delta, Lost, Removed, Synced
from podtui.clock import Clock
from podtui.errors import ApiError, PodtuiError

FIRST_DELAY = 0.2
LAST_DELAY = 5.0
REFUSED_DELAY = 30.0
"""After a refusal, permissions rarely change within a second."""
LONGEST_DELAY = 120.0
STEADY_SECONDS = 1.0
"""A shorter watch without any event counts as a failure, as in client-go."""
MOST_PAGES = 10_000
SILENCE_SECONDS = 150.0
"""More than three server bookmarks are missing: the connection is dead."""
COALESCE_SECONDS = 0.04
"""The minimum time between two reads of a watch. The first change is reported at once; changes
shortly after it are reported together."""
MAX_EVENT = 64 * 1024 * 1024


class _Status(msgspec.Struct, frozen=True):
    """The object of an ERROR event."""

    code: int = 500
    reason: str = ""
    message: str = ""


_EVENTS = msgspec.json.Decoder(WatchEvent)
_VERSIONS = msgspec.json.Decoder(Versioned)
_Key = tuple[str, str, str]
POLL_SECONDS = 5.0
"""Seconds between two lists of objects that cannot be watched."""


class Reader(Protocol):
    """Says where the objects of a kind are, in which form they are requested, and decodes them.
    ``params`` are those of each list and watch."""

    @property
    def accept(self) -> str: ...

    @property
    def params(self) -> Mapping[str, str]: ...

    @property
    def watches(self) -> bool: ...

    def collection(self, namespace: str) -> str: ...

    def decode_list(self, body: bytes) -> tuple[list[Any], ListMeta]: ...

    def decode(self, item: msgspec.Raw) -> Any: ...


@dataclass(slots=True)
class _Batch:
    """The changes of one read: each object once, by namespace, name and uid, latest change last."""

    objects: dict[_Key, tuple[bool, Any]] = field(default_factory=dict[_Key, tuple[bool, Any]])

    def add(self, item: Any, *, removed: bool) -> None:
        key = (item.metadata.namespace, item.metadata.name, item.metadata.uid)
        self.objects.pop(key, None)
        self.objects[key] = (removed, item)

    def deltas(self) -> Iterable[Delta]:
        """Yield removals first, so that a replaced pod disappears before its successor appears."""
        if gone := tuple([item for removed, item in self.objects.values() if removed]):
            yield Removed(gone)
        if here := tuple([item for removed, item in self.objects.values() if not removed]):
            yield Changed(here)


class Following:
    """One call of `podtui.client.protocol.Client.follow`.

    ``namespace`` is called before each list. Lists have pages of ``page`` objects; 0 disables
    paging. ``watch_seconds`` is the requested duration of a watch; with 0, the server decides.
    ``bookmarks`` means that the server's bookmarks show that the connection is alive. The wait
    after a refusal is ``refused_delay``. A wait after an error is longer by up to its own length:
    ``jitter`` returns which part of it, from 0 to 1.
    """

    def __init__(
        self,
        connection: HttpConnection,
        kind: Reader,
        namespace: Callable[[], Awaitable[str]],
        clock: Clock,
        *,
        page: int = 0,
        watch_seconds: int = 0,
        bookmarks: bool = False,
        refused_delay: float = REFUSED_DELAY,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._connection = connection
        self._kind = kind
        self._namespace = namespace
        self._path = ""
        self._clock = clock
        self._page = page
        self._watch_seconds = watch_seconds
        self._bookmarks = bookmarks or not watch_seconds
        self._refused_delay = refused_delay
        self._jitter = jitter
        self._version = ""
        self._delay = FIRST_DELAY

    async def run(self) -> AsyncGenerator[Delta]:
        """Yield deltas until the connection is closed."""
        lost = ""
        while True:
            try:
                if not self._version:
                    synced = await self._list()
                    lost = ""
                    yield synced
                if not self._kind.watches:
                    self._version = ""
                    await self._clock.sleep(POLL_SECONDS)
                    continue
                async with aclosing(self._watch()) as deltas:
                    async for delta in deltas:
                        yield delta
            except (PodtuiError, msgspec.MsgspecError) as error:
                if self._connection.closed:
                    return
                # What happened meanwhile is unknown: the next list replaces everything.
                self._version = ""
                expired = isinstance(error, ApiError) and error.code == 410
                # A version that is too old is a reason to list, not a loss. A loss is reported
                # once for each reason.
                if not expired and str(error) != lost:
                    lost = str(error)
                    yield Lost(lost, is_refused(error))
                # Clients that lost the server together do not return together.
                wait = wait_after(error, self._delay, self._refused_delay)
                await self._clock.sleep(wait * (1 + self._jitter()))
            else:
                await self._clock.sleep(self._delay)
            # Each event of a watch resets it, so that only failures in a row lengthen it.
            self._delay = min(self._delay * 2, LAST_DELAY)

    async def _list(self) -> Synced:
        self._path = self._kind.collection(await self._namespace())
        items: list[Any] = []
        limit = {"limit": str(self._page)} if self._page else {}
        params = {**self._kind.params, **limit}
        for _ in range(MOST_PAGES):
            try:
                body = await self._connection.get(self._path, params, accept=self._kind.accept)
            except ApiError as error:
                if error.code != 410 or "continue" not in params:
                    raise
                # The continue token has expired. Like kubectl, list again without pages.
                items, params = [], dict(self._kind.params)
                continue
            page, metadata = self._kind.decode_list(body)
            items += page
            if not metadata.continue_:
                break
            params = {**self._kind.params, **limit, "continue": metadata.continue_}
        else:
            raise ApiError(500, "InternalError", f"{self._path}: the list does not end")
        self._version = metadata.resourceVersion
        return Synced(tuple(items))

    async def _watch(self) -> AsyncGenerator[Delta]:
        params = {
            **self._kind.params,
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
        }
        silence = SILENCE_SECONDS
        if self._watch_seconds:
            params["timeoutSeconds"] = str(self._watch_seconds)
        if not self._bookmarks:
            silence += self._watch_seconds
        splitter = LineSplitter(MAX_EVENT)
        async with self._connection.stream(
            "GET",
            self._path,
            params,
            accept=self._kind.accept,
            head=self._connection.answer_seconds,
            silence=silence,
        ) as response:
            began = self._clock.monotonic()
            while chunk := await response.content.readany():
                batch = _Batch()
                for line in splitter.feed(chunk):
                    self._take(line, batch)
                    self._delay = FIRST_DELAY
                # All events of a read together: a burst is not one update for each event.
                for delta in batch.deltas():
                    yield delta
                await self._clock.sleep(COALESCE_SECONDS)
            if self._clock.monotonic() - began > STEADY_SECONDS:
                self._delay = FIRST_DELAY

    def _take(self, line: bytes, batch: _Batch) -> None:
        """Raises `ApiError` for an ERROR event; the next list then covers the rest of the batch."""
        event = _EVENTS.decode(line)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=_Status)
            raise ApiError(status.code, status.reason, status.message)
        if event.type == "BOOKMARK":
            self._version = _VERSIONS.decode(event.object).metadata.resourceVersion
            return
        item = self._kind.decode(event.object)
        self._version = item.metadata.resourceVersion
        batch.add(item, removed=event.type == "DELETED")


def is_refused(error: Exception) -> bool:
    """Return whether the server refuses this kind: it is forbidden or unknown."""
    return isinstance(error, ApiError) and error.code in (403, 404, 405)


def wait_after(error: Exception, delay: float, refused_delay: float = REFUSED_DELAY) -> float:
    """Return the seconds until the next try, at least ``delay``."""
    # On each 401 an exec plugin runs again, and some plugins open a browser.
    if is_refused(error) or (isinstance(error, ApiError) and error.code == 401):
        return max(delay, refused_delay)
    requested = error.retry_after if isinstance(error, ApiError) else None
    return min(LONGEST_DELAY, max(delay, requested or 0.0))
