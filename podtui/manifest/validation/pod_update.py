"""The rules for updates of a pod and of its subresources (v1.36).

Those for the metadata of every object are in `podtui.manifest.validation.metadata`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from podtui.api.names import CONFIG_MIRROR
from podtui.api.pod_resources import compute_qos_class, qos_class
from podtui.api.pods import is_sidecar
from podtui.api.v1 import (
    Container,
    ContainerStatus,
    Pod,
    PodSchedulingGate,
    PodSpec,
    ResourceRequirements,
    Toleration,
)
from podtui.manifest.validation import containers, formats, metadata
from podtui.manifest.validation.errors import (
    Errors,
    FieldError,
    GoText,
    forbidden,
    invalid,
    invalid_each,
)
from podtui.manifest.validation.pod import known_annotations, spec_errors
from podtui.manifest.validation.spec_diff import spec_diff

_UPDATABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_RESIZABLE: Final = ("cpu", "memory")
_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_EPHEMERAL: Final = "spec.ephemeralContainers"


def validate_update(new: Pod, old: Pod) -> Errors:
    """Check an update of the pod itself: only a few fields of the spec may change."""
    # The same object: an update of the metadata alone. Its spec was validated before.
    if new.spec is old.spec:
        yield from known_annotations(new, "metadata.annotations")
        yield from _annotation_changes(new, old)
        return
    yield from _metadata_and_spec(new)
    yield from _annotation_changes(new, old)
    for field in ("containers", "initContainers"):
        # After an added or removed container, the rules below could not pair old and new ones.
        stop = False
        for error in _container_changes(getattr(new.spec, field), getattr(old.spec, field), field):
            yield error
            stop = stop or error.type == "FieldValueForbidden"
        if stop:
            return
    deadline, before = new.spec.activeDeadlineSeconds, old.spec.activeDeadlineSeconds
    path = "spec.activeDeadlineSeconds"
    if deadline is None and before is not None:
        yield invalid(path, None, "must not update from a positive integer to nil value")
    elif deadline is not None:
        if not 0 <= deadline <= formats.INT31:
            yield invalid(path, deadline, formats.between(0, formats.INT31))
            return
        if before is not None and before < deadline:
            yield invalid(path, deadline, "must be less than or equal to previous value")
            return
    yield from _toleration_changes(new.spec.tolerations, old.spec.tolerations)
    yield from _gate_changes(new.spec.schedulingGates, old.spec.schedulingGates)
    # With the old values of all that may change, the rest must be equal.
    comparable = _with_old_mutables(new, old)
    if comparable != old.spec:
        diff = spec_diff(old.spec, comparable)
        why = f"pod updates may not change fields other than {_UPDATABLE}\n{diff}"
        yield forbidden("spec", why)


def _metadata_and_spec(pod: Pod) -> Errors:
    """Check the rules that every pod keeps, besides those of every object's metadata."""
    yield from known_annotations(pod, "metadata.annotations")
    yield from spec_errors(pod)


def _annotation_changes(new: Pod, old: Pod) -> Errors:
    after, before = new.metadata.annotations, old.metadata.annotations
    for key in sorted(after.keys() | before.keys()):
        if after.get(key) == before.get(key):
            continue
        verb = "remove or update" if key in before else "add"
        path = f"metadata.annotations[{key}]"
        if key.startswith(_APPARMOR):
            yield forbidden(path, f"may not {verb} AppArmor annotations")
        if key == CONFIG_MIRROR:
            yield forbidden(path, f"may not {verb} mirror pod annotation")


def _container_changes(new: Sequence[Container], old: Sequence[Container], field: str) -> Errors:
    if len(new) != len(old):
        yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
        return
    for index, container in enumerate(new):
        yield from containers.unpadded(container.image, f"spec.{field}[{index}].image")


def _toleration_changes(new: Sequence[Toleration], old: Sequence[Toleration]) -> Errors:
    for toleration in old:
        same = (
            structs.replace(toleration, tolerationSeconds=other.tolerationSeconds) == other
            for other in new
        )
        if not any(same):
            yield forbidden(
                "spec.tolerations",
                "existing toleration can not be modified except its tolerationSeconds",
            )
            return


def _gate_changes(new: Sequence[PodSchedulingGate], old: Sequence[PodSchedulingGate]) -> Errors:
    gates = {gate.name for gate in old}
    for index, gate in enumerate(new):
        if gate.name not in gates:
            yield forbidden(
                f"spec.schedulingGates[{index}].name",
                f"only deletion is allowed, but found new scheduling gate '{gate.name}'",
            )


