"""Queries for names outside of the cluster: relayed to the resolvers of the node, as they are.

Each exchange has a socket and an id of its own, and only an answer of the asked address with this
id and this question counts.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import dns.rcode

from podtui.services.dns_messages import code_of, is_answer_to, with_id

_LOG = logging.getLogger(__name__)
Resolver = tuple[str, int]
"""IP address and port."""
SECONDS: Final = 2.0
"""Seconds that a resolver has to answer; then the next one is asked."""
_MAX_RESOLVERS: Final = 3
_MAX_DATAGRAM: Final = 65535
_NEXT: Final = (dns.rcode.SERVFAIL, dns.rcode.REFUSED)
"""Answers after which the next resolver is asked."""


class Forwarder:
    """``resolvers`` returns those of the node, first choice first."""

    def __init__(self, resolvers: Callable[[], Awaitable[Sequence[Resolver]]]) -> None:
        self._resolvers = resolvers
        self._first: Resolver | None = None
        """The resolver that answered last."""

    async def ask(self, query: bytes, *, stream: bool) -> bytes | None:
        """Return the answer of the first resolver that answers, with the id of the query; the last
        failure if each one fails; None if none answers. ``stream``: over TCP."""
        resolvers = list(await self._resolvers())[:_MAX_RESOLVERS]
        if self._first in resolvers:
            resolvers.remove(self._first)
            resolvers.insert(0, self._first)
        failure: bytes | None = None
        for resolver in resolvers:
            sent = with_id(query, secrets.token_bytes(2))
            try:
                async with asyncio.timeout(SECONDS):
                    answer = await (_over_tcp if stream else _over_udp)(resolver, sent)
            except (OSError, TimeoutError) as error:
                _LOG.debug("the resolver %s did not answer: %r", resolver[0], error)
                continue
            answer = with_id(answer, query[:2])
            if code_of(answer) not in _NEXT:
                self._first = resolver
                return answer
            failure = answer
        return failure


async def _over_udp(resolver: Resolver, query: bytes) -> bytes:
    with socket.socket(_family(resolver), socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        return await ask_by_datagram(sock, resolver, query)


async def _over_tcp(resolver: Resolver, query: bytes) -> bytes:
    with socket.socket(_family(resolver), socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        return await ask_by_stream(sock, resolver, query)


def _family(resolver: Resolver) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in resolver[0] else socket.AF_INET


async def ask_by_datagram(sock: socket.socket, resolver: Resolver, query: bytes) -> bytes:
    """Return the answer to a query. The socket is not connected yet, and does not block. Raises
    OSError."""
    loop = asyncio.get_running_loop()
    # Of a connected socket, the kernel drops what other addresses send.
    sock.connect(resolver)
    await loop.sock_sendall(sock, query)
    while True:
        answer = await loop.sock_recv(sock, _MAX_DATAGRAM)
        if is_answer_to(query, answer):
            return answer


async def ask_by_stream(sock: socket.socket, resolver: Resolver, query: bytes) -> bytes:
    """Return the answer to a query, over TCP; otherwise like `ask_by_datagram`."""
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, resolver)
    await loop.sock_sendall(sock, len(query).to_bytes(2) + query)
    while True:
        length = int.from_bytes(await _received(sock, 2))
        answer = await _received(sock, length)
        if is_answer_to(query, answer):
            return answer


async def _received(sock: socket.socket, size: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < size:
        piece = await loop.sock_recv(sock, size - len(data))
        if not piece:
            raise ConnectionAbortedError("the resolver closed the connection")
        data += piece
    return data
