from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from podtui.agent.lock import (
    AgentLock,
    AgentRecord,
    AgentRunning,
    LastSettings,
    is_held,
    last_agent,
    last_settings,
    read_agent,
)


def record(pid: int = 1) -> AgentRecord:
    return AgentRecord(
        pid=pid, version="0", nodeName="n1", staticPodPath="/m", engine="memory", started="now"
    )


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "podtui.lock"
    first, second = AgentLock(path), AgentLock(path)
    assert not is_held(path)
    first.acquire(record(4711))
    assert is_held(path)
    assert read_agent(path) == record(4711)
    with pytest.raises(AgentRunning, match="process 4711"):
        second.acquire(record())
    first.release()
    first.release()
    assert not is_held(path)
    assert read_agent(path) is None
    second.acquire(record())
    second.release()


def test_reading_the_lock_does_not_block_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "podtui.lock"
    path.touch()
    other = os.open(path, os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    monkeypatch.setattr(time, "sleep", lambda _: os.close(other))
    lock = AgentLock(path)
    lock.acquire(record(4711))
    assert read_agent(path) == record(4711)
    lock.release()


def test_the_file_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    lock = AgentLock(tmp_path / "podtui.lock")
    lock.acquire(record())
    assert (tmp_path / "podtui.lock").stat().st_mode & 0o777 == 0o600
    lock.release()


def test_content_of_a_dead_holder_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "podtui.lock"
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from podtui.agent.lock import AgentLock, AgentRecord\n"
        "AgentLock(Path(sys.argv[1])).acquire(AgentRecord(pid=os.getpid(), version='', nodeName='',"
        " staticPodPath='', engine='', started=''))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, path], check=False)
    assert path.read_text()
    assert read_agent(path) is None


def test_a_lock_with_unreadable_content_is_held_by_an_unknown_agent(tmp_path: Path) -> None:
    path = tmp_path / "podtui.lock"
    lock = AgentLock(path)
    lock.acquire(record())
    path.write_text("{not json")
    assert is_held(path)
    assert read_agent(path) is None
    lock.release()


def test_settings_of_a_stopped_agent_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "podtui.lock"
    assert last_settings(path) is None
    lock = AgentLock(path)
    lock.acquire(record())
    left = LastSettings(staticPodPath="/m", nodeName="n1", engine="memory")
    assert last_settings(path) == left
    lock.release()
    assert last_settings(path) == left
    assert last_agent(path) is None, "only a killed agent leaves its record"
    for text in ('{"engine": "auto"}', "[]", "{", '{"engine": 1, "nodeName": "n", "x": ""}'):
        path.write_text(text)
        assert last_settings(path) is None


def test_the_last_settings_name_the_cluster_of_a_node(tmp_path: Path) -> None:
    path = tmp_path / "podtui.lock"
    lock = AgentLock(path)
    lock.acquire(msgspec.structs.replace(record(), nodeKubeconfig="/etc/kubelet.conf"))
    lock.release()
    last = last_settings(path)
    assert last is not None
    assert last.nodeKubeconfig == "/etc/kubelet.conf"
