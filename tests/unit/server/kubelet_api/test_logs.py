from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace
from served import Served, line, pod, serving

from podtui.runtime.protocol import LogLine, LogOptions
from podtui.server.protocol import LogError
from podtui.server.transport import unix
from podtui.server.transport.streams import LIMIT, Outflow

pytestmark = pytest.mark.virtual_time

LOG = "/api/v1/namespaces/default/pods/web/log"


@pytest.fixture
async def logged(served: Served) -> Served:
    await served.store.put("pods", pod("web"))
    served.kubelet.lines = [line(b"one"), line(b"tw", partial=True), line(b"o"), line(b"three")]
    return served


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", b"one\ntwo\nthree\n"),
        ("tailLines=1", b"three\n"),
        ("tailLines=0", b""),
        ("limitBytes=5", b"one\nt"),
        ("limitBytes=4&tailLines=4", b"one\n"),
        ("follow=false&timestamps=false", b"one\ntwo\nthree\n"),
    ],
)
async def test_bodies(query: str, body: bytes, logged: Served, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{LOG}?{query}") as response:
        assert response.headers["Content-Type"] == "text/plain"
        assert await response.read() == body
    assert logged.kubelet.closed_logs == 1


async def put_on(served: Served, node: str) -> None:
    one = pod("web")
    await served.store.put("pods", replace(one, spec=replace(one.spec, nodeName=node)))


async def test_an_unscheduled_pod_has_no_log_yet(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await put_on(served, "")
    async with http.get(LOG) as response:
        assert (response.status, await response.read()) == (204, b"")
    assert served.kubelet.log_requests == []


async def test_the_log_of_a_pod_on_another_node_names_the_node(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await put_on(served, "far")
    async with http.get(LOG) as response:
        status = await response.json()
    assert (response.status, status["reason"]) == (500, "InternalError")
    assert status["message"] == (
        'pod "web" is bound to node "far", but this agent reaches only the kubelet of node "node"'
    )
    assert served.kubelet.log_requests == []


async def test_timestamps_precede_complete_lines(
    logged: Served, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{LOG}?timestamps=true") as response:
        lines = (await response.read()).splitlines()
    assert [text.split(b" ")[1] for text in lines] == [b"one", b"two", b"three"]
    assert lines[1] == b"2026-01-01T00:00:00.000000001Z two"


async def test_parameters_passed_to_the_kubelet(
    logged: Served, http: aiohttp.ClientSession
) -> None:
    moment = "2026-01-01T10:00:00.5Z"
    for path in (
        f"{LOG}?container=c&previous=true&sinceTime={moment}&tailLines=7",
        "/containerLogs/default/web/c?tail=3",
        "/containerLogs/default/web/c?tail=all",
    ):
        async with http.get(path) as response:
            await response.read()
    since = datetime(2026, 1, 1, 10, 0, 0, 500000, UTC)
    assert logged.kubelet.log_requests == [
        ("default", "web", "c", True, LogOptions(tail=7, since=since)),
        ("default", "web", "c", False, LogOptions(tail=3)),
        ("default", "web", "c", False, LogOptions()),
    ]


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/containerLogs/default/web/waiting", 400, "is waiting to start: ContainerCreating"),
        (f"{LOG}?container=missing", 400, "container missing is not valid for pod web"),
        (
            "/containerLogs/default/web/missing",
            404,
            'container "missing" not found in pod "web"',
        ),
        (LOG.replace("web", "none"), 404, 'pods "none" not found'),
        (f"{LOG}?tailLines=-1", 422, "must be greater than or equal to 0"),
        (f"{LOG}?tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (f"/api/v1/pods?timeoutSeconds={'9' * 5000}", 400, "strconv.ParseInt"),
        (f"{LOG}?sinceSeconds=0", 422, "must be greater than 0"),
        (f"{LOG}?stream=Stdout", 422, "stream: Forbidden: may not be specified"),
        (f"{LOG}?sinceTime=yesterday", 400, 'cannot parse "yesterday" as "2006"'),
        (f"{LOG}?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one"),
    ],
)
async def test_refusals(
    path: str, code: int, words: str, logged: Served, http: aiohttp.ClientSession
) -> None:
    async with http.get(path) as response:
        status = await response.json()
    assert (response.status, status["kind"], status["code"]) == (code, "Status", code)
    assert words in status["message"]


async def test_invalid_options_are_listed_as_causes(
    logged: Served, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{LOG}?tailLines=-1&limitBytes=0&sinceSeconds=0") as response:
        status = await response.json()
    assert (response.status, status["details"]["kind"], status["details"]["name"]) == (
        422,
        "PodLogOptions",
        "web",
    )
    assert [(one["reason"], one["field"]) for one in status["details"]["causes"]] == [
        ("FieldValueInvalid", "tailLines"),
        ("FieldValueInvalid", "limitBytes"),
        ("FieldValueInvalid", "sinceSeconds"),
    ]
    async with http.get(f"{LOG}?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z") as response:
        [cause] = (await response.json())["details"]["causes"]
    assert cause == {
        "reason": "FieldValueForbidden",
        "message": "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        "field": "[]",
    }


@pytest.mark.parametrize("seconds", [99999999999, 9999999999999999])
async def test_since_before_all_dates_returns_the_whole_log(
    seconds: int, logged: Served, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{LOG}?sinceSeconds={seconds}") as response:
        assert await response.read() == b"one\ntwo\nthree\n"
    assert logged.kubelet.log_requests[-1][-1].since is None


async def test_a_broken_log_stream_differs_from_its_end(
    logged: Served, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lines():  # type: ignore[no-untyped-def]
        yield [line(b"one")]
        await asyncio.sleep(0.05)
        raise LogError(500, "the engine is gone")

    async def container_logs(*_: object, **__: object):  # type: ignore[no-untyped-def]
        return lines()

    monkeypatch.setattr(logged.kubelet, "container_logs", container_logs)
    async with http.get(LOG) as response:
        assert await response.content.readline() == b"one\n"
        with pytest.raises(aiohttp.ClientError):
            await response.content.readline()


async def test_a_log_of_a_removed_container_leaves_no_traceback(
    logged: Served,
    http: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def lines() -> AsyncIterator[list[LogLine]]:
        raise LogError(400, "unable to retrieve container logs for docker://1")
        yield []

    async def container_logs(*_: object, **__: object) -> AsyncIterator[list[LogLine]]:
        return lines()

    monkeypatch.setattr(logged.kubelet, "container_logs", container_logs)
    with pytest.raises(aiohttp.ClientError):
        async with http.get(LOG) as response:
            await response.read()
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_a_disconnected_client_closes_the_log(
    logged: Served, http: aiohttp.ClientSession
) -> None:
    response = await http.get(f"{LOG}?follow=true")
    assert await response.content.readline() == b"one\n"
    response.close()
    async with asyncio.timeout(120):
        while not logged.kubelet.closed_logs:  # noqa: ASYNC110 - nothing tells when it is closed
            await asyncio.sleep(0.01)


async def test_the_buffer_for_a_slow_client_is_bounded() -> None:
    outflow = Outflow()
    taken = 0
    while outflow.add(b"x" * 1000):
        taken += 1000
    assert taken < LIMIT
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await outflow.room()


async def test_a_client_that_does_not_read_does_not_delay_shutdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix, "SHUTDOWN_SECONDS", 0.1)
    endless = LogLine(timestamp="t", stream="stdout", content=b"x" * 65536)
    async with asyncio.timeout(120), serving(tmp_path / "s") as served:
        await served.store.put("pods", pod("web"))
        served.kubelet.lines = [endless] * 1000
        _, writer = await asyncio.open_unix_connection(tmp_path / "s", limit=1024)
        writer.write(f"GET {LOG} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await writer.drain()
        while not served.kubelet.log_requests:  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)
    writer.close()
    assert served.kubelet.closed_logs == 1


async def test_gaps_are_reported_only_on_request(
    logged: Served, http: aiohttp.ClientSession
) -> None:
    lines = [line(b"one"), line(b"tw", partial=True), line(b"three")]
    logged.kubelet.lines = [replace(one, gap="gone") for one in lines]
    stamp = b"2026-01-01T00:00:00.000000001Z "
    for query, body in (
        ("", b"one\ntwthree\n"),
        ("timestamps=true", stamp + b"one\n" + stamp + b"twthree\n"),
        ("podtuiGaps=true", b"one\ntwthree\n"),
        (
            "timestamps=true&podtuiGaps=true",
            b"podtui-log-gap gone\n" + stamp + b"one\n"
            b"podtui-log-gap gone\n" + stamp + b"tw\n"
            b"podtui-log-gap gone\n" + stamp + b"three\n",
        ),
    ):
        async with http.get(f"{LOG}?{query}") as response:
            assert await response.read() == body
    assert [request[-1].gaps for request in logged.kubelet.log_requests] == [
        False,
        False,
        False,
        True,
    ]
