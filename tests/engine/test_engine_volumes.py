"""Volumes as processes see them, on the real engine."""

from __future__ import annotations

import asyncio
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_world import NODE, EngineWorld
from runtime_bench import until

from podtui.api.v1 import Event, PodStatus
from podtui.clock import SystemClock
from podtui.manifest.folder import ManifestFolder
from podtui.manifest.folder_state import Folder
from podtui.runtime.protocol import LogOptions

IMAGE = "busybox:1.36"
UPDATES = 20


class FolderWorld(EngineWorld):
    """Uses a real folder, with documents beside pods."""

    def __init__(self, url: str, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        super().__init__(url)

    def _folders(self) -> AsyncIterator[Folder]:
        return ManifestFolder(self._folder, node_name=NODE, clock=SystemClock()).snapshots()

    def put(self, name: str, kind: str, **fields: object) -> None:
        document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}
        hidden = self._folder / f".{name}"
        hidden.write_bytes(msgspec.json.encode(document))
        hidden.rename(self._folder / f"{name}.json")

    def pod(self, name: str, *containers: dict[str, Any], **spec: object) -> None:
        fields = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", **spec}
        self.put(name, "Pod", spec={**fields, "containers": list(containers)})

    async def output_so_far(self, status: PodStatus, container: str) -> list[str]:
        """Return the lines so far of a container that may still run."""
        (one,) = [one for one in status.containerStatuses if one.name == container]
        batches = self.runtime.logs(one.containerID.partition("://")[2], LogOptions())
        return [line.content.decode() async for lines in batches for line in lines]

    async def failed_mount(self, name: str) -> Event | None:
        listing = await self.store.list("events")
        events = [item for item in listing.items if isinstance(item, Event)]
        found = (one for one in events if one.involvedObject.name == f"{name}-{NODE}")
        return next((one for one in found if one.reason == "FailedMount"), None)


@pytest.fixture
async def world(engine_url: str, tmp_path: Path) -> AsyncIterator[FolderWorld]:
    made = FolderWorld(engine_url, tmp_path / "manifests")
    async with made.running():
        yield made


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """Return a directory of the engine's host with mount propagation."""
    path = tmp_path / "shared"
    path.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting takes a privileged user")
    subprocess.run(["mount", "--make-shared", path], check=True)
    yield path
    subprocess.run(["umount", "--recursive", path], check=True)


def container(name: str, script: str, *mounts: dict[str, object], **more: object) -> dict[str, Any]:
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "volumeMounts": list(mounts),
        **more,
    }


def mount(name: str, path: str, **more: object) -> dict[str, object]:
    return {"name": name, "mountPath": path, **more}


def running(status: PodStatus) -> bool:
    return status.phase == "Running"


SCRIPT = """
set -e
stat -c 'empty %a %g' /empty
touch /empty/new; stat -c 'new %g' /empty/new
stat -c 'memory %a %g' /memory
stat -c 'sub %A %u %g' /sub
echo memory-size $(df -k /memory | awk 'END { print $2 }')
stat -L -c 'file %a %g' /conf/deep/name
stat -L -c 'plain %a %g' /conf/labels
stat -L -c 'folder %a %g' /conf/..data /conf/deep
echo linked $(readlink /conf/labels) $(readlink /conf/..data | cut -c1-2)
echo labels $(cat /conf/labels)
touch /conf/x 2>/dev/null || echo conf read-only
touch /sub/mine; ls /empty/volumes-n1
echo groups $(id -G)
echo token $TOKEN
echo hosts $(cat /etc/hosts)
touch /made/by-pod; echo text > /file
"""


