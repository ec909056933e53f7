"""Container files as tar archives, also for containers without ``tar`` and stopped ones."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from podtui.api.names import GROUP_VERSION
from podtui.errors import EngineError
from podtui.server.protocol import SessionEndpoints
from podtui.server.status import bad_request, entered, refusals, success
from podtui.server.transport.sockets import Sockets
from podtui.server.transport.streams import closed_after

log = logging.getLogger(__name__)

ARCHIVE: Final = "application/x-tar"
_PIECE: Final = 64 * 1024


class FileRoutes:
    """``path`` is absolute; ``container`` is optional for pods with a single container."""

    def __init__(self, pods: SessionEndpoints, sockets: Sockets) -> None:
        self._pods = pods
        self._sockets = sockets

    def routes(self) -> list[web.RouteDef]:
        path = f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/pods/{{pod}}/files"
        return [web.get(path, self.read), web.put(path, self.write)]

    async def read(self, request: web.Request) -> web.StreamResponse:
        with refusals():
            pod = self._pods.find(request.match_info["namespace"], request.match_info["pod"])
        opened = self._pods.read_files(pod, request.query.get("container", ""), _path(request))
        async with self._sockets.counted(request), entered(opened) as content:
            response = web.StreamResponse(headers={"Content-Type": ARCHIVE})
            await response.prepare(request)
            try:
                async with closed_after(content) as pieces:
                    async for piece in pieces:
                        await response.write(piece)
                await response.write_eof()
            except ConnectionError:
                log.debug("the client of %s left", request.path)
            except EngineError as error:
                log.warning("%s broke off: %s", request.path, error)
                if request.transport is not None:
                    request.transport.abort()
        return response

    async def write(self, request: web.Request) -> web.StreamResponse:
        with refusals():
            pod = self._pods.find(request.match_info["namespace"], request.match_info["pod"])
            async with self._sockets.counted(request):
                await self._pods.write_files(
                    pod, request.query.get("container", ""), _path(request), _chunks(request)
                )
        return success()


async def _chunks(request: web.Request) -> AsyncIterator[bytes]:
    while piece := await request.content.read(_PIECE):
        yield piece


def _path(request: web.Request) -> str:
    path = request.query.get("path", "")
    if not path.startswith("/") or "\0" in path:
        raise bad_request(f"path must be absolute: {path!r}")
    return path
