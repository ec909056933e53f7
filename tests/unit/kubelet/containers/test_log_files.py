"""Paths of logs, and the restart counts in their names (cases 49, 50, 94)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubelet_world import World, container, pod, with_env
from pod_builders import down, seen, up

from podtui.kubelet.containers.log_files import (
    LogFiles,
    log_files,
    next_count,
    outdated,
    pod_directory,
    possible_uids,
)
from podtui.runtime.memory import Behaviour
from podtui.runtime.protocol import ContainerState

UID = "uid-web-n1"


# --- names


@pytest.mark.parametrize(
    ("names", "count"),
    [
        ([], 0),
        (["0.log"], 1),
        (["4.log", "3.log"], 5),
        (["3.log", "5.log.20260101-000000.gz"], 6),
        (["x.log", "7.txt", "8.log2", "-3.log"], 0),
    ],
)
def test_the_count_after_the_files(names: list[str], count: int) -> None:
    assert next_count(names) == count


def test_files_of_removed_instances() -> None:
    names = ["0.log", "1.log", "1.log.20260101-000000.gz", "2.log", "notes"]
    assert outdated(names, 2) == ("0.log", "1.log", "1.log.20260101-000000.gz")


@given(st.text(), st.text(alphabet="ab_-", min_size=1))
def test_the_uid_is_read_from_the_directory_name(name: str, uid: str) -> None:
    plain = name.replace("_", "").replace("/", "").replace("\0", "")
    assert uid in possible_uids(pod_directory("default", plain, uid))


@pytest.mark.parametrize("uid", ["../../etc", "a/b", "a\0b"])
def test_a_uid_that_is_not_a_file_name_has_no_directory(uid: str) -> None:
    assert pod_directory("default", "web", uid) == ""


def test_files_of_a_pod() -> None:
    observed = seen(up(count=3, log_path="/var/lib/engine/x.log"), down(count=2))
    newest, before = log_files(observed, local=True)
    assert (str(newest.path), newest.target) == ("c/3.log", "/var/lib/engine/x.log")
    assert newest.link == "web-n1_default_c-c-3.log"
    assert (str(before.path), before.target) == ("c/2.log", "")
    assert log_files(observed, local=False)[0].target == ""


def test_a_long_link_name_is_truncated_before_its_suffix() -> None:
    link = log_files(seen(up(id="f" * 300)), local=True)[0].link
    assert len(link) == 255
    assert link.endswith("f.log")


# --- files


def tree(root: Path) -> dict[str, str]:
    """Return the files below a directory, and links with their targets."""
    found: dict[str, str] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            found[str(path.relative_to(root))] = os.readlink(path) if path.is_symlink() else ""
    return found


async def test_links_to_the_engines_files(tmp_path: Path) -> None:
    engines = tmp_path / "engine.log"
    engines.write_text("hello\n")
    (tmp_path / "root").mkdir()
    logs = LogFiles(str(tmp_path / "root"), local=lambda: True)
    await logs.record(seen(up(count=1, log_path=str(engines)), down()))
    assert tree(tmp_path / "root" / "logs") == {
        "pods/default_web-n1_u1/c/1.log": str(engines),
        "pods/default_web-n1_u1/c/0.log": "",
        "containers/web-n1_default_c-c-1.log": str(
            tmp_path / "root/logs/pods/default_web-n1_u1/c/1.log"
        ),
    }
    assert (tmp_path / "root/logs/containers/web-n1_default_c-c-1.log").read_text() == "hello\n"


async def test_a_known_log_file_replaces_the_empty_one(tmp_path: Path) -> None:
    logs = LogFiles(str(tmp_path), local=lambda: True)
    await logs.record(seen(up()))
    assert tree(tmp_path / "logs/pods") == {"default_web-n1_u1/c/0.log": ""}
    await logs.record(seen(up(log_path="/nowhere")))
    assert tree(tmp_path / "logs/pods") == {"default_web-n1_u1/c/0.log": "/nowhere"}


async def test_dangling_links_and_orphaned_directories_are_removed(tmp_path: Path) -> None:
    engines = tmp_path / "engine.log"
    engines.touch()
    logs = LogFiles(str(tmp_path), local=lambda: True)
    await logs.record(seen(up(log_path=str(engines))))
    await logs.record(seen(up(log_path=str(engines)), uid="u_2"))
    (tmp_path / "logs/pods/mine").mkdir()
    await logs.collect(lambda uid: uid == "u_2")
    assert sorted(os.listdir(tmp_path / "logs/pods")) == ["default_web-n1_u_2", "mine"]
    engines.unlink()
    await logs.collect(lambda uid: True)
    assert tree(tmp_path / "logs/containers") == {}


async def test_disk_errors_do_not_fail_pods(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").touch()
    logs = LogFiles(str(tmp_path), local=lambda: True)
    await logs.record(seen(up()))
    assert await logs.next_count("default", "web-n1", "u1", "c") == 0
    assert "log files: " in caplog.text


async def test_without_a_root_there_are_none() -> None:
    logs = LogFiles("", local=lambda: True)
    await logs.record(seen(up()))
    await logs.collect(lambda uid: False)
    assert await logs.next_count("default", "web-n1", "u1", "c") == 0


# --- through a whole kubelet


def numbers(root: Path, uid: str = UID) -> list[str]:
    folder = root / "logs" / "pods" / f"default_web-n1_{uid}" / "c"
    return sorted(os.listdir(folder)) if folder.is_dir() else []


@pytest.mark.virtual_time
async def test_case_49_logs_of_the_last_two_instances_are_kept(tmp_path: Path) -> None:
    world = World(root_dir=str(tmp_path))
    world.behaviours["c"] = Behaviour(exit_after=1.0, exit_code=1)
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(world.containers(UID)) == 1)
        await world.sleep(0.5)
        assert numbers(tmp_path) == ["0.log"]
        await world.until(lambda: any(c.attempt == 2 for c in world.containers(UID)))
        await world.sleep(0.5)
        states = [(c.attempt, c.state) for c in world.containers(UID)]
        assert states == [(1, ContainerState.EXITED), (2, ContainerState.RUNNING)]
        assert numbers(tmp_path) == ["1.log", "2.log"]


@pytest.mark.virtual_time
async def test_case_50_the_restart_count_continues_from_the_log_files(tmp_path: Path) -> None:
    world = World(root_dir=str(tmp_path))
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.stop_kubelet()
        folder = tmp_path / "logs" / "pods" / f"default_web-n1_{UID}" / "c"
        (folder / "4.log").touch()
        for record in world.containers(UID):
            await world.runtime.remove_container(record.id)
        await world.start_kubelet()
        await world.until(world.runs(UID))
        assert [c.attempt for c in world.containers(UID)] == [5]
        await world.sleep(1.0)
        assert (await world.status()).containerStatuses[0].restartCount == 5
        assert numbers(tmp_path) == ["5.log"]


@pytest.mark.virtual_time
async def test_logs_are_removed_with_their_pod(tmp_path: Path) -> None:
    world = World(root_dir=str(tmp_path))
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.sleep(1.0)
        assert numbers(tmp_path) == ["0.log"]
        world.replace(UID, with_env(pod(), "new"))
        await world.until(world.runs("new"))
        await world.sleep(1.0)
        assert os.listdir(tmp_path / "logs" / "pods") == ["default_web-n1_new"]
        world.remove("new")
        await world.until(world.gone("new"))
        await world.sleep(1.0)
        assert os.listdir(tmp_path / "logs" / "pods") == []


@pytest.mark.virtual_time
async def test_logs_of_a_pod_removed_while_no_agent_ran(tmp_path: Path) -> None:
    world = World(root_dir=str(tmp_path))
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.stop_kubelet()
        (tmp_path / "logs" / "pods" / "default_other_uid-other" / "c").mkdir(parents=True)
        world.remove(UID)
        await world.start_kubelet()
        await world.until(world.gone(UID))
        await world.sleep(5.0)
        assert os.listdir(tmp_path / "logs" / "pods") == []


@pytest.mark.virtual_time
async def test_a_container_removed_by_others_keeps_its_count(tmp_path: Path) -> None:
    world = World(root_dir=str(tmp_path))
    async with world.running():
        world.add(pod("web-n1", "", container("c")))
        await world.until(world.runs(UID))
        for record in world.containers(UID):
            world.engine.remove_container(world.engine.containers[record.id])
        await world.until(world.runs(UID))
        assert [c.attempt for c in world.containers(UID)] == [1]
