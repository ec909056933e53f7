"""The default roles: created once, completed at each start, and left as users changed them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from podtui.api.rbac import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    RoleRef,
    Subject,
)
from podtui.api.v1 import LabelSelector
from podtui.clock import SystemClock
from podtui.manifest.strategies.strategy import with_meta
from podtui.manifest.validation.rbac import (
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_role,
    validate_role_binding,
)
from podtui.server.auth import default_policy
from podtui.server.auth.rbac import GROUP
from podtui.server.resources.default_roles import DefaultRoles, reconciled_binding, reconciled_role
from podtui.store import Store, open_store

CLOCK = SystemClock()
RULE = PolicyRule(verbs=("get",), apiGroups=("",), resources=("secrets",))
EVE = Subject(apiGroup=GROUP, kind="User", name="eve")
ROLES = {role.metadata.name: role for role in default_policy.CLUSTER_ROLES}
BINDINGS = {item.metadata.name: item for item in default_policy.CLUSTER_ROLE_BINDINGS}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    found = open_store(None, clock=CLOCK)
    await DefaultRoles(found, CLOCK).prepare()
    yield found
    await found.close()


async def stored_role(store: Store, name: str) -> ClusterRole:
    role = await store.get("clusterroles", "", name)
    assert isinstance(role, ClusterRole)
    return role


async def stored_binding(store: Store, name: str) -> ClusterRoleBinding:
    binding = await store.get("clusterrolebindings", "", name)
    assert isinstance(binding, ClusterRoleBinding)
    return binding


def test_the_defaults_are_valid_and_refer_to_each_other() -> None:
    errors = [
        *(error for role in default_policy.CLUSTER_ROLES for error in validate_cluster_role(role)),
        *(error for role in default_policy.ROLES for error in validate_role(role)),
        *(
            e
            for one in default_policy.CLUSTER_ROLE_BINDINGS
            for e in validate_cluster_role_binding(one)
        ),
        *(e for one in default_policy.ROLE_BINDINGS for e in validate_role_binding(one)),
    ]
    assert not errors
    assert {item.roleRef.name for item in default_policy.CLUSTER_ROLE_BINDINGS} <= ROLES.keys()
    names = {role.metadata.name for role in default_policy.ROLES}
    assert {item.roleRef.name for item in default_policy.ROLE_BINDINGS} <= names


async def test_they_are_marked_as_those_of_an_api_server(store: Store) -> None:
    meta = (await stored_role(store, "view")).metadata
    assert meta.annotations == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    assert meta.labels == {
        "kubernetes.io/bootstrapping": "rbac-defaults",
        "rbac.authorization.k8s.io/aggregate-to-edit": "true",
    }
    assert [entry.manager for entry in meta.managedFields] == ["kube-apiserver"]


async def test_a_second_start_changes_nothing(store: Store) -> None:
    before = (await store.list("clusterroles")).resource_version
    await DefaultRoles(store, CLOCK).prepare()
    assert (await store.list("clusterroles")).resource_version == before


async def test_what_is_missing_is_added_and_what_users_added_stays(store: Store) -> None:
    role = await stored_role(store, "system:discovery")
    changed = with_meta(structs.replace(role, rules=(RULE,)), labels={"mine": "1"}, annotations={})
    await store.put("clusterroles", changed)
    binding = await stored_binding(store, "system:discovery")
    await store.put("clusterrolebindings", structs.replace(binding, subjects=(EVE,)))
    await store.delete("clusterroles", "", "view")
    await DefaultRoles(store, CLOCK).prepare()
    role = await stored_role(store, "system:discovery")
    assert role.rules[0] == RULE
    assert len(role.rules) == 1 + len(ROLES["system:discovery"].rules[0].nonResourceURLs)
    assert role.metadata.labels == {"mine": "1", "kubernetes.io/bootstrapping": "rbac-defaults"}
    binding = await stored_binding(store, "system:discovery")
    assert binding.subjects == (EVE, *BINDINGS["system:discovery"].subjects)
    await stored_role(store, "view")


async def test_an_annotation_keeps_changes(store: Store) -> None:
    role = await stored_role(store, "system:discovery")
    kept = with_meta(
        structs.replace(role, rules=()), annotations={default_policy.AUTO_UPDATE: "false"}
    )
    await store.put("clusterroles", kept)
    binding = await stored_binding(store, "system:basic-user")
    kept_binding = with_meta(
        structs.replace(binding, subjects=()), annotations={default_policy.AUTO_UPDATE: "false"}
    )
    await store.put("clusterrolebindings", kept_binding)
    await DefaultRoles(store, CLOCK).prepare()
    assert not (await stored_role(store, "system:discovery")).rules
    assert not (await stored_binding(store, "system:basic-user")).subjects


async def test_a_binding_of_another_role_is_replaced(store: Store) -> None:
    binding = await stored_binding(store, "system:basic-user")
    ref = RoleRef(apiGroup=GROUP, kind="ClusterRole", name="cluster-admin")
    await store.put("clusterrolebindings", structs.replace(binding, roleRef=ref, subjects=(EVE,)))
    await DefaultRoles(store, CLOCK).prepare()
    replaced = await stored_binding(store, "system:basic-user")
    assert replaced.roleRef == binding.roleRef
    assert replaced.subjects == binding.subjects
    assert replaced.metadata.uid != binding.metadata.uid


def test_selectors_are_added_and_removed() -> None:
    view = ROLES["view"]
    mine = AggregationRule(clusterRoleSelectors=(LabelSelector(matchLabels={"mine": "1"}),))
    found = reconciled_role(structs.replace(view, aggregationRule=mine), view).aggregationRule
    assert found is not None
    assert view.aggregationRule is not None
    selectors = (*mine.clusterRoleSelectors, *view.aggregationRule.clusterRoleSelectors)
    assert found.clusterRoleSelectors == selectors
    plain = structs.replace(view, aggregationRule=None)
    assert reconciled_role(plain, view).aggregationRule == view.aggregationRule
    assert reconciled_role(view, plain).aggregationRule is None
    assert reconciled_role(view, view) == view
    assert (
        reconciled_binding(BINDINGS["system:node"], BINDINGS["system:node"])
        == BINDINGS["system:node"]
    )
