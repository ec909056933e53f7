"""The page's server: access, served files, and the end of each tab's program."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from socket import SHUT_RDWR
from typing import Any

import aiohttp
import psutil
import pytest
from aiohttp import WSMsgType, web
from terminal_programs import owning
from yarl import URL

from podtui.web import server as server_module
from podtui.web import session as session_module
from podtui.web.access import WebAccess, authority
from podtui.web.server import COOKIE, STATIC, PageServer, page_files
from podtui.web.session import LONGEST_MESSAGE, WINDOW, Program
from podtui.web.terminal import CHUNK

ENVIRONMENT = {"PATH": os.environ["PATH"]}
ECHO = Program(owning("sh", "-c", "stty raw -echo; echo up=$$.; exec cat"), ENVIRONMENT)
SIZE = {"kind": "size", "columns": 80, "rows": 24}


@dataclass
class Served:
    """A server, and a client that does not keep cookies."""

    pages: PageServer
    access: WebAccess
    visitor: aiohttp.ClientSession
    runner: web.AppRunner

    @property
    def host(self) -> str:
        return authority("127.0.0.1", self.pages.port)

    async def get(
        self, path: str, *, cookie: str | None = None, host: str | None = None, method: str = "GET"
    ) -> aiohttp.ClientResponse:
        headers = {"Host": host or self.host}
        if cookie is not None:
            headers["Cookie"] = f"{COOKIE}={cookie}"
        url = URL(f"http://{self.host}{path}", encoded=True)
        response = await self.visitor.request(method, url, headers=headers, allow_redirects=False)
        await response.read()
        return response

    @property
    def folder(self) -> str:
        return f"/{self.access.path}/"

    async def inside(self, name: str = "") -> aiohttp.ClientResponse:
        return await self.get(self.folder + name, cookie=self.access.cookie)

    def terminal(self, **changes: str | None) -> Any:
        """Open the WebSocket as the page does, except for ``changes``: cookie, origin, path."""
        headers = {"Host": changes.get("host") or self.host}
        if (cookie := changes.get("cookie", self.access.cookie)) is not None:
            headers["Cookie"] = f"{COOKIE}={cookie}"
        if (origin := changes.get("origin", f"http://{self.host}")) is not None:
            headers["Origin"] = origin
        path = changes.get("path", self.access.path)
        return self.visitor.ws_connect(f"http://{self.host}/{path}/terminal", headers=headers)


@asynccontextmanager
async def serving(program: Program = ECHO, **options: Any) -> AsyncIterator[Served]:
    access = WebAccess()
    pages = PageServer(access, program, **options)
    runner = web.AppRunner(pages.application(), access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    pages.port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as visitor:
            yield Served(pages, access, visitor, runner)
    finally:
        await runner.cleanup()


@pytest.fixture
def quick_farewell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait for the clients' close frames, which they never send."""
    monkeypatch.setattr(server_module, "CLOSE_SECONDS", 0.2)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def shown(socket: aiohttp.ClientWebSocketResponse, word: bytes) -> bytes:
    seen = b""
    async with asyncio.timeout(120):
        while word not in seen:
            seen += await socket.receive_bytes()
    return seen


async def until_no_tabs(served: Served) -> None:
    async with asyncio.timeout(120):
        while served.pages.tabs:  # noqa: ASYNC110 - the server sends no notification
            await asyncio.sleep(0.02)


# --- who gets in


async def test_the_token_becomes_a_cookie_and_is_removed_from_the_url(served: Served) -> None:
    response = await served.get(f"/?token={served.access.token}")
    assert response.status == 303
    assert response.headers["Location"] == served.folder
    assert served.access.token not in response.headers["Location"]
    cookie = response.cookies[COOKIE]
    assert cookie.value == served.access.cookie != served.access.token
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"
    # Cookies are not limited to a port. The path keeps it from other servers on this machine.
    assert cookie["path"] == served.folder
    assert (await served.inside()).status == 200


