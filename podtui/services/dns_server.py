"""The cluster's name server: it answers pods on sockets inside their networks.

The socket tells which pod asks. Every pod has its own bounds, so that none can take the agent's
time: what is too much waits in the kernel, or is dropped there. Names of the cluster are answered
at once, without a task; only names of the node's resolvers wait.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import dns.exception
import dns.rcode

from podtui.clock import Clock
from podtui.events.token_bucket import TokenBucket
from podtui.services.dns_messages import (
    MAX_QUERY,
    Malformed,
    Query,
    error_answer,
    external_query,
    fitted,
    parse_answer,
    parse_query,
    render,
)
from podtui.services.forwarding import Forwarder
from podtui.services.name_index import NameIndex
from podtui.services.protocol import AttachedPod, ClusterPort
from podtui.services.zone import Answer, Zone

_LOG = logging.getLogger(__name__)
ADDRESS: Final = "10.96.0.10"
"""The address of the Service ``kube-system/kube-dns``."""
PORT: Final = 53
RATE: Final = 1000.0
"""Queries of a pod in a second."""
MAX_FORWARDED: Final = 64
"""Queries of a pod that wait for the node's resolvers."""
MAX_FORWARDED_OF_ALL: Final = 256
MAX_CONNECTIONS: Final = 8
"""TCP connections of a pod; more wait in the kernel."""
IDLE_SECONDS: Final = 10.0
"""Seconds after which a TCP connection without a query, or one that does not read, is closed."""
_PAUSE_SECONDS: Final = 0.05
_AT_ONCE: Final = 4
"""Datagrams of a pod that are answered before others have their turn."""
_RECORDS_OF_A_TOKEN: Final = 10
_MAX_KEPT: Final = 1000
_VARIANTS: Final = 8
"""Orders of an answer with several addresses that are kept."""


@dataclass(slots=True)
class _Client:
    """A pod with its sockets."""

    udp: socket.socket
    tcp: socket.socket
    tokens: TokenBucket
    forwarded: int = 0
    connections: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MAX_CONNECTIONS)
    )
    task: asyncio.Task[None] | None = None
    resume: asyncio.TimerHandle | None = None
    """The end of a pause in reading."""
    closed: bool = False

    def close(self) -> None:
        self.closed = True
        self.udp.close()
        self.tcp.close()


@dataclass(frozen=True, slots=True)
class _Relay:
    """A query that the node's resolvers answer. ``aliases`` lead to the name that it asks for."""

    query: Query
    aliases: Answer | None = None


