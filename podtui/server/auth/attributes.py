"""The attributes of a request, as authorization defines them: verb, resource, namespace and name.

Follows the API server's ``RequestInfo``: ``/api/VERSION/…`` and ``/apis/GROUP/VERSION/…`` with a
resource are resource requests, every other path is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from podtui.manifest.validation.formats import path_segment
from podtui.server.status import flag_value

_VERBS: Final = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "GET": "get",
    "HEAD": "get",
}
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_LONG_RUNNING: Final = frozenset({"log", "exec", "attach", "portforward", "proxy"})
_LONG_RUNNING_PATHS: Final = ("/exec/", "/attach/", "/portForward/", "/containerLogs/")
"""The kubelet's own."""
_KUBELET_PATHS: Final = frozenset(
    {"attach", "configz", "containerLogs", "exec", "pods", "portForward", "runningpods", "stats"}
)
"""The first parts of the kubelet's paths that the API serves as well, beside ``metrics``."""
_PROXY: Final = "proxy"
_NODE_SUBRESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "checkpoint": ("checkpoint",),
    "configz": ("configz", _PROXY),
    "flagz": ("configz",),
    "healthz": ("healthz", _PROXY),
    "logs": ("log",),
    "metrics": ("metrics",),
    "pods": ("pods", _PROXY),
    "runningpods": ("pods", _PROXY),
    "stats": ("stats",),
    "statusz": ("statusz",),
}
"""The subresources of the node that a kubelet's path needs, by its first part: one is enough. All
others need ``proxy``. With the feature ``KubeletFineGrainedAuthz``."""
_KUBELET_VERBS: Final = {verb: name for verb, name in _VERBS.items() if verb != "HEAD"}
_NAME_TERM: Final = re.compile(r"metadata\.name==?((?:\\.|[^=\\])*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """``resource`` is empty for a request that is not for a resource."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""

    @property
    def long_running(self) -> bool:
        """True for a watch or a stream, which has no time limit."""
        if not self.resource:
            return self.path.startswith(_LONG_RUNNING_PATHS)
        return self.verb == "watch" or self.subresource in _LONG_RUNNING


def parse_attributes(method: str, path: str, query: Mapping[str, str]) -> Attributes:
    parts = [part for part in path.split("/") if part]
    plain = Attributes(verb=method.lower(), path=path)
    match parts:
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return plain
    is_watch_path = rest[0] == "watch"  # Deprecated: ``/api/v1/watch/pods``.
    rest = rest[is_watch_path:]
    if not rest:
        return plain
    namespace = ""
    match rest:
        case ["namespaces", namespace, resource, *names] if resource not in _NAMESPACE_SUBRESOURCES:
            pass
        case ["namespaces", namespace, *names]:
            resource, names = "namespaces", [namespace, *names]
        case _:
            resource, *names = rest
    name, subresource = (*names[:2], "", "")[:2]
    verb = "watch" if is_watch_path else _VERBS.get(method, "")
    if verb == "get" and not name:
        watch = "watch" in query and flag_value(query["watch"])
        verb = "watch" if watch else "list"
        name = _selected_name(query.get("fieldSelector", ""))
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return Attributes(
        verb=verb,
        path=path,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
    )


def _selected_name(field_selector: str) -> str:
    """Return the name that a list or watch is restricted to: a rule may name it."""
    for term in re.findall(r"(?:\\.|[^,\\])+", field_selector):
        match = _NAME_TERM.fullmatch(term.strip())
        if match is not None:
            name = re.sub(r"\\(.)", r"\1", match[1])
            return "" if path_segment(name) else name
    return ""


def authorized_as(wanted: Attributes) -> tuple[Attributes, ...]:
    """Return what a user needs to be allowed for a request; one of several is enough.

    For the kubelet's own paths these are subresources of the node, as in a kubelet: a rule for all
    URLs does not allow exec.
    """
    if wanted.resource:
        return (wanted,)
    first, _, rest = wanted.path.strip("/").partition("/")
    if first not in _KUBELET_PATHS and not (first == "metrics" and rest and rest != "slis"):
        return (wanted,)
    verb = _VERBS.get(wanted.verb.upper(), "")
    subresource = _NODE_SUBRESOURCES.get(first, (_PROXY,))[0]
    node = replace(wanted, verb=verb, version="v1", resource="nodes", subresource=subresource)
    return (node, replace(node, subresource=_PROXY))


def kubelet_attributes(method: str, path: str, node: str) -> tuple[Attributes, ...]:
    """Return what a user needs to be allowed for a request to the server of a node's kubelet; one
    of several is enough."""
    first = path.split("/")[1] if path.startswith("/") else ""
    return tuple(
        Attributes(
            verb=_KUBELET_VERBS.get(method, ""),
            version="v1",
            resource="nodes",
            subresource=subresource,
            name=node,
        )
        for subresource in _NODE_SUBRESOURCES.get(first, (_PROXY,))
    )
