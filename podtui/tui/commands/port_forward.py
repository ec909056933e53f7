"""Port-forwards to pods and Services that run in the background until they are stopped or the
screen is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from podtui.api.lenient import lenient_convert
from podtui.api.pods import all_containers, is_true
from podtui.api.v1 import ObjectMeta, Pod, Service, ServicePort
from podtui.client.any_kind import ServedKind
from podtui.errors import PodtuiError, UsageError
from podtui.tui.commands.session import RunningForward, Session
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import TextDialog
from podtui.tui.widgets.sanitize import clean

LARGEST = 65535
PRIVILEGED = 1023


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
    await _forward(session, pod, parse_ports(text, pod))


async def _forward(session: Session, pod: Pod, ports: PortPair, service: str = "") -> None:
    """Listen on the local port, and forward until stopped. ``service`` is the name that the user
    chose, if that is a Service. Raises `PodtuiError`."""
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
    of = f" of {service}" if service else ""
    session.notify(f"{kept.address} → {pod_label(pod)}:{ports.remote}{of}; f lists them.",
                 title="Forwarding")  # fmt: skip


# --- to a Service


async def start_service_forward(session: Session, kind: ServedKind, meta: ObjectMeta) -> None:
    """Ask for a port of a Service, then forward to one of its ready pods until stopped, as kubectl
    does. Raises `PodtuiError`."""
    item = await session.client.get_object(kind, meta.namespace, meta.name)
    service = lenient_convert(item.content, Service)
    pod = forwarded_pod(service, session.model.pods.values())
    text = await session.ask(service_forward_dialog(service, pod))
    if text is not None:
        ports = parse_service_ports(text, service, pod)
        await _forward(session, pod, ports, f"Service {meta.name}")


def service_forward_dialog(service: Service, pod: Pod) -> TextDialog:
    """Return the dialog that asks for the port of a Service."""
    return TextDialog(
        f"Forward a port to the Service {clean(service.metadata.name)}",
        service_forward_words(service, pod),
        text=_proposal(service),
        selected=True,
        check=lambda text: service_ports_problem(text, service, pod),
    )


def _tcp_ports(service: Service) -> list[ServicePort]:
    return [port for port in service.spec.ports if (port.protocol or "TCP") == "TCP"]


def forwarded_pod(service: Service, pods: Iterable[Pod]) -> Pod:
    """Return the pod that a forward to a Service reaches: a ready one. Raises `UsageError`."""
    selector = service.spec.selector
    if not selector:
        raise UsageError("it has no selector, so that no pod is known to forward to")
    running = [
        pod
        for pod in pods
        if pod.metadata.namespace == service.metadata.namespace
        and selector.items() <= pod.metadata.labels.items()
        and pod.status.phase == "Running"
        and not pod.metadata.deletionTimestamp
    ]
    if not running:
        raise UsageError("none of its pods is running; X says why")
    running.sort(key=lambda pod: (not is_true(pod, "Ready"), pod.metadata.name))
    return running[0]


def _proposal(service: Service) -> str:
    """Return a text for the first port; ports below 1024 need privileges on this machine."""
    ports = _tcp_ports(service)
    if not ports:
        return ""
    number = ports[0].port
    return str(number) if number > PRIVILEGED else f":{number}"


def parse_service_ports(text: str, service: Service, pod: Pod) -> PortPair:
    """Parse a pair of ports as `parse_ports`, with the ports of a Service, and return the port of
    the pod. Raises `UsageError`."""
    ports = _tcp_ports(service)
    first, colon, second = text.strip().partition(":")
    wanted = second if colon else first
    port = next((each for each in ports if wanted in (str(each.port), each.name) and wanted), None)
    if port is None:
        shown = ", ".join(str(each.port) for each in ports)
        raise UsageError(f"the Service has no TCP port {wanted!r}; it has {shown or 'none'}")
    target = port.port if port.targetPort is None else port.targetPort
    remote = _remote(str(target), pod)
    if not colon:
        return PortPair(port.port, remote)
    return PortPair(_number(first, "local") if first else 0, remote)


def service_ports_problem(text: str, service: Service, pod: Pod) -> str:
    """Return why the text is invalid; empty if it is valid."""
    try:
        parse_service_ports(text, service, pod)
    except UsageError as error:
        return str(error)
    return ""


def service_forward_words(service: Service, pod: Pod) -> list[Line]:
    """Return the syntax for ports, those of the Service, and the pod that is reached."""
    lines: list[Line] = [
        (Span("PORT, LOCAL:PORT, or :PORT for any free local port.", "muted"),),
    ]
    shown = [
        f"{clean(port.name)}={port.port}" if port.name else str(port.port)
        for port in _tcp_ports(service)
    ]
    if shown:
        lines.append((Span("The Service has ", "muted"), Span(" ".join(shown), "key")))
    lines.append((Span("It reaches one pod: ", "muted"), Span(pod_label(pod), "name")))
    return lines


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
