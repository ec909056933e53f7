"""Users and their groups. What they may do is decided by RBAC (`podtui.server.auth.rbac`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.api.v1 import StatusDetails
from podtui.manifest.validation.formats import dns_label, dns_subdomain
from podtui.server.auth.attributes import Attributes
from podtui.server.status import StatusError
from podtui.text.go_format import quoted

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
NODES: Final = "system:nodes"
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""The extra value of a service account whose token is bound to a pod or a node."""
_ACCOUNT: Final = "system:serviceaccount:"
_NODE: Final = "system:node:"
_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""The API server's message about a request must not look like HTML."""


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


ADMIN: Final = User("podtui:admin", (MASTERS, AUTHENTICATED))
"""The owner of the root directory: over the unix socket, or with the token."""
ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))


def service_account(
    namespace: str, name: str, uid: str, extra: Mapping[str, tuple[str, ...]]
) -> User:
    groups = (*service_account_groups(namespace), AUTHENTICATED)
    return User(service_account_name(namespace, name), groups, uid, extra)


def service_account_name(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"{_ACCOUNT}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"


def service_account_of(user: str) -> tuple[str, str] | None:
    """Return (namespace, name) of a service account's user name; None for other users."""
    namespace, colon, name = user.removeprefix(_ACCOUNT).partition(":")
    if not user.startswith(_ACCOUNT) or not colon or dns_label(namespace) or dns_subdomain(name):
        return None
    return namespace, name


def node_of(user: str) -> str | None:
    """Return the name in a node's user name; None for other users."""
    name = user.removeprefix(_NODE)
    return None if not user.startswith(_NODE) or dns_subdomain(name) else name


def refused(user: User, wanted: Attributes, reason: str = "") -> StatusError:
    """Return the error of a request that is not allowed, in the API server's words. ``reason`` is
    that of the authorizer."""
    text = _refusal(user, wanted).translate(_HTML)
    resource = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    named = f"{resource} {quoted(wanted.name)} is " if wanted.name else f"{resource} is "
    message = f"{named if resource else ''}forbidden: {text}"
    details = StatusDetails(name=wanted.name, group=wanted.group, kind=wanted.resource)
    return StatusError(403, f"{message}: {reason}" if reason else message, details=details)


def _refusal(user: User, wanted: Attributes) -> str:
    who = f"User {quoted(user.name)} cannot {wanted.verb}"
    if not wanted.resource:
        return f"{who} path {quoted(wanted.path)}"
    resource = f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
    where = (
        f"in the namespace {quoted(wanted.namespace)}"
        if wanted.namespace
        else "at the cluster scope"
    )
    return f'{who} resource {quoted(resource)} in API group "{wanted.group}" {where}'
