"""Pod lifecycles as recorded from a real kubelet: every event in order, and the final status.

A kubelet reports ``BackOff`` in each pass while it waits, and makes one or two passes after an
exit: consecutive ones count as one here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from kubelet_world import DEAF, FOREVER, World, container, ends, no_file, pod

from podtui.api.v1 import (
    Container,
    ContainerStatus,
    EmptyDirVolumeSource,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    Probe,
    Volume,
    VolumeMount,
)
from podtui.store.resources import Resource

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"
REF = f"web-n1_default({UID})"
BRIEF = f"touch /tmp/ok; sleep 8; rm /tmp/ok; {FOREVER}"
COUNTED = "n=$(cat /d/n 2>/dev/null || echo 0); echo $((n+1)) > /d/n; [ $n -ge 2 ]"
HOOK_SCRIPT = "echo hook broke; exit 7"
FAILING = "echo failing; exit 3"
IMAGE = 'Container image "busybox:1" already present on machine and can be accessed by the pod'
DEADLINE = "Pod was active on the node longer than the specified deadline"

Event = tuple[str, str, str, str]
"""Type, reason, container's field path, message."""


def of(name: str = "main", init: bool = False) -> str:
    return f"spec.{'initContainers' if init else 'containers'}{{{name}}}"


def started(path: str) -> list[Event]:
    return [
        ("Normal", "Pulled", path, IMAGE),
        ("Normal", "Created", path, "Container created"),
        ("Normal", "Started", path, "Container started"),
    ]


def killing(message: str, path: str) -> Event:
    return ("Normal", "Killing", path, message)


def back_off(name: str, path: str) -> Event:
    return ("Warning", "BackOff", path, f"Back-off restarting failed container {name} in pod {REF}")


def unhealthy(kind: str, file: str) -> Event:
    text = f"{kind} probe failed: cat: can't open '{file}': No such file or directory\n"
    return ("Warning", "Unhealthy", of(), text)


def shell(script: str, name: str = "main", **fields: object) -> Container:
    return container(name, command=("sh", "-c", script), **fields)


def cat(file: str, **fields: int) -> Probe:
    return Probe(exec=ExecAction(command=("cat", file)), periodSeconds=2, **fields)


@dataclass(frozen=True)
class Golden:
    """``until``: virtual seconds after which the manifest is removed."""

    pod: Callable[[], Pod]
    until: float
    events: list[Event]
    after: tuple[Event, ...] = ()
    """Events after the removal of the manifest."""


def poststart_fail() -> Pod:
    hook = LifecycleHandler(exec=ExecAction(command=("sh", "-c", HOOK_SCRIPT)))
    return pod("web-n1", UID, shell(FOREVER, lifecycle=Lifecycle(postStart=hook)), grace=5)


def liveness_fail() -> Pod:
    probed = shell(BRIEF, livenessProbe=cat("/tmp/ok", failureThreshold=2))
    return pod("web-n1", UID, probed, grace=5)


def startup_fail() -> Pod:
    probed = shell(FOREVER, startupProbe=cat("/tmp/up", failureThreshold=3))
    return pod("web-n1", UID, probed, grace=5)


def init_fail() -> Pod:
    init = (shell(FAILING, "init-a"), shell("true", "init-b"))
    return pod("web-n1", UID, shell(FOREVER), init=init)


def onfailure() -> Pod:
    counter = shell(COUNTED, volumeMounts=(VolumeMount(name="d", mountPath="/d"),))
    directory = Volume(name="d", emptyDir=EmptyDirVolumeSource())
    return pod("web-n1", UID, counter, policy="OnFailure", volumes=(directory,))


def deadline() -> Pod:
    return pod("web-n1", UID, shell(FOREVER), activeDeadlineSeconds=8)


def sidecar() -> Pod:
    startup = Probe(exec=ExecAction(command=("true",)), periodSeconds=1)
    side = shell(FOREVER, "side", restartPolicy="Always", startupProbe=startup)
    return pod("web-n1", UID, shell(FOREVER), init=(side, shell("sleep 2", "init-b")))


def ignore_term() -> Pod:
    return pod("web-n1", UID, shell(DEAF), grace=6)


def prestop() -> Pod:
    hook = LifecycleHandler(exec=ExecAction(command=("sh", "-c", "sleep 4")))
    return pod("web-n1", UID, shell(FOREVER, lifecycle=Lifecycle(preStop=hook)), grace=20)


def recorded_world() -> World:
    """Return a world with the results of the scripts in these pods."""
    world = World(start_delay=0.4)
    world.behaviours[FAILING] = ends("failing", code=3)
    world.behaviours[COUNTED] = lambda config: ends(code=0 if config.attempt >= 2 else 1)
    world.commands[HOOK_SCRIPT] = ends("hook broke", code=7)
    world.commands["cat /tmp/ok"] = lambda age: ends() if age < 8.0 else no_file("/tmp/ok")
    world.commands["cat /tmp/up"] = no_file("/tmp/up")
    return world


