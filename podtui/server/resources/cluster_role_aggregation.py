"""Keep the rules of aggregated cluster roles, like Kubernetes' controller of that name.

A cluster role with an ``aggregationRule`` has the rules of all cluster roles that its selectors
select. Whoever labels a cluster role of a custom resource can so extend ``view``, for instance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from podtui.api.rbac import ClusterRole, PolicyRule
from podtui.api.selectors import labels_match
from podtui.api.times import rfc3339
from podtui.clock import Clock
from podtui.errors import NotFound
from podtui.server.resources.control_loop import run_control_loop
from podtui.server.resources.field_managers import applied
from podtui.store.protocol import Change, Records
from podtui.store.resources import Resource

_MANAGER: Final = "clusterrole-aggregation-controller"


def aggregated_rules(role: ClusterRole, roles: Sequence[ClusterRole]) -> tuple[PolicyRule, ...]:
    """Return the rules that a role has by its ``aggregationRule``: those of the selected roles, in
    the order of selectors and names, each once. A selected role may be aggregated itself."""
    by_name = sorted(roles, key=lambda other: other.metadata.name)
    visited = {role.metadata.name}
    rules: dict[PolicyRule, None] = {}

    def collect(role: ClusterRole) -> None:
        if role.aggregationRule is None:
            rules.update(dict.fromkeys(role.rules))
            return
        for selector in role.aggregationRule.clusterRoleSelectors:
            for other in by_name:
                name = other.metadata.name
                if name not in visited and labels_match(selector, other.metadata.labels):
                    visited.add(name)
                    collect(other)

    collect(role)
    return tuple(rules)


class ClusterRoleAggregation:
    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def run(self) -> None:
        """Aggregate whenever a cluster role changes. Runs forever."""
        await run_control_loop(
            "cluster role aggregation",
            self._records,
            ("clusterroles",),
            matters=self._matters,
            sync=self.aggregate,
        )

    async def _matters(self, _: Resource, change: Change) -> bool:
        return True

    async def aggregate(self) -> None:
        """Update the aggregated roles."""
        items = (await self._records.list("clusterroles")).items
        roles = [item for item in items if isinstance(item, ClusterRole)]
        for role in roles:
            if role.aggregationRule is not None:
                rules = aggregated_rules(role, roles)
                if rules != role.rules:
                    await self._update(role.metadata.name, rules)

    async def _update(self, name: str, rules: tuple[PolicyRule, ...]) -> None:
        def updated(role: ClusterRole) -> ClusterRole:
            now = rfc3339(self._clock.now())
            return applied(role, {"rules": rules}, manager=_MANAGER, now=now)

        with contextlib.suppress(NotFound):
            await self._records.update("clusterroles", "", name, updated)
