"""The journal of requested engine changes."""

from __future__ import annotations

import asyncio
import inspect
import shlex

import pytest
from virtual_time import VirtualClock

from podtui.errors import EngineConflict, EngineError, EngineNotFound
from podtui.runtime import command_lines as lines
from podtui.runtime.journal import GIVEN_UP, Journal, JournaledRuntime, journaled
from podtui.runtime.memory import MemoryEngine, MemoryRuntime
from podtui.runtime.memory.images import simulated_image
from podtui.runtime.protocol import (
    ContainerConfig,
    Mount,
    NamespaceMode,
    PortMapping,
    Resources,
    Runtime,
    SandboxConfig,
    SecurityContext,
)

pytestmark = pytest.mark.virtual_time
IMAGE = "busybox:1"


def sandbox(**fields: object) -> SandboxConfig:
    return SandboxConfig(name="web", namespace="default", uid="u1", attempt=0, **fields)  # type: ignore[arg-type]


def container(**fields: object) -> ContainerConfig:
    base: dict[str, object] = {"name": "c", "attempt": 0, "image": IMAGE, "image_id": IMAGE}
    base |= {"pod_name": "web", "pod_namespace": "default", "pod_uid": "u1"}
    return ContainerConfig(**{**base, **fields})  # type: ignore[arg-type]


def test_every_verb_is_a_method_of_the_runtime() -> None:
    """No verb is misspelt or has other parameters."""
    ours = {name for name in vars(JournaledRuntime) if not name.startswith("_")}
    for name in ours:
        mine = inspect.signature(getattr(JournaledRuntime, name)).parameters
        theirs = inspect.signature(getattr(Runtime, name)).parameters
        assert list(mine) == list(theirs), name


def test_every_changing_call_is_recorded() -> None:
    reads = {
        "connect", "close", "ping", "check", "read_info", "sandbox_status", "container_status",
        "pod_data", "read_volume", "volume_size", "host_path", "termination_message",
        "image_status", "list_images", "dial", "pod_socket", "set_pod_rules", "pod_listener",
        "check_pod_table", "forget_pod_flows", "logs", "stats", "sandbox_stats", "layer_sizes",
        "events", "list", "list_foreign", "list_other_containers", "check_nfs",
    }  # fmt: skip
    every = {name for name in vars(Runtime) if not name.startswith("_")}
    assert every - reads == {
        name for name in vars(JournaledRuntime) if not name.startswith("_") and name != "list"
    }


async def test_calls_of_a_pod_are_recorded_in_order_with_their_owner() -> None:
    clock = VirtualClock()
    journal = Journal(clock)
    engine = MemoryEngine(clock=clock, images={IMAGE: simulated_image(IMAGE)})
    runtime = journaled(MemoryRuntime(clock=clock, engine=engine), journal)
    await runtime.connect()
    box = await runtime.run_sandbox(sandbox())
    made = await runtime.create_container(box.id, container())
    await runtime.start_container(made.id)
    await runtime.stop_container(made.id, 30)
    await runtime.remove_container(made.id)
    await runtime.remove_sandbox(box.id)
    await runtime.remove_pod_data("u1")
    calls = journal.calls("u1")
    assert [call.verb for call in calls] == [
        "run sandbox", "create", "start", "stop", "remove", "remove sandbox", "remove volumes",
    ]  # fmt: skip
    assert {(call.namespace, call.pod) for call in calls} == {("default", "web")}
    assert [call.container for call in calls] == ["", "c", "c", "c", "c", "", ""]
    assert calls[3].line == f"docker stop --time 30 {made.id[:12]}"
    assert all(call.error == "" for call in calls)
    assert journal.calls("u2") == ()


async def test_containers_of_an_earlier_agent_have_their_owner() -> None:
    clock = VirtualClock()
    engine = MemoryEngine(clock=clock, images={IMAGE: simulated_image(IMAGE)})
    first = MemoryRuntime(clock=clock, engine=engine)
    box = await first.run_sandbox(sandbox())
    journal = Journal(clock)
    runtime = journaled(MemoryRuntime(clock=clock, engine=engine), journal)
    await runtime.list()
    await runtime.stop_sandbox(box.id)
    (call,) = journal.calls("u1")
    assert call.pod == "web"


async def test_a_failure_is_recorded_with_its_reason_and_raised() -> None:
    clock = VirtualClock()
    journal = Journal(clock)
    runtime = journaled(MemoryRuntime(clock=clock, engine=MemoryEngine(clock=clock)), journal)
    with pytest.raises(EngineNotFound):
        await runtime.start_container("nowhere")
    (call,) = journal.calls()
    assert call.error


async def test_a_session_that_cannot_be_opened_is_a_failure() -> None:
    clock = VirtualClock()
    journal = Journal(clock)
    engine = MemoryEngine(clock=clock, images={IMAGE: simulated_image(IMAGE)})
    runtime = journaled(MemoryRuntime(clock=clock, engine=engine), journal)
    box = await runtime.run_sandbox(sandbox())
    made = await runtime.create_container(box.id, container())
    with pytest.raises(EngineConflict):
        async with runtime.exec_session(made.id, ("sh",), stdin=True):
            pass
    with pytest.raises(EngineConflict):
        async with runtime.attach_session(made.id):
            pass
    with pytest.raises(EngineNotFound):
        async with runtime.read_files(made.id, "/nowhere"):
            pass
    await runtime.start_container(made.id)
    with pytest.raises(ValueError, match="mine"):
        async with runtime.exec_session(made.id, ("sh",), stdin=True):
            raise ValueError("mine")
    calls = [(call.verb, bool(call.error)) for call in journal.calls("u1")[2:]]
    assert calls == [
        ("exec", True), ("attach", True), ("copy out", True), ("start", False), ("exec", False),
    ]  # fmt: skip


