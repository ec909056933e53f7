"""Diagnoses of PodDisruptionBudgets and NetworkPolicies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podtui.api.health import Health
from podtui.api.networking import NetworkPolicy
from podtui.api.policy import PodDisruptionBudget
from podtui.api.selectors import labels_match, selector_text
from podtui.api.v1 import LabelSelector, Pod
from podtui.text.terminal_text import plural
from podtui.why.inventory import Inventory
from podtui.why.types import Diagnosis, Kind
from podtui.why.workloads import alive, as_desired, deleting, name_list, part_of

_DOCS: Final = "https://kubernetes.io/docs/"
_BUDGET_DOCS: Final = _DOCS + "concepts/workloads/pods/disruptions/#pod-disruption-budgets"


def diagnose_budget(inventory: Inventory, item: PodDisruptionBudget) -> Diagnosis:
    early = deleting(item)
    if early is not None:
        return early
    pods = _selected(inventory, item.metadata.namespace, item.spec.selector)
    limits = (
        "" if inventory.in_cluster else
        "It applies to evictions through the API; preemption and eviction under pressure ignore it."
    )  # fmt: skip
    if not pods:
        return Diagnosis(
            cause="SelectorMatchesNothing",
            kind=Kind.NONE,
            health=Health.RUNNING,
            state="no pods",
            title=f"Its selector matches no pod: {_shown(item.spec.selector)}.",
            brief="selector matches no pod",
            sentences=tuple(filter(None, (limits,))),
            docs=_BUDGET_DOCS,
        )
    status = item.status
    failed = next((c for c in status.conditions if c.reason == "SyncFailed"), None)
    if failed is not None:
        return Diagnosis(
            cause="BudgetUnknown",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="not computed",
            title=f"Its budget cannot be computed: {failed.message}",
            brief="budget cannot be computed",
            sentences=tuple(filter(None, (limits,))),
            docs=_BUDGET_DOCS,
        )
    counts = (
        f"{status.currentHealthy} of {plural(status.expectedPods, 'pod')} healthy,"
        f" {status.desiredHealthy} required."
    )
    if status.disruptionsAllowed:
        return as_desired(
            f"It allows {plural(status.disruptionsAllowed, 'disruption')} now.", counts, limits,
            state="allows disruptions",
        )  # fmt: skip
    parts = part_of(inventory, pods)
    if status.currentHealthy < status.desiredHealthy:
        return Diagnosis(
            cause="TooFewHealthy",
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="no disruption allowed",
            title="It allows no disruption: too few of its pods are healthy.",
            brief="too few healthy pods",
            sentences=tuple(filter(None, (counts, limits))),
            parts=parts,
            docs=_BUDGET_DOCS,
        )
    return as_desired(
        "It allows no disruption: all its pods are required.", counts,
        "Evictions, such as those of kubectl drain, are refused with 429.", limits,
        state="no disruption allowed",
    )  # fmt: skip


def diagnose_policy(inventory: Inventory, item: NetworkPolicy) -> Diagnosis:
    """Explain a NetworkPolicy: podtui stores it and does not enforce it."""
    early = deleting(item)
    if early is not None:
        return early
    pods = _selected(inventory, item.metadata.namespace, item.spec.podSelector)
    names = name_list([pod.metadata.name for pod in pods])
    selected = f"It selects {plural(len(pods), 'pod')}: {names}." if pods else (
        f"Its selector matches no pod: {_shown(item.spec.podSelector)}.")  # fmt: skip
    if inventory.in_cluster:
        return as_desired(
            selected,
            "Whether it is enforced depends on the network plugin of the cluster.",
            state="stored",
        )
    return as_desired(
        "It is stored and not enforced: podtui restricts no connection.", selected,
        state="not enforced",
    )  # fmt: skip


def _selected(inventory: Inventory, namespace: str, selector: LabelSelector | None) -> list[Pod]:
    pods: Iterable[Pod] = inventory.list(Pod, namespace)
    return [pod for pod in alive(pods) if labels_match(selector, pod.metadata.labels)]


def _shown(selector: LabelSelector | None) -> str:
    return selector_text(selector)
