"""Port-forwards that run in the background until they are stopped or the screen is left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from textual.worker import Worker

from podtui.api.v1 import Pod
from podtui.client.protocol import PortForward
from podtui.errors import PodtuiError
from podtui.tui.actions.actions import Actions
from podtui.tui.actions.ports import offered, parse_ports, ports_problem
from podtui.tui.overview.rows import pod_label
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import Ask
from podtui.tui.widgets.sanitize import clean


@dataclass(slots=True, eq=False)
class KeptForward:
    """A port-forward of this session. ``failed`` is the reason why it ended by itself."""

    pod: Pod
    forward: PortForward
    worker: Worker[Any] | None = None
    failed: str = ""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.forward.local_port}"

    @property
    def problem(self) -> str:
        return self.failed or self.forward.problem

    def stop(self) -> None:
        """Stop the forward. Idempotent."""
        if self.worker is not None:
            self.worker.cancel()
        self.forward.close()


async def start_forward(actions: Actions, pod: Pod) -> None:
    """Ask for the ports, then forward them until stopped. Raises `PodtuiError`."""
    text = await actions.app.push_screen_wait(
        Ask(
            f"Forward a port to {pod_label(pod)}",
            forward_words(pod),
            text=next((str(port) for _, port in offered(pod)), ""),
            check=lambda text: ports_problem(text, pod),
        )
    )
    if text is None:
        return
    ports = parse_ports(text, pod)
    meta = pod.metadata
    forward = await actions.client.port_forward(
        meta.namespace, meta.name, ports.remote, local_port=ports.local
    )
    kept = KeptForward(pod, forward)
    kept.worker = actions.app.run_worker(partial(_run, actions, kept), group="forwards")
    actions.forwards.append(kept)
    pair = f"{forward.local_port}:{ports.remote}"
    words = actions.kubectl("port-forward", "-n", meta.namespace, meta.name, pair)
    actions.did("forward", words, meta.name)
    actions.tell(f"{kept.address} → {pod_label(pod)}:{ports.remote}; f lists them.",
                 title="Forwarding")  # fmt: skip


async def _run(actions: Actions, kept: KeptForward) -> None:
    try:
        await kept.forward.run()
    except (PodtuiError, OSError) as error:
        kept.failed = str(error)
        actions.tell(f"{kept.address}: {error}", title="Forward ended", severity="error")


def forward_words(pod: Pod) -> list[Line]:
    """Return the syntax for ports, and the ports that the pod declares."""
    lines: list[Line] = [
        (Span("PORT, LOCAL:PORT, or :PORT for any free local port.", "muted"),),
    ]
    ports = [f"{clean(name)}={port}" if name else str(port) for name, port in offered(pod)]
    if ports:
        lines.append((Span("The pod declares ", "muted"), Span(" ".join(ports), "key")))
    return lines
