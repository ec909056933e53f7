"""Rules for roles and bindings of RBAC."""

from __future__ import annotations

from typing import Final

from podtui.api.rbac import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from podtui.manifest.validation.errors import (
    Errors,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.formats import dns_subdomain, path_segment
from podtui.manifest.validation.metadata import label_selector, object_meta

GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def validate_role(item: Role) -> Errors:
    yield from object_meta(item.metadata, "metadata", name_rule=path_segment)
    for index, rule in enumerate(item.rules):
        yield from _rule(rule, f"rules[{index}]", namespaced=True)


def validate_cluster_role(item: ClusterRole) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False, name_rule=path_segment)
    for index, rule in enumerate(item.rules):
        yield from _rule(rule, f"rules[{index}]", namespaced=False)
    if item.aggregationRule is not None:
        path = "aggregationRule.clusterRoleSelectors"
        if not item.aggregationRule.clusterRoleSelectors:
            why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            yield required(path, why)
        for index, selector in enumerate(item.aggregationRule.clusterRoleSelectors):
            errors = list(label_selector(selector, f"{path}[{index}]"))
            yield from errors
            if errors:
                yield invalid(f"{path}[{index}]", None, "invalid label selector.")


def _rule(rule: PolicyRule, path: str, *, namespaced: bool) -> Errors:
    if not rule.verbs:
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.nonResourceURLs
    if urls:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, why)
        if rule.apiGroups or rule.resources or rule.resourceNames:
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, why)
        return
    if not rule.apiGroups:
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.resources:
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def validate_role_binding(item: RoleBinding) -> Errors:
    yield from object_meta(item.metadata, "metadata", name_rule=path_segment)
    yield from _role_ref(item.roleRef, ("Role", "ClusterRole"))
    for index, subject in enumerate(item.subjects):
        yield from _subject(subject, f"subjects[{index}]", namespaced=True)


def validate_cluster_role_binding(item: ClusterRoleBinding) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False, name_rule=path_segment)
    yield from _role_ref(item.roleRef, ("ClusterRole",))
    for index, subject in enumerate(item.subjects):
        yield from _subject(subject, f"subjects[{index}]", namespaced=False)


def validate_role_ref_update(new: RoleRef, old: RoleRef) -> Errors:
    if new != old:
        yield invalid("roleRef", new, "cannot change roleRef")


def _role_ref(role: RoleRef, kinds: tuple[str, ...]) -> Errors:
    if role.apiGroup != GROUP:
        yield not_supported("roleRef.apiGroup", role.apiGroup, (GROUP,), plain=True)
    if role.kind not in kinds:
        yield not_supported("roleRef.kind", role.kind, kinds, plain=True)
    if not role.name:
        yield required("roleRef.name")
    yield from invalid_each("roleRef.name", role.name, path_segment(role.name))


def _subject(subject: Subject, path: str, *, namespaced: bool) -> Errors:
    if not subject.name:
        yield required(f"{path}.name")
    group = subject.apiGroup
    match subject.kind:
        case "ServiceAccount":
            if subject.name:
                yield from invalid_each(f"{path}.name", subject.name, dns_subdomain(subject.name))
            if group:
                yield not_supported(f"{path}.apiGroup", group, ("",), plain=True)
            if not namespaced and not subject.namespace:
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group != GROUP:
                yield not_supported(f"{path}.apiGroup", group, (GROUP,), plain=True)
        case _:
            yield not_supported(f"{path}.kind", subject.kind, _SUBJECTS, plain=True)
