"""RBAC: what the rules of roles allow, and to whom bindings give them.

A `Policy` is made from the stored roles and bindings. Rules only ever allow, so a request is
checked against the rules of each binding that names the user or one of its groups, until one
matches. The bindings are kept by user and by group: most of them have nothing to do with a request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, Final, cast

from aiohttp import web
from msgspec import structs

from podtui.api.objects import Object
from podtui.api.rbac import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from podtui.server.auth.attributes import Attributes
from podtui.server.auth.users import MASTERS, User, service_account_name
from podtui.store.protocol import Records
from podtui.store.resources import Resource
from podtui.text.go_format import aggregated, quoted

GROUP: Final = "rbac.authorization.k8s.io"
ALL: Final = "*"
_RECORDS: Final[tuple[Resource, ...]] = (
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
)
Rules = tuple[PolicyRule, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """``reason`` names the binding that allows a request, or the roles that do not exist."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """The rules that a binding gives to one subject. ``order`` has the number of the binding and
    that of the subject; ``namespace`` is empty for all namespaces. ``rules`` is None if the role
    does not exist."""

    order: tuple[int, int]
    namespace: str
    source: str
    role: RoleRef
    rules: Rules | None


# --- one rule


def rule_allows(rule: PolicyRule, wanted: Attributes) -> bool:
    """Return whether a rule allows a request, as RBAC defines it."""
    if not _has(rule.verbs, wanted.verb):
        return False
    if not wanted.resource:
        return any(url_covers(url, wanted.path) for url in rule.nonResourceURLs)
    return (
        _has(rule.apiGroups, wanted.group)
        and _has_resource(rule.resources, wanted.resource, wanted.subresource)
        and (not rule.resourceNames or wanted.name in rule.resourceNames)
    )


def _has(values: Sequence[str], value: str) -> bool:
    return ALL in values or value in values


def _has_resource(resources: Sequence[str], resource: str, subresource: str) -> bool:
    if ALL in resources:
        return True
    if not subresource:
        return resource in resources
    return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def url_covers(url: str, path: str) -> bool:
    """Return whether a rule for ``url``, which may end in ``*``, applies to a path."""
    return url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


# --- rules that cover others


def missing_rules(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the parts of the wanted rules that no owned rule covers, each with one verb."""
    parts = (part for rule in wanted for part in _parts(rule))
    return [part for part in parts if not any(_covers(rule, part) for rule in owned)]


def _parts(rule: PolicyRule) -> Iterator[PolicyRule]:
    """Split a rule into rules with one verb, group, resource and name, or with one URL."""
    for group, resource, verb in product(rule.apiGroups, rule.resources, rule.verbs):
        part = PolicyRule(apiGroups=(group,), resources=(resource,), verbs=(verb,))
        if not rule.resourceNames:
            yield part
        for name in rule.resourceNames:
            yield structs.replace(part, resourceNames=(name,))
    for url, verb in product(rule.nonResourceURLs, rule.verbs):
        yield PolicyRule(nonResourceURLs=(url,), verbs=(verb,))


def _covers(rule: PolicyRule, part: PolicyRule) -> bool:
    """``part`` is one that `_parts` returns."""
    if not _has(rule.verbs, part.verbs[0]):
        return False
    if part.nonResourceURLs:
        return any(url_covers(url, part.nonResourceURLs[0]) for url in rule.nonResourceURLs)
    resource = part.resources[0]
    _, slash, subresource = resource.partition("/")
    of_any_resource = f"*/{subresource}" if slash else resource
    return (
        _has(rule.apiGroups, part.apiGroups[0])
        and (_has(rule.resources, resource) or of_any_resource in rule.resources)
        and (
            not rule.resourceNames or any(name in rule.resourceNames for name in part.resourceNames)
        )
    )


def described(rules: Iterable[PolicyRule]) -> str:
    """Return the text of missing rules in the API server's error message, a line for each. Rules
    for the same object are joined."""
    joined: dict[Sequence[object], PolicyRule] = {}
    for rule in rules:
        # The verbs of one URL are not joined.
        same = rule.verbs if rule.nonResourceURLs else ()
        key = (rule.apiGroups, rule.resources, rule.resourceNames, rule.nonResourceURLs, same)
        verbs = joined[key].verbs if key in joined and not same else ()
        joined[key] = structs.replace(rule, verbs=(*verbs, *rule.verbs))
    return "\n".join(sorted({_text(rule) for rule in joined.values()}))


def _text(rule: PolicyRule) -> str:
    parts = {
        "APIGroups": rule.apiGroups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.nonResourceURLs,
        "ResourceNames": rule.resourceNames,
        "Verbs": rule.verbs,
    }
    return "{" + ", ".join(f"{name}:{go_list(part)}" for name, part in parts.items() if part) + "}"


