"""``podtui web``: listen, print the link, and clean up on exit."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import html
import os
import signal
import sys
import webbrowser
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import psutil
from aiohttp import web

from podtui.errors import PodtuiError
from podtui.http.server import prepare_requests
from podtui.web.access import WebAccess, authority
from podtui.web.server import PageServer
from podtui.web.session import Program
from podtui.web.terminal import terminal_environment

STOP_SECONDS: Final = 15.0
OPEN_SECONDS: Final = 10.0
LINK_FILE: Final = "web.url"
OPEN_FILE: Final = "web-open.html"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BACKLOG: Final = 16


class WebFailed(PodtuiError):
    """Raised if the page cannot be served; the message has the reason and the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOptions:
    """``host`` is a loopback address; ``port`` 0 selects a free one. ``folder`` is the root
    directory. ``arguments`` are those of each tab's ``podtui``."""

    host: str
    port: int
    folder: Path
    arguments: Sequence[str]
    title: str = "podtui"
    readonly: bool = False
    open_browser: bool = False


def run_web(options: WebOptions, print_line: Callable[[str], None]) -> None:
    """Serve until an interrupt, a hang-up or SIGTERM. Raises `WebFailed`."""
    asyncio.run(serve(options, print_line, os.environ))


def child_words(arguments: Sequence[str]) -> list[str]:
    """Return the command line of one tab's program. ``-P`` prevents imports from the working
    directory."""
    return [sys.executable, "-P", "-m", "podtui.web.child", *arguments]


async def serve(
    options: WebOptions, print_line: Callable[[str], None], environ: Mapping[str, str]
) -> None:
    """Like `run_web`, in a running event loop. Raises `WebFailed`."""
    access = WebAccess()
    program = Program(
        child_words(options.arguments),
        terminal_environment(environ, readonly=options.readonly),
    )
    pages = PageServer(access, program, title=options.title)
    runner = web.AppRunner(
        pages.application(), access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS
    )
    await runner.setup()
    prepare_requests(runner)
    try:
        pages.port = await _listen(runner, options)
        link = f"http://{authority(options.host, pages.port)}/?token={access.token}"
        with _stopped() as stopped, _kept(options.folder / LINK_FILE, link + "\n"):
            print_line(link)
            print_line("Anyone with this link can do what you can. Ctrl-C stops it.")
            with contextlib.ExitStack() as kept:
                if options.open_browser:
                    print_line(await _open(kept, options.folder / OPEN_FILE, link, environ))
                await stopped.wait()
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, options: WebOptions) -> int:
    """Start listening, and return the port. Raises `WebFailed`."""
    site = web.TCPSite(runner, options.host, options.port, backlog=_BACKLOG, reuse_port=False)
    try:
        await site.start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            user = await asyncio.to_thread(listener, options.port)
            raise WebFailed(
                f"port {options.port} is in use by {user}; choose another with --port (0: any free)"
            ) from error
        raise WebFailed(
            f"cannot listen on {authority(options.host, options.port)}: {error.strerror}"
        ) from error
    return int(runner.addresses[0][1])


def listener(port: int) -> str:
    """Describe the process that listens on a port of this machine, as far as visible to this
    user."""
    try:
        for connection in psutil.net_connections("tcp"):
            address = cast("tuple[str, int]", connection.laddr)
            if connection.status == psutil.CONN_LISTEN and address[1] == port:
                if connection.pid is None:
                    break
                name = psutil.Process(connection.pid).name()
                shown = "".join(sign for sign in name if sign.isprintable())
                return f"process {connection.pid} ({shown})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        pass
    return "another process (visible only to its owner)"


@contextlib.contextmanager
def _stopped() -> Generator[asyncio.Event]:
    """Return an event that is set by a signal, for the duration of the block."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _kept(path: Path, text: str) -> Generator[None]:
    """Keep a file readable only by its owner for the duration of the block. Raises `WebFailed`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
    except OSError as error:
        raise WebFailed(f"cannot write {path}: {error.strerror}") from error
    try:
        yield
    finally:
        # Another server with the same root directory may have replaced the file meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if path.read_text() == text:
                path.unlink()


async def _open(
    kept: contextlib.ExitStack, path: Path, link: str, environ: Mapping[str, str]
) -> str:
    """Open the user's browser, and return a message for the user.

    The browser opens a file with a redirect: all users can see the arguments of a command line, so
    they must not contain the link.
    """
    shows = any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if sys.platform == "linux" and not shows:
        return "No desktop session to open a browser in; open the link yourself."
    target = html.escape(link, quote=True)
    kept.enter_context(
        _kept(path, f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">\n')
    )
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            opened = await asyncio.to_thread(webbrowser.open, path.as_uri())
    except (TimeoutError, webbrowser.Error):
        opened = False
    return "A browser was opened." if opened else "No browser could be opened; use the link."
