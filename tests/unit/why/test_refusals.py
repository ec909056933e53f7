"""Texts with which an API server refuses requests."""

from __future__ import annotations

import shlex

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from why_objects import inventory, make

from podtui.why.missing_rules import missing_rule
from podtui.why.refusals import read_refusal

TEXTS = {
    "QuotaExceeded": 'pods "web-x" is forbidden: exceeded quota: few, requested: pods=1,'
    " used: pods=2, limited: pods=2",
    "QuotaNeedsValues": 'pods "web-x" is forbidden: failed quota: few: must specify limits.cpu'
    " for: c",
    "AccountMissing": 'pods "web-" is forbidden: error looking up service account default/app:'
    ' serviceaccount "app" not found',
    "PriorityClassMissing": 'pods "web-" is forbidden: no PriorityClass with name high was found',
    "LimitRange": 'pods "web-x" is forbidden: [maximum cpu usage per Container is 1, but limit is'
    " 4, maximum memory usage per Pod is 1Gi, but limit is 2Gi]",
    "InvalidTemplate": 'Pod "web-x" is invalid: spec.containers[0].image: Required value',
    "Forbidden": 'pods is forbidden: User "bob" cannot create resource "pods" in API group "" in'
    ' the namespace "default"',
    "Refused": "the webhook denied the request",
}


@pytest.mark.parametrize("cause", TEXTS)
def test_a_refusal_has_its_cause_also_within_an_event(cause: str) -> None:
    for text in (TEXTS[cause], f"Error creating: {TEXTS[cause]}"):
        assert read_refusal(inventory(), "default", text).cause == cause


def test_a_quota_shows_each_resource_and_its_present_use() -> None:
    text = (
        'pods "x" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=2,'
        " used: pods=3,requests.cpu=1, limited: pods=3,requests.cpu=2"
    )
    quota = make("ResourceQuota", "q", status={"hard": {"pods": "3"}, "used": {"pods": "2"}})
    refusal = read_refusal(inventory(quota), "default", text)
    assert refusal.sentences == (
        "pods: 3 of 3 used, 1 more requested; requests.cpu: 1 of 2 used, 2 more requested.",
        "Used now: pods 2 of 3, requests.cpu 0 of ?.",
    )


def test_the_text_of_a_limit_range_is_kept_without_brackets() -> None:
    title = read_refusal(inventory(), "default", TEXTS["LimitRange"]).title
    assert title.endswith("maximum memory usage per Pod is 1Gi, but limit is 2Gi")
    assert "[" not in title


def test_a_missing_rule_of_an_account_has_the_commands_that_grant_it() -> None:
    rule = missing_rule(
        'deployments.apps is forbidden: User "system:serviceaccount:shop:app" cannot list resource'
        ' "deployments" in API group "apps" in the namespace "shop"'
    )
    assert rule is not None
    assert rule.title == (
        "the service account shop/app may not list deployments.apps in the namespace shop"
    )
    assert rule.rule == 'apiGroups: ["apps"], resources: ["deployments"], verbs: ["list"]'
    assert rule.advice == (
        "Grant it: kubectl create role app-list-deployments --verb=list"
        " --resource=deployments.apps --namespace=shop && kubectl create rolebinding"
        " app-list-deployments --role=app-list-deployments --serviceaccount=shop:app"
        " --namespace=shop"
    )


def test_a_missing_rule_for_the_cluster_needs_a_cluster_role() -> None:
    rule = missing_rule(
        'nodes is forbidden: User "bob" cannot watch resource "nodes" in API group "" at the'
        " cluster scope"
    )
    assert rule is not None
    assert "kubectl create clusterrole bob-watch-nodes" in rule.advice
    assert "--user=bob" in rule.advice


def test_a_forbidden_path_is_named() -> None:
    rule = missing_rule('forbidden: User "bob" cannot get path "/metrics"')
    assert rule is not None
    assert rule.what == "get /metrics"
    assert "--non-resource-url=/metrics" in rule.advice


def test_quotes_in_a_log_in_json_are_read() -> None:
    text = r'{"msg":"User \"bob\" cannot get resource \"pods\" in API group \"\""}'
    rule = missing_rule(text)
    assert rule is not None
    assert rule.user == "bob"


@examples(200)
@given(st.text())
def test_any_text_is_a_refusal(text: str) -> None:
    assert read_refusal(inventory(), "default", text).title


@examples(200)
@given(st.from_regex(r"[^\"\n]+", fullmatch=True), st.from_regex(r"\S+", fullmatch=True))
def test_names_in_a_message_never_add_to_the_commands(user: str, verb: str) -> None:
    text = f'User "{user}" cannot {verb} resource "pods" in API group "" in the namespace "n"'
    rule = missing_rule(text)
    if rule is not None:
        role, _, binding = rule.advice.removeprefix("Grant it: ").partition(" && kubectl ")
        assert shlex.split(role)[:3] == ["kubectl", "create", "role"]
        assert len(shlex.split(role)) == 7
        assert len(shlex.split(f"kubectl {binding}")) == 7
