"""The kinds of the group policy."""

from __future__ import annotations

from datetime import datetime

from podtui.api.policy import PodDisruptionBudget
from podtui.api.times import since
from podtui.manifest.strategies import policy
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import AGE, NAME, Cell, Columns, TableColumn


def _budget(item: PodDisruptionBudget, now: datetime) -> list[Cell]:
    limits = (item.spec.minAvailable, item.spec.maxUnavailable)
    return [
        item.metadata.name,
        *("N/A" if limit is None else str(limit) for limit in limits),
        item.status.disruptionsAllowed,
        since(item.metadata.creationTimestamp, now),
    ]


POD_DISRUPTION_BUDGETS = Resource(
    api_version="policy/v1",
    plural="poddisruptionbudgets",
    singular="poddisruptionbudget",
    kind="PodDisruptionBudget",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("Min Available", "Number of pods that must stay available."),
            TableColumn("Max Unavailable", "Number of pods that may be unavailable."),
            TableColumn(
                "Allowed Disruptions", "Number of pods that may be evicted now.", type="integer"
            ),
            AGE,
        ),
        _budget,
    ),
    short_names=("pdb",),
    subresources={"status": ("get", "patch", "update")},
    record="poddisruptionbudgets",
    strategy=policy.POD_DISRUPTION_BUDGETS,
    updates={"status": policy.POD_DISRUPTION_BUDGET_STATUS},
)
