"""Life-cycle hooks through a whole kubelet, on virtual time (cases 69-73, golden facts)."""

from __future__ import annotations

import pytest
from kubelet_world import DEAF, FOREVER, World, container, ends, pod

from podtui.agent.home import HomeEvents
from podtui.api.v1 import (
    Container,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from podtui.kubelet.events.recorder import EventRecorder
from podtui.kubelet.prober.dialing import PodAddresses
from podtui.kubelet.prober.hooks import HookRunner
from podtui.runtime.memory import Behaviour, OutputLine
from podtui.runtime.protocol import ContainerConfig

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"
HOOK_BROKE = "echo hook broke; exit 7"
FAILS_WITH_OUTPUT = "echo output; echo broke >&2; exit 7"
PRINTS_SECRET = "echo secret; exit 1"


def run(script: str) -> LifecycleHandler:
    return LifecycleHandler(exec=ExecAction(command=("sh", "-c", script)))


def hooked(
    name: str = "c",
    *,
    post_start: LifecycleHandler | None = None,
    pre_stop: LifecycleHandler | None = None,
    **fields: object,
) -> Container:
    hooks = Lifecycle(postStart=post_start, preStop=pre_stop)
    return container(name, command=("sh", "-c", FOREVER), lifecycle=hooks, **fields)


async def pod_events(world: World) -> list[tuple[str, str, str]]:
    return [(e.type, e.reason, e.message) for e in await world.events("web-n1")]


# --- postStart


async def test_post_start_that_fails() -> None:
    """Case 69, golden case poststart-fail: reported, killed, restarted, then back-off."""
    world = World(start_delay=0.4)
    world.commands[HOOK_BROKE] = ends("hook broke", code=7)
    async with world.running():
        world.add(pod("web-n1", "", hooked(post_start=run(HOOK_BROKE)), grace=5))
        reasons: list[str] = []
        for _ in range(100):
            await world.sleep(0.05)
            waiting = (await world.status()).containerStatuses[0].state.waiting
            reason = "" if waiting is None else waiting.reason
            if reason not in reasons:
                reasons.append(reason)
        assert reasons[-2:] == ["PostStartHookError", "CrashLoopBackOff"]
        events = await pod_events(world)
        start = [
            ("Normal", "Pulled"),
            ("Normal", "Created"),
            ("Normal", "Started"),
            ("Warning", "FailedPostStartHook"),
            ("Normal", "Killing"),
        ]
        assert [(kind, reason) for kind, reason, _ in events] == [*start, ("Warning", "BackOff")]
        assert events[3][2] == "PostStartHook failed"
        assert events[4][2] == "FailedPostStartHook"
        counts = {e.reason: e.count for e in await world.events("web-n1")}
        assert counts["FailedPostStartHook"] == 2
        status = (await world.status()).containerStatuses[0]
        assert status.state.waiting is not None
        assert status.state.waiting.reason == "CrashLoopBackOff"
        assert status.lastState.terminated is not None
        assert status.lastState.terminated.reason == "Completed"
        assert (status.ready, status.started) == (False, False)
        assert world.phase() == "Running"


async def problem(hook: LifecycleHandler) -> str:
    """Return the failure of a postStart handler in a running container."""
    world = World()
    world.commands[HOOK_BROKE] = ends("hook broke", code=7)
    world.commands[FAILS_WITH_OUTPUT] = ends("output", OutputLine("broke", "stderr"), code=7)
    async with world.running():
        wanted = pod("web-n1", "", hooked())
        world.add(wanted)
        await world.until(world.runs(UID))
        running = world.containers(UID)[0].id
        hooks = HookRunner(
            runtime=world.runtime,
            addresses=PodAddresses(lambda uid: None, lambda: None),
            events=EventRecorder(HomeEvents(world.store, world.clock), world.clock, "n1"),
            clock=world.clock,
        )
        return await hooks.post_start(wanted, hooked(post_start=hook), running)


async def test_post_start_failure_in_a_kubelets_words() -> None:
    """As in golden case poststart-fail."""
    script = HOOK_BROKE
    assert await problem(run(script)) == (
        f'Exec lifecycle hook ([sh -c {script}]) for Container "c" in Pod'
        f" \"web-n1_default({UID})\" failed - error: command 'sh -c {script}' exited with 7: ,"
        ' message: "hook broke\\n"'
    )


async def test_post_start_failure_repeats_its_message() -> None:
    """The error carries stderr, the message stdout and stderr."""
    found = await problem(run(FAILS_WITH_OUTPUT))
    assert found.endswith(' exited with 7: broke\n, message: "output\\nbroke\\n"')


async def test_an_invalid_hook() -> None:
    tcp = LifecycleHandler(tcpSocket=TCPSocketAction(port=80))
    assert await problem(tcp) == "Cannot run handler: invalid handler: tcpSocket"


async def test_post_start_delays_the_next_container() -> None:
    world = World()
    async with world.running():
        slow = hooked("a", post_start=run("sleep 10"))
        world.add(pod("web-n1", "", slow, container("b")))
        await world.until(world.runs(UID, 1))
        took = await world.until(world.runs(UID, 2))
        assert 9.5 < took < 11.0


async def test_a_failing_post_start_does_not_block_the_next_container_forever() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", hooked("a", post_start=run("exit 1")), container("b")))
        await world.until(lambda: [c.name for c in world.running_containers(UID)] == ["b"])
        await world.sleep(15.0)
        assert len(world.containers(UID, "b")) == 1
        first = (await world.status()).containerStatuses[0]
        assert first.restartCount == 2
        assert first.state.waiting is not None
        assert first.state.waiting.reason == "CrashLoopBackOff"


async def test_a_successful_post_start_is_not_reported() -> None:
    """Golden case poststart-ok."""
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", hooked(post_start=run("sleep 3; touch /tmp/post")), grace=5))
        await world.until(lambda: world.phase() == "Running", 5.0)
        world.remove(UID)
        await world.until(world.gone(UID), 3.0)
        assert [reason for _, reason, _ in await pod_events(world)] == [
            "Pulled",
            "Created",
            "Started",
            "Killing",
        ]


# --- preStop


async def test_pre_stop_runs_before_the_signal() -> None:
    """Golden case prestop: sleep 4 of a grace of 20."""
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", hooked(pre_stop=run("sleep 4")), grace=20))
        await world.until(world.runs(UID))
        world.remove(UID)
        took = await world.until(lambda: not world.running_containers(UID))
        assert 3.9 < took < 5.0
        await world.until(world.gone(UID), 2.0)
        assert (await pod_events(world))[-1] == ("Normal", "Killing", "Stopping container c")


async def test_pre_stop_is_limited_by_the_grace_period() -> None:
    world = World()
    async with world.running():
        sleeper = container(
            command=("sh", "-c", DEAF),
            lifecycle=Lifecycle(preStop=run("sleep 60")),
        )
        world.add(pod("web-n1", "", sleeper, grace=5))
        await world.until(world.runs(UID))
        world.remove(UID)
        took = await world.until(lambda: not world.running_containers(UID))
        assert 6.5 < took < 8.0
        assert "FailedPreStopHook" not in [reason for _, reason, _ in await pod_events(world)]


async def test_a_failed_pre_stop_is_only_reported() -> None:
    world = World()
    world.commands[PRINTS_SECRET] = ends("secret", code=1)
    async with world.running():
        world.add(pod("web-n1", "", hooked(pre_stop=run(PRINTS_SECRET))))
        await world.until(world.runs(UID))
        world.remove(UID)
        await world.until(world.gone(UID), 3.0)
        assert (await pod_events(world))[-2:] == [
            ("Normal", "Killing", "Stopping container c"),
            ("Warning", "FailedPreStopHook", "PreStopHook failed"),
        ]
        event = (await world.events("web-n1", "FailedPreStopHook"))[0]
        assert event.involvedObject.fieldPath == "spec.containers{c}"


async def test_pre_stop_that_sleeps() -> None:
    world = World()
    nap = LifecycleHandler(sleep=SleepAction(seconds=7))
    async with world.running():
        world.add(pod("web-n1", "", hooked(pre_stop=nap)))
        await world.until(world.runs(UID))
        world.remove(UID)
        took = await world.until(lambda: not world.running_containers(UID))
        assert 6.9 < took < 8.0


async def test_pre_stop_runs_for_a_failed_liveness_probe() -> None:
    world = World()
    probe = Probe(exec=ExecAction(command=("false",)), periodSeconds=1, failureThreshold=3)
    async with world.running():
        world.add(pod("web-n1", "", hooked(pre_stop=run("sleep 5"), livenessProbe=probe)))
        await world.until(world.runs(UID))
        killed = lambda: len(world.containers(UID)) == 2  # noqa: E731
        took = await world.until(killed)
        assert 7.0 < took < 9.0


async def test_without_a_grace_period_pre_stop_is_skipped_and_two_seconds_remain() -> None:
    """Case 73; the minimum grace period of a removed pod is one second."""
    world = World()
    world.behaviours["c"] = Behaviour(term_after=1.5)
    async with world.running():
        world.add(pod("web-n1", "", container(), grace=0))
        await world.until(world.runs(UID))
        world.remove(UID)
        took = await world.until(lambda: not world.running_containers(UID))
        assert 1.4 < took < 2.0


async def test_case_56_sidecars_stop_last_in_reverse_order() -> None:
    """All hooks start together; the app ends first, then the later sidecar."""
    world = World()
    for name in ("app", "s1", "s2"):
        world.behaviours[name] = Behaviour(term_after=1.0)
    hook = Lifecycle(preStop=LifecycleHandler(exec=ExecAction(command=("sleep", "5"))))
    sides = [container(n, restartPolicy="Always", lifecycle=hook) for n in ("s1", "s2")]
    async with world.running():
        app = container("app", lifecycle=hook)
        world.add(pod("web-n1", "", app, init=sides, grace=20))
        await world.until(world.runs(UID, 3))
        began = world.clock.monotonic()
        world.remove(UID)
        await world.sleep(0.5)
        assert world.calls["exec"] == 3
        ended: dict[str, float] = {}
        while len(ended) < 3:
            await world.sleep(0.05)
            alive = {c.name for c in world.running_containers(UID)}
            for name in {"app", "s1", "s2"} - alive - ended.keys():
                ended[name] = world.clock.monotonic() - began
        assert list(ended) == ["app", "s2", "s1"]
        assert 5.9 < ended["app"] < 6.3
        assert 6.9 < ended["s2"] < 7.3
        assert 7.9 < ended["s1"] < 8.3


async def test_a_sidecar_waits_at_most_the_grace_period() -> None:
    world = World()
    world.behaviours["app"] = Behaviour(ignores_term=True)
    world.behaviours["side"] = Behaviour(ignores_term=True)
    async with world.running():
        side = container("side", restartPolicy="Always")
        world.add(pod("web-n1", "", container("app"), init=(side,), grace=6))
        await world.until(world.runs(UID, 2))
        world.remove(UID)
        took = await world.until(lambda: not world.running_containers(UID))
        assert 7.9 < took < 8.5


async def test_a_removal_waits_for_a_post_start_hook() -> None:
    """As in a kubelet: the sync that runs the hook is not cancelled."""
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", hooked(post_start=run("sleep 40")), container("b")))
        await world.until(world.runs(UID))
        world.remove(UID)
        took = await world.until(world.gone(UID))
        assert 38.0 < took < 42.0
        assert not await world.events("web-n1", "FailedPostStartHook")


# --- the stop signal

NO_SIGNALS = (
    "lifecycle.stopSignal of container c has no effect:"
    " the feature gate ContainerStopSignals is off"
)


def signalled(signal: str) -> Container:
    return container("c", lifecycle=Lifecycle(stopSignal=signal))


async def test_a_stop_signal_without_its_feature_gate_is_reported_as_ignored() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", signalled("SIGUSR1")))
        await world.until(world.runs(UID))
        assert config_of(world).stop_signal == ""
        await world.sleep(1.0)
        assert (await world.status()).containerStatuses[0].stopSignal == ""
        assert ("Warning", "NotSupported", NO_SIGNALS) in await pod_events(world)


async def test_a_stop_signal_with_its_feature_gate_reaches_the_engine() -> None:
    world = World(feature_gates={"ContainerStopSignals": True})
    async with world.running():
        world.add(pod("web-n1", "", signalled("SIGUSR1")))
        await world.until(world.runs(UID))
        assert config_of(world).stop_signal == "SIGUSR1"
        await world.sleep(1.0)
        assert (await world.status()).containerStatuses[0].stopSignal == "SIGUSR1"
        assert "NotSupported" not in [reason for _, reason, _ in await pod_events(world)]


def config_of(world: World) -> ContainerConfig:
    return world.engine.containers[world.containers(UID)[0].id].config
