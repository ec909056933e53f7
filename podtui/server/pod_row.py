"""The row of a pod in kubectl's table."""

from __future__ import annotations

from datetime import datetime

from podtui.api.pods import is_true
from podtui.api.printing import pod_line
from podtui.api.times import short_duration, since
from podtui.api.v1 import Pod

NONE = "<none>"


def pod_row(pod: Pod, now: datetime) -> list[str]:
    """Return the cells: name, ready, status, restarts, age, ip, node, nominated node, gates."""
    line = pod_line(pod)
    restarts = str(line.restarts)
    if line.restarts and line.last_restart is not None:
        restarts += f" ({short_duration((now - line.last_restart).total_seconds())} ago)"
    return [
        pod.metadata.name,
        f"{line.ready}/{line.wanted}",
        line.word,
        restarts,
        since(pod.metadata.creationTimestamp, now),
        pod.status.podIP or (pod.status.podIPs[0].ip if pod.status.podIPs else NONE),
        pod.spec.nodeName or NONE,
        pod.status.nominatedNodeName or NONE,
        _gates(pod),
    ]


def _gates(pod: Pod) -> str:
    gates = pod.spec.readinessGates
    if not gates:
        return NONE
    return f"{sum(is_true(pod, gate.conditionType) for gate in gates)}/{len(gates)}"
