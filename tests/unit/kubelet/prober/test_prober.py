"""Probes through a whole kubelet, on virtual time (cases 53, 61-65, 67, 68, 93)."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubelet_world import FOREVER, World, container, ends, no_file, pod
from member_world import WallClock
from prometheus_client.parser import text_string_to_metric_families

from podtui.api.v1 import (
    Container,
    ContainerStatus,
    Event,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    Probe,
)
from podtui.errors import EngineError
from podtui.kubelet.prober.state import (
    SUCCESS,
    ProbeKind,
    ProbeOutcome,
    ProbeVerdict,
    failure,
    probe_of,
)
from podtui.runtime.memory import Behaviour

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"
NO_FILE = "cat: can't open '{}': No such file or directory\n"


def cat(path: str, **fields: Any) -> Probe:
    return Probe(exec=ExecAction(command=("cat", path)), **fields)


def shell(script: str, name: str = "c", **fields: Any) -> Container:
    return container(name, command=("sh", "-c", script), **fields)


def for_eight_seconds(age: float) -> Behaviour:
    """``cat /tmp/ok`` in a container that removes the file after 8 seconds."""
    return ends() if age < 8.0 else no_file("/tmp/ok")


class Scripted:
    """Handlers with scripted outcomes, by container and kind."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, ProbeKind], ProbeOutcome] = {}
        self.calls: list[tuple[str, ProbeKind]] = []

    async def run(
        self, pod: Pod, container: Container, container_id: str, probe: Probe
    ) -> ProbeOutcome:
        kind = next(kind for kind in ProbeKind if probe_of(container, kind) is probe)
        self.calls.append((container.name, kind))
        return self.outcomes.get((container.name, kind), SUCCESS)

    def count(self, kind: ProbeKind, name: str = "c") -> int:
        return self.calls.count((name, kind))


def scripted(world: World) -> Scripted:
    handlers = Scripted()
    world.use_probes(handlers)
    return handlers


@asynccontextmanager
async def long_running(world: World) -> AsyncIterator[None]:
    """Run a kubelet that no longer delays first probes, as it does after its start."""
    async with world.running():
        await world.sleep(100.0)
        yield


async def run_pod(world: World, *containers: Container, **fields: Any) -> None:
    """Add a pod, and wait until its container runs."""
    world.add(pod("web-n1", "", *containers, **fields))
    await world.until(world.runs(UID))


def probe_totals(world: World) -> dict[str, float]:
    """Return the counters of ``/metrics/probes`` by result."""
    text = world.kubelet.endpoints.probe_prometheus().decode()
    (family,) = text_string_to_metric_families(text)
    return {sample.labels["result"]: sample.value for sample in family.samples}


async def texts(world: World, *reasons: str) -> list[str]:
    return [event.message for event in await world.events("web-n1", *reasons)]


async def count(world: World, message: str) -> int:
    found: list[Event] = [e for e in await world.events("web-n1") if e.message == message]
    return sum(event.count or 1 for event in found)


async def status(world: World, name: str = "c") -> ContainerStatus:
    statuses = (await world.status()).containerStatuses
    return next(one for one in statuses if one.name == name)


# --- readiness


async def test_readiness_changes_in_both_directions() -> None:
    world = World()
    handlers = scripted(world)
    failing = failure("HTTP probe failed with statuscode: 500")
    handlers.outcomes["c", ProbeKind.READINESS] = failing
    async with long_running(world):
        probe = cat("/", periodSeconds=5)
        await run_pod(world, container(readinessProbe=probe))
        await world.sleep(32.0)
        assert not await world.is_ready()
        assert not (await status(world)).ready
        assert (await status(world)).started
        message = "Readiness probe failed: HTTP probe failed with statuscode: 500"
        assert await count(world, message) == handlers.count(ProbeKind.READINESS) >= 6
        unhealthy = (await world.events("web-n1", "Unhealthy"))[0]
        assert (unhealthy.type, unhealthy.involvedObject.fieldPath) == (
            "Warning",
            "spec.containers{c}",
        )
        handlers.outcomes.clear()
        before = handlers.count(ProbeKind.READINESS)
        await world.sleep(5.0)
        assert handlers.count(ProbeKind.READINESS) == before + 1
        assert await world.is_ready()
        assert (await status(world)).restartCount == 0


