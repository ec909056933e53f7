"""Names and connections as a program in a pod sees them, with sockets of this machine in place of
those in a pod's network."""

from __future__ import annotations

import errno
import io
import socket
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from dns_client import resolver
from pod_builders import make_pod
from service_world import LOOPBACK, closed_port, tcp_server

from podtui.agent import connection_checks
from podtui.agent.connection_checks import (
    ConnectionChecks,
    addresses_in_hosts,
    names_to_ask,
    outcome_of,
)
from podtui.api.insight import ConnectionCheck, Outcome
from podtui.clock import SystemClock
from podtui.errors import EngineConflict, EngineError
from podtui.runtime.protocol import DnsConfig, SandboxState

SILENT = "silent"
SEARCHES = ("shop.svc.cluster.local", "svc.cluster.local", "lan")


def config(*options: str, searches: tuple[str, ...] = SEARCHES) -> DnsConfig:
    return DnsConfig(servers=(LOOPBACK,), searches=searches, options=options)


@pytest.mark.parametrize(
    ("host", "options", "expected"),
    [
        ("db", ("ndots:5",), [*(f"db.{domain}" for domain in SEARCHES), "db"]),
        ("db.shop", (), ["db.shop", *(f"db.shop.{domain}" for domain in SEARCHES)]),
        ("db.shop", ("ndots:2",), [*(f"db.shop.{domain}" for domain in SEARCHES), "db.shop"]),
        ("db.", ("ndots:5",), ["db"]),
        ("db", ("ndots:0", "edns0"), ["db", *(f"db.{domain}" for domain in SEARCHES)]),
        ("db", ("ndots:many",), [*(f"db.{domain}" for domain in SEARCHES), "db"]),
    ],
)
def test_names_are_asked_in_the_order_of_the_c_library(
    host: str, options: tuple[str, ...], expected: list[str]
) -> None:
    assert list(names_to_ask(host, config(*options))) == expected


def test_the_root_in_the_search_list_repeats_no_name() -> None:
    assert names_to_ask("db", config(searches=(".", "lan."))) == ("db.lan", "db")


def test_a_hosts_file_has_names_aliases_and_comments() -> None:
    text = "127.0.0.1\tlocalhost\n10.0.0.7 db.shop DB # cache\n10.0.0.8 db\nnonsense db\n"
    assert addresses_in_hosts(text, "db") == ("10.0.0.7", "10.0.0.8")
    assert addresses_in_hosts(text, "Db.Shop.") == ("10.0.0.7",)
    assert addresses_in_hosts(text, "cache") == ()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ECONNREFUSED, ""), Outcome.REFUSED),
        (OSError(errno.ETIMEDOUT, ""), Outcome.TIMED_OUT),
        (TimeoutError(), Outcome.TIMED_OUT),
        (OSError(errno.ENETUNREACH, ""), Outcome.UNREACHABLE),
        (OSError(errno.EHOSTUNREACH, ""), Outcome.UNREACHABLE),
        (OSError(errno.EPERM, ""), Outcome.FAILED),
    ],
)
def test_errors_of_the_system(error: OSError, expected: Outcome) -> None:
    assert outcome_of(error) is expected


# --- with a name server


