"""Volumes and host paths on the real engine."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_proxy import EngineProxy
from leftovers import leftovers
from projected_volume import projected
from runtime_bench import IMAGE, Bench

from podtui.api.names import root_key
from podtui.errors import EngineError
from podtui.runtime.docker.abilities import abilities
from podtui.runtime.docker.identity import PLACES_LABEL
from podtui.runtime.docker.pause import PAUSE_LABEL, POD_DIRECTORY
from podtui.runtime.docker.storage import TarEntry, read_places, tar_of
from podtui.runtime.protocol import HostPathKind, Mount, NfsShare, PodVolume

TEST_IMAGE = "docker.io/library/podtui-test-image:1"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="the engine's files are not readable here")


def host_folder(raw: Any, container: str, at: str) -> Path:
    mounts = raw.inspect_container(container)["Mounts"]
    return Path(next(mount["Source"] for mount in mounts if mount["Destination"] == at))


# --- projected files


@AS_ROOT
async def test_readers_always_find_the_link_during_an_update(docker_bench: Bench, raw: Any) -> None:
    sandbox = await docker_bench.sandbox(volumes=(projected({"a": "0"}),))
    container = await docker_bench.start(
        sandbox, mounts=(Mount(container_path="/v", volume="v", read_only=True),)
    )
    link = host_folder(raw, container, "/v") / "..data"
    seen: set[str] = set()
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                seen.add(os.readlink(link))
            except FileNotFoundError:
                seen.add("")

    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(read))
        try:
            for number in range(1, 8):
                await docker_bench.runtime.write_volume(sandbox, projected({"a": str(number)}))
        finally:
            over.set()
    assert len(seen) > 1
    assert "" not in seen


async def test_unchanged_files_need_no_engine_call(remote_bench: Bench, proxy: EngineProxy) -> None:
    first, second = projected({"a": "1"}), projected({"a": "2"})
    sandbox = await remote_bench.sandbox(volumes=(first,))
    await remote_bench.runtime.write_volume(sandbox, second)
    await proxy.cut()
    await remote_bench.runtime.write_volume(sandbox, second)
    with pytest.raises(EngineError):
        await remote_bench.runtime.write_volume(sandbox, first)
    await proxy.listen()
    await remote_bench.runtime.connect()
    await remote_bench.runtime.write_volume(sandbox, first)
    assert await remote_bench.runtime.read_volume(sandbox, "v", "a", 10) == b"1"


async def test_leftovers_of_an_interrupted_update_are_removed(
    docker_bench: Bench, raw: Any
) -> None:
    sandbox = await docker_bench.sandbox(volumes=(projected({"a": "1", "b": "1"}),))
    mounts = (Mount(container_path="/v", volume="v"),)
    script = "mkdir -p /v/..old/deep; echo x > /v/..old/deep/f; ln -s ..old /v/..data_tmp;"
    script += "ln -s ..data/gone /v/gone; echo mine > /v/mine"
    container = await docker_bench.start(sandbox, f"{script}; echo done; sleep 60", mounts=mounts)
    await docker_bench.shows(container, "done")
    await docker_bench.runtime.close()
    docker_bench.runtime = await docker_bench.open(docker_bench.root)
    second = projected({"b": "2"})
    await docker_bench.runtime.write_volume(sandbox, second)
    result = await docker_bench.runtime.exec(container, ["ls", "-A", "/v"], timeout=120)
    version = second.files[0].path.partition("/")[0]
    assert set(result.output.decode().split()) == {"..data", version, "b", "mine"}


async def test_a_volume_can_become_empty_and_be_filled_again(docker_bench: Bench) -> None:
    nothing, something = projected({}), projected({"a": "1"})
    sandbox = await docker_bench.sandbox(volumes=(nothing,))
    mounts = (Mount(container_path="/v", volume="v"),)
    container = await docker_bench.start(sandbox, mounts=mounts)

    async def listed() -> list[str]:
        found = await docker_bench.runtime.exec(container, ["ls", "/v", "/v/..data/"], timeout=120)
        return found.output.decode().split()

    assert await listed() == ["/v:", "/v/..data/:"]
    await docker_bench.runtime.write_volume(sandbox, something)
    assert await listed() == ["/v:", "a", "/v/..data/:", "a"]
    await docker_bench.runtime.write_volume(sandbox, nothing)
    assert await listed() == ["/v:", "/v/..data/:"]


async def test_a_sandbox_of_another_version_keeps_its_files(
    docker_bench: Bench, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program would interpret the call as a request to wait."""
    sandbox = await docker_bench.sandbox(volumes=(projected({"a": "1"}),))
    assert raw.inspect_container(sandbox)["Config"]["Labels"][PAUSE_LABEL] == "2"
    monkeypatch.setattr("podtui.runtime.docker.volumes.PAUSE_VERSION", "3")
    with pytest.raises(EngineError, match="another version of podtui"):
        await docker_bench.runtime.write_volume(sandbox, projected({"a": "2"}))
    assert await docker_bench.runtime.read_volume(sandbox, "v", "a", 10) == b"1"


