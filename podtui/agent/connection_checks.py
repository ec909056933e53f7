"""Names and connections as programs in a pod see them: asked from inside the pod's network.

A name is looked up as the C library does: in the hosts file, then from the name servers with the
search list of the pod's resolver file.
"""

from __future__ import annotations

import asyncio
import errno
import io
import ipaddress
import os
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, cast

import dns.exception
import dns.flags
import dns.message
import dns.rcode
from dns.rdata import Rdata
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA
from msgspec.structs import replace

from podtui.api.insight import ConnectionAttempt, ConnectionCheck, Outcome
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.errors import EngineConflict, EngineError, without_group
from podtui.kubelet.containers.hosts import HOSTS_PATH, hosts_file
from podtui.kubelet.sandbox.dns import MAX_SERVERS, parse_resolv_conf
from podtui.kubelet.types import ConfigError
from podtui.runtime.protocol import DnsConfig, Runtime, SandboxState, SandboxStatus
from podtui.services.dns_messages import external_query, parse_answer
from podtui.services.dns_server import PORT
from podtui.services.forwarding import ask_by_datagram, ask_by_stream
from podtui.store.protocol import Records

LOOKUP_SECONDS: Final = 5.0
SERVER_SECONDS: Final = 1.5
"""Seconds that a name server has to answer; then the next one is asked."""
CONNECT_SECONDS: Final = 2.0
MAX_ADDRESSES: Final = 4
"""The addresses of a name that are connected to."""
RESOLVER_PATH: Final = "/etc/resolv.conf"
_MAX_FILE: Final = 256 * 1024
_MAX_DOTS: Final = 15
_NO_ANSWER: Final = "no answer"
_NO_ADDRESS: Final = "no address"
_MISSING: Final = dns.rcode.to_text(dns.rcode.NXDOMAIN)
_NEXT: Final = (dns.rcode.SERVFAIL, dns.rcode.REFUSED)
"""Answers after which the next name server is asked."""


# --- pure functions


def names_to_ask(host: str, config: DnsConfig) -> tuple[str, ...]:
    """Return the full names that the C library asks for, in its order."""
    if host.endswith("."):
        return (host.rstrip("."),)
    searched = [f"{host}.{domain.strip('.')}" for domain in config.searches if domain.strip(".")]
    names = [host, *searched] if host.count(".") >= _dots(config) else [*searched, host]
    return tuple(dict.fromkeys(names))


def _dots(config: DnsConfig) -> int:
    """Return the number of dots with which a name is asked as it is first."""
    dots = 1
    for option in config.options:
        name, _, value = option.partition(":")
        if name == "ndots" and value.isascii() and value.isdecimal():
            dots = min(int(value), _MAX_DOTS)
    return dots


def addresses_in_hosts(text: str, host: str) -> tuple[str, ...]:
    """Return the addresses of a name in a hosts file."""
    wanted = host.rstrip(".").lower()
    lines = (line.partition("#")[0].split() for line in text.split("\n"))
    addresses = (
        line[0] for line in lines if wanted in map(str.lower, line[1:]) and is_address(line[0])
    )
    return tuple(dict.fromkeys(addresses))


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def outcome_of(error: OSError) -> Outcome:
    """Return what a failed attempt to connect tells. A timeout has an errno only if it is the
    kernel's."""
    if isinstance(error, TimeoutError):
        return Outcome.TIMED_OUT
    if error.errno == errno.ECONNREFUSED:
        return Outcome.REFUSED
    if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return Outcome.UNREACHABLE
    return Outcome.FAILED


@dataclass(frozen=True, slots=True)
class _Answer:
    """``code`` is the text of the response code, or that there was no answer."""

    server: str
    code: str
    addresses: tuple[str, ...] = ()


def summary_of(answers: Sequence[tuple[str, _Answer]]) -> tuple[str, str, str]:
    """Return name, server and error of a lookup without an address. What no server could tell
    counts most, then a name that exists."""
    if not answers:
        return "", "", "no name server"
    ranks = {_MISSING: 0, _NO_ADDRESS: 1}
    name, answer = max(answers, key=lambda each: ranks.get(each[1].code, 2))
    return ("" if answer.code == _MISSING else name), answer.server, answer.code


def _addresses(message: dns.message.Message) -> tuple[str, ...]:
    records = chain.from_iterable(cast("list[Iterable[Rdata]]", message.answer))
    return tuple(record.address for record in records if isinstance(record, (A, AAAA)))


# --- effects


