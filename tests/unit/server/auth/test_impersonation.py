"""Impersonation headers, as ``kubectl --as`` sends them."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from podtui.api.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from podtui.api.v1 import ObjectMeta
from podtui.server.auth.attributes import parse_attributes
from podtui.server.auth.impersonation import impersonated
from podtui.server.auth.rbac import GROUP, Policy
from podtui.server.auth.users import ADMIN, User, service_account
from podtui.server.status import StatusError

PODS = parse_attributes("GET", "/api/v1/namespaces/team/pods", {})
ANN = User("ann", ("dev",))
ROBOT = "system:serviceaccount:team:robot"
Headers = dict[str, str]


def policy(*rules: PolicyRule, user: str = "ann") -> Policy:
    """Return a policy that gives the rules to a user."""
    meta = ObjectMeta(name="r")
    ref = RoleRef(apiGroup=GROUP, kind="ClusterRole", name="r")
    subject = Subject(apiGroup=GROUP, kind="User", name=user)
    return Policy(
        [ClusterRole(metadata=meta, rules=rules)],
        [ClusterRoleBinding(metadata=meta, roleRef=ref, subjects=(subject,))],
    )


def rule(verb: str, resource: str, group: str = "", *names: str) -> PolicyRule:
    return PolicyRule(verbs=(verb,), apiGroups=(group,), resources=(resource,), resourceNames=names)


def act_as(name: str, *rules: PolicyRule, user: User = ANN, **more: str) -> User:
    headers = CIMultiDict({"Impersonate-User": name})
    for key, value in more.items():
        headers.add(f"Impersonate-{key}", value)
    return impersonated(user, headers, PODS, policy(*rules, user=user.name))


def refusal(name: str, *rules: PolicyRule, user: User = ANN, **more: str) -> str:
    with pytest.raises(StatusError) as error:
        act_as(name, *rules, user=user, **more)
    assert error.value.code == 403
    return str(error.value)


def test_without_headers_the_user_stays() -> None:
    assert impersonated(ADMIN, CIMultiDict(), PODS, Policy()) is ADMIN


def test_the_admin_acts_as_another_user() -> None:
    headers = CIMultiDict(
        [
            ("impersonate-user", "ann"),
            ("Impersonate-Group", "dev"),
            ("Impersonate-Group", "ops"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-acme.com%2FScopes", "a"),
            ("Impersonate-Extra-acme.com%2FScopes", "b"),
        ]
    )
    groups = ("dev", "ops", "system:authenticated")
    expected = User("ann", groups, "7", {"acme.com/scopes": ("a", "b")})
    assert impersonated(ADMIN, headers, PODS, Policy()) == expected
    masters = CIMultiDict({"Impersonate-User": "ann", "Impersonate-Group": "system:masters"})
    found = impersonated(ADMIN, masters, PODS, Policy())
    assert found.groups == ("system:masters", "system:authenticated")


def test_a_service_account_has_its_groups() -> None:
    assert act_as(ROBOT, user=ADMIN) == service_account("team", "robot", "", {})
    with_groups = act_as(ROBOT, user=ADMIN, Group="dev")
    assert with_groups.groups == ("dev", "system:authenticated")


def test_a_node_has_the_group_of_nodes() -> None:
    assert act_as("system:node:n1", user=ADMIN).groups == ("system:nodes", "system:authenticated")


def test_the_anonymous_user_is_not_authenticated() -> None:
    assert act_as("system:anonymous", user=ADMIN).groups == ("system:unauthenticated",)
    found = act_as("bob", user=ADMIN, Group="system:unauthenticated")
    assert found.groups == ("system:unauthenticated",)


def test_the_verb_impersonate_is_enough_for_everything() -> None:
    users = rule("impersonate", "users", "", "bob")
    assert act_as("bob", users).groups == ("system:authenticated",)
    assert act_as(ROBOT, rule("impersonate", "serviceaccounts", "", "robot")).name == ROBOT
    groups = rule("impersonate", "groups", "", "dev")
    uids = rule("impersonate", "uids", "authentication.k8s.io")
    extra = rule("impersonate", "userextras/scopes", "authentication.k8s.io", "a")
    rules = (users, groups, uids, extra)
    more = {"Group": "dev", "Uid": "7", "Extra-scopes": "a"}
    assert act_as("bob", *rules, **more).extra == {"scopes": ("a",)}
    for missing in range(len(rules)):
        assert refusal("bob", *rules[:missing], *rules[missing + 1 :], **more)


def test_others_are_refused_as_by_an_api_server() -> None:
    where = 'in API group "" in the namespace "team"'
    assert refusal("bob") == (
        'pods is forbidden: User "ann" cannot impersonate-on:user-info:list resource "pods"'
        f" {where}"
    )
    assert refusal(ROBOT) == (
        'pods is forbidden: User "ann" cannot impersonate-on:serviceaccount:list resource "pods"'
        f" {where}"
    )
    assert refusal("system:node:n1") == (
        'pods is forbidden: User "ann" cannot impersonate-on:arbitrary-node:list resource "pods"'
        f" {where}"
    )
    assert refusal("bob", rule("impersonate-on:user-info:list", "pods")) == (
        'users.authentication.k8s.io "bob" is forbidden: User "ann" cannot impersonate:user-info'
        ' resource "users" in API group "authentication.k8s.io" at the cluster scope'
    )
    # No other mode applies to a service account with groups.
    assert refusal(ROBOT, Group="dev") == (
        'serviceaccounts "robot" is forbidden: User "ann" cannot impersonate resource'
        f' "serviceaccounts" {where}'
    )


def test_constrained_impersonation_needs_two_permissions() -> None:
    be = rule("impersonate:user-info", "users", "authentication.k8s.io", "bob")
    on = rule("impersonate-on:user-info:list", "pods")
    assert act_as("bob", be, on).name == "bob"
    assert refusal("bob", be)
    assert refusal("bob", on)
    assert refusal("eve", be, on)
    robot = rule("impersonate:serviceaccount", "serviceaccounts", "authentication.k8s.io")
    assert act_as(ROBOT, robot, rule("impersonate-on:serviceaccount:list", "pods")).name == ROBOT
    assert refusal(ROBOT, robot, on)


def test_a_service_account_acts_as_the_node_of_its_pod() -> None:
    extra = {"authentication.kubernetes.io/node-name": ("n1",)}
    robot = service_account("team", "robot", "", extra)
    be = rule("impersonate:associated-node", "nodes", "authentication.k8s.io")
    rules = (be, rule("impersonate-on:associated-node:list", "pods"))
    assert act_as("system:node:n1", *rules, user=robot).name == "system:node:n1"
    assert refusal("system:node:n2", *rules, user=robot)
    assert refusal("system:node:n1", *rules)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"Group": "system:masters"}, "impersonating the system:masters group is not allowed"),
        ({"Group": ""}, "impersonating the empty string group is not allowed"),
        ({"Extra-": "a"}, "impersonating the empty string key in extra is not allowed"),
        ({"Extra-a": "a"}, 'must be a domain-prefixed path (such as "acme.io/foo")'),
        ({"Extra-a_b%2Fc": "a"}, 'Invalid value: "a_b": a lowercase RFC 1123 subdomain'),
        ({"Extra-a.b%2Fc": ""}, "impersonating the empty string value in extra is not allowed"),
    ],
)
def test_what_constrained_impersonation_never_allows(more: Headers, problem: str) -> None:
    rules = [rule("impersonate:user-info", "*", "authentication.k8s.io")]
    rules.append(rule("impersonate-on:user-info:list", "pods"))
    assert problem in refusal("bob", *rules, **more)


def test_groups_without_a_user_are_a_bad_request() -> None:
    with pytest.raises(StatusError, match="without impersonating a user") as no:
        impersonated(ADMIN, CIMultiDict({"Impersonate-Group": "dev"}), PODS, Policy())
    assert no.value.code == 400
