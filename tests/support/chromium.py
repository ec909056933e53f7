"""A headless Chromium controlled by its DevTools protocol: opens pages, types, points, takes
pictures."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--disable-3d-apis", "--remote-debugging-port=0",
)  # fmt: skip
INSTALL_SECONDS: Final = 420
CALL_SECONDS: Final = 30.0


def find_chromium() -> str:
    """Return Chromium's path. Install it with apt if it is missing and permitted, else fail the
    test.
    """
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        # Several workers may find at the same time that it is missing.
        with (Path(tempfile.gettempdir()) / "podtui-test-apt.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
                subprocess.run(
                    ["apt-get", "-qq", *words], env=environment, timeout=INSTALL_SECONDS,
                    check=False, capture_output=True, stdin=subprocess.DEVNULL,
                )  # fmt: skip
        found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail("chromium is not installed: these tests drive the page in it")
    return found


class Page:
    """One tab. ``messages`` are the console messages and errors of the page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, target: str) -> None:
        self._socket = socket
        self._number = 0
        self.target = target
        self.messages: list[str] = []
        self.requested: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command of the protocol; fail the test on an error."""
        self._number += 1
        number = self._number
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(CALL_SECONDS):
            while True:
                message = await self._socket.receive_json()
                if message.get("id") == number:
                    if "error" in message:
                        pytest.fail(f"{method}: {message['error']}")
                    return message["result"]
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.consoleAPICalled":
                words = [str(it.get("value", it.get("description"))) for it in parameters["args"]]
                self.messages.append(f"{parameters['type']}: {' '.join(words)}")
            case "Runtime.exceptionThrown":
                self.messages.append(f"exception: {parameters['exceptionDetails']}")
            case "Log.entryAdded":
                entry = parameters["entry"]
                self.messages.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}")
            case "Network.requestWillBeSent":
                self.requested.append(parameters["request"]["url"])
            case "Network.webSocketCreated":
                self.requested.append(parameters["url"])
            case _:
                pass

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        """Return the value of an expression; promises are awaited."""
        result = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            pytest.fail(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    async def until(self, script: str, timeout: float = 120.0) -> Any:
        """Wait until an expression is true; return its value."""
        deadline = time.monotonic() + timeout
        while not (value := await self.evaluate(script)):
            if time.monotonic() > deadline:
                pytest.fail(f"not within {timeout:.0f} s: {script}\n{self.messages}")
            await asyncio.sleep(0.1)
        return value

    async def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=False,
        )  # fmt: skip

    async def key(
        self, key: str, code: str = "", *, text: str = "", modifiers: int = 0, command: str = ""
    ) -> None:
        """Press and release; ``modifiers`` 2 is control, 8 is shift. ``command`` is the
        desktop's action for the key unless the page prevents it, such as ``paste``.
        """
        number = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38}.get(
            key, ord(key.upper()) if len(key) == 1 else 0
        )
        same = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        typed: dict[str, Any] = {"text": text, "unmodifiedText": text} if text else {}
        typed |= {"commands": [command]} if command else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **same, **typed)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **same)

    async def type(self, text: str) -> None:
        for sign in text:
            await self.key(sign, text=sign)

    async def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    async def drag(
        self, start: tuple[float, float], end: tuple[float, float], *, modifiers: int = 0
    ) -> None:
        """Drag with the left button; ``modifiers`` as in `key`."""
        for kind, (x, y), buttons in (
            ("mousePressed", start, 1),
            ("mouseMoved", end, 1),
            ("mouseReleased", end, 0),
        ):
            await self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=buttons,
                clickCount=1, modifiers=modifiers,
            )  # fmt: skip

    async def picture(self, path: Path) -> Path:
        data = (await self.call("Page.captureScreenshot", format="png"))["data"]
        await asyncio.to_thread(path.write_bytes, base64.b64decode(data))
        return path


class Browser:
    """A Chromium with a new profile; `run` starts it and ends it."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._base = f"http://127.0.0.1:{port}"

    @classmethod
    @contextlib.asynccontextmanager
    async def run(
        cls, folder: Path, width: int = 1280, height: int = 800
    ) -> AsyncIterator[Browser]:
        program = await asyncio.to_thread(find_chromium)
        profile = folder / "profile"
        with (folder / "chromium.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                program, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}",
                "about:blank",
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "HOME": str(folder)},
            )  # fmt: skip
        try:
            port = await _port(profile / "DevToolsActivePort", folder / "chromium.log")
            async with aiohttp.ClientSession() as session:
                yield cls(session, port)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        """Open a tab, and close it at the end."""
        async with self._session.put(f"{self._base}/json/new?about:blank") as response:
            target = await response.json(content_type=None)
        async with self._session.ws_connect(
            target["webSocketDebuggerUrl"], max_msg_size=0
        ) as socket:
            page = Page(socket, target["id"])
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.call(f"{domain}.enable")
            yield page
        await self.close(page)

    async def close(self, page: Page) -> None:
        async with self._session.get(f"{self._base}/json/close/{page.target}") as response:
            await response.read()


async def _port(file: Path, log: Path) -> int:
    deadline = time.monotonic() + 60
    while True:
        lines = _text(file).splitlines()
        if lines:
            return int(lines[0])
        if time.monotonic() > deadline:
            pytest.fail(f"Chromium does not start:\n{_text(log)[-3000:]}")
        await asyncio.sleep(0.1)


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
