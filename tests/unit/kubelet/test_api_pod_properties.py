"""Any order of API writes, container exits and restarts of the kubelet ends in the same state."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from kubelet_world import World, api_pod, container, ends
from msgspec import structs
from virtual_time import run_virtual

from podtui.api.v1 import Pod
from podtui.errors import AlreadyExists, NotFound
from podtui.runtime.protocol import ContainerState

NAMES = ("a", "b")
_Step = tuple[str, str, float]
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ("create", "once", "delete", "hurry", "force", "image", "label", "crash", "restart")
        ),
        st.sampled_from(NAMES),
        st.sampled_from((0.0, 0.05, 1.0, 7.0)),
    ),
    max_size=12,
)


class Client:
    """An API client that writes, and records the desired objects."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.created = 0

    async def act(self, verb: str, name: str) -> None:
        with contextlib.suppress(NotFound, AlreadyExists):
            await self._verbs()[verb](name)

    def _verbs(self) -> dict[str, Callable[[str], Awaitable[None]]]:
        return {
            "create": lambda name: self._create(name, "Always"),
            "once": lambda name: self._create(name, "Never"),
            "delete": lambda name: self.world.delete(name, 30),
            "hurry": lambda name: self.world.delete(name, 2),
            "force": lambda name: self.world.delete(name, 0),
            "image": lambda name: self.world.change(_other_image, name),
            "label": lambda name: self.world.change(_labelled, name),
            "crash": self._crash,
            "restart": self._restart,
        }

    async def _create(self, name: str, policy: str) -> None:
        self.created += 1
        made = api_pod(name, container(policy.lower()), policy=policy)
        meta = structs.replace(made.metadata, uid=f"{name}-{self.created}")
        await self.world.create(structs.replace(made, metadata=meta))

    async def _crash(self, name: str) -> None:
        for cell in list(self.world.engine.containers.values()):
            if cell.record.pod_uid.startswith(f"{name}-") and cell.running:
                self.world.engine.crash(cell.record.id, 1)

    async def _restart(self, _name: str) -> None:
        await self.world.stop_kubelet()
        await self.world.start_kubelet()


def _other_image(pod: Pod) -> Pod:
    (one,) = pod.spec.containers
    image = "busybox:2" if one.image == "busybox:1" else "busybox:1"
    return structs.replace(
        pod,
        spec=structs.replace(pod.spec, containers=(structs.replace(one, image=image),)),
    )


def _labelled(pod: Pod) -> Pod:
    return structs.replace(pod, metadata=structs.replace(pod.metadata, labels={"a": "b"}))


async def _check(world: World) -> None:
    """Check that desired pods run, deleted ones are removed, and every record agrees."""
    listing = await world.store.list("pods")
    records = {pod.metadata.uid: pod for pod in listing.items if isinstance(pod, Pod)}
    assert all(pod.metadata.deletionTimestamp is None for pod in records.values())
    assert {one.pod_uid for one in world.containers()} <= records.keys()
    assert {one.uid for one in world.sandboxes(ready=False)} <= records.keys()
    for uid, pod in records.items():
        running = [one for one in world.containers(uid) if one.state is ContainerState.RUNNING]
        if pod.spec.restartPolicy == "Always":
            assert pod.status.phase == "Running"
            assert len(running) == 1
        else:
            assert pod.status.phase in ("Succeeded", "Failed")
            assert not running


@examples(150)
@given(steps)
def test_every_sequence_of_changes_settles(history: list[_Step]) -> None:
    async def live() -> None:
        world = World()
        world.behaviours["never"] = ends(after=3.0)
        client = Client(world)
        async with world.running():
            for verb, name, pause in history:
                await client.act(verb, name)
                await world.sleep(pause)
            await world.sleep(700.0)
            await _check(world)

    run_virtual(live())