class DnsServer:
    """Implements `podtui.services.protocol.PodListener`. Attached pods are served while `run`
    runs."""

    name = "DNS"
    address = "127.96.0.10"
    ports = (ClusterPort("UDP", ADDRESS, PORT), ClusterPort("TCP", ADDRESS, PORT))

    def __init__(self, index: NameIndex, domain: str, forwarder: Forwarder, clock: Clock) -> None:
        self._index = index
        self._zone = Zone(index, domain)
        self._forwarder = forwarder
        self._clock = clock
        self._clients: dict[str, _Client] = {}
        self._group: asyncio.TaskGroup | None = None
        self._listed = False
        self._forwarded = 0
        self._kept: dict[tuple[bool, bytes], list[bytes]] = {}
        """Answers to queries without their ids, as they are for ``_revision``."""
        self._revision = -1

    async def run(self) -> None:
        """Serve the attached pods. Runs forever."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._forwarded = 0
            for client in self._clients.values():
                client.forwarded = 0
                self._start(client)
            try:
                await self._index.listed()
                self._listed = True
                await asyncio.Event().wait()
            finally:
                # A group that ends starts no tasks, but queries may still arrive.
                self._group = None
                for client in self._clients.values():
                    self._stop_reading(client)

    async def attach(self, pod: AttachedPod, sockets: Sequence[socket.socket]) -> None:
        await self.detach(pod.sandbox_id)
        udp, tcp = sockets
        client = _Client(udp, tcp, TokenBucket(RATE, int(RATE)))
        self._clients[pod.sandbox_id] = client
        if self._group is not None:
            self._start(client)

    async def detach(self, sandbox_id: str) -> None:
        client = self._clients.pop(sandbox_id, None)
        if client is None:
            return
        self._stop_reading(client)
        if client.task is not None:
            client.task.cancel()
            await asyncio.wait([client.task])
        client.close()

    def close(self) -> None:
        """Close the sockets of all pods, after `run` has ended."""
        while self._clients:
            self._clients.popitem()[1].close()

    def _stop_reading(self, client: _Client) -> None:
        asyncio.get_running_loop().remove_reader(client.udp)
        if client.resume is not None:
            client.resume.cancel()
            client.resume = None

    def _start(self, client: _Client) -> None:
        asyncio.get_running_loop().add_reader(client.udp, self._read, client)
        client.task = self._spawn(self._accept(client))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._group is not None
        return self._group.create_task(coroutine)

    # --- UDP

    def _read(self, client: _Client) -> None:
        for _ in range(_AT_ONCE):
            if not client.tokens.take(self._clock.monotonic()):
                loop = asyncio.get_running_loop()
                loop.remove_reader(client.udp)
                client.resume = loop.call_later(_PAUSE_SECONDS, self._resume, client)
                return
            try:
                data, address = client.udp.recvfrom(MAX_QUERY + 1)
            except BlockingIOError:
                return
            except OSError as error:
                _LOG.debug("reading a query failed: %s", error)
                return
            result = self._respond(client, data, stream=False)
            if isinstance(result, _Relay):
                self._spawn(self._relay_datagram(client, data, result, address))
            else:
                _send(client, result, address)

    def _resume(self, client: _Client) -> None:
        client.resume = None
        asyncio.get_running_loop().add_reader(client.udp, self._read, client)

    async def _relay_datagram(
        self, client: _Client, data: bytes, relay: _Relay, address: tuple[Any, ...]
    ) -> None:
        _send(client, await self._relay(client, data, relay, stream=False), address)

    # --- TCP

    async def _accept(self, client: _Client) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as connections:
            while True:
                await client.connections.acquire()
                try:
                    connection, _ = await loop.sock_accept(client.tcp)
                except OSError as error:
                    client.connections.release()
                    _LOG.warning("accepting a connection of a pod failed: %s", error)
                    await self._clock.sleep(1)
                    continue
                connections.create_task(self._converse(client, connection))

    async def _converse(self, client: _Client, connection: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=connection, limit=2 * MAX_QUERY)
            try:
                while await self._answer_stream(client, reader, writer):
                    pass
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.transport.abort()
        finally:
            client.connections.release()

    async def _answer_stream(
        self, client: _Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer the next query; return False to close the connection."""
        async with asyncio.timeout(IDLE_SECONDS):
            length = int.from_bytes(await reader.readexactly(2))
            if length > MAX_QUERY:
                return False
            data = await reader.readexactly(length)
        while not client.tokens.take(self._clock.monotonic()):
            await self._clock.sleep(_PAUSE_SECONDS)
        answer = self._respond(client, data, stream=True)
        if isinstance(answer, _Relay):
            answer = await self._relay(client, data, answer, stream=True)
        if not answer:
            return False
        writer.write(len(answer).to_bytes(2) + answer)
        async with asyncio.timeout(IDLE_SECONDS):
            await writer.drain()
        # A pod that sends many queries at once must not keep others waiting.
        await asyncio.sleep(0)
        return True

    # --- answers

    def _respond(self, client: _Client, data: bytes, *, stream: bool) -> bytes | _Relay:
        """Return the answer to a query; empty if it deserves none."""
        if self._revision != self._index.revision:
            self._kept.clear()
            self._revision = self._index.revision
        key = (stream, data[2:])
        kept = self._kept.get(key)
        if kept is not None and len(kept) == _VARIANTS:
            return data[:2] + random.choice(kept)
        try:
            query = parse_query(data, stream=stream)
        except Malformed as error:
            return error.answer
        answer = self._zone.answer(query.name, query.kind)
        if answer is None:
            if query.kind in ("AXFR", "IXFR"):
                return error_answer(query, dns.rcode.REFUSED)
            return self._admitted(client, _Relay(query))
        if not self._listed and answer.code == "NXDOMAIN":
            return error_answer(query, dns.rcode.SERVFAIL)
        if answer.external:
            return self._admitted(client, _Relay(query, answer))
        count = len(answer.records) + len(answer.additional)
        client.tokens.charge(count / _RECORDS_OF_A_TOKEN)
        try:
            message = render(query, answer)
        except (dns.exception.DNSException, ValueError) as error:
            _LOG.warning("the answer for %s cannot be written: %r", ".".join(query.name), error)
            return error_answer(query, dns.rcode.SERVFAIL)
        self._keep(key, message, varies=count > 1)
        return message

    def _keep(self, key: tuple[bool, bytes], message: bytes, *, varies: bool) -> None:
        if len(self._kept) >= _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept.setdefault(key, []).extend([message[2:]] * (1 if varies else _VARIANTS))

    def _admitted(self, client: _Client, relay: _Relay) -> bytes | _Relay:
        if self._forwarded >= MAX_FORWARDED_OF_ALL or client.forwarded >= MAX_FORWARDED:
            return error_answer(relay.query, dns.rcode.REFUSED)
        client.forwarded += 1
        self._forwarded += 1
        return relay

    async def _relay(self, client: _Client, data: bytes, relay: _Relay, *, stream: bool) -> bytes:
        try:
            if relay.aliases is not None:
                return await self._resolve_alias(relay.query, relay.aliases)
            answer = await self._forwarder.ask(data, stream=stream)
        finally:
            client.forwarded -= 1
            self._forwarded -= 1
        if answer is None:
            return error_answer(relay.query, dns.rcode.SERVFAIL)
        return fitted(answer, relay.query)

    async def _resolve_alias(self, query: Query, aliases: Answer) -> bytes:
        """Return the aliases of an external name with what the resolvers say about it."""
        try:
            question = external_query(aliases.external, query.kind)
            data = await self._forwarder.ask(question, stream=False)
            if data is None:
                return error_answer(query, dns.rcode.SERVFAIL)
            return render(query, aliases, parse_answer(data))
        except (dns.exception.DNSException, ValueError) as error:
            _LOG.debug("resolving %s failed: %r", ".".join(aliases.external), error)
            return error_answer(query, dns.rcode.SERVFAIL)


def _send(client: _Client, answer: bytes, address: tuple[Any, ...]) -> None:
    if not answer or client.closed:
        return
    try:
        client.udp.sendto(answer, address)
    except OSError as error:
        # As any network may do, it loses the answer; the client asks again.
        _LOG.debug("an answer was lost: %s", error)
