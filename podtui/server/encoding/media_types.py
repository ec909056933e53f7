"""The media types of responses: what a client accepts, and responses in YAML.

Handlers respond in JSON. A middleware converts the response for a client that prefers YAML, another
one compresses large responses.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

import msgspec
from aiohttp import web

from podtui.api.v1 import StatusDetails
from podtui.manifest.yaml_writer import write_yaml
from podtui.server.encoding.bodies import YAML
from podtui.server.status import Handler, JsonResponse, StatusError

TABLE: Final = "Table"
PARTIAL: Final = "PartialObjectMetadata"
PARTIAL_LIST: Final = "PartialObjectMetadataList"
_SERVED: Final = frozenset({"application/json", YAML, "application/*", "*/*"})
_SHAPES: Final = frozenset(
    {
        *(
            (shape, "meta.k8s.io", version)
            for shape in (TABLE, PARTIAL, PARTIAL_LIST)
            for version in ("v1", "v1beta1")
        ),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1"),
    }
)
_NOT_ACCEPTABLE: Final = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml,"
    " application/json;stream=watch"
)
MIN_COMPRESSED_BYTES: Final = 128 * 1024
"""Smaller responses are not compressed."""
_COMPRESSION_LEVEL: Final = 1
_SMALL_BODY: Final = 4096
"""Up to this many bytes are converted without a thread."""
_LOWEST: Final = 0.001
_MAX_CACHED_HEADERS: Final = 128
_QUALITY: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


@dataclass(frozen=True, slots=True)
class MediaType:
    """``shape`` is the ``as`` parameter: ``Table``, ``PartialObjectMetadata``,
    ``PartialObjectMetadataList``, ``APIGroupDiscoveryList`` or empty."""

    shape: str = ""
    version: str = ""
    is_yaml: bool = False


def negotiate(header: str, *shapes: str) -> MediaType:
    """Return the preferred media type that can be served: a plain one, or one of ``shapes``.

    Raises `StatusError` 406 if there is none.
    """
    for kind, parameters in accepted(header):
        if kind not in _SERVED:
            continue
        shape = parameters.get("as", "")
        if not shape:
            return MediaType(is_yaml=kind == YAML)
        version = parameters.get("v", "")
        if shape in shapes and (shape, parameters.get("g", ""), version) in _SHAPES:
            return MediaType(shape, version, is_yaml=kind == YAML)
    raise StatusError(406, _NOT_ACCEPTABLE, details=StatusDetails())


def without_table(handler: Handler) -> Handler:
    """Return a handler of objects that are requests, which have no Tables. It raises `StatusError`
    406 before the request has an effect."""

    async def negotiated(request: web.Request) -> web.StreamResponse:
        negotiate(request.headers.get("Accept", ""))
        return await handler(request)

    return negotiated


@lru_cache(maxsize=_MAX_CACHED_HEADERS)
def accepted(header: str) -> tuple[tuple[str, Mapping[str, str]], ...]:
    """Return the media ranges of an ``Accept`` header with their parameters, preferred ones first.

    The order is that of the API server: by quality value, then specific ranges before those with a
    wildcard, then as they are written. A quality of 0 excludes a range (RFC 9110 section 12.4.2).
    """
    ranges: list[tuple[float, str, dict[str, str]]] = []
    for item in (header or "*/*").split(","):
        kind, *rest = item.split(";")
        pairs = (part.partition("=") for part in rest)
        parameters = {key.strip().lower(): value.strip() for key, _, value in pairs}
        quality = _quality(parameters.pop("q", "1"))
        if quality:
            ranges.append((quality, kind.strip().lower(), parameters))
    ranges.sort(key=lambda entry: (-entry[0], entry[1].startswith("*"), entry[1].endswith("*")))
    return tuple((kind, parameters) for _, kind, parameters in ranges)


def _quality(text: str) -> float:
    """Return a quality value; the lowest one if it is not valid."""
    return float(text) if _QUALITY.fullmatch(text) else _LOWEST


@web.middleware
async def yaml_responses(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Convert JSON responses, errors included, for a client that prefers YAML."""
    response = await handler(request)
    header = request.headers.get("Accept", "")
    if not isinstance(response, JsonResponse) or not _prefers_yaml(header):
        return response
    body = cast("bytes", response.body)
    text = (
        _converted(body) if len(body) < _SMALL_BODY else await asyncio.to_thread(_converted, body)
    )
    response.body = text
    response.content_type = YAML
    return response


@web.middleware
async def compressed_responses(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Compress large documents for a client that accepts ``gzip``, as the API server does."""
    response = await handler(request)
    if not isinstance(response, JsonResponse):
        return response
    body = cast("bytes", response.body)
    header = request.headers.get("Accept-Encoding", "")
    if len(body) > MIN_COMPRESSED_BYTES and "gzip" in map(str.strip, header.split(",")):
        response.body = await asyncio.to_thread(gzip.compress, body, _COMPRESSION_LEVEL)
        response.headers["Content-Encoding"] = "gzip"
        response.headers.add("Vary", "Accept-Encoding")
    return response


def _prefers_yaml(header: str) -> bool:
    return next((kind == YAML for kind, _ in accepted(header) if kind in _SERVED), False)


def _converted(body: bytes) -> bytes:
    return write_yaml(msgspec.json.decode(body)).encode()