async def test_readiness_is_probed_as_soon_as_the_container_runs() -> None:
    """Readiness does not wait for a period of a minute."""
    world = World(start_delay=1.0)
    async with long_running(world):
        probe = Probe(exec=ExecAction(command=("true",)), periodSeconds=60)
        await run_pod(world, container(readinessProbe=probe))
        await world.sleep(1.0)
        assert await world.is_ready()
        assert not await texts(world, "Unhealthy")


async def test_readiness_as_a_kubelet_did() -> None:
    """Golden case readiness-fail: ready at first, unready from the second failure on, and
    reported at every run; the container keeps running.
    """
    world = World()
    world.commands["cat /tmp/ok"] = for_eight_seconds
    async with long_running(world):
        probe = cat("/tmp/ok", periodSeconds=2, failureThreshold=2)
        script = f"touch /tmp/ok; sleep 8; rm /tmp/ok; {FOREVER}"
        await run_pod(world, shell(script, readinessProbe=probe))
        await world.sleep(3.0)
        assert await world.is_ready()
        await world.sleep(4.9)
        assert await world.is_ready()
        await world.sleep(5.0)
        assert not await world.is_ready()
        await world.sleep(8.0)
        message = "Readiness probe failed: " + NO_FILE.format("/tmp/ok")
        assert await count(world, message) >= 6
        assert set(await texts(world, "Unhealthy")) == {message}
        assert not await texts(world, "Killing")
        assert (await status(world)).restartCount == 0


async def test_readiness_needs_its_successes_again_after_a_restart() -> None:
    world = World()
    handlers = scripted(world)
    async with long_running(world):
        probe = cat("/", periodSeconds=4, successThreshold=3)
        await run_pod(world, container(readinessProbe=probe))
        await world.sleep(20.0)
        assert await world.is_ready()
        before = handlers.count(ProbeKind.READINESS)
        world.runtime.kill(world.running_containers(UID)[0].id, 1)
        await world.until(lambda: len(world.containers(UID)) == 2)
        await world.sleep(1.0)
        assert (await status(world)).restartCount == 1
        assert (await status(world)).started
        assert not (await status(world)).ready
        while not await world.is_ready():
            await world.sleep(0.5)
            assert world.clock.monotonic() < 200
        assert handlers.count(ProbeKind.READINESS) - before >= 3


@pytest.mark.parametrize("strict", [False, True])
async def test_readiness_shows_while_the_pods_worker_waits(strict: bool) -> None:
    """The second container's image takes a minute: the first one's readiness does not wait."""
    world = World(pull_delay=60.0, strict=strict)
    handlers = scripted(world)
    handlers.outcomes["c", ProbeKind.READINESS] = failure("no")
    async with long_running(world):
        probe = cat("/", periodSeconds=1, failureThreshold=1)
        await run_pod(world, container(readinessProbe=probe))
        await world.sleep(3.0)
        both = (container(readinessProbe=probe), container("d", image="big:1"))
        world.replace(UID, pod("web-n1", UID, *both))
        await world.sleep(5.0)
        assert not (await status(world)).ready
        handlers.outcomes.clear()
        await world.sleep(1.1)
        assert (await status(world)).ready
        assert not world.containers(UID, "d")


async def test_readiness_is_probed_during_termination() -> None:
    world = World()
    handlers = scripted(world)
    world.behaviours["c"] = Behaviour(term_after=10.0)
    async with long_running(world):
        liveness, readiness = cat("/", periodSeconds=1), cat("/r", periodSeconds=1)
        world.add(pod("web-n1", "", container(readinessProbe=readiness, livenessProbe=liveness)))
        await world.until(lambda: handlers.count(ProbeKind.LIVENESS) > 2)
        world.remove(UID)
        await world.sleep(0.5)
        handlers.calls.clear()
        await world.sleep(5.0)
        assert handlers.count(ProbeKind.LIVENESS) == 0
        assert handlers.count(ProbeKind.READINESS) == 5
        await world.until(world.gone(UID), 20.0)
        handlers.calls.clear()
        await world.sleep(10.0)
        assert not handlers.calls
        assert probe_totals(world) == {}


