"""The needs of an app that it does not contain: objects, devices, classes, storage elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from corpus.apps import Map, pod_spec

PROVISIONER: Final = "podtui.dev/directory"
_LOCAL: Final = frozenset({
    "name", "configMap", "secret", "emptyDir", "hostPath", "projected", "downwardAPI",
    "persistentVolumeClaim", "image", "ephemeral", "nfs",
})  # fmt: skip
"""Sources of volumes that exist on one machine, or that an object describes."""
_OF_VOLUME: Final = frozenset({
    "hostPath", "local", "nfs", "accessModes", "capacity", "claimRef", "mountOptions",
    "nodeAffinity", "persistentVolumeReclaimPolicy", "storageClassName", "volumeMode",
    "volumeAttributesClassName",
})  # fmt: skip
"""The fields of PersistentVolumes, except sources on other machines."""
_WITH_REPLICAS: Final = frozenset({
    "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController",
})  # fmt: skip
_CLUSTER_SCOPED: Final = frozenset({
    "PersistentVolume", "StorageClass", "PriorityClass", "RuntimeClass", "Namespace",
})  # fmt: skip
_PRESENT: Final = frozenset({
    ("StorageClass", "", "standard"),
    ("PriorityClass", "", "system-cluster-critical"),
    ("PriorityClass", "", "system-node-critical"),
})  # fmt: skip
"""Objects that exist before any app."""
_EVERYWHERE: Final = frozenset({("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")})
"""Objects of every namespace."""
_PLACEHOLDER: Final = re.compile(r"[A-Z<>${}]")
"""Names, images and ports have no upper-case letters."""
_TAG: Final = re.compile(r"[:@][^/<>{}$]*$")
Reference = tuple[str, str, str]
"""Kind, namespace (empty for objects of the cluster) and name."""
_CREATED: Final = frozenset({
    "ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim", "StorageClass",
    "PriorityClass", "RuntimeClass",
})  # fmt: skip
"""Kinds that a user creates beside an app, as its instructions say."""


@dataclass(frozen=True, slots=True)
class Outside:
    """The needs of an app that it does not contain: ``objects`` with the keys that it reads, and
    ``machine``: devices, and storage of other machines, in plain words."""

    objects: Mapping[Reference, frozenset[str]]
    machine: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.objects or self.machine)

    def __str__(self) -> str:
        names = [f"{kind} {name}" for kind, _, name in self.objects]
        return ", ".join([*dict.fromkeys(names), *self.machine])

    def documents(self) -> list[Map]:
        """Return the objects as a user would create them, with any value for each key."""
        return [
            _document(reference, keys)
            for reference, keys in self.objects.items()
            if reference[0] in _CREATED
        ]


def outside(documents: Iterable[Map]) -> Outside:
    """Return what the documents refer to and do not contain."""
    documents = list(documents)
    present = {_identity(document) for document in documents} | _PRESENT
    missing = dict[Reference, set[str]]()
    machine = set[str]()
    for document in documents:
        for kind, name, key in _references(document):
            scope = "" if kind in _CLUSTER_SCOPED else _namespace(document)
            if (kind, scope, name) not in present and (kind, name) not in _EVERYWHERE:
                missing.setdefault((kind, scope, name), set()).update({key} - {""})
        machine.update(_hardware(document))
    machine.update(_shared_ports(documents))
    objects = {reference: frozenset(missing[reference]) for reference in sorted(missing)}
    return Outside(objects, tuple(sorted(machine)))


def node_labels(documents: Iterable[Map]) -> dict[str, str]:
    """Return the labels that the node needs for the pods of an app; the first value of a label
    wins. A user labels the node with them."""
    labels = dict[str, str]()
    for document in documents:
        spec = pod_spec(document)
        pairs = [(str(k), str(v)) for k, v in _map(spec.get("nodeSelector")).items()]
        affinity = _map(_map(spec.get("affinity")).get("nodeAffinity"))
        required = _map(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
        for term in _maps(required.get("nodeSelectorTerms"))[:1]:
            for rule in _maps(term.get("matchExpressions")):
                values: list[Any] = rule.get("values") or ["true"]
                if rule.get("operator") in ("In", "Exists"):
                    pairs.append((str(rule.get("key")), str(values[0])))
        spreads = _maps(spec.get("topologySpreadConstraints"))
        pairs += [(str(spread.get("topologyKey")), "here") for spread in spreads]
        for key, value in pairs:
            if not key.startswith("kubernetes.io/"):
                labels.setdefault(key, value)
    return labels


def _document(reference: Reference, keys: frozenset[str]) -> Map:
    kind, namespace, name = reference
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    version, content = {
        "ConfigMap": ("v1", {"data": dict.fromkeys(sorted(keys), "x")}),
        "Secret": ("v1", {"stringData": dict.fromkeys(sorted(keys), "x")}),
        "ServiceAccount": ("v1", {}),
        "PersistentVolumeClaim": (
            "v1",
            {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                }
            },
        ),
        "StorageClass": ("storage.k8s.io/v1", {"provisioner": PROVISIONER}),
        "PriorityClass": ("scheduling.k8s.io/v1", {"value": 1000}),
        "RuntimeClass": ("node.k8s.io/v1", {"handler": "runc"}),
    }[kind]
    return {"apiVersion": version, "kind": kind, "metadata": meta, **content}


def _identity(document: Map) -> Reference:
    kind, meta = str(document.get("kind")), _map(document.get("metadata"))
    scope = "" if kind in _CLUSTER_SCOPED else _namespace(document)
    return kind, scope, str(meta.get("name"))


def _namespace(document: Map) -> str:
    return str(_map(document.get("metadata")).get("namespace") or "default")


def _references(document: Map) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name, and the key that is read, if any."""
    spec = pod_spec(document)
    templates = {
        str(_map(claim.get("metadata")).get("name"))
        for claim in _maps(_map(document.get("spec")).get("volumeClaimTemplates"))
    }
    for kind, field in (
        ("ServiceAccount", "serviceAccountName"),
        ("ServiceAccount", "serviceAccount"),
        ("PriorityClass", "priorityClassName"),
        ("RuntimeClass", "runtimeClassName"),
    ):
        if spec.get(field):
            yield kind, str(spec[field]), ""
    for volume in _maps(spec.get("volumes")):
        if volume.get("name") not in templates:
            yield from _of_volume(volume)
    for container in _containers(spec):
        for variable in _maps(container.get("env")):
            source = _map(variable.get("valueFrom"))
            yield from _named("ConfigMap", source.get("configMapKeyRef"), "name")
            yield from _named("Secret", source.get("secretKeyRef"), "name")
        for source in _maps(container.get("envFrom")):
            yield from _named("ConfigMap", source.get("configMapRef"), "name")
            yield from _named("Secret", source.get("secretRef"), "name")
    claims = [document] if document.get("kind") == "PersistentVolumeClaim" else []
    claims += _maps(_map(document.get("spec")).get("volumeClaimTemplates"))
    claims += [
        _map(_map(volume.get("ephemeral")).get("volumeClaimTemplate"))
        for volume in _maps(spec.get("volumes"))
    ]
    for claim in claims:
        wanted = _map(claim.get("spec"))
        if wanted.get("volumeName"):
            yield "PersistentVolume", str(wanted["volumeName"]), ""
        elif wanted.get("storageClassName"):
            yield "StorageClass", str(wanted["storageClassName"]), ""