async def test_modes_owners_and_paths(world: FolderWorld, tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    name = {"fieldRef": {"fieldPath": "metadata.name"}}
    ref = {"volumeName": "empty", "path": "vars", "key": "TOKEN"}
    expression = {"subPathExpr": "$(NAME)"}
    world.pod(
        "volumes",
        container(
            "reader",
            SCRIPT,
            mount("empty", "/empty"),
            mount("memory", "/memory"),
            mount("conf", "/conf"),
            mount("empty", "/sub", **expression),
            mount("conf", "/etc/hosts", subPath="deep/name"),
            mount("dir", "/made"),
            mount("file", "/file"),
            env=[
                {"name": "NAME", "valueFrom": name},
                {"name": "TOKEN", "valueFrom": {"fileKeyRef": ref}},
            ],
            securityContext={"runAsUser": 0, "runAsGroup": 0},
        ),
        initContainers=[
            container("write", "echo \"TOKEN='a b'\" > /empty/vars", mount("empty", "/empty"))
        ],
        securityContext={"fsGroup": 4242},
        volumes=[
            {"name": "empty", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
            {
                "name": "conf",
                "downwardAPI": {
                    "items": [
                        {"path": "deep/name", "mode": 0o400, **name},
                        {"path": "labels", "fieldRef": {"fieldPath": "metadata.uid"}},
                    ]
                },
            },
            {"name": "dir", "hostPath": {"path": f"{host}/a/b", "type": "DirectoryOrCreate"}},
            {"name": "file", "hostPath": {"path": f"{host}/f", "type": "FileOrCreate"}},
        ],
    )
    lines = (await world.output("volumes", "reader")).splitlines()
    uid = lines[10].partition(" ")[2]
    assert lines == [
        "empty 2777 4242",
        "new 4242",
        "memory 3777 4242",
        "sub drwxrwsrwx 0 4242",
        "memory-size 4096",
        "file 440 4242",
        "plain 644 4242",
        "folder 2755 4242",
        "folder 2755 4242",
        "linked ..data/labels ..",
        f"labels {uid}",
        "conf read-only",
        "mine",
        "groups 0 4242",
        "token a b",
        f"hosts volumes-{NODE}",
    ]
    assert (host / "a/b/by-pod").exists()
    assert (host / "f").read_text() == "text\n"
    assert stat.S_IMODE((host / "a/b").stat().st_mode) == 0o755
    assert stat.S_IMODE((host / "a").stat().st_mode) == 0o755
    assert stat.S_IMODE((host / "f").stat().st_mode) == 0o644


READ = """
last=
while :; do
  now=$(cat /cfg/key) || echo MISSING
  [ "$now" = "$last" ] || echo "$now"
  last=$now
done
"""


async def test_readers_always_find_a_replaced_file(world: FolderWorld) -> None:
    world.put("settings", "ConfigMap", data={"key": "0"})
    world.pod(
        "reader",
        container("read", READ, mount("cfg", "/cfg"), mount("cfg", "/fixed", subPath="key")),
        container(
            "image",
            "ls /img/bin/busybox && ls /bin-only/busybox;"
            " touch /img/x 2>/dev/null || echo read-only; sleep 600",
            mount("img", "/img"),
            mount("img", "/bin-only", subPath="bin"),
        ),
        volumes=[
            {"name": "cfg", "configMap": {"name": "settings"}},
            {"name": "img", "image": {"reference": IMAGE, "pullPolicy": "Never"}},
        ],
    )
    status = await world.until(running, "reader")
    for number in range(1, UPDATES + 1):
        world.put("settings", "ConfigMap", data={"key": str(number), f"only-{number}": ""})
        await asyncio.sleep(0.1)

    async def output_with_last_update() -> list[str] | None:
        versions = await world.output_so_far(status, "read")
        return versions if str(UPDATES) in versions else None

    versions = await until(output_with_last_update)
    assert "MISSING" not in versions
    assert versions == sorted(versions, key=int), "no version came back"
    assert len(versions) > 3, "they were replaced while they were read"
    (one,) = [one for one in status.containerStatuses if one.name == "read"]
    ident = one.containerID.partition("://")[2]
    fixed = await world.runtime.exec(ident, ["cat", "/fixed"], timeout=120)
    assert fixed.output.strip() == b"0", "a sub-path stays as it was"
    assert await world.output_so_far(status, "image") == [
        "/img/bin/busybox",
        "/bin-only/busybox",
        "read-only",
    ]


async def test_a_pod_starts_once_its_host_path_exists(world: FolderWorld, tmp_path: Path) -> None:
    path = tmp_path / "later"
    world.pod(
        "waits",
        container("reader", "ls /d", mount("d", "/d")),
        volumes=[{"name": "d", "hostPath": {"path": str(path), "type": "Directory"}}],
    )
    message = (await until(partial(world.failed_mount, "waits"))).message
    assert message == (
        'MountVolume.SetUp failed for volume "d" :'
        f" hostPath type check failed: {path} is not a directory"
    )
    status = await world.until(lambda status: bool(status.conditions), "waits")
    assert status.phase == "Pending"
    assert (await world.runtime.list()).sandboxes == ()
    path.mkdir()
    (path / "here").touch()
    assert await world.output("waits", "reader") == "here"


async def test_a_mount_made_inside_appears_on_the_host(world: FolderWorld, shared: Path) -> None:
    volumes = [{"name": "h", "hostPath": {"path": str(shared), "type": "Directory"}}]
    world.pod(
        "mounts",
        container("private", "until [ -d /h/m ]; do sleep 0.1; done; sleep 600", mount("h", "/h")),
        container(
            "see",
            "until [ -e /h/m/inside ]; do sleep 0.1; done; echo seen; sleep 600",
            mount("h", "/h", mountPropagation="HostToContainer"),
        ),
        container(
            "make",
            "mkdir /h/m && mount -t tmpfs none /h/m && touch /h/m/inside; sleep 600",
            mount("h", "/h", mountPropagation="Bidirectional"),
            securityContext={"privileged": True},
        ),
        volumes=volumes,
    )
    status = await world.until(running, "mounts")
    await until(partial(world.output_so_far, status, "see"))
    assert (shared / "m/inside").exists()
    (private,) = [one for one in status.containerStatuses if one.name == "private"]
    ident = private.containerID.partition("://")[2]
    found = await world.runtime.exec(ident, ["ls", "/h/m"], timeout=120)
    assert found.output == b"", "what is mounted later is not seen without propagation"
