"""The adapter between kubelet, engine and Services, on the simulated engine."""

from __future__ import annotations

import pytest
from virtual_time import VirtualClock

from podtui.agent.pod_networks import EngineNetworks, host_table
from podtui.api.v1 import ObjectMeta, Pod, PodSpec
from podtui.errors import EngineError
from podtui.runtime.memory import MemoryRuntime
from podtui.runtime.protocol import SandboxConfig
from podtui.services.protocol import AttachedPod

pytestmark = pytest.mark.virtual_time
POD = Pod(metadata=ObjectMeta(name="a", namespace="default"), spec=PodSpec(containers=()))


class Rules:
    """Sets one rule in the network of each attached pod."""

    def __init__(self, networks: EngineNetworks) -> None:
        self._networks = networks
        self.attached: dict[str, AttachedPod] = {}

    async def attach(self, pod: AttachedPod) -> None:
        self.attached[pod.sandbox_id] = pod
        await self._networks.set_rules(pod.sandbox_id, "add table ip podtui\n")

    async def detach(self, sandbox_id: str) -> None:
        del self.attached[sandbox_id]

    def reaches(self, sandbox_id: str) -> bool:
        return sandbox_id in self.attached


async def test_a_sandbox_is_attached_with_its_addresses(
    virtual_clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = MemoryRuntime(clock=virtual_clock)
    applied: list[tuple[str, str]] = []

    async def set_pod_rules(sandbox_id: str, rules: str) -> None:
        applied.append((sandbox_id, rules))

    monkeypatch.setattr(runtime, "set_pod_rules", set_pod_rules)
    await runtime.connect()
    config = SandboxConfig(name="a", namespace="default", uid="u", attempt=0)
    sandbox = (await runtime.run_sandbox(config)).id
    ips = (await runtime.sandbox_status(sandbox)).ips
    networks = EngineNetworks(runtime)
    # Without Services, only the addresses are known.
    await networks.attach(POD, sandbox, ips)
    assert networks.sandbox_of(ips[0]) == sandbox
    assert not networks.reaches_services(sandbox)
    networks.services = rules = Rules(networks)
    await networks.attach(POD, sandbox, ips)
    assert rules.attached == {sandbox: AttachedPod(pod=POD, sandbox_id=sandbox, ips=ips)}
    assert applied == [(sandbox, "add table ip podtui\n")]
    assert networks.reaches_services(sandbox)
    await networks.detach(sandbox)
    assert networks.sandbox_of(ips[0]) == ""
    assert not rules.attached
    with pytest.raises(EngineError, match="simulated pods have no network"):
        await networks.listen(sandbox, "UDP", "127.96.0.10")


def test_each_root_directory_has_a_table_of_its_own() -> None:
    assert host_table("/a") != host_table("/b")
    assert host_table("/a").startswith("podtui-")
