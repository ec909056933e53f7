"""The name server over sockets: UDP and TCP, sizes, relayed names, bounds."""

from __future__ import annotations

import asyncio
import random
import socket

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from dns_client import exchange, name_server, resolver, served, until
from dns_world import DnsWorld, endpoint, endpoint_slice, service
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.services import dns_server, forwarding

WEB = "web.default.svc.cluster.local"
DB = "db.default.svc.cluster.local"
EXTERNAL = "ext.default.svc.cluster.local"


def world(endpoints: int = 3) -> DnsWorld:
    ips = [f"10.1.{number // 250}.{number % 250}" for number in range(endpoints)]
    return DnsWorld(
        service(),
        service("db", clusterIP="None"),
        service("ext", type="ExternalName", externalName="db.example.com"),
        endpoint_slice("db", *map(endpoint, ips)),
    )


def addresses(message: dns.message.Message) -> list[str]:
    return [item.address for rrset in message.answer for item in rrset if rrset.rdtype == 1]


def reply_with(address: str, *, flags: int = 0, code: int = 0):
    """Return a resolver's reply: one address for each question."""

    def reply(data: bytes, _: tuple[str, int]) -> bytes:
        query = dns.message.from_wire(data)
        response = dns.message.make_response(query, recursion_available=True)
        response.flags |= flags
        response.set_rcode(dns.rcode.Rcode(code))
        name = query.question[0].name
        if not code:
            response.answer.append(dns.rrset.from_text(name, 60, "IN", "A", address))
        return response.to_wire()

    return reply


async def test_a_name_of_the_cluster_over_udp_and_tcp() -> None:
    async with name_server(world()) as server:
        pod = await served(server, "a")
        for _ in range(3):  # later answers are kept ones
            answer = await pod.ask(WEB)
            assert addresses(answer) == ["10.96.0.7"]
            assert answer.flags & dns.flags.AA
            assert answer.flags & dns.flags.RA
            assert addresses(await pod.ask_over_tcp(WEB)) == ["10.96.0.7"]
        missing = await pod.ask(f"no.{WEB}")
        assert missing.rcode() == dns.rcode.NXDOMAIN
        assert str(missing.authority[0]) == (
            "cluster.local. 30 IN SOA ns.dns.cluster.local. hostmaster.cluster.local."
            f" {server_revision(missing)} 7200 1800 86400 30"
        )


def server_revision(message: dns.message.Message) -> int:
    return message.authority[0][0].serial


async def test_every_kind_of_record_is_written() -> None:
    objects = world()
    objects.put(service("kube-dns", "kube-system", clusterIP="10.96.0.10"))
    async with name_server(objects) as server:
        pod = await served(server, "a")
        texts = {
            (f"_http._tcp.{WEB}", "SRV"): f"0 100 80 {WEB}.",
            ("dns-version.cluster.local", "TXT"): '"1.1.0"',
            ("cluster.local", "NS"): "kube-dns.kube-system.svc.cluster.local.",
            ("7.0.96.10.in-addr.arpa", "PTR"): f"{WEB}.",
            (EXTERNAL, "CNAME"): "db.example.com.",
            ("fd00--1.default.pod.cluster.local", "AAAA"): "fd00::1",
        }
        for (name, kind), text in texts.items():
            answer = await pod.ask(name, kind)
            assert [str(item) for rrset in answer.answer for item in rrset] == [text]
        extra = (await pod.ask(f"_http._tcp.{WEB}", "SRV")).additional
        assert [str(rrset) for rrset in extra] == [f"{WEB}. 30 IN A 10.96.0.7"]


async def test_a_change_takes_effect_with_the_next_query() -> None:
    objects = world()
    async with name_server(objects) as server:
        pod = await served(server, "a")
        assert addresses(await pod.ask(WEB)) == ["10.96.0.7"]
        objects.cache.remove(service())
        assert (await pod.ask(WEB)).rcode() == dns.rcode.NXDOMAIN


async def test_large_answers_are_cut_over_udp_and_complete_over_tcp() -> None:
    async with name_server(world(1000)) as server:
        pod = await served(server, "a")
        for size, least in ((0, 25), (1232, 70), (65535, 240)):
            wire = await pod.send(_query(DB, size))
            answer = dns.message.from_wire(wire)
            assert answer.flags & dns.flags.TC, size
            assert least <= len(set(addresses(answer))) <= (size or 512) // 16
            assert len(wire) <= min(size or 512, 4096)
        whole = await pod.ask_over_tcp(DB)
        assert not whole.flags & dns.flags.TC
        assert len(set(addresses(whole))) == 1000


def _query(name: str, size: int) -> bytes:
    return dns.message.make_query(name, "A", use_edns=0 if size else None, payload=size).to_wire()


