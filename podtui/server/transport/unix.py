"""Serve on a unix socket that is created atomically and only accessible to its owner."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError

from podtui.errors import PodtuiError
from podtui.http.server import prepare_requests
from podtui.server.transport.websocket_headers import token_as_authorization

SHUTDOWN_SECONDS = 2.0
"""How long running requests may take to finish after the streams have ended."""
BACKLOG: Final = 128
_LONGEST_PATH = 107
CONNECTION_LIMITS: Final[dict[str, Any]] = {
    # A connection without a complete request head is closed after this time.
    "keepalive_timeout": 30.0,
    # How long to discard the rest of a body that was refused.
    "lingering_time": 2.0,
    # The command of an exec is part of the request line.
    "max_line_size": 128 * 1024,
    "max_field_size": 8 * 1024,
    "max_headers": 64,
    # Compressed bodies could be much larger than they say; no client sends them.
    "auto_decompress": False,
}
_protocol_log = logging.getLogger(f"{__name__}.protocol")


def _is_loggable(record: logging.LogRecord) -> bool:
    """Return False for a malformed request: the record would quote it, credentials included. Its
    client gets the reason with status 400."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


_protocol_log.addFilter(_is_loggable)
SERVER_OPTIONS: Final[dict[str, Any]] = {
    "handler_cancellation": True,
    "access_log": None,
    "logger": _protocol_log,
    **CONNECTION_LIMITS,
}
"""Arguments of `aiohttp.web.AppRunner` and `aiohttp.web.Server`."""


@asynccontextmanager
async def serve_unix(app: web.Application, path: Path | str) -> AsyncGenerator[web.AppRunner]:
    """Serve while the context lasts; yields the runner, for further sites of the same app.

    The socket has mode 0600 from the start, and a stale socket is replaced. Raises `PodtuiError` if
    another server listens, or if the path is not usable for a socket.
    """
    path = Path(path)
    listener = await asyncio.to_thread(bind, path)
    inode = os.stat(path).st_ino
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS, **SERVER_OPTIONS)
    try:
        await runner.setup()
        prepare_requests(runner, token_as_authorization)
        # asyncio repeats a failed accept as often as the backlog says before it waits a second.
        await web.SockSite(runner, listener, backlog=1).start()
        listener.listen(BACKLOG)
        yield runner
    finally:
        with suppress(FileNotFoundError):
            if os.stat(path).st_ino == inode:
                os.unlink(path)
        await runner.cleanup()
        listener.close()


def is_local(request: web.BaseRequest) -> bool:
    """Return whether the request arrived on the unix socket; False if its client has left."""
    sock = connected_socket(request)
    return sock is not None and sock.family == socket.AF_UNIX


def connected_socket(request: web.BaseRequest) -> socket.socket | None:
    """Return the socket of a request; None once its connection is closed."""
    transport = request.transport
    # A TLS transport that is closed fails when it is asked for its socket.
    if transport is None or transport.is_closing():
        return None
    return request.get_extra_info("socket")


def bind(path: Path) -> socket.socket:
    """Return a listening socket at ``path``. Blocks while it tries to connect to a stale one."""
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise PodtuiError(
            f"cannot listen on {path}: the path of a socket must have at most {_LONGEST_PATH}"
            " bytes; choose a shorter root directory"
        )
    try:
        _refuse_taken(path)
        # Bind in a private directory, then rename, so that the mode is never wider.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as private:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                first = f"{private}/s"
                listener.bind(first)
                os.chmod(first, 0o600)
                listener.listen(BACKLOG)
                listener.setblocking(False)
                os.rename(first, path)
            except BaseException:
                listener.close()
                raise
        return listener
    except OSError as error:
        raise PodtuiError(f"cannot listen on {path}: {error}") from error


def _refuse_taken(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise PodtuiError(f"{path} exists, but is not a socket")
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except TimeoutError:
            pass
    raise PodtuiError(f"another server is already listening on {path}")