# --- memory


async def test_memory_that_an_engine_freed_is_reported_once(docker_bench: Bench, raw: Any) -> None:
    volumes = (PodVolume(name="cache", memory=True), PodVolume(name="disk"))
    sandbox = await docker_bench.sandbox(volumes=volumes)
    (holder,) = [name for name in leftovers(raw, docker_bench.root) if name.endswith("-memory")]
    await docker_bench.runtime.remove_sandbox(sandbox)
    raw.kill(holder.removeprefix("/"))
    broken = docker_bench.sandbox_config(1, volumes=volumes, sysctls={"no.such": "1"})
    with pytest.raises(EngineError):
        await docker_bench.runtime.run_sandbox(broken)
    warnings: list[tuple[str, ...]] = []
    for attempt in (1, 2):
        config = docker_bench.sandbox_config(attempt, volumes=volumes)
        started = await docker_bench.runtime.run_sandbox(config)
        warnings.append(started.warnings)
        await docker_bench.runtime.remove_sandbox(started.id)
    (text,) = warnings[0]
    assert text.endswith("emptied its volumes in memory: cache")
    assert warnings[1] == ()


async def test_a_pod_without_memory_has_no_holder(docker_bench: Bench, raw: Any) -> None:
    await docker_bench.sandbox(volumes=(PodVolume(name="v"), projected({"a": "1"}, name="w")))
    left = leftovers(raw, docker_bench.root)
    assert len(left) == 2, "the sandbox and the pod's volume"
    secret = projected({"a": "1"}, name="w", memory=True)
    other = await docker_bench.open(f"{docker_bench.root}-2")
    await other.run_sandbox(docker_bench.sandbox_config(uid="other", volumes=(secret,)))
    left = leftovers(raw, f"{docker_bench.root}-2")
    assert len(left) == 3, "files are written again for each sandbox"