async def test_the_order_of_addresses_varies() -> None:
    async with name_server(world(8)) as server:
        pod = await served(server, "a")
        first = {addresses(await pod.ask(DB))[0] for _ in range(60)}
        assert len(first) > 2


async def test_clients_of_other_versions_and_operations_are_refused() -> None:
    async with name_server(world()) as server:
        pod = await served(server, "a")
        query = dns.message.make_query(WEB, "A", use_edns=1)
        assert dns.message.from_wire(await pod.send(query.to_wire())).rcode() == dns.rcode.BADVERS
        chaos = dns.message.make_query("version.bind", "TXT", rdclass="CH")
        answer = dns.message.from_wire(await pod.send(chaos.to_wire()))
        assert answer.rcode() == dns.rcode.REFUSED
        for kind in ("AXFR", "IXFR"):
            for name in ("cluster.local", "example.com"):
                query = dns.message.make_query(name, kind)
                data = query.to_wire()
                answer = dns.message.from_wire(await pod.send(data))
                assert answer.rcode() in (dns.rcode.REFUSED, dns.rcode.FORMERR)
        notify = bytearray(_query(WEB, 0))
        notify[2] |= 4 << 3
        assert (await pod.send(bytes(notify)))[3] & 0xF == dns.rcode.NOTIMP
        two = bytearray(_query(WEB, 0))
        two[5] = 2
        assert (await pod.send(bytes(two)))[3] & 0xF == dns.rcode.FORMERR


async def test_before_the_objects_are_listed_no_name_is_denied() -> None:
    async with name_server(world(), listed=False) as server:
        pod = await served(server, "a")
        assert (await pod.ask(f"no.{WEB}")).rcode() == dns.rcode.SERVFAIL
        assert addresses(await pod.ask(WEB)) == ["10.96.0.7"]


# --- relayed names


async def test_other_names_are_asked_of_the_resolvers() -> None:
    async with (
        resolver(reply_with("192.0.2.1")) as (upstream, address),
        name_server(world(), address) as server,
    ):
        pod = await served(server, "a")
        query = _query("www.example.com", 1232)
        answer = dns.message.from_wire(await pod.send(query))
        assert addresses(answer) == ["192.0.2.1"]
        assert answer.id == dns.message.from_wire(query).id
        (relayed,) = upstream.queries
        assert relayed[2:] == query[2:]
        assert addresses(await pod.ask_over_tcp("www.example.com")) == ["192.0.2.1"]
        assert len(upstream.queries) == 1
        reverse = await pod.ask("1.2.0.192.in-addr.arpa", "PTR")
        assert reverse.rcode() == dns.rcode.NOERROR
        assert len(upstream.queries) == 2


async def test_each_relayed_query_has_its_own_id() -> None:
    async with (
        resolver(reply_with("192.0.2.1")) as (upstream, address),
        name_server(world(), address) as server,
    ):
        pod = await served(server, "a")
        query = _query("www.example.com", 0)
        for _ in range(8):
            assert (await pod.send(query))[:2] == query[:2]
        assert len({data[:2] for data in upstream.queries}) > 4


async def test_the_name_of_an_external_service_is_resolved() -> None:
    async with (
        resolver(reply_with("192.0.2.9")) as (upstream, address),
        name_server(world(), address) as server,
    ):
        answer = await (await served(server, "a")).ask(EXTERNAL)
        assert [str(rrset) for rrset in answer.answer] == [
            f"{EXTERNAL}. 30 IN CNAME db.example.com.",
            "db.example.com. 60 IN A 192.0.2.9",
        ]
        assert dns.message.from_wire(upstream.queries[0]).question[0].name.to_text() == (
            "db.example.com."
        )


async def test_answers_with_another_id_or_question_are_ignored() -> None:
    honest = reply_with("192.0.2.1")

    def wrong(data: bytes, source: tuple[str, int]) -> bytes:
        return wrongs.pop()(data, source) if wrongs else honest(data, source)

    wrongs = [
        lambda data, source: bytes([data[0] ^ 1]) + honest(data, source)[1:],
        lambda data, source: honest(_query("evil.example", 0)[2:].join([data[:2], b""]), source),
        lambda data, _: data,
        lambda data, _: data[:5],
    ]
    async with (
        resolver(wrong) as (upstream, address),
        resolver(reply_with("192.0.2.2")) as (_, second),
        name_server(world(), address, second) as server,
    ):
        pod = await served(server, "a")
        count = len(wrongs)
        for number in range(count):
            # The first resolver does not answer in time, so that the second is asked.
            assert addresses(await pod.ask(f"{number}.example.com")) == ["192.0.2.2"]
            server._forwarder._first = None  # pyright: ignore[reportPrivateUsage]
        assert addresses(await pod.ask("www.example.com")) == ["192.0.2.1"]
        assert len(upstream.queries) == count + 1


