"""`podtui web` in a headless Chromium: drawing, typing, pointing, and refused requests."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psutil
import pytest
from aiohttp import web
from chromium import Browser, Page
from tmux_harness import PODTUI, ROOT, Machine, wait_until

memory = pytest.mark.parametrize("machine", ["memory"], indirect=True)
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers:
  - {name: main, image: "busybox:1.36", command: [sleep, "3600"]}
"""
SCREEN = (
    '[...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent).join("\\n")'
)

# True if rows and columns end less than one cell from the window's right and lower edge.
FILLED = """((width, height) => {
  const rows = [...document.querySelectorAll(".xterm-rows > div")];
  const last = rows.at(-1).getBoundingClientRect();
  const cell = last.width / Math.max(...rows.map((row) => [...row.textContent].length));
  return last.right <= width && last.right > width - cell
    && last.bottom <= height && last.bottom > height - last.height;
})"""

# Elements with a scroll bar.
BARS = """[...document.querySelectorAll("body *")].filter((it) =>
  it.checkVisibility() && it.offsetWidth - it.clientWidth - 2 * it.clientLeft > 3
    && getComputedStyle(it).overflowY !== "visible")"""


class Server:
    """A running ``podtui web``."""

    def __init__(self, process: subprocess.Popen[str], link: str) -> None:
        self.process = process
        self.link = link
        self.base, _, self.token = link.partition("/?token=")

    def programs(self) -> list[psutil.Process]:
        """Return the podtui process of each tab and its session's processes, without the agent."""
        leaders = {child.pid for child in psutil.Process(self.process.pid).children()}
        return [it for it in psutil.process_iter() if _session(it.pid) in leaders]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


