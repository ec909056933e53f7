"""Restart policies and rules with init containers and sidecars, in a whole kubelet."""

from __future__ import annotations

import pytest
from kubelet_world import PRESENT, World, container, ends, pod

from podtui.api.v1 import (
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ContainerStatus,
    PodCondition,
    PodReadinessGate,
)
from podtui.runtime.memory import Behaviour
from podtui.runtime.memory.images import simulated_image
from podtui.runtime.protocol import ContainerConfig, ContainerState

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"
REF = f"web-n1_default({UID})"


def rule(action: str, *codes: int, operator: str = "In") -> ContainerRestartRule:
    exits = ContainerRestartRuleOnExitCodes(operator=operator, values=codes)
    return ContainerRestartRule(action=action, exitCodes=exits)


async def statuses(world: World) -> dict[str, ContainerStatus]:
    found = await world.status()
    every = (*found.initContainerStatuses, *found.containerStatuses)
    return {one.name: one for one in every}


async def condition(world: World, kind: str) -> PodCondition:
    return next(one for one in (await world.status()).conditions if one.type == kind)


def reason(status: ContainerStatus) -> str:
    return status.state.waiting.reason if status.state.waiting is not None else ""


# --- policies


async def test_case_23_on_failure_restarts_only_what_failed() -> None:
    world = World()
    world.behaviours["a"] = Behaviour(exit_after=1.0)
    world.behaviours["b"] = Behaviour(exit_after=1.0, exit_code=1)
    async with world.running():
        world.add(pod("web-n1", "", container("a"), container("b"), policy="OnFailure"))
        await world.until(lambda: len(world.containers(UID, "b")) == 2)
        await world.sleep(60.0)
        found = await statuses(world)
        assert found["a"].state.terminated is not None
        assert found["a"].state.terminated.exitCode == 0
        assert found["a"].restartCount == 0
        assert found["b"].restartCount >= 2
        assert world.phase() == "Running"


async def test_case_48_an_oom_kill_is_reported_and_restarted() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=1.0, oom=True)
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(world.containers(UID)) == 2)
        await world.sleep(3.0)
        found = (await statuses(world))["c"]
        assert found.restartCount == 1
        assert reason(found) == "CrashLoopBackOff"
        assert found.lastState.terminated is not None
        ended = found.lastState.terminated
        assert (ended.reason, ended.exitCode) == ("OOMKilled", 137)


@pytest.mark.parametrize("code", [42, 1])
async def test_case_59_a_rule_restarts_under_never(code: int) -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=1.0, exit_code=code)
    ruled = container(restartPolicy="Never", restartPolicyRules=(rule("Restart", 42),))
    async with world.running():
        world.add(pod("web-n1", "", ruled, policy="Never"))
        await world.sleep(30.0)
        found = (await statuses(world))["c"]
        if code == 42:
            assert found.restartCount == 2
            assert world.phase() == "Running"
        else:
            assert found.restartCount == 0
            assert world.phase() == "Failed"


# --- restart of all containers


async def test_case_60_all_containers_restart_in_their_sandbox() -> None:
    runs: list[str] = []

    def behave(config: ContainerConfig) -> Behaviour:
        runs.append(config.name)
        if config.name == "init":
            return Behaviour(exit_after=1.0)
        if config.name == "trigger" and config.attempt == 0:
            return Behaviour(exit_after=5.0, exit_code=9)
        # It has a minimum of two seconds without a grace period: it is not killed immediately.
        return Behaviour(term_after=1.0)

    world = World(behave=behave, start_delay=0.2)
    trigger = container(
        "trigger", restartPolicy="Never", restartPolicyRules=(rule("RestartAllContainers", 9),)
    )
    async with world.running():
        world.add(pod("web-n1", "", trigger, container("other"), init=(container("init"),)))
        await world.until(world.runs(UID, 2))
        await world.sleep(1.0)
        box, address = world.sandboxes(UID)[0].id, (await world.status()).podIP
        restarting = await condition(world, "AllContainersRestarting")
        assert restarting.status == "False"
        seen: list[tuple[str, str, str]] = []
        initialized: set[str] = set()
        while len(seen) < 3 or len(world.running_containers(UID)) < 2:
            await world.sleep(0.05)
            found = await condition(world, "AllContainersRestarting")
            if not seen or seen[-1][0] != found.status:
                seen.append((found.status, found.reason, found.message))
            initialized.add((await condition(world, "Initialized")).status)
            assert world.clock.monotonic() < 60
        assert seen == [
            ("False", "", ""),
            (
                "True",
                "RestartAllContainersStarted",
                "container exited with restart policy rule",
            ),
            ("False", "", ""),
        ]
        await world.sleep(1.0)
        assert sorted(runs) == ["init", "init", "other", "other", "trigger", "trigger"]
        assert runs.index("init", 1) > 2
        assert [s.id for s in world.sandboxes(UID, ready=False)] == [box]
        assert (await world.status()).podIP == address
        assert initialized == {"True"}
        for name, one in (await statuses(world)).items():
            assert one.restartCount == 1, name
            assert one.lastState.terminated is not None
            ended = one.lastState.terminated
            assert (ended.reason, ended.exitCode) == ("RestartingAllContainers", 137), name
        assert world.phase() == "Running"
        killed = [e.message for e in await world.events("web-n1", "Killing")]
        assert killed == ["killing"]


