"""Encode the objects of one resource: JSON, Tables and bookmarks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from podtui.clock import Clock
from podtui.server.objects import ApiObject, encode
from podtui.server.query import Query
from podtui.server.resources import Resource
from podtui.server.table import table

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Rendering:
    def __init__(self, resource: Resource, clock: Clock) -> None:
        self._resource = resource
        self._clock = clock

    def encode(self, item: ApiObject) -> bytes:
        return encode(item, self._resource.api_version, self._resource.kind)

    def table(
        self, query: Query, items: Sequence[ApiObject], version: str, *, definitions: bool = True
    ) -> bytes:
        return table(
            self._resource.columns,
            ((item, msgspec.Raw(self.encode(item))) for item in items),
            now=self._clock.now(),
            version=query.media.version,
            resource_version=version,
            include=query.include,
            definitions=definitions,
        )

    def watched(self, query: Query, item: ApiObject, *, first: bool) -> bytes:
        """Encode an object in the watch's format. Only the first Table includes the column
        definitions."""
        if not query.media.shape:
            return self.encode(item)
        return self.table(query, [item], item.metadata.resourceVersion, definitions=first)

    def bookmark(self, query: Query, version: int, *, initial_end: bool) -> bytes:
        if query.media.shape:
            return self.table(query, [], str(version), definitions=False)
        annotations = {"annotations": {INITIAL_EVENTS_END: "true"}} if initial_end else {}
        return msgspec.json.encode(
            {
                "kind": self._resource.kind,
                "apiVersion": self._resource.api_version,
                "metadata": {"resourceVersion": str(version), **annotations},
            }
        )
