"""The API over TCP: certificates, credentials, hosts and connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import warnings
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from tls_world import ShiftedClock, TlsWorld, tls_world

from podtui.pki.access_point import listen
from podtui.pki.certificates import SERVER_LIFE
from podtui.server.auth.access import Access, host_name


async def ask(client: aiohttp.ClientSession, path: str, **options: object) -> tuple[int, str]:
    async with client.get(path, **options) as response:
        if response.content_type == "application/json":
            return response.status, (await response.json()).get("message", "")
        return response.status, await response.text()


async def test_a_strict_client_trusts_the_certificate(tmp_path: Path) -> None:
    async with tls_world(tmp_path) as world:
        async with world.client() as client:
            assert (await ask(client, "/api/v1/pods"))[0] == 200
        for name in ("localhost", "127.0.0.1", "::1", "kubernetes.default.svc", "node-1"):
            with world.plain_socket() as plain:
                wrapped = await asyncio.to_thread(
                    world.trust().wrap_socket, plain, server_hostname=name
                )
                assert wrapped.version() == "TLSv1.3"
                wrapped.close()


async def test_tls_before_1_2_is_refused(tmp_path: Path) -> None:
    async with tls_world(tmp_path) as world:

        def version(wanted: ssl.TLSVersion) -> str | None:
            context = world.trust()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                context.minimum_version = context.maximum_version = wanted
            context.set_ciphers("ALL:@SECLEVEL=0")
            with (
                world.plain_socket() as plain,
                context.wrap_socket(plain, server_hostname="localhost") as connection,
            ):
                return connection.version()

        assert await asyncio.to_thread(version, ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(version, ssl.TLSVersion.TLSv1_1)


async def test_accepted_credentials(tmp_path: Path) -> None:
    async with tls_world(tmp_path) as world:
        async with world.client("") as anonymous:
            for path in ("/healthz", "/livez", "/readyz", "/version"):
                assert (await ask(anonymous, path))[0] == 200
            for path in ("/api", "/apis", "/healthz/ping", "/nowhere"):
                refusal = f'forbidden: User "system:anonymous" cannot get path "{path}"'
                assert await ask(anonymous, path) == (403, refusal)
            for path in ("/api/v1/pods", "/pods", "/exec/a/b/c", "/metrics/cadvisor"):
                assert (await ask(anonymous, path))[0] == 403
        right = world.pki.token
        for wrong in ("x", right[:-1], right + "x", right.swapcase(), "é", "a.b.c"):
            async with world.client(wrong) as client:
                for path in ("/healthz", "/api"):
                    assert await ask(client, path) == (401, "Unauthorized")
        for header in (f"Basic {right}", right, "Bearer", f"Bearer {right} x"):
            async with world.client("", Authorization=header) as client:
                assert await ask(client, "/api") == (401, "Unauthorized")
        async with world.client("", Authorization=f"bEaReR  {right}") as client:
            assert (await ask(client, "/api"))[0] == 200


async def test_a_client_certificate_is_no_credential(tmp_path: Path) -> None:
    """Not even a valid one of the server's own authority."""
    async with tls_world(tmp_path) as world:
        trust = world.trust()
        trust.load_cert_chain(world.pki.server_path)
        connector = aiohttp.TCPConnector(ssl=trust)
        async with aiohttp.ClientSession(world.point.url, connector=connector) as client:
            assert (await ask(client, "/api"))[0] == 403


async def test_two_credentials_are_refused(tmp_path: Path) -> None:
    async with tls_world(tmp_path) as world:
        head = (
            f"GET /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {world.pki.token}\r\n"
        )
        twice = head + "Authorization: Bearer other\r\nConnection: close\r\n\r\n"
        assert b" 401 " in (await world.exchange(twice.encode())).splitlines()[0]