def go_list(texts: Iterable[str]) -> str:
    """Return a list of texts as Go prints it with ``%q``."""
    return f"[{' '.join(map(quoted, texts))}]"


# --- roles and bindings


class Policy:
    """The roles and bindings of all namespaces at one time.

    Members of ``system:masters`` may do everything, whatever roles there are.
    """

    def __init__(
        self,
        cluster_roles: Iterable[ClusterRole] = (),
        cluster_bindings: Iterable[ClusterRoleBinding] = (),
        roles: Iterable[Role] = (),
        bindings: Iterable[RoleBinding] = (),
    ) -> None:
        self._cluster_roles = {role.metadata.name: role.rules for role in cluster_roles}
        self._roles = {(role.metadata.namespace, role.metadata.name): role.rules for role in roles}
        self._users: defaultdict[str, list[Grant]] = defaultdict(list)
        self._groups: defaultdict[str, list[Grant]] = defaultdict(list)
        for number, binding in enumerate(chain(cluster_bindings, bindings)):
            self._add(number, binding)

    def _add(self, number: int, binding: ClusterRoleBinding | RoleBinding) -> None:
        namespace = binding.metadata.namespace
        rules = self.role_rules(binding.roleRef, namespace)
        for position, subject in enumerate(binding.subjects):
            order, source = (number, position), _source(binding, subject)
            grant = Grant(order, namespace, source, binding.roleRef, rules)
            match subject.kind:
                case "User":
                    self._users[subject.name].append(grant)
                case "Group":
                    self._groups[subject.name].append(grant)
                case "ServiceAccount" if subject.namespace or namespace:
                    account = service_account_name(subject.namespace or namespace, subject.name)
                    self._users[account].append(grant)
                case _:
                    pass

    def role_rules(self, role: RoleRef, namespace: str) -> Rules | None:
        """Return the rules of a role that a binding refers to; None if it does not exist.
        ``namespace`` is that of the binding."""
        if role.kind == "ClusterRole":
            return self._cluster_roles.get(role.name)
        return self._roles.get((namespace, role.name))

    def decide(self, user: User, wanted: Attributes) -> Decision:
        if MASTERS in user.groups:
            return Decision(True)
        missing: list[RoleRef] = []
        for grant in self._grants(user, wanted.namespace):
            if grant.rules is None:
                missing.append(grant.role)
            elif any(rule_allows(rule, wanted) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.source}")
        return Decision(False, f"RBAC: {not_found(missing)}" if missing else "")

    def rules_of(self, user: User, namespace: str) -> tuple[Rules, list[RoleRef]]:
        """Return the rules that apply to a user in a namespace, and the roles that do not exist."""
        grants = self._grants(user, namespace)
        missing = [grant.role for grant in grants if grant.rules is None]
        return tuple(rule for grant in grants for rule in grant.rules or ()), missing

    def _grants(self, user: User, namespace: str) -> Iterable[Grant]:
        """Return the grants in the order of the bindings; of a binding, that of the first subject
        which is the user."""
        grants = [*self._users.get(user.name, ())]
        for group in user.groups:
            grants += self._groups.get(group, ())
        first: dict[int, Grant] = {}
        for grant in sorted(grants, key=lambda grant: grant.order):
            if grant.namespace in ("", namespace):
                first.setdefault(grant.order[0], grant)
        return first.values()


def not_found(roles: Iterable[RoleRef]) -> str:
    """Return the authorizer's error about roles that do not exist."""
    return aggregated(
        f"{role.kind.lower()}.{GROUP} {quoted(role.name)} not found" for role in roles
    )


def _source(binding: ClusterRoleBinding | RoleBinding, subject: Subject) -> str:
    namespace = binding.metadata.namespace
    name, whom = binding.metadata.name, subject.name
    if namespace:
        name += f"/{namespace}"
    if subject.kind == "ServiceAccount":
        whom += f"/{subject.namespace or namespace}"
    role = binding.roleRef
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return (
        f"{kind} {quoted(name)} of {role.kind} {quoted(role.name)} to {subject.kind} {quoted(whom)}"
    )


class Authorizer:
    """Decides by the stored roles and bindings. The policy is made again when one has changed."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._objects: tuple[tuple[Object, ...], ...] = ()
        self._policy = Policy()

    async def policy(self) -> Policy:
        # Objects never change, so that to compare them is to compare their versions. It is quick:
        # most are identical.
        objects = tuple([(await self._records.list(name)).items for name in _RECORDS])
        if objects != self._objects:
            self._policy = Policy(*cast("Any", objects))
            self._objects = objects
        return self._policy


AUTHORIZER: Final = web.AppKey("authorizer", Authorizer)
