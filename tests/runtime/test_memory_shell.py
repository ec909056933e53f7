"""The simulated shell: scripts as manifests have them, on virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import VirtualClock, run_virtual

from podtui.runtime.memory import MemoryRuntime
from podtui.runtime.memory.commands import integer
from podtui.runtime.memory.syntax import ShellSyntaxError, parse
from podtui.runtime.protocol import (
    ContainerConfig,
    ContainerState,
    LogOptions,
    Mount,
    PodVolume,
    Resources,
    SandboxConfig,
)

SAMPLES = Path(__file__).parents[2] / "static_pods"


class Pod:
    """One simulated pod and what its containers say."""

    def __init__(self, *volumes: str) -> None:
        self.runtime = MemoryRuntime(clock=VirtualClock())
        self.volumes = volumes

    async def start(self, name: str, command: list[str], **more: object) -> str:
        if not (await self.runtime.list("u")).sandboxes:
            self.image = (await self.runtime.pull_image("busybox:1.36")).id
            config = SandboxConfig(
                name="pod",
                namespace="default",
                uid="u",
                attempt=0,
                volumes=tuple(PodVolume(name=v) for v in self.volumes),
            )
            await self.runtime.run_sandbox(config)
        (sandbox,) = (await self.runtime.list("u")).sandboxes
        config = ContainerConfig(
            name=name,
            attempt=0,
            image="busybox:1.36",
            image_id=self.image,
            pod_name="pod",
            pod_namespace="default",
            pod_uid="u",
            command=tuple(command),
            **more,  # type: ignore[arg-type]
        )
        return (
            await self.runtime.start_container(
                (await self.runtime.create_container(sandbox.id, config)).id
            )
        ).id

    async def log(self, ident: str) -> list[tuple[str, str]]:
        lines = self.runtime.logs(ident, LogOptions())
        return [(line.stream, line.content.decode()) async for line in lines]


def run(script: str, seconds: float = 60.0, **more: object) -> tuple[int | None, list[str]]:
    """Exit code (None while it runs) and stdout of a script after some time."""

    async def body() -> tuple[int | None, list[str]]:
        pod = Pod()
        ident = await pod.start("app", ["sh", "-c", script], **more)
        await pod.runtime._clock.sleep(seconds)
        status = await pod.runtime.container_status(ident)
        out = [text for stream, text in await pod.log(ident) if stream == "stdout"]
        ended = status.record.state is ContainerState.EXITED
        return (status.exit_code if ended else None), out

    return run_virtual(body())


@pytest.mark.parametrize(
    ("script", "code", "out"),
    [
        ("", 0, []),
        ("echo a; sleep 5; exit 3", 3, ["a"]),
        ("false || echo saved; true && echo both", 0, ["saved", "both"]),
        ("! false && echo not", 0, ["not"]),
        ("set -e; false; echo unseen", 1, []),
        ("set -e; if false; then :; fi; false || true; echo seen", 0, ["seen"]),
        ("i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); sleep 1; done", 0, ["0", "1", "2"]),
        ("for w in a 'b c' d; do [ \"$w\" = d ] && break; echo $w; done", 0, ["a", "b c"]),
        ("if test -f /nope; then echo yes; elif true; then echo mid; else echo no; fi", 0, ["mid"]),
        ('x=$(echo one two); echo "<$x>" $x ${#x} ${y:-none}', 0, ["<one two> one two 7 none"]),
        ("printf '%s=%d\\n' a 1 b 2", 0, ["a=1", "b=2"]),
        ("printf end", 0, ["end"]),
        ("echo hi > /tmp/f; echo more >> /tmp/f; cat /tmp/f | wc -l", 0, ["2"]),
        ("echo gone >/dev/null 2>&1; echo $?", 0, ["0"]),
        ('cat /nope 2>/dev/null || echo "failed $?"', 0, ["failed 1"]),
        ("nosuch; echo $?", 0, ["127"]),
        ("sh -c 'exit 4'; echo $?", 0, ["4"]),
        ("x=1; (x=2; echo in; exit 2); echo $? $x", 0, ["in", "2 1"]),
        ("sleep 1 & wait $!; echo $?", 0, ["0"]),
        ("exec sh -c 'exit 9'", 9, []),
        ("until false; do exit 6; done", 6, []),
        ("while :; do sleep 100; done", None, []),
        ("some-server --port 80", None, ["simulated: some-server --port 80"]),
        ("case x in x) ;; esac", None, None),
    ],
)
def test_scripts(script: str, code: int | None, out: list[str] | None) -> None:
    ended, said = run(script)
    assert ended == code
    if out is not None:
        assert said == out


def test_memory_runs_out_only_within_a_limit() -> None:
    script = "echo filling; sleep 1; tail /dev/zero"
    assert run(script, resources=Resources(memory=16 << 20)) == (137, ["filling"])
    assert run(script) == (None, ["filling"])


@pytest.mark.parametrize(
    ("script", "code", "after"),
    [
        ("sleep 1000", 143, 0),
        ("trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done", 0, 0),
        ("trap 'exit 0' TERM; while :; do sleep 4; done", 0, 1),
        ("trap 'sleep 2; exit 5' TERM; sleep 1000 & wait", 5, 2),
        ("trap '' TERM; sleep 1000", 137, 10),
        ("trap 'echo no' TERM; while :; do sleep 1; done", 137, 10),
    ],
)
def test_the_stop_signal(script: str, code: int, after: float) -> None:
    async def body() -> tuple[int, float]:
        pod = Pod()
        clock = pod.runtime._clock
        ident = await pod.start("app", ["sh", "-c", script])
        await clock.sleep(7)
        await pod.runtime.stop_container(ident, 10)
        status = await pod.runtime.container_status(ident)
        return status.exit_code, clock.monotonic() - 7

    assert run_virtual(body()) == (code, pytest.approx(after))


def test_what_a_trap_says_is_logged() -> None:
    async def body() -> list[tuple[str, str]]:
        pod = Pod()
        script = "trap 'echo bye >&2; exit 0' TERM; i=0; while :; do i=$((i + 1)); echo n $i; "
        ident = await pod.start("app", ["sh", "-c", script + "sleep 1 & wait $!; done"])
        await pod.runtime._clock.sleep(2.5)
        await pod.runtime.stop_container(ident, 5)
        return await pod.log(ident)

    lines = [("stdout", f"n {number}") for number in (1, 2, 3)]
    assert run_virtual(body()) == [*lines, ("stderr", "bye")]


def test_containers_of_a_pod_share_a_volume_in_time() -> None:
    """A reader sees what the writer wrote so far, although both run only when somebody looks."""

    async def body() -> list[tuple[float, str]]:
        pod = Pod("data")
        mounts = (Mount(container_path="/data", volume="data"),)
        writer = "n=0; while :; do n=$((n + 1)); echo item $n >> /data/feed; sleep 3; done"
        await pod.start("writer", ["sh", "-c", writer], mounts=mounts)
        reader = "tail -n +1 -F /data/feed & wait $!"
        ident = await pod.start("reader", ["sh", "-c", reader], mounts=mounts)
        await pod.runtime._clock.sleep(8)
        lines = pod.runtime.logs(ident, LogOptions())
        return [(float(line.timestamp[17:29]), line.content.decode()) async for line in lines]

    seen = run_virtual(body())
    assert [text for _, text in seen] == ["item 1", "item 2", "item 3"]
    assert [round(at) // 3 for at, _ in seen] == [0, 1, 2]


def test_exec_sees_the_container() -> None:
    async def body() -> None:
        pod = Pod()
        ident = await pod.start(
            "app", ["sh", "-c", "echo here > /tmp/f; sleep 99"], env=(("WORD", "hi"),)
        )
        execute = pod.runtime.exec
        result = await execute(ident, ["sh", "-c", "cat /tmp/f; echo $WORD"], timeout=1)
        assert (result.exit_code, result.output) == (0, b"here\nhi\n")
        assert (await execute(ident, ["test", "-f", "/nope"], timeout=1)).exit_code == 1
        assert (await execute(ident, ["pg_isready"], timeout=1)).exit_code == 0
        assert len((await execute(ident, ["seq", "9999"], timeout=1, limit=100)).output) == 100

    run_virtual(body())


@pytest.mark.parametrize("path", sorted(SAMPLES.rglob("*.yaml")), ids=lambda p: p.stem)
def test_every_sample_is_understood(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        spec = document["spec"]
        for container in [*spec["containers"], *spec.get("initContainers", ())]:
            command = [*container.get("command", ()), *container.get("args", ())]
            if command[:2] == ["sh", "-c"]:
                assert parse(command[2])


@given(st.text(alphabet="ab $\"'`(){};&|<>\n#\\!=do if fi", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        tree = parse(text)
    except ShellSyntaxError:
        return
    assert isinstance(tree, tuple)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.sampled_from("+-*"))
def test_arithmetic_is_exact(left: int, right: int, operator: str) -> None:
    expected = {"+": left + right, "-": left - right, "*": left * right}[operator]
    assert integer(f"a {operator} ({right})", {"a": str(left)}) == expected
