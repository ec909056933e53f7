"""Pods, and the subresources that update them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from msgspec import structs

from podtui.api.pod_resources import compute_qos_class
from podtui.api.v1 import (
    Container,
    LabelSelectorRequirement,
    Lifecycle,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    PodIP,
    PodSpec,
    PodStatus,
    SecurityContext,
    Toleration,
    TopologySpreadConstraint,
)
from podtui.manifest.defaults import Tree, apply_defaults
from podtui.manifest.strategies.strategy import Strategy, with_meta
from podtui.manifest.validation import validate_pod, written_empties
from podtui.manifest.validation.errors import Errors
from podtui.manifest.validation.pod_update import (
    validate_ephemeral_update,
    validate_resize,
    validate_status_update,
    validate_update,
)
from podtui.manifest.validation.security import APPARMOR_CONTAINER, apparmor_of_annotation
from podtui.manifest.warnings import pod_warnings

Selecting = TypeVar("Selecting", PodAffinityTerm, TopologySpreadConstraint)
Terms = TypeVar("Terms", PodAffinity, PodAntiAffinity)
_SECONDS: Final = 300
_NODE_PROBLEMS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_GATED: Final = PodCondition(
    type="PodScheduled",
    status="False",
    reason="SchedulingGated",
    message="Scheduling is blocked due to non-empty scheduling gates",
)


def _defaults(tree: Tree) -> None:
    """Apply the API's defaults. ``serviceAccount`` is an older name of ``serviceAccountName``."""
    apply_defaults(tree)
    spec: Tree = tree["spec"]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _prepare_create(pod: Pod) -> Pod:
    pod = structs.replace(pod, spec=without_stop_signals(pod.spec))
    pod = structs.replace(pod, spec=_with_label_keys(_with_apparmor(pod), pod.metadata.labels))
    status = PodStatus(
        phase="Pending",
        qosClass=compute_qos_class(pod),
        conditions=_gated(pod),
    )
    return with_meta(structs.replace(pod, status=status), generation=1)


def without_stop_signals(spec: PodSpec) -> PodSpec:
    """Drop the stop signals of a pod without ``os.name``. An API server drops all of them, because
    their feature gate is off; a kubelet refuses these in a manifest."""
    if spec.os is not None:
        return spec

    def dropped(container: Container) -> Container:
        hooks = container.lifecycle
        if hooks is None or not hooks.stopSignal:
            return container
        rest = structs.replace(hooks, stopSignal="")
        return structs.replace(container, lifecycle=None if rest == Lifecycle() else rest)

    return structs.replace(
        spec,
        containers=tuple(map(dropped, spec.containers)),
        initContainers=tuple(map(dropped, spec.initContainers)),
    )


def _with_apparmor(pod: Pod) -> PodSpec:
    """Set the AppArmor profiles that the pod names only in the deprecated annotations."""
    spec, annotations = pod.spec, pod.metadata.annotations
    if spec.os is not None and spec.os.name == "windows":
        return spec
    common = spec.securityContext and spec.securityContext.appArmorProfile

    def changed(container: Container) -> Container:
        context = container.securityContext or SecurityContext()
        note = annotations.get(f"{APPARMOR_CONTAINER}{container.name}", "")
        profile = apparmor_of_annotation(note)
        if context.appArmorProfile is not None or profile is None or profile == common:
            return container
        context = structs.replace(context, appArmorProfile=profile)
        return structs.replace(container, securityContext=context)

    return structs.replace(
        spec,
        containers=tuple(map(changed, spec.containers)),
        initContainers=tuple(map(changed, spec.initContainers)),
    )


def _with_label_keys(spec: PodSpec, labels: Mapping[str, str]) -> PodSpec:
    """Add the pod's labels that ``matchLabelKeys`` and ``mismatchLabelKeys`` name to the selectors
    of its topology spread constraints and affinity terms."""

    def selecting(term: Selecting) -> Selecting:
        selector = term.labelSelector
        if selector is None:
            return term
        wanted = [("In", key) for key in term.matchLabelKeys]
        if isinstance(term, PodAffinityTerm):
            wanted += [("NotIn", key) for key in term.mismatchLabelKeys]
        added = (
            LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
            for operator, key in wanted
            if key in labels
        )
        expressions = (*selector.matchExpressions, *added)
        selector = structs.replace(selector, matchExpressions=expressions)
        return structs.replace(term, labelSelector=selector)

    def resolved(affinity: Terms | None) -> Terms | None:
        return affinity and structs.replace(
            affinity,
            requiredDuringSchedulingIgnoredDuringExecution=tuple(
                map(selecting, affinity.requiredDuringSchedulingIgnoredDuringExecution)
            ),
            preferredDuringSchedulingIgnoredDuringExecution=tuple(
                structs.replace(weighted, podAffinityTerm=selecting(weighted.podAffinityTerm))
                for weighted in affinity.preferredDuringSchedulingIgnoredDuringExecution
            ),
        )

    return structs.replace(
        spec,
        topologySpreadConstraints=tuple(map(selecting, spec.topologySpreadConstraints)),
        affinity=spec.affinity
        and structs.replace(
            spec.affinity,
            podAffinity=resolved(spec.affinity.podAffinity),
            podAntiAffinity=resolved(spec.affinity.podAntiAffinity),
        ),
    )


