"""Detection of pods copied from a cluster (``kubectl get pod -o yaml``), and of the fields that the
API server, its admission plug-ins and the kubelet added to them. A manifest does not need these
fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from podtui.api import names
from podtui.api.local import Severity
from podtui.manifest.document import Document, Path, Problem, path_text

CODE: Final = "ClusterCopy"
_METADATA: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
_SIGNS: Final = (
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
_ANNOTATIONS: Final = re.compile(
    r"kubectl\.kubernetes\.io/last-applied-configuration"
    r"|kubernetes\.io/(?:config\.(?:hash|mirror|seen|source)|limit-ranger|psp)"
    r"|podtui\.dev/.*|cni\.projectcalico\.org/.*|k8s\.v1\.cni\.cncf\.io/network(?:s)?-status|k8s\.ovn\.org/.*"
)
_LABELS: Final = frozenset(
    {
        "batch.kubernetes.io/controller-uid",
        "controller-revision-hash",
        "controller-uid",
        "pod-template-generation",
        "pod-template-hash",
    }
)
_SPEC: Final = ("nodeName", "serviceAccount", "serviceAccountName")
_DEFAULTS: Final = {
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "schedulerName": "default-scheduler",
}
_TOKEN_VOLUME: Final = re.compile(r"kube-api-access-[a-z0-9]{5}|default-token-[a-z0-9]{5}")
_TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_MOST_NAMED: Final = 4

Tree = dict[str, Any]


def _map(value: object) -> Tree:
    return cast("Tree", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[Tree]:
    return [_map(item) for item in cast("list[Any]", value)] if isinstance(value, list) else []


def is_copy(tree: Tree) -> bool:
    """Return whether the object was read from an API server. A single field is no proof: people
    write some of these fields by hand."""
    metadata, status, spec = (_map(tree.get(name)) for name in ("metadata", "status", "spec"))
    if any(_is_token_volume(volume) for volume in _items(spec.get("volumes"))):
        return True
    signs = [*(metadata.get(name) for name in _SIGNS), spec.get("nodeName")]
    signs += [status.get("phase") or status.get("conditions")]
    return sum(map(bool, signs)) > 1


def _is_token_volume(volume: Tree) -> bool:
    name = volume.get("name")
    if not isinstance(name, str) or _TOKEN_VOLUME.fullmatch(name) is None:
        return False
    sources = _items(_map(volume.get("projected")).get("sources"))
    return "secret" in volume or any("serviceAccountToken" in source for source in sources)


def added_fields(tree: Tree) -> tuple[Path, ...]:
    """Return the paths of the fields that the cluster added; a parent whose children were all added
    replaces them."""
    if not is_copy(tree):
        return ()
    return tuple(_added(tree))


def _added(tree: Tree) -> Iterator[Path]:
    metadata, spec = _map(tree.get("metadata")), _map(tree.get("spec"))
    annotations, labels = _map(metadata.get("annotations")), _map(metadata.get("labels"))
    yield from _of_map(
        ("metadata", "annotations"),
        annotations,
        [key for key in annotations if _ANNOTATIONS.fullmatch(key)],
    )
    yield from _of_map(("metadata", "labels"), labels, [key for key in labels if key in _LABELS])
    for name in _METADATA:
        if name in metadata:
            yield "metadata", name
    if metadata.get("name") and "generateName" in metadata:
        yield "metadata", "generateName"
    for name in _SPEC:
        if name in spec:
            yield "spec", name
    named_class = spec.get("priorityClassName")
    for name, default in _DEFAULTS.items():
        if spec.get(name) == default and not (name == "priority" and named_class):
            yield "spec", name
    tolerations = _items(spec.get("tolerations"))
    yield from _of_list(
        ("spec", "tolerations"),
        tolerations,
        [_is_default_toleration(toleration) for toleration in tolerations],
    )
    volumes = _items(spec.get("volumes"))
    tokens = {str(volume.get("name")) for volume in volumes if _is_token_volume(volume)}
    yield from _of_list(
        ("spec", "volumes"), volumes, [str(volume.get("name")) in tokens for volume in volumes]
    )
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(_items(spec.get(kind))):
            mounts = _items(container.get("volumeMounts"))
            yield from _of_list(
                ("spec", kind, index, "volumeMounts"),
                mounts,
                [_is_token_mount(mount, tokens) for mount in mounts],
            )
    if "status" in tree:
        yield ("status",)


def _is_default_toleration(toleration: Tree) -> bool:
    """Return whether the API server, the DaemonSet controller or the kubelet adds this
    toleration."""
    if toleration.get("operator") != "Exists":
        return False
    key = toleration.get("key")
    if key is None:
        return toleration == {"effect": "NoExecute", "operator": "Exists"}
    return isinstance(key, str) and key.startswith("node.kubernetes.io/")


def _is_token_mount(mount: Tree, tokens: Iterable[str]) -> bool:
    return mount.get("mountPath") == _TOKEN_PATH and str(mount.get("name")) in tokens


def _of_map(path: Path, entries: Tree, added: list[str]) -> Iterator[Path]:
    if added and len(added) == len(entries):
        yield path
    else:
        yield from ((*path, key) for key in added)


def _of_list(path: Path, items: list[Tree], added: list[bool]) -> Iterator[Path]:
    if items and all(added):
        yield path
    else:
        yield from ((*path, index) for index, it in enumerate(added) if it)


def as_copy(problems: Iterable[Problem], document: Document, *, strict: bool) -> list[Problem]:
    """Replace the problems about fields that a cluster added by a single problem.

    With ``strict`` the errors are kept too, because the kubelet reports them.
    """
    remaining = list(problems)
    tree = _map(document.value)
    added = added_fields(tree)
    covered = [problem for problem in remaining if _is_below(problem.path, added)]
    if not covered:
        return remaining
    error = not strict and any(p.severity is Severity.ERROR for p in covered)
    severity = Severity.ERROR if error else Severity.WARNING
    gone = [p for p in covered if not strict or p.severity is Severity.WARNING]
    rest = [problem for problem in remaining if problem not in gone]
    return [*rest, _copy(added, document, severity), *_mirror_name(tree)]


def _is_below(path: Path, above: Iterable[Path]) -> bool:
    return any(path[: len(prefix)] == prefix for prefix in above)


def _copy(added: tuple[Path, ...], document: Document, severity: Severity) -> Problem:
    first = sorted(added, key=lambda path: _WEIGHTS.get(path, len(_WEIGHTS)))
    named = ", ".join(path_text(path) for path in first[:_MOST_NAMED])
    more = len(added) - _MOST_NAMED
    named += f" and {more} more" if more > 0 else ""
    places = [position for path in added if (position := document.position(path, at_key=True))]
    return Problem(
        code=CODE,
        message="this is a copy of a Pod in a cluster (kubectl get -o yaml); the cluster added"
        f" {named}",
        position=min(places, default=None),
        fix=f"remove {'this field' if len(added) == 1 else f'these {len(added)} fields'}",
        severity=severity,
        remove=added,
    )


_WEIGHTS: Final[dict[Path, int]] = {
    path: weight
    for weight, path in enumerate(
        (
            ("status",),
            ("metadata", "uid"),
            ("metadata", "managedFields"),
            ("spec", "serviceAccountName"),
            ("spec", "nodeName"),
            ("metadata", "resourceVersion"),
        )
    )
}
"""The order in which fields are named in the message."""


def _mirror_name(tree: Tree) -> Iterator[Problem]:
    """Warn about a mirror pod's name, which ends with the node name that the kubelet appended."""
    metadata, spec = _map(tree.get("metadata")), _map(tree.get("spec"))
    name, node = metadata.get("name"), spec.get("nodeName")
    if names.CONFIG_MIRROR not in _map(metadata.get("annotations")):
        return
    if not (isinstance(name, str) and isinstance(node, str) and name.endswith(f"-{node}")):
        return
    plain = name.removesuffix(f"-{node}")
    if plain and node:
        yield Problem(
            code=CODE,
            message=f"the name ends with that of the node {node}, which the kubelet added",
            path=("metadata", "name"),
            fix=f'a valid name: "{plain}"',
            severity=Severity.WARNING,
        )
