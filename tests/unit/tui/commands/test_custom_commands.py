"""Custom commands: parsing, errors, and the objects they run on."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from repository import ROOT
from served import line as log_line
from served import pod as served_pod
from served import serving
from time_jump import jump_time
from tui_scene import pod, status

from podtui.api.v1 import Pod
from podtui.settings import SettingsError, resolve
from podtui.tui.commands import process
from podtui.tui.commands.custom_commands import (
    CurrentSelection,
    CustomCommand,
    NotOffered,
    find_targets,
    references,
)
from podtui.tui.commands.key_registry import Scope
from podtui.tui.commands.process import ProcessResult, run_program
from podtui.tui.commands.terminal import ProgramFailed
from podtui.tui.model.model import pod_key
from podtui.tui.preferences.preferences import preferences_of
from podtui.tui.preferences.user_keys import UserBindings, read_user_bindings, typed_command

SCOPES = (
    Scope("Screen", {"main.logs": ("l",), "main.find": ("slash",)}),
    Scope("Table", {"table.down": ("down", "j")}),
    Scope("App", {"app.quit": ("q",), "app.help": ("question_mark",)}),
)


def chosen(folder: Path, text: str) -> UserBindings:
    path = folder / "c.yaml"
    path.write_text(text)
    return read_user_bindings(
        preferences_of(resolve({}, {"HOME": str(folder)}, config=path)), SCOPES
    )


def problems(folder: Path, text: str) -> list[str]:
    """Return the problems without the folder prefix."""
    return [each.removeprefix(f"{folder}/") for each in chosen(folder, text).problems]


def test_a_command_is_parsed_with_its_arguments(tmp_path: Path) -> None:
    found = chosen(
        tmp_path,
        "commands:\n"
        "- name: scan\n  key: ctrl+g\n  description: look for holes\n  for: image\n"
        "  command: [trivy, no, 1, $(IMAGE)]\n  mode: output\n  confirm: yes\n"
        "  dangerous: true\n  timeout: 1m30s\n"
        "- {name: top, command: [htop]}\n",
    )
    assert found.problems == ()
    scan, top = found.commands
    assert scan == CustomCommand(
        name="scan",
        keys=("ctrl+g",),
        description="look for holes",
        subject="image",
        command=("trivy", "no", "1", "$(IMAGE)"),
        mode="output",
        confirm=True,
        dangerous=True,
        timeout=90.0,
    )
    assert (top.subject, top.mode, top.confirm, top.dangerous) == ("pod", "terminal", False, False)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("command: [ls]", "c.yaml:2:3: commands[0]: name is missing"),
        ("name: a", "c.yaml:2:3: commands[0]: command is missing"),
        ("name: a\n  command: ls -l", "3:3: commands[0].command: must be a list such as"),
        ("name: a\n  command: []", "3:3: commands[0].command: must be a list such as"),
        ("name: a\n  command: [ls, [x]]", "3:3: commands[0].command: must be a list such as"),
        (
            "name: A b\n  command: [ls]",
            "2:3: commands[0].name: must be at most 30 lower-case letters",
        ),
        (
            "name: quit\n  command: [ls]",
            "2:3: commands[0].name: :quit is already a built-in command",
        ),
        ("name: po\n  command: [ls]", "2:3: commands[0].name: :po is already a built-in command"),
        ("name: a\n  command: [ls]\n  fro: pod", "4:3: commands[0].fro: no such field; did you me"),
        ("name: a\n  command: [ls]\n  for: pods", "4:3: commands[0].for: must be one of pod, c"),
        ("name: a\n  command: [ls]\n  mode: shell", "4:3: commands[0].mode: must be one of ter"),
        ("name: a\n  command: [ls]\n  confirm: 1", "4:3: commands[0].confirm: must be true or f"),
        ("name: a\n  command: [ls]\n  timeout: 9", "4:3: commands[0].timeout: '9' is not a dura"),
        (
            "name: a\n  command: [ls, $(POD_NAM)]",
            "3:3: commands[0].command: there is no $(POD_NAM); did you mean $(POD_NAME)?",
        ),
        (
            "name: a\n  command: [ls, $(CONTAINER)]",
            "3:3: commands[0].command: $(CONTAINER) is not available for pod, only for container",
        ),
    ],
)
def test_an_invalid_entry_is_reported_with_its_position_and_the_rest_applies(
    tmp_path: Path, fields: str, problem: str
) -> None:
    text = f"commands:\n- {fields}\n- {{name: good, command: [ls], for: always}}\n"
    found = chosen(tmp_path, text)
    assert [command.name for command in found.commands] == ["good"]
    assert len(found.problems) == 1
    assert problem in found.problems[0]


def test_commands_must_be_a_list(tmp_path: Path) -> None:
    for text in ("commands: {a: b}", "hotkeys: [a]", "hotkeys: {a: [b]}"):
        with pytest.raises(SettingsError, match=r"c\.yaml:1:1: \w+: must be a"):
            chosen(tmp_path, text)
    assert problems(tmp_path, "commands: [ls]") == [
        "c.yaml:1:12: commands[0]: must be a map with name and command"
    ]


def test_duplicate_names_and_invalid_keys(tmp_path: Path) -> None:
    found = chosen(
        tmp_path,
        "commands:\n- {name: one, command: [ls]}\n- {name: one, command: [w]}\n"
        "- {name: b, command: [w], key: ctrl+bogus}\n",
    )
    assert [(each.name, each.keys) for each in found.commands] == [("one", ()), ("b", ())]
    assert "commands[1].name: :one is already another custom command" in found.problems[0]
    assert "c.yaml:4:27: commands[2].key: 'ctrl+bogus' is not a key" in found.problems[1]


def test_a_key_conflict_is_reported_with_both_positions(tmp_path: Path) -> None:
    text = (
        "keys: {app.quit: ctrl+g}\n"
        "commands:\n- name: one\n  key: ctrl+g\n  command: [ls]\n"
        "- name: b\n  key: j\n  command: [ls]\n"
        "- name: c\n  key: ctrl+o\n  command: [ls]\n"
        "hotkeys:\n  ctrl+o: sort name\n  ctrl+y: ':c'\n"
    )
    found, path = chosen(tmp_path, text), tmp_path / "c.yaml"
    assert sorted(problems(tmp_path, text), key=lambda each: int(each.split(":")[1])) == [
        f"c.yaml:4:3: commands[0].key: 'ctrl+g' is already bound to app.quit ({path}:1:8)",
        "c.yaml:7:3: commands[1].key: 'j' is already bound to table.down",
        f"c.yaml:13:3: hotkeys.ctrl+o: 'ctrl+o' is already bound to :c ({path}:10:3)",
    ]
    assert [(each.name, each.keys) for each in found.commands] == [
        ("one", ()), ("b", ()), ("c", ("ctrl+o",)),
    ]  # fmt: skip
    assert [(each.keys, each.line) for each in found.hotkeys] == [(("ctrl+y",), "c")]
    assert found.key_map.keys == {"app.quit": "ctrl+g"}


def test_a_hotkey_requires_an_existing_command(tmp_path: Path) -> None:
    assert problems(tmp_path, "hotkeys:\n  ctrl+o: srot age\n  bogus: quit\n") == [
        "c.yaml:2:3: hotkeys.ctrl+o: unknown command 'srot'; did you mean :sort?",
        "c.yaml:3:3: hotkeys.bogus: 'bogus' is not a key",
    ]


def test_descriptions_of_commands_are_stripped() -> None:
    own = CustomCommand(name="x", command=("ls",), description="a\x1b[2Jb\x07")
    assert "\x1b" not in typed_command(own).help
    assert typed_command(own).help.startswith("a")


def test_only_upper_case_names_are_variables() -> None:
    words = ["$(POD_NAME)", "a$(IP):80", "$(date)", "$$(NODE)", "$(", "$HOME"]
    assert references(words) == {"POD_NAME", "IP"}


# --- what it is run on


def command(*words: str, subject: str = "pod") -> CustomCommand:
    return CustomCommand(name="x", command=words, subject=subject)


def here(*pods: Any, **more: Any) -> CurrentSelection:
    files = {pod_key(each): f"/srv/{each.metadata.name}.yaml" for each in pods[:1]}
    common = {"NODE": "n1", "SOCKET": "/run/p.sock"}
    return CurrentSelection(pods=pods, manifest_of=files, **{"common": common, **more})


def with_images(found: Pod, *images: str) -> Pod:
    containers = zip(found.spec.containers, images, strict=True)
    spec = structs.replace(
        found.spec, containers=tuple(structs.replace(one, image=image) for one, image in containers)
    )
    return structs.replace(found, spec=spec)


WEB = with_images(pod("web", status("app"), status("side")), "nginx:1", "busybox:1.36")
JOB = pod("job", status("work"))


def test_values_of_a_pod_are_expanded_and_in_the_environment() -> None:
    ((aim,),) = find_targets(
        command("x", "$(NAMESPACE)/$(POD_NAME)", "$$(IP)", "$(MANIFEST)"), here(WEB)
    )
    given = command("x", "$(NAMESPACE)/$(POD_NAME)", "$$(IP)", "$(date)", "a;$(MANIFEST) b")
    assert aim.arguments(given) == [
        "x", "default/web-n1", "$(IP)", "$(date)", "a;/srv/web-n1.yaml b",
    ]  # fmt: skip
    environment = aim.environment()
    assert environment["PODTUI_POD_NAME"] == "web-n1"
    assert environment["PODTUI_SOCKET"] == "/run/p.sock"
    assert "PODTUI_LINE" not in environment


def test_asks_for_a_container_of_one_pod_but_not_of_several() -> None:
    of_one = find_targets(command("x", "$(CONTAINER)", subject="container"), here(WEB))
    assert [[way.values["CONTAINER"] for way in ways] for ways in of_one] == [["app", "side"]]
    assert of_one[0][0].values["CONTAINER_ID"] == "app0"
    of_two = find_targets(command("x", subject="container"), here(WEB, JOB))
    assert [[way.label for way in ways] for ways in of_two] == [
        ["app of web-n1"], ["work of job-n1"],
    ]  # fmt: skip
    in_log = find_targets(command("x", subject="container"), here(WEB, container="side"))
    assert [[way.values["IMAGE"] for way in ways] for ways in in_log] == [["busybox:1.36"]]


def test_the_image_is_under_the_cursor_or_of_the_pod() -> None:
    alone = find_targets(command("x", subject="image"), here(image="redis:7"))
    assert [[way.values["IMAGE"] for way in ways] for ways in alone] == [["redis:7"]]
    of_pod = find_targets(command("x", subject="image"), here(WEB))
    assert [[way.label for way in ways] for ways in of_pod] == [["nginx:1", "busybox:1.36"]]
    twice = with_images(pod("two", status("a"), status("b")), "i:1", "i:1")
    assert [len(ways) for ways in find_targets(command("x", subject="image"), here(twice))] == [1]


@pytest.mark.parametrize(
    ("own", "where", "why"),
    [
        (command("x"), here(), "no pod is selected"),
        (command("x", "$(MANIFEST)"), here(JOB, WEB), "no manifest file found for web-n1"),
        (command("x", "$(LINE)", subject="always"), here(), "no log line is selected"),
        (command("x", subject="node"), here(common={}), "the node is not known yet"),
        (command("x", subject="manifest"), here(WEB), "no manifest file found for web-n1"),
        (command("x", "$(CONTEXT)"), here(WEB), "this is not a kubeconfig context"),
        (command("x", subject="image"), here(), "no image is selected"),
    ],
)
def test_missing_values_are_reported(own: CustomCommand, where: CurrentSelection, why: str) -> None:
    with pytest.raises(NotOffered, match=why):
        find_targets(own, where)


def test_a_container_that_has_not_started_is_not_offered() -> None:
    base = pod("mix", status("app"), status("late"))
    app, late = base.status.containerStatuses
    statuses = (app, structs.replace(late, containerID=""))
    mixed = structs.replace(base, status=structs.replace(base.status, containerStatuses=statuses))
    own = command("x", "$(CONTAINER_ID)", subject="container")
    assert [way.values["CONTAINER"] for way in find_targets(own, here(mixed))[0]] == ["app"]
    with pytest.raises(NotOffered, match="late of mix-n1 has not started"):
        find_targets(own, here(mixed, container="late"))


# --- how it is run


async def run(*words: str, seconds: float = 30.0, **values: str) -> tuple[ProcessResult, bytes]:
    printed = bytearray()
    outcome = await run_program(words, values, printed.extend, seconds=seconds)
    return outcome, bytes(printed)


async def test_a_program_runs_without_a_shell_and_returns_its_status(tmp_path: Path) -> None:
    assert await run("echo", "$HOME; echo x | cat") == (ProcessResult(0), b"$HOME; echo x | cat\n")
    script = "echo $PODTUI_IP; echo bad >&2; cat; exit 3"
    outcome, printed = await run("sh", "-c", script, PODTUI_IP="10.0.0.7")
    assert (outcome.text, printed) == ("exit status 3", b"10.0.0.7\nbad\n")
    outcome, _ = await run("sh", "-c", "kill -9 $$")
    assert outcome.text == "was terminated by SIGKILL"
    with pytest.raises(ProgramFailed, match="no-such-program: command not found"):
        await run("no-such-program")
    (tmp_path / "text").write_text("no program")
    with pytest.raises(ProgramFailed, match="text cannot be run: Permission denied"):
        await run(str(tmp_path / "text"))


def is_there(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def all_gone(pids: bytes) -> None:
    """Wait until killed processes have ended."""
    async with asyncio.timeout(120):
        while any(is_there(int(pid)) for pid in pids.split()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_the_process_group_is_killed_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.3)
    printed = bytearray()
    deaf = ["sh", "-c", "trap '' TERM; sleep 300 & echo $!; wait"]
    async with jump_time(60.0, once=lambda: b"\n" in printed):
        outcome = await run_program(deaf, {}, printed.extend, seconds=60.0)
    assert (outcome.text, outcome.good) == ("timed out and was terminated", False)
    await all_gone(printed)


async def test_the_process_group_is_killed_on_cancellation() -> None:
    printed = bytearray()
    has_output = asyncio.Event()

    def take(piece: bytes) -> None:
        printed.extend(piece)
        has_output.set()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(
            run_program(["sh", "-c", "sleep 300 & echo $$ $!; wait"], {}, take)
        )
        async with asyncio.timeout(120):
            await has_output.wait()
        task.cancel()
    assert len(printed.split()) == 2
    await all_gone(printed)


async def test_a_program_that_ignores_sigterm_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When podtui ends, pending waits are cancelled a second time."""
    printed = bytearray()
    has_output, signalled = asyncio.Event(), asyncio.Event()
    kill = os.killpg

    def take(piece: bytes) -> None:
        printed.extend(piece)
        has_output.set()

    def note(group: int, order: int) -> None:
        kill(group, order)
        signalled.set()

    monkeypatch.setattr(os, "killpg", note)
    script = "trap '' TERM; echo $$; while :; do sleep 1; done"
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run_program(["sh", "-c", script], {}, take))
        async with asyncio.timeout(120):
            await has_output.wait()
            task.cancel()
            await signalled.wait()
        assert is_there(int(printed)), "it ignores SIGTERM"
        task.cancel()
    assert not is_there(int(printed)), "its end is awaited"