HOOK_BROKE: list[Event] = [
    *started(of()),
    ("Warning", "FailedPostStartHook", of(), "PostStartHook failed"),
    killing("FailedPostStartHook", of()),
]
LIVENESS = [
    unhealthy("Liveness", "/tmp/ok"),
    unhealthy("Liveness", "/tmp/ok"),
    killing("Container main failed liveness probe, will be restarted", of()),
]
STARTUP = [
    *[unhealthy("Startup", "/tmp/up")] * 3,
    killing("Container main failed startup probe, will be restarted", of()),
]
BACK_OFF = back_off("main", of())
INIT_A = of("init-a", init=True)
STOPPING = killing("Stopping container main", of())

GOLDEN = {
    "poststart-fail": Golden(
        poststart_fail, 20.0, [*HOOK_BROKE, *HOOK_BROKE, BACK_OFF, *HOOK_BROKE, BACK_OFF]
    ),
    "liveness-fail": Golden(
        liveness_fail, 60.0, [*[*started(of()), *LIVENESS] * 4, BACK_OFF], after=()
    ),
    "startup-fail": Golden(
        startup_fail,
        33.0,
        [*[*started(of()), *STARTUP] * 3, BACK_OFF, *started(of()), *STARTUP[:2]],
        after=(STOPPING,),
    ),
    "init-fail": Golden(
        init_fail,
        30.0,
        [
            *started(INIT_A) * 2,
            back_off("init-a", INIT_A),
            *started(INIT_A),
            back_off("init-a", INIT_A),
        ],
    ),
    "onfailure": Golden(onfailure, 60.0, [*started(of()) * 2, BACK_OFF, *started(of())]),
    "deadline": Golden(
        deadline,
        30.0,
        [
            *started(of()),
            *[("Normal", "DeadlineExceeded", "", DEADLINE)] * 2,
            STOPPING,
            *[("Normal", "DeadlineExceeded", "", DEADLINE)] * 2,
        ],
    ),
    "sidecar": Golden(
        sidecar,
        25.0,
        [
            *started(of("side", init=True)),
            *started(of("init-b", init=True)),
            *started(of()),
        ],
        after=(killing("Stopping container side", of("side", init=True)), STOPPING),
    ),
    "ignore-term": Golden(ignore_term, 12.0, started(of()), after=(STOPPING,)),
    "prestop": Golden(prestop, 13.0, started(of()), after=(STOPPING,)),
}


class PodEvents:
    """Every event of a pod, repetitions included, in the order in which they were stored."""

    def __init__(self, world: World) -> None:
        self.events: list[Event] = []
        counts: dict[str, int] = {}
        put = world.store.put

        async def note(resource: Resource, item: Any) -> Any:
            if resource == "events" and item.involvedObject.kind == "Pod":
                found = (item.type, item.reason, item.involvedObject.fieldPath, item.message)
                new = item.count - counts.get(item.metadata.name, 0)
                counts[item.metadata.name] = item.count
                for _ in range(new):
                    if item.reason != "BackOff" or not self.events or self.events[-1] != found:
                        self.events.append(found)
            return await put(resource, item)

        world.store.put = note  # type: ignore[method-assign]


@pytest.mark.parametrize("name", GOLDEN)
async def test_golden_events(name: str) -> None:
    golden = GOLDEN[name]
    world = recorded_world()
    recorded = PodEvents(world)
    async with world.running():
        await world.sleep(100.0)
        world.add(golden.pod())
        await world.sleep(golden.until)
        assert recorded.events == golden.events
        world.remove(UID)
        await world.until(world.gone(UID), 60.0)
        # Containers are stopped side by side: their order is undefined.
        assert sorted(recorded.events[len(golden.events) :]) == sorted(golden.after)


async def last(golden: Golden, seconds: float, name: str = "main") -> ContainerStatus:
    world = recorded_world()
    async with world.running():
        await world.sleep(100.0)
        world.add(golden.pod())
        await world.sleep(seconds)
        status = await world.status()
        assert status.phase == ("Pending" if status.initContainerStatuses else "Running")
        every = (*status.initContainerStatuses, *status.containerStatuses)
        return next(one for one in every if one.name == name)


@pytest.mark.parametrize(
    ("name", "seconds", "count", "pause"),
    [("liveness-fail", 60.0, 3, "20s"), ("startup-fail", 25.0, 2, "10s")],
)
async def test_golden_back_off_after_probes(
    name: str, seconds: float, count: int, pause: str
) -> None:
    found = await last(GOLDEN[name], seconds)
    waiting, ended = found.state.waiting, found.lastState.terminated
    assert waiting is not None
    assert waiting.reason == "CrashLoopBackOff"
    assert waiting.message == f"back-off {pause} restarting failed container=main pod={REF}"
    assert ended is not None
    assert (ended.exitCode, ended.reason) == (0, "Completed")
    assert (found.restartCount, found.ready, found.started) == (count, False, False)


async def test_golden_init_fail_ends_in_back_off() -> None:
    found = await last(GOLDEN["init-fail"], 60.0, "init-a")
    assert found.restartCount == 3
    assert found.lastState.terminated is not None
    assert (found.lastState.terminated.exitCode, found.lastState.terminated.reason) == (3, "Error")
