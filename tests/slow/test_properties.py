"""Invariants of start order, restart counts, back-off and final states.

Probes answer, containers crash, users remove them by hand, engine and kubelet come and go.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import pairwise
from typing import Any

from examples import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from kubelet_world import World, container, pod, with_env
from virtual_time import run_virtual

from podtui.api.v1 import Container, ExecAction, Pod, Probe
from podtui.kubelet.backoff import RESET_AFTER, Backoff
from podtui.kubelet.prober.state import (
    SUCCESS,
    ProbeKind,
    ProbeOutcome,
    ProbeVerdict,
    failure,
    probe_of,
)
from podtui.runtime.memory import Behaviour
from podtui.runtime.memory.cells import ContainerCell
from podtui.runtime.protocol import ContainerConfig, ContainerState

PLAIN, SIDECAR, REGULAR = ("first", "last"), "side", ("x", "y")
UIDS = ("one", "two")
PROBES = (
    (SIDECAR, ProbeKind.STARTUP),
    ("x", ProbeKind.LIVENESS),
    ("x", ProbeKind.READINESS),
    ("y", ProbeKind.READINESS),
)
OUTCOMES = (SUCCESS, failure("no"), ProbeOutcome(ProbeVerdict.ERROR, "cannot ask"))

pauses = st.sampled_from([0.0, 0.1, 0.4, 1.0, 3.0, 12.0, 40.0])
steps = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(UIDS)),
    st.tuples(st.just("remove")),
    st.tuples(st.just("answer"), st.sampled_from(PROBES), st.sampled_from(OUTCOMES)),
    st.tuples(st.just("answer"), st.sampled_from(PROBES), st.sampled_from(OUTCOMES)),
    st.tuples(st.just("crash"), st.integers(0, 9), st.sampled_from([0, 1, 137])),
    st.tuples(st.just("crash"), st.integers(0, 9), st.sampled_from([0, 1, 137])),
    st.tuples(st.just("kill sandbox")),
    st.tuples(st.just("remove by hand"), st.integers(0, 9)),
    st.tuples(st.just("engine"), st.booleans()),
    st.tuples(st.just("drop events"), st.booleans()),
    st.tuples(st.just("restart kubelet")),
)


def probe(**fields: int) -> Probe:
    action = ExecAction(command=("true",))
    return Probe(exec=action, periodSeconds=1, failureThreshold=2, **fields)


def wanted(uid: str) -> Pod:
    first, last = (container(name) for name in PLAIN)
    side = container(SIDECAR, restartPolicy="Always", startupProbe=probe())
    x = container("x", livenessProbe=probe(), readinessProbe=probe(successThreshold=2))
    y = container("y", readinessProbe=probe())
    base = pod("web-n1", "one", x, y, init=(first, side, last), grace=3)
    return base if uid == "one" else with_env(base, uid)


class Answers:
    """Probe handlers with scripted outcomes; the engine decides whether the container runs."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, ProbeKind], ProbeOutcome] = {}
        self.passed: set[str] = set()
        """Containers of which a startup probe succeeded."""

    async def run(
        self, pod: Pod, container: Container, container_id: str, probe: Probe
    ) -> ProbeOutcome:
        kind = next(kind for kind in ProbeKind if probe_of(container, kind) is probe)
        outcome = self.outcomes.get((container.name, kind), SUCCESS)
        if kind is ProbeKind.STARTUP and outcome is SUCCESS:
            self.passed.add(container_id)
        return outcome


