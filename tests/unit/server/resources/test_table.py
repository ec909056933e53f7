from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from podtui.api.v1 import (
    ConfigMap,
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Event,
    Lease,
    Namespace,
    Node,
    NodeAddress,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodReadinessGate,
    PodSpec,
    PodStatus,
    Secret,
    ServiceAccount,
)
from podtui.server.resources import table
from podtui.server.resources.table import NODES, Columns, pod_row

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def status(
    name: str, *, ready: bool = True, restarts: int = 0, last: ContainerState | None = None
) -> ContainerStatus:
    return ContainerStatus(
        name=name,
        image="i",
        imageID="",
        ready=ready,
        restartCount=restarts,
        state=ContainerState(running=ContainerStateRunning()),
        lastState=last or ContainerState(),
    )


def pod(*containers: ContainerStatus, conditions: tuple[str, ...] = ()) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="p", creationTimestamp="2026-01-01T00:00:00Z"),
        spec=PodSpec(containers=tuple(Container(name=c.name) for c in containers)),
        status=PodStatus(
            phase="Running",
            containerStatuses=containers,
            conditions=tuple(PodCondition(type=name, status="True") for name in conditions),
        ),
    )


def test_pod_rows() -> None:
    ended = ContainerState(
        terminated=ContainerStateTerminated(exitCode=1, finishedAt="2026-01-01T23:55:00Z")
    )
    item = pod(status("a", restarts=3, last=ended), status("b", ready=False))
    assert pod_row(item, NOW)[:5] == ["p", "1/2", "Running", "3 (5m ago)", "24h"]
    assert pod_row(pod(status("a", restarts=3)), NOW)[3] == "3"
    assert pod_row(pod(status("a", last=ended)), NOW)[3] == "0"


def test_readiness_gates() -> None:
    item = pod(status("a"), conditions=("x/one",))
    gates = tuple(PodReadinessGate(conditionType=f"x/{name}") for name in ("one", "two"))
    item = structs.replace(item, spec=structs.replace(item.spec, readinessGates=gates))
    assert pod_row(item, NOW)[-1] == "1/2"


@pytest.mark.parametrize(
    ("ready", "unschedulable", "words"),
    [
        ("True", None, "Ready"),
        ("False", None, "NotReady"),
        ("Unknown", None, "NotReady"),
        ("", None, "Unknown"),
        ("True", True, "Ready,SchedulingDisabled"),
    ],
)
def test_node_rows(ready: str, unschedulable: bool | None, words: str) -> None:
    conditions = (NodeCondition(type="Ready", status=ready),) if ready else ()
    item = Node(
        metadata=ObjectMeta(name="n", labels={"node-role.kubernetes.io/worker": ""}),
        spec=NodeSpec(unschedulable=unschedulable),
        status=NodeStatus(
            conditions=conditions,
            addresses=(
                NodeAddress(type="InternalIP", address="10.0.0.1"),
                NodeAddress(type="InternalIP", address="fd00::1"),
            ),
        ),
    )
    row = NODES.row(item, NOW)
    assert row[1:3] == [words, "worker"]
    assert row[5:7] == ["10.0.0.1", "<none>"]


RECORDED = json.loads(Path(__file__).with_name("recorded_tables.json").read_text())
KINDS: dict[str, tuple[Columns, type]] = {
    "pods": (table.PODS, Pod),
    "nodes": (table.NODES, Node),
    "events": (table.EVENTS, Event),
    "configmaps": (table.CONFIG_MAPS, ConfigMap),
    "secrets": (table.SECRETS, Secret),
    "serviceaccounts": (table.SERVICE_ACCOUNTS, ServiceAccount),
    "leases": (table.LEASES, Lease),
    "namespaces": (table.NAMESPACES, Namespace),
}


@pytest.mark.parametrize("plural", KINDS)
def test_tables_are_those_of_a_real_api_server(plural: str) -> None:
    """Rows of Kubernetes v1.36.2 for objects with random statuses; ages are not recorded."""
    columns, kind = KINDS[plural]
    recorded, now = RECORDED[plural], datetime.fromisoformat(RECORDED["now"])
    definitions = [
        [column[key] for key in ("name", "type", "format", "priority")]
        for column in columns.definitions()
    ]
    assert definitions == recorded["definitions"]
    assert all(column.description.endswith(".") for column in columns.columns)
    assert recorded["rows"]
    for document, cells, conditions in recorded["rows"]:
        item = msgspec.convert(document, kind)
        encoded = json.loads(
            table.table(columns, [(item, msgspec.Raw(b"{}"))], now=now, metadata={})
        )
        [row] = encoded["rows"]
        shown = [
            None if known is None else cell for known, cell in zip(cells, row["cells"], strict=True)
        ]
        assert shown == cells, document
        assert row.get("conditions") == conditions
