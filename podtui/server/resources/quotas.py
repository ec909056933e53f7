"""The admission plugin ResourceQuota.

A new object, or a larger one, is charged to the quotas of its namespace. Their usage is measured
in the records, not taken from ``status.used``, which may be older than the last deletion. From the
measurement until the object is stored, other charged writes in the namespace wait, so that two
requests cannot use the same rest of a quota.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any, cast
from weakref import WeakValueDictionary

from podtui.api.objects import Object
from podtui.api.pod_resources import Amounts
from podtui.api.quantity import Quantity
from podtui.api.quota_usage import (
    RESOURCES,
    is_terminating,
    matches_scopes,
    missing_amounts,
    names_used_by,
    parsed,
    plus,
    usage,
    used_amounts,
    with_used,
)
from podtui.api.v1 import Pod, ResourceQuota
from podtui.clock import Clock
from podtui.errors import NotFound
from podtui.server.resources.resource import AnyResource
from podtui.server.status import StatusError, forbidden
from podtui.store.protocol import Records

_UPDATES = {
    "pods": ("", "resize"),
    "services": ("",),
    "persistentvolumeclaims": ("",),
}
"""The subresources whose updates may use more of a quota."""


class Charge:
    """The usage of the quotas of one namespace, and what a write adds to it."""

    def __init__(
        self,
        resource: AnyResource,
        quotas: Iterable[ResourceQuota] = (),
        items: Iterable[Object] = (),
        now: datetime | None = None,
    ) -> None:
        self._resource = resource
        self._quotas = tuple(quotas)
        self._items = tuple(items)
        self._now = now
        self.used: dict[str, Amounts] = {}
        """The new usage of each quota that changes, by the name of the quota."""

    def add(self, new: Object, old: Object | None = None) -> None:
        """Check that a new object, or the change of ``old``, fits into all quotas. Raises
        `StatusError` 403."""
        self.used.clear()
        if self._now is None or not self._quotas or _is_free(new, old):
            return
        wanted = usage(new, self._now)
        negative = sorted(name for name, amount in wanted.items() if amount < Quantity(0))
        if negative:
            raise self._refused(
                new, f"quota usage is negative for resource(s): {','.join(negative)}"
            )
        matching = [quota for quota in self._quotas if self._applies(quota, new)]
        for quota in matching:
            self._check_known(quota, new)
        for quota in matching:
            delta = wanted
            if old is not None and matches_scopes(quota.spec, old):
                before = usage(old, self._now)
                delta = {
                    name: amount - before.get(name, Quantity(0)) for name, amount in wanted.items()
                }
            self._charge(quota, new, delta, self._now)

    def _applies(self, quota: ResourceQuota, item: Object) -> bool:
        return bool(self._names(quota)) and matches_scopes(quota.spec, item)

    def _names(self, quota: ResourceQuota) -> set[str]:
        return names_used_by(self._resource.qualified_name, quota.status.hard)

    def _check_known(self, quota: ResourceQuota, item: Object) -> None:
        names, name = self._names(quota), quota.metadata.name
        missing = missing_amounts(item, names) if isinstance(item, Pod) else {}
        if missing:
            each = (f"{key} for: {','.join(names)}" for key, names in missing.items())
            raise self._refused(item, f"failed quota: {name}: must specify {'; '.join(each)}")
        if names - quota.status.used.keys():
            listed = ",".join(sorted(names))
            raise self._refused(item, f"status unknown for quota: {name}, resources: {listed}")

    def _charge(
        self, quota: ResourceQuota, item: Object, delta: Mapping[str, Quantity], now: datetime
    ) -> None:
        hard = parsed(quota.status.hard)
        added = {name: delta[name] for name in hard if delta.get(name, Quantity(0)) > Quantity(0)}
        if not added:
            return
        resource = self._resource.qualified_name
        measured = used_amounts(quota.spec, hard, self._measured, now, (resource,))
        used = parsed(quota.status.used) | measured
        total = plus(used, added)
        exceeded = [name for name in added if total[name] > hard[name]]
        if exceeded:
            raise self._refused(
                item,
                f"exceeded quota: {quota.metadata.name},"
                f" requested: {_listed(added, exceeded)},"
                f" used: {_listed(used, exceeded)},"
                f" limited: {_listed(hard, exceeded)}",
            )
        self.used[quota.metadata.name] = total

    def _measured(self, resource: str) -> Iterable[Object]:
        return self._items

    def _refused(self, item: Object, why: str) -> StatusError:
        resource = self._resource
        return forbidden(resource.plural, item.metadata.name, why, resource.group)


class QuotaAdmission:
    """The charges of all writes; one for the whole server."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def charge(
        self, resource: AnyResource, namespace: str, subresource: str | None = None
    ) -> AsyncGenerator[Charge]:
        """Yield the charge of a create, or with ``subresource`` of an update. The write belongs
        into the context."""
        updates = _UPDATES.get(resource.qualified_name, ())
        counted = resource.qualified_name in RESOURCES.values()
        if (
            not counted
            or not (subresource is None or subresource in updates)
            or not await self._quotas(namespace)
        ):
            yield Charge(resource)
            return
        turn = self._turns.setdefault(namespace, asyncio.Lock())
        async with turn:
            assert resource.record is not None
            quotas = await self._quotas(namespace)
            listing = await self._records.list(resource.record, namespace)
            yield Charge(resource, quotas, listing.items, self._clock.now())

    async def _quotas(self, namespace: str) -> list[ResourceQuota]:
        listing = await self._records.list("resourcequotas", namespace)
        return [item for item in listing.items if isinstance(item, ResourceQuota)]

    async def save(self, namespace: str, charge: Charge) -> None:
        """Write the usage of the quotas after the charged object was stored."""
        for name, used in charge.used.items():
            change: Callable[[Any], Any] = partial(_charged, used=used)
            with suppress(NotFound):
                await self._records.update("resourcequotas", namespace, name, change)


def _charged(quota: ResourceQuota, used: Amounts) -> ResourceQuota:
    return with_used(quota, {name: used[name] for name in used if name in quota.status.hard})


def _is_free(new: Object, old: Object | None) -> bool:
    """Return whether an update of a pod cannot change its scopes or its requests."""
    if not isinstance(new, Pod) or old is None:
        return False
    old = cast("Pod", old)
    same = new.spec.resources == old.spec.resources and all(
        getattr(new.spec, name) == getattr(old.spec, name)
        for name in ("containers", "initContainers")
    )
    return same and is_terminating(new) == is_terminating(old)


def _listed(amounts: Mapping[str, Quantity], names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names))