def _with_old_mutables(new: Pod, old: Pod) -> PodSpec:
    """Return the new spec with the old values of all fields that may change."""
    after, before = new.spec, old.spec
    spec = structs.replace(
        after,
        containers=_with_old_images(after.containers, before.containers),
        initContainers=_with_old_images(after.initContainers, before.initContainers),
        activeDeadlineSeconds=before.activeDeadlineSeconds,
        schedulingGates=before.schedulingGates,
        tolerations=before.tolerations,
    )
    if (before.terminationGracePeriodSeconds or 0) < 0 and spec.terminationGracePeriodSeconds == 1:
        spec = structs.replace(
            spec, terminationGracePeriodSeconds=before.terminationGracePeriodSeconds
        )
    # A pod with gates is not scheduled yet: its choice of nodes may still become narrower.
    added = spec.nodeSelector.items() >= before.nodeSelector.items()
    if before.schedulingGates and added:
        spec = structs.replace(spec, nodeSelector=before.nodeSelector)
    return spec


def _with_old_images(new: Sequence[Container], old: Sequence[Container]) -> tuple[Container, ...]:
    pairs = zip(new, old, strict=True)
    return tuple(structs.replace(container, image=before.image) for container, before in pairs)


def validate_status_update(new: Pod, old: Pod) -> Errors:
    yield from _annotation_changes(new, old)
    for index, condition in enumerate(new.status.conditions):
        here = f"status.conditions[{index}]"
        if (condition.observedGeneration or 0) < 0:
            why = "must be a non-negative integer"
            yield invalid(f"{here}.observedGeneration", condition.observedGeneration, why)
        if condition.type not in _SYSTEM_CONDITIONS:
            yield from metadata.label_name(condition.type, f"{here}.Type")
    nominated = new.status.nominatedNodeName
    if nominated and nominated != old.status.nominatedNodeName:
        path = "status.nominatedNodeName"
        yield from invalid_each(path, nominated, formats.dns_subdomain(nominated))
        if old.spec.nodeName:
            yield forbidden(path, "may not be set on pods that are already bound to a node")
    if (new.status.observedGeneration or 0) < 0:
        why = "must be a non-negative integer"
        yield invalid("status.observedGeneration", new.status.observedGeneration, why)
    if new.status.qosClass != old.status.qosClass:
        yield invalid("status.qosClass", GoText(new.status.qosClass), "field is immutable")
    yield from _state_transitions(new, old)
    for field in ("podIPs", "hostIPs"):
        for index, address in enumerate(getattr(new.status, field)):
            path = f"status.{field}[{index}]"
            yield from invalid_each(path, address.ip, formats.ip_address(address.ip))


def _state_transitions(new: Pod, old: Pod) -> Errors:
    """Refuse to bring back containers that may not be started again."""
    spec = old.spec
    everything = (*spec.containers, *spec.initContainers)
    if any(
        rule.action == "RestartAllContainers" for c in everything for rule in c.restartPolicyRules
    ):
        return
    sidecars = {container.name for container in spec.initContainers if is_sidecar(container)}
    by_name = {container.name: container for container in spec.containers}

    def restarts(name: str, code: int) -> bool:
        container = by_name.get(name)
        rules = container.restartPolicyRules if container is not None else ()
        for rule in rules:
            codes = rule.exitCodes
            if codes is not None and (code in codes.values) == (codes.operator == "In"):
                return True
        policy = (container.restartPolicy if container is not None else "") or spec.restartPolicy
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    def revived(
        now: Sequence[ContainerStatus], before: Sequence[ContainerStatus]
    ) -> list[tuple[int, str, int]]:
        states = {status.name: status.state for status in now}
        return [
            (index, status.name, status.state.terminated.exitCode)
            for index, status in enumerate(before)
            if status.state.terminated is not None
            and status.name in states
            and states[status.name].terminated is None
        ]

    why = "may not be transitioned to non-terminated state"
    for index, name, code in revived(new.status.containerStatuses, old.status.containerStatuses):
        if not restarts(name, code):
            yield forbidden(f"status.containerStatuses[{index}].state", why)
    if spec.restartPolicy != "Always":
        revived_statuses = revived(
            new.status.initContainerStatuses, old.status.initContainerStatuses
        )
        for index, name, code in revived_statuses:
            if name not in sidecars and not (spec.restartPolicy == "OnFailure" and code):
                yield forbidden(f"status.initContainerStatuses[{index}].state", why)


def validate_ephemeral_update(new: Pod, old: Pod) -> Errors:
    """Check an update through ``ephemeralcontainers``, which changes nothing else of the spec."""
    if CONFIG_MIRROR in old.metadata.annotations:
        yield refused_for_static_pods()
        return
    yield from _metadata_and_spec(new)
    yield from _annotation_changes(new, old)
    yield from _ephemeral_changes(new, old)


def validate_static_ephemeral_update(new: Pod, old: Pod) -> Errors:
    """Check an update of a static pod's ephemeral containers (departure 27). The other errors of a
    spec existed before, and are not caused by it."""
    yield from (error for error in spec_errors(new) if error.path.startswith(_EPHEMERAL))
    yield from _ephemeral_changes(new, old)


def refused_for_static_pods() -> FieldError:
    """Return the error with which an API server refuses this for every mirror pod."""
    return forbidden("[]", "static pods do not support ephemeral containers")


