"""An index for the names of the cluster: namespaces, and Services by address.

A change touches only the entries of the changed object, so that one endpoint among thousands costs
no more than its slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from podtui.api.discovery import EndpointSlice
from podtui.api.objects import Object
from podtui.api.v1 import Namespace, Service
from podtui.client.cache import Cache, Key, Kind
from podtui.services.backends import has_cluster_ip
from podtui.services.index import ServiceIndex

_KINDS: Final[tuple[Kind, ...]] = (Namespace, Service, EndpointSlice)


class NameIndex:
    """Create it before the cache runs."""

    def __init__(self, cache: Cache, services: ServiceIndex) -> None:
        self._cache = cache
        self._services = services
        self._slices_by_address: dict[str, dict[Key, EndpointSlice]] = {}
        self._services_by_address: dict[str, Key] = {}
        self.revision = 0
        """Grows with each change."""
        cache.observe(Namespace, self._on_namespace)
        cache.observe(Service, self._on_service)
        cache.observe(EndpointSlice, self._on_slice)

    async def listed(self) -> None:
        """Wait until the objects have been listed."""
        await self._cache.listed(_KINDS)

    # --- reading

    def has_namespace(self, name: str) -> bool:
        return self._cache.get(Namespace, "", name) is not None

    def service(self, namespace: str, name: str) -> Service | None:
        return self._services.service((namespace, name))

    def slices(self, namespace: str, service: str) -> Collection[EndpointSlice]:
        return self._services.slices((namespace, service))

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
        if before is not None:
            for address in _cluster_ips(before):
                if by_address.get(address) == _key(before):
                    del by_address[address]
        if after is not None:
            by_address |= dict.fromkeys(_cluster_ips(after), _key(after))

    def _on_slice(self, before: Object | None, after: Object | None) -> None:
        self.revision += 1
        by_address = self._slices_by_address
        if isinstance(before, EndpointSlice):
            for address in _addresses(before):
                slices = by_address[address]
                del slices[_key(before)]
                if not slices:
                    del by_address[address]
        if isinstance(after, EndpointSlice):
            for address in _addresses(after):
                by_address.setdefault(address, {})[_key(after)] = after


def _key(item: Object) -> Key:
    return item.metadata.namespace, item.metadata.name


def _cluster_ips(item: Object) -> tuple[str, ...]:
    if not isinstance(item, Service) or not has_cluster_ip(item):
        return ()
    return item.spec.clusterIPs or (item.spec.clusterIP,)


def _addresses(item: EndpointSlice) -> Iterable[str]:
    return {address for endpoint in item.endpoints for address in endpoint.addresses}
