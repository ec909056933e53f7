"""ResourceQuotas: ``status.hard`` follows the spec, and ``status.used`` the objects.

The API server charges a quota when it admits an object. What was deleted, or has ended, is given
back here, and a changed quota gets its usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import structs

from podtui.api.quota_usage import RESOURCES, ApiObject, names_used_by, parsed, texts, used_amounts
from podtui.api.v1 import ResourceQuota, ResourceQuotaStatus
from podtui.client.cache import Cache, Key, Kind
from podtui.clock import Clock
from podtui.controllers.client import Writer
from podtui.controllers.loop import Keys, own_key

RESYNC_SECONDS: Final = 300
"""Pods that should have ended long ago give their share back without a change."""
_KINDS: Final = {resource: kind for kind, resource in RESOURCES.items()}


def quota_status(
    quota: ResourceQuota, items: Callable[[str], Iterable[ApiObject]], now: datetime
) -> ResourceQuotaStatus:
    """Return the status of a quota; ``items`` returns the objects of a resource in its namespace.
    The usage of a name that no known resource uses is kept."""
    hard = quota.spec.hard
    used = parsed(quota.status.used) | used_amounts(quota.spec, hard, items, now)
    kept = {name: amount for name, amount in used.items() if name in hard}
    return ResourceQuotaStatus(hard=dict(hard), used=texts(kept))


class QuotaController:
    name = "resourcequota-controller"

    def __init__(self, cache: Cache, writer: Writer, clock: Clock) -> None:
        self._cache = cache
        self._writer = writer
        self._clock = clock

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        others = {kind: self._quotas_of for kind in RESOURCES if kind is not ResourceQuota}
        return {ResourceQuota: self._quota_and_others, **others}

    def _quota_and_others(self, quota: ResourceQuota) -> Iterable[Key]:
        yield from own_key(quota)
        yield from self._quotas_of(quota)

    def _quotas_of(self, item: Any) -> Iterable[Key]:
        """The quotas in the namespace that count objects of this kind."""
        resource = RESOURCES[type(item)]
        for quota in self._cache.list(ResourceQuota, item.metadata.namespace):
            if names_used_by(resource, quota.spec.hard):
                yield from own_key(quota)

    async def sync(self, key: Key) -> float | None:
        quota = self._cache.get(ResourceQuota, *key)
        if quota is None:
            return None

        def items(resource: str) -> Iterable[ApiObject]:
            return self._cache.list(_KINDS[resource], key[0])

        status = quota_status(quota, items, self._clock.now())
        if status != quota.status:
            item = structs.replace(quota, status=status)
            await self._writer.update(ResourceQuota, item, subresource="status")
        return RESYNC_SECONDS