# --- liveness


async def test_liveness_restarts_at_its_threshold() -> None:
    """Case 62, first part."""
    world = World()
    handlers = scripted(world)
    handlers.outcomes["c", ProbeKind.LIVENESS] = failure("no")
    async with long_running(world):
        probe = cat("/", periodSeconds=1, failureThreshold=3)
        world.add(pod("web-n1", "", container(livenessProbe=probe)))
        await world.until(lambda: len(world.containers(UID)) == 2)
        assert handlers.count(ProbeKind.LIVENESS) == 3
        events = await world.events("web-n1", "Unhealthy", "Killing")
        assert [(e.type, e.reason, e.message, e.count) for e in events] == [
            ("Warning", "Unhealthy", "Liveness probe failed: no", 3),
            ("Normal", "Killing", "Container c failed liveness probe, will be restarted", 1),
        ]


async def test_liveness_as_a_kubelet_did() -> None:
    """Golden case liveness-fail: each restart some 10 s after a start, at the second failure."""
    world = World()
    world.commands["cat /tmp/ok"] = for_eight_seconds
    async with long_running(world):
        probe = cat("/tmp/ok", periodSeconds=2, failureThreshold=2)
        script = f"touch /tmp/ok; sleep 8; rm /tmp/ok; {FOREVER}"
        world.add(pod("web-n1", "", shell(script, livenessProbe=probe), grace=5))
        began = world.clock.monotonic()
        await world.until(world.runs(UID))
        await world.sleep(35.0 - (world.clock.monotonic() - began))
        failed = "Liveness probe failed: " + NO_FILE.format("/tmp/ok")
        killed = "Container c failed liveness probe, will be restarted"
        assert await count(world, killed) == 3
        assert await count(world, failed) == 6
        assert set(await texts(world, "Unhealthy")) == {failed}
        now = await status(world)
        assert now.restartCount == 3
        assert now.lastState.terminated is not None
        assert now.lastState.terminated.reason == "Completed"


async def test_liveness_of_the_only_container_under_never() -> None:
    """Case 62, second part: the whole pod ends."""
    world = World()
    scripted(world).outcomes["c", ProbeKind.LIVENESS] = failure("no")
    async with long_running(world):
        probe = cat("/", periodSeconds=1)
        world.behaviours["c"] = Behaviour(term_code=143)
        world.add(pod("web-n1", "", container(livenessProbe=probe), policy="Never"))
        await world.until(lambda: world.phase() == "Failed")
        assert await texts(world, "Killing") == ["Stopping container c"]


async def test_liveness_of_one_of_two_under_never() -> None:
    """Case 62, third part."""
    world = World()
    scripted(world).outcomes["c", ProbeKind.LIVENESS] = failure("no")
    async with long_running(world):
        probe = cat("/", periodSeconds=1)
        both = (container(livenessProbe=probe), container("d"))
        world.add(pod("web-n1", "", *both, policy="Never"))
        await world.until(lambda: len(world.running_containers(UID)) == 2)
        await world.until(lambda: len(world.running_containers(UID)) == 1)
        await world.sleep(30.0)
        assert await texts(world, "Killing") == ["Container c failed liveness probe"]
        assert world.phase() == "Running"
        assert [one.name for one in world.running_containers(UID)] == ["d"]


LIVENESS_ENDS = [
    pytest.param("Always", (), "Container c failed liveness probe, will be restarted", id="alone"),
    pytest.param("Never", (), "Stopping container c", id="alone-never"),
    pytest.param("Never", ("d",), "Container c failed liveness probe", id="one-of-two-never"),
]


