"""The warnings that the API server sends when a valid pod, or a kind with a template of pods, is
created: deprecated, ambiguous and pointless fields."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from podtui.api.quantity import canonical, parse_quantity
from podtui.api.v1 import (
    ContainerPort,
    DownwardAPIVolumeFile,
    EnvVar,
    KeyToPath,
    NodeSelectorTerm,
    PersistentVolumeClaimSpec,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PodTemplateSpec,
    TopologySpreadConstraint,
    Volume,
    VolumeProjection,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.context import AnyContainer, containers_with_paths
from podtui.manifest.validation.errors import quoted
from podtui.manifest.validation.pod_template import as_pod
from podtui.manifest.validation.security import (
    APPARMOR_CONTAINER,
    SECCOMP_CONTAINER,
    SECCOMP_POD,
    apparmor_of_annotation,
)

Warnings = Iterator[str]

_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_APPARMOR: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_PATH_NAMES: Final = {"storageos": "storageOS"}
_MATCHES_NONE: Final = "a null labelSelector results in matching no pod"
_BYTES: Final = ("memory", "ephemeral-storage")


def pod_warnings(pod: Pod) -> Warnings:
    """Yield the warnings in the API server's words and order."""
    yield from _apparmor_annotations(pod)
    if problems := formats.dns_label(pod.metadata.name):
        yield (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising"
            f" behavior; a DNS label is recommended: [{' '.join(problems)}]"
        )
    yield from _spec_and_annotations(pod, "")


def template_warnings(template: PodTemplateSpec, path: str) -> Warnings:
    """Yield the warnings about the pod template at ``path``, for instance ``spec.template``."""
    yield from _spec_and_annotations(as_pod(template), f"{path}.")


def owner_name_warnings(name: str) -> Warnings:
    """Yield the warning about the name of an object whose pods get names that begin with it."""
    if problems := formats.dns_label(name):
        yield (
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising"
            f" behavior; a DNS label is recommended: [{' '.join(problems)}]"
        )


def claim_warnings(spec: PersistentVolumeClaimSpec, path: str) -> Warnings:
    """Yield the warnings about the spec of a claim at ``path``."""
    resources = spec.resources
    if resources is not None:
        yield from _fractions(resources.requests, f"{path}.resources.requests", ("storage",))
        yield from _fractions(resources.limits, f"{path}.resources.limits", ("storage",))


def _spec_and_annotations(pod: Pod, root: str) -> Warnings:
    """``root`` is the path of a template with a dot, or empty for a pod."""
    spec, annotations = pod.spec, pod.metadata.annotations
    path, notes = f"{root}spec", f"{root}metadata.annotations"
    containers = tuple((root + field, item) for field, item in containers_with_paths(spec))
    yield from _node_labels(spec, path)
    yield from _spread(spec.topologySpreadConstraints, f"{path}.topologySpreadConstraints")
    for key, text in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{notes}[{key}]: {text}"
    yield from _deprecated_volumes(spec.volumes, f"{path}.volumes")
    for volume in spec.volumes:
        yield from _overlaps(volume)
    addresses = (alias.ip for alias in spec.hostAliases)
    yield from _repeated(addresses, f"{path}.hostAliases", "ip", "duplicate ip")
    secrets = tuple(reference.name for reference in spec.imagePullSecrets)
    yield from _repeated(secrets, f"{path}.imagePullSecrets", "name", "duplicate name")
    for index, name in enumerate(secrets):
        if not name:
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _fractions(spec.overhead, f"{path}.overhead")
    context = spec.securityContext
    if SECCOMP_POD in annotations and (context is None or context.seccompProfile is None):
        yield f"{notes}[{SECCOMP_POD}]: {_SECCOMP}"
    for here, container in containers:
        yield from _container_annotations(container, pod, notes, in_template=bool(root))
        yield from _container(container, here)
    yield from _ports(containers)
    yield from _port_names(containers)
    if (spec.terminationGracePeriodSeconds or 0) < 0:
        yield (
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and"
            " will be treated as 1"
        )
    for here, term in _affinity_terms(spec, f"{path}.affinity"):
        if term.labelSelector is None:
            yield f"{here}.labelSelector: {_MATCHES_NONE}"
    if spec.dnsConfig is not None:
        for index, address in enumerate(spec.dnsConfig.nameservers):
            yield from _address(address, f"{path}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.hostAliases):
        yield from _address(alias.ip, f"{path}.hostAliases[{index}].ip")


def _apparmor_annotations(pod: Pod) -> Warnings:
    """Report annotations that set a container's profile, or that cannot be read."""
    spec = pod.spec
    if spec.os is not None and spec.os.name == "windows":
        return
    for _, container in containers_with_paths(spec):
        yield from _apparmor_annotation(container, pod, "metadata.annotations")


def _apparmor_annotation(container: AnyContainer, pod: Pod, notes: str) -> Warnings:
    pod_context, context = pod.spec.securityContext, container.securityContext
    key = f"{APPARMOR_CONTAINER}{container.name}"
    if key in pod.metadata.annotations and (context is None or not context.appArmorProfile):
        profile = apparmor_of_annotation(pod.metadata.annotations[key])
        if profile is None or pod_context is None or profile != pod_context.appArmorProfile:
            yield f"{notes}[{key}]: {_APPARMOR}"


def _repeated(values: Iterable[str], path: str, field: str, problem: str) -> Warnings:
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            yield f"{path}[{index}].{field}: {problem} {quoted(value)}"
        seen.add(value)


# --- scheduling


def _node_labels(spec: PodSpec, spec_path: str) -> Warnings:
    for key in spec.nodeSelector:
        if key in _NODE_LABELS:
            yield f"{spec_path}.nodeSelector[{key}]: {_NODE_LABELS[key]}"
    affinity = spec.affinity and spec.affinity.nodeAffinity
    if affinity is None:
        return
    path = f"{spec_path}.affinity.nodeAffinity"
    if (hard := affinity.requiredDuringSchedulingIgnoredDuringExecution) is not None:
        here = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for index, term in enumerate(hard.nodeSelectorTerms):
            yield from _node_term(term, f"{here}[{index}]", check_values=False)
    here = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, soft in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution):
        yield from _node_term(soft.preference, f"{here}[{index}].preference", check_values=True)


