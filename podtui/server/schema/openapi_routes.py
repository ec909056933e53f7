"""``/openapi/v2`` and ``/openapi/v3``.

The documents are built at the first request, and kept compressed.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from aiohttp import web

from podtui.server.encoding.media_types import accepted
from podtui.server.schema import openapi, openapi_v2
from podtui.server.status import StatusError, json_response

_INDEX = "/openapi/v3"
_JSON = "application/json"
_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_TYPES = {
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _V2_PROTOBUF,
    _V2_PROTOBUF: _V2_PROTOBUF,
    _JSON: _JSON,
}
_YEAR = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class _Stored:
    """``digest`` names the content, so that clients can keep a document."""

    packed: bytes
    digest: str


def _store(body: bytes) -> _Stored:
    return _Stored(gzip.compress(body, 6), hashlib.sha512(body).hexdigest().upper())


class OpenApiRoutes:
    def __init__(self, version: str) -> None:
        self._version = version
        self._lock = asyncio.Lock()
        self._v3: Mapping[str, _Stored] = {}
        self._v2: Mapping[str, _Stored] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/openapi/v2", self.version_2),
            web.get(_INDEX, self.index),
            web.get(_INDEX + "/{path:.+}", self.document),
        ]

    async def index(self, request: web.Request) -> web.Response:
        documents = await self._documents()
        paths = {
            path: {"serverRelativeURL": f"{_INDEX}/{path}?hash={stored.digest}"}
            for path, stored in documents.items()
        }
        return json_response(msgspec.json.encode({"paths": paths}))

    async def document(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        stored = (await self._documents()).get(path)
        if stored is None:
            raise StatusError(404, "the server could not find the requested resource")
        requested = request.query.get("hash")
        if requested is not None and requested != stored.digest:
            location = f"{_INDEX}/{path}?hash={stored.digest}"
            return web.Response(status=301, headers={"Location": location})
        return _answer(request, stored, _JSON, kept=requested is not None)

    async def version_2(self, request: web.Request) -> web.StreamResponse:
        await self._documents()
        async with self._lock:
            if not self._v2:
                self._v2 = await asyncio.to_thread(self._make_v2)
        kinds = (kind for kind, _ in accepted(request.headers.get("Accept", "")))
        kind = next((_V2_TYPES[name] for name in kinds if name in _V2_TYPES), _JSON)
        return _answer(request, self._v2[kind], kind)

    async def _documents(self) -> Mapping[str, _Stored]:
        async with self._lock:
            if not self._v3:
                self._v3 = await asyncio.to_thread(self._make_v3)
        return self._v3

    def _make_v3(self) -> dict[str, _Stored]:
        return {
            path: _store(msgspec.json.encode(document))
            for path, document in openapi.documents(self._version).items()
        }

    def _make_v2(self) -> dict[str, _Stored]:
        combined = openapi_v2.combined(openapi.documents(self._version).values())
        return {
            _JSON: _store(msgspec.json.encode(combined)),
            _V2_PROTOBUF: _store(openapi_v2.encode(combined)),
        }


def _answer(
    request: web.Request, stored: _Stored, kind: str, *, kept: bool = False
) -> web.StreamResponse:
    """Return a document, or 304 if the client has it. ``kept`` marks one whose address has its
    digest, so that it never changes."""
    headers = {
        "ETag": f'"{stored.digest}"',
        "Vary": "Accept, Accept-Encoding",
        "Cache-Control": f"private, immutable, max-age={_YEAR}" if kept else "private, no-cache",
    }
    if headers["ETag"] in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    body = stored.packed
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
    else:
        body = gzip.decompress(body)
    return web.Response(body=body, headers={**headers, "Content-Type": kind})
