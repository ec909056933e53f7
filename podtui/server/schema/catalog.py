"""The catalog of what the API serves: the resources that discovery lists and that the OpenAPI
documents describe.

It has the resources of `podtui.server.resources.definitions`, and bindings, which are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from podtui.api.names import GROUP, METRICS_GROUP_VERSION
from podtui.server.resources import definitions
from podtui.server.resources.resource import AnyResource

_GROUPS: Final = (
    "",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "policy",
    "coordination.k8s.io",
    "node.k8s.io",
    "apps",
    "batch",
    "networking.k8s.io",
    "discovery.k8s.io",
    "apiextensions.k8s.io",
    METRICS_GROUP_VERSION.partition("/")[0],
    GROUP,
)
"""The order of the groups; others follow by name."""


@dataclass(frozen=True, slots=True)
class _Versioned:
    api_version: str

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Kind(_Versioned):
    name: str


@dataclass(frozen=True, slots=True)
class Subresource:
    """``kind`` is that of its requests and responses."""

    name: str
    kind: Kind
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One served resource."""

    kind: Kind
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    is_absent: bool = False
    """True for a kind without objects, which has no schema."""


@dataclass(frozen=True, slots=True)
class GroupVersion(_Versioned):
    resources: tuple[Served, ...]

    @property
    def path(self) -> str:
        """The path without the first slash: ``api/v1``, ``apis/policy/v1``."""
        return f"apis/{self.api_version}" if self.group else f"api/{self.api_version}"


_KINDS: Final[Mapping[str, Kind]] = {
    "attach": Kind("v1", "PodAttachOptions"),
    "binding": Kind("v1", "Binding"),
    "eviction": Kind("policy/v1", "Eviction"),
    "exec": Kind("v1", "PodExecOptions"),
    "portforward": Kind("v1", "PodPortForwardOptions"),
    "scale": Kind("autoscaling/v1", "Scale"),
    "token": Kind("authentication.k8s.io/v1", "TokenRequest"),
}
"""The kinds of subresources that are not the kind of their resource. That of ``proxy`` is named
after it: ``PodProxyOptions``."""


_BINDINGS: Final = Served(
    kind=_KINDS["binding"],
    plural="bindings",
    singular="binding",
    namespaced=True,
    verbs=("create",),
)


def _served(resource: AnyResource) -> Served:
    kind = Kind(resource.api_version, resource.kind)
    return Served(
        kind=kind,
        plural=resource.plural,
        singular=resource.singular,
        namespaced=resource.namespaced,
        verbs=resource.verbs,
        short_names=resource.short_names,
        categories=resource.categories,
        subresources=tuple(
            Subresource(name, _kind(name, kind), verbs)
            for name, verbs in sorted(resource.subresources.items())
        ),
        is_absent=resource.is_absent,
    )


def _kind(subresource: str, owner: Kind) -> Kind:
    if subresource == "proxy":
        return Kind(owner.api_version, f"{owner.name}ProxyOptions")
    return _KINDS.get(subresource, owner)


def group_versions() -> tuple[GroupVersion, ...]:
    """Return the catalog by group and version; resources are sorted by name."""
    served = [_BINDINGS, *map(_served, definitions.ALL)]
    served.sort(key=lambda resource: resource.plural)
    versions = {resource.kind.api_version for resource in served}
    return tuple(
        GroupVersion(version, tuple(r for r in served if r.kind.api_version == version))
        for version in sorted(versions, key=_rank)
    )


def _rank(api_version: str) -> tuple[int, str, int]:
    """Sort by group, then the newest version first: clients prefer the first one."""
    group, _, version = api_version.rpartition("/")
    major = int(version.removeprefix("v")[:1])
    return (_GROUPS.index(group) if group in _GROUPS else len(_GROUPS), group, -major)


def structs_by_kind() -> Mapping[Kind, type[msgspec.Struct]]:
    """Return the types of the objects of every kind that has objects."""
    return {
        Kind(resource.api_version, resource.kind): resource.struct
        for resource in definitions.ALL
        if resource.struct is not None
    }