def _node_term(term: NodeSelectorTerm, path: str, *, check_values: bool) -> Warnings:
    for index, expression in enumerate(term.matchExpressions):
        here = f"{path}.matchExpressions[{index}]"
        if expression.key in _NODE_LABELS:
            yield f"{here}.key: {expression.key} is {_NODE_LABELS[expression.key]}"
        for position, value in enumerate(expression.values if check_values else ()):
            for problem in formats.label_value(value):
                yield f"{here}.values[{position}]: {value} is invalid, {problem}"


def _spread(constraints: Sequence[TopologySpreadConstraint], path: str) -> Warnings:
    for index, constraint in enumerate(constraints):
        here, key = f"{path}[{index}]", constraint.topologyKey
        if key in _NODE_LABELS:
            yield f"{here}.topologyKey: {key} is {_NODE_LABELS[key]}"
        if constraint.labelSelector is None:
            yield f"{here}.labelSelector: {_MATCHES_NONE}"


def _affinity_terms(spec: PodSpec, affinity_path: str) -> Iterator[tuple[str, PodAffinityTerm]]:
    if spec.affinity is None:
        return
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = getattr(spec.affinity, kind)
        if affinity is None:
            continue
        path = f"{affinity_path}.{kind}"
        for index, term in enumerate(affinity.requiredDuringSchedulingIgnoredDuringExecution):
            yield f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]", term
        for index, soft in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution):
            here = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            yield f"{here}.podAffinityTerm", soft.podAffinityTerm


# --- volumes


def _deprecated_volumes(volumes: Sequence[Volume], path: str) -> Warnings:
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        for kind, text in _VOLUMES.items():
            if getattr(volume, kind) is not None:
                yield f"{here}.{_PATH_NAMES.get(kind, kind)}: {text}"
        template = volume.ephemeral and volume.ephemeral.volumeClaimTemplate
        if template:
            yield from claim_warnings(template.spec, f"{here}.ephemeral.volumeClaimTemplate.spec")


def _overlaps(volume: Volume) -> Warnings:
    """Report files of one volume that have the same path, or lie below each other."""
    files: list[tuple[str, str]] = []
    kind = ""
    if volume.configMap is not None:
        kind = f"ConfigMap {quoted(volume.configMap.name)}"
        files = _files(volume.configMap.items)
    elif volume.secret is not None:
        kind, files = f"Secret {quoted(volume.secret.secretName)}", _files(volume.secret.items)
    elif volume.downwardAPI is not None:
        kind, files = "DownwardAPI", _files(volume.downwardAPI.items)
    elif volume.projected is not None:
        kind = "Projected"
        for source in volume.projected.sources:
            if source == VolumeProjection():
                yield f"volume {quoted(volume.name)} (Projected) has no sources provided"
            files += _projected(source)
    before: list[tuple[str, str]] = []
    for path, label in files:
        for other, other_label in before:
            together = path == other or path.startswith(f"{other}/")
            if path and other and (together or other.startswith(f"{path}/")):
                yield (
                    f"volume {quoted(volume.name)} ({kind}): overlapping paths:"
                    f" {quoted(path)}{label} with {quoted(other)}{other_label}"
                )
        before.append((path, label))


def _files(
    items: Iterable[KeyToPath | DownwardAPIVolumeFile], source: str = ""
) -> list[tuple[str, str]]:
    return [_file(item.path, source) for item in items]


def _file(path: str, source: str) -> tuple[str, str]:
    return path.rstrip("/"), f" ({source})" if source else ""