# --- init containers


@pytest.mark.parametrize("policy", ["Never", "Always"])
async def test_case_52_an_init_container_that_fails(policy: str) -> None:
    world = World()
    world.behaviours["a"] = Behaviour(exit_after=1.0, exit_code=1)
    async with world.running():
        world.add(pod("web-n1", "", container(), init=(container("a"),), policy=policy))
        await world.sleep(45.0)
        assert not world.containers(UID, "c")
        found = (await statuses(world))["a"]
        if policy == "Never":
            assert world.phase() == "Failed"
            assert found.restartCount == 0
            assert not world.sandboxes(UID)
        else:
            assert world.phase() == "Pending"
            assert found.restartCount == 3
            text = f"back-off 40s restarting failed container=a pod={REF}"
            assert found.state.waiting is not None
            assert (found.state.waiting.reason, found.state.waiting.message) == (
                "CrashLoopBackOff",
                text,
            )


async def test_case_57_a_lost_init_container_is_not_run_again() -> None:
    world = World()
    world.behaviours["init"] = Behaviour(exit_after=1.0)
    async with world.running():
        world.add(pod("web-n1", "", container(), init=(container("init"),)))
        await world.until(lambda: world.phase() == "Running")
        await world.stop_kubelet()
        await world.store.delete("pods", "default", "web-n1")
        await world.runtime.remove_container(world.containers(UID, "init")[0].id)
        await world.start_kubelet()
        await world.sleep(30.0)
        assert not world.containers(UID, "init")
        ended = (await statuses(world))["init"].state.terminated
        assert ended is not None
        assert (ended.exitCode, ended.reason) == (0, "Completed")
        assert ended.message == (
            "Unable to get init container status from container runtime and pod has been"
            " initialized, treat it as exited normally"
        )
        assert (await condition(world, "Ready")).status == "True"


async def test_case_58_init_containers_do_not_run_again_for_a_dead_app() -> None:
    world = World()
    world.behaviours["init"] = Behaviour(exit_after=1.0)
    async with world.running():
        world.add(pod("web-n1", "", container(), container("d"), init=(container("init"),)))
        await world.until(world.runs(UID, 2))
        init = world.containers(UID, "init")[0].id
        world.runtime.kill(world.containers(UID, "c")[0].id, 1)
        await world.until(lambda: len(world.containers(UID, "c")) == 2)
        await world.sleep(10.0)
        assert [c.id for c in world.containers(UID, "init")] == [init]
        assert (await statuses(world))["c"].restartCount == 1