def _of_volume(volume: Map) -> Iterator[tuple[str, str, str]]:
    for source in (volume, *_maps(_map(volume.get("projected")).get("sources"))):
        for kind, field in (("ConfigMap", "configMap"), ("Secret", "secret")):
            given = _map(source.get(field))
            keys = [str(item.get("key")) for item in _maps(given.get("items"))]
            for key in keys or [""]:
                yield from _named(kind, given, _name_field(given), key)
    claim = volume.get("persistentVolumeClaim")
    yield from _named("PersistentVolumeClaim", claim, "claimName")


def _name_field(source: Map) -> str:
    return "secretName" if "secretName" in source else "name"


def _named(kind: str, source: Any, field: str, key: str = "") -> Iterator[tuple[str, str, str]]:
    given = _map(source)
    if given.get(field) and not given.get("optional"):
        yield kind, str(given[field]), key or str(given.get("key") or "")


def _hardware(document: Map) -> Iterator[str]:
    """Yield what no object can provide: devices, storage of other machines, other machines, and the
    values of placeholders."""
    spec = pod_spec(document)
    for field, text in _texts_to_fill_in(document, spec):
        if _PLACEHOLDER.search(text):
            yield f"a value in {field} {text}"
    architecture = _map(spec.get("nodeSelector")).get("kubernetes.io/arch", "amd64")
    if architecture != "amd64":
        yield f"machine {architecture}"
    rules = _map(_map(spec.get("affinity")).get("podAntiAffinity"))
    replicas = _map(document.get("spec")).get("replicas") or 1
    if rules.get("requiredDuringSchedulingIgnoredDuringExecution") and replicas != 1:
        yield f"{replicas} nodes"
    for container in _containers(spec):
        resources = _map(container.get("resources"))
        for amounts in (_map(resources.get("limits")), _map(resources.get("requests"))):
            yield from (f"device {name}" for name in amounts if "/" in str(name))
    if spec.get("resourceClaims"):
        yield "device claims"
    sources = [(volume, _LOCAL) for volume in _maps(spec.get("volumes"))]
    if document.get("kind") == "PersistentVolume":
        sources.append((_map(document.get("spec")), _OF_VOLUME))
    for volume, local in sources:
        for source in volume.keys() - local:
            driver = _map(volume[source]).get("driver", "")
            yield f"volume {source} {driver}".rstrip()


def _shared_ports(documents: Iterable[Map]) -> Iterator[str]:
    """Yield the number of nodes that the pods with one hostPort need."""
    counts = Counter[tuple[str, int]]()
    for document in {_identity(item): item for item in documents}.values():
        pods = 1
        if document.get("kind") in _WITH_REPLICAS:
            replicas = _map(document.get("spec")).get("replicas")
            pods = replicas if isinstance(replicas, int) else 1
        for container in _containers(pod_spec(document)):
            for port in _maps(container.get("ports")):
                if isinstance(number := port.get("hostPort"), int):
                    counts[str(port.get("protocol") or "TCP"), number] += pods
    for (protocol, number), pods in counts.items():
        if pods > 1:
            yield f"{pods} nodes for hostPort {protocol} {number}"


def _texts_to_fill_in(document: Map, spec: Map) -> Iterator[tuple[str, str]]:
    meta = _map(document.get("metadata"))
    for field in ("name", "namespace"):
        yield field, str(meta.get(field) or "")
    yield "serviceAccountName", str(spec.get("serviceAccountName") or "")
    for container in _containers(spec):
        yield "image", _TAG.sub("", str(container.get("image") or ""))
        for port in _maps(container.get("ports")):
            yield "containerPort", str(port.get("containerPort") or "")


def _containers(spec: Map) -> Iterator[Map]:
    yield from _maps(spec.get("initContainers"))
    yield from _maps(spec.get("containers"))


def _map(value: Any) -> Map:
    return cast("Map", value) if isinstance(value, dict) else {}


def _maps(value: Any) -> list[Map]:
    items: list[Any] = value if isinstance(value, list) else []
    return [cast("Map", item) for item in items if isinstance(item, dict)]
