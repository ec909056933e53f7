"""Services with their EndpointSlices, by namespace and name, as a cache has them now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from podtui.api.discovery import EndpointSlice
from podtui.api.v1 import Service
from podtui.client.cache import Cache, Key
from podtui.services.backends import PortBackends, port_backends, service_key

Observer = Callable[[Key], None]
"""Called with namespace and name of a Service after it or one of its slices changed."""


class ServiceIndex:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._slices: defaultdict[Key, dict[str, EndpointSlice]] = defaultdict(dict)
        self._observers: list[Observer] = []
        cache.observe(Service, self._service_changed)
        cache.observe(EndpointSlice, self._slice_changed)

    def observe(self, observer: Observer) -> None:
        self._observers.append(observer)

    async def listed(self) -> None:
        """Wait until all Services and EndpointSlices have been listed."""
        await self._cache.listed((Service, EndpointSlice))

    def services(self) -> list[Service]:
        return self._cache.list(Service)

    def service(self, key: Key) -> Service | None:
        return self._cache.get(Service, *key)

    def slices(self, key: Key) -> list[EndpointSlice]:
        slices = self._slices.get(key)
        return [] if slices is None else [*slices.values()]

    def backends(self, key: Key) -> tuple[PortBackends, ...]:
        """Return the ports of a Service with a cluster IP; empty if there is none."""
        service = self.service(key)
        return () if service is None else tuple(port_backends((service,), {key: self.slices(key)}))

    def _service_changed(self, before: object | None, after: object | None) -> None:
        item = after or before
        if isinstance(item, Service):
            self._notify((item.metadata.namespace, item.metadata.name))

    def _slice_changed(self, before: object | None, after: object | None) -> None:
        keys: dict[Key, None] = {}
        if isinstance(before, EndpointSlice):
            key = service_key(before)
            keys[key] = None
            slices = self._slices[key]
            slices.pop(before.metadata.name, None)
            if not slices:
                del self._slices[key]
        if isinstance(after, EndpointSlice):
            key = service_key(after)
            keys[key] = None
            self._slices[key][after.metadata.name] = after
        for key in keys:
            self._notify(key)

    def _notify(self, key: Key) -> None:
        for observer in self._observers:
            observer(key)
