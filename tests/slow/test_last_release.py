"""One step up from the last release and back: docs/reliability.md, "Upgrades and downgrades".

The code of the release comes from the repository's history. No release is tagged yet, so the commit
is that of 0.1.0 as it was before files recorded their version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from podtui import __version__

ROOT = Path(__file__).parents[2]
LAST_RELEASE = "a5c3ac5c6f652025c696ff40349b3cf79c4369bc"
SCRIPT = """
import asyncio, json, sys
from podtui.api.v1 import ConfigMap, Container, Namespace, ObjectMeta, Pod, PodSpec, Secret
from podtui.clock import SystemClock
from podtui.store import open_store

async def main(path, name):
    store = open_store(path, clock=SystemClock())
    if name:
        meta = ObjectMeta(name=name, namespace="default")
        spec = PodSpec(nodeName="n1", containers=(Container(name="c", image="busybox"),))
        await store.put("pods", Pod(metadata=meta, spec=spec))
        await store.put("configmaps", ConfigMap(metadata=meta, data={"k": name}))
        await store.put("secrets", Secret(metadata=meta))
        await store.put("namespaces", Namespace(metadata=ObjectMeta(name=name)))
        await store.flush()
    kinds = ("pods", "configmaps", "secrets", "namespaces")
    items = [item for kind in kinds for item in (await store.list(kind)).items]
    found = {f"{type(item).__name__}/{item.metadata.name}": item.metadata.uid for item in items}
    print(json.dumps({"recovered": store.recovered, "objects": found}))
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""

ADD_CLASS = """
import asyncio, sys
from podtui.api.v1 import ObjectMeta, RuntimeClass
from podtui.clock import SystemClock
from podtui.store import open_store

async def main(path):
    store = open_store(path, clock=SystemClock())
    item = RuntimeClass(metadata=ObjectMeta(name="gvisor"), handler="runsc")
    await store.put("runtimeclasses", item)
    await store.close()

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the package ``podtui`` of the last release."""
    folder = tmp_path_factory.mktemp("release")
    archive = folder / "podtui.tar"
    command = ["git", "archive", f"--output={archive}", LAST_RELEASE, "podtui"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the history is needed (a full clone): {done.stderr}"
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    assert "records.db.backup" not in (folder / "podtui/store/database.py").read_text()
    return folder


def run(code: Path, path: Path, name: str = "", *, dropped: str = "") -> dict[str, str]:
    """Open the file with this code, and create objects with this name. Return the UIDs of all."""
    printed = json.loads(execute(code, SCRIPT, path, name))
    if dropped:
        assert dropped in printed["recovered"]
    else:
        assert printed["recovered"] == ""
    return printed["objects"]


def execute(code: Path, script: str, path: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(code)}
    command = [sys.executable, "-c", script, str(path), *arguments]
    done = subprocess.run(
        command, env=environment, cwd=path.parent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_object_is_lost_on_the_way_up_and_back(release: Path, tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    old = run(release, path, "old")
    assert len(old) == 4
    new = run(ROOT, path, "new")
    assert len(new) == 8
    assert new.items() >= old.items()
    assert run(release, path) == new
    later = run(release, path, "later")
    assert run(ROOT, path) == later
    assert later.items() > new.items()


def test_the_release_drops_only_kinds_that_it_does_not_know(release: Path, tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    new = run(ROOT, path, "new")
    execute(ROOT, ADD_CLASS, path)
    assert run(release, path, dropped="runtimeclasses//gvisor") == new


def test_the_records_of_the_release_are_copied_first(release: Path, tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    old = run(release, path, "old")
    run(ROOT, path, "new")
    copy = tmp_path / "records.db.backup-unknown"
    copy.replace(path)
    for name in ("records.db-wal", "records.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert run(release, path) == old


def test_each_code_is_the_one_of_its_directory(release: Path, tmp_path: Path) -> None:
    script = "import podtui; print(podtui.__file__, podtui.__version__)"
    for code, expected in ((release, "0.1.0"), (ROOT, __version__)):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": str(code)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        file, version = done.stdout.split()
        assert Path(file).parents[1] == code
        assert version == expected
