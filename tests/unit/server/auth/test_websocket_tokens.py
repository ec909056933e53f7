"""Bearer tokens as a protocol of a WebSocket, for pages in a browser."""

from __future__ import annotations

import asyncio
import base64
import logging
from pathlib import Path

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from served import pod
from tls_world import tls_world

from podtui.server.auth.access import Access
from podtui.server.transport.websocket_headers import token_as_authorization

TOKEN = "töken-" + "t" * 40
PREFIX = "base64url.bearer.authorization.k8s.io."
WATCH = "/api/v1/namespaces?watch=1"


def protocol(token: str = TOKEN) -> str:
    return PREFIX + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def changed(*lines: str, upgrade: str = "websocket", **more: str) -> dict[str, str]:
    headers = CIMultiDict({"Connection": "keep-alive, Upgrade", "Upgrade": upgrade, **more})
    for line in lines:
        headers.add("Sec-WebSocket-Protocol", line)
    found = token_as_authorization(CIMultiDictProxy(headers))
    names = ("Sec-WebSocket-Protocol", "Authorization")
    return {name: ",".join(found.getall(name)) for name in names if name in found}


def test_the_token_moves_from_the_protocols_to_the_credentials() -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert changed(f"a, {protocol()}, b") == {"Sec-WebSocket-Protocol": "a, b", **bearer}
    assert changed("a", protocol()) == {"Sec-WebSocket-Protocol": "a", **bearer}
    assert changed("a, b") == {"Sec-WebSocket-Protocol": "a, b"}


def test_a_token_that_cannot_be_used_is_removed_as_well() -> None:
    refused = {"Sec-WebSocket-Protocol": "a", "Authorization": "Bearer "}
    for text in ("***", "YQ==", "_w", "Y"):
        assert changed(f"a,{PREFIX}{text}") == refused
    assert changed(f"a,{protocol()},{protocol('other')}") == refused
    assert changed(protocol()) == {"Authorization": "Bearer "}, "no protocol is left to answer"
    assert changed(f"a,{protocol()}", upgrade="SPDY/3.1") == {"Sec-WebSocket-Protocol": "a"}
    given = {"Authorization": "Bearer given"}
    assert changed(f"a,{protocol()}", **given) == {"Sec-WebSocket-Protocol": "a", **given}


async def test_a_watch_authenticates_with_a_token_as_a_protocol(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    access = Access(TOKEN, names=("127.0.0.1",))
    async with tls_world(tmp_path, access=access) as world, world.client("") as client:
        async with client.ws_connect(WATCH, protocols=("v1.any", protocol())) as socket:
            assert socket.protocol == "v1.any"
            async with asyncio.timeout(120):
                assert (await socket.receive_json())["type"] == "ADDED"
        for code, protocols in (
            (403, ("v1.any",)),
            (401, ("v1.any", protocol("other"))),
            (401, (protocol(),)),
        ):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(WATCH, protocols=protocols)
            assert refused.value.status == code
    assert not [one for one in caplog.records if PREFIX in one.getMessage()]


async def test_the_token_is_in_no_message(tmp_path: Path) -> None:
    access = Access(TOKEN, names=("127.0.0.1",))
    path = "/api/v1/namespaces/default/pods/web/log"
    async with tls_world(tmp_path, access=access) as world, world.client("") as client:
        await world.served.store.put("pods", pod("web"))
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        headers["Sec-WebSocket-Protocol"] = f"unknown, {protocol()}"
        async with client.get(path, headers=headers) as response:
            text = await response.text()
    assert response.status == 403
    assert "requested protocol(s) are not supported: [unknown]" in text
