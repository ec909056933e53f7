"""The kinds of the group policy."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import policy

POD_DISRUPTION_BUDGETS = Resource(
    api_version="policy/v1",
    plural="poddisruptionbudgets",
    singular="poddisruptionbudget",
    kind="PodDisruptionBudget",
    namespaced=True,
    short_names=("pdb",),
    subresources={"status": ("get", "patch", "update")},
    record="poddisruptionbudgets",
    strategy=policy.POD_DISRUPTION_BUDGETS,
    updates={"status": policy.POD_DISRUPTION_BUDGET_STATUS},
)