@pytest.mark.parametrize("query", ["", "?token=", "?token=x", "?token=%ff", "?Token={token}"])
async def test_without_the_token_everything_is_refused(served: Served, query: str) -> None:
    response = await served.get("/" + query.format(token=served.access.token))
    assert response.status == 403
    assert "Set-Cookie" not in response.headers
    assert served.access.path not in str(response.headers)


async def test_a_link_of_an_earlier_run_does_not_open_a_later_one(served: Served) -> None:
    async with serving() as later:
        assert (await later.get(f"/?token={served.access.token}")).status == 403
        earlier = served.access
        assert (await later.get(f"/{earlier.path}/", cookie=earlier.cookie)).status == 403
        assert (await later.get(later.folder, cookie=earlier.cookie)).status == 403
        assert (await later.get(f"/?token={later.access.token}")).status == 303


@pytest.mark.parametrize("name", ["", "static/page.mjs", "static/xterm.mjs", "terminal"])
async def test_path_and_cookie_are_both_needed(served: Served, name: str) -> None:
    for path, cookie in (
        (served.access.path, None),
        (served.access.path, served.access.token),
        ("x", served.access.cookie),
        (served.access.token, served.access.cookie),
    ):
        response = await served.get(f"/{path}/{name}", cookie=cookie)
        assert response.status == 403
        assert "script" not in await response.text()


async def test_a_link_opened_from_another_page_is_reloaded(served: Served) -> None:
    """The browser withholds a strict cookie then; the page's own request has it."""
    response = await served.get(served.folder)
    assert response.status == 403
    assert 'content="0; url=./?again=1"' in await response.text()
    again = await served.get(served.folder + "?again=1")
    assert "refresh" not in await again.text()
    ours = await served.inside("?again=1")
    assert (ours.status, ours.headers["Location"]) == (303, served.folder)


@pytest.mark.parametrize("host", ["evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "x"])
async def test_other_names_are_refused_everywhere(served: Served, host: str) -> None:
    name = host.format(port=served.pages.port)
    for path in (f"/?token={served.access.token}", served.folder, served.folder + "terminal"):
        response = await served.get(path, cookie=served.access.cookie, host=name)
        assert response.status == 403
        assert "Set-Cookie" not in response.headers
        assert "same port at both ends" in await response.text()
        assert name not in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "null"},
        {"origin": None},
        {"cookie": None},
        {"cookie": "x"},
        {"path": "x"},
        {"host": "evil.example"},
    ],
)
async def test_a_foreign_websocket_starts_nothing(
    served: Served, changes: dict[str, str | None]
) -> None:
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with served.terminal(**changes):
            pass
    assert refused.value.status == 403
    assert set(psutil.Process().children(recursive=True)) == before


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_only_the_websocket_accepts_data(served: Served, method: str) -> None:
    response = await served.get(served.folder, cookie=served.access.cookie, method=method)
    assert response.status == 405


# --- what is served


async def test_no_response_is_cached(served: Served) -> None:
    for response in (
        await served.get("/"),
        await served.get(f"/?token={served.access.token}"),
        await served.inside(),
        await served.inside("static/page.mjs"),
        await served.get("/nothing"),
        await served.inside("terminal"),  # requested without an upgrade
    ):
        assert response.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert f"ws://{served.host}" in response.headers["Content-Security-Policy"]
        assert response.headers["X-Frame-Options"] == "DENY"


async def test_all_files_of_the_page_exist(served: Served) -> None:
    page = await (await served.inside()).text()
    for name in ("favicon.svg", "load.js", "page.css", "page.mjs", "xterm.css"):
        assert f'"static/{name}"' in page
        assert (await served.inside(f"static/{name}")).status == 200
    for name in ("xterm.mjs", "addon-fit.mjs", "addon-unicode11.mjs", "addon-webgl.mjs"):
        response = await served.inside(f"static/{name}")
        assert response.content_type == "text/javascript"
    assert (await served.inside("static/DejaVuSansMono.woff2")).content_type == "font/woff2"


@pytest.mark.parametrize(
    "name", ["", "index.html", "../server.py", "..%2fserver.py", "vendor/xterm.mjs", "README.md",
             "%2fetc%2fpasswd", "SHA256SUMS"],
)  # fmt: skip
async def test_no_other_file_is_served(served: Served, name: str) -> None:
    response = await served.inside(f"static/{name}")
    assert response.status in (403, 404)
    assert len(await response.read()) < 300


