"""A root directory that another user controls, and links in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubelet_world import World, pod
from virtual_time import virtual

from podtui.agent.cleanup import remove_all
from podtui.agent.control import prepare_root, start_background, tail
from podtui.agent.lock import AgentLock, AgentRecord, is_held, last_settings
from podtui.cli import main
from podtui.errors import PodtuiError
from podtui.pki.pki import Pki
from podtui.private_files import RootDenied, check_root
from podtui.settings import Settings
from podtui.store.database import load
from tests.unit.pki.test_pki import NOW

PRECIOUS = b"precious"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return a file outside of the root directory."""
    path = tmp_path / "target"
    path.write_bytes(PRECIOUS)
    return path


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def settings_of(root: Path) -> Settings:
    folder = root.parent / "pods"
    return Settings(rootDir=root, staticPodPath=folder, nodeName="n1", engine="memory")


def acquire(root: Path) -> None:
    AgentLock(root / "podtui.lock").acquire(AgentRecord.of(settings_of(root)))


def run_agent(root: Path) -> None:
    prepare_root(settings_of(root))


USES: list[Callable[[Path], object]] = [
    run_agent,
    acquire,
    lambda root: is_held(root / "podtui.lock"),
    lambda root: remove_all(settings_of(root)),
]


def test_down_says_that_volumes_of_csi_drivers_may_be_mounted(root: Path) -> None:
    """Only their drivers can unmount them."""
    settings = settings_of(root)
    assert "CSI" not in remove_all(settings)
    volume = root / "pods/uid/volumes/kubernetes.io~csi/v1"
    volume.mkdir(parents=True)
    (volume / "vol_data.json").write_text('{"driverName": "d.example.com", "volumeHandle": "h"}')
    text = remove_all(settings)
    assert f"1 volume of CSI drivers may still be mounted below {root}/pods" in text
    assert volume.exists()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
@pytest.mark.parametrize("use", USES)
def test_a_directory_that_others_may_write_is_refused(
    use: Callable[[Path], object], mode: int, root: Path
) -> None:
    root.chmod(mode)
    with pytest.raises(RootDenied) as denied:
        use(root)
    text = str(denied.value)
    assert f"is writable by other users (mode {mode:04o})" in text
    assert f"run 'chmod go-w {root}'" in text
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o711])
def test_a_directory_that_others_may_only_read_is_accepted(mode: int, root: Path) -> None:
    root.chmod(mode)
    run_agent(root)
    acquire(root)
    assert (root / "podtui.lock").exists()


@pytest.mark.parametrize("use", USES)
def test_a_directory_of_another_user_is_refused(
    use: Callable[[Path], object], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(RootDenied) as denied:
        use(root)
    assert f"{root} belongs to user" in str(denied.value)
    assert "run podtui as the owner of this root directory" in str(denied.value)
    assert "--root-dir" in str(denied.value)


@pytest.mark.parametrize("command", ["agent", "status", "stop", "down --yes", "doctor"])
def test_commands_refuse_a_directory_that_others_may_write(
    command: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root.chmod(0o777)
    arguments = [*command.split(), f"--root-dir={root}", "--engine=memory"]
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert f"chmod go-w {root}" in printed.out + printed.err


def test_a_new_directory_is_private_under_any_umask(tmp_path: Path, no_umask: None) -> None:
    run_agent(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_link_to_the_directory_itself_is_the_users_choice(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    check_root(link)
    run_agent(link)


NAMES = [
    "podtui.lock", "records.db", "records.db-wal", "records.db-shm", "pki", "pki/ca.key",
    "pki/lock", "kubeconfig", "logs", "logs/pods", "logs/containers", "allocations.json",
    "api.json", "agent.log", "pulled-images.json", "cpu_manager_state", "memory_manager_state",
    "podtui.sock",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_refuses_to_start_beside_a_link(name: str, root: Path, target: Path) -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)
    with pytest.raises(RootDenied) as denied:
        run_agent(root)
    assert str(denied.value) == (
        f"{path} is a symbolic link, which podtui does not follow; remove it"
    )


def test_the_target_of_a_link_at_the_lock_is_not_changed(root: Path, target: Path) -> None:
    (root / "podtui.lock").symlink_to(target)
    for use in (acquire, lambda root: is_held(root / "podtui.lock")):
        with pytest.raises(RootDenied, match="symbolic link"):
            use(root)
    assert last_settings(root / "podtui.lock") is None
    assert target.read_bytes() == PRECIOUS


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_at_the_records_is_not_followed(
    suffix: str, exists: bool, root: Path, target: Path
) -> None:
    if not exists:
        target.unlink()
    (root / f"records.db{suffix}").symlink_to(target)
    with pytest.raises(PodtuiError, match="symbolic link"):
        load(str(root / "records.db"), NOW)
    assert target.exists() == exists
    assert not exists or target.read_bytes() == PRECIOUS


def test_a_link_at_the_keys_is_not_followed(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (root / "pki").symlink_to(elsewhere)
    with pytest.raises(PodtuiError, match="symbolic link"):
        Pki(root / "pki", NOW)
    assert list(elsewhere.iterdir()) == []
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755


def test_a_link_at_the_log_is_not_followed(root: Path, target: Path) -> None:
    (root / "agent.log").symlink_to(target)
    with pytest.raises(PodtuiError, match="symbolic link"):
        start_background(settings_of(root), [])
    assert tail(root / "agent.log") == ""
    assert target.read_bytes() == PRECIOUS


@virtual()
@pytest.mark.parametrize("name", ["logs", "logs/pods", "logs/containers", "allocations.json"])
async def test_a_kubelet_does_not_write_through_links(
    name: str, root: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).symlink_to(elsewhere)
    world = World(root_dir=str(root))
    async with world.running():
        world.add(pod("web-n1", "u1"))
        await world.until(world.runs("u1"))
        await world.sleep(70)
    assert list(elsewhere.iterdir()) == []


def paths(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if not path.is_symlink()]


def wide_paths(root: Path) -> list[Path]:
    """Return the directories that others may write, and the files that they may open."""
    return [
        path for path in paths(root) if path.stat().st_mode & (0o022 if path.is_dir() else 0o077)
    ]


@virtual()
async def test_the_directories_of_logs_are_private_under_any_umask(
    root: Path, no_umask: None
) -> None:
    (root / "logs").mkdir(mode=0o777)
    world = World(root_dir=str(root))
    async with world.running():
        world.add(pod("web-n1", "u1"))
        await world.until(world.runs("u1"))
        await world.sleep(5)
    assert wide_paths(root) == []
    names = {path.name for path in paths(root) if path.is_dir()}
    assert names >= {"logs", "pods", "default_web-n1_u1", "c"}
