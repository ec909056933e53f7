"""The networks of pods: connects the kubelet, the engine, and the parts that serve Services."""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress

from podtui.api.v1 import Pod
from podtui.errors import EngineNotFound
from podtui.runtime.protocol import Runtime, SandboxState
from podtui.services.protocol import AttachedPod, ServiceNetwork, Transport


def host_table(root_dir: str) -> str:
    """Return the name of the table of rules in the host's network, one for each root directory."""
    return f"podtui-{hashlib.sha256(os.fsencode(root_dir)).hexdigest()[:12]}"


class EngineNetworks:
    """Implements `podtui.services.protocol.PodNetworks`, and `podtui.kubelet.ports.PodNetwork` for
    `services`, which must be set before the kubelet runs."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods: dict[str, str] = {}
        """The sandbox of each pod IP."""
        self.services: ServiceNetwork | None = None

    # --- for the kubelet

    async def attach(self, pod: Pod, sandbox_id: str, ips: tuple[str, ...]) -> None:
        for ip in ips:
            self._pods[ip] = sandbox_id
        if self.services is not None:
            await self.services.attach(AttachedPod(pod=pod, sandbox_id=sandbox_id, ips=ips))

    def reaches_services(self, sandbox_id: str) -> bool:
        return self.services is not None and self.services.reaches(sandbox_id)

    async def detach(self, sandbox_id: str) -> None:
        for ip in [ip for ip, sandbox in self._pods.items() if sandbox == sandbox_id]:
            del self._pods[ip]
        if self.services is not None:
            await self.services.detach(sandbox_id)

    def sandbox_of(self, ip: str) -> str:
        """Return the sandbox with an IP; empty if there is none."""
        return self._pods.get(ip, "")

    # --- for Services

    async def set_rules(self, sandbox_id: str, rules: str) -> None:
        await self._runtime.set_pod_rules(sandbox_id, rules)

    async def check_table(self, sandbox_id: str, table: str) -> None:
        await self._runtime.check_pod_table(sandbox_id, table)

    async def listen(self, sandbox_id: str, protocol: Transport, address: str) -> socket.socket:
        return await self._runtime.pod_listener(sandbox_id, protocol, address)

    async def forget_flows(self, sandbox_id: str, ip: str, port: int) -> None:
        await self._runtime.forget_pod_flows(sandbox_id, ip, port)

    async def has_host_pods(self) -> bool:
        for sandbox in (await self._runtime.list()).sandboxes:
            if sandbox.state == SandboxState.READY:
                with suppress(EngineNotFound):
                    if (await self._runtime.sandbox_status(sandbox.id)).host_network:
                        return True
        return False

    async def datagrams(self, ip: str) -> socket.socket:
        sandbox_id = self._pods.get(ip)
        if sandbox_id is not None:
            return await self._runtime.pod_listener(sandbox_id, "UDP", ip)
        sock = socket.socket(_family(ip), socket.SOCK_DGRAM)
        sock.setblocking(False)
        return sock


def _family(ip: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in ip else socket.AF_INET
