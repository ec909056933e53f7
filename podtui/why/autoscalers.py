"""Diagnoses of HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import Any, Final

from podtui.api.apps import Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition
from podtui.api.health import Health
from podtui.api.v1 import ReplicationController
from podtui.why.inventory import Inventory
from podtui.why.types import Diagnosis, Evidence, Kind

_DOCS: Final = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
_TARGETS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind for kind in (Deployment, ReplicaSet, StatefulSet, ReplicationController)
}


def diagnose_autoscaler(inventory: Inventory, item: HorizontalPodAutoscaler) -> Diagnosis:
    ref, namespace = item.spec.scaleTargetRef, item.metadata.namespace
    target = f"{ref.kind} {ref.name}"
    kind = _TARGETS.get(ref.kind)
    if (
        kind is not None
        and inventory.is_read(kind)
        and inventory.get(kind, namespace, ref.name) is None
    ):
        advice = f"Create it, or correct spec.scaleTargetRef (namespace {namespace})."
        return _fails("TargetMissing", f"Its target {target} does not exist.", advice=advice)
    conditions = {condition.type: condition for condition in item.status.conditions}
    if not conditions:
        return Diagnosis(
            cause="NotObserved", kind=Kind.WAIT, health=Health.PENDING,
            state="waiting for its controller", title="Its controller has not looked at it yet.",
        )  # fmt: skip
    able, active = conditions.get("AbleToScale"), conditions.get("ScalingActive")
    if able is not None and able.status == "False" and able.reason != "BackoffBoth":
        return _fails(able.reason, f"It cannot scale {target}: {able.message}", able)
    if active is not None and active.reason == "ScalingDisabled":
        return Diagnosis(
            cause="ScalingDisabled",
            kind=Kind.NONE,
            health=Health.COMPLETED,
            state="disabled",
            title=f"It does nothing while {target} is scaled to 0.",
            advice=f"To enable it: kubectl scale {ref.kind.lower()} {ref.name} -n {namespace}"
            f" --replicas={item.spec.minReplicas or 1}",
        )
    if active is not None and active.status == "False":
        return _no_metrics(item, active, target)
    return _active(item, conditions.get("ScalingLimited"), target)


def _no_metrics(
    item: HorizontalPodAutoscaler, active: HorizontalPodAutoscalerCondition, target: str
) -> Diagnosis:
    message, advice = active.message, ""
    if "missing request for" in message:
        resource = message.partition("missing request for ")[2].split(" ", 1)[0]
        advice = (
            f"Utilization is a percentage of the request: set resources.requests.{resource} of each"
            f" container of {target}."
        )
    elif active.reason in ("FailedGetPodsMetric", "FailedGetObjectMetric",
                           "FailedGetExternalMetric"):  # fmt: skip
        advice = "podtui measures CPU and memory only; use a metric of type Resource."
    elif active.reason in ("FailedGetResourceMetric", "FailedGetContainerResourceMetric"):
        advice = "Usage is known some seconds after a pod is ready; if this persists, no pod runs."
    return _fails(active.reason, f"It has no figures to scale by: {message}", active, advice)


def _fails(
    cause: str,
    title: str,
    condition: HorizontalPodAutoscalerCondition | None = None,
    advice: str = "",
) -> Diagnosis:
    evidence = (
        (
            Evidence(
                "state",
                f"{condition.type}: {condition.reason}: {condition.message}",
                condition.lastTransitionTime or "",
                warning=True,
            ),
        )
        if condition is not None
        else ()
    )
    return Diagnosis(
        cause=cause,
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="not scaling",
        title=title,
        brief=cause,
        evidence=evidence,
        advice=advice,
        docs=_DOCS,
    )


def _active(
    item: HorizontalPodAutoscaler, limited: HorizontalPodAutoscalerCondition | None, target: str
) -> Diagnosis:
    status = item.status
    now, wanted = status.currentReplicas or 0, status.desiredReplicas
    least, most = item.spec.minReplicas or 1, item.spec.maxReplicas
    title = f"It scales {target}: {now} pods now, {wanted} wanted, from {least} to {most}."
    reason = limited.reason if limited is not None and limited.status == "True" else ""
    if reason == "TooManyReplicas":
        return Diagnosis(
            cause=reason,
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="at its maximum",
            title=f"It would scale {target} beyond its maxReplicas of {most}.",
            brief="at its maximum",
            advice="Raise spec.maxReplicas, or the requests of the containers.",
            docs=_DOCS,
        )
    more = {
        "TooFewReplicas": f"Fewer pods would be enough, but minReplicas is {least}.",
        "ScaleUpLimit": "A policy limits how fast it scales up.",
        "ScaleDownLimit": "A policy limits how fast it scales down.",
    }.get(reason, "")
    return Diagnosis(
        cause="Scales",
        kind=Kind.NONE,
        health=Health.RUNNING,
        state="scaling",
        title=title,
        sentences=(more,) if more else (),
    )