def _projected(source: VolumeProjection) -> list[tuple[str, str]]:
    if source.configMap is not None:
        return _files(source.configMap.items, f"ConfigMap {quoted(source.configMap.name)}")
    if source.secret is not None:
        return _files(source.secret.items, f"Secret {quoted(source.secret.name)}")
    if source.downwardAPI is not None:
        return _files(source.downwardAPI.items, "DownwardAPI")
    if source.serviceAccountToken is not None:
        return [_file(source.serviceAccountToken.path, "ServiceAccountToken")]
    if (bundle := source.clusterTrustBundle) is not None:
        name = quoted(bundle.name or bundle.signerName)
        return [_file(bundle.path, f"ClusterTrustBundle {name}")]
    if (certificate := source.podCertificate) is not None:
        parts = (
            (certificate.certificateChainPath, "chain"),
            (certificate.keyPath, "key"),
            (certificate.credentialBundlePath, "credential bundle"),
        )
        return [_file(path, f"PodCertificate {part}") for path, part in parts if path]
    return []


# --- containers


def _container_annotations(
    container: AnyContainer, pod: Pod, notes: str, *, in_template: bool
) -> Warnings:
    """``notes`` is the path of the annotations. Those about AppArmor come first for a pod."""
    key = f"{SECCOMP_CONTAINER}{container.name}"
    profile = container.securityContext and container.securityContext.seccompProfile
    if profile is None and key in pod.metadata.annotations:
        yield f"{notes}[{key}]: {_SECCOMP}"
    if in_template:
        yield from _apparmor_annotation(container, pod, notes)


def _container(container: AnyContainer, path: str) -> Warnings:
    for resource in _BYTES:
        for kind in ("limits", "requests"):
            amounts = getattr(container.resources, kind)
            yield from _fractions(amounts, f"{path}.resources.{kind}", (resource,))
    yield from _hidden_variables(container.env, f"{path}.env")


def _fractions(amounts: dict[str, str], path: str, resources: Iterable[str] = _BYTES) -> Warnings:
    for resource in resources:
        amount = amounts.get(resource)
        if amount is not None and parse_quantity(amount).milli_value() % 1000:
            yield (
                f"{path}[{resource}]: fractional byte value {quoted(canonical(amount))} is"
                " invalid, must be an integer"
            )


def _hidden_variables(variables: Sequence[EnvVar], path: str) -> Warnings:
    """Report variables that are defined again without a reference to their value before."""
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, reference = variable.name, f"$({variable.name})"
        if name in seen and (
            variable.valueFrom is not None
            or variable.value == reference
            or reference not in variable.value
        ):
            yield (
                f"{path}[{index}]: hides previous definition of {quoted(name)}, which may be"
                " dropped when using apply"
            )
        seen.add(name)


def _all_ports(
    containers: Iterable[tuple[str, AnyContainer]],
) -> Iterator[tuple[str, ContainerPort]]:
    return chain.from_iterable(
        ((f"{path}.ports[{index}]", port) for index, port in enumerate(container.ports))
        for path, container in containers
    )


def _ports(containers: Iterable[tuple[str, AnyContainer]]) -> Warnings:
    by_number: dict[tuple[int, str], list[tuple[str, ContainerPort]]] = {}
    for path, port in _all_ports(containers):
        if port.hostIP and not port.hostPort:
            shown = (
                f"{{Name:{port.name} HostPort:0 ContainerPort:{port.containerPort}"
                f" Protocol:{port.protocol} HostIP:{port.hostIP}}}"
            )
            yield f"{path}: hostIP set without hostPort: {shown}"
        others = by_number.setdefault((port.containerPort, port.protocol), [])
        for other_path, other in others:
            if problem := _clash(port, other):
                yield f"{path}: {problem} port definition with {other_path}"
        others.append((path, port))


def _clash(port: ContainerPort, other: ContainerPort) -> str:
    host_port, other_port = port.hostPort or 0, other.hostPort or 0
    if (port.hostIP, host_port) == (other.hostIP, other_port):
        return "duplicate"
    if not host_port or not other_port:
        return "overlapping"
    if host_port == other_port and bool(port.hostIP) != bool(other.hostIP):
        return "dangerously ambiguous"
    return ""


def _port_names(containers: Iterable[tuple[str, AnyContainer]]) -> Warnings:
    by_name: dict[str, str] = {}
    for path, port in _all_ports(containers):
        if not port.name:
            continue
        first = by_name.setdefault(port.name, path)
        if first != path:
            yield (
                f"{path}: duplicate port name {quoted(port.name)} with {first}, services and"
                f" probes that select ports by name will use {first}"
            )


# --- addresses


def _address(text: str, path: str) -> Warnings:
    address = ipaddress.ip_address(text)
    if address.version == 6 and str(address) != text:
        yield (
            f"{path}: IPv6 address {quoted(text)} should be in RFC 5952 canonical format"
            f" ({quoted(str(address))})"
        )