async def test_case_46_a_dead_sandbox_restarts_everything() -> None:
    world = World()
    world.behaviours["init"] = Behaviour(exit_after=1.0)
    async with world.running():
        world.add(pod("web-n1", "", container("a"), container("b"), init=(container("init"),)))
        await world.until(world.runs(UID, 2))
        await world.sleep(1.0)
        before = (await world.status()).podIP
        first = world.sandboxes(UID)[0]
        world.engine.stop_sandbox(world.engine.sandboxes[first.id])
        await world.until(lambda: [s.attempt for s in world.sandboxes(UID)] == [1])
        await world.until(world.runs(UID, 2))
        await world.sleep(1.0)
        changed = await world.events("web-n1", "SandboxChanged")
        assert [(e.type, e.message, e.count) for e in changed] == [
            ("Normal", "Pod sandbox changed, it will be killed and recreated.", 1)
        ]
        assert (await world.status()).podIP not in ("", before)
        counts = {name: one.restartCount for name, one in (await statuses(world)).items()}
        assert counts == {"init": 1, "a": 1, "b": 1}
        init = world.containers(UID, "init")
        assert [(c.attempt, c.state) for c in init] == [(1, ContainerState.EXITED)]


# --- sidecars


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("app", [0, 3])
async def test_case_54_a_sidecar_is_restarted_without_affecting_the_phase(
    code: int, app: int
) -> None:
    world = World()
    world.behaviours["side"] = Behaviour(exit_after=2.0, exit_code=code, term_code=1)
    world.behaviours["c"] = Behaviour(exit_after=20.0, exit_code=app)
    side = container("side", restartPolicy="Always")
    async with world.running():
        world.add(pod("web-n1", "", container(), init=(side,), policy="Never"))
        await world.sleep(18.0)
        assert (await statuses(world))["side"].restartCount == 2
        assert world.phase() == "Running"
        await world.sleep(30.0)
        assert world.phase() == ("Succeeded" if app == 0 else "Failed")
        assert not world.running_containers(UID)


@pytest.mark.parametrize("policy", ["Always", "Never"])
async def test_case_104_a_sidecar_without_its_image_blocks_the_others(policy: str) -> None:
    world = World()
    absent = container("side", restartPolicy="Always", image="absent:1", imagePullPolicy="Never")
    async with world.running():
        init = (absent, container("later"))
        world.add(pod("web-n1", "", container(), init=init, policy=policy))
        await world.sleep(60.0)
        assert not world.containers(UID)
        assert world.phase() == "Pending"
        assert reason((await statuses(world))["side"]) == "ErrImageNeverPull"
        events = await world.events("web-n1", "ErrImageNeverPull")
        assert (events[0].count or 0) >= 4, "it is retried forever"
        world.engine.images.add(simulated_image("absent:1"), "absent:1")
        await world.until(lambda: bool(world.containers(UID, "later")), 30.0)


# --- readiness gates


async def test_case_105_a_readiness_gate_is_never_met() -> None:
    world = World()
    async with world.running():
        gate = PodReadinessGate(conditionType="example.com/X")
        world.add(pod("web-n1", "", container(image=PRESENT), readinessGates=(gate,)))
        await world.until(world.runs(UID))
        for _ in range(5):
            await world.sleep(60.0)
            ready = await condition(world, "Ready")
            assert (ready.status, ready.reason) == ("False", "ReadinessGatesNotReady")
            assert ready.message == (
                'corresponding condition of pod readiness gate "example.com/X" does not exist.'
            )
            assert (await condition(world, "ContainersReady")).status == "True"


# --- termination messages


async def test_case_83_termination_messages() -> None:
    long = bytes(range(32, 127)) * 120
    world = World()
    world.behaviours["file"] = Behaviour(
        exit_after=1.0, exit_code=1, files={"/tmp/last-words": long[: 10 * 1024]}
    )
    failed, succeeded = (
        container(
            f"logs-{code}",
            command=("sh", "-c", f"seq 100; exit {code}"),
            terminationMessagePolicy="FallbackToLogsOnError",
        )
        for code in (1, 0)
    )
    lines = [f"line {number}" for number in range(100)]
    for code in (1, 0):
        world.behaviours[f"logs-{code}"] = ends(*lines, code=code)
    async with world.running():
        file = container("file", terminationMessagePath="/tmp/last-words")
        world.add(pod("web-n1", "", file, failed, succeeded, policy="Never"))
        await world.until(lambda: world.phase() == "Failed")
        found = await statuses(world)
        ended = {name: one.state.terminated for name, one in found.items()}
        assert all(ended.values())
        message = {name: one.message for name, one in ended.items() if one is not None}
        assert message["file"] == long[: 10 * 1024][-4096:].decode()
        assert message["logs-0"] == ""
        assert message["logs-1"].splitlines() == lines[20:]
