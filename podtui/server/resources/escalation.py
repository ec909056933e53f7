"""Nobody can give rights that they do not have, as in an API server.

A role with new rules, or a binding, is accepted if its author has all the rights in it, may
``escalate`` roles, or may ``bind`` the role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from aiohttp import web
from msgspec import structs

from podtui.api.objects import Object
from podtui.api.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding
from podtui.server.auth.access import ATTRIBUTES, USER
from podtui.server.auth.attributes import Attributes
from podtui.server.auth.rbac import AUTHORIZER, GROUP, Policy, described, go_list, missing_rules
from podtui.server.auth.users import MASTERS, User
from podtui.server.status import bad_request, forbidden, not_found
from podtui.text.go_format import aggregated, quoted

Check = Callable[[Object, Object | None], None]
_EVERYTHING: Final = (
    PolicyRule(verbs=("*",), apiGroups=("*",), resources=("*",)),
    PolicyRule(verbs=("*",), nonResourceURLs=("*",)),
)


async def escalation_check(request: web.Request) -> Check:
    """Return the check of an object that a request writes (new, old), which raises `StatusError`
    403, and 404 for a role that does not exist."""
    user: User = request[USER]
    if MASTERS in user.groups:
        return _accept
    policy = await request.app[AUTHORIZER].policy()
    writer = _Writer(user, request[ATTRIBUTES], policy)

    def check(new: Object, old: Object | None) -> None:
        if old is not None and _only_owners_change(new, old):
            return
        if isinstance(new, Role):
            writer.check_role("roles", new)
        elif isinstance(new, ClusterRole):
            writer.check_cluster_role(new, old)
        elif isinstance(new, RoleBinding):
            writer.check_binding("rolebindings", new)
        elif isinstance(new, ClusterRoleBinding):
            writer.check_binding("clusterrolebindings", new)

    return check


def _accept(new: Object, old: Object | None) -> None:
    pass


def _only_owners_change(new: Object, old: Object) -> bool:
    """Return whether an update changes only what the garbage collector changes."""
    before = old.metadata
    meta = structs.replace(
        new.metadata,
        ownerReferences=before.ownerReferences,
        finalizers=before.finalizers,
        selfLink=before.selfLink,
        managedFields=before.managedFields,
    )
    return structs.replace(new, metadata=meta) == old


class _Writer:
    """The user of a request, and what it may do."""

    def __init__(self, user: User, request: Attributes, policy: Policy) -> None:
        self._user = user
        self._request = request
        self._policy = policy

    def check_cluster_role(self, new: ClusterRole, old: Object | None) -> None:
        if self._may_escalate():
            return
        self.check_role("clusterroles", new)
        owned, _ = self._policy.rules_of(self._user, "")
        if (_aggregates(new) or _aggregates(old)) and missing_rules(owned, _EVERYTHING):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden("clusterroles", new.metadata.name, why, GROUP)

    def check_role(self, plural: str, role: Role | ClusterRole) -> None:
        if not self._may_escalate():
            self._check_rules(plural, role, role.rules)

    def check_binding(self, plural: str, binding: RoleBinding | ClusterRoleBinding) -> None:
        role, namespace = binding.roleRef, self._request.namespace
        if role.kind not in ("ClusterRole", "Role"):
            raise bad_request(f"unsupported role reference kind: {quoted(role.kind)}")
        bind = Attributes(
            verb="bind",
            group=role.apiGroup,
            namespace=namespace,
            resource=f"{role.kind.lower()}s",
            name=role.name,
        )
        if self._policy.decide(self._user, bind).allowed:
            return
        rules = self._policy.role_rules(role, namespace)
        if rules is None:
            # The API server names the resource of the request.
            raise not_found(plural, role.name, GROUP)
        self._check_rules(plural, binding, rules)

    def _may_escalate(self) -> bool:
        escalate = replace(self._request, verb="escalate", subresource="")
        return self._policy.decide(self._user, escalate).allowed

    def _check_rules(self, plural: str, item: Object, rules: Iterable[PolicyRule]) -> None:
        user = self._user
        owned, unknown = self._policy.rules_of(user, self._request.namespace)
        missing = missing_rules(owned, rules)
        if not missing:
            return
        why = (
            f"user {quoted(user.name)} (groups={go_list(user.groups)}) is attempting to grant RBAC"
            f" permissions not currently held:\n{described(missing)}"
        )
        if unknown:
            names = (f"{plural}.{GROUP} {quoted(role.name)} not found" for role in unknown)
            why += f"; resolution errors: [{aggregated(names)}]"
        raise forbidden(plural, item.metadata.name, why, GROUP)


def _aggregates(role: Object | None) -> bool:
    return (
        isinstance(role, ClusterRole)
        and role.aggregationRule is not None
        and bool(role.aggregationRule.clusterRoleSelectors)
    )
