"""All rules of a pod, in the API server's order at creation, and those of its
``ephemeralcontainers`` subresource (kubelet.md §1.4)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import msgspec

from podtui.api.names import CONFIG_MIRROR
from podtui.api.v1 import Pod, PodSpec, Toleration
from podtui.manifest.validation import (
    containers,
    formats,
    metadata,
    network,
    projected,
    resources,
    restarts,
    scheduling,
    security,
    volumes,
    windows,
)
from podtui.manifest.validation.context import PodContext
from podtui.manifest.validation.environment import file_key_volumes
from podtui.manifest.validation.errors import (
    Errors,
    FieldError,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.scheduling import tolerations

TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_INTEGER: Final = re.compile("-[0-9]{1,32}|0|[1-9][0-9]{0,31}")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
# Fields that refer to objects; empty ones are skipped.
_NAMES: Final = ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName")


def validate_pod(pod: Pod) -> list[FieldError]:
    """Return an error for each creation rule that a decoded and defaulted pod breaks (kubelet.md
    §1.4).

    Empty for a valid pod. The pod must have its node name, as a static pod does.
    """
    return list(_pod(pod))


def _pod(pod: Pod) -> Errors:
    spec = pod.spec
    yield from metadata.object_meta(pod.metadata, "metadata")
    yield from known_annotations(pod, "metadata.annotations")
    yield from spec_errors(pod)
    yield from projected.account_tokens(spec)
    for index, container in enumerate(spec.containers):
        yield from containers.unpadded(container.image, f"spec.containers[{index}].image")
    for index, container in enumerate(spec.initContainers):
        yield from containers.unpadded(container.image, f"spec.initContainers[{index}].image")
    if spec.ephemeralContainers:
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.nodeName and spec.schedulingGates:
        yield forbidden(
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
            at="spec.schedulingGates",
        )
    yield from security.profile_agreement(pod)


def spec_errors(pod: Pod, *, in_template: bool = False) -> Errors:
    """Check the rules of a spec that apply at creation and at every update. ``in_template`` is true
    for the spec of a pod template, whose pods get more defaults."""
    spec = pod.spec
    if spec.terminationGracePeriodSeconds is None:
        yield required("spec.terminationGracePeriodSeconds")
    valid, broken = volumes.volumes(spec.volumes, pod.metadata, "spec.volumes")
    yield from broken
    context = PodContext(
        volumes=valid,
        claim_names=frozenset(claim.name for claim in spec.resourceClaims if claim.name),
        restart_policy=spec.restartPolicy,
        host_users=spec.hostUsers is not False,
        grace_seconds=spec.terminationGracePeriodSeconds,
        os_name=spec.os.name if spec.os is not None else None,
    )
    yield from resources.pod_claims(spec.resourceClaims, pod.metadata, "spec.resourceClaims")
    yield from containers.regular(spec, context, "spec.containers")
    yield from containers.init(spec, context, "spec.initContainers")
    yield from containers.ephemeral(spec, context, "spec.ephemeralContainers")
    yield from resources.pod_resources(spec, context.claim_names, "spec.resources")
    yield from network.host_network_ports(spec, in_template=in_template)
    yield from restarts.pod_policy(spec.restartPolicy, "spec.restartPolicy")
    yield from network.dns_policy(spec.dnsPolicy, "spec.dnsPolicy")
    yield from metadata.labels(spec.nodeSelector, "spec.nodeSelector")
    yield from security.pod_context(spec.securityContext, spec, "spec.securityContext")
    yield from _placement(spec)
    yield from windows.host_process(spec)
    yield from security.user_namespace(spec)
    yield from network.hostnames(spec)
    yield from _names_and_numbers(spec)
    yield from network.host_aliases(spec.hostAliases, "spec.hostAliases")
    yield from resources.overhead(spec.overhead, "spec.overhead")
    yield from windows.operating_system(spec)
    if spec.schedulingGroup is not None:
        yield from _group(spec.schedulingGroup.podGroupName, "spec.schedulingGroup.podGroupName")
    yield from file_key_volumes(spec)


def _placement(spec: PodSpec) -> Errors:
    yield from scheduling.affinity(spec.affinity, "spec.affinity")
    yield from network.dns_config(spec, "spec.dnsConfig")
    yield from scheduling.readiness_gates(spec.readinessGates, "spec.readinessGates")
    yield from scheduling.scheduling_gates(spec.schedulingGates, "spec.schedulingGates")
    constraints = spec.topologySpreadConstraints
    yield from scheduling.spread(constraints, "spec.topologySpreadConstraints")
    yield from scheduling.tolerations(spec.tolerations, "spec.tolerations")


def _names_and_numbers(spec: PodSpec) -> Errors:
    for field in _NAMES:
        name: str = getattr(spec, field)
        if name:
            yield from invalid_each(f"spec.{field}", name, formats.dns_subdomain(name))
    if spec.serviceAccount and not spec.serviceAccountName:
        yield from invalid_each(
            "spec.serviceAccountName",
            spec.serviceAccount,
            formats.dns_subdomain(spec.serviceAccount),
            at="spec.serviceAccount",
        )
    deadline = spec.activeDeadlineSeconds
    if deadline is not None and not 1 <= deadline <= formats.INT31:
        why = formats.between(1, formats.INT31)
        yield invalid("spec.activeDeadlineSeconds", deadline, why)
    if spec.preemptionPolicy not in ("", *PREEMPTION_POLICIES):
        yield not_supported("spec.preemptionPolicy", spec.preemptionPolicy, PREEMPTION_POLICIES)


def _group(name: str, path: str) -> Errors:
    if name:
        yield from invalid_each(path, name, formats.dns_subdomain(name))
    else:
        yield invalid(path, None, "must specify one of: `podGroupName`")


def known_annotations(pod: Pod, path: str) -> Errors:
    entries = pod.metadata.annotations
    if CONFIG_MIRROR in entries and not pod.spec.nodeName:
        yield invalid(
            f"{path}[{CONFIG_MIRROR}]",
            entries[CONFIG_MIRROR],
            "must set spec.nodeName if mirror pod annotation is set",
        )
    if entries.get(TOLERATIONS):
        at = f"{path}[{TOLERATIONS}]"
        try:
            wanted = msgspec.json.decode(entries[TOLERATIONS], type=tuple[Toleration, ...])
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            truncated = "truncated" in str(error)
            why = "unexpected end of JSON input" if truncated else str(error)
            yield invalid(path, TOLERATIONS, why, at=at)
        else:
            for error in tolerations(wanted, f"{path}.{TOLERATIONS}"):
                yield replace(error, at=at)
    cost = entries.get(DELETION_COST)
    if cost is not None:
        whole = _INTEGER.fullmatch(cost) is not None
        if not whole or not -(2**31) <= int(cost) < 2**31:
            yield invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")
    yield from security.profile_annotations(pod, path)
