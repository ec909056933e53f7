"""exec, attach, port-forward and cp on the command line: `main`, with the agent on another thread.

Signals and terminals need processes: `tests/slow/test_session_processes.py`.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from on_thread import Ask, on_thread
from session_world import SessionWorld, session_world
from simulated import COMMANDS, ends, memory

from podtui.api.v1 import Container, EphemeralContainer, ObjectMeta, Pod, PodSpec
from podtui.cli import build_parser, main
from podtui.cli.parser import take_exec_command
from podtui.cli.sessions import CopyPath, FoundPod, parse_copy_path, parse_ports
from podtui.errors import UsageError
from podtui.runtime.memory import Behaviour

FILE = "echo one > /tmp/f; sleep 300"
DEEP_FILE = "echo deep > /tmp/f; sleep 300"
SCRIPTS = {
    FILE: Behaviour(files={"/tmp/f": b"one\n"}),
    DEEP_FILE: Behaviour(files={"/tmp/f": b"deep\n"}),
    "true": ends(),
}
DECLARED = {
    **COMMANDS,
    ("sh", "-c", "echo given; exit 3"): ends("given", code=3),
    ("cat", "/tmp/f"): ends("deep"),
}
Here = Callable[..., tuple[int, bytes, bytes]]
ElsewhereWorld = tuple[SessionWorld, Ask]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("web:/etc/hosts", CopyPath("/etc/hosts", "web", "ns")),
        ("other/web:/a:b", CopyPath("/a:b", "web", "other")),
        ("here", CopyPath("here")),
        ("/a/b:c", CopyPath("/a/b:c")),
        ("./web:x", CopyPath("./web:x")),
    ],
)
def test_places(text: str, place: CopyPath) -> None:
    assert parse_copy_path(text, "ns") == place


@pytest.mark.parametrize("text", [":/x", "web:", "ns/:/x"])
def test_invalid_places(text: str) -> None:
    with pytest.raises(UsageError):
        parse_copy_path(text, "ns")


@pytest.mark.parametrize(
    ("wanted", "annotation", "found", "note"),
    [
        ("b", "", "b", ""),
        ("", "b", "b", ""),
        ("", "gone", "a", 'Defaulted container "a" out of: a, b, debug (ephem), i (init)'),
        ("", "", "a", 'Defaulted container "a" out of: a, b, debug (ephem), i (init)'),
    ],
)
def test_the_default_container(wanted: str, annotation: str, found: str, note: str) -> None:
    pod = Pod(
        metadata=ObjectMeta(
            name="web",
            annotations={"kubectl.kubernetes.io/default-container": annotation},
        ),
        spec=PodSpec(
            containers=(Container(name="a"), Container(name="b")),
            initContainers=(Container(name="i"),),
            ephemeralContainers=(EphemeralContainer(name="debug"),),
        ),
    )
    assert FoundPod("web", pod).container(wanted) == (found, note)


def test_the_only_container_needs_no_note() -> None:
    pod = Pod(metadata=ObjectMeta(name="web"), spec=PodSpec(containers=(Container(name="a"),)))
    assert FoundPod("web", pod).container("") == ("a", "")


def test_ports() -> None:
    assert parse_ports(["80", "8080:80", ":443"]) == ((80, 80), (8080, 80), (0, 443))
    for text in ("", "x", "0", "80:", "1:2:3", "99999", "-1:80", "80:0"):
        with pytest.raises(UsageError):
            parse_ports([text])


@pytest.mark.parametrize(
    ("line", "ours", "command"),
    [
        ("exec -it web -- sh -c -- x", "exec -it web", "sh -c -- x"),
        ("exec web ls", "exec web", "ls"),
        ("exec web ls -l -it /", "exec web", "ls -l -it /"),
        ("exec web -it sh", "exec web -it", "sh"),
        ("exec -itc app web sh -c x", "exec -itc app web", "sh -c x"),
        ("exec -capp -nns web sh", "exec -capp -nns web", "sh"),
        ("exec --container app web -n ns ls", "exec --container app web -n ns", "ls"),
        ("exec --container=app web ls", "exec --container=app web", "ls"),
        ("exec web sh -- x", "exec web", "sh -- x"),
        ("exec web -- --help", "exec web", "--help"),
        ("exec web", "exec web", ""),
        ("exec web --", "exec web", ""),
        ("--root-dir exec exec web ls", "--root-dir exec exec web", "ls"),
        ("check -- file", "check -- file", ""),
        ("why exec -- x", "why exec -- x", ""),
        ("cp exec web x", "cp exec web x", ""),
    ],
)
def test_the_command_of_an_exec(line: str, ours: str, command: str) -> None:
    arguments = line.split()
    assert take_exec_command(arguments) == command.split()
    assert arguments == ours.split()


def test_exec_without_two_dashes(here: Here) -> None:
    code, out, err = here("exec", "web", "sh", "-c", "echo given; exit 3")
    assert (code, out) == (3, b"given\n"), err


def test_the_note_about_the_default_container_is_printed(
    here: Here, elsewhere: ElsewhereWorld
) -> None:
    world, ask = elsewhere
    world.statuses.pods.clear()
    ask(world.put("two", a=FILE, b=FILE))
    code, out, err = here("exec", "two", "--", "sh", "-c", "echo given; exit 3")
    assert (code, out, err) == (3, b"given\n", b'Defaulted container "a" out of: a, b\n')


def test_options_may_follow_the_pod() -> None:
    parsed = build_parser().parse_args(["exec", "web", "-it", "-c", "app", "-n", "ns"])
    assert (parsed.pod, parsed.stdin, parsed.tty) == ("web", True, True)
    assert (parsed.container, parsed.namespace) == ("app", "ns")


def test_without_an_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--root-dir={tmp_path}", "exec", "web", "--", "true"]) == 3
    assert "no agent is running" in capsys.readouterr().err


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[ElsewhereWorld]:
    """Run the same world on a separate thread: `main` needs the first thread for signals."""
    with on_thread(lambda: session_world(memory(SCRIPTS, DECLARED), tmp_path / "podtui.sock")) as (
        it,
        ask,
    ):
        ask(it.put(c=FILE))
        yield it, ask


@pytest.fixture
def here(
    elsewhere: ElsewhereWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Here:
    """Runs a command line in this process; returns its exit code and output."""
    monkeypatch.chdir(tmp_path)

    def run_here(*arguments: str, given: Path = Path(os.devnull)) -> tuple[int, bytes, bytes]:
        with given.open() as file, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", file)
            code = main([f"--root-dir={tmp_path}", *arguments])
        return code, *capfdbinary.readouterr()

    return run_here


def test_exec_in_a_missing_pod_or_container(here: Here) -> None:
    code, _, err = here("exec", "missing", "--", "true")
    assert (code, err) == (1, b'podtui: pod "missing" does not exist\n')
    code, _, err = here("exec", "web")
    assert (code, b"a command is missing" in err) == (2, True)


def test_exec_with_a_file_for_input(here: Here, tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(b"x" * 200_000)
    for name, size in ((tmp_path / "given", 200_000), (Path(os.devnull), 0)):
        code, out, err = here("exec", "-i", "web", "--", "cat", given=name)
        assert (code, len(out), err) == (0, size, b"")


NOT_THERE = b'podtui: pod "nosuch" does not exist\n'


@pytest.mark.parametrize(
    "line",
    [
        "exec nosuch -- true", "attach nosuch", "port-forward nosuch 80", "cp nosuch:/tmp/f here",
        "cp copied nosuch:/tmp/f",
    ],
)  # fmt: skip
def test_a_pod_that_does_not_exist_is_an_error_at_once(
    here: Here, tmp_path: Path, line: str
) -> None:
    (tmp_path / "copied").touch()
    assert here(*line.split()) == (1, b"", NOT_THERE)


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("exec done -- true", "exec in"),
        ("attach done", "attach to"),
        ("port-forward done :80", "forward ports to"),
    ],
)
def test_a_pod_that_has_ended_is_an_error_at_once(
    here: Here, elsewhere: ElsewhereWorld, line: str, action: str
) -> None:
    world, ask = elsewhere
    ask(world.put("done", e="true"))
    record = world.statuses.pods["default", "done"]
    ended = replace(record, status=replace(record.status, phase="Failed"))
    ask(world.served.store.put("pods", ended))
    error = f'podtui: cannot {action} pod "done": it has terminated (Failed)\n'.encode()
    assert here(*line.split()) == (1, b"", error)


@pytest.mark.parametrize("port", ["http", "80:", "0", "65536", "1:2:3"])
def test_an_invalid_port_is_a_usage_error(here: Here, port: str) -> None:
    code, out, err = here("port-forward", "nosuch", port)
    assert (code, out) == (2, b"")
    assert f"{port}: not a port; ".encode() in err


def test_a_local_port_in_use_is_an_error(here: Here) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = here("port-forward", "web", f"{port}:80")
    assert (code, out) == (1, b"")
    assert str(port).encode() in err


def test_cp(here: Here, tmp_path: Path) -> None:
    code, out, err = here("cp", "web:/tmp/f", "copied")
    assert (code, out) == (0, b"1 file, 4 bytes\n"), err
    assert (tmp_path / "copied").read_text() == "one\n"
    code, out, err = here("cp", "copied", "web:/tmp/again")
    assert (code, out) == (0, b"1 file, 4 bytes\n"), err
    code, out, err = here("cp", "web:/tmp/again", "back")
    assert (code, (tmp_path / "back").read_text()) == (0, "one\n"), err
    code, _, err = here("cp", "here", "there")
    assert (code, b"one path must be in a container" in err) == (2, True)


def test_a_pod_is_found_with_and_without_the_node_suffix(
    here: Here, elsewhere: ElsewhereWorld, tmp_path: Path
) -> None:
    world, ask = elsewhere
    world.statuses.pods.clear()
    ask(world.put("api-node", d=DEEP_FILE))
    for name in ("api", "api-node"):
        code, out, err = here("exec", name, "--", "cat", "/tmp/f")
        assert (code, out) == (0, b"deep\n"), err
        code, _, err = here("cp", f"{name}:/tmp/f", f"of-{name}")
        assert (code, (tmp_path / f"of-{name}").read_text()) == (0, "deep\n"), err
    code, _, err = here("exec", "api-no", "--", "true")
    assert (code, err) == (1, b'podtui: pod "api-no" does not exist\n')
