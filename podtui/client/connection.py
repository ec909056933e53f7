"""HTTP to one agent or API server: requests, streams and error translation."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from podtui.client.blocking import refusal
from podtui.errors import AgentUnavailable, ApiError

ANSWER_SECONDS = 10.0
CONNECT_SECONDS = 3.0
READ_BUFFER = 256 * 1024
_UPGRADE_SECONDS = 30.0
Params = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``head``, ``total`` and ``silence`` are timeouts in seconds: until the response begins, for
    the whole response, and between pieces."""

    method: str
    path: str
    params: Params | None = None
    body: bytes | AsyncIterable[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    head: float | None = None
    total: float | None = None
    silence: float | None = None


class HttpConnection:
    """An HTTP connection. The session opens with the first request, because it needs a running
    loop.

    ``headers`` are sent with every request (a token); ``connector`` creates the transport.
    """

    peer = "the agent"
    """The name of the server in messages."""
    answer_seconds = ANSWER_SECONDS
    """Timeout for the whole response of a request that is no stream."""
    connect_seconds = CONNECT_SECONDS
    """Timeout for establishing a connection, including TLS."""

    def __init__(
        self,
        base_url: str,
        connector: Callable[[], aiohttp.BaseConnector],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._base_url = base_url
        self._connector = connector
        self._headers = dict(headers or {})
        self._session: aiohttp.ClientSession | None = None
        self._heads: set[asyncio.Timeout] = set()
        """The timeouts of the requests whose response has not begun."""
        self._responses: set[aiohttp.ClientResponse] = set()
        self.closed = False

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, accept: str = ""
    ) -> bytes:
        """Raises `AgentUnavailable` and `podtui.errors.ApiError`, like all methods here."""
        async with self.stream(
            "GET", path, params, accept=accept, total=self.answer_seconds
        ) as response:
            return await response.read()

    async def delete(self, path: str, body: bytes) -> bytes:
        async with self.stream(
            "DELETE", path, body=body, content_type="application/json", total=self.answer_seconds
        ) as response:
            return await response.read()

    async def post(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
        content_type: str = "application/octet-stream",
    ) -> bytes:
        async with self.stream(
            "POST", path, params, body=body, content_type=content_type, total=self.answer_seconds
        ) as response:
            return await response.read()

    async def put(
        self,
        path: str,
        body: bytes,
        content_type: str,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        async with self.stream(
            "PUT", path, params, body=body, content_type=content_type, total=self.answer_seconds
        ) as response:
            return await response.read()

    async def patch(
        self,
        path: str,
        body: bytes,
        content_type: str,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        async with self.stream(
            "PATCH", path, params, body=body, content_type=content_type, total=self.answer_seconds
        ) as response:
            return await response.read()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        *,
        body: bytes | AsyncIterable[bytes] | None = None,
        content_type: str = "application/octet-stream",
        accept: str = "",
        head: float | None = None,
        total: float | None = None,
        silence: float | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Open a response with the timeouts of `Request`."""
        headers = {"Content-Type": content_type} if body is not None else {}
        if accept:
            headers["Accept"] = accept
        request = Request(
            method=method,
            path=path,
            params=params,
            body=body,
            headers=headers,
            head=head,
            total=total,
            silence=silence,
        )
        try:
            async with AsyncExitStack() as stack:
                yield await self._answer(stack, request)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AgentUnavailable(self._words(error)) from error

    async def _answer(self, stack: AsyncExitStack, request: Request) -> aiohttp.ClientResponse:
        """Return a response that stays open as long as ``stack``. Raises `ApiError` on an error
        status."""
        return await self._send(stack, self._open(), request)

    async def _send(
        self,
        stack: AsyncExitStack,
        session: aiohttp.ClientSession,
        request: Request,
        headers: Iterable[tuple[str, str]] = (),
        **options: Any,
    ) -> aiohttp.ClientResponse:
        async with asyncio.timeout(request.head) as limit:
            self._heads.add(limit)
            try:
                response = await stack.enter_async_context(
                    session.request(
                        request.method,
                        request.path,
                        params=request.params,
                        data=request.body,
                        headers=[*request.headers.items(), *headers],
                        timeout=aiohttp.ClientTimeout(
                            total=request.total,
                            sock_connect=self.connect_seconds,
                            sock_read=request.silence,
                        ),
                        allow_redirects=False,
                        **options,
                    )
                )
            finally:
                self._heads.discard(limit)
        self._responses.add(response)
        stack.callback(self._responses.discard, response)
        if response.status >= 300:
            body = await response.read()
            raise refusal(response.status, response.reason or "", body, response.headers)
        return response

    @asynccontextmanager
    async def socket(
        self, path: str, params: Sequence[tuple[str, str]], *protocols: str
    ) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket with one of the protocols, in order of preference, for the duration of
        the block. Errors of the block are not translated."""
        try:
            async with asyncio.timeout(_UPGRADE_SECONDS):
                socket = await self._upgrade(path, params, protocols)
        except aiohttp.WSServerHandshakeError as error:
            # The library discards the error response, so request it again for its message.
            await self._refused(path, params)
            raise ApiError(error.status, "BadRequest", f"no WebSocket: {error.message}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AgentUnavailable(self._words(error)) from error
        try:
            async with self._keep_alive(socket):
                yield socket
        finally:
            await socket.close()

    def _keep_alive(
        self, socket: aiohttp.ClientWebSocketResponse
    ) -> AbstractAsyncContextManager[None]:
        """Keep a WebSocket from being closed while it is idle. A subclass may send pings."""
        return nullcontext()

    async def _upgrade(
        self, path: str, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        return await self._open().ws_connect(path, params=params, protocols=protocols)

    async def _refused(self, path: str, params: Sequence[tuple[str, str]]) -> None:
        async with self.stream("GET", path, params, total=self.answer_seconds):
            return

    async def reset(self) -> None:
        """Close the open connections: running requests end with `AgentUnavailable`, and later ones
        connect again."""
        session, self._session = self._session, None
        # Closing the session alone would leave them waiting, without their timeouts.
        for limit in self._heads:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())
        for response in tuple(self._responses):
            response.close()
        if session is not None:
            await session.close()

    async def close(self) -> None:
        """Close the session. Idempotent; running requests end with `AgentUnavailable`."""
        self.closed = True
        await self.reset()

    def _open(self) -> aiohttp.ClientSession:
        if self.closed:
            raise AgentUnavailable("the client is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                self._base_url,
                connector=self._connector(),
                headers={
                    "Accept": "application/json",
                    # Compression costs time on both sides, and a socket on this machine is fast.
                    "Accept-Encoding": "identity",
                    **self._headers,
                },
                read_bufsize=READ_BUFFER,
            )
        return self._session

    def _words(self, error: Exception) -> str:
        return agent_words(error)


def agent_words(error: Exception) -> str:
    """Describe an error for users: aiohttp's messages contain addresses and class names."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, FileNotFoundError | ConnectionRefusedError):
        return "no agent is running"
    if isinstance(cause, PermissionError):
        return "the agent's socket belongs to another user"
    if isinstance(cause, TimeoutError):
        return "the agent does not answer"
    if isinstance(
        cause, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | ConnectionError
    ):
        return "the agent closed the connection"
    return str(cause) or type(cause).__name__
