"""Requests as another user, by the ``Impersonate-…`` headers that ``kubectl --as`` sends.

Implements the constrained impersonation of Kubernetes v1.36 (KEP-5284). A request is checked in
several modes. The modes for nodes, service accounts and other users need two permissions: to be
that user (``impersonate:MODE``), and to do with it what is requested
(``impersonate-on:MODE:VERB``). The last mode needs only the verb ``impersonate``, as all versions
before. One mode is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote

from multidict import MultiMapping

from podtui.manifest.validation.formats import dns_subdomain
from podtui.server.auth.attributes import Attributes
from podtui.server.auth.rbac import Policy
from podtui.server.auth.users import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    NODE_NAME,
    NODES,
    UNAUTHENTICATED,
    User,
    node_of,
    refused,
    service_account_groups,
    service_account_of,
)
from podtui.server.status import StatusError, bad_request
from podtui.text.go_format import quoted

_EXTRA: Final = "impersonate-extra-"
_GROUP: Final = "authentication.k8s.io"
_MANY: Final = 4
"""With this many groups or values, a permission for all of them is looked for first."""


def impersonated(
    user: User, headers: MultiMapping[str], request: Attributes, policy: Policy
) -> User:
    """Return the user that the headers name; without headers ``user``.

    Raises `StatusError` 403 for a user that may not impersonate, and 400 for groups, a UID or extra
    values without a user.
    """
    wanted = _wanted(headers)
    if wanted is None:
        return user
    refusals: list[StatusError] = []
    for mode in _modes(user, wanted):
        try:
            return _Impersonation(user, wanted, policy, mode).checked(request)
        except StatusError as error:
            refusals.append(error)
    raise refusals[0]


def _wanted(headers: MultiMapping[str]) -> User | None:
    name = headers.get("Impersonate-User", "")
    groups = tuple(headers.getall("Impersonate-Group", []))
    uid = headers.get("Impersonate-Uid", "")
    extra = {
        unquote(key[len(_EXTRA) :].lower()): tuple(headers.getall(key))
        for key in headers
        if key.lower().startswith(_EXTRA)
    }
    if name:
        return User(name, groups, uid, extra)
    if groups or uid or extra:
        raise bad_request("requested groups, uid or extra without impersonating a user name")
    return None


def _modes(user: User, wanted: User) -> Iterator[str]:
    """Yield the modes that apply; an empty one is that of earlier versions."""
    node = node_of(wanted.name)
    account = service_account_of(wanted.name)
    only_name = wanted == User(wanted.name)
    if node is not None and only_name:
        if service_account_of(user.name) and user.extra.get(NODE_NAME) == (node,):
            yield "associated-node"
        yield "arbitrary-node"
    if account is not None and only_name:
        yield "serviceaccount"
    if node is None and account is None:
        yield "user-info"
    yield ""


@dataclass(frozen=True, slots=True)
class _Impersonation:
    user: User
    wanted: User
    policy: Policy
    mode: str

    def checked(self, request: Attributes) -> User:
        """Return the user that the request is from then. Raises `StatusError` 403."""
        wanted = self.wanted
        if self.mode:
            verb = f"impersonate-on:{self.mode}:{request.verb}"
            self._check(replace(request, verb=verb))
        groups = self._checked_name()
        if wanted.uid:
            self._check(self._attributes("uids", wanted.uid, _GROUP))
        self._check_groups()
        self._check_extra()
        if wanted.name == ANONYMOUS.name:
            added = UNAUTHENTICATED
        else:
            added = "" if UNAUTHENTICATED in groups else AUTHENTICATED
        if added and added not in groups:
            groups = (*groups, added)
        return replace(wanted, groups=groups)

    def _checked_name(self) -> tuple[str, ...]:
        """Check the name, and return the groups of the user."""
        name, groups = self.wanted.name, self.wanted.groups
        account, node = service_account_of(name), node_of(name)
        if account is not None:
            namespace, name = account
            attributes = replace(self._attributes("serviceaccounts", name), namespace=namespace)
            groups = groups or service_account_groups(namespace)
        elif node is not None and self.mode:
            # An account that may be the node of its own pod may be so on all nodes.
            attributes = self._attributes("nodes", "*" if self.mode == "associated-node" else node)
            groups = (NODES,)
        else:
            attributes = self._attributes("users", name)
        self._check(attributes)
        return groups

    def _check_groups(self) -> None:
        groups, attributes = self.wanted.groups, self._attributes("groups", "")
        if self.mode:
            if "" in groups:
                why = "impersonating the empty string group is not allowed"
                raise refused(self.user, attributes, why)
            if MASTERS in groups:
                why = f"impersonating the {MASTERS} group is not allowed"
                raise refused(self.user, replace(attributes, name=MASTERS), why)
            if len(groups) >= _MANY and self._may(replace(attributes, name="*")):
                return
        for group in groups:
            self._check(replace(attributes, name=group))

    def _check_extra(self) -> None:
        extra, attributes = self.wanted.extra, self._attributes("userextras", "", _GROUP)
        if self.mode:
            for key, values in extra.items():
                if problem := _extra_problem(key, values):
                    raise refused(self.user, attributes, problem)
            count = sum(map(len, extra.values()))
            every = replace(attributes, subresource="*", name="*")
            if count >= _MANY and self._may(every):
                return
        for key, values in extra.items():
            for value in values:
                self._check(replace(attributes, subresource=key, name=value))

    def _attributes(self, resource: str, name: str, group: str = "") -> Attributes:
        verb = f"impersonate:{self.mode}" if self.mode else "impersonate"
        group = _GROUP if self.mode else group
        return Attributes(verb=verb, group=group, version="v1", resource=resource, name=name)

    def _may(self, attributes: Attributes) -> bool:
        return self.policy.decide(self.user, attributes).allowed

    def _check(self, attributes: Attributes) -> None:
        decision = self.policy.decide(self.user, attributes)
        if not decision.allowed:
            raise refused(self.user, attributes, decision.reason)


def _extra_problem(key: str, values: tuple[str, ...]) -> str:
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    domain, _, path = key.partition("/")
    if not domain or not path:
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
    elif problems := dns_subdomain(domain):
        key, why = domain, problems[0]
    elif "" in values:
        return "impersonating the empty string value in extra is not allowed"
    else:
        return ""
    return (
        "impersonating an invalid key in extra is not allowed: extra.key: Invalid value:"
        f" {quoted(key)}: {why}"
    )
