"""Sessions on a terminal: ``podtui exec``, ``attach``, ``port-forward`` and ``cp``."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import signal
import struct
import sys
import termios
import tty
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from msgspec.structs import replace

from podtui.api.v1 import Pod, PodList
from podtui.cli.invocation import socket_of
from podtui.cli.signals import run_until_signal
from podtui.client.api_client import ApiClient
from podtui.client.decoding import decode_response
from podtui.client.protocol import (
    NO_END_OF_INPUT,
    AttachQuery,
    ExecQuery,
    PortForward,
    RemoteSession,
)
from podtui.client.unix import UnixClient
from podtui.errors import ApiError, PodtuiError, UsageError, without_group
from podtui.text.terminal_text import lines, one_line

T = TypeVar("T")
_PIECE: Final = 64 * 1024
_POLL_SECONDS: Final = 0.5
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


# --- the commands


def run_exec(namespace: argparse.Namespace) -> int:
    """Run a command in a container; return its exit status."""
    if not namespace.exec_command:
        raise UsageError("a command is missing: podtui exec POD -- COMMAND …")
    query = ExecQuery(
        container=namespace.container,
        command=tuple(namespace.exec_command),
        stdin=namespace.stdin,
        tty=namespace.tty and sys.stdin.isatty(),
    )
    return _run(namespace, lambda client, at: execute(client, at, namespace.pod, query))


def run_attach(namespace: argparse.Namespace) -> int:
    """Attach to a container's process; return its exit status."""
    query = AttachQuery(
        container=namespace.container,
        stdin=namespace.stdin,
        tty=namespace.tty and sys.stdin.isatty(),
    )
    return _run(namespace, lambda client, at: attach(client, at, namespace.pod, query))


def run_forward(namespace: argparse.Namespace) -> int:
    """Forward ports until interrupted."""
    ports = parse_ports(namespace.ports)

    def say(line: str) -> None:
        print(one_line(line), flush=True)

    _run(namespace, lambda client, at: forward(client, at, namespace.pod, ports, say))
    return 0


def run_copy(namespace: argparse.Namespace) -> int:
    """Copy files and print what was copied."""

    def job(client: ApiClient, at: str) -> Coroutine[Any, Any, str]:
        source, target = (
            parse_copy_path(path, at) for path in (namespace.source, namespace.target)
        )
        return copy(client, namespace.container, source, target)

    print(lines(_run(namespace, job)))
    return 0


def _run(
    namespace: argparse.Namespace, job: Callable[[ApiClient, str], Coroutine[Any, Any, T]]
) -> T:
    """Run ``job`` with a client of the agent or cluster, and the Kubernetes namespace."""
    if namespace.cluster:
        from podtui.cli import cluster

        _, target = cluster.find(namespace)
        at = namespace.namespace or target.namespace
        return run_session(lambda: cluster.client(target, ""), lambda client: job(client, at))
    socket = socket_of(namespace)
    at = namespace.namespace or "default"
    return run_session(lambda: UnixClient(socket), lambda client: job(client, at))


# --- places and pods


@dataclass(frozen=True, slots=True)
class CopyPath:
    """A path; in a container if ``pod`` is set, otherwise local."""

    path: str
    pod: str = ""
    namespace: str = ""


def parse_copy_path(text: str, namespace: str) -> CopyPath:
    """Parse ``PATH``, ``POD:PATH`` or ``NAMESPACE/POD:PATH``. Raises `UsageError`."""
    before, colon, path = text.partition(":")
    if not colon or before.startswith((".", "/")):
        return CopyPath(text)
    given, _, pod = before.rpartition("/")
    if not pod or not path:
        raise UsageError(f"{text}: not a path; use PATH, POD:PATH or NAMESPACE/POD:PATH")
    return CopyPath(path, pod, given or namespace)


