"""Open a shell in a container, attach to its process, or start a debug container."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final

from podtui.api.pods import all_containers, container_statuses
from podtui.api.v1 import ContainerStatus, EphemeralContainer, Pod
from podtui.client.protocol import AttachQuery, ExecQuery
from podtui.tui.commands.raw_terminal import DETACH, INTERRUPT, print_line, run_session
from podtui.tui.commands.restart import choose_container
from podtui.tui.commands.session import Session
from podtui.tui.commands.terminal import ProgramFailed, lent_terminal
from podtui.tui.views.labels import pod_label
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.dialogs import TextDialog
from podtui.tui.widgets.sanitize import clean

SHELL: Final = ("sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
DEBUG_IMAGE: Final = "busybox:1.36"
START_SECONDS: Final = 120.0
_NO_SHELL: Final = (126, 127)


def running_names(pod: Pod) -> list[str]:
    """Return the running containers in the order of their statuses."""
    return [status.name for status in container_statuses(pod) if status.state.running is not None]


async def _choose(session: Session, pod: Pod, verb: str) -> str:
    names = running_names(pod)
    if not names:
        raise ProgramFailed(f"no container of {pod_label(pod)} is running")
    return await choose_container(session, pod, verb, ask=False, names=names)


async def open_shell(session: Session, pod: Pod) -> None:
    """Run a shell in a container, in this terminal. Raises `PodtuiError`."""
    container = await _choose(session, pod, "Shell in")
    if not container:
        return
    query = ExecQuery(container=container, command=SHELL, stdin=True, tty=True)
    meta = pod.metadata
    async with lent_terminal(session):
        print_line(f"Shell in {clean(container)} of {pod_label(pod)}; type exit to leave it.")
        async with session.client.exec(meta.namespace, meta.name, query) as process:
            result = await run_session(process)
        code = process.exit_code()
    session.record_action(
        "shell", _kubectl(session, "exec", "-it", pod, container, "--", *SHELL), meta.name
    )
    # An interactive shell exits with the status of its last command, which may be 126 or 127, too.
    if code in _NO_SHELL and not result.typed:
        raise ProgramFailed(
            f"the image of {clean(container)} has no shell: D adds a debug container"
        )


async def attach_to(session: Session, pod: Pod, container: str = "") -> None:
    """Attach this terminal to a container's own process. Raises `PodtuiError`."""
    container = container or await _choose(session, pod, "Attach to")
    if not container:
        return
    spec = next((spec for _, spec in all_containers(pod) if spec.name == container), None)
    tty = spec is not None and bool(spec.tty)
    stdin = spec is not None and bool(spec.stdin)
    keys, key_names = (DETACH, "ctrl+p ctrl+q") if tty else (INTERRUPT, "ctrl+c")
    meta = pod.metadata
    query = AttachQuery(container=container, stdin=stdin, tty=tty)
    async with lent_terminal(session):
        no_input = "" if stdin else " It takes no input (stdin is not set)."
        print_line(
            f"Attached to {clean(container)} of {pod_label(pod)}; {key_names} detaches.{no_input}"
        )
        async with session.client.attach(meta.namespace, meta.name, query) as process:
            await run_session(process, keys=keys, tty=tty)
    flags = f"-{'i' * stdin}{'t' * tty}" if stdin or tty else ""
    session.record_action("attach", _kubectl(session, "attach", flags, pod, container), meta.name)


async def start_debugger(session: Session, pod: Pod) -> None:
    """Start an ephemeral container that shares a container's process namespace, and attach to it.
    Raises `PodtuiError`.
    """
    regular_names = {
        container.name for container in (*pod.spec.containers, *pod.spec.initContainers)
    }
    # Kubernetes does not accept an ephemeral container as a target.
    names = [name for name in running_names(pod) if name in regular_names]
    target = await choose_container(session, pod, "Debug", ask=False, names=names)
    if not target:
        return
    image = await session.ask(
        TextDialog(
            f"Debug {clean(target)} of {pod_label(pod)}",
            [
                (
                    Span(
                        "Image of the debug container, which stays in the pod until the pod ends.",
                        "muted",
                    ),
                )
            ],
            text=DEBUG_IMAGE,
            check=lambda text: "" if text.strip() else "an image is required",
        )
    )
    if image is None:
        return
    debugger = EphemeralContainer(
        name=f"debugger-{secrets.token_hex(3)}",
        image=image.strip(),
        stdin=True,
        tty=True,
        targetContainerName=target,
        imagePullPolicy="IfNotPresent",
    )
    meta = pod.metadata
    await session.client.debug(meta.namespace, meta.name, debugger)
    what = (f"--image={debugger.image}", f"--target={target}")
    command = ["debug", "-it", "-n", meta.namespace, meta.name, *what]
    server = session.model.server
    command = ["kubectl", *([f"--context={server.context}"] if server.is_cluster else ()), *command]
    session.record_action("debug", command, meta.name)
    session.notify(f"Starting {debugger.image}…", title=f"Debugging {clean(target)}")
    await attach_to(session, await _started(session, pod, debugger.name), debugger.name)


async def _started(session: Session, pod: Pod, name: str) -> Pod:
    """Wait until the ephemeral container runs, and return the pod. Raises `ProgramFailed` if it
    does not start.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                current = session.model.pods.get(pod.metadata.uid)
                status = _status(current, name)
                if current is not None and status is not None:
                    if status.state.running is not None:
                        return current
                    ended = status.state.terminated
                    if ended is not None:
                        why = clean(ended.message or ended.reason)
                        raise ProgramFailed(
                            f"the debug container exited with code {ended.exitCode}: {why}"
                        )
                await asyncio.sleep(0.1)
    except TimeoutError:
        status = _status(session.model.pods.get(pod.metadata.uid), name)
        waiting = status.state.waiting if status is not None else None
        why = f": {clean(waiting.reason)} {clean(waiting.message)}" if waiting is not None else ""
        raise ProgramFailed(f"the debug container has not started{why}") from None


def _status(pod: Pod | None, name: str) -> ContainerStatus | None:
    every = () if pod is None else pod.status.ephemeralContainerStatuses
    return next((status for status in every if status.name == name), None)


def _kubectl(
    session: Session, verb: str, flags: str, pod: Pod, container: str, *rest: str
) -> Sequence[str]:
    meta = pod.metadata
    how = [flags] if flags else []
    where = ("-n", meta.namespace, meta.name, "-c", container)
    return session.kubectl(verb, *how, *where, *rest)
