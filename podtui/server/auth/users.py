"""Users, and what they are allowed to do.

There is no RBAC: the owner of the root directory may do everything. A service account may read the
API's discovery documents and review its own access, as the default roles of Kubernetes allow.
Without credentials, only health and version are answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.server.auth.attributes import Attributes

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
_PREFIX: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


ADMIN: Final = User("podtui:admin", (MASTERS, AUTHENTICATED))
"""The owner of the root directory: over the unix socket, or with the token."""
ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


def service_account(
    namespace: str, name: str, uid: str, extra: Mapping[str, tuple[str, ...]]
) -> User:
    groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(f"{_PREFIX}{namespace}:{name}", groups, uid, extra)


def service_account_of(user: str) -> tuple[str, str] | None:
    """Return (namespace, name) of a service account's user name; None for other users."""
    if not user.startswith(_PREFIX):
        return None
    namespace, colon, name = user[len(_PREFIX) :].partition(":")
    return (namespace, name) if colon and namespace and name else None


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """Verbs on resources, with the meaning of RBAC's rules; ``*`` stands for all."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]

    def covers(self, wanted: Attributes) -> bool:
        resource = wanted.resource
        if wanted.subresource:
            resource += f"/{wanted.subresource}"
        return (
            _has(self.verbs, wanted.verb)
            and _has(self.groups, wanted.group)
            and _has(self.resources, resource)
        )


@dataclass(frozen=True, slots=True)
class PathRule:
    """Verbs on paths that are no resources; a trailing ``*`` stands for any ending."""

    verbs: tuple[str, ...]
    paths: tuple[str, ...]

    def covers(self, wanted: Attributes) -> bool:
        return _has(self.verbs, wanted.verb) and any(
            wanted.path == path or (path.endswith("*") and wanted.path.startswith(path[:-1]))
            for path in self.paths
        )


def _has(values: tuple[str, ...], value: str) -> bool:
    return "*" in values or value in values


_PUBLIC: Final = PathRule(("get",), ("/healthz", "/livez", "/readyz", "/version", "/version/"))
_DISCOVERY: Final = PathRule(
    ("get",),
    (
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ),
)
_ISSUER: Final = PathRule(
    ("get",),
    ("/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks",
     "/openid/v1/jwks/"),
)  # fmt: skip
_SELF_REVIEWS: Final = (
    ResourceRule(
        ("create",),
        ("authorization.k8s.io",),
        ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
    ),
    ResourceRule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",)),
)


def rules_of(user: User) -> tuple[tuple[ResourceRule, ...], tuple[PathRule, ...]]:
    """Return what the user may do."""
    if MASTERS in user.groups:
        return (ResourceRule(("*",), ("*",), ("*",)),), (PathRule(("*",), ("*",)),)
    if SERVICE_ACCOUNTS in user.groups:
        return _SELF_REVIEWS, (_DISCOVERY, _ISSUER)
    if AUTHENTICATED in user.groups:
        return _SELF_REVIEWS, (_DISCOVERY,)
    return (), (_PUBLIC,)


def may(user: User, wanted: Attributes) -> bool:
    resources, paths = rules_of(user)
    return any(rule.covers(wanted) for rule in (resources if wanted.resource else paths))


def refusal(user: User, wanted: Attributes) -> str:
    """Return the message of a request that is not allowed, in the API server's words."""
    if not wanted.resource:
        return f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
    resource = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    named = f'{resource} "{wanted.name}"' if wanted.name else resource
    kind = f"{wanted.resource}/{wanted.subresource}" if wanted.subresource else wanted.resource
    where = (
        f' in the namespace "{wanted.namespace}"' if wanted.namespace else " at the cluster scope"
    )
    return (
        f'{named} is forbidden: User "{user.name}" cannot {wanted.verb} resource "{kind}"'
        f' in API group "{wanted.group}"{where}'
    )
