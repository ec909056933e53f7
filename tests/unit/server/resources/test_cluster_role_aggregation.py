"""Aggregated cluster roles have the rules of the roles that they select."""

from __future__ import annotations

import asyncio

from examples import examples
from hypothesis import given
from hypothesis import strategies as some

from podtui.api.rbac import AggregationRule, ClusterRole, PolicyRule
from podtui.api.v1 import LabelSelector, ObjectMeta
from podtui.clock import SystemClock
from podtui.server.resources.cluster_role_aggregation import (
    ClusterRoleAggregation,
    aggregated_rules,
)
from podtui.server.resources.default_roles import DefaultRoles
from podtui.store import Store, open_store

NAMES = ("a", "b", "c", "d")


def rule(resource: str) -> PolicyRule:
    return PolicyRule(verbs=("get",), apiGroups=("",), resources=(resource,))


def role(
    name: str, *resources: str, labels: str = "", selects: tuple[str, ...] | None = None
) -> ClusterRole:
    """``labels`` and ``selects`` are keys of labels."""
    selectors = (LabelSelector(matchLabels={key: "true"}) for key in selects or ())
    rule_of = None if selects is None else AggregationRule(clusterRoleSelectors=tuple(selectors))
    meta = ObjectMeta(name=name, labels=dict.fromkeys(labels.split(), "true"))
    return ClusterRole(metadata=meta, rules=tuple(map(rule, resources)), aggregationRule=rule_of)


ROLES = some.fixed_dictionaries(
    {
        name: some.tuples(
            some.lists(some.sampled_from("xyz"), max_size=2),
            some.sets(some.sampled_from("pqr")),
            some.none() | some.lists(some.sampled_from("pqr"), max_size=2),
        )
        for name in NAMES
    }
).map(
    lambda parts: [
        role(
            name,
            *(f"{name}{resource}" for resource in resources),
            labels=" ".join(sorted(labels)),
            selects=None if selects is None else tuple(selects),
        )
        for name, (resources, labels, selects) in parts.items()
    ]
)


def test_rules_come_in_the_order_of_selectors_and_names_each_once() -> None:
    whole = role("whole", "old", selects=("q", "p"))
    roles = [
        role("z", "1", labels="q"),
        role("b", "2", "1", labels="p"),
        role("a", "3", "4", labels="p"),
        role("other", "5"),
        whole,
    ]
    assert aggregated_rules(whole, roles) == tuple(map(rule, "1342"))


def test_a_role_does_not_select_itself() -> None:
    whole = role("whole", "1", labels="p", selects=("p",))
    assert aggregated_rules(whole, [whole, role("a", "2", labels="p")]) == (rule("2"),)


def test_a_role_without_selected_roles_has_no_rules() -> None:
    whole = role("whole", "1", selects=("p",))
    assert aggregated_rules(whole, [whole, role("a", "2")]) == ()


def test_roles_that_select_each_other_have_the_same_rules() -> None:
    first = role("first", labels="p", selects=("q", "r"))
    second = role("second", labels="q", selects=("p", "r"))
    roles = [first, second, role("a", "1", labels="r")]
    assert aggregated_rules(first, roles) == aggregated_rules(second, roles) == (rule("1"),)


@examples(300)
@given(ROLES)
def test_rules_are_those_of_all_roles_that_are_reached(roles: list[ClusterRole]) -> None:
    def selected(of: ClusterRole) -> list[ClusterRole]:
        assert of.aggregationRule is not None
        keys = {k for s in of.aggregationRule.clusterRoleSelectors for k in s.matchLabels}
        return [other for other in roles if other is not of and keys & other.metadata.labels.keys()]

    for whole in roles:
        if whole.aggregationRule is None:
            continue
        reached, pending = [whole], [whole]
        while pending:
            for other in selected(pending.pop()):
                if other not in reached:
                    reached.append(other)
                    pending += [other] if other.aggregationRule is not None else []
        plain = (other for other in reached if other.aggregationRule is None)
        expected = {item for other in plain for item in other.rules}
        found = aggregated_rules(whole, roles)
        assert set(found) == expected
        assert len(found) == len(expected)


async def rules_of(store: Store, name: str) -> tuple[PolicyRule, ...]:
    found = await store.get("clusterroles", "", name)
    assert isinstance(found, ClusterRole)
    return found.rules


async def test_the_default_roles_include_each_other() -> None:
    store, clock = open_store(None, clock=SystemClock()), SystemClock()
    await DefaultRoles(store, clock).prepare()
    await ClusterRoleAggregation(store, clock).aggregate()
    view, edit, admin = [set(await rules_of(store, name)) for name in ("view", "edit", "admin")]
    assert set() < view < edit < admin
    item = await store.get("clusterroles", "", "view")
    assert item is not None
    managers = {(one.manager, one.operation) for one in item.metadata.managedFields}
    assert managers == {
        ("clusterrole-aggregation-controller", "Apply"), ("kube-apiserver", "Update"),
    }  # fmt: skip
    version = (await store.list("clusterroles")).resource_version
    await ClusterRoleAggregation(store, clock).aggregate()
    assert (await store.list("clusterroles")).resource_version == version
    await store.close()


async def test_a_change_of_a_selected_role_is_followed() -> None:
    store, clock = open_store(None, clock=SystemClock()), SystemClock()
    await store.put("clusterroles", role("whole", selects=("p",)))
    changes = store.watch("clusterroles")

    async def until(expected: tuple[PolicyRule, ...]) -> None:
        async with asyncio.timeout(60):
            while await rules_of(store, "whole") != expected:
                await anext(aiter(changes))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(ClusterRoleAggregation(store, clock).run())
        await store.put("clusterroles", role("a", "1", labels="p"))
        await until((rule("1"),))
        await store.put("clusterroles", role("a", "2", labels="p"))
        await until((rule("2"),))
        await store.put("clusterroles", role("whole", "3", selects=("p",)))
        await until((rule("2"),))
        await store.delete("clusterroles", "", "a")
        await until(())
        task.cancel()
    await store.close()