class FakeRuntime:
    """``resolv_conf`` is the file in the sandbox. Its sockets are those of this machine."""

    def __init__(self, resolv_conf: str = "", *, ready: bool = True, allowed: bool = True) -> None:
        self._resolv_conf = resolv_conf.encode()
        self._allowed = allowed
        state = SandboxState.READY if ready else SandboxState.NOT_READY
        self._record = SimpleNamespace(id="s", namespace="default", name="web-n1", state=state,
                                       created_at=datetime(2026, 1, 1, tzinfo=UTC))  # fmt: skip
        self.sockets: list[socket.socket] = []

    async def list(self) -> Any:
        return SimpleNamespace(sandboxes=(self._record,))

    async def sandbox_status(self, sandbox_id: str) -> Any:
        return SimpleNamespace(record=self._record, ips=("10.0.0.9",))

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        if not self._allowed:
            raise EngineError("failed to enter the network namespace of the pod")
        return self._socket(socket.SOCK_STREAM)

    async def pod_listener(self, sandbox_id: str, protocol: str, address: str) -> socket.socket:
        assert (protocol, address) == ("UDP", "0.0.0.0")
        return self._socket(socket.SOCK_DGRAM)

    def _socket(self, kind: socket.SocketKind) -> socket.socket:
        sock = socket.socket(socket.AF_INET, kind)
        sock.setblocking(False)
        self.sockets.append(sock)
        return sock

    @asynccontextmanager
    async def read_files(
        self, container_id: str, path: str
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        assert (container_id, path) == ("s", "/etc/resolv.conf")
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            info = tarfile.TarInfo("resolv.conf")
            info.size = len(self._resolv_conf)
            tar.addfile(info, io.BytesIO(self._resolv_conf))

        async def pieces() -> AsyncIterator[bytes]:
            yield buffer.getvalue()

        yield pieces()


class FakeRecords:
    async def get(self, resource: str, namespace: str, name: str) -> Any:
        aliases = [{"ip": LOOPBACK, "hostnames": ["alias"]}]
        return make_pod(hostAliases=aliases) if name == "web-n1" else None


def checks(runtime: FakeRuntime) -> ConnectionChecks:
    records = cast(Any, FakeRecords())
    return ConnectionChecks(cast(Any, runtime), records, "cluster.local", SystemClock())


@dataclass
class Answers:
    """Answers with the addresses of these names, with a response code, or not at all. Other names
    do not exist. With ``truncated``, answers over UDP have no records. ``port`` is the server's."""

    records: dict[str, str | int]
    truncated: bool = False
    port: int = 0

    def __call__(self, data: bytes, address: tuple[str, int]) -> bytes | None:
        query = dns.message.from_wire(data)
        response = dns.message.make_response(query)
        question = query.question[0]
        value = self.records.get(question.name.to_text(omit_final_dot=True), dns.rcode.NXDOMAIN)
        if value == SILENT:
            return None
        if isinstance(value, int):
            response.set_rcode(dns.rcode.Rcode(value))
        elif self.truncated and address[1] != self.port:
            response.flags |= dns.flags.TC
        elif value and (":" in value) == (question.rdtype == dns.rdatatype.AAAA):
            kind = "AAAA" if ":" in value else "A"
            texts = value.split(",")
            response.answer.append(dns.rrset.from_text_list(question.name, 5, "IN", kind, texts))
        return response.to_wire()


async def asked(
    monkeypatch: pytest.MonkeyPatch, reply: Answers, host: str, port: int = 0
) -> tuple[ConnectionCheck, list[str]]:
    """Return the check, and the names that the server was asked for."""
    async with resolver(reply) as (fake, (address, number)):
        reply.port = number
        monkeypatch.setattr(connection_checks, "PORT", number)
        monkeypatch.setattr(connection_checks, "SERVER_SECONDS", 0.3)
        file = f"nameserver {address}\nsearch {' '.join(SEARCHES)}\noptions ndots:5\n"
        runtime = FakeRuntime(file)
        check = await checks(runtime).check("default", "web-n1", host, port)
        assert all(sock.fileno() == -1 for sock in runtime.sockets), "closed"
        names = [dns.message.from_wire(query).question[0].to_text() for query in fake.queries]
        return check, names


async def test_a_name_is_found_with_the_search_list(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = closed_port().port
    reply = Answers({"db.svc.cluster.local": LOOPBACK})
    check, names = await asked(monkeypatch, reply, "db", closed)
    assert (check.name, check.source, check.error) == ("db.svc.cluster.local", LOOPBACK, "")
    assert check.addresses == check.servers == (LOOPBACK,)
    assert names == ["db.shop.svc.cluster.local. IN A", "db.svc.cluster.local. IN A"]
    (attempt,) = check.attempts
    assert (attempt.address, attempt.outcome) == (LOOPBACK, Outcome.REFUSED)


async def test_an_open_port_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def close(_: object, writer: Any) -> None:
        writer.close()

    async with tcp_server(close) as backend:
        for host in ("alias", LOOPBACK):
            check, names = await asked(monkeypatch, Answers({}), host, backend.port)
            assert [each.outcome for each in check.attempts] == [Outcome.ACCEPTED]
            assert not names
    assert (check.source, check.name) == ("", "")


async def test_an_alias_comes_from_the_hosts_file(monkeypatch: pytest.MonkeyPatch) -> None:
    check, _ = await asked(monkeypatch, Answers({"alias": "10.9.9.9"}), "alias")
    assert (check.source, check.addresses) == ("/etc/hosts", (LOOPBACK,))
    check, _ = await asked(monkeypatch, Answers({}), "web-n1")
    assert check.addresses == ("10.0.0.9",), "its own name"


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ({}, ("", LOOPBACK, "NXDOMAIN")),
        ({"db.lan": int(dns.rcode.SERVFAIL)}, ("db.lan", LOOPBACK, "SERVFAIL")),
        ({"db.svc.cluster.local": ""}, ("db.svc.cluster.local", LOOPBACK, "no address")),
        ({"db.svc.cluster.local": SILENT}, ("db.svc.cluster.local", "", "no answer")),
    ],
)
async def test_a_name_without_an_address(
    monkeypatch: pytest.MonkeyPatch, records: dict[str, str | int], expected: tuple[str, ...]
) -> None:
    check, _ = await asked(monkeypatch, Answers(records), "db", 80)
    assert (check.name, check.source, check.error) == expected
    assert not check.addresses
    assert not check.attempts


async def test_a_name_with_only_an_ipv6_address(monkeypatch: pytest.MonkeyPatch) -> None:
    check, names = await asked(monkeypatch, Answers({"db.lan": "2001:db8::7"}), "db.lan.")
    assert (check.addresses, check.error) == (("2001:db8::7",), "")
    assert names == ["db.lan. IN A", "db.lan. IN AAAA"]


async def test_at_most_four_addresses_are_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [f"127.0.0.{number}" for number in range(1, 7)]
    reply = Answers({"db.lan": ",".join(addresses)})
    check, _ = await asked(monkeypatch, reply, "db.lan.", closed_port().port)
    assert sorted(check.addresses) == addresses
    assert [attempt.address for attempt in check.attempts] == list(check.addresses[:4])


async def test_a_truncated_answer_is_asked_for_again_over_tcp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reply = Answers({"db.lan": "10.1.2.3"}, truncated=True)
    check, _ = await asked(monkeypatch, reply, "db.lan.")
    assert check.addresses == ("10.1.2.3",)


async def test_a_pod_without_name_servers() -> None:
    check = await checks(FakeRuntime("search lan\n")).check("default", "web-n1", "db", 80)
    assert check.error == "no name server"


async def test_what_prevents_a_check() -> None:
    with pytest.raises(LookupError, match='pods "gone" not found'):
        await checks(FakeRuntime()).check("default", "gone", "db", 80)
    with pytest.raises(EngineConflict, match="no running sandbox"):
        await checks(FakeRuntime(ready=False)).check("default", "web-n1", "db", 80)
    with pytest.raises(EngineError, match="failed to enter"):
        await checks(FakeRuntime(allowed=False)).check("default", "web-n1", "db", 80)