async def test_a_call_has_its_duration() -> None:
    clock = VirtualClock()
    journal = Journal(clock)
    await clock.sleep(5)
    runtime = journaled(MemoryRuntime(clock=clock, pull_delay=2.5), journal)
    await runtime.pull_image("other:1")
    (call,) = journal.calls()
    assert call.seconds == pytest.approx(2.5, abs=0.01)


async def test_a_cancelled_call_is_not_shown_as_completed() -> None:
    clock = VirtualClock()
    journal = Journal(clock)
    engine = MemoryEngine(clock=clock, images={IMAGE: simulated_image(IMAGE)})
    engine.faults.hold("pull_image")
    runtime = journaled(MemoryRuntime(clock=clock, engine=engine), journal)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await runtime.pull_image("other:1")
    (call,) = journal.calls()
    assert call.error == GIVEN_UP


async def test_a_concurrent_list_keeps_the_owner_of_a_new_container() -> None:
    clock = VirtualClock()
    journal = Journal(clock)
    engine = MemoryEngine(clock=clock, images={IMAGE: simulated_image(IMAGE)})
    runtime = journaled(MemoryRuntime(clock=clock, engine=engine), journal)
    answered = engine.pods
    engine.pods = lambda root, uid: []  # type: ignore[method-assign]
    engine.faults.delay("list", 1.0)
    async with asyncio.TaskGroup() as group:
        group.create_task(runtime.list())
        await asyncio.sleep(0.5)
        box = await runtime.run_sandbox(sandbox())
    await runtime.stop_sandbox(box.id)
    assert [call.verb for call in journal.calls("u1")] == ["run sandbox", "stop sandbox"]
    engine.pods = answered  # type: ignore[method-assign]
    await runtime.remove_sandbox(box.id)
    await runtime.list()
    await runtime.stop_sandbox(box.id)
    assert len(journal.calls("u1")) == 3, "of what is gone nothing is kept"


def noted(journal: Journal, line: str, error: str = "") -> None:
    try:
        with journal.record("exec", line):
            if error:
                raise EngineError(error)
    except EngineError:
        pass


async def test_repeated_calls_are_counted() -> None:
    journal = Journal(VirtualClock())
    for line in ("a", "a", "b", "a", "a"):
        noted(journal, line)
    noted(journal, "a", "it failed")
    assert [(c.line, c.count, c.error) for c in journal.calls()] == [
        ("a", 2, ""),
        ("b", 1, ""),
        ("a", 2, ""),
        ("a", 1, "it failed"),
    ]
    serials = [c.serial for c in journal.calls()]
    assert serials == sorted(serials)


async def test_the_journal_is_bounded() -> None:
    journal = Journal(VirtualClock(), limit=10)
    for number in range(100):
        noted(journal, str(number))
    assert [c.line for c in journal.calls()] == [str(n) for n in range(90, 100)]


def test_values_of_variables_are_not_recorded() -> None:
    line = lines.create_container(
        "s" * 64,
        container(
            env=(("TOKEN", "hunter2-secret"), ("SHORT", "80")),
            command=("sh", "-c", "login --with hunter2-secret; echo 80"),
            args=("hunter2-secret",),
        ),
    )
    assert "hunter2" not in line
    assert "TOKEN=***" in line
    assert "'login --with ***; echo 80'" in line


def test_the_line_of_a_container_can_be_parsed_by_a_shell() -> None:
    line = lines.create_container(
        "abcdef0123456789",
        container(
            command=("sh", "-c", "echo 'it works' $HOME"),
            args=("--x y",),
            mounts=(
                Mount(container_path="/data", volume="v", sub_path="a", read_only=True),
                Mount(container_path="/host", host_path="/srv"),
            ),
            resources=Resources(memory=1024, cpu_shares=51),
            security=SecurityContext(user="1000", drop_capabilities=("ALL",)),
            pid=NamespaceMode.POD,
            working_dir="/w",
            tty=True,
        ),
    )
    assert shlex.split(line) == [
        "docker", "create", "--name", "web_default_c_0", "--network", "container:abcdef012345",
        "--ipc", "container:abcdef012345", "--pid", "container:abcdef012345",
        "--volume", "v/a:/data:ro", "--volume", "/srv:/host",
        "--cpu-shares", "51", "--memory", "1024", "--user", "1000", "--cap-drop", "ALL",
        "--workdir", "/w", "--tty", "--entrypoint", "sh", IMAGE, "-c", "echo 'it works' $HOME",
        "--x y",
    ]  # fmt: skip


def test_filling_a_volume_is_recorded_as_a_copy() -> None:
    line = lines.fill_volume("abcdef0123456789", "a b", "sha256:0123456789abcdef")
    copy = "docker cp $(docker create 0123456789ab none):/. -"
    assert line == f"{copy} | docker cp - 'abcdef012345:/a b'"


def test_a_sandbox_is_recorded_as_a_line() -> None:
    line = lines.run_sandbox(
        sandbox(hostname="web", ports=(PortMapping(container_port=80, host_port=8080),))
    )
    assert shlex.split(line) == [
        "docker", "run", "--detach", "--name", "web_default",
        "--label", "io.kubernetes.pod.uid=u1", "--hostname", "web", "--publish", "8080:80/tcp",
        "pause",
    ]  # fmt: skip
