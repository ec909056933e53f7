"""Maintain ServiceCIDRs, and the IPAddresses of Services, as Kubernetes' controllers do.

The default ServiceCIDR always exists. A deleted one stays while Services have addresses that no
other one contains. Each cluster IP of a Service has an IPAddress that names the Service.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from msgspec import structs

from podtui.api.networking import (
    IPAddress,
    IPAddressSpec,
    ParentReference,
    ServiceCIDR,
    ServiceCIDRSpec,
    ServiceCIDRStatus,
)
from podtui.api.times import rfc3339
from podtui.api.v1 import Condition, ObjectMeta, Service
from podtui.clock import Clock
from podtui.errors import AlreadyExists, NotFound
from podtui.manifest.strategies.networking import IP_ADDRESSES, SERVICE_CIDRS
from podtui.manifest.strategies.strategy import with_meta
from podtui.manifest.validation.addresses import Address, parse_address
from podtui.server.resources.control_loop import run_control_loop
from podtui.server.resources.deletion import delete_record, update_record
from podtui.server.resources.field_managers import API_SERVER, CONTROLLER_MANAGER, managed
from podtui.server.resources.service_addresses import (
    ADDRESSES,
    ALLOCATOR,
    DEFAULT_CIDR,
    MANAGED_BY,
    READY,
    has_address,
    is_allocated,
    networks_of,
)
from podtui.server.resources.storage_classes import protected
from podtui.store.protocol import Change, Records, WatchType
from podtui.store.resources import Resource

_RESOURCES: Final[tuple[Resource, ...]] = ("services", "ipaddresses", "servicecidrs")
_FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
_IS_READY: Final = Condition(
    type=READY, status="True", reason="", message="Kubernetes Service CIDR is ready"
)
_IN_USE: Final = Condition(
    type=READY,
    status="False",
    reason="Terminating",
    message="There are still IPAddresses referencing the ServiceCIDR, please remove them or create"
    " a new ServiceCIDR",
)


def default_cidr() -> ServiceCIDR:
    return ServiceCIDR(
        metadata=ObjectMeta(name=DEFAULT_CIDR), spec=ServiceCIDRSpec(cidrs=(str(ADDRESSES),))
    )


def addresses_of(services: Iterable[Service]) -> dict[str, IPAddress]:
    """Return the IPAddresses of the cluster IPs of Services, by name."""
    addresses: dict[str, IPAddress] = {}
    for service in services:
        meta = service.metadata
        for address in map(parse_address, service.spec.clusterIPs):
            if address is None:
                continue
            labels = {"ipaddress.kubernetes.io/ip-family": f"IPv{address.version}"}
            parent = ParentReference(resource="services", namespace=meta.namespace, name=meta.name)
            addresses[str(address)] = IPAddress(
                metadata=ObjectMeta(name=str(address), labels={**labels, MANAGED_BY: ALLOCATOR}),
                spec=IPAddressSpec(parentRef=parent),
            )
    return addresses


def settled(
    item: ServiceCIDR, others: Iterable[ServiceCIDR], addresses: Iterable[Address], now: str
) -> ServiceCIDR:
    """Return a ServiceCIDR as its controller leaves it: with its finalizer and condition, or
    without the finalizer if it is being deleted and no address needs it."""
    if item.metadata.deletionTimestamp is None:
        return _with_condition(protected(item, _FINALIZER), _IS_READY, now)
    networks = networks_of(item)
    rest = [network for other in others for network in networks_of(other)]
    needed = (address for address in addresses if has_address(networks, address))
    if any(not has_address(rest, address) for address in needed):
        return _with_condition(item, _IN_USE, now)
    finalizers = (name for name in item.metadata.finalizers if name != _FINALIZER)
    return with_meta(item, finalizers=tuple(finalizers))


def _with_condition(item: ServiceCIDR, condition: Condition, now: str) -> ServiceCIDR:
    others = [each for each in item.status.conditions if each.type != READY]
    current = next((each for each in item.status.conditions if each.type == READY), None)
    condition = structs.replace(condition, lastTransitionTime=now)
    if current is not None:
        same = structs.replace(condition, lastTransitionTime=current.lastTransitionTime)
        same = structs.replace(same, observedGeneration=current.observedGeneration)
        if current == same:
            return item
    return structs.replace(item, status=ServiceCIDRStatus(conditions=(*others, condition)))


class AddressCare:
    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def prepare(self) -> None:
        """Create the objects that must exist before the API is served."""
        await self._pass()

    async def run(self) -> None:
        """Maintain the objects. Runs forever."""
        await run_control_loop(
            "addresses of Services",
            self._records,
            _RESOURCES,
            matters=self._matters,
            sync=self._pass,
        )

    async def _matters(self, _: Resource, change: Change) -> bool:
        """Return whether the change may need a pass. Most changes of Services do not."""
        new, old = change.object, change.previous
        if isinstance(new, Service) and isinstance(old, Service):
            is_same = new.spec.clusterIPs == old.spec.clusterIPs
            return change.type is not WatchType.MODIFIED or not is_same
        return True

    async def _pass(self) -> None:
        items = (await self._records.list("services")).items
        addresses = addresses_of(item for item in items if isinstance(item, Service))
        await self._sync_addresses(addresses)
        await self._sync_cidrs(addresses)

    async def _sync_addresses(self, wanted: dict[str, IPAddress]) -> None:
        kept: set[str] = set()
        for item in (await self._records.list("ipaddresses")).items:
            assert isinstance(item, IPAddress)
            name = item.metadata.name
            other = wanted.get(name)
            if not is_allocated(item) if other is None else _is_same(item, other):
                kept.add(name)
            else:
                await self._delete(item)
        for name in wanted.keys() - kept:
            now = rfc3339(self._clock.now())
            # An address with finalizers is still there.
            with contextlib.suppress(AlreadyExists):
                item = managed(wanted[name], None, manager=API_SERVER, now=now)
                await self._records.create("ipaddresses", item)

    async def _delete(self, item: IPAddress) -> None:
        with contextlib.suppress(NotFound):
            await delete_record(
                self._records,
                "ipaddresses",
                IP_ADDRESSES,
                item,
                seconds=None,
                now=self._clock.now(),
            )

    async def _sync_cidrs(self, wanted: Iterable[str]) -> None:
        now = rfc3339(self._clock.now())
        if await self._records.get("servicecidrs", "", DEFAULT_CIDR) is None:
            item = managed(default_cidr(), None, manager=API_SERVER, now=now)
            await self._records.create("servicecidrs", item)
        addresses = [address for address in map(parse_address, wanted) if address is not None]
        listing = await self._records.list("servicecidrs")
        cidrs = [item for item in listing.items if isinstance(item, ServiceCIDR)]
        for item in cidrs:
            others = [other for other in cidrs if other is not item]

            def change(current: ServiceCIDR, others: list[ServiceCIDR] = others) -> ServiceCIDR:
                new = settled(current, others, addresses, now)
                if new.metadata == current.metadata:
                    return new
                return managed(new, current, manager=CONTROLLER_MANAGER, now=now)

            if change(item) is not item:
                with contextlib.suppress(NotFound):
                    name = item.metadata.name
                    await update_record(
                        self._records, "servicecidrs", SERVICE_CIDRS, "", name, change
                    )


def _is_same(item: IPAddress, other: IPAddress) -> bool:
    return item.spec == other.spec and other.metadata.labels.items() <= item.metadata.labels.items()