def _gated(pod: Pod) -> tuple[PodCondition, ...]:
    if not pod.spec.schedulingGates:
        return ()
    return (structs.replace(_GATED, lastTransitionTime=pod.metadata.creationTimestamp),)


def _counted(new: Pod, old: Pod) -> Pod:
    """Count a change of the spec."""
    generation = (old.metadata.generation or 0) + (new.spec != old.spec)
    return with_meta(new, generation=generation or None)


def with_tolerations(spec: PodSpec) -> PodSpec:
    """Tolerate a node that is not ready or not reachable for five minutes, unless the pod says
    otherwise. Part of admission, for updates as well."""
    missing = (
        Toleration(key=key, operator="Exists", effect="NoExecute", tolerationSeconds=_SECONDS)
        for key in _NODE_PROBLEMS
        if not any(
            toleration.key in ("", key) and toleration.effect in ("", "NoExecute")
            for toleration in spec.tolerations
        )
    )
    return structs.replace(spec, tolerations=(*spec.tolerations, *missing))


def _prepare_update(new: Pod, old: Pod) -> Pod:
    spec = new.spec
    if spec is old.spec:
        return structs.replace(new, status=old.status)
    if spec.priority is None:
        spec = structs.replace(spec, priority=old.spec.priority)
    spec = with_tolerations(without_stop_signals(spec))
    return _counted(structs.replace(new, spec=spec, status=old.status), old)


def _prepare_status(new: Pod, old: Pod) -> Pod:
    status = new.status
    if status.podIP and (not status.podIPs or status.podIPs[0].ip != status.podIP):
        status = structs.replace(status, podIPs=(PodIP(ip=status.podIP),))
    if not status.qosClass:
        status = structs.replace(status, qosClass=old.status.qosClass)
    if not status.observedGeneration:
        status = structs.replace(status, observedGeneration=old.status.observedGeneration)
    status = structs.replace(status, conditions=_with_generations(status, old.status))
    new = structs.replace(new, spec=old.spec, status=status)
    return with_meta(new, deletionTimestamp=None, ownerReferences=old.metadata.ownerReferences)


def _with_generations(new: PodStatus, old: PodStatus) -> tuple[PodCondition, ...]:
    before = {
        condition.type: condition.observedGeneration for condition in reversed(old.conditions)
    }
    return tuple(
        structs.replace(
            condition,
            observedGeneration=condition.observedGeneration or before.get(condition.type),
        )
        for condition in new.conditions
    )


def _prepare_ephemeral(new: Pod, old: Pod) -> Pod:
    spec = structs.replace(old.spec, ephemeralContainers=new.spec.ephemeralContainers)
    return _counted(_only_spec(new, old, spec), old)


def _prepare_resize(new: Pod, old: Pod) -> Pod:
    after, before = new.spec, old.spec
    if _names(after) != _names(before):
        # The validation refuses it.
        return _counted(new, old)
    spec = structs.replace(
        before,
        resources=after.resources,
        containers=_resized(after.containers, before.containers),
        initContainers=_resized(after.initContainers, before.initContainers),
    )
    return _counted(_only_spec(new, old, spec), old)


def _only_spec(new: Pod, old: Pod, spec: PodSpec) -> Pod:
    """Return the old pod with another spec; the metadata changes as in an update of a status."""
    metadata = structs.replace(
        old.metadata,
        managedFields=new.metadata.managedFields,
        resourceVersion=new.metadata.resourceVersion,
    )
    return structs.replace(old, metadata=metadata, spec=spec)


def _names(spec: PodSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    containers = tuple(container.name for container in spec.containers)
    return containers, tuple(container.name for container in spec.initContainers)


def _resized(new: tuple[Container, ...], old: tuple[Container, ...]) -> tuple[Container, ...]:
    return tuple(
        structs.replace(before, resources=after.resources, resizePolicy=after.resizePolicy)
        for after, before in zip(new, old, strict=True)
    )


def _create_errors(pod: Pod) -> Errors:
    yield from validate_pod(pod)


def _warnings(new: Pod, old: Pod | None) -> Iterable[str]:
    """The API server sends no warnings about updates of pods."""
    return pod_warnings(new) if old is None else ()


def _grace(pod: Pod, seconds: int | None) -> int:
    """Return the seconds that a kubelet gets to end the pod; 0 without a kubelet that runs it."""
    if not pod.spec.nodeName or pod.status.phase in ("Failed", "Succeeded"):
        return 0
    if seconds is None:
        seconds = pod.spec.terminationGracePeriodSeconds or 0
    return 1 if seconds < 0 else seconds


PODS: Final = Strategy(
    struct=Pod,
    defaults=_defaults,
    tree_errors=written_empties,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate_create=_create_errors,
    validate_update=validate_update,
    warnings=_warnings,
    grace=_grace,
    returns_deleted=True,
)
STATUS: Final = replace(
    PODS, prepare_update=_prepare_status, validate_update=validate_status_update
)
EPHEMERAL_CONTAINERS: Final = replace(
    PODS, prepare_update=_prepare_ephemeral, validate_update=validate_ephemeral_update
)
RESIZE: Final = replace(PODS, prepare_update=_prepare_resize, validate_update=validate_resize)
