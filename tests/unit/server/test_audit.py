"""The audit log: what is recorded, what is not, and the size of its files."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web
from served import put_records
from session_world import SessionWorld, session_world
from simulated import COMMANDS, memory
from tls_world import TlsWorld, tls_world

from podtui.clock import SystemClock
from podtui.pki.pki import Pki
from podtui.server.audit import AuditFile, AuditLog, is_audited
from podtui.server.auth.access import Access
from podtui.server.auth.attributes import parse_attributes
from podtui.server.transport.tls import tls_context
from podtui.wire import channels

SECRET = "canary-93ab"
SECRETS = "/api/v1/namespaces/default/secrets"
TOKEN = "t" * 40


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@asynccontextmanager
async def audited(folder: Path, **options: Any) -> AsyncIterator[TlsWorld]:
    audit = AuditLog(AuditFile(folder / "audit.log"), SystemClock())
    access = Access(TOKEN, names=("127.0.0.1",))
    async with tls_world(folder, audit=audit, access=access, **options) as world:
        await put_records(world.served.store)
        yield world
    audit.close()


@pytest.mark.parametrize(
    ("method", "path", "recorded"),
    [
        ("POST", "/api/v1/namespaces/a/pods", True),
        ("PUT", "/api/v1/namespaces/a/pods/p", True),
        ("PATCH", "/api/v1/namespaces/a/pods/p/status", True),
        ("DELETE", "/api/v1/namespaces/a/pods", True),
        ("POST", "/api/v1/namespaces/a/pods/p/binding", True),
        ("GET", "/api/v1/namespaces/a/pods/p/exec?command=sh", True),
        ("GET", "/api/v1/namespaces/a/pods/p/attach", True),
        ("GET", "/api/v1/namespaces/a/pods/p/portforward", True),
        ("GET", "/api/v1/namespaces/a/pods/p/proxy/", True),
        ("GET", "/exec/a/p/c", True),
        ("POST", "/portForward/a/p", True),
        ("GET", "/apis/podtui.dev/v1/namespaces/a/pods/p/files?path=/etc", True),
        ("POST", "/apis/podtui.dev/v1/images/prune", True),
        ("GET", "/api/v1/namespaces/a/pods/p", False),
        ("GET", "/api/v1/pods", False),
        ("GET", "/api/v1/pods?watch=1", False),
        ("GET", "/api/v1/namespaces/a/pods/p/log", False),
        ("GET", "/api/v1/nodes/n/proxy/metrics", False),
        ("GET", "/metrics", False),
        ("HEAD", "/version", False),
    ],
)
def test_writes_and_sessions_are_recorded(method: str, path: str, recorded: bool) -> None:
    path, _, query = path.partition("?")
    watch = {"watch": "1"} if query == "watch=1" else {}
    assert is_audited(parse_attributes(method, path, watch)) is recorded


async def test_an_event(tmp_path: Path) -> None:
    async with audited(tmp_path) as world, world.client(TOKEN, **{"User-Agent": "me/1"}) as client:
        body = {"metadata": {"generateName": "s-"}, "stringData": {"k": SECRET}}
        async with client.post(f"{SECRETS}?fieldManager=x", json=body) as response:
            created = (await response.json())["metadata"]
    (event,) = events(tmp_path / "audit.log")
    times = [event.pop("requestReceivedTimestamp"), event.pop("stageTimestamp")]
    assert times == sorted(times)
    assert len(event.pop("auditID")) == 36
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "stage": "ResponseComplete",
        "requestURI": f"{SECRETS}?fieldManager=x",
        "verb": "create",
        "user": {"username": "podtui:admin", "groups": ["system:masters", "system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "me/1",
        "objectRef": {
            "resource": "secrets",
            "namespace": "default",
            "name": created["name"],
            "uid": created["uid"],
            "apiVersion": "v1",
        },
        "responseStatus": {"metadata": {}, "code": 201},
        "annotations": {"authorization.k8s.io/decision": "allow"},
    }
    assert created["name"].startswith("s-")


async def test_requests_that_are_refused(tmp_path: Path) -> None:
    """With credentials they are recorded, without they are not."""
    async with audited(tmp_path) as world:
        for token, headers, code in (
            ("", {}, 403),
            ("wrong", {}, 401),
            (TOKEN, {"Impersonate-User": "jane", "Impersonate-Group": "dev"}, 403),
            (TOKEN, {}, 404),
        ):
            async with (
                world.client(token) as client,
                client.delete("/api/v1/namespaces/default/pods/none", headers=headers) as response,
            ):
                assert response.status == code
    forbidden, missing = events(tmp_path / "audit.log")
    assert forbidden["user"]["username"] == "podtui:admin"
    assert forbidden["impersonatedUser"] == {
        "username": "jane", "groups": ["dev", "system:authenticated"],
    }  # fmt: skip
    assert forbidden["responseStatus"]["code"] == 403
    assert forbidden["annotations"] == {"authorization.k8s.io/decision": "forbid"}
    assert (missing["responseStatus"]["code"], missing["objectRef"]["name"]) == (404, "none")


async def test_what_clients_without_credentials_may_do_is_recorded(tmp_path: Path) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]}
    subject = {"kind": "User", "name": "system:anonymous"}
    ref = {"kind": "ClusterRole", "name": "r"}
    async with audited(tmp_path) as world:
        async with world.client(TOKEN) as owner:
            for plural, body in (
                ("clusterroles", {"rules": [rule]}),
                ("clusterrolebindings", {"roleRef": ref, "subjects": [subject]}),
            ):
                body = {"metadata": {"name": "r"}, **body}
                async with owner.post(f"{rbac}/{plural}", json=body) as response:
                    assert response.status == 201
        async with world.client("") as client:
            for name, code in (("configmaps", 201), ("secrets", 403)):
                path = f"/api/v1/namespaces/default/{name}"
                async with client.post(path, json={"metadata": {"name": "x"}}) as response:
                    assert response.status == code
    *_, created = events(tmp_path / "audit.log")
    assert created["user"]["username"] == "system:anonymous"
    assert created["objectRef"]["resource"] == "configmaps"


async def test_no_secret_is_recorded(tmp_path: Path) -> None:
    """Neither bodies nor headers nor the messages of errors, which may quote a body."""
    async with audited(tmp_path) as world, world.client(TOKEN) as client:
        secret = {"metadata": {"name": "s"}, "stringData": {"k": SECRET}}
        bodies: list[tuple[str, str, Any]] = [
            ("POST", SECRETS, secret),
            ("POST", SECRETS, {"data": SECRET}),
            ("PUT", f"{SECRETS}/s", {"metadata": {"name": "s"}, "data": {SECRET: SECRET}}),
            ("PATCH", f"{SECRETS}/s", {"stringData": {"k": SECRET}}),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": SECRET}}),
        ]
        for method, path, body in bodies:
            headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
            data = json.dumps(body).encode()
            async with client.request(method, path, data=data, headers=headers) as response:
                await response.read()
        headers = {"Content-Type": "application/json"}
        async with client.post(SECRETS, data=f'{{"{SECRET}', headers=headers) as response:
            assert SECRET in await response.text()
    assert len(events(tmp_path / "audit.log")) == len(bodies) + 1
    text = (tmp_path / "audit.log").read_text()
    assert SECRET not in text
    assert TOKEN not in text


async def test_a_session_is_recorded_at_its_beginning_and_end(tmp_path: Path) -> None:
    audit = AuditLog(AuditFile(tmp_path / "audit.log"), SystemClock())
    make = memory(commands=COMMANDS)
    options = {"audit": audit, "access": Access(TOKEN)}
    async with session_world(make, tmp_path / "s.sock", **options) as world:
        await world.put(c="sleep 300")
        path = "/api/v1/namespaces/default/pods/web/exec?stdin=1&stdout=1&command=cat"
        async with connected(world) as http, http.ws_connect(path, protocols=[channels.V5]):
            (started,) = events(tmp_path / "audit.log")
            assert started["stage"] == "ResponseStarted"
        async with asyncio.timeout(120):
            while len(found := events(tmp_path / "audit.log")) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    complete = found[1]
    assert complete["auditID"] == started["auditID"]
    assert (complete["stage"], complete["responseStatus"]["code"]) == ("ResponseComplete", 101)
    assert complete["objectRef"]["subresource"] == "exec"
    assert "command=cat" in complete["requestURI"]
    assert "sourceIPs" not in complete
    audit.close()


@asynccontextmanager
async def connected(world: SessionWorld) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.UnixConnector(str(world.served.socket))
    async with aiohttp.ClientSession("http://podtui", connector=connector) as http:
        yield http


async def test_a_session_whose_client_vanishes_is_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A closed TLS connection has no socket any more."""
    audit = AuditLog(AuditFile(tmp_path / "audit.log"), SystemClock())
    pki = Pki(tmp_path / "pki", SystemClock().now())
    pki.ensure_server_certificate(("127.0.0.1",), SystemClock().now())
    options = {"audit": audit, "access": Access(TOKEN, names=("127.0.0.1",))}
    async with session_world(memory(commands=COMMANDS), tmp_path / "s.sock", **options) as world:
        await world.put(c="sleep 300")
        context = tls_context(pki.server_path)
        await web.TCPSite(world.served.runner, "127.0.0.1", 0, ssl_context=context).start()
        port = world.served.runner.addresses[-1][1]
        lines = ["GET /api/v1/namespaces/default/pods/web/exec?stdout=1&command=cat HTTP/1.1"]
        lines += ["Host: 127.0.0.1", f"Authorization: Bearer {TOKEN}", "Connection: Upgrade"]
        lines += ["Upgrade: websocket", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "", ""]
        trust = ssl.create_default_context(cadata=pki.authority.decode())
        async with asyncio.timeout(120):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            writer.write("\r\n".join(lines).encode())
            await reader.readuntil(b"\r\n\r\n")
            writer.transport.abort()
            while len(found := events(tmp_path / "audit.log")) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert found[1]["responseStatus"]["code"] == 101
    assert found[1]["sourceIPs"] == ["127.0.0.1"]
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
    audit.close()