async def test_an_answer_of_another_address_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "SECONDS", 0.5)
    honest = reply_with("192.0.2.66")

    def from_elsewhere(data: bytes, source: tuple[str, int]) -> None:
        import socket

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(honest(data, source), source)

    async with (
        resolver(from_elsewhere) as (upstream, address),
        name_server(world(), address) as server,
    ):
        answer = await (await served(server, "a")).ask("www.example.com")
        assert answer.rcode() == dns.rcode.SERVFAIL
        assert len(upstream.queries) == 1


async def test_the_next_resolver_is_asked_and_remembered() -> None:
    async with (
        resolver(reply_with("", code=dns.rcode.SERVFAIL)) as (first, failing),
        resolver(reply_with("192.0.2.2")) as (_, working),
        name_server(world(), failing, working) as server,
    ):
        pod = await served(server, "a")
        for number in range(3):
            assert addresses(await pod.ask(f"{number}.example.com")) == ["192.0.2.2"]
        assert len(first.queries) == 1


async def test_failures_of_all_resolvers() -> None:
    async with (
        resolver(reply_with("", code=dns.rcode.REFUSED)) as (_, refusing),
        name_server(world(), refusing) as server,
    ):
        pod = await served(server, "a")
        assert (await pod.ask("www.example.com")).rcode() == dns.rcode.REFUSED
        assert (await pod.ask(EXTERNAL)).rcode() in (dns.rcode.NOERROR, dns.rcode.SERVFAIL)
    async with name_server(world()) as server:
        pod = await served(server, "a")
        assert (await pod.ask("www.example.com")).rcode() == dns.rcode.SERVFAIL
        assert (await pod.ask_over_tcp("www.example.com")).rcode() == dns.rcode.SERVFAIL
        assert (await pod.ask(EXTERNAL)).rcode() == dns.rcode.SERVFAIL


async def test_a_name_that_does_not_exist_elsewhere() -> None:
    async with (
        resolver(reply_with("", code=dns.rcode.NXDOMAIN)) as (_, address),
        name_server(world(), address) as server,
    ):
        answer = await (await served(server, "a")).ask("no.example.com")
        assert answer.rcode() == dns.rcode.NXDOMAIN


async def test_a_relayed_answer_that_is_too_long_is_cut() -> None:
    def long(data: bytes, _: tuple[str, int]) -> bytes:
        query = dns.message.from_wire(data)
        response = dns.message.make_response(query)
        texts = [f'"{number:0200}"' for number in range(10)]
        response.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "TXT", *texts))
        return response.to_wire()

    async with resolver(long) as (_, address), name_server(world(), address) as server:
        pod = await served(server, "a")
        wire = await pod.send(dns.message.make_query("www.example.com", "TXT").to_wire())
        assert len(wire) <= 512
        assert dns.message.from_wire(wire).flags & dns.flags.TC
        assert len((await pod.ask_over_tcp("www.example.com", "TXT")).answer[0]) == 10


# --- bounds


async def test_a_pod_that_asks_too_much_does_not_keep_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dns_server, "RATE", 20.0)
    async with name_server(world()) as server:
        loud, quiet = await served(server, "a"), await served(server, "b")
        answered = 0

        async def flood() -> None:
            nonlocal answered
            await loud.ask(WEB)
            answered += 1

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(flood()) for _ in range(60)]
            await until(lambda: answered >= 20)
            assert addresses(await quiet.ask(WEB)) == ["10.96.0.7"]
            assert answered < 60
            for task in tasks:
                task.cancel()


async def test_waiting_queries_of_a_pod_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_server, "MAX_FORWARDED", 3)
    async with (
        resolver(lambda data, source: None) as (upstream, address),
        name_server(world(), address) as server,
    ):
        pod, other = await served(server, "a"), await served(server, "b")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(pod.ask(f"{number}.example")) for number in range(3)]
            await until(lambda: len(upstream.queries) == 3)
            assert (await pod.ask("one-more.example")).rcode() == dns.rcode.REFUSED
            assert addresses(await pod.ask(WEB)) == ["10.96.0.7"]
            tasks.append(group.create_task(other.ask("other.example")))
            await until(lambda: len(upstream.queries) == 4)
            for task in tasks:
                task.cancel()


async def test_connections_of_a_pod_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_server, "MAX_CONNECTIONS", 2)
    async with name_server(world()) as server:
        pod, other = await served(server, "a"), await served(server, "b")
        idle = [await pod.connect() for _ in range(2)]
        for reader, writer in idle:
            assert addresses(await exchange(reader, writer, _query(WEB, 0))) == ["10.96.0.7"]
        reader, writer = await pod.connect()
        waiting = asyncio.ensure_future(exchange(reader, writer, _query(WEB, 0)))  # noqa: TID251
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert addresses(await other.ask_over_tcp(WEB)) == ["10.96.0.7"]
        idle[0][1].close()
        assert addresses(await waiting) == ["10.96.0.7"]
        for _, open_writer in (*idle, (reader, writer)):
            open_writer.close()