class ConnectionChecks:
    """Implements `podtui.server.kubelet_api.connections.ConnectionChecks`."""

    def __init__(
        self, runtime: Runtime, records: Records, cluster_domain: str, clock: Clock
    ) -> None:
        self._runtime = runtime
        self._records = records
        self._cluster_domain = cluster_domain
        self._clock = clock

    async def check(self, namespace: str, name: str, host: str, port: int) -> ConnectionCheck:
        pod = await self._records.get("pods", namespace, name)
        if not isinstance(pod, Pod):
            raise LookupError(f'pods "{name}" not found')
        status = await self._sandbox_of(namespace, name)
        # First of all: the network can be entered. If not, that is the reason to return.
        (await self._runtime.pod_socket(status.record.id, "127.0.0.1")).close()
        result = await self._resolved(ConnectionCheck(host=host, port=port), pod, status)
        if not port:
            return result
        with without_group():
            async with asyncio.TaskGroup() as group:
                attempts = [
                    group.create_task(
                        self._attempt(status.record.id, address, port), name=f"connect {address}"
                    )
                    for address in result.addresses[:MAX_ADDRESSES]
                ]
        return replace(result, attempts=tuple(attempt.result() for attempt in attempts))

    async def _sandbox_of(self, namespace: str, name: str) -> SandboxStatus:
        """Return the newest sandbox of a pod. Raises `EngineError`."""
        ready = [
            sandbox
            for sandbox in (await self._runtime.list()).sandboxes
            if (sandbox.namespace, sandbox.name) == (namespace, name)
            and sandbox.state is SandboxState.READY
        ]
        if not ready:
            raise EngineConflict("the pod has no running sandbox")
        newest = max(ready, key=lambda sandbox: sandbox.created_at)
        return await self._runtime.sandbox_status(newest.id)

    # --- names

    async def _resolved(
        self, check: ConnectionCheck, pod: Pod, status: SandboxStatus
    ) -> ConnectionCheck:
        """Return the check with the addresses of its host. Raises `EngineError`."""
        host = check.host
        if is_address(host):
            return replace(check, addresses=(host,))
        addresses = addresses_in_hosts(await self._hosts(pod, status.ips), host)
        if addresses:
            return replace(check, name=host, source=HOSTS_PATH, addresses=addresses)
        sandbox_id = status.record.id
        try:
            config = parse_resolv_conf(await self._read(sandbox_id, RESOLVER_PATH))
        except ValueError as error:
            raise EngineError(f"{RESOLVER_PATH} of the pod: {error}") from error
        servers = tuple(filter(is_address, config.servers[:MAX_SERVERS]))
        answers: list[tuple[str, _Answer]] = []
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                for name in names_to_ask(host, config) if servers else ():
                    answer = await self._look_up(sandbox_id, servers, name)
                    answers.append((name, answer))
                    if answer.addresses or answer.code == _NO_ANSWER:
                        break
        except TimeoutError:
            answers.append((host, _Answer("", _NO_ANSWER)))
        if answers and answers[-1][1].addresses:
            name, answer = answers[-1]
            return replace(check, name=name, source=answer.server, servers=servers,
                           addresses=answer.addresses)  # fmt: skip
        name, server, error = summary_of(answers)
        return replace(check, name=name, source=server, servers=servers, error=error)

    async def _hosts(self, pod: Pod, ips: tuple[str, ...]) -> str:
        """Return the hosts file of the pod's first container; empty if it is not the kubelet's."""
        try:
            content = await hosts_file(
                pod, pod.spec.containers[0], ips, local=True, cluster_domain=self._cluster_domain
            )
        except ConfigError as error:
            raise EngineError(str(error)) from error
        return content.decode(errors="replace")

    async def _read(self, container_id: str, path: str) -> str:
        """Return the text of a file in a container. Raises `EngineError`."""
        archive = b""
        async with self._runtime.read_files(container_id, path) as pieces:
            async for piece in pieces:
                archive += piece
                if len(archive) > _MAX_FILE:
                    raise EngineError(f"{path} of the pod is too long")
        try:
            with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
                for member in tar:
                    file = tar.extractfile(member)
                    if file is not None:
                        return file.read().decode(errors="replace")
        except (tarfile.TarError, KeyError) as error:
            raise EngineError(f"{path} of the pod cannot be read: {error}") from error
        raise EngineError(f"{path} of the pod is no file")

    async def _look_up(self, sandbox_id: str, servers: Sequence[str], name: str) -> _Answer:
        """Return the addresses of a full name. IPv6 is asked for if there is no IPv4 address."""
        answer = await self._ask(sandbox_id, servers, name, "A")
        if answer.code != _NO_ADDRESS:
            return answer
        return await self._ask(sandbox_id, servers, name, "AAAA")

    async def _ask(self, sandbox_id: str, servers: Sequence[str], name: str, kind: str) -> _Answer:
        try:
            query = external_query(tuple(name.split(".")), kind)
        except dns.exception.DNSException:
            # With this domain of the search list, the name is too long.
            return _Answer("", _MISSING)
        failure = _Answer("", _NO_ANSWER)
        for server in servers:
            try:
                async with asyncio.timeout(SERVER_SECONDS):
                    message = await self._exchange(sandbox_id, server, query)
            except (OSError, TimeoutError, dns.exception.DNSException, ValueError):
                continue
            code = message.rcode()
            addresses = _addresses(message)
            is_empty = code == dns.rcode.NOERROR and not addresses
            text = _NO_ADDRESS if is_empty else dns.rcode.to_text(code)
            answer = _Answer(server, text, addresses)
            if code not in _NEXT:
                return answer
            failure = answer
        return failure

    async def _exchange(self, sandbox_id: str, server: str, query: bytes) -> dns.message.Message:
        """Raises OSError, ValueError, `dns.exception.DNSException` and `EngineError`."""
        resolver, any_address = (server, PORT), "::" if ":" in server else "0.0.0.0"
        with await self._runtime.pod_listener(sandbox_id, "UDP", any_address) as sock:
            message = parse_answer(await ask_by_datagram(sock, resolver, query))
        if message.flags & dns.flags.TC:
            with await self._runtime.pod_socket(sandbox_id, server) as sock:
                message = parse_answer(await ask_by_stream(sock, resolver, query))
        return message

    # --- connections

    async def _attempt(self, sandbox_id: str, address: str, port: int) -> ConnectionAttempt:
        """Raises `EngineError`."""
        with await self._runtime.pod_socket(sandbox_id, address) as sock:
            began = self._clock.monotonic()
            outcome, text = Outcome.ACCEPTED, ""
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await asyncio.get_running_loop().sock_connect(sock, (address, port))
            except OSError as error:
                outcome = outcome_of(error)
                text = os.strerror(error.errno) if error.errno else ""
            seconds = self._clock.monotonic() - began
        return ConnectionAttempt(address=address, outcome=outcome, seconds=seconds, error=text)
