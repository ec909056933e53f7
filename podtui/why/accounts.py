"""Diagnoses of service accounts: the rules that roles and bindings grant them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from podtui.api.health import Health
from podtui.api.rbac import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    Subject,
)
from podtui.api.v1 import Pod, ServiceAccount
from podtui.text.terminal_text import plural
from podtui.why.inventory import Inventory
from podtui.why.types import Diagnosis, Kind

_DOCS: Final = "https://kubernetes.io/docs/reference/access-authn-authz/rbac/"
_RBAC: Final = (ClusterRole, ClusterRoleBinding, Role, RoleBinding)
MAX_RULES: Final = 12


def diagnose_account(inventory: Inventory, item: ServiceAccount) -> Diagnosis:
    meta = item.metadata
    pods = [
        pod.metadata.name
        for pod in inventory.list(Pod, meta.namespace)
        if (pod.spec.serviceAccountName or "default") == meta.name
    ]
    used = f"Used by {plural(len(pods), 'pod')}." if pods else "No pod uses it."
    if not all(inventory.is_read(kind) for kind in _RBAC):
        return _account("AccessUnknown", "Roles and bindings cannot be read.", (used,))
    bindings = list(bindings_of(inventory, meta.namespace, meta.name))
    missing = [f"{name} names the {kind} {role}, which does not exist."
               for name, kind, role, _, rules in bindings if rules is None]  # fmt: skip
    if missing:
        return Diagnosis(
            cause="RoleMissing",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="role missing",
            title=missing[0],
            brief="role does not exist",
            sentences=(*missing[1:], used),
            advice="Create the role, or correct the binding.",
            docs=_DOCS,
        )
    if not bindings:
        subject = f"--serviceaccount={meta.namespace}:{meta.name}"
        return _account(
            "NoBinding",
            "No binding names it: it may only read discovery documents and review its own access.",
            (used,),
            f"Grant it a role: kubectl create rolebinding {meta.name}-view --clusterrole=view"
            f" {subject} -n {meta.namespace}",
        )
    texts: list[str] = []
    for name, kind, role, namespace, rules in bindings:
        where = f"in the namespace {namespace}" if namespace else "in all namespaces"
        texts.append(f"{name} ({kind} {role}) grants, {where}: {rules_text(rules or ())}.")
    return _account("Access", "It may do what its roles grant.", (*texts, used))


def _account(cause: str, title: str, sentences: tuple[str, ...], advice: str = "") -> Diagnosis:
    return Diagnosis(
        cause=cause,
        kind=Kind.NONE,
        health=Health.RUNNING,
        state="exists",
        title=title,
        sentences=sentences,
        advice=advice,
        docs=_DOCS,
    )


Grant = tuple[str, str, str, str, Sequence[PolicyRule] | None]
"""Binding, kind and name of the role, namespace (empty for all), and the role's rules; None if the
role does not exist."""


def bindings_of(inventory: Inventory, namespace: str, name: str) -> Iterator[Grant]:
    """Yield what bindings grant to a service account itself, not to groups of all accounts."""
    for binding in inventory.list(ClusterRoleBinding):
        if any(_is_account(subject, "", namespace, name) for subject in binding.subjects):
            role = inventory.get(ClusterRole, "", binding.roleRef.name)
            yield (f"The ClusterRoleBinding {binding.metadata.name}", "ClusterRole",
                   binding.roleRef.name, "", None if role is None else role.rules)  # fmt: skip
    for binding in inventory.list(RoleBinding):
        where, ref = binding.metadata.namespace, binding.roleRef
        if not any(_is_account(subject, where, namespace, name) for subject in binding.subjects):
            continue
        role = (
            inventory.get(ClusterRole, "", ref.name)
            if ref.kind == "ClusterRole"
            else inventory.get(Role, where, ref.name)
        )
        yield (f"The RoleBinding {binding.metadata.name}", ref.kind, ref.name, where,
               None if role is None else role.rules)  # fmt: skip


def _is_account(subject: Subject, where: str, namespace: str, name: str) -> bool:
    if subject.kind == "ServiceAccount":
        return (subject.namespace or where, subject.name) == (namespace, name)
    return subject.kind == "User" and subject.name == f"system:serviceaccount:{namespace}:{name}"


def rules_text(rules: Sequence[PolicyRule]) -> str:
    """Return rules in short: ``get, list pods, deployments.apps``."""
    texts = [_rule_text(rule) for rule in rules[:MAX_RULES]]
    rest = len(rules) - MAX_RULES
    return "; ".join(texts or ["nothing"]) + (f"; and {rest:,} more rules" if rest > 0 else "")


def _rule_text(rule: PolicyRule) -> str:
    verbs = ", ".join(rule.verbs)
    if rule.nonResourceURLs:
        return f"{verbs} {', '.join(rule.nonResourceURLs)}"
    names = f" named {', '.join(rule.resourceNames)}" if rule.resourceNames else ""
    groups = [group for group in rule.apiGroups if group]
    of = f" ({', '.join(groups)})" if groups else ""
    return f"{verbs} {', '.join(rule.resources)}{of}{names}"
