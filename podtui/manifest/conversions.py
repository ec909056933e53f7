"""Conversions of objects in a former version to today's, as edits of their text.

Only exact conversions are offered: the object means the same in today's version, or the API of the
former version would have filled in what is added here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from podtui.api.local import Edit
from podtui.api.places import Path
from podtui.editing.source import Source
from podtui.manifest.kinds import current_version

_SAME: Final = frozenset(
    """CronJob NetworkPolicy Role RoleBinding ClusterRole ClusterRoleBinding IngressClass
    StorageClass CSIDriver Lease RuntimeClass PriorityClass""".split()
)
"""Kinds whose fields are the same in today's version."""
_WITH_SELECTOR: Final = frozenset({"Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"})
"""Kinds whose selector was by default the labels of their template."""
_PATH_TYPE: Final = "ImplementationSpecific"
Tree = dict[str, Any]


class _NotExact(Exception):
    """Raised if an edit of the text is not possible, or would change the meaning."""


def conversion(tree: object, source: Source) -> tuple[Edit, ...]:
    """Return the edits that convert an object to today's version; none if that is not exact."""
    if not isinstance(tree, dict):
        return ()
    value = cast("Tree", tree)
    version = current_version(value.get("apiVersion"), value.get("kind"))
    edit = source.replace(("apiVersion",), version) if version else None
    if edit is None:
        return ()
    try:
        return edit, *_edits(value, source)
    except _NotExact:
        return ()


def _edits(tree: Tree, source: Source) -> Iterator[Edit]:
    kind, spec = str(tree["kind"]), _map(tree.get("spec"))
    if kind in _WITH_SELECTOR:
        yield from _selector(spec, source)
    elif kind == "Ingress":
        yield from _ingress(spec, source)
    elif kind == "PodDisruptionBudget":
        # An empty selector selected nothing, and selects everything today.
        if not _map(spec.get("selector")):
            raise _NotExact
    elif kind == "HorizontalPodAutoscaler":
        if tree["apiVersion"] != "autoscaling/v2beta2":
            raise _NotExact
        yield from _target(spec, source)
    elif kind not in _SAME:
        raise _NotExact


def _selector(spec: Tree, source: Source) -> Iterator[Edit]:
    if spec.get("selector"):
        return
    labels = _map(_map(_map(spec.get("template")).get("metadata")).get("labels"))
    if not labels or not all(isinstance(value, str) for value in labels.values()):
        raise _NotExact
    edits = source.set(("spec", "selector"), {"matchLabels": labels}, after="replicas")
    if not edits:
        raise _NotExact
    yield from edits


def _target(spec: Tree, source: Source) -> Iterator[Edit]:
    """Name the group of the target, which today's API requires: each of the kinds has only one."""
    target = _map(spec.get("scaleTargetRef"))
    if target.get("apiVersion") or target.get("kind") not in _WITH_SELECTOR:
        return
    edits = source.set(("spec", "scaleTargetRef", "apiVersion"), "apps/v1", after="kind")
    if not edits:
        raise _NotExact
    yield from edits


def _ingress(spec: Tree, source: Source) -> Iterator[Edit]:
    if "backend" in spec:
        yield _required(source.replace_key(("spec", "backend"), "defaultBackend"))
        yield from _backend(_map(spec["backend"]), ("spec", "backend"), source)
    for index, rule in enumerate(_list(spec.get("rules"))):
        paths = _list(_map(_map(rule).get("http")).get("paths"))
        for number, item in enumerate(paths):
            here: Path = ("spec", "rules", index, "http", "paths", number)
            yield from _backend(_map(_map(item).get("backend")), (*here, "backend"), source)
            if "pathType" not in _map(item):
                yield from _added((*here, "pathType"), source)


def _added(path: Path, source: Source) -> tuple[Edit, ...]:
    edits = source.set(path, _PATH_TYPE, after="path")
    if not edits:
        raise _NotExact
    return edits


def _backend(backend: Tree, path: Path, source: Source) -> Iterator[Edit]:
    if "resource" in backend and "serviceName" not in backend:
        return
    name = source.scalar((*path, "serviceName"))
    port = source.scalar((*path, "servicePort"))
    if name is None or port is None:
        raise _NotExact
    field = "number" if isinstance(backend.get("servicePort"), int) else "name"
    raw = f"{{name: {name[1]}, port: {{{field}: {port[1]}}}}}"
    if source.json:
        raw = f'{{"name": {name[1]}, "port": {{"{field}": {port[1]}}}}}'
    yield _required(source.replace_key((*path, "serviceName"), "service"))
    yield _required(source.replace_raw((*path, "serviceName"), raw))
    yield _required(source.remove((*path, "servicePort")))


def _required(edit: Edit | None) -> Edit:
    if edit is None:
        raise _NotExact
    return edit


def _map(value: object) -> Tree:
    return cast("Tree", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