async def test_with_live_restore_only_empty_memory_is_in_memory(
    docker_bench: Bench, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker mounts a new tmpfs when it restarts, beside the one that its containers see."""
    monkeypatch.setattr(
        "podtui.runtime.docker.link.abilities",
        lambda *args, **named: replace(abilities(*args, **named), memory_files=False),
    )
    docker_bench.runtime = await docker_bench.open(docker_bench.root)
    secret = projected({"a": "1"}, name="secret", memory=True)
    sandbox = await docker_bench.sandbox(volumes=(secret, PodVolume(name="cache", memory=True)))
    volumes = {name for name in leftovers(raw, docker_bench.root) if not name.startswith("/")}
    pod_volume = min(volumes, key=len)
    assert volumes == {pod_volume, f"{pod_volume}-cache"}
    await docker_bench.runtime.write_volume(sandbox, projected({"a": "2"}, name="secret"))
    assert await docker_bench.runtime.read_volume(sandbox, "secret", "a", 10) == b"2"


async def test_a_volume_that_the_engine_keeps_is_removed_later(
    docker_bench: Bench, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await docker_bench.sandbox(volumes=(PodVolume(name="cache", memory=True),))
    (volume,) = [one for one in leftovers(raw, docker_bench.root) if one.endswith("-cache")]
    mount = {"Type": "volume", "Source": volume, "Target": "/v"}
    config = {"Image": IMAGE, "Cmd": ["true"], "HostConfig": {"Mounts": [mount]}}
    user = raw.create_container_from_config(config)["Id"]
    try:
        await docker_bench.runtime.remove_sandbox(sandbox)
        with pytest.raises(EngineError, match="in use"):
            await docker_bench.runtime.remove_pod_data(docker_bench.uid)
        # A wrong count of mounts takes a restart of an engine with live-restore.
        monkeypatch.setattr("podtui.runtime.docker.sandboxes._MISCOUNTED", "volume is in use")
        await docker_bench.runtime.remove_pod_data(docker_bench.uid)
        assert await docker_bench.runtime.pod_data() == (docker_bench.uid,)
    finally:
        raw.remove_container(user)
    await docker_bench.runtime.remove_pod_data(docker_bench.uid)
    assert await docker_bench.runtime.pod_data() == ()


# --- image volumes


def image_tar() -> bytes:
    """Return a root file system with entries that are hard to copy."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:

        def add(name: str, kind: bytes = tarfile.REGTYPE, **values: Any) -> None:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            content = values.pop("content", b"")
            entry.size = len(content)
            for key, value in values.items():
                setattr(entry, key, value)
            tar.addfile(entry, io.BytesIO(content))

        add("data", tarfile.DIRTYPE, mode=0o1750, uid=12, gid=34)
        add("data/tool", mode=0o4711, uid=5, gid=6, content=b"#!/bin/sh\n")
        add("data/one", mode=0o640)
        add("data/hard", tarfile.LNKTYPE, mode=0o640, linkname="data/one")
        add("data/soft", tarfile.SYMTYPE, linkname="../etc/passwd")
        add("data/null", tarfile.CHRTYPE, devmajor=1, devminor=3)
        add("data/" + "long" * 40 + "é", mode=0o600, content=b"x" * 100_000)
        add("proc", tarfile.DIRTYPE, mode=0o555)
    return buffer.getvalue()


@pytest.fixture
def image(raw: Any) -> Iterator[str]:
    """Return the id of an image without a command."""
    answer = raw.import_image_from_data(image_tar(), repository=TEST_IMAGE)
    assert "error" not in answer
    identity = raw.inspect_image(TEST_IMAGE)["Id"]
    yield identity
    raw.remove_image(TEST_IMAGE, force=True)


VOLUME = (PodVolume(name="v", mode=0o755),)
SEE = (Mount(container_path="/v", volume="v", read_only=True),)


async def test_an_image_is_copied_with_owners_modes_and_links(
    docker_bench: Bench, image: str
) -> None:
    sandbox = await docker_bench.sandbox(volumes=VOLUME)
    await docker_bench.runtime.fill_volume(sandbox, "v", image)
    script = (
        "cd /v; find . | sort | cut -c1-20; stat -c '%a %u %g %h %n' data data/tool data/hard;"
        " readlink data/soft; stat -c '%a %s' data/long*"
    )
    assert (await docker_bench.run(sandbox, script, mounts=SEE))[1] == [
        ".",
        "./data",
        "./data/hard",
        "./data/longlonglongl",
        "./data/one",
        "./data/soft",
        "./data/tool",
        "./proc",
        "1750 12 34 2 data",
        "4711 5 6 1 data/tool",
        "640 0 0 2 data/hard",
        "../etc/passwd",
        "600 100000",
    ]


@pytest.mark.parametrize(
    ("mark", "left"),
    [("filling {}", ["data", "half", "proc"]), ("filled sha256:other", ["data", "proc"])],
)
async def test_a_volume_with_a_partial_or_other_image_is_refilled(
    docker_bench: Bench, image: str, raw: Any, mark: str, left: list[str]
) -> None:
    sandbox = await docker_bench.sandbox(volumes=VOLUME)
    labels = raw.inspect_container(sandbox)["Config"]["Labels"]
    place = read_places(labels[PLACES_LABEL])["v"]
    entries = [
        TarEntry("images", 0o755),
        TarEntry("images/v", 0o644, content=mark.format(image).encode()),
        TarEntry(f"{place}/half", 0o644, content=b"of it"),
    ]
    raw.put_archive(sandbox, POD_DIRECTORY, tar_of(entries, 0))
    await docker_bench.runtime.fill_volume(sandbox, "v", image)
    listed = (await docker_bench.run(sandbox, "ls /v; stat -c %a /v", mounts=SEE))[1]
    assert listed == [*left, "755"]


async def test_a_failed_fill_is_reported_and_not_marked_complete(
    docker_bench: Bench, image: str
) -> None:
    small = (PodVolume(name="v", memory=True, size_limit=64 << 10),)
    sandbox = await docker_bench.sandbox(volumes=small)
    for _ in range(2):
        with pytest.raises(EngineError, match="no space left"):
            await docker_bench.runtime.fill_volume(sandbox, "v", image)


async def test_carriers_belong_to_no_pod_and_are_removed(docker_bench: Bench, raw: Any) -> None:
    labels = {
        "podtui.dev/root": root_key(docker_bench.root),
        "io.kubernetes.docker.type": "carrier",
    }
    other = labels | {"podtui.dev/root": root_key("another")}
    own_carrier, other_carrier = (
        raw.create_container_from_config({"Image": IMAGE, "Cmd": ["/"], "Labels": each})["Id"]
        for each in (labels, other)
    )
    try:
        snapshot = await docker_bench.runtime.list()
        assert (snapshot.sandboxes, snapshot.containers) == ((), ())
        await docker_bench.runtime.connect()
        left = {found["Id"] for found in raw.containers(all=True)}
        assert own_carrier not in left
        assert other_carrier in left
    finally:
        raw.remove_container(other_carrier)


# --- the host


@AS_ROOT
async def test_paths_of_a_remote_host_resolve_as_on_the_host(
    remote_bench: Bench, tmp_path: Path
) -> None:
    kind = remote_bench.runtime.host_path
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("x")
    (tmp_path / "absolute").symlink_to(tmp_path / "d")
    (tmp_path / "relative").symlink_to("d/../absolute/f")
    (tmp_path / "above").symlink_to("../" * 30 + "etc/hostname")
    (tmp_path / "dangling").symlink_to("/no/such/thing")
    (tmp_path / "round").symlink_to("round")
    os.mkfifo(tmp_path / "pipe")
    assert await kind(f"{tmp_path}/absolute/f") is HostPathKind.FILE
    assert await kind(f"{tmp_path}/relative") is HostPathKind.FILE
    assert await kind(f"{tmp_path}/above") is HostPathKind.FILE
    assert await kind(f"{tmp_path}/absolute/../d") is HostPathKind.DIRECTORY
    assert await kind(f"{tmp_path}/dangling") is HostPathKind.MISSING
    assert await kind(f"{tmp_path}/d/f/below") is HostPathKind.MISSING
    assert await kind("/dev/null") is HostPathKind.CHAR_DEVICE
    assert await kind("/var/run/docker.sock") is HostPathKind.SOCKET
    for path in ("round", "pipe"):
        with pytest.raises(EngineError):
            await kind(f"{tmp_path}/{path}")


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o7777 for path in folder.rglob("*")}