async def test_a_foreign_host_is_refused(tmp_path: Path) -> None:
    async with tls_world(tmp_path) as world, world.client() as client:
        for host in ("localhost", "LOCALHOST:1", "[::1]:6443", "node-1", "127.0.0.1"):
            assert (await ask(client, "/api", headers={"Host": host}))[0] == 200, host
        for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.2", "[::1", "", "[::1]x"):
            for path in ("/api", "/healthz"):
                code, words = await ask(client, path, headers={"Host": host})
                assert (code, words) == (403, "the Host header does not name this server"), host


def test_the_name_in_a_host_header() -> None:
    found = {
        host: host_name(host) for host in ("A:1", "a", "[::1]:2", "[::1]", "[::1", "[x]y", ":")
    }
    assert found == {
        "A:1": "a", "a": "a", "[::1]:2": "::1", "[::1]": "::1", "[::1": "", "[x]y": "", ":": "",
    }  # fmt: skip


async def test_any_host_is_accepted_when_listening_on_all_addresses(tmp_path: Path) -> None:
    access = Access("t" * 40, names=("localhost",), any_address=True)
    async with tls_world(tmp_path, access=access) as world, world.client("t" * 40) as client:
        assert (await ask(client, "/api", headers={"Host": "10.9.8.7:1"}))[0] == 200
        assert (await ask(client, "/api", headers={"Host": "evil.example"}))[0] == 403


async def test_the_unix_socket_needs_no_token(tmp_path: Path) -> None:
    async with tls_world(tmp_path) as world:
        connector = aiohttp.UnixConnector(str(world.served.socket))
        async with aiohttp.ClientSession("http://any", connector=connector) as client:
            assert (await ask(client, "/api/v1/pods"))[0] == 200


async def test_new_connections_get_the_renewed_certificate(tmp_path: Path) -> None:
    clock = ShiftedClock(ahead=-SERVER_LIFE * 2 / 3)
    async with tls_world(tmp_path, clock=clock) as world:

        def serial() -> int:
            with world.raw() as connection:
                found = connection.getpeercert()
            assert found is not None
            return int(found["serialNumber"], 16)

        first = await asyncio.to_thread(serial)
        async with world.client() as client:
            assert (await ask(client, "/api"))[0] == 200
            clock.ahead = timedelta()
            clock.ticks.set()
            async with asyncio.timeout(120):
                while True:
                    if await asyncio.to_thread(serial) != first:
                        break
            # The open connection continues.
            assert (await ask(client, "/api"))[0] == 200


async def test_a_jump_of_the_clock_renews_the_certificate(tmp_path: Path) -> None:
    """At once: no timer of the server has ended."""
    clock = ShiftedClock(ahead=-2 * SERVER_LIFE)
    async with tls_world(tmp_path, clock=clock) as world:
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            await asyncio.to_thread(world.raw)
        clock.ahead = timedelta()
        async with world.client() as client:
            assert (await ask(client, "/api"))[0] == 200
        assert not clock.ticks.is_set()


async def test_a_connection_during_a_renewal_gets_the_new_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ShiftedClock(ahead=-2 * SERVER_LIFE)
    async with tls_world(tmp_path, clock=clock) as world:
        written, go_on = threading.Event(), threading.Event()
        ensure = world.pki.ensure_server_certificate

        def ensure_slowly(names: Sequence[str], now: datetime) -> bool:
            is_new = ensure(names, now)
            written.set()
            assert go_on.wait(120)
            return is_new

        monkeypatch.setattr(world.pki, "ensure_server_certificate", ensure_slowly)
        clock.ahead = timedelta()
        async with asyncio.timeout(120), world.client() as client, asyncio.TaskGroup() as group:
            first = group.create_task(ask(client, "/api"))
            assert await asyncio.to_thread(written.wait, 120)
            second = group.create_task(ask(client, "/api"))
            # The connection is open before the certificate is loaded.
            await asyncio.sleep(0.2)
            go_on.set()
        assert [first.result()[0], second.result()[0]] == [200, 200]


async def test_a_jump_during_a_handshake_is_noticed_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ShiftedClock(ahead=-2 * SERVER_LIFE)
    async with tls_world(tmp_path, clock=clock) as world:
        checked, renewed, is_due = asyncio.Event(), asyncio.Event(), world.pki.is_due

        def check(now: datetime) -> bool:
            (renewed if checked.is_set() else checked).set()
            return is_due(now)

        monkeypatch.setattr(world.pki, "is_due", check)
        with world.plain_socket() as plain:
            async with asyncio.timeout(120):
                await checked.wait()
            clock.ahead = timedelta()
            with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
                await asyncio.to_thread(
                    world.trust().wrap_socket, plain, server_hostname="localhost"
                )
        async with asyncio.timeout(120):
            await renewed.wait()
            while is_due(clock.now()):  # noqa: ASYNC110 - it is renewed in a thread
                await asyncio.sleep(0.01)


async def test_a_jump_backward_renews_the_authority_too(tmp_path: Path) -> None:
    """A certificate from the future is not valid yet; the kubeconfig gets the new one."""
    clock = ShiftedClock(ahead=2 * SERVER_LIFE)
    authorities: list[bytes] = []

    async def publish() -> None:
        authorities.append(world.pki.authority)

    async with tls_world(tmp_path, clock=clock, on_authority=publish) as world:
        before = world.pki.authority
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate is not yet valid"):
            await asyncio.to_thread(world.raw)
        clock.ahead = timedelta()
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate is not yet valid"):
            await asyncio.to_thread(world.raw)
        assert authorities == [world.pki.authority]
        assert authorities != [before]
        async with world.client() as client:
            assert (await ask(client, "/api"))[0] == 200
    assert len(authorities) == 1


async def test_an_authority_that_cannot_be_published_is_published_later(tmp_path: Path) -> None:
    clock = ShiftedClock(ahead=2 * SERVER_LIFE)
    attempts = 0

    async def publish() -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError(28, "No space left on device")

    async with tls_world(tmp_path, clock=clock, on_authority=publish) as world:
        clock.ahead = timedelta()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(world.raw)
        assert attempts == 1
        clock.later = 61
        async with world.client() as client:
            assert (await ask(client, "/api"))[0] == 200
        async with world.client() as client:
            assert (await ask(client, "/api"))[0] == 200
    assert attempts == 2


async def test_a_certificate_that_cannot_be_renewed_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The old one serves those that accept it, and the next try is a minute later."""
    clock = ShiftedClock(ahead=-SERVER_LIFE * 5 / 6)
    async with tls_world(tmp_path, clock=clock) as world:
        clock.ahead = timedelta()
        directory = tmp_path / "pki"
        directory.rename(tmp_path / "away")
        directory.write_text("in the way")
        for _ in range(3):
            async with world.client() as client:
                assert (await ask(client, "/api"))[0] == 200
    assert caplog.text.count("cannot renew the certificate") == 1


async def test_a_client_refuses_an_expired_certificate(tmp_path: Path) -> None:
    """The server never serves an expired certificate unless its clock is wrong."""
    clock = ShiftedClock(ahead=-2 * SERVER_LIFE)
    async with tls_world(tmp_path, clock=clock) as world:
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            await asyncio.to_thread(world.raw)


async def test_an_expired_certificate_is_replaced_at_start(tmp_path: Path) -> None:
    async with tls_world(tmp_path, clock=ShiftedClock(ahead=-2 * SERVER_LIFE)):
        pass
    async with tls_world(tmp_path) as world, world.client() as client:
        assert (await ask(client, "/api"))[0] == 200


async def test_a_port_in_use_is_reported_and_retried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_world(tmp_path) as before:
        port = before.point.port
    taken = listen("127.0.0.1", port)
    clock = ShiftedClock()

    async def retried() -> TlsWorld:
        async with tls_world(tmp_path, clock=clock) as world, world.client() as client:
            assert (await ask(client, "/api"))[0] == 200
            return world

    with caplog.at_level(logging.WARNING):
        async with asyncio.TaskGroup() as group:
            later = group.create_task(retried())
            async with asyncio.timeout(120):
                await clock.waiting.wait()
                # The second try fails for the same reason, which is not reported again.
                clock.waiting.clear()
                clock.ticks.set()
                await clock.waiting.wait()
            taken.close()
            clock.ticks.set()
    assert later.result().point.port == port
    assert caplog.text.count("the port is in use") == 1


async def test_beyond_loopback_there_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with tls_world(tmp_path):
            assert "other machines" not in caplog.text
        async with tls_world(tmp_path, address="0.0.0.0"):
            assert "listens on 0.0.0.0: other machines can reach it" in caplog.text


async def test_there_is_a_limit_of_connections(tmp_path: Path) -> None:
    """Connections in a handshake count; when one ends another is accepted."""
    async with tls_world(tmp_path, server={"most_connections": 3}) as world:
        silent = [world.plain_socket() for _ in range(3)]
        async with asyncio.timeout(120):
            while True:
                try:
                    refused = await asyncio.to_thread(world.raw)
                except (ssl.SSLError, ConnectionError):
                    break
                refused.close()
        for one in silent:
            one.close()
        async with asyncio.timeout(120):
            while True:
                try:
                    async with world.client() as client:
                        assert (await ask(client, "/api"))[0] == 200
                    break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.01)


async def test_a_handshake_has_a_time_limit(tmp_path: Path) -> None:
    async with tls_world(tmp_path, server={"handshake_seconds": 0.05}) as world:

        def silence() -> bytes:
            with world.plain_socket() as plain:
                return plain.recv(100)

        assert await asyncio.to_thread(silence) == b""


async def test_connections_without_tls_do_not_affect_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_world(tmp_path) as world:

        def talk(data: bytes) -> None:
            with world.plain_socket() as plain:
                plain.sendall(data)
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(4096):
                    pass

        for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(600)):
            with contextlib.suppress(ConnectionError):
                await asyncio.to_thread(talk, data)
        async with world.client() as client:
            assert (await ask(client, "/api"))[0] == 200
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_only_the_admin_sees_why_a_health_check_fails(tmp_path: Path) -> None:
    async with tls_world(tmp_path) as world:
        world.served.kubelet.health["parts"] = "records failed: the record secrets/default/a"
        async with world.client() as admin, world.client(token="") as anonymous:
            status, text = await ask(admin, "/readyz")
            assert status == 500
            assert "[-]parts failed: records failed: the record secrets/default/a\n" in text
            status, text = await ask(anonymous, "/readyz")
            assert status == 500
            assert "[-]parts failed: reason withheld\n" in text
            assert "secrets" not in text


async def test_a_lack_of_descriptors_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("podtui.server.transport.tls._ACCEPT_RETRY_SECONDS", 0.01)
    async with tls_world(tmp_path) as world:
        loop, failures = asyncio.get_running_loop(), 0
        accept = loop.sock_accept

        async def failing(listener: socket.socket) -> tuple[socket.socket, object]:
            nonlocal failures
            connection = await accept(listener)
            if failures < 20:
                failures += 1
                connection[0].close()
                raise OSError(24, "Too many open files")
            return connection

        monkeypatch.setattr(loop, "sock_accept", failing)
        async with asyncio.timeout(120):
            answers: list[int] = []
            # The first connection is still accepted by the call that waits already.
            while len(answers) < 2:
                with contextlib.suppress(aiohttp.ClientError):
                    async with world.client() as client:
                        answers.append((await ask(client, "/api"))[0])
    assert answers == [200, 200]
    assert failures == 20
    assert caplog.text.count("cannot accept connections") == 1
