"""Parse and validate the query string of a list or watch request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from podtui.server.objects import ApiObject
from podtui.server.resources import Resource, reader
from podtui.server.selectors import FieldTest, LabelTest, parse_fields, parse_labels
from podtui.server.status import StatusError, bad_request, expired, flag_value

_PLAIN = frozenset({"application/json", "application/*", "*/*"})
_SHAPES = frozenset(
    {
        ("Table", "meta.k8s.io", "v1"),
        ("Table", "meta.k8s.io", "v1beta1"),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1"),
    }
)
_MOST_DIGITS: Final = 19
"""The maximum number of digits in Kubernetes numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """``resource_version`` is None if the client accepts any version; ``timeout`` is in seconds."""

    resource: Resource
    namespace: str
    media: MediaType
    include: str
    watch: bool
    bookmarks: bool
    initial_events: bool
    resource_version: int | None
    match: str
    timeout: float | None
    labels: LabelTest
    fields: FieldTest

    def selects(self, item: ApiObject | None) -> bool:
        if item is None or self.namespace not in ("", item.metadata.namespace):
            return False
        return self.labels(item.metadata.labels) and self.fields(reader(item))


def parse_query(request: web.Request, resource: Resource) -> ListQuery:
    """Raises `StatusError` 400, 406 or 410."""
    query = request.query
    if query.get("continue"):
        raise expired("The provided continue parameter is too old: list again without it.")
    include = query.get("includeObject", "") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise bad_request(f"unrecognized includeObject value: {include!r}")
    match = query.get("resourceVersionMatch", "")
    if match not in ("", "Exact", "NotOlderThan"):
        raise bad_request(f"unknown resourceVersionMatch {match!r}")
    timeout = whole_number(request, "timeoutSeconds")
    whole_number(request, "limit")
    return ListQuery(
        resource=resource,
        namespace=request.match_info.get("namespace", ""),
        media=negotiate(request.headers.get("Accept", ""), "Table"),
        include=include,
        watch=flag(request, "watch"),
        bookmarks=flag(request, "allowWatchBookmarks"),
        initial_events=flag(request, "sendInitialEvents"),
        # "0" accepts any version, like a missing parameter.
        resource_version=whole_number(request, "resourceVersion") or None,
        match=match,
        timeout=float(timeout) if timeout else None,
        labels=parse_labels(query.get("labelSelector", "")),
        fields=parse_fields(query.get("fieldSelector", ""), resource.selectable),
    )


def flag(request: web.Request, name: str) -> bool:
    value = request.query.get(name)
    return value is not None and flag_value(value, name)


def whole_number(request: web.Request, name: str) -> int | None:
    """Parse a number of at least 0; None if the parameter is missing."""
    value = request.query.get(name, "")
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS):
        raise bad_request(f"invalid value for {name}: {value!r}")
    return int(value)


@dataclass(frozen=True, slots=True)
class MediaType:
    """``shape`` is the ``as`` parameter: ``Table``, ``APIGroupDiscoveryList`` or empty."""

    shape: str = ""
    version: str = ""


def negotiate(header: str, shape: str) -> MediaType:
    """Return the first accepted media type that can be served as plain JSON or as ``shape``.

    Raises `StatusError` 406 if there is none.
    """
    for kind, parameters in _ranges(header):
        if kind not in _PLAIN:
            continue
        wish = parameters.get("as", "")
        if not wish:
            return MediaType()
        version = parameters.get("v", "")
        if wish == shape and (wish, parameters.get("g", ""), version) in _SHAPES:
            return MediaType(wish, version)
    raise StatusError(
        406, "only the following media types are accepted: application/json", reason="NotAcceptable"
    )


def _ranges(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    for item in (header or "*/*").split(","):
        kind, *rest = item.split(";")
        pairs = (part.partition("=") for part in rest)
        yield kind.strip().lower(), {key.strip(): value.strip() for key, _, value in pairs}
