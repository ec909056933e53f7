"""Diagnoses of ResourceQuotas."""

from __future__ import annotations

from podtui.api.health import Health
from podtui.api.v1 import ResourceQuota
from podtui.why.amounts import quantity
from podtui.why.inventory import Inventory
from podtui.why.types import Diagnosis, Kind

_DOCS = "https://kubernetes.io/docs/concepts/policy/resource-quotas/"


def diagnose_quota(inventory: Inventory, item: ResourceQuota) -> Diagnosis:
    hard, used = item.status.hard, item.status.used
    namespace = item.metadata.namespace
    if not hard:
        return Diagnosis(
            cause="NotObserved", kind=Kind.WAIT, health=Health.PENDING,
            state="waiting for its controller", title="Its usage is not counted yet.",
        )  # fmt: skip
    texts = [f"{name}: {used.get(name, '0')} of {limit} used." for name, limit in hard.items()]
    full = [name for name, limit in hard.items()
            if quantity(used.get(name, "0")) >= quantity(limit)]  # fmt: skip
    refused = [
        event
        for event in inventory.quota_events(namespace)
        if f"exceeded quota: {item.metadata.name}," in event.text
    ]
    if full:
        return Diagnosis(
            cause="QuotaUsedUp",
            kind=Kind.WAIT,
            health=Health.NOT_READY,
            state="used up",
            title=f"It is used up: {', '.join(full)}. More is refused.",
            brief=f"used up: {', '.join(full)}",
            sentences=tuple(texts),
            evidence=tuple(refused[-3:]),
            advice=f"Raise it: kubectl edit resourcequota {item.metadata.name} -n {namespace}",
            docs=_DOCS,
        )
    return Diagnosis(
        cause="Quota",
        kind=Kind.NONE,
        health=Health.RUNNING,
        state="within limits",
        title="It allows more.",
        sentences=tuple(texts),
        evidence=tuple(refused[-3:]),
        docs=_DOCS,
    )