@pytest.mark.parametrize(("policy", "others", "text"), LIVENESS_ENDS)
async def test_case_62_the_third_failure_kills(
    policy: str, others: tuple[str, ...], text: str
) -> None:
    world = World()
    handlers = scripted(world)
    handlers.outcomes["c", ProbeKind.LIVENESS] = failure("no")
    hook = Lifecycle(preStop=LifecycleHandler(exec=ExecAction(command=("sleep", "5"))))
    async with long_running(world):
        probe = cat("/", periodSeconds=1, failureThreshold=3)
        dies = FOREVER.replace("exit 0", "exit 143")
        probed = shell(dies, livenessProbe=probe, lifecycle=hook)
        world.add(pod("web-n1", "", probed, *map(container, others), policy=policy))
        await world.until(world.runs(UID, 1 + len(others)))
        first = world.containers(UID, "c")[0].id
        await world.until(lambda: handlers.count(ProbeKind.LIVENESS) == 3)
        took = await world.until(lambda: first not in [c.id for c in world.running_containers()])
        assert 4.9 < took < 6.0, "the preStop hook runs first"
        await world.sleep(0.5)
        assert await texts(world, "Killing") == [text]
        again = {"Always": 2, "Never": 1}[policy]
        assert len(world.containers(UID, "c")) == again
        assert world.phase() == ("Failed" if policy == "Never" and not others else "Running")


async def test_a_failed_liveness_probe_pauses_until_the_restart() -> None:
    world = World()
    handlers = scripted(world)
    handlers.outcomes["c", ProbeKind.LIVENESS] = failure("no")
    world.behaviours["c"] = Behaviour(term_after=20.0)
    async with long_running(world):
        probe = cat("/", periodSeconds=1, failureThreshold=2)
        world.add(pod("web-n1", "", container(livenessProbe=probe)))
        await world.until(lambda: handlers.count(ProbeKind.LIVENESS) == 2)
        await world.sleep(15.0)
        assert handlers.count(ProbeKind.LIVENESS) == 2


async def test_the_probes_grace_period_overrides_the_pods() -> None:
    world = World()
    scripted(world).outcomes["c", ProbeKind.LIVENESS] = failure("no")
    world.behaviours["c"] = Behaviour(ignores_term=True)
    async with long_running(world):
        probe = cat("/", periodSeconds=1, failureThreshold=1, terminationGracePeriodSeconds=2)
        await run_pod(world, container(livenessProbe=probe), grace=60)
        first = world.containers(UID)[0].id
        took = await world.until(lambda: first not in {c.id for c in world.running_containers(UID)})
        assert 1.9 < took < 4.0


async def test_an_exec_probe_that_times_out() -> None:
    world = World()
    async with long_running(world):
        probe = Probe(exec=ExecAction(command=("sleep", "5")), timeoutSeconds=1, periodSeconds=30)
        await run_pod(world, shell(FOREVER, livenessProbe=probe))
        await world.sleep(35.0)
        assert await texts(world, "Unhealthy") == [
            'Liveness probe failed: command timed out: "sleep 5" timed out after 1s'
        ]


async def test_the_first_probe_waits_for_its_delay() -> None:
    world = World()
    handlers = scripted(world)
    async with long_running(world):
        probe = cat("/", periodSeconds=2, initialDelaySeconds=9)
        await run_pod(world, container(livenessProbe=probe))
        await world.sleep(8.9)
        assert not handlers.calls
        await world.sleep(2.1)
        assert handlers.count(ProbeKind.LIVENESS) == 1


async def test_probes_run_on_after_the_clock_was_set_back() -> None:
    """The container then started in the future."""
    clock = WallClock()
    world = World(clock=clock)
    handlers = scripted(world)
    async with long_running(world):
        probe = cat("/", periodSeconds=2, initialDelaySeconds=9)
        await run_pod(world, container(livenessProbe=probe))
        await world.sleep(4.0)
        clock.ahead = -3600.0
        await world.sleep(4.9)
        assert not handlers.calls
        await world.sleep(8.1)
        assert handlers.count(ProbeKind.LIVENESS) == 3


# --- startup


async def test_startup_that_never_succeeds() -> None:
    """Case 63, golden case startup-fail."""
    world = World()
    world.commands["cat /tmp/up"] = no_file("/tmp/up")
    async with long_running(world):
        startup = cat("/tmp/up", periodSeconds=2, failureThreshold=3)
        liveness = cat("/tmp/alive", periodSeconds=1, failureThreshold=1)
        script = shell(FOREVER, startupProbe=startup, livenessProbe=liveness)
        await run_pod(world, script, grace=5)
        for _ in range(40):
            await world.sleep(0.5)
            assert not (await status(world)).started
        failed = "Startup probe failed: " + NO_FILE.format("/tmp/up")
        killed = "Container c failed startup probe, will be restarted"
        kills = await count(world, killed)
        assert kills >= 2
        assert 0 <= await count(world, failed) - 3 * kills < 3
        assert set(await texts(world, "Unhealthy")) == {failed}