@AS_ROOT
async def test_created_host_paths_have_the_kubelets_modes(
    docker_bench: Bench, tmp_path: Path
) -> None:
    make = docker_bench.runtime.host_path
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir(mode=0o700)
    await make(f"{tmp_path}/link/a/b", create="Directory")
    await make(f"{tmp_path}/link/a/f", create="File")
    assert modes(tmp_path) == {"link": 0o700, "real": 0o700, "a": 0o755, "b": 0o755, "f": 0o644}
    with pytest.raises(EngineError, match="no such file or directory"):
        await make(f"{tmp_path}/no/f", create="File")
    with pytest.raises(EngineError):
        await make(f"{tmp_path}/real/a/f/below", create="Directory")


# --- shares of NFS servers


async def test_a_share_that_cannot_be_mounted(docker_bench: Bench, raw: Any) -> None:
    share = NfsShare(server="127.0.0.1", path="/none", options=("retry=0", "timeo=10", "port=9"))
    with pytest.raises(EngineError, match="failed to mount local volume: mount :/none"):
        await docker_bench.runtime.check_nfs(share)
    # Other tests create volumes at the same time.
    options = [volume.get("Options") or {} for volume in raw.volumes()["Volumes"] or ()]
    assert ":/none" not in [option.get("device") for option in options]
