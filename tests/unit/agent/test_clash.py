"""Two agents whose containers would have the same names."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from podtui.agent.clash import Clash, Owner, explain, find_clashes, guarded, owner_of
from podtui.agent.cleanup import remove_all
from podtui.agent.lock import AgentLock, AgentRecord
from podtui.api.names import MANIFEST_PATH
from podtui.clock import SystemClock
from podtui.errors import AgentClash
from podtui.runtime.memory import MemoryEngine, MemoryRuntime
from podtui.runtime.protocol import ForeignSandbox, SandboxConfig, SandboxRecord, SandboxState
from podtui.settings import Settings


def foreign(
    pod: str = "web-n1", manifest: str | None = "/m/web.yaml", root: str = "/a"
) -> ForeignSandbox:
    record = SandboxRecord(
        id="1", name=pod, namespace="default", uid="u", attempt=0, state=SandboxState.READY,
        created_at=datetime.now(UTC),
        annotations={} if manifest is None else {MANIFEST_PATH: manifest},
    )  # fmt: skip
    return ForeignSandbox(root_dir=root, record=record)


def found(*sandboxes: ForeignSandbox, folder: str = "/m", node: str = "n1") -> tuple[Clash, ...]:
    return find_clashes(sandboxes, folder, node, lambda _: Owner.RUNNING)


@pytest.mark.parametrize(
    "sandbox",
    [
        foreign(pod="web-n2"),
        foreign(manifest="/other/web.yaml"),
        foreign(manifest="/m/deep/web.yaml"),
        foreign(manifest=None),
    ],
)
def test_another_node_or_folder_does_not_clash(sandbox: ForeignSandbox) -> None:
    assert found(sandbox) == ()


def test_pods_of_the_same_folder_and_node_clash() -> None:
    assert found(foreign(), foreign("api-n1"), foreign()) == (
        Clash("/a", Owner.RUNNING, ("api-n1", "web-n1")),
    )
    assert found(foreign(), node="N1") == (Clash("/a", Owner.RUNNING, ("web-n1",)),)
    assert found(foreign(), folder="/m/web.yaml"), "the folder may be a single file"
    several = found(foreign(root="/b"), foreign(root="/a"))
    assert [one.root_dir for one in several] == ["/a", "/b"]


def test_the_owner_is_found_by_its_lock(tmp_path: Path) -> None:
    assert owner_of("") is Owner.GONE
    assert owner_of(str(tmp_path / "none")) is Owner.GONE
    assert owner_of(str(tmp_path)) is Owner.STOPPED
    lock = AgentLock(tmp_path / "podtui.lock")
    lock.acquire(
        AgentRecord(pid=1, version="0", nodeName="n", staticPodPath="/", engine="auto", started="")
    )
    assert owner_of(str(tmp_path)) is Owner.RUNNING
    lock.release()
    assert owner_of(str(tmp_path)) is Owner.STOPPED


def test_the_agent_of_another_user_may_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, *_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "podtui.lock").touch()
    monkeypatch.setattr("podtui.agent.lock.os.open", refuse)
    assert owner_of(str(tmp_path)) is Owner.RUNNING


def settings(root: Path) -> Settings:
    return Settings(rootDir=root, staticPodPath=Path("/m"), nodeName="n1", engine="memory")


@pytest.mark.parametrize("owner", Owner)
def test_each_clash_names_the_remedy(tmp_path: Path, owner: Owner) -> None:
    message = explain(Clash("/a dir", owner, ("web-n1",)), settings(tmp_path))
    assert "pod web-n1 of /m" in message
    assert "another --node-name" in message
    assert "down --root-dir '/a dir'" in message


async def test_only_a_running_agent_keeps_another_from_connecting(tmp_path: Path) -> None:
    engine = MemoryEngine(clock=SystemClock())
    first = MemoryRuntime(root=str(tmp_path), clock=SystemClock(), engine=engine)
    await first.connect()
    await first.run_sandbox(
        SandboxConfig(
            name="web-n1", namespace="default", uid="u", attempt=0,
            annotations={MANIFEST_PATH: "/m/web.yaml"},
        )
    )  # fmt: skip
    clashes: list[AgentClash] = []
    second = MemoryRuntime(root="/second", clock=SystemClock(), engine=engine)
    checked = guarded(second, settings(Path("/second")), clashes.append)
    lock = AgentLock(tmp_path / "podtui.lock")
    lock.acquire(
        AgentRecord(pid=1, version="0", nodeName="n", staticPodPath="/", engine="auto", started="")
    )
    with pytest.raises(AgentClash, match="--node-name"):
        await checked.connect()
    assert len(clashes) == 1
    lock.release()
    await checked.connect()
    assert len(clashes) == 1


def test_a_missing_root_directory_and_engine_leave_no_clash(tmp_path: Path) -> None:
    absent = settings(tmp_path / "absent")
    assert remove_all(absent) == f"{tmp_path}/absent does not exist: nothing to remove."
    assert not os.listdir(tmp_path)
