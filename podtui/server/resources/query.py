"""Parse and validate the query string of a list or watch request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from podtui.manifest.validation.errors import Errors, GoText, forbidden, not_supported
from podtui.server.encoding.media_types import PARTIAL, PARTIAL_LIST, TABLE, MediaType, negotiate
from podtui.server.resources.definitions import reader
from podtui.server.resources.objects import ApiObject, ObjectSource
from podtui.server.resources.options import META_GROUP
from podtui.server.resources.paging import ContinueToken, parse_token
from podtui.server.resources.resource import AnyResource
from podtui.server.resources.selectors import FieldTest, LabelTest, parse_fields, parse_labels
from podtui.server.status import (
    StatusError,
    bad_request,
    flag_value,
    invalid_fields,
    too_large_version,
)

_NO_MATCH: Final = "resourceVersionMatch is forbidden when continue is provided"
_ONLY_JSON: Final = "only the following media types are accepted: application/json;stream=watch"
_MOST_DIGITS: Final = 19
"""The maximum number of digits in Kubernetes numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """``namespace`` and ``name`` are empty for all. ``resource_version`` is None if the client
    accepts any version; ``timeout`` is in seconds. ``limit`` is 0 for a whole list, and ``token``
    says where the page begins. ``initial_events`` is None if a watch without a version is to begin
    with the existing objects, without a bookmark."""

    resource: AnyResource
    namespace: str
    name: str
    media: MediaType
    include: str
    watch: bool
    bookmarks: bool
    initial_events: bool | None
    resource_version: int | None
    match: str
    limit: int
    token: ContinueToken | None
    timeout: float | None
    selective: bool
    labels: LabelTest
    fields: FieldTest

    @property
    def exact(self) -> bool:
        """True if the list must be of exactly ``resource_version``, as a page of a list must."""
        return self.match == "Exact" or (not self.match and self.limit > 0)

    def selects(self, item: ApiObject | None) -> bool:
        if item is None or self.namespace not in ("", item.metadata.namespace):
            return False
        if self.name not in ("", item.metadata.name):
            return False
        return not self.selective or (
            self.labels(item.metadata.labels) and self.fields(reader(item))
        )


def parse_query(
    request: web.Request, resource: AnyResource, *, watch: bool | None = None
) -> ListQuery:
    """``watch`` is None if the query says it. Raises `StatusError` 400, 406 or 410."""
    query = request.query
    if watch is None:
        watch = flag(request, "watch")
    match = query.get("resourceVersionMatch", "")
    errors = list(_watch_errors(query) if watch else _list_errors(query))
    if errors:
        raise invalid_fields("ListOptions", "", errors, META_GROUP)
    version = query.get("resourceVersion", "")
    token = parse_token(query["continue"]) if query.get("continue") else None
    if token is not None and version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    timeout = whole_number(request, "timeoutSeconds")
    return ListQuery(
        resource=resource,
        namespace=request.match_info.get("namespace", ""),
        name=request.match_info.get("name", ""),
        media=_media(request, watch=watch),
        include=include_object(request),
        watch=watch,
        bookmarks=flag(request, "allowWatchBookmarks"),
        initial_events=flag(request, "sendInitialEvents") if "sendInitialEvents" in query else None,
        resource_version=_version(version),
        match=match,
        limit=whole_number(request, "limit") or 0,
        token=token,
        timeout=float(timeout) if timeout else None,
        selective=bool(query.get("labelSelector") or query.get("fieldSelector")),
        labels=parse_labels(query.get("labelSelector", "")),
        fields=parse_fields(query.get("fieldSelector", ""), resource.selectable),
    )


def _media(request: web.Request, *, watch: bool) -> MediaType:
    header = request.headers.get("Accept", "")
    media = negotiate(header, TABLE, PARTIAL if watch else PARTIAL_LIST)
    if watch and media.is_yaml:
        raise StatusError(406, _ONLY_JSON)
    return media


def _list_errors(query: Mapping[str, str]) -> Errors:
    match, path = query.get("resourceVersionMatch", ""), "resourceVersionMatch"
    if match:
        if not query.get("resourceVersion"):
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            yield forbidden(path, why)
        if query.get("continue"):
            yield forbidden(path, _NO_MATCH)
        if match not in ("Exact", "NotOlderThan"):
            yield not_supported(path, GoText(match), ("Exact", "NotOlderThan", ""))
        if match == "Exact" and query.get("resourceVersion") == "0":
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            yield forbidden(path, why)
    if "sendInitialEvents" in query:
        yield forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _watch_errors(query: Mapping[str, str]) -> Errors:
    match, path = query.get("resourceVersionMatch", ""), "resourceVersionMatch"
    if "sendInitialEvents" in query and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        yield forbidden(path, why)
    if match:
        if "sendInitialEvents" not in query:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            yield forbidden(path, why)
        if match != "NotOlderThan":
            yield not_supported(path, GoText(match), ("NotOlderThan",))
        if query.get("continue"):
            yield forbidden(path, _NO_MATCH)


def include_object(request: web.Request) -> str:
    """Return which part of an object each row of a Table has. Raises `StatusError` 400."""
    include = request.query.get("includeObject", "") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise bad_request(f"unrecognized includeObject value: {include!r}")
    return include


def flag(request: web.Request, name: str) -> bool:
    value = request.query.get(name)
    return value is not None and flag_value(value)


def integer(request: web.Request, name: str) -> int | None:
    """Parse a number; None if the parameter is missing. Raises `StatusError` 400."""
    value = request.query.get(name, "")
    if not value:
        return None
    if not re.fullmatch(r"[-+]?[0-9]+", value) or len(value) > _MOST_DIGITS:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
    return int(value)


def whole_number(request: web.Request, name: str) -> int | None:
    """Parse a number; None if the parameter is missing or negative."""
    value = integer(request, name)
    return value if value is not None and value >= 0 else None


def _version(text: str) -> int | None:
    """Parse a resourceVersion; "0" accepts any version, like a missing parameter."""
    problem = _version_problem(text)
    if problem:
        raise bad_request(f"invalid resource version: {problem}")
    return int(text or 0) or None


def _version_problem(text: str) -> str:
    """Return why a resourceVersion is invalid; empty if it is not."""
    if ((text.isascii() and text.isdigit()) or not text) and len(text) <= _MOST_DIGITS:
        return ""
    return (
        f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}":'
        " invalid syntax"
    )


async def check_version(request: web.Request, source: ObjectSource) -> None:
    """Check the version that a request for one object asks for: the object must be at least that
    new. Raises `StatusError` 500 (an API server does not answer 400 here) or 504."""
    text = request.query.get("resourceVersion", "")
    problem = _version_problem(text)
    if problem:
        raise StatusError(500, problem, reason="")
    requested = int(text or 0)
    if requested:
        listing = await source.list(request.match_info.get("namespace", ""))
        current = listing.resource_version
        if current is not None and requested > current:
            raise too_large_version(requested, current)
