"""Rules and listeners in the networks of pods, on every runtime."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from runtime_bench import Bench, until

from podtui.errors import EngineConflict, EngineError, EngineNotFound, NetworkUnavailable

TABLE = """
add table ip podtui
delete table ip podtui
add table ip podtui
add chain ip podtui out {{ type nat hook output priority -100; }}
add rule ip podtui out ip daddr 10.96.0.7 tcp dport 80 dnat to {ip}:{port}
add rule ip podtui out ip daddr 10.96.0.7 udp dport 53 dnat to {ip}:{port}
"""
RULES = TABLE.format(ip="127.96.0.10", port=4000)
ASK = "until echo question | nc -w 5 {address}; do sleep 0.1; done"


async def output_of(bench: Bench, container: str, script: str) -> bytes:
    result = await bench.runtime.exec(container, ["sh", "-c", script], timeout=60)
    return result.output


@pytest.mark.engine
async def test_rules_lead_a_pod_to_a_port_of_its_own(engine_bench: Bench) -> None:
    runtime = engine_bench.runtime
    sandbox = await engine_bench.sandbox()
    ident = await engine_bench.start(sandbox, "httpd -p 8080 -h /etc; sleep 300")
    (ip, *_) = (await runtime.sandbox_status(sandbox)).ips
    fetch = "printf 'GET /hostname HTTP/1.0\\r\\n\\r\\n' | nc -w 5 10.96.0.7 80"
    await runtime.set_pod_rules(sandbox, TABLE.format(ip=ip, port=8080))

    async def answers() -> bool:
        return b"contract" in await output_of(engine_bench, ident, fetch)

    await until(answers)
    # A transaction that fails in its last line has no effect.
    for line, error in (
        ("add rule ip podtui out no such rule\n", "syntax error"),
        ("delete chain ip podtui absent\n", "No such file or directory"),
    ):
        with pytest.raises(EngineError, match=error):
            await runtime.set_pod_rules(sandbox, TABLE.format(ip=ip, port=8081) + line)
    assert await answers()
    with pytest.raises(EngineError, match="No such file or directory"):
        await runtime.set_pod_rules(sandbox, "flush chain ip podtui absent\n")


@pytest.mark.engine
async def test_a_table_that_is_gone_is_noticed(engine_bench: Bench) -> None:
    runtime = engine_bench.runtime
    sandbox = await engine_bench.sandbox()
    with pytest.raises(EngineError, match="there is no table podtui"):
        await runtime.check_pod_table(sandbox, "podtui")
    await runtime.set_pod_rules(sandbox, RULES)
    await runtime.check_pod_table(sandbox, "podtui")
    await runtime.set_pod_rules(sandbox, "delete table ip podtui\n")
    with pytest.raises(EngineError, match="there is no table podtui"):
        await runtime.check_pod_table(sandbox, "podtui")


@pytest.mark.engine
async def test_large_rules_are_one_transaction(engine_bench: Bench) -> None:
    runtime = engine_bench.runtime
    sandbox = await engine_bench.sandbox()
    await runtime.set_pod_rules(sandbox, RULES)
    elements = ", ".join(f"10.97.{n // 250}.{n % 250}" for n in range(20_000))
    large = f"add element ip podtui many {{ {elements} }}\n"
    await runtime.set_pod_rules(sandbox, "add set ip podtui many { type ipv4_addr; }\n" + large)
    with pytest.raises(EngineError, match="File exists"):
        await runtime.set_pod_rules(sandbox, "create set ip podtui many { type ipv4_addr; }\n")


@pytest.mark.engine
async def test_a_listener_in_a_pod_gets_only_what_the_pod_sends(engine_bench: Bench) -> None:
    runtime, loop = engine_bench.runtime, asyncio.get_running_loop()
    sandbox = await engine_bench.sandbox()
    ident = await engine_bench.start(sandbox, "sleep 300")
    (ip, *_) = (await runtime.sandbox_status(sandbox)).ips
    with await runtime.pod_listener(sandbox, "TCP", "127.96.0.10") as listener:
        assert not listener.getblocking()
        address, port = listener.getsockname()
        assert (address, listener.type) == ("127.96.0.10", socket.SOCK_STREAM)
        await runtime.set_pod_rules(sandbox, TABLE.format(ip=address, port=port))
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(
                output_of(engine_bench, ident, ASK.format(address="10.96.0.7 80"))
            )
            async with asyncio.timeout(60):
                connection, (peer, _) = await loop.sock_accept(listener)
                with connection:
                    assert peer == ip
                    assert await loop.sock_recv(connection, 100) == b"question\n"
                    await loop.sock_sendall(connection, b"answer\n")
            assert await asked == b"answer\n"
        # This machine's own loopback has nothing at that port.
        with socket.socket() as own, pytest.raises(ConnectionRefusedError):
            own.connect((address, port))


@pytest.mark.engine
async def test_flows_of_udp_follow_new_rules_when_they_are_forgotten(engine_bench: Bench) -> None:
    """One socket of the pod, whose packets the kernel leads to the backend of the first."""
    runtime = engine_bench.runtime
    sandbox = await engine_bench.sandbox()
    (ip, *_) = (await runtime.sandbox_status(sandbox)).ips
    with (
        await runtime.pod_listener(sandbox, "UDP", "127.96.0.10") as first,
        await runtime.pod_listener(sandbox, "UDP", "127.96.0.10") as second,
        await runtime.pod_listener(sandbox, "UDP", ip) as client,
    ):
        client.connect(("10.96.0.7", 53))
        port, other = first.getsockname()[1], second.getsockname()[1]
        await runtime.set_pod_rules(sandbox, TABLE.format(ip="127.96.0.10", port=port))
        client.send(b"1")
        assert received(first) == b"1"
        await runtime.set_pod_rules(sandbox, TABLE.format(ip="127.96.0.10", port=other))
        client.send(b"2")
        assert received(first) == b"2"
        await runtime.forget_pod_flows(sandbox, "127.96.0.10", port)
        client.send(b"3")
        assert received(second) == b"3"
        # There is nothing left to forget.
        await runtime.forget_pod_flows(sandbox, "127.96.0.10", port)


def received(sock: socket.socket) -> bytes:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            return sock.recv(100)
        except BlockingIOError:
            time.sleep(0.01)
    raise AssertionError("nothing arrived")


async def test_rules_need_a_sandbox_that_runs(bench: Bench) -> None:
    sandbox = await bench.sandbox()
    await bench.runtime.set_pod_rules(sandbox, RULES)
    await bench.runtime.stop_sandbox(sandbox)
    with pytest.raises(EngineConflict, match="is not running"):
        await bench.runtime.set_pod_rules(sandbox, RULES)
    with pytest.raises(EngineNotFound):
        await bench.runtime.set_pod_rules("f" * 64, RULES)


@pytest.mark.engine
async def test_the_pods_of_a_remote_engine_have_no_rules(remote_bench: Bench) -> None:
    sandbox = await remote_bench.sandbox()
    with pytest.raises(NetworkUnavailable, match="failed to enter the network namespace"):
        await remote_bench.runtime.set_pod_rules(sandbox, RULES)
    with pytest.raises(NetworkUnavailable, match="failed to enter the network namespace"):
        await remote_bench.runtime.pod_listener(sandbox, "UDP", "127.96.0.10")
    reason = "Services in pods: the engine does not run on this machine"
    assert reason in remote_bench.info.lacking
