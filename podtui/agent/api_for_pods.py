"""The API at its cluster address, inside the networks of pods."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from podtui.pki.certificates import CLUSTER_ADDRESS
from podtui.server.resources.kubernetes_service import PORT
from podtui.server.transport.pod_server import PodServers, SourcePod
from podtui.services.protocol import AttachedPod, ClusterPort

ADDRESS: Final = "127.96.0.1"


@dataclass(slots=True)
class _Listener:
    pod: SourcePod
    socket: socket.socket
    task: asyncio.Task[None] | None = None


class ApiForPods:
    """Implements `podtui.services.protocol.PodListener`. Attached pods are served while `run`
    runs."""

    name = "API"
    address = ADDRESS
    ports = (ClusterPort("TCP", CLUSTER_ADDRESS, PORT),)

    def __init__(self, servers: PodServers) -> None:
        self._servers = servers
        self._listeners: dict[str, _Listener] = {}
        self._attached = asyncio.Event()

    async def attach(self, pod: AttachedPod, sockets: Sequence[socket.socket]) -> None:
        await self.detach(pod.sandbox_id)
        [sock] = sockets
        self._listeners[pod.sandbox_id] = _Listener(_source(pod), sock)
        self._attached.set()

    async def detach(self, sandbox_id: str) -> None:
        listener = self._listeners.pop(sandbox_id, None)
        if listener is None:
            return
        if listener.task is not None:
            listener.task.cancel()
            await asyncio.wait([listener.task])
        listener.socket.close()

    async def run(self) -> None:
        """Serve the attached pods. Runs forever."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._attached.clear()
                    for listener in self._listeners.values():
                        if listener.task is None:
                            listener.task = group.create_task(self._serve(listener))
                    await self._attached.wait()
        finally:
            for listener in self._listeners.values():
                listener.task = None

    async def _serve(self, listener: _Listener) -> None:
        await self._servers.serve(listener.pod, listener.socket)

    def close(self) -> None:
        """Close the sockets of all pods, after `run` has ended."""
        while self._listeners:
            self._listeners.popitem()[1].socket.close()


def _source(pod: AttachedPod) -> SourcePod:
    if pod.host_network:
        return SourcePod()
    meta = pod.pod.metadata
    return SourcePod(f"{meta.namespace}/{meta.name}", next(iter(pod.ips), ""))
