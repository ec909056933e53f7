"""The evaluation of rules, bindings and rules that cover others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as some

from podtui.api.rbac import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from podtui.api.v1 import ConfigMap, ObjectMeta
from podtui.clock import SystemClock
from podtui.server.auth.attributes import Attributes
from podtui.server.auth.rbac import (
    GROUP,
    Authorizer,
    Decision,
    Policy,
    described,
    missing_rules,
    rule_allows,
    url_covers,
)
from podtui.server.auth.users import ADMIN, User, service_account
from podtui.store import open_store

ROBOT = service_account("team", "robot", "", {})
LIST_PODS = Attributes(verb="list", resource="pods", namespace="team")
WORDS = ("a", "b", "c")
LISTS = some.lists(some.sampled_from((*WORDS, "*")), min_size=1, max_size=3).map(tuple)
RESOURCES = some.lists(
    some.sampled_from((*WORDS, "*", "a/x", "b/x", "b/y", "*/x")), min_size=1, max_size=3
).map(tuple)
NAMES = some.lists(some.sampled_from(WORDS), max_size=2).map(tuple)
URLS = some.lists(
    some.sampled_from(("*", "/", "/a", "/a/*", "/a/b", "/ab", "/b*")), min_size=1, max_size=3
).map(tuple)
RESOURCE_RULES = some.builds(
    PolicyRule, verbs=LISTS, apiGroups=LISTS, resources=RESOURCES, resourceNames=NAMES
)
URL_RULES = some.builds(PolicyRule, verbs=LISTS, nonResourceURLs=URLS)
RULES = some.one_of(RESOURCE_RULES, URL_RULES)
REQUESTS = some.one_of(
    some.builds(
        Attributes,
        verb=some.sampled_from(WORDS),
        group=some.sampled_from(WORDS),
        resource=some.sampled_from(WORDS),
        subresource=some.sampled_from(("", "x", "y")),
        name=some.sampled_from(("", *WORDS)),
    ),
    some.builds(
        Attributes,
        verb=some.sampled_from(WORDS),
        path=some.sampled_from(("/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/b", "/bc")),
    ),
)


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> PolicyRule:
    return PolicyRule(
        verbs=tuple(verbs.split()),
        apiGroups=(group,),
        resources=tuple(resources.split()),
        resourceNames=tuple(names.split()),
    )


@pytest.mark.parametrize(
    ("resources", "resource", "subresource", "allowed"),
    [
        ("pods", "pods", "", True),
        ("pods", "pods", "log", False),
        ("pods/log", "pods", "log", True),
        ("pods/log", "pods", "", False),
        ("pods/*", "pods", "log", False),
        ("*", "pods", "", True),
        ("*", "pods", "log", True),
        ("*/log", "pods", "log", True),
        ("*/log", "pods", "", False),
        ("*/log", "pods", "exec", False),
        ("nodes pods", "pods", "", True),
    ],
)
def test_resources(resources: str, resource: str, subresource: str, allowed: bool) -> None:
    wanted = Attributes(verb="get", resource=resource, subresource=subresource)
    assert rule_allows(rule("get", resources), wanted) is allowed


def test_verbs_groups_and_names() -> None:
    apps = rule("get list", "deployments", "apps", names="web")
    wanted = Attributes(verb="get", group="apps", resource="deployments", name="web")
    assert rule_allows(apps, wanted)
    assert not rule_allows(apps, replace(wanted, verb="delete"))
    assert not rule_allows(apps, replace(wanted, group=""))
    assert not rule_allows(apps, replace(wanted, name="db"))
    assert not rule_allows(apps, replace(wanted, verb="list", name=""))
    assert not rule_allows(apps, Attributes(verb="get", path="/apis/apps"))


@pytest.mark.parametrize(
    ("url", "path", "covered"),
    [
        ("*", "", True),
        ("*", "/", True),
        ("/*", "", False),
        ("/*", "/foo", True),
        ("/api", "/api", True),
        ("/api", "/api/", False),
        ("/apis", "/api", False),
        ("/api/v1", "/api", False),
        ("/api/*", "/api/v1", True),
        ("/api/*", "/api", False),
        ("/api/*/*", "/api/v1", False),
        ("/*/v1/*", "/api/v1", False),
        ("/b*", "/bc", True),
    ],
)
def test_urls(url: str, path: str, covered: bool) -> None:
    assert url_covers(url, path) is covered


@examples(300)
@given(RULES, REQUESTS)
def test_a_rule_with_wildcards_allows_what_the_same_rule_with_all_values_allows(
    found: PolicyRule, wanted: Attributes
) -> None:
    def spelled(values: tuple[str, ...], every: tuple[str, ...]) -> tuple[str, ...]:
        return every if "*" in values else values

    parts = tuple(f"{word}/{sub}" for word in WORDS for sub in "xy")
    resources = spelled(found.resources, (*WORDS, *parts))
    if "*/x" in resources:
        resources += tuple(f"{word}/x" for word in WORDS)
    plain = PolicyRule(
        verbs=spelled(found.verbs, WORDS),
        apiGroups=spelled(found.apiGroups, WORDS),
        resources=resources,
        resourceNames=found.resourceNames,
        nonResourceURLs=found.nonResourceURLs,
    )
    assert rule_allows(found, wanted) is rule_allows(plain, wanted)


@examples(500)
@given(some.lists(RULES, max_size=3), RULES, REQUESTS)
def test_covered_rules_allow_nothing_more(
    owned: list[PolicyRule], found: PolicyRule, wanted: Attributes
) -> None:
    missing = missing_rules(owned, [found])
    allowed = any(rule_allows(one, wanted) for one in owned)
    if rule_allows(found, wanted) and not allowed:
        assert any(rule_allows(one, wanted) for one in missing)


@examples(200)
@given(some.lists(RULES, max_size=3))
def test_rules_cover_themselves_and_everything_covers_them(found: list[PolicyRule]) -> None:
    everything = [rule("*", "*", "*"), PolicyRule(verbs=("*",), nonResourceURLs=("*",))]
    assert not missing_rules(found, found)
    assert not missing_rules(everything, found)
    assert missing_rules([], found) or not found


def test_missing_rules_have_one_verb_each() -> None:
    owned = [rule("get", "pods"), rule("delete update", "builds")]
    missing = missing_rules(owned, [rule("get delete", "pods builds"), rule("get", "*/scale")])
    assert missing == [
        rule("delete", "pods"), rule("get", "builds"), rule("get", "*/scale"),
    ]  # fmt: skip
    assert not missing_rules([rule("get", "*/scale")], [rule("get", "foo/scale")])
    assert missing_rules([rule("get", "*/scale")], [rule("get", "scale")])
    assert missing_rules([rule("get", "pods", names="a")], [rule("get", "pods")])
    assert not missing_rules([rule("get", "pods")], [rule("get", "pods", names="a b")])


def test_missing_rules_are_described_as_by_an_api_server() -> None:
    url = PolicyRule(verbs=("get", "post"), nonResourceURLs=("/x",))
    wanted = [rule("list get", "pods"), rule("get", "pods", names="a"), url]
    assert described(missing_rules([], wanted)).splitlines() == [
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}',
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "get"]}',
        '{NonResourceURLs:["/x"], Verbs:["get"]}',
        '{NonResourceURLs:["/x"], Verbs:["post"]}',
    ]


def cluster_role(name: str, *rules: PolicyRule) -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name), rules=rules)


def cluster_binding(name: str, role: str, *subjects: Subject) -> ClusterRoleBinding:
    ref = RoleRef(apiGroup=GROUP, kind="ClusterRole", name=role)
    return ClusterRoleBinding(metadata=ObjectMeta(name=name), roleRef=ref, subjects=subjects)


def binding(name: str, kind: str, role: str, *subjects: Subject) -> RoleBinding:
    ref = RoleRef(apiGroup=GROUP, kind=kind, name=role)
    meta = ObjectMeta(name=name, namespace="team")
    return RoleBinding(metadata=meta, roleRef=ref, subjects=subjects)


def account(name: str, namespace: str = "") -> Subject:
    return Subject(kind="ServiceAccount", name=name, namespace=namespace)


def group(name: str) -> Subject:
    return Subject(apiGroup=GROUP, kind="Group", name=name)


CONFIG = ConfigMap(metadata=ObjectMeta(name="c", namespace="team"))
READER = cluster_role("reader", rule("list", "pods"))


@pytest.mark.parametrize(
    ("subject", "source"),
    [
        (Subject(apiGroup=GROUP, kind="User", name=ROBOT.name), f'User "{ROBOT.name}"'),
        (group("system:serviceaccounts:team"), 'Group "system:serviceaccounts:team"'),
        (account("robot"), 'ServiceAccount "robot/team"'),
        (account("robot", "team"), 'ServiceAccount "robot/team"'),
        (account("robot", "other"), ""),
        (account("other"), ""),
        (group("robot"), ""),
        (Subject(apiGroup=GROUP, kind="User", name="robot"), ""),
    ],
)
def test_subjects(subject: Subject, source: str) -> None:
    policy = Policy([READER], bindings=[binding("b", "ClusterRole", "reader", subject)])
    reason = f'RBAC: allowed by RoleBinding "b/team" of ClusterRole "reader" to {source}'
    expected = Decision(True, reason) if source else Decision(False)
    assert policy.decide(ROBOT, LIST_PODS) == expected
    assert not policy.decide(ROBOT, replace(LIST_PODS, namespace="other")).allowed
    assert not policy.decide(ROBOT, replace(LIST_PODS, namespace="")).allowed


def test_a_cluster_role_binding_is_for_all_namespaces() -> None:
    policy = Policy([READER], [cluster_binding("b", "reader", account("robot", "team"))])
    reason = (
        'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to ServiceAccount'
        ' "robot/team"'
    )
    for namespace in ("", "team", "other"):
        wanted = replace(LIST_PODS, namespace=namespace)
        assert policy.decide(ROBOT, wanted) == Decision(True, reason)
    without_namespace = Policy([READER], [cluster_binding("b", "reader", account("robot"))])
    assert not without_namespace.decide(ROBOT, LIST_PODS).allowed


def test_the_first_subject_of_the_first_binding_is_the_reason() -> None:
    both = (group("system:authenticated"), account("robot"))
    bindings = [
        binding("a", "ClusterRole", "nothing", account("robot")),
        binding("b", "ClusterRole", "reader", *both),
        binding("c", "ClusterRole", "reader", account("robot")),
    ]
    policy = Policy([READER, cluster_role("nothing")], bindings=bindings)
    decision = policy.decide(ROBOT, LIST_PODS)
    assert decision.reason.endswith(
        'RoleBinding "b/team" of ClusterRole "reader" to Group "system:authenticated"'
    )
    assert policy.rules_of(ROBOT, "team") == (READER.rules * 2, [])


def test_roles_that_do_not_exist_are_named() -> None:
    role = Role(metadata=ObjectMeta(name="r", namespace="other"), rules=READER.rules)
    bindings = [
        binding("a", "Role", "r", account("robot")),
        binding("b", "ClusterRole", "r", account("robot")),
    ]
    policy = Policy(roles=[role], bindings=bindings)
    names = [f'{kind}.{GROUP} "r" not found' for kind in ("role", "clusterrole")]
    errors = f"[{', '.join(names)}]"
    assert policy.decide(ROBOT, LIST_PODS) == Decision(False, f"RBAC: {errors}")
    assert policy.rules_of(ROBOT, "team") == ((), [item.roleRef for item in bindings])
    assert policy.role_rules(bindings[0].roleRef, "team") is None
    assert policy.role_rules(bindings[0].roleRef, "other") == READER.rules


def test_masters_need_no_roles() -> None:
    assert Policy().decide(ADMIN, LIST_PODS) == Decision(True)
    assert Policy().decide(User("x", ("system:authenticated",)), LIST_PODS) == Decision(False)


async def test_the_policy_is_made_again_when_a_record_changes() -> None:
    store = open_store(None, clock=SystemClock())
    authorizer = Authorizer(store)

    async def allowed() -> bool:
        return (await authorizer.policy()).decide(ROBOT, LIST_PODS).allowed

    assert not await allowed()
    await store.put("clusterroles", READER)
    await store.put("rolebindings", binding("b", "ClusterRole", "reader", account("robot")))
    assert await allowed()
    policy = await authorizer.policy()
    await store.put("configmaps", CONFIG)
    assert await authorizer.policy() is policy
    await store.put("clusterroles", cluster_role("reader", rule("get", "pods")))
    assert not await allowed()
    await store.put("clusterroles", READER)
    assert await allowed()
    await store.delete("rolebindings", "team", "b")
    assert not await allowed()
    await store.close()