async def test_idle_connections_and_long_queries_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_server, "IDLE_SECONDS", 0.2)
    async with name_server(world()) as server:
        pod = await served(server, "a")
        for start in (b"", b"\0", b"\0\x20abc", b"\xff\xff" + bytes(100)):
            reader, writer = await pod.connect()
            writer.write(start)
            async with asyncio.timeout(20):
                assert await _rest(reader) == b""
            writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def test_several_queries_in_one_connection() -> None:
    async with name_server(world()) as server:
        reader, writer = await (await served(server, "a")).connect()
        query = _query(WEB, 0)
        writer.write((len(query).to_bytes(2) + query) * 20)
        for _ in range(20):
            length = int.from_bytes(await reader.readexactly(2))
            answer = dns.message.from_wire(await reader.readexactly(length))
            assert addresses(answer) == ["10.96.0.7"]
        writer.close()


async def test_a_removed_pod_is_not_served() -> None:
    async with name_server(world()) as server:
        pod = await served(server, "a")
        reader, writer = await pod.connect()
        await exchange(reader, writer, _query(WEB, 0))
        await server.detach("a")
        await server.detach("a")
        assert await _rest(reader) == b""
        writer.close()
        with pytest.raises(OSError, match="failed"):
            await pod.connect()
        assert addresses(await (await served(server, "a")).ask(WEB)) == ["10.96.0.7"]


async def test_pods_are_served_again_after_a_restart_of_the_server() -> None:
    async with name_server(world()) as server:
        pod = await served(server, "a")
        await pod.ask(WEB)
        async with asyncio.TaskGroup() as group:
            run = group.create_task(server.run())
            await asyncio.sleep(0)
            assert addresses(await pod.ask(WEB)) == ["10.96.0.7"]
            run.cancel()


async def test_a_query_that_arrives_while_the_server_ends_is_not_read() -> None:
    problems: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(str(context["message"])))
    async with (
        resolver(reply_with("192.0.2.1")) as (_, address),
        name_server(world(), address) as server,
    ):
        pod = await served(server, "a")
        async with asyncio.TaskGroup() as group:
            run = group.create_task(server.run())
            await pod.ask(WEB)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                run.cancel()
                sock.sendto(_query("www.example.com", 1232), pod.udp)
    assert problems == []


# --- malformed packets


def mutated(data: bytes, seed: int) -> bytes:
    generator = random.Random(seed)
    content = bytearray(data)
    for _ in range(generator.randrange(1, 6)):
        match generator.randrange(4):
            case 0 if content:
                content[generator.randrange(len(content))] = generator.randrange(256)
            case 1:
                del content[generator.randrange(len(content) + 1) :]
            case 2:
                content += generator.randbytes(generator.randrange(40))
            case _:
                position = generator.randrange(len(content) + 1)
                content[position:position] = generator.randbytes(2)
    return bytes(content)


class _Refusing(forwarding.Forwarder):
    async def ask(self, query: bytes, *, stream: bool) -> bytes | None:
        raise AssertionError("not in this test")


@examples(2000)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.builds(
            mutated,
            st.sampled_from([_query(WEB, 0), _query(DB, 1232), _query("example.com", 4096)]),
            st.integers(0, 2**32),
        ),
    ),
    st.booleans(),
)
def test_no_packet_disturbs_the_server(data: bytes, stream: bool) -> None:
    objects = world()
    server = dns_server.DnsServer(objects.index, "cluster.local", _Refusing(_none), _NoClock())
    client = dns_server._Client(None, None, dns_server.TokenBucket(0, 1))  # pyright: ignore[reportPrivateUsage, reportArgumentType]
    result = server._respond(client, data, stream=stream)  # pyright: ignore[reportPrivateUsage]
    if isinstance(result, bytes) and result:
        assert result[:2] == data[:2]
        assert result[2] & 0x80
        assert len(result) <= 4096
    if not isinstance(result, bytes):
        assert not forwarding.is_answer_to(data, data)


async def _none() -> list[tuple[str, int]]:
    return []


class _NoClock:
    def monotonic(self) -> float:
        return 0.0


@examples(2000)
@given(st.binary(max_size=60), st.integers(0, 2**32))
def test_no_answer_of_a_resolver_disturbs_the_server(data: bytes, seed: int) -> None:
    query = _query("www.example.com", 1232)
    honest = reply_with("192.0.2.1")(query, ("", 0))
    for answer in (data, mutated(honest, seed), query[:12] + data):
        forwarding.is_answer_to(query, answer)
    assert forwarding.is_answer_to(query, honest)
