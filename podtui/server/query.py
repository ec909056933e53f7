"""Parse and validate the query string of a list or watch request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from podtui.server.accept import MediaType, negotiate
from podtui.server.objects import ApiObject
from podtui.server.resources import Resource, reader
from podtui.server.selectors import FieldTest, LabelTest, parse_fields, parse_labels
from podtui.server.status import bad_request, expired

_MOST_DIGITS: Final = 19
"""The maximum number of digits in Kubernetes numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
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


def parse_query(request: web.Request, resource: Resource) -> Query:
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
    return Query(
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
    if value is None or value.lower() in ("false", "f", "0"):
        return False
    if value.lower() in ("", "true", "t", "1"):
        return True
    raise bad_request(f"invalid value for {name}: {value!r}")


def whole_number(request: web.Request, name: str) -> int | None:
    """Parse a number of at least 0; None if the parameter is missing."""
    value = request.query.get(name, "")
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS):
        raise bad_request(f"invalid value for {name}: {value!r}")
    return int(value)