class Watch:
    """Checks the engine for states that must never occur."""

    def __init__(self, world: World, answers: Answers) -> None:
        self.broken: list[str] = []
        self._world = world
        self._answers = answers
        self._seen: dict[str, dict[str, list[ContainerCell]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._counts: dict[tuple[str, str], int] = {}
        engine = world.engine
        self._create, engine.create_container = engine.create_container, self.create  # type: ignore[method-assign]
        self._forget, engine.remove_pod_data = engine.remove_pod_data, self.forget  # type: ignore[method-assign]
        self._run, engine.run_sandbox = engine.run_sandbox, self.run_sandbox  # type: ignore[method-assign]

    def run_sandbox(self, root: str, config: Any) -> Any:
        cell = self._run(root, config)
        names = [(box.namespace, box.name) for box in self._world.sandboxes()]
        if len(names) != len(set(names)):
            self.broken.append(f"two ready sandboxes of one name: {names}")
        return cell

    def create(self, root: str, sandbox: Any, config: ContainerConfig) -> ContainerCell:
        in_sandbox = self._seen[sandbox.record.id]
        if config.name in REGULAR and not any(in_sandbox[name] for name in REGULAR):
            self._check_order(in_sandbox)
        key = (config.pod_uid, config.name)
        if config.attempt < self._counts.get(key, 0):
            self.broken.append(f"{key} went from {self._counts[key]} to {config.attempt}")
        self._counts[key] = max(config.attempt, self._counts.get(key, 0))
        cell = self._create(root, sandbox, config)
        in_sandbox[config.name].append(cell)
        return cell

    def _check_order(self, seen: dict[str, list[ContainerCell]]) -> None:
        for name in PLAIN:
            ends = [(c.record.state, c.exit_code) for c in seen[name]]
            if (ContainerState.EXITED, 0) not in ends:
                self.broken.append(f"a container began before {name} was done: {ends}")
        if not any(cell.record.id in self._answers.passed for cell in seen[SIDECAR]):
            self.broken.append("a container began before the sidecar had started")

    def forget(self, root: str, uid: str) -> None:
        self._forget(root, uid)
        self._counts = {key: n for key, n in self._counts.items() if key[0] != uid}


def behave(config: ContainerConfig) -> Behaviour:
    return Behaviour(exit_after=0.5) if config.name in PLAIN else Behaviour()


async def play_and_check(script: list[tuple[tuple[Any, ...], float]]) -> None:
    world = World(behave=behave, start_delay=0.1)
    answers = Answers()
    world.use_probes(answers)
    watch = Watch(world, answers)
    async with world.running():
        for step, pause in script:
            await perform(world, answers, step)
            await asyncio.sleep(pause)
        answers.outcomes.clear()
        world.engine.faults.drop_events = False
        world.runtime.start_engine()
        await asyncio.sleep(700.0)
        assert not watch.broken
        uids = set(world.pods)
        assert [box.uid for box in world.sandboxes()] == list(uids)
        running = {(c.pod_uid, c.name) for c in world.running_containers()}
        assert running == {(uid, name) for uid in uids for name in (SIDECAR, *REGULAR)}
        records = (await world.store.list("pods")).items
        assert {record.metadata.uid for record in records} == uids
        for record in records:
            assert isinstance(record, Pod)
            assert record.status.phase == "Running"
            ready = next(one for one in record.status.conditions if one.type == "Ready")
            assert ready.status == "True"


async def perform(world: World, answers: Answers, step: tuple[Any, ...]) -> None:
    match step:
        case ("write", uid):
            world.pods.clear()
            world.add(wanted(uid))
        case ("remove",):
            world.remove(*list(world.pods))
        case ("answer", probe, outcome):
            answers.outcomes[probe] = outcome
        case ("crash", index, code):
            if running := world.running_containers():
                world.runtime.kill(running[index % len(running)].id, code)
        case ("kill sandbox",):
            for cell in [cell for cell in world.engine.sandboxes.values() if cell.ready]:
                world.engine.stop_sandbox(cell)
        case ("remove by hand", index):
            if cells := list(world.engine.containers.values()):
                world.engine.remove_container(cells[index % len(cells)])
        case ("engine", runs):
            world.runtime.start_engine() if runs else world.runtime.stop_engine()
        case ("drop events", dropped):
            world.engine.faults.drop_events = dropped
        case ("restart kubelet",):
            await world.stop_kubelet()
            await world.start_kubelet()
        case _:
            raise AssertionError(step)


@examples(40, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(st.lists(st.tuples(steps, pauses), max_size=20))
def test_start_order_and_restart_counts_always_hold(
    script: list[tuple[tuple[Any, ...], float]],
) -> None:
    run_virtual(play_and_check([(("write", "one"), 0.0), *script]), timeout=120.0)


# --- pauses


@given(
    st.lists(st.floats(0.0, RESET_AFTER - 1.0), min_size=2, max_size=20),
    st.floats(0.5, 300.0),
)
def test_a_back_off_keeps_to_its_cap_and_never_shrinks_within_ten_minutes(
    runs: list[float], cap: float
) -> None:
    """``runs``: how long the container ran each time."""
    backoff = Backoff(maximum=cap)
    now, found = 0.0, []
    for lasting in runs:
        ended = now + lasting
        wait = backoff.remaining("c", ended, since=ended)
        now = ended + wait
        found.append(backoff.next("c", now, since=ended))
    assert all(0 < pause <= cap for pause in found)
    assert all(before <= after for before, after in pairwise(found))


@given(st.floats(RESET_AFTER + 1.0, 1e6), st.integers(1, 12))
def test_a_long_run_resets_the_back_off(lasting: float, crashes: int) -> None:
    backoff = Backoff()
    now = 0.0
    for _ in range(crashes):
        now += backoff.remaining("c", now, since=now)
        backoff.next("c", now, since=now)
    ended = now + lasting
    assert backoff.remaining("c", ended, since=ended) == 0.0
    assert backoff.next("c", ended, since=ended) == 10.0
