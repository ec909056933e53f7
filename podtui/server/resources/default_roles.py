"""Create and complete the default roles and bindings when the agent starts, as an API server does.

Rights, subjects, labels and annotations that are missing are added; what users added stays. An
object with the annotation ``rbac.authorization.kubernetes.io/autoupdate: "false"`` is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import structs

from podtui.api.rbac import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
)
from podtui.api.times import rfc3339
from podtui.clock import Clock
from podtui.manifest.strategies.strategy import with_meta
from podtui.server.auth import default_policy
from podtui.server.auth.rbac import missing_rules
from podtui.server.resources.field_managers import API_SERVER, managed
from podtui.store.protocol import Records
from podtui.store.resources import Resource

AnyRole = TypeVar("AnyRole", ClusterRole, Role)
AnyBinding = TypeVar("AnyBinding", ClusterRoleBinding, RoleBinding)
Item = TypeVar("Item", ClusterRole, ClusterRoleBinding, Role, RoleBinding)


def reconciled_role(stored: AnyRole, default: AnyRole) -> AnyRole:
    """Return a stored role with what it lacks of its default."""
    role = _with_meta_of(stored, default)
    if isinstance(role, ClusterRole) and isinstance(default, ClusterRole):
        rule = _aggregation(role.aggregationRule, default.aggregationRule)
        role = structs.replace(role, aggregationRule=rule)
    missing: list[PolicyRule] = missing_rules(stored.rules, default.rules)
    return structs.replace(role, rules=(*stored.rules, *missing))


def _aggregation(
    stored: AggregationRule | None, default: AggregationRule | None
) -> AggregationRule | None:
    if stored is None or default is None:
        return default
    selectors = stored.clusterRoleSelectors
    missing = [selector for selector in default.clusterRoleSelectors if selector not in selectors]
    return AggregationRule(clusterRoleSelectors=(*selectors, *missing))


def reconciled_binding(stored: AnyBinding, default: AnyBinding) -> AnyBinding:
    """Return a stored binding with what it lacks of its default; the default if the stored one is
    for another role."""
    if stored.roleRef != default.roleRef:
        return default
    missing = [subject for subject in default.subjects if subject not in stored.subjects]
    binding = _with_meta_of(stored, default)
    return structs.replace(binding, subjects=(*stored.subjects, *missing))


def _with_meta_of(stored: Item, default: Item) -> Item:
    meta, expected = stored.metadata, default.metadata
    return with_meta(
        stored,
        labels={**expected.labels, **meta.labels},
        annotations={**expected.annotations, **meta.annotations},
    )


class DefaultRoles:
    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def prepare(self) -> None:
        """Create and complete all default roles and bindings. Their namespaces must exist."""
        for role in default_policy.CLUSTER_ROLES:
            await self._reconcile("clusterroles", ClusterRole, role, reconciled_role)
        for binding in default_policy.CLUSTER_ROLE_BINDINGS:
            name = "clusterrolebindings"
            await self._reconcile(name, ClusterRoleBinding, binding, reconciled_binding)
        for role in default_policy.ROLES:
            await self._reconcile("roles", Role, role, reconciled_role)
        for binding in default_policy.ROLE_BINDINGS:
            await self._reconcile("rolebindings", RoleBinding, binding, reconciled_binding)

    async def _reconcile(
        self,
        resource: Resource,
        struct: type[Item],
        default: Item,
        reconciled: Callable[[Item, Item], Item],
    ) -> None:
        meta = default.metadata
        stored = await self._records.get(resource, meta.namespace, meta.name)
        now = rfc3339(self._clock.now())
        if not isinstance(stored, struct):
            new = managed(default, None, manager=API_SERVER, now=now)
            await self._records.create(resource, new)
            return
        if stored.metadata.annotations.get(default_policy.AUTO_UPDATE) == "false":
            return
        new = reconciled(stored, default)
        if new == stored:
            return
        if new is default:
            await self._records.delete(resource, meta.namespace, meta.name)
            new = managed(default, None, manager=API_SERVER, now=now)
        else:
            new = managed(new, stored, manager=API_SERVER, now=now)
        await self._records.put(resource, new)
