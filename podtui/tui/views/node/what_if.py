"""Parse a what-if query (requests, ports, a priority) and convert it to a manifest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from podtui.api.local import Lack, PodToRemove, PortHolder, WhatIf
from podtui.api.quantity import parse_quantity
from podtui.errors import PodtuiError
from podtui.tui.views.labels import name_label
from podtui.tui.views.node.allocation import in_unit, title_of
from podtui.tui.widgets.cells import Line, Span, sized, wrap
from podtui.tui.widgets.sanitize import clean

EXAMPLE: Final = "cpu=500m memory=1Gi hostPort=8080"
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_SHORT: Final = {"mem": "memory", "storage": "ephemeral-storage", "port": "hostPort"}
_OTHERS: Final = ("hostPort", "priority", "name", "namespace")


class QueryError(PodtuiError):
    """Raised for an invalid query; the message explains the expected input."""


@dataclass(frozen=True, slots=True)
class WhatIfQuery:
    """A parsed query; ``requests`` are quantities, ``ports`` are (number, protocol, host IP)."""

    requests: dict[str, str] = field(default_factory=dict[str, str])
    ports: tuple[tuple[int, str, str], ...] = ()
    priority: int | None = None
    name: str = "what-if"
    namespace: str = "default"

    def manifest(self) -> bytes:
        """Return a pod manifest with these requests as JSON."""
        # Extended resources and huge pages require a limit equal to the request.
        whole = {
            name: amount
            for name, amount in self.requests.items()
            if "/" in name or name.startswith("hugepages-")
        }
        resources: dict[str, Any] = {"requests": self.requests, "limits": whole}
        if any(name.startswith("hugepages-") for name in whole):
            resources["requests"] = {"memory": "0", **self.requests}
        container: dict[str, Any] = {
            "name": "what-if",
            "image": "what-if",
            "resources": resources,
            "ports": [
                {"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": ip}
                for port, protocol, ip in self.ports
            ],
        }
        spec: dict[str, Any] = {"containers": [container]}
        if self.priority is not None:
            spec["priority"] = self.priority
        metadata = {"name": self.name, "namespace": self.namespace}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return json.dumps(document).encode()


def is_query(text: str) -> bool:
    """Return True if a text is a query, not a file name."""
    tokens = text.split()
    return bool(tokens) and all("=" in word for word in tokens)


def parse_query(text: str) -> WhatIfQuery:
    """Parse ``cpu=500m memory=1Gi hostPort=8080/UDP priority=10``, in any order.

    Raises `QueryError`.
    """
    requests: dict[str, str] = {}
    ports: list[tuple[int, str, str]] = []
    fields: dict[str, Any] = {}
    for word in text.split():
        key, equals, given = word.partition("=")
        if not equals or not key:
            raise QueryError(f"{word!r} is neither a request such as {EXAMPLE} nor a file")
        key = _SHORT.get(key, key)
        if not given:
            raise QueryError(f"{key}: missing value")
        if key == "hostPort":
            ports += [_port(port) for port in given.split(",")]
        elif key == "priority":
            fields[key] = _integer(key, given)
        elif key in ("name", "namespace"):
            fields[key] = given
        elif key in _RESOURCES or "/" in key or key.startswith("hugepages-"):
            requests[key] = _amount(key, given)
        else:
            names = [*_RESOURCES, *_OTHERS]
            close = get_close_matches(key, names, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; known: {', '.join(names)}"
            raise QueryError(f"{key!r} is not a known resource{hint}")
    return WhatIfQuery(requests=requests, ports=tuple(ports), **fields)


def _amount(key: str, given: str) -> str:
    try:
        parse_quantity(given)
    except ValueError:
        raise QueryError(f"{key}: {given!r} is not a quantity (500m, 2, 1Gi …)") from None
    return given


def _integer(key: str, given: str) -> int:
    try:
        return int(given)
    except ValueError:
        raise QueryError(f"{key}: {given!r} is not a number") from None


def _port(given: str) -> tuple[int, str, str]:
    """Parse ``8080``, ``8080/UDP`` or ``127.0.0.1:8080``."""
    address, _, rest = given.rpartition(":")
    number, _, protocol = rest.partition("/")
    port = _integer("hostPort", number)
    if not 0 < port < 65536:
        raise QueryError(f"hostPort: {port} must be between 1 and 65535, inclusive")
    return port, protocol.upper() or "TCP", address.strip("[]")


_COLUMN: Final = 10

_NAME: Final = 20


def verdict_lines(answer: WhatIf, width: int) -> list[Line]:
    """Return lines of at most ``width`` cells."""
    lines = [*_verdict(answer, width), ()]
    if answer.lacks:
        lines += [*_lacks(answer.lacks, width), ()]
    if answer.holders:
        lines += [*_holders(answer.holders, width), ()]
    if answer.leave:
        lines += [*_removal_lines(answer.leave, width, ends=answer.admitted), ()]
    for remark in answer.remarks:
        lines += wrap((Span("▸ ", "key"), Span(clean(remark), "soft")), width, indent=2)
    return lines


def _verdict(answer: WhatIf, width: int) -> list[Line]:
    name = clean(answer.metadata.name)
    if answer.admitted and answer.leave:
        head = (Span("▲ ", "warning"), Span(name, "name"), Span(" would be admitted, ", "warning"),
                Span("and other pods would be preempted", "warning"))  # fmt: skip
    elif answer.admitted and answer.holders:
        head = (Span("▲ ", "warning"), Span(name, "name"),
                Span(" would be admitted, but could not start", "warning"))  # fmt: skip
    elif answer.admitted:
        head = (Span("✔ ", "good"), Span(name, "name"), Span(" fits", "good"))
    else:
        head = (Span("✖ ", "error"), Span(name, "name"), Span(" does not fit: ", "error"),
                Span(clean(answer.reason), "error"))  # fmt: skip
    lines = wrap(head, width, indent=2)
    if answer.message:
        lines += wrap((Span(f"  {clean(answer.message)}", "soft"),), width, indent=2)
    if answer.replaces:
        text = "  It would replace the pod of this name, which is not counted."
        lines += wrap((Span(text, "muted"),), width, indent=2)
    return lines


def _lacks(lacks: Sequence[Lack], width: int) -> list[Line]:
    head = f"{'Missing resources':<{_NAME}}" + "".join(
        f"{title:>{_COLUMN}}" for title in ("REQUESTED", "FREE", "OF", "MISSING")
    )
    lines: list[Line] = [(Span(sized(head, width).rstrip(), "heading"),)]
    for lack in lacks:
        name = title_of(lack.resource)
        free = max(0, lack.capacity - lack.used)
        cells = [in_unit(lack.resource, n) for n in (lack.requested, free, lack.capacity)]
        lines.append(
            (
                Span(f"  {sized(name, _NAME - 2)}", "key"),
                Span("".join(f"{cell:>{_COLUMN}}" for cell in cells)),
                Span(f"{in_unit(lack.resource, lack.missing):>{_COLUMN}}", "error"),
            )
        )
    return lines


def _holders(holders: Sequence[PortHolder], width: int) -> list[Line]:
    lines: list[Line] = [(Span("Port in use", "heading"),)]
    for holder in holders:
        address = f"{clean(holder.hostIP)}:{holder.port}" if holder.hostIP else str(holder.port)
        if holder.pod:
            label, kind = name_label(holder.namespace, holder.pod), "pod"
        else:
            number = "" if holder.pid is None else f" (pid {holder.pid})"
            named = clean(holder.process) or "a program"
            label, kind = f"{named}{number}", "outside podtui"
        line = (
            Span(f"  {address}/{clean(holder.protocol)}  ", "key"),
            Span(f"{label} ", "name"),
            Span(kind, "muted"),
        )
        lines += wrap(line, width, indent=4)
    return lines


def _removal_lines(leave: Sequence[PodToRemove], width: int, *, ends: bool) -> list[Line]:
    heading = "Preempted pods" if ends else "Pods to remove"
    lines: list[Line] = [(Span(heading, "heading"), Span("  the smallest sufficient set", "muted"))]
    for pod in leave:
        frees = [f"{title_of(name)} {in_unit(name, amount)}" for name, amount in pod.frees.items()]
        frees += [f"port {port}" for port in pod.ports]
        line = (
            Span("  ✖ ", "warning"),
            Span(f"{name_label(pod.namespace, pod.name)}  ", "name"),
            Span(f"frees {', '.join(frees)}", "soft"),
        )
        lines += wrap(line, width, indent=6)
    return lines
