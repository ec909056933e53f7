"""Port-forwards that run in the background until they are stopped or the screen is left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from podtui.api.pods import all_containers
from podtui.api.v1 import Pod
from podtui.errors import PodtuiError, UsageError
from podtui.tui.commands.session import RunningForward, Session
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import TextDialog
from podtui.tui.widgets.sanitize import clean

LARGEST = 65535


@dataclass(frozen=True, slots=True)
class PortPair:
    """A pair of ports; ``local`` 0 means any free port."""

    local: int
    remote: int


def declared_ports(pod: Pod) -> list[tuple[str, int]]:
    """Return name (may be empty) and number of the TCP ports declared by a pod's containers."""
    return [
        (port.name, port.containerPort)
        for _, container in all_containers(pod)
        for port in container.ports
        if (port.protocol or "TCP") == "TCP"
    ]


def parse_ports(text: str, pod: Pod) -> PortPair:
    """Parse ``REMOTE``, ``LOCAL:REMOTE`` or ``:REMOTE`` as kubectl does; a remote port may be a
    port name. Raises `UsageError`.
    """
    first, colon, second = text.strip().partition(":")
    remote = _remote(second if colon else first, pod)
    if not colon:
        return PortPair(remote, remote)
    return PortPair(_number(first, "local") if first else 0, remote)


def ports_problem(text: str, pod: Pod) -> str:
    """Return why the text is invalid; empty if it is valid."""
    try:
        parse_ports(text, pod)
    except UsageError as error:
        return str(error)
    return ""


def _remote(text: str, pod: Pod) -> int:
    named = dict(declared_ports(pod))
    if text in named and text:
        return named[text]
    if text and not text.isdecimal():
        names = ", ".join(name for name in named if name)
        raise UsageError(f"the pod has no port {text!r}" + (f"; it has {names}" if names else ""))
    return _number(text, "remote")


def _number(text: str, which: str) -> int:
    # Python refuses to parse numbers with thousands of digits.
    few = text.lstrip("0")[: len(str(LARGEST)) + 1]
    if not text.isdecimal() or not text.isascii() or not 0 < int(few or "0") <= LARGEST:
        raise UsageError(f"a {which} port must be a number from 1 to {LARGEST}")
    return int(few)


async def start_forward(session: Session, pod: Pod) -> None:
    """Ask for the ports, then forward them until stopped. Raises `PodtuiError`."""
    text = await session.ask(
        TextDialog(
            f"Forward a port to {pod_label(pod)}",
            forward_words(pod),
            text=next((str(port) for _, port in declared_ports(pod)), ""),
            selected=True,
            check=lambda text: ports_problem(text, pod),
        )
    )
    if text is None:
        return
    ports = parse_ports(text, pod)
    meta = pod.metadata
    forward = await session.client.port_forward(
        meta.namespace, meta.name, ports.remote, local_port=ports.local
    )
    kept = RunningForward(pod, forward)
    kept.worker = session.app.run_worker(partial(_run, session, kept), group="forwards")
    session.forwards.append(kept)
    pair = f"{forward.local_port}:{ports.remote}"
    command = session.kubectl("port-forward", "-n", meta.namespace, meta.name, pair)
    session.record_action("forward", command, meta.name)
    session.notify(f"{kept.address} → {pod_label(pod)}:{ports.remote}; f lists them.",
                 title="Forwarding")  # fmt: skip


async def _run(session: Session, kept: RunningForward) -> None:
    try:
        await kept.forward.run()
    except (PodtuiError, OSError) as error:
        kept.failed = str(error)
        session.notify(f"{kept.address}: {error}", title="Forward ended", severity="error")


def forward_words(pod: Pod) -> list[Line]:
    """Return the syntax for ports, and the ports that the pod declares."""
    lines: list[Line] = [
        (Span("PORT, LOCAL:PORT, or :PORT for any free local port.", "muted"),),
    ]
    ports = [f"{clean(name)}={port}" if name else str(port) for name, port in declared_ports(pod)]
    if ports:
        lines.append((Span("The pod declares ", "muted"), Span(" ".join(ports), "key")))
    return lines