async def test_other_probes_start_after_startup_succeeded() -> None:
    """Golden case startup-ok: three failures, started, ready at once."""
    world = World(start_delay=0.5)
    world.commands["cat /tmp/up"] = lambda age: ends() if age >= 6.0 else no_file("/tmp/up")
    async with long_running(world):
        startup = cat("/tmp/up", periodSeconds=2, failureThreshold=10)
        readiness = Probe(exec=ExecAction(command=("true",)), periodSeconds=2)
        script = f"sleep 6; touch /tmp/up; {FOREVER}"
        await run_pod(world, shell(script, startupProbe=startup, readinessProbe=readiness))
        await world.sleep(5.5)
        assert not (await status(world)).started
        assert not await world.is_ready()
        await world.sleep(3.5)
        assert (await status(world)).started
        assert await world.is_ready()
        assert await count(world, "Startup probe failed: " + NO_FILE.format("/tmp/up")) == 3
        assert len(await texts(world, "Unhealthy")) == 1
        assert (await status(world)).restartCount == 0


async def test_the_startup_probe_of_a_sidecar_blocks_the_others() -> None:
    world = World()
    handlers = scripted(world)
    handlers.outcomes["side", ProbeKind.STARTUP] = failure("not yet")
    async with long_running(world):
        probe = cat("/", periodSeconds=1, failureThreshold=100)
        side = container("side", restartPolicy="Always", startupProbe=probe)
        world.behaviours["later"] = Behaviour(exit_after=2.0)
        await run_pod(world, init=(side, container("later")))
        await world.sleep(10.0)
        assert [c.name for c in world.containers(UID)] == ["side"]
        assert not (await world.status()).initContainerStatuses[0].started
        handlers.outcomes.clear()
        await world.until(lambda: bool(world.containers(UID, "later")), 3.0)
        await world.sleep(0.5)
        assert (await world.status()).initContainerStatuses[0].started
        await world.until(lambda: bool(world.containers(UID, "c")), 3.0)
        event = (await world.events("web-n1", "Unhealthy"))[0]
        assert event.involvedObject.fieldPath == "spec.initContainers{side}"


# --- ignored results


