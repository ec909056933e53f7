"""Pods are attached to Services, and containers have their variables."""

from __future__ import annotations

import pytest
from kubelet_world import PRESENT, World
from pod_builders import ctr, make_pod

from podtui.api.v1 import ObjectMeta, Pod, Service, ServicePort, ServiceSpec

pytestmark = pytest.mark.virtual_time


class Network:
    """Lets all pods reach Services, unless ``broken``."""

    def __init__(self, *, broken: bool = False) -> None:
        self._broken = broken

    async def attach(self, pod: Pod, sandbox_id: str, ips: tuple[str, ...]) -> None:
        return

    def reaches_services(self, sandbox_id: str) -> bool:
        return not self._broken

    async def detach(self, sandbox_id: str) -> None:
        return


async def variables(network: Network | None, **config: object) -> dict[str, str]:
    """Return those of a static pod of the namespace ``other``."""
    world = World(**config)
    world.network = network
    world.kubelet = world.new_kubelet()
    for namespace, name in (("default", "kubernetes"), ("default", "web"), ("other", "db")):
        meta = ObjectMeta(namespace=namespace, name=name)
        spec = ServiceSpec(clusterIP="10.96.0.1", ports=(ServicePort(port=443),))
        await world.store.put("services", Service(metadata=meta, spec=spec))
    async with world.running():
        world.add(make_pod(ctr(image=PRESENT), metadata={"namespace": "other"}))
        await world.until(world.runs("u1"))
        [container] = world.engine.containers.values()
        return dict(container.config.env)


async def test_containers_have_the_services_of_their_namespace_and_the_api() -> None:
    found = await variables(Network())
    hosts = {name for name in found if name.endswith("_SERVICE_HOST")}
    assert hosts == {"KUBERNETES_SERVICE_HOST", "DB_SERVICE_HOST"}


async def test_a_pod_that_reaches_no_service_has_no_variables() -> None:
    assert await variables(Network(broken=True)) == {}


@pytest.mark.parametrize("strict", [False, True])
async def test_variables_do_not_depend_on_the_network_if_others_lead_to_services(
    strict: bool,
) -> None:
    assert "KUBERNETES_SERVICE_HOST" in await variables(None, strict=strict)


async def test_static_pods_of_a_strict_kubelet_have_none() -> None:
    assert await variables(Network(), strict=True) == {}


class Recorder(Network):
    """Records the calls, and the state of the engine at the time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.calls: list[tuple[str, str, int, bool]] = []

    async def attach(self, pod: Pod, sandbox_id: str, ips: tuple[str, ...]) -> None:
        cell = self._world.engine.sandboxes[sandbox_id]
        assert ips == (cell.ip,)
        self.calls.append(("attach", sandbox_id, len(self._world.engine.containers), cell.ready))

    async def detach(self, sandbox_id: str) -> None:
        cell = self._world.engine.sandboxes[sandbox_id]
        self.calls.append(("detach", sandbox_id, len(self._world.engine.containers), cell.ready))


async def test_a_pod_is_attached_from_before_its_first_container_to_its_end() -> None:
    world = World()
    network = Recorder(world)
    world.network = network
    world.kubelet = world.new_kubelet()
    async with world.running():
        world.add(make_pod(ctr(image=PRESENT)))
        await world.until(world.runs("u1"))
        [sandbox] = world.engine.sandboxes
        assert network.calls[0] == ("attach", sandbox, 0, True)
        # The next kubelet attaches the sandbox that runs already.
        await world.stop_kubelet()
        network.calls.clear()
        await world.start_kubelet()
        await world.until(lambda: bool(network.calls))
        assert network.calls[0] == ("attach", sandbox, 1, True)
        network.calls.clear()
        world.remove("u1")
        await world.until(lambda: not world.engine.sandboxes)
        assert ("detach", sandbox, 1, True) in network.calls
        assert all(verb == "detach" for verb, *_ in network.calls)
