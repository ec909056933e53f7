"""Diagnosis of a valid file without a pod: no pod is started while the node is not ready."""

from __future__ import annotations

from typing import Final

from podtui.api.health import unready, unready_words
from podtui.api.local import Manifest, ManifestState
from podtui.api.v1 import Node
from podtui.why.types import Diagnosis, Evidence, Health

_TRIED: Final = "; tried:"


def engine_advice(problem: str) -> str:
    """Return advice about an unusable engine, based on the error message."""
    if "permission denied" in problem.lower():
        return (
            "The engine's socket belongs to another user: join its group (sudo usermod -aG docker"
            " $USER, then log in again), or name an engine of your own (rootless Docker or Podman)"
            " with DOCKER_HOST or --engine."
        )
    return "Start the container engine; 'podtui doctor' lists the places that were tried."


def diagnose_waiting(manifest: Manifest, node: Node | None) -> Diagnosis | None:
    """Diagnose the delay of an accepted file's pod; return None if nothing delays it, so that the
    pod will appear shortly."""
    condition = unready(node)
    if node is None or condition is None or manifest.status.state is not ManifestState.ACCEPTED:
        return None
    reason = unready_words(condition)
    first = reason.partition("\n")[0].removesuffix(_TRIED)
    of_runtime = "container runtime" in reason
    return Diagnosis(
        cause="NodeNotReady",
        health=Health.WAITING,
        title=f"It waits for the node {node.metadata.name}, which is not ready: {first}",
        evidence=(
            Evidence("node", f"{condition.reason}: {reason}", condition.lastTransitionTime or "",
                     warning=True),
        ),
        advice=engine_advice(reason)
        if of_runtime
        else "Check the node's conditions.",
        docs="https://kubernetes.io/docs/reference/node/node-status/#condition",
    )  # fmt: skip