async def test_texts_of_requests_cannot_forge_a_line(tmp_path: Path) -> None:
    async with audited(tmp_path) as world, world.client(TOKEN) as client:
        name = quote('x"}\n{"kind":"Event', safe="")
        async with client.delete(f"/api/v1/namespaces/default/pods/{name}") as response:
            assert response.status == 404
    (event,) = events(tmp_path / "audit.log")
    assert event["objectRef"]["name"] == 'x"}\n{"kind":"Event'


async def test_a_file_that_cannot_be_written_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "audit.log").symlink_to("precious")
    async with audited(tmp_path) as world, world.client(TOKEN) as client:
        for name in ("web", "db"):
            async with client.delete(f"/api/v1/namespaces/default/pods/{name}") as response:
                assert response.status == 200
    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 1
    assert errors[0].startswith("cannot write the audit log: ")
    assert (tmp_path / "precious").read_text() == "precious"


def test_the_size_of_all_files_is_bounded(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = AuditFile(tmp_path / "audit.log", max_bytes=100, max_files=3)
        for number in range(100):
            file.append(f"line {number:04}\n".encode())
    finally:
        os.umask(before)
    found = {path.name: path.read_text().split("\n")[:-1] for path in tmp_path.iterdir()}
    assert sorted(found) == ["audit.log", "audit.log.1", "audit.log.2"]
    lines = [*found["audit.log.2"], *found["audit.log.1"], *found["audit.log"]]
    assert lines == [f"line {number:04}" for number in range(100 - len(lines), 100)]
    assert {len(one) for one in (found["audit.log.1"], found["audit.log.2"])} == {10}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_full_disk_leaves_no_part_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = AuditFile(tmp_path / "audit.log")
    file.append(b"one\n")
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:2]))
    with pytest.raises(OSError, match="No space left"):
        file.append(b"two\n")
    monkeypatch.undo()
    file.append(b"three\n")
    assert (tmp_path / "audit.log").read_text() == "one\nthree\n"


def test_a_line_that_is_larger_than_a_file_has_its_own(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.log", max_bytes=10, max_files=2)
    for text in ("x" * 30, "y" * 30):
        file.append(text.encode())
    assert (tmp_path / "audit.log.1").read_text() == "x" * 30
    assert (tmp_path / "audit.log").read_text() == "y" * 30
