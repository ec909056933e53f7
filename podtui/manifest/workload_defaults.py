"""The API's defaults of the kinds that own pods for a long time (v1.36), applied in place to
decoded trees."""

from __future__ import annotations

from typing import Final

from podtui.manifest.defaults import Tree, default_template, round_up

_QUARTER: Final = "25%"


def deployment_defaults(tree: Tree) -> None:
    spec: Tree = tree["spec"]
    default_template(spec["template"])
    strategy: Tree = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        update: Tree = strategy.setdefault("rollingUpdate", {})
        update.setdefault("maxUnavailable", _QUARTER)
        update.setdefault("maxSurge", _QUARTER)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def replica_set_defaults(tree: Tree) -> None:
    spec: Tree = tree["spec"]
    default_template(spec["template"])
    spec.setdefault("replicas", 1)


def daemon_set_defaults(tree: Tree) -> None:
    spec: Tree = tree["spec"]
    default_template(spec["template"])
    strategy: Tree = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        update: Tree = strategy.setdefault("rollingUpdate", {})
        update.setdefault("maxUnavailable", 1)
    if "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("maxUnavailable", 0)
        strategy["rollingUpdate"].setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def stateful_set_defaults(tree: Tree) -> None:
    spec: Tree = tree["spec"]
    default_template(spec["template"])
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy: Tree = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention: Tree = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for moment in ("whenDeleted", "whenScaled"):
        if not retention.get(moment):
            retention[moment] = "Retain"
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates", ()):
        _claim_defaults(claim)


def _claim_defaults(claim: Tree) -> None:
    """Complete a claim template. The API writes its kind, although it is no object of its own."""
    claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
    spec: Tree = claim.setdefault("spec", {})
    if not spec.get("volumeMode"):
        spec["volumeMode"] = "Filesystem"
    for amounts in ("limits", "requests"):
        round_up(spec.get("resources", {}).get(amounts, {}))
    status: Tree = claim.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"


def replication_controller_defaults(tree: Tree) -> None:
    """Complete a ReplicationController: its selector and labels are by default those of its
    template."""
    spec: Tree = tree.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template: Tree | None = spec.get("template")
    if template is None:
        return
    default_template(template)
    labels = template.get("metadata", {}).get("labels")
    if not labels:
        return
    if not spec.get("selector"):
        spec["selector"] = dict(labels)
    metadata: Tree = tree.setdefault("metadata", {})
    if not metadata.get("labels"):
        metadata["labels"] = dict(labels)