async def test_background_children_of_a_program_are_not_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "LINGER_SECONDS", 0.2)
    outcome, printed = await run("sh", "-c", "sleep 300 & echo $!", seconds=0.0)
    assert outcome == ProcessResult(0)
    await all_gone(printed)


@pytest.mark.usefixtures("no_collection")
def test_a_pipe_held_by_a_child_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "LINGER_SECONDS", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect(0)  # garbage of other tests
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome, printed = asyncio.run(run("sh", "-c", "setsid sleep 300 & echo $!"))
        gc.collect(0)
    os.kill(int(printed), signal.SIGKILL)
    assert outcome == ProcessResult(0)
    assert [str(one.message) for one in caught] == []


# --- the examples


def examples(folder: Path) -> tuple[UserBindings, ...]:
    """Return the examples of the document."""
    text = (ROOT / "docs" / "settings.md").read_text()
    blocks = re.findall(r"```yaml\n((?:commands|hotkeys):\n.*?)```", text, re.DOTALL)
    return tuple(chosen(folder, block) for block in blocks)


def test_the_documented_examples_are_valid(tmp_path: Path) -> None:
    commands, hotkeys = examples(tmp_path)
    assert (commands.problems, hotkeys.problems) == ((), ())
    follow, scan, shoot = commands.commands
    local = CurrentSelection(pods=(WEB,), common={"SOCKET": "/run/p.sock"})
    assert [way.arguments(scan)[-1] for way in find_targets(scan, local)[0]] == [
        "nginx:1",
        "busybox:1.36",
    ]
    with pytest.raises(NotOffered, match="not a kubeconfig context"):
        find_targets(shoot, local)
    cluster = CurrentSelection(pods=(WEB,), common={"CONTEXT": "kind"})
    line = find_targets(shoot, cluster)[0][0].arguments(shoot)
    assert line[:3] == ["kubectl", "--context", "kind"]
    assert line[-3:] == ["web-n1", "--image=nicolaka/netshoot", "--target=app"]
    with pytest.raises(NotOffered, match="a cluster has no socket"):
        find_targets(follow, cluster)


@pytest.mark.skipif(shutil.which("curl") is None, reason="wants curl")
async def test_the_documented_example_follows_a_log(tmp_path: Path) -> None:
    follow = examples(tmp_path)[0].commands[0]
    socket = tmp_path / "podtui.sock"
    async with serving(socket) as served:
        await served.store.put("pods", served_pod("web"))
        served.kubelet.lines = [log_line(b"hello"), log_line(b"world")]
        here = CurrentSelection(pods=(served_pod("web"),), common={"SOCKET": str(socket)})
        ((aim,),) = find_targets(follow, here)
        printed = bytearray()
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            program = group.create_task(
                run_program(aim.arguments(follow), aim.environment(), printed.extend)
            )
            served.kubelet.more.put_nowait(log_line(b"more"))
            served.kubelet.more.put_nowait(None)
            outcome = await program
    assert (outcome.text, printed.decode()) == ("exit status 0", "hello\nworld\nmore\n")
