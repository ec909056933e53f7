"""One HTTP/1.1 exchange over a connection to a pod, for the proxies of the API and Ingresses."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from multidict import CIMultiDict, MultiMapping

from podtui.errors import without_group

MAX_HEAD_BYTES: Final = 1 << 20
"""As in Go's client."""
_PIECE_BYTES: Final = 64 * 1024
_CHUNK_END: Final = b"\r\n"
_STATUS: Final = re.compile(r"HTTP/1\.[01] (\d{3})(?: .*)?", re.ASCII)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_LENGTH: Final = re.compile(r"\d{1,18}", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that the server refuses to send in a header."""
_SHOWN_CHARACTERS: Final = 80
_SWITCHING: Final = 101
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that concern one connection only."""


class HttpProblem(Exception):
    """Raised if the pod does not answer as an HTTP server does; the text is that of Go's client."""


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Without the reason phrase: as Go's server, ours sends the phrase of the status."""

    status: int
    headers: CIMultiDict[str]


@asynccontextmanager
async def http_connection(
    sock: socket.socket, tls: ssl.SSLContext | None
) -> AsyncGenerator[HttpConnection]:
    """Exchange over a connected socket. Raises `HttpProblem` if the handshake of TLS fails, and the
    errors of the block."""
    name = None if tls is None else ""
    try:
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=tls, server_hostname=name, limit=MAX_HEAD_BYTES
        )
    except ssl.SSLError as error:
        if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
            raise HttpProblem("http: server gave HTTP response to HTTPS client") from error
        raise HttpProblem(f"tls: {error.reason or error}") from error
    except ConnectionError as error:
        raise HttpProblem("EOF") from error
    connection = HttpConnection(reader, writer)
    try:
        yield connection
    finally:
        connection.abort()


@cache
def unverified() -> ssl.SSLContext:
    """The certificate of a pod is not verified: it is not issued for its IP."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@asynccontextmanager
async def beside(*jobs: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run jobs, which raise nothing, until the block ends. Its error is raised as it is."""
    with without_group():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()


def end_to_end(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return the headers that a proxy passes on: without those that concern one connection only."""
    named = {
        name.strip().lower()
        for line in headers.getall("Connection", [])
        for name in line.split(",")
    }
    passed: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        if name.lower() not in _HOP_BY_HOP and name.lower() not in named:
            passed.add(name, value)
    return passed


class HttpConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send_head(self, method: str, target: str, headers: CIMultiDict[str]) -> None:
        lines = [f"{method} {target} HTTP/1.1"]
        lines += (f"{key}: {value}" for key, value in headers.items())
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape"))

    async def send(self, data: bytes) -> None:
        """Return when there is room for more. Raises ConnectionError."""
        self._writer.write(data)
        await self._writer.drain()

    async def send_chunk(self, data: bytes) -> None:
        """Send a chunk of a body; an empty one ends it."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_writing(self) -> None:
        """TLS has no end of one direction."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def read_head(self) -> ResponseHead:
        """Read the head of the response, after those that are only informational. Raises
        `HttpProblem`."""
        while True:
            try:
                block = await self._reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError as error:
                if not error.partial:
                    raise HttpProblem("EOF") from error
                raise _malformed(error.partial) from error
            except asyncio.LimitOverrunError as error:
                raise HttpProblem(
                    "net/http: server response headers exceeded the limit; aborted"
                ) from error
            except (ConnectionError, ssl.SSLError) as error:
                raise HttpProblem(str(error)) from error
            head = parse_head(block)
            if head.status >= 200 or head.status == _SWITCHING:
                return head

    async def body(self, head: ResponseHead, method: str) -> AsyncIterator[bytes]:
        """Yield the body of a response. Raises ConnectionError if it is cut off."""
        length = head.headers.get("Content-Length", "")
        if method == "HEAD" or head.status in (204, 304):
            return
        if "Transfer-Encoding" in head.headers:
            async for data in self._chunks():
                yield data
        elif length:
            async for data in self._exactly(int(length)):
                yield data
        else:
            async for data in self.rest():
                yield data

    async def rest(self) -> AsyncIterator[bytes]:
        """Yield all bytes until the pod closes its side."""
        while data := await self._reader.read(_PIECE_BYTES):
            yield data

    async def _exactly(self, length: int) -> AsyncIterator[bytes]:
        left = length
        while left:
            data = await self._reader.read(min(left, _PIECE_BYTES))
            if not data:
                raise ConnectionAbortedError("unexpected EOF")
            left -= len(data)
            yield data

    async def _chunks(self) -> AsyncIterator[bytes]:
        try:
            while True:
                line = await self._reader.readuntil(_CHUNK_END)
                size = int(line.partition(b";")[0], 16)
                if size <= 0:
                    break
                async for data in self._exactly(size):
                    yield data
                await self._reader.readuntil(_CHUNK_END)
            # Skip the trailer.
            while await self._reader.readuntil(_CHUNK_END) != _CHUNK_END:
                pass
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise ConnectionAbortedError("malformed chunked encoding") from error


def parse_head(block: bytes) -> ResponseHead:
    """Parse the head of a response. Bytes that are not UTF-8 are replaced, as in requests. Raises
    `HttpProblem`."""
    text = block.decode("utf-8", "replace")
    first, *lines = text.removesuffix("\r\n\r\n").split("\r\n")
    match = _STATUS.fullmatch(first)
    if match is None:
        raise _malformed(block)
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name) or _CONTROL.search(value):
            raise _malformed(line.encode())
        headers.add(name, value.strip(" \t"))
    _frame(headers)
    return ResponseHead(int(match[1]), headers)


def _frame(headers: CIMultiDict[str]) -> None:
    """Leave one header that says where the body ends. Raises `HttpProblem` if there are several
    answers to that: the client could read another one than we did."""
    lengths = headers.popall("Content-Length", [])
    codings = headers.getall("Transfer-Encoding", [])
    if codings:
        if [coding.lower() for coding in codings] != ["chunked"]:
            raise _broken(f'unsupported transfer encoding: "{", ".join(codings)}"')
        return
    if len(set(lengths)) > 1:
        raise _broken("http: message cannot contain multiple Content-Length headers")
    if lengths:
        if not _LENGTH.fullmatch(lengths[0]):
            raise _broken(f'bad Content-Length "{lengths[0]}"')
        headers["Content-Length"] = lengths[0]


def _malformed(data: bytes) -> HttpProblem:
    line = data.splitlines()[0].decode("utf-8", "replace") if data else ""
    return _broken(f'malformed HTTP response "{line[:_SHOWN_CHARACTERS]}"')


def _broken(text: str) -> HttpProblem:
    """``text`` may quote the pod."""
    shown = "".join(char if char.isprintable() else "?" for char in text[: 2 * _SHOWN_CHARACTERS])
    return HttpProblem(f"net/http: HTTP/1.x transport connection broken: {shown}")