async def test_a_node_name_is_escaped() -> None:
    async with serving(title="<script>alert(1)</script>") as served:
        page = await (await served.inside()).text()
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in page


def test_the_page_loads_nothing_from_elsewhere() -> None:
    """Our files refer to no other host; third-party files are unmodified."""
    for name in ("index.html", "load.js", "page.css", "page.mjs"):
        text = page_files()[name][0].decode()
        assert not re.search(r"\w+:[\\/]*//|[\"'(]//", text), name
    lines = (STATIC / "vendor" / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    shipped = {path.name for path in (STATIC / "vendor").iterdir() if path.name in page_files()}
    assert shipped == set(sums)
    for name, digest in sums.items():
        content = (STATIC / "vendor" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, name


# --- each tab's program


async def test_bytes_flow_both_ways_and_closing_the_tab_ends_the_program(served: Served) -> None:
    async with served.terminal() as socket:
        await socket.send_json(SIZE)
        seen = await shown(socket, b".")
        pid = int(seen.split(b"up=")[1].split(b".")[0])
        await socket.send_bytes("h\u00e9llo \x1b[A".encode())
        assert "h\u00e9llo \x1b[A".encode() in await shown(socket, b"[A")
        assert psutil.pid_exists(pid)
    await until_no_tabs(served)
    assert not psutil.pid_exists(pid)


async def test_frames_without_a_mask_close_the_tab(served: Served, quick_farewell: None) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.pages.port)
    lines = [f"GET {served.folder}terminal HTTP/1.1", f"Host: {served.host}", "Upgrade: websocket"]
    lines += ["Connection: Upgrade", f"Cookie: {COOKIE}={served.access.cookie}"]
    lines += [f"Origin: http://{served.host}", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "", ""]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(120):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x82\x02no")
        assert (await reader.read()).endswith(b"\x88\x02\x03\xea")
    writer.close()
    await until_no_tabs(served)


async def test_a_disconnected_tab_ends_the_program(served: Served) -> None:
    """Without a close frame, as when the browser is killed."""
    async with served.terminal() as socket:
        await socket.send_json(SIZE)
        pid = int((await shown(socket, b".")).split(b"up=")[1].split(b".")[0])
        connection = socket.get_extra_info("socket")
        assert connection is not None
        connection.shutdown(SHUT_RDWR)
        await until_no_tabs(served)
    assert not psutil.pid_exists(pid)


async def test_sizes_reach_the_program() -> None:
    script = "trap 'stty size; echo end' WINCH; stty size; while :; do sleep 0.05; done"
    async with (
        serving(Program(owning("sh", "-c", script), ENVIRONMENT)) as served,
        served.terminal() as socket,
    ):
        await socket.send_json(SIZE)
        assert b"24 80" in await shown(socket, b"80")
        await socket.send_json({**SIZE, "columns": 133, "rows": 44})
        assert b"44 133" in await shown(socket, b"end")


async def test_the_page_gets_the_exit_status() -> None:
    program = Program(["sh", "-c", "echo last words; exit 3"], ENVIRONMENT)
    async with serving(program) as served, served.terminal() as socket:
        await socket.send_json(SIZE)
        seen = b""
        async with asyncio.timeout(120):
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    seen += message.data
                else:
                    notice = json.loads(message.data)
    assert b"last words" in seen
    assert notice["kind"] == "ended"
    assert "status 3" in notice["text"]


async def test_the_number_of_tabs_is_limited() -> None:
    async with serving(most_tabs=1) as served:
        async with served.terminal() as first:
            await first.send_json(SIZE)
            await shown(first, b".")
            async with served.terminal() as second:
                notice = await second.receive_json(timeout=120)
                assert notice["kind"] == "refused"
                assert (await second.receive(timeout=20)).type is WSMsgType.CLOSE
        await until_no_tabs(served)
        async with served.terminal() as third:
            await third.send_json(SIZE)
            await shown(third, b".")


@pytest.mark.parametrize("text", ["nonsense", '{"kind":"run"}', '{"kind":"taken","bytes":0}'])
async def test_an_invalid_first_message_starts_no_program(served: Served, text: str) -> None:
    before = set(psutil.Process().children(recursive=True))
    async with served.terminal() as socket:
        await socket.send_str(text)
        assert (await socket.receive(timeout=20)).type is WSMsgType.CLOSE
    assert set(psutil.Process().children(recursive=True)) == before


@pytest.mark.usefixtures("quick_farewell")
@pytest.mark.parametrize(
    "late", ["nonsense", "x" * (LONGEST_MESSAGE + 1)], ids=["nonsense", "long"]
)
async def test_invalid_and_long_messages_close_the_tab(served: Served, late: str) -> None:
    async with served.terminal() as socket:
        await socket.send_json(SIZE)
        pid = int((await shown(socket, b".")).split(b"up=")[1].split(b".")[0])
        await socket.send_str(late)
        await until_no_tabs(served)
    assert not psutil.pid_exists(pid)


async def test_a_page_that_acknowledges_nothing_gets_one_window() -> None:
    async with serving(Program(owning("yes"), ENVIRONMENT)) as served, served.terminal() as socket:
        await socket.send_json(SIZE)
        total = 0
        while total < WINDOW:
            total += len(await socket.receive_bytes(timeout=120))
        assert total <= WINDOW + CHUNK
        with pytest.raises(TimeoutError):
            await socket.receive_bytes(timeout=0.3)
        await socket.send_json({"kind": "taken", "bytes": total})
        assert await socket.receive_bytes(timeout=120)


async def test_a_long_paste_does_not_wait_for_later_messages(served: Served) -> None:
    """A page sends it completely before it acknowledges output."""
    content = bytes(65 + at % 26 for at in range(12 * WINDOW))
    async with served.terminal() as socket, asyncio.timeout(120), asyncio.TaskGroup() as group:
        await socket.send_json(SIZE)
        drawn = len(await shown(socket, b"."))
        words: asyncio.Queue[int | None] = asyncio.Queue()

        async def say() -> None:
            for at in range(0, len(content), LONGEST_MESSAGE // 4):
                await socket.send_bytes(content[at : at + LONGEST_MESSAGE // 4])
            while (total := await words.get()) is not None:
                await socket.send_json({"kind": "taken", "bytes": total})

        group.create_task(say())
        back = b""
        while len(back) < len(content):
            back += await socket.receive_bytes()
            words.put_nowait(drawn + len(back))
        words.put_nowait(None)
    assert back == content


@pytest.mark.usefixtures("quick_farewell")
async def test_excessive_input_closes_the_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MOST_TYPED", LONGEST_MESSAGE)
    deaf = Program(owning("sh", "-c", "stty raw -echo; echo up=$$.; exec sleep 60"), ENVIRONMENT)
    async with serving(deaf) as served, served.terminal() as socket, asyncio.timeout(120):
        await socket.send_json(SIZE)
        await shown(socket, b".")
        with contextlib.suppress(aiohttp.ClientConnectionResetError):
            for _ in range(8):
                await socket.send_bytes(bytes(LONGEST_MESSAGE // 4))
        await until_no_tabs(served)
        assert not served.pages.tabs


@pytest.mark.usefixtures("quick_farewell")
async def test_stopping_the_server_ends_every_program(served: Served) -> None:
    async with served.terminal() as one, served.terminal() as two:
        pids: list[int] = []
        for socket in (one, two):
            await socket.send_json(SIZE)
            pids.append(int((await shown(socket, b".")).split(b"up=")[1].split(b".")[0]))
        await served.runner.cleanup()
        assert not any(psutil.pid_exists(pid) for pid in pids)


async def test_a_missing_program_is_reported() -> None:
    program = Program(["/no/such/program"], ENVIRONMENT)
    async with serving(program) as served, served.terminal() as socket:
        await socket.send_json(SIZE)
        notice = await socket.receive_json(timeout=120)
    assert notice == {
        "kind": "refused", "text": "podtui cannot be started: No such file or directory",
    }  # fmt: skip
