"""Logs and watches over WebSockets, as an API server sends them."""

from __future__ import annotations

import asyncio
import base64
import json

import aiohttp
import pytest
from served import Served, line, pod, put_records

LOG = "/api/v1/namespaces/default/pods/web/log"
WATCH = "/api/v1/pods?watch=true&resourceVersion=0"


@pytest.fixture(autouse=True)
async def records(served: Served) -> None:
    await put_records(served.store)


@pytest.mark.parametrize("protocols", [(), ("binary.k8s.io",), ("x", "binary.k8s.io")])
async def test_a_log(
    served: Served, http: aiohttp.ClientSession, protocols: tuple[str, ...]
) -> None:
    """The first message is empty: the log is open."""
    served.kubelet.lines = [line(b"one \xff"), line(b"two")]
    async with asyncio.timeout(120), http.ws_connect(LOG, protocols=protocols) as socket:
        assert socket.protocol == (protocols[-1] if protocols else None)
        first, *more = [message async for message in socket]
        assert socket.close_code == 1000
    assert (first.type, first.data) == (aiohttp.WSMsgType.BINARY, b"")
    assert b"".join(message.data for message in more) == b"one \xff\ntwo\n"


async def test_a_log_in_base64(served: Served, http: aiohttp.ClientSession) -> None:
    served.kubelet.lines = [line(b"one \xff")]
    async with (
        asyncio.timeout(120),
        http.ws_connect(LOG, protocols=("base64.binary.k8s.io",)) as socket,
    ):
        first, second = [message.data async for message in socket]
    assert (first, base64.b64decode(second, validate=True)) == ("", b"one \xff\n")


async def test_a_followed_log_ends_with_its_client(
    served: Served, http: aiohttp.ClientSession
) -> None:
    async with asyncio.timeout(120), http.ws_connect(f"{LOG}?follow=true") as socket:
        await socket.send_str("ignored")
        served.kubelet.more.put_nowait(line(b"one"))
        assert [await socket.receive_bytes(), await socket.receive_bytes()] == [b"", b"one\n"]
    async with asyncio.timeout(120):
        while not served.kubelet.closed_logs:  # noqa: ASYNC110 - nothing tells when it is closed
            await asyncio.sleep(0.01)


async def test_an_error_of_a_log_is_a_status(http: aiohttp.ClientSession) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    async with http.get(LOG.replace("web", "none"), headers=headers) as response:
        assert (response.status, (await response.json())["kind"]) == (404, "Status")


async def test_a_handshake_without_a_key_is_refused(http: aiohttp.ClientSession) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    for path in (LOG, WATCH):
        async with http.get(path, headers=headers) as response:
            assert response.status == 400


async def test_each_event_of_a_watch_is_a_text_message(
    served: Served, http: aiohttp.ClientSession
) -> None:
    async with asyncio.timeout(120), http.ws_connect(WATCH) as socket:
        initial = [json.loads(await socket.receive_str()) for _ in range(3)]
        await served.store.put("pods", pod("web", app="new"))
        change = json.loads(await socket.receive_str())
    assert {one["object"]["metadata"]["name"] for one in initial} == {"web", "db", "far"}
    assert {one["type"] for one in initial} == {"ADDED"}
    assert (change["type"], change["object"]["metadata"]["labels"]) == ("MODIFIED", {"app": "new"})


@pytest.mark.virtual_time
async def test_a_watch_has_a_time_limit(http: aiohttp.ClientSession) -> None:
    async with (
        asyncio.timeout(120),
        http.ws_connect(f"{WATCH}&timeoutSeconds=1", protocols=("mine",)) as socket,
    ):
        assert socket.protocol == "mine"
        assert len([message async for message in socket]) == 3
        assert socket.close_code == 1000


async def test_a_stopping_server_ends_them(served: Served, http: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(120), http.ws_connect(f"{LOG}?follow=true") as socket:
        assert await socket.receive_bytes() == b""
        await served.app.shutdown()
        assert [message async for message in socket] == []
