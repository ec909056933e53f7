"""Pods and a node that exist only as records."""

from __future__ import annotations

from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Event,
    Node,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)

SINCE = "2026-01-01T00:00:00Z"


def pod(index: int, restarts: int = 0, since: str = SINCE) -> Pod:
    """Return a pod that has been running ``since`` a time; only its restart count changes."""
    name = f"pod-{index:04d}-bench"
    return Pod(
        apiVersion="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"{index:032x}",
            creationTimestamp=since,
            resourceVersion=str(restarts),
        ),
        spec=PodSpec(nodeName="bench", containers=(Container(name="app", image="busybox:1.36"),)),
        status=PodStatus(
            phase="Running",
            podIP=f"10.0.{index // 250}.{index % 250 + 1}",
            startTime=since,
            conditions=(PodCondition(type="Ready", status="True"),),
            containerStatuses=(
                ContainerStatus(
                    name="app",
                    image="busybox:1.36",
                    imageID="sha256:0",
                    ready=True,
                    started=True,
                    restartCount=restarts,
                    state=ContainerState(running=ContainerStateRunning(startedAt=since)),
                ),
            ),
        ),
    )


def started(index: int, since: str = SINCE) -> Event:
    """Return the event that the container of a pod was started."""
    of = pod(index).metadata
    return Event(
        apiVersion="v1",
        kind="Event",
        metadata=ObjectMeta(name=f"{of.name}.0", namespace=of.namespace, creationTimestamp=since),
        involvedObject=ObjectReference(
            kind="Pod", name=of.name, namespace=of.namespace, uid=of.uid,
            fieldPath="spec.containers{app}",
        ),
        reason="Started",
        message="Container started",
        type="Normal",
        count=1,
        firstTimestamp=since,
        lastTimestamp=since,
    )  # fmt: skip


NODE = Node(
    apiVersion="v1",
    kind="Node",
    metadata=ObjectMeta(name="bench", uid="node", creationTimestamp=SINCE),
    status=NodeStatus(
        capacity={"cpu": "8", "memory": "32Gi", "pods": "1200"},
        allocatable={"cpu": "8", "memory": "31Gi", "pods": "1200"},
    ),
)