def parse_ports(texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return (local, remote) for each ``REMOTE``, ``LOCAL:REMOTE`` or ``:REMOTE``; local 0 means
    any free port. Raises `UsageError`."""
    pairs: list[tuple[int, int]] = []
    for text in texts:
        first, colon, second = text.partition(":")
        local, remote = (first or "0", second) if colon else (text, text)
        if not (_is_port(local) or local == "0") or not _is_port(remote):
            raise UsageError(f"{text}: not a port; use REMOTE, LOCAL:REMOTE or :REMOTE")
        pairs.append((int(local), int(remote)))
    return tuple(pairs)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536


def run_session(
    make: Callable[[], ApiClient], job: Callable[[ApiClient], Coroutine[Any, Any, T]]
) -> T:
    """Run ``job`` with a new client, until a signal ends it."""

    async def with_client() -> T:
        client = make()
        try:
            return await job(client)
        finally:
            await client.close()

    return run_until_signal(with_client())


@dataclass(frozen=True, slots=True)
class FoundPod:
    """A pod's full name and the pod; None if the user may not read pods."""

    name: str
    pod: Pod | None = None

    @property
    def phase(self) -> str:
        return "" if self.pod is None else self.pod.status.phase

    def container(self, wanted: str) -> tuple[str, str]:
        """Return ``wanted`` or, if it is empty, the default container, like kubectl: that of the
        annotation, or the first one; then a note for the user if there are others."""
        if wanted or self.pod is None:
            return wanted, ""
        spec = self.pod.spec
        regular = [container.name for container in spec.containers]
        annotated = self.pod.metadata.annotations.get(_DEFAULT_CONTAINER, "")
        if annotated in regular:
            return annotated, ""
        ephemeral = [f"{container.name} (ephem)" for container in spec.ephemeralContainers]
        every = [
            *regular,
            *ephemeral,
            *(f"{container.name} (init)" for container in spec.initContainers),
        ]
        if len(every) == 1:
            return regular[0], ""
        return regular[0], f'Defaulted container "{regular[0]}" out of: {", ".join(every)}'

    def require_running(self, action: str) -> None:
        """Raises `PodtuiError` if the pod has terminated."""
        if self.phase in ("Succeeded", "Failed"):
            raise PodtuiError(
                f'cannot {action} pod "{self.name}": it has terminated ({self.phase})'
            )


async def find_pod(client: ApiClient, namespace: str, wanted: str) -> FoundPod:
    """Find a pod by its name, with or without the node name as a suffix. Raises `ApiError`."""
    pods = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    path = f"{pods}/{quote(wanted, safe='')}"
    try:
        pod = decode_response(path, await client.ask(path), Pod)
    except ApiError as error:
        if error.code == 403:
            return FoundPod(wanted)
        if error.code != 404:
            raise
    else:
        return FoundPod(wanted, pod)
    try:
        items = decode_response(pods, await client.ask(pods), PodList).items
    except ApiError as error:
        if error.code != 403:
            raise
        items = ()
    matches = [
        FoundPod(pod.metadata.name, pod)
        for pod in items
        if pod.metadata.name == f"{wanted}-{pod.spec.nodeName.lower()}"
    ]
    if len(matches) == 1:
        return matches[0]
    raise ApiError(404, "NotFound", f'pod "{wanted}" does not exist')


def _container(target: FoundPod, wanted: str) -> str:
    """Return the container to use, and print the note about it."""
    container, note = target.container(wanted)
    if note:
        print(one_line(note), file=sys.stderr, flush=True)
    return container


# --- exec and attach


async def execute(client: ApiClient, namespace: str, pod: str, query: ExecQuery) -> int:
    """Run a command and return its exit code."""
    target = await find_pod(client, namespace, pod)
    target.require_running("exec in")
    query = replace(query, container=_container(target, query.container))
    opened = client.exec(namespace, target.name, query)
    return await _run_streams(opened, stdin=query.stdin, terminal=query.tty)


async def attach(client: ApiClient, namespace: str, pod: str, query: AttachQuery) -> int:
    target = await find_pod(client, namespace, pod)
    target.require_running("attach to")
    query = replace(query, container=_container(target, query.container))
    opened = client.attach(namespace, target.name, query)
    return await _run_streams(opened, stdin=query.stdin, terminal=query.tty)


async def _run_streams(
    opened: AbstractAsyncContextManager[RemoteSession], *, stdin: bool, terminal: bool
) -> int:
    async with opened as session:
        async with _jobs(*([_send_input(session)] if stdin else [])):
            with _raw(terminal and stdin), _sizes(terminal) as sizes:
                async with _jobs(_resize(session, sizes)):
                    async for stream, data in session.output():
                        await asyncio.to_thread(_print, stream, data)
        return session.exit_code()


@asynccontextmanager
async def _jobs(*jobs: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run jobs in parallel with the block and cancel them at its end; raise their errors without a
    group."""
    with without_group():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
            yield
            for task in tasks:
                task.cancel()


def _print(stream: str, data: bytes) -> None:
    out = sys.stderr.buffer if stream == "stderr" else sys.stdout.buffer
    out.write(data)
    out.flush()


async def _send_input(session: RemoteSession) -> None:
    async with aclosing(_input(sys.stdin.fileno())) as pieces:
        async for piece in pieces:
            await session.write(piece)
    if not session.can_end_input:
        await asyncio.to_thread(_print, "stderr", f"podtui: {NO_END_OF_INPUT}\n".encode())
    await session.end_input()


async def _input(descriptor: int) -> AsyncGenerator[bytes]:
    """Yield the input from a terminal, a pipe or a file, without a thread that could not be
    stopped."""
    while True:
        await _readable(descriptor)
        if not (piece := os.read(descriptor, _PIECE)):
            return
        yield piece


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        # A regular file, which is always ready.
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


@contextmanager
def _raw(wanted: bool) -> Generator[None]:
    """Switch the terminal to raw mode: every key goes to the remote side, including interrupt."""
    if not (wanted and sys.stdin.isatty()):
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextmanager
def _sizes(wanted: bool) -> Generator[AsyncIterator[tuple[int, int]]]:
    """Iterate over the terminal's size in columns and rows, now and after every change."""
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def sizes() -> AsyncGenerator[tuple[int, int]]:
        while wanted and sys.stdin.isatty():
            rows, columns, _, _ = struct.unpack(
                "HHHH", fcntl.ioctl(sys.stdin, termios.TIOCGWINSZ, bytes(8))
            )
            if columns and rows:
                yield columns, rows
            await changed.wait()
            changed.clear()

    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        yield sizes()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def _resize(session: RemoteSession, sizes: AsyncIterator[tuple[int, int]]) -> None:
    async for columns, rows in sizes:
        await session.resize(columns, rows)


# --- port-forward


async def forward(
    client: ApiClient,
    namespace: str,
    pod: str,
    ports: Sequence[tuple[int, int]],
    print_line: Callable[[str], None],
) -> None:
    """Forward until interrupted; ``print_line`` gets a line for each port and each new problem."""
    target = await find_pod(client, namespace, pod)
    target.require_running("forward ports to")
    forwards: list[PortForward] = []
    try:
        for local, remote in ports:
            listening = await client.port_forward(namespace, target.name, remote, local_port=local)
            forwards.append(listening)
            print_line(f"Forwarding from 127.0.0.1:{listening.local_port} -> {remote}")
        if target.phase == "Pending":
            print_line(f'pod "{target.name}" is Pending: connections fail until its containers run')
        async with asyncio.TaskGroup() as group:
            for listening in forwards:
                group.create_task(listening.run())
                group.create_task(_report_problems(listening, print_line))
    finally:
        for listening in forwards:
            listening.close()


async def _report_problems(listening: PortForward, print_line: Callable[[str], None]) -> None:
    problem = ""
    while True:
        if listening.problem != problem:
            problem = listening.problem
            if problem:
                print_line(f"{listening.local_port} -> {listening.remote_port}: {problem}")
        await asyncio.sleep(_POLL_SECONDS)


# --- cp


async def copy(client: ApiClient, container: str, source: CopyPath, target: CopyPath) -> str:
    """Copy a file or folder and return a message about it. Raises `PodtuiError`."""
    if bool(source.pod) == bool(target.pod):
        raise UsageError("one path must be in a container (POD:PATH), the other one local")
    if source.pod:
        pod = await find_pod(client, source.namespace, source.pod)
        container = _container(pod, container)
        copied = await client.copy_from(
            source.namespace, pod.name, container, source.path, Path(target.path)
        )
    else:
        if not os.path.lexists(source.path):  # noqa: ASYNC240 - one stat of a local path
            raise PodtuiError(f"{source.path}: no such file or directory")
        pod = await find_pod(client, target.namespace, target.pod)
        container = _container(pod, container)
        copied = await client.copy_to(
            target.namespace, pod.name, container, Path(source.path), target.path
        )
    skipped = f"; {copied.skipped} links and devices were skipped" if copied.skipped else ""
    files = "1 file" if copied.files == 1 else f"{copied.files} files"
    return f"{files}, {copied.bytes} bytes{skipped}"
