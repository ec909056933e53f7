"""Serve the page and its WebSockets over HTTP. `podtui.web.access` must permit each request."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from podtui.http.server import require_masked_frames
from podtui.web.access import WebAccess, is_our_host, is_our_origin, safety_headers
from podtui.web.session import LONGEST_MESSAGE, Program, StartRefused, encode, run_session

MOST_TABS: Final = 8
"""Each tab is a separate process of about 100 MB."""
HEARTBEAT_SECONDS: Final = 15.0
CLOSE_SECONDS: Final = 2.0
COOKIE: Final = "podtui"
STATIC: Final = Path(__file__).parent / "static"
_KINDS: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_CLOSED: Final = (
    "Open this page with the link that 'podtui web' printed. The link is valid until that command"
    " ends; links of earlier runs are invalid."
)
# The browser does not send the cookie if another site or file led to the link, because it is
# SameSite=Strict. This page reloads itself, and then the request comes from our own page.
_AGAIN: Final = (
    '<!doctype html><meta charset="utf-8"><title>podtui</title>'
    '<meta http-equiv="refresh" content="0; url=./?again=1">'
)


def page_files(folder: Path = STATIC) -> Mapping[str, tuple[bytes, str]]:
    """Return the page's files by name, with their content types. No other file is ever served."""
    return {
        path.name: (path.read_bytes(), _KINDS[path.suffix])
        for path in sorted(folder.rglob("*"))
        if path.suffix in _KINDS
    }


class PageServer:
    """Serves one page to everyone with the token, and runs one program for each tab.

    ``port`` is the port required in requests; set it as soon as it is known.
    """

    def __init__(
        self,
        access: WebAccess,
        program: Program,
        *,
        title: str = "podtui",
        most_tabs: int = MOST_TABS,
    ) -> None:
        self.port = 0
        self._access = access
        self._program = program
        self._most_tabs = most_tabs
        self._tabs: set[web.WebSocketResponse] = set()
        self._stop = asyncio.Event()
        self._files = dict(page_files())
        index, kind = self._files.pop("index.html")
        title = f"<title>{html.escape(title)}</title>"
        self._index = (index.replace(b"<title>podtui</title>", title.encode()), kind)

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._guard])
        application.router.add_get("/", self._enter)
        application.router.add_get("/{path}/", self._page)
        application.router.add_get("/{path}/static/{name}", self._file)
        application.router.add_get("/{path}/terminal", self._terminal, allow_head=False)
        application.on_response_prepare.append(self._add_headers)
        application.on_shutdown.append(self._close)
        return application

    @property
    def tabs(self) -> int:
        """The number of open tabs."""
        return len(self._tabs)

    # --- access control

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not is_our_host(request.headers.get("Host"), self.port):
            return _refusal(
                f"Open 127.0.0.1:{self.port} or localhost:{self.port}. Through 'ssh -L', use the"
                " same port at both ends."
            )
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _refusal(_CLOSED if error.status == 404 else error.reason, error.status)

    def _is_in(self, request: web.Request) -> bool:
        # Evaluate both, so that the response time does not depend on the first.
        path = self._access.is_path(request.match_info["path"])
        cookie = self._access.is_cookie(request.cookies.get(COOKIE, ""))
        return path and cookie

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        """Exchange the token for a cookie, and redirect to remove it from the address bar."""
        if not self._access.is_token(request.query.get("token", "")):
            return _refusal(_CLOSED)
        folder = f"/{self._access.path}/"
        response = web.Response(status=303, headers={"Location": folder})
        response.set_cookie(
            COOKIE, self._access.cookie, path=folder, httponly=True, samesite="Strict"
        )
        return response

    # --- the page

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if self._is_in(request):
            if request.query_string:
                return web.Response(status=303, headers={"Location": request.path})
            return _answer(*self._index)
        if self._access.is_path(request.match_info["path"]) and not request.query_string:
            return _answer(_AGAIN.encode(), "text/html", 403)
        return _refusal(_CLOSED)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file = self._files.get(request.match_info["name"])
        if not self._is_in(request) or file is None:
            return _refusal(_CLOSED)
        return _answer(*file)

    async def _terminal(self, request: web.Request) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if not self._is_in(request) or not is_our_origin(origin, request.headers["Host"]):
            return _refusal(_CLOSED)
        socket = web.WebSocketResponse(
            heartbeat=HEARTBEAT_SECONDS, timeout=CLOSE_SECONDS, max_msg_size=LONGEST_MESSAGE,
            compress=False,
        )  # fmt: skip
        require_masked_frames(request)
        await socket.prepare(request)
        if self._stop.is_set():
            return socket
        if len(self._tabs) >= self._most_tabs:
            text = f"{self._most_tabs} tabs are already open; close one, then press Enter."
            await socket.send_str(encode(StartRefused(text)))
            await socket.close()
            return socket
        self._tabs.add(socket)
        try:
            await run_session(socket, self._program, self._stop)
            await socket.close()
        finally:
            self._tabs.discard(socket)
        return socket

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        host = request.headers.get("Host", "")
        own_host = host if is_our_host(host, self.port) else ""
        response.headers.update(safety_headers(own_host))

    async def _close(self, application: web.Application) -> None:
        """Stop every tab's program, which closes the tabs."""
        self._stop.set()


def _answer(body: bytes, kind: str, status: int = 200) -> web.Response:
    charset = "utf-8" if kind.startswith("text/") else None
    return web.Response(status=status, body=body, content_type=kind, charset=charset)


def _refusal(text: str, status: int = 403) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")