def _ephemeral_changes(new: Pod, old: Pod) -> Errors:
    now = {container.name: container for container in new.spec.ephemeralContainers}
    for container in old.spec.ephemeralContainers:
        prefix = f'existing ephemeral containers "{container.name}" may not be'
        if container.name not in now:
            yield forbidden(_EPHEMERAL, f"{prefix} removed\n")
        elif now[container.name] != container:
            diff = spec_diff(container, now[container.name])
            yield forbidden(_EPHEMERAL, f"{prefix} changed\n{diff}")


def validate_resize(new: Pod, old: Pod) -> Errors:
    """Check an update through ``resize``: only cpu and memory may change."""
    if CONFIG_MIRROR in old.metadata.annotations:
        yield forbidden("[]", "static pods cannot be resized")
        return
    if old.spec.os is not None and old.spec.os.name == "windows":
        yield forbidden("[]", "windows pods cannot be resized")
        return
    errors = list(_resize_errors(new, old))
    yield from errors
    if not errors and _without_amounts(new.spec, old.spec) != old.spec:
        yield forbidden("spec", "only cpu and memory resources are mutable")


def _resize_errors(new: Pod, old: Pod) -> Errors:
    yield from _metadata_and_spec(new)
    if qos_class(old) != compute_qos_class(new):
        why = "Pod QOS Class may not change as a result of resizing"
        yield invalid("spec", GoText(new.status.qosClass), why)
    # A kubelet that can resize reports the resources of running containers.
    running = (
        status for status in old.status.containerStatuses if status.state.running is not None
    )
    first = next(running, None)
    if first is not None and first.resources is None:
        yield forbidden("spec", "Pod running on node without support for resize")
    yield from _pod_level(new, old)
    # The rules below pair the containers by their positions.
    ordering = list(_ordering(new, old))
    yield from ordering
    if ordering:
        return
    for field in ("initContainers", "containers"):
        pairs = zip(getattr(new.spec, field), getattr(old.spec, field), strict=True)
        for index, (container, before) in enumerate(pairs):
            path = f"spec.{field}[{index}].resources"
            yield from _removals(container.resources, before.resources, path, "resource")
    for container, before in zip(new.spec.containers, old.spec.containers, strict=True):
        if _without_container_amounts(container, before) != before:
            yield forbidden("spec", "only cpu and memory resources are mutable")
    pairs = zip(new.spec.initContainers, old.spec.initContainers, strict=True)
    for index, (container, before) in enumerate(pairs):
        path = f"spec.initContainers[{index}]"
        if _without_container_amounts(container, before) != before:
            why = "only cpu and memory resources for init or sidecar containers are mutable"
            yield forbidden(path, why)
        restarting = any(
            policy.restartPolicy == "RestartContainer" for policy in container.resizePolicy
        )
        if container != before and not is_sidecar(container) and restarting:
            yield forbidden(
                path,
                "non-sidecar init containers with a resize policy of RestartContainer cannot be"
                " resized",
            )


def _pod_level(new: Pod, old: Pod) -> Errors:
    after, before = new.spec.resources, old.spec.resources
    if before is None:
        return
    if after is None:
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    yield from _removals(after, before, "spec.resources", "pod-level resource")


def _removals(new: ResourceRequirements, old: ResourceRequirements, path: str, noun: str) -> Errors:
    for field in ("requests", "limits"):
        if getattr(old, field).keys() - getattr(new, field).keys():
            yield forbidden(f"{path}.{field}", f"{noun} {field} cannot be removed")


def _ordering(new: Pod, old: Pod) -> Errors:
    for field in ("containers", "initContainers"):
        after, before = getattr(new.spec, field), getattr(old.spec, field)
        if len(after) != len(before):
            yield forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            continue
        for index, (container, other) in enumerate(zip(after, before, strict=True)):
            if container.name != other.name:
                yield forbidden(
                    f"spec.{field}[{index}].name",
                    "containers may not be renamed or reordered on resize",
                )


def _without_amounts(new: PodSpec, old: PodSpec) -> PodSpec:
    """Return the new spec with the old amounts of cpu and memory."""
    after, before = new.resources, old.resources
    resources = after
    if after is not None:
        resources = _old_amounts(after, before or ResourceRequirements())
        if before is None and resources == ResourceRequirements():
            resources = None
    return structs.replace(
        new,
        resources=resources,
        containers=tuple(map(_without_container_amounts, new.containers, old.containers)),
        initContainers=tuple(
            map(_without_container_amounts, new.initContainers, old.initContainers)
        ),
    )


def _without_container_amounts(new: Container, old: Container) -> Container:
    return structs.replace(new, resources=_old_amounts(new.resources, old.resources))


def _old_amounts(new: ResourceRequirements, old: ResourceRequirements) -> ResourceRequirements:
    def kept(after: dict[str, str], before: dict[str, str]) -> dict[str, str]:
        others = {name: value for name, value in after.items() if name not in _RESIZABLE}
        return others | {name: before[name] for name in _RESIZABLE if name in before}

    return structs.replace(
        new, limits=kept(new.limits, old.limits), requests=kept(new.requests, old.requests)
    )