async def test_an_internal_error_is_tried_three_times_and_ignored() -> None:
    world = World()
    handlers = scripted(world)
    handlers.outcomes["c", ProbeKind.LIVENESS] = ProbeOutcome(ProbeVerdict.ERROR, "cannot ask")
    async with long_running(world):
        probe = cat("/", periodSeconds=10, failureThreshold=1)
        await run_pod(world, container(livenessProbe=probe))
        await world.sleep(10.5)
        assert handlers.count(ProbeKind.LIVENESS) == 3
        assert await texts(world, "Unhealthy") == [
            "Liveness probe errored and resulted in unknown state: cannot ask"
        ]
        await world.sleep(60.0)
        assert not await texts(world, "Killing")
        assert probe_totals(world) == {"unknown": handlers.count(ProbeKind.LIVENESS) // 3}


async def test_a_warning_is_reported_and_counts_as_success() -> None:
    world = World()
    text = "Probe terminated redirects, Response body: see there"
    scripted(world).outcomes["c", ProbeKind.READINESS] = ProbeOutcome(ProbeVerdict.WARNING, text)
    async with long_running(world):
        await run_pod(world, container(readinessProbe=cat("/")))
        await world.sleep(1.0)
        assert await world.is_ready()
        assert await texts(world, "ProbeWarning") == [f"Readiness probe warning: {text}"]
        assert not await texts(world, "Unhealthy")


async def test_a_lost_engine_does_not_fail_probes() -> None:
    world = World()
    async with long_running(world):
        probe = Probe(exec=ExecAction(command=("true",)), periodSeconds=1, failureThreshold=1)
        both = shell(FOREVER, livenessProbe=probe, readinessProbe=probe)
        await run_pod(world, both)
        await world.sleep(3.0)
        world.runtime.stop_engine()
        await world.sleep(20.0)
        world.runtime.start_engine()
        await world.sleep(20.0)
        assert not await texts(world, "Unhealthy")
        assert (await status(world)).restartCount == 0
        assert await world.is_ready()


async def test_a_crashed_handler_does_not_end_the_others() -> None:
    class Broken(Scripted):
        async def run(
            self, pod: Pod, container: Container, container_id: str, probe: Probe
        ) -> ProbeOutcome:
            outcome = await super().run(pod, container, container_id, probe)
            if container.name == "c":
                raise EngineError("an unexpected error")
            return outcome

    world = World()
    handlers = Broken()
    world.use_probes(handlers)
    async with long_running(world):
        probe = cat("/", periodSeconds=1)
        world.add(
            pod("web-n1", "", container(livenessProbe=probe), container("d", livenessProbe=probe))
        )
        await world.until(world.runs(UID, 2))
        await world.sleep(10.0)
        assert handlers.count(ProbeKind.LIVENESS, "c") >= 9
        assert handlers.count(ProbeKind.LIVENESS, "d") >= 9


# --- periods


async def test_a_new_kubelet_spreads_its_probes() -> None:
    world = World(jitter=0.5)
    handlers = scripted(world)
    async with world.running():
        probe = cat("/", periodSeconds=10)
        await run_pod(world, container(livenessProbe=probe))
        await world.sleep(4.5)
        assert not handlers.calls
        await world.sleep(1.0)
        assert handlers.count(ProbeKind.LIVENESS) == 1
        await world.sleep(10.0)
        assert handlers.count(ProbeKind.LIVENESS) == 2


async def test_slow_probes_keep_their_period() -> None:
    world = World()
    times: list[float] = []

    class Slow(Scripted):
        async def run(
            self, pod: Pod, container: Container, container_id: str, probe: Probe
        ) -> ProbeOutcome:
            times.append(world.clock.monotonic())
            await world.clock.sleep(0.7 if len(times) != 3 else 2.5)
            return SUCCESS

    world.use_probes(Slow())
    async with long_running(world):
        probe = cat("/", periodSeconds=1, timeoutSeconds=3)
        world.add(pod("web-n1", "", container(livenessProbe=probe)))
        await world.sleep(8.5)
    gaps = [round(b - a, 3) for a, b in itertools.pairwise(times)]
    assert gaps == [1.0, 1.0, 2.5, 0.7, 0.8, 1.0]


async def test_a_restarted_kubelet_does_not_make_pods_unready() -> None:
    """Case 93: the recorded state of this container is valid until a probe changes it."""
    world = World()
    async with long_running(world):
        startup = Probe(exec=ExecAction(command=("true",)), periodSeconds=1)
        readiness = cat("/tmp/ok", periodSeconds=2)
        script = shell(f"touch /tmp/ok; {FOREVER}", startupProbe=startup, readinessProbe=readiness)
        await run_pod(world, script)
        await world.sleep(5.0)
        assert await world.is_ready()
        await world.stop_kubelet()
        await world.start_kubelet()
        for _ in range(40):
            await world.sleep(0.25)
            now = await status(world)
            assert (now.ready, now.started, await world.is_ready()) == (True, True, True)
        assert not await texts(world, "Unhealthy")


async def test_an_edited_probe_takes_effect() -> None:
    """With a fixed UID the container keeps running with the new probe."""
    world = World()
    handlers = scripted(world)
    async with long_running(world):
        world.add(pod("web-n1", "abc", container(livenessProbe=cat("/", periodSeconds=1))))
        await world.until(lambda: handlers.count(ProbeKind.LIVENESS) == 3)
        world.add(pod("web-n1", "abc", container(readinessProbe=cat("/", periodSeconds=1))))
        await world.sleep(1.0)
        handlers.calls.clear()
        await world.sleep(5.0)
        assert handlers.count(ProbeKind.LIVENESS) == 0
        assert 4 <= handlers.count(ProbeKind.READINESS) <= 6
        assert len(world.containers("abc")) == 1
