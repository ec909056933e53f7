"""Label the node, so that a pod fits its selector or affinity."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import Pod
from podtui.client.any_kind import ServedKind
from podtui.tui.commands.session import Session
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.dialogs import Dialog, confirmation
from podtui.tui.widgets.sanitize import clean
from podtui.why import Diagnosis
from podtui.why.diagnose import REJECTIONS

NODES: Final = ServedKind(api_version="v1", kind="Node", plural="nodes", namespaced=False)
Labels = tuple[tuple[str, str], ...]


def wanted_labels(diagnosis: Diagnosis | None) -> Labels:
    """Return the labels that would help the object of a diagnosis, or an object of its parts."""
    if diagnosis is None:
        return ()
    if diagnosis.node_labels:
        return diagnosis.node_labels
    return next(filter(None, (wanted_labels(part.diagnosis) for part in diagnosis.parts)), ())


async def label_node(session: Session, node: str, labels: Labels, pod: Pod | None, cause: str
                     ) -> None:  # fmt: skip
    """Ask, set the labels, and have a rejected pod admitted again. Raises `PodtuiError`."""
    if not await session.confirm(label_dialog(node, labels)):
        return
    texts = [f"{key}={value}" for key, value in labels]
    await session.client.patch_object(NODES, "", node, {"metadata": {"labels": dict(labels)}})
    command = ["kubectl", "label", "node", node, "--overwrite", *texts]
    session.record_action("label the node", command, node)
    if pod is not None and cause in REJECTIONS and not session.model.server.is_cluster:
        await session.client.retry(pod.metadata.namespace, pod.metadata.name)
    session.notify(f"{node} has {', '.join(texts)}", title="Labelled")


def label_dialog(node: str, labels: Labels) -> Dialog:
    lines = [(Span(clean(f"{key}={value}"), "name"),) for key, value in labels]
    note = (Span("Pods that select these labels may run on it; the labels are kept.", "muted"),)
    return confirmation(f"Label the node {clean(node)}?", [*lines, (), note], "Label")