@contextmanager
def served(machine: Machine, *arguments: str) -> Iterator[Server]:
    process = subprocess.Popen(
        [*PODTUI, "web", "--port", "0", *arguments],
        env=machine.env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", link), link
        yield Server(process, link)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


@asynccontextmanager
async def visited(
    machine: Machine, folder: Path, *arguments: str
) -> AsyncIterator[tuple[Server, Browser, Page]]:
    with served(machine, *arguments) as server:
        async with Browser.run(folder) as browser, browser.page() as page:
            await page.open(server.link)
            yield server, browser, page


async def wait_for(page: Page, pattern: str, timeout: float = 60.0) -> str:
    """Wait until the page's terminal shows a text; return all its text."""
    shown = ""
    await page.call("Page.bringToFront")  # a page in the background is not drawn
    try:
        async with asyncio.timeout(timeout):
            while not re.search(pattern, shown, re.MULTILINE):
                await asyncio.sleep(0.1)
                shown = await page.evaluate(SCREEN)
    except TimeoutError:
        pytest.fail(f"not seen: {pattern!r}\n{shown}\n{page.messages}")
    return shown


async def page_message(page: Page, pattern: str) -> None:
    """Wait for the page's message below the terminal."""
    await page.until(
        f'!notice.hidden && new RegExp({pattern!r}).test(notice.textContent)'
    )  # fmt: skip


def cells(shown: str, word: str) -> tuple[int, int]:
    """Return row and column of a text."""
    for row, line in enumerate(shown.split("\n")):
        if word in line:
            return row, line.index(word)
    pytest.fail(f"no {word!r} in\n{shown}")


async def place(page: Page, shown: str, word: str) -> tuple[float, float, float]:
    """Return the middle of a text's first letter in the window, and the width of the text."""
    row, column = cells(shown, word)
    x, y, cell = await page.evaluate(
        '(() => { const box = document.querySelector(".xterm-rows").getBoundingClientRect();'
        ' const rows = document.querySelectorAll(".xterm-rows > div");'
        " const cell = box.width / Math.max(...[...rows].map((row) => row.textContent.length));"
        f" return [box.x + cell * ({column} + 0.5),"
        f" box.y + box.height * ({row} + 0.5) / rows.length, cell]; }})()"
    )
    return x, y, cell * len(word)


async def click(page: Page, shown: str, word: str) -> None:
    x, y, _ = await place(page, shown, word)
    await page.click(x, y)


async def drag(page: Page, shown: str, word: str, *, modifiers: int) -> None:
    x, y, width = await place(page, shown, word)
    await page.drag((x - 4, y), (x + width - 4, y), modifiers=modifiers)


def no_programs(server: Server) -> None:
    wait_until(lambda: not server.programs(), "no program of a tab is left")


@memory
async def test_the_screen_handles_drawing_typing_pointing_and_resizing(
    machine: Machine, tmp_path: Path
) -> None:
    for name in ("alpha", "omega"):
        machine.write(f"{name}.yaml", POD.replace("NAME", name))
    async with visited(machine, tmp_path) as (server, browser, page):
        shown = await wait_for(page, r"alpha-n1[\s\S]*omega-n1.*Running")
        # the page
        assert server.token not in await page.evaluate("location.href")
        assert await page.evaluate("document.title") == "podtui n1"
        assert await page.evaluate('document.fonts.check("15px \\"podtui mono\\"")')
        assert all(url.startswith((server.base, "ws" + server.base[4:])) for url in page.requested)
        assert any(url.endswith("favicon.svg") for url in page.requested)
        errors = [line for line in page.messages if re.match("error|exception", line)]
        # The network of a container that another test starts; the page loads itself again.
        assert not [line for line in errors if "ERR_NETWORK_CHANGED" not in line], page.messages
        # keys
        await page.type("?")
        await wait_for(page, "every key|search|Keys")
        await page.key("Escape", "Escape")
        await wait_for(page, r"omega-n1.*Running")
        # the mouse
        await click(page, shown, "omega-n1")
        await page.key("Enter", "Enter", text="\r")
        await wait_for(page, r"omega-n1[\s\S]*(Timeline|timeline)")
        await page.key("Escape", "Escape")
        await wait_for(page, r"alpha-n1.*Running")
        # sizes: nothing scrolls, nothing is cut off
        for width, height in ((760, 460), (1600, 1000)):
            await page.resize(width, height)
            await page.until(f"{FILLED}({width}, {height})")
            await wait_for(page, r"alpha-n1.*Running[\s\S]*Quit")
            assert await page.evaluate(
                "document.documentElement.scrollWidth <= innerWidth"
                " && document.documentElement.scrollHeight <= innerHeight"
            )
            assert await page.evaluate(f"{BARS}.length") == 0
        # the end of the tab
        assert server.programs()
        await browser.close(page)
        await asyncio.to_thread(no_programs, server)


@memory
async def test_quit_shows_a_message_and_enter_restarts(machine: Machine, tmp_path: Path) -> None:
    async with visited(machine, tmp_path) as (server, _browser, page):
        await wait_for(page, "agent connected")
        (first,) = {_session(it.pid) for it in server.programs()}
        await page.type("q")
        await page_message(page, "podtui has ended. Enter")
        await wait_for(page, r"The agent \(process \d+\) keeps running")
        assert await page.evaluate(f"{BARS}.length") == 0
        await asyncio.to_thread(no_programs, server)
        await page.key("Enter", "Enter", text="\r")
        await wait_for(page, "Quit")
        assert await page.evaluate("notice.hidden")
        assert first not in {it.pid for it in server.programs()}


@memory
async def test_an_editor_runs_in_the_page(machine: Machine, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        '#!/bin/sh\necho "EDITING $1"; stty size; read answer; echo "#$answer" >>"$1"'
    )
    editor.chmod(0o755)
    machine.env["EDITOR"] = str(editor)
    machine.write("alpha.yaml", POD.replace("NAME", "alpha"))
    async with visited(machine, tmp_path) as (_server, _browser, page):
        await wait_for(page, r"alpha-n1.*Running")
        await page.type("e")
        await wait_for(page, r"EDITING .*\n\d+ \d+")
        await page.type("done")
        await page.key("Enter", "Enter", text="\r")
        shown = await wait_for(page, r"alpha-n1")
        assert "EDITING" not in shown, "the screen is back"


@memory
async def test_the_clipboard_works_in_both_directions(machine: Machine, tmp_path: Path) -> None:
    machine.write("alpha.yaml", POD.replace("NAME", "alpha"))
    async with visited(machine, tmp_path) as (server, _browser, page):
        await page.call(
            "Browser.grantPermissions",
            origin=server.base,
            permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        )
        await wait_for(page, r"alpha-n1.*Running")
        await page.type("c")
        await page.until('navigator.clipboard.readText().then((text) => text.includes("alpha"))')
        await page.evaluate('navigator.clipboard.writeText("pasted-\\u00e9")')
        await page.type("/")
        await wait_for(page, "!regex")
        await page.key("v", "KeyV", modifiers=2, command="paste")
        shown = await wait_for(page, "pasted-é")
        # Text selected by shift and mouse is copied too, and podtui does not get that ctrl+c.
        await page.key("Escape", "Escape")
        await drag(page, shown, "SIMULATED", modifiers=8)
        await page.key("c", "KeyC", modifiers=2)
        await page.until("navigator.clipboard.readText().then((text) => /^SIMULATE/.test(text))")
        assert "SIMULATED" in await wait_for(page, "Quit"), "podtui did not get ctrl+c"


@memory
async def test_a_request_without_a_token_is_refused_and_starts_nothing(
    machine: Machine, tmp_path: Path
) -> None:
    async with visited(machine, tmp_path) as (server, browser, page):
        await wait_for(page, "Quit")
        inside = await page.evaluate("location.pathname")
        before = {it.pid for it in server.programs()}
        async with browser.page() as other:
            for link in ("/", f"/?token={'x' * 43}", "/x/"):
                await other.open(server.base + link)
                await other.until(
                    'document.body.textContent.includes("Open this page with the link")'
                )
        # Another server on this machine has the same host name, so a browser treats both as one
        # site. The server even knows our path, and the visitor's browser has our cookie.
        cookies: list[str] = []

        async def foreign_page(request: web.Request) -> web.Response:
            cookies.append(request.headers.get("Cookie", ""))
            return web.Response(text="<p>evil</p>", content_type="text/html")

        application = web.Application()
        application.router.add_get("/", foreign_page)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            async with browser.page() as other:
                await other.open(f"http://127.0.0.1:{runner.addresses[0][1]}/")
                await other.until('document.body?.textContent === "evil"')
                address = f"ws{server.base[4:]}{inside}terminal"
                how = await other.evaluate(
                    f"new Promise((tell) => {{ const it = new WebSocket({address!r});"
                    ' it.onopen = () => tell("open"); it.onclose = () => tell("closed"); })'
                )
                assert how == "closed"
        finally:
            await runner.cleanup()
        assert set(cookies) == {""}, "our cookie was sent to another server"
        assert {it.pid for it in server.programs()} == before


@memory
async def test_a_link_from_another_program_opens(machine: Machine, tmp_path: Path) -> None:
    """As --open does it: with a file, so that no command line contains the token."""
    with served(machine) as server:
        file = tmp_path / "open.html"
        file.write_text(f'<meta http-equiv="refresh" content="0; url={server.link}">')
        async with Browser.run(tmp_path) as browser, browser.page() as page:
            await page.open(file.as_uri())
            await wait_for(page, "Quit")
            assert await page.evaluate("location.search") == ""


@memory
async def test_an_interrupt_ends_server_and_programs(machine: Machine, tmp_path: Path) -> None:
    async with visited(machine, tmp_path) as (server, browser, page), browser.page() as second:
        await second.open(server.link)
        for tab in (page, second):
            await wait_for(tab, "Quit")
        link_file = machine.root / "web.url"
        assert link_file.read_text().strip() == server.link
        assert link_file.stat().st_mode & 0o777 == 0o600
        programs = server.programs()
        assert len({_session(it.pid) for it in programs}) == 2
        server.process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(server.process.wait, 120) == 0
        assert not [it for it in programs if it.is_running()]
        assert not link_file.exists()
        for tab in (page, second):
            await page_message(tab, "connection is lost")


@memory
async def test_a_page_that_was_not_loaded_completely_loads_again(
    machine: Machine, tmp_path: Path
) -> None:
    with served(machine) as server:
        async with Browser.run(tmp_path) as browser, browser.page() as page:
            for part in ("page.css", "page.mjs", "addon-webgl.mjs"):
                await page.call("Network.setBlockedURLs", urls=[f"*/{part}"])
                await page.open(server.link)
                page.requested.clear()
                async with asyncio.timeout(60):
                    while sum(url.endswith(part) for url in page.requested) < 2:
                        await page.evaluate("1")
                await page.call("Network.setBlockedURLs", urls=[])
                await wait_for(page, "Quit")
                loaded = "[...document.styleSheets].some((it) => /page.css$/.test(it.href))"
                await page.until(loaded)


@memory
async def test_programs_end_when_the_server_is_killed(machine: Machine, tmp_path: Path) -> None:
    async with visited(machine, tmp_path) as (server, _browser, page):
        await wait_for(page, "Quit")
        programs = server.programs()
        server.process.kill()
        await asyncio.to_thread(
            wait_until, lambda: not [it for it in programs if it.is_running()], "they are hung up"
        )
        assert not [it for it in programs if it.is_running()]


@memory
def test_reports_why_it_cannot_serve(machine: Machine) -> None:
    with served(machine) as server:
        port = server.base.rpartition(":")[2]
        taken = machine.run("web", "--port", port)
        assert taken.returncode == 1
        assert f"port {port} is in use by process {server.process.pid}" in taken.stderr
        assert "--port" in taken.stderr
    refused = machine.run("web", "--host", "0.0.0.0")
    assert refused.returncode == 2
    assert "ssh -L" in refused.stderr
    assert "Traceback" not in taken.stderr + refused.stderr
