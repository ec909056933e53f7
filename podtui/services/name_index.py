"""Services and their EndpointSlices, by name and by address, kept up to date by the room's cache.

A change touches only the entries of the changed object, so that one endpoint among thousands costs
no more than its slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, TypeVar, cast

from podtui.api.discovery import EndpointSlice
from podtui.api.objects import Object
from podtui.api.v1 import Namespace, Service
from podtui.client.cache import Cache, Key, Kind
from podtui.services.backends import has_cluster_ip, service_key

K = TypeVar("K")
KINDS: Final[tuple[Kind, ...]] = (Namespace, Service, EndpointSlice)


class NameIndex:
    """Create it before the cache runs."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._slices: dict[Key, dict[Key, EndpointSlice]] = {}
        """The slices of each Service."""
        self._slices_by_address: dict[str, dict[Key, EndpointSlice]] = {}
        self._services_by_address: dict[str, Key] = {}
        self.revision = 0
        """Grows with each change."""
        cache.observe(Namespace, self._on_namespace)
        cache.observe(Service, self._on_service)
        cache.observe(EndpointSlice, self._on_slice)

    async def listed(self) -> None:
        """Wait until the objects have been listed."""
        await self._cache.listed(KINDS)

    # --- reading

    def has_namespace(self, name: str) -> bool:
        return self._cache.get(Namespace, "", name) is not None

    def service(self, namespace: str, name: str) -> Service | None:
        return self._cache.get(Service, namespace, name)

    def slices(self, namespace: str, service: str) -> Collection[EndpointSlice]:
        return self._slices.get((namespace, service), {}).values()

    def service_of_address(self, address: str) -> Key | None:
        """Return namespace and name of the Service with this cluster IP."""
        return self._services_by_address.get(address)

    def slices_of_address(self, address: str) -> Collection[EndpointSlice]:
        """Return the slices with an endpoint of this address."""
        return self._slices_by_address.get(address, {}).values()

    # --- changes

    def _on_namespace(self, before: Object | None, after: Object | None) -> None:
        if before is None or after is None:
            self.revision += 1

    def _on_service(self, before: Object | None, after: Object | None) -> None:
        self.revision += 1
        by_address = self._services_by_address
        for address in _cluster_ips(before):
            if by_address.get(address) == _key(cast("Object", before)):
                del by_address[address]
        for address in _cluster_ips(after):
            by_address[address] = _key(cast("Object", after))

    def _on_slice(self, before: Object | None, after: Object | None) -> None:
        self.revision += 1
        if isinstance(before, EndpointSlice):
            _discard(self._slices, service_key(before), _key(before))
            for address in _addresses(before):
                _discard(self._slices_by_address, address, _key(before))
        if isinstance(after, EndpointSlice):
            self._slices.setdefault(service_key(after), {})[_key(after)] = after
            for address in _addresses(after):
                self._slices_by_address.setdefault(address, {})[_key(after)] = after


def _discard(index: dict[K, dict[Key, EndpointSlice]], key: K, item: Key) -> None:
    entries = index.get(key, {})
    entries.pop(item, None)
    if not entries:
        index.pop(key, None)


def _key(item: Object) -> Key:
    return item.metadata.namespace, item.metadata.name


def _cluster_ips(item: Object | None) -> tuple[str, ...]:
    if not isinstance(item, Service) or not has_cluster_ip(item):
        return ()
    return item.spec.clusterIPs or (item.spec.clusterIP,)


def _addresses(item: EndpointSlice) -> Iterable[str]:
    return {address for endpoint in item.endpoints for address in endpoint.addresses}
