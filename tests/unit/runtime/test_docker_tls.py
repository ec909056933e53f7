"""An engine behind TLS, with certificates like those of Docker's own documentation."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from cluster_server import Authority, server_context

from podtui.runtime.docker.locate import Endpoint, TlsFiles
from podtui.runtime.docker.sdk import new_client
from podtui.runtime.docker.wire import Wire


async def _version(request: web.Request) -> web.Response:
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert")
    return web.json_response({"Version": "1", "Peer": str(peer["subject"])})


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[Endpoint]:
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    for name, pem in zip(("cert.pem", "key.pem"), authority.issue("client"), strict=True):
        (tmp_path / name).write_bytes(pem)
    context = server_context(authority, tmp_path, "127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    app = web.Application()
    app.router.add_get("/v1.41/version", _version)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    url = f"tcp://127.0.0.1:{runner.addresses[0][1]}"
    yield Endpoint(url=url, source="test", tls=TlsFiles(ca=ca, certificate=cert, key=key))
    await runner.cleanup()


async def test_certificates_without_key_identifiers_are_accepted(endpoint: Endpoint) -> None:
    """Python 3.13 and later refuse them by default."""

    def ask_sdk() -> object:
        client = new_client(endpoint, "1.41")
        try:
            return client.version()  # type: ignore[attr-defined]
        finally:
            client.close()

    expected = {"Version": "1", "Peer": "((('commonName', 'client'),),)"}
    assert await asyncio.to_thread(ask_sdk) == expected
    wire = Wire(endpoint, "1.41")
    try:
        assert await wire.send("GET", "/version", total=30.0) == expected
    finally:
        await wire.close()
