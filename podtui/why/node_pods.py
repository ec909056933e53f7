"""The pods of a node: which of them hold a resource, a host port or a name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import Final

from podtui.api.pods import is_finished
from podtui.api.quantity import Quantity
from podtui.api.v1 import Pod
from podtui.why.amounts import HostPort, host_ports, requested

MAX_HOLDERS: Final = 4
_FIRST_PORT: Final = 1024
_LAST_PORT: Final = 65535


class NodePods:
    """The pods of a node, indexed when a rule first asks, so that one instance serves the diagnoses
    of all of them. A ``pod`` that asks is left out of the answer.
    """

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._pods = tuple(pods)
        self._requests: dict[str, list[tuple[Pod, Quantity]]] = {}

    def holders(self, resource: str, pod: Pod) -> list[tuple[str, Quantity]]:
        """List the pods with the largest requests for a resource; ended pods hold nothing."""
        requests = self._requests.get(resource)
        if requests is None:
            amounts = ((p, requested(p, resource)) for p in self._pods if not is_finished(p))
            requests = sorted((a for a in amounts if a[1]), key=lambda a: a[1], reverse=True)
            self._requests[resource] = requests
        others = ((p.metadata.name, amount) for p, amount in requests if not _is_same(p, pod))
        return list(islice(others, MAX_HOLDERS))

    def port_holder(self, wanted: HostPort, pod: Pod) -> str:
        """Return the name of a pod that already uses a port; empty if there is none."""
        for holder, port in self._ports.get((wanted.number, wanted.protocol), ()):
            if wanted.clashes(port) and not is_finished(holder) and not _is_same(holder, pod):
                return holder.metadata.name
        return ""

    def next_port(self, wanted: HostPort, pod: Pod) -> int | None:
        """Return the nearest higher port that no pod uses, or else the nearest lower one; None if
        there is no unprivileged one.
        """
        own = {port.number for port in host_ports(pod)}
        higher = range(wanted.number + 1, _LAST_PORT + 1)
        lower = range(wanted.number - 1, _FIRST_PORT - 1, -1)
        free = (n for n in (*higher, *lower) if n not in self._numbers and n not in own)
        return next(free, None)

    def namesake(self, pod: Pod) -> Pod | None:
        """Return another pod with the same namespace and name."""
        meta = pod.metadata
        pods = self._names.get((meta.namespace, meta.name), ())
        return next((p for p in pods if p.metadata.uid != meta.uid), None)

    @cached_property
    def _ports(self) -> dict[tuple[int, str], list[tuple[Pod, HostPort]]]:
        ports: dict[tuple[int, str], list[tuple[Pod, HostPort]]] = {}
        for pod in self._pods:
            for port in host_ports(pod):
                ports.setdefault((port.number, port.protocol), []).append((pod, port))
        return ports

    @cached_property
    def _numbers(self) -> frozenset[int]:
        return frozenset(number for number, _ in self._ports)

    @cached_property
    def _names(self) -> dict[tuple[str, str], list[Pod]]:
        names: dict[tuple[str, str], list[Pod]] = {}
        for pod in self._pods:
            names.setdefault((pod.metadata.namespace, pod.metadata.name), []).append(pod)
        return names


def by_node(pods: Iterable[Pod]) -> dict[str, NodePods]:
    """Return the pods of each node; those without a node under the empty name."""
    nodes: dict[str, list[Pod]] = {}
    for pod in pods:
        nodes.setdefault(pod.spec.nodeName, []).append(pod)
    return {name: NodePods(members) for name, members in nodes.items()}


def _is_same(pod: Pod, other: Pod) -> bool:
    a, b = pod.metadata, other.metadata
    return (a.namespace, a.name, a.uid) == (b.namespace, b.name, b.uid)
