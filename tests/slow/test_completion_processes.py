"""Completion as run by a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from on_thread import on_thread
from session_world import session_world
from simulated import memory

from podtui.cli.parser import COMMANDS

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(tmp_path: Path) -> Complete:
    """Request completions as argcomplete's bash function does."""

    def ask(line: str) -> list[str]:
        answer = tmp_path / "answer"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PODTUI_ROOT_DIR": str(tmp_path),
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        subprocess.run(
            [sys.executable, "-m", "podtui"], env=environment, cwd=tmp_path, timeout=120,
            stdin=subprocess.DEVNULL, capture_output=True, check=True,
        )  # fmt: skip
        return answer.read_text().split("\n")

    return ask


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[None]:
    with on_thread(lambda: session_world(memory(), tmp_path / "podtui.sock")) as (world, ask):
        ask(world.put(app="sleep 300", side="sleep 300"))
        yield


def test_commands_and_folders_are_completed(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "stuff").mkdir()
    (tmp_path / "stuff.yaml").touch()
    assert complete("podtui st") == ["status", "stop", "stuff/"]
    assert set(COMMANDS) <= set(complete("podtui "))
    assert complete("podtui --static-pod-path st") == ["stuff/"]
    assert set(complete("podtui check st")) == {"stuff/", "stuff.yaml"}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("podtui exec w", ["web"]),
        ("podtui attach -n ", ["default"]),
        ("podtui exec web -c ", ["app", "side"]),
        ("podtui exec -c s", ["side"]),
        ("podtui cp w", ["web:"]),
        ("podtui why w", ["web"]),
        ("podtui why st", ["sts/"]),
    ],
)
def test_pods_and_containers_are_completed(
    complete: Complete, pods: None, line: str, found: list[str]
) -> None:
    assert complete(line) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("podtui exec ", [""]),
        ("podtui status --context x exec ", [""]),
        ("podtui status -o ", ["table", "json"]),
        ("podtui --eng", ["--engine"]),
        ("podtui --engine ", ["auto", "memory"]),
        ("podtui explain spec.containers.imageP", ["spec.containers.imagePullPolicy"]),
        ("podtui agent --theme ", [""]),
        ("podtui completion ", ["bash", "zsh", "fish"]),
        ("podtui exec web -- l", [""]),
    ],
)
def test_static_values_are_completed_without_an_agent(
    complete: Complete, line: str, found: list[str]
) -> None:
    assert complete(line) == found
