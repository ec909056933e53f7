"""Previews of a folder change no file and no known state."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtui.api.local import ManifestState
from podtui.clock import SystemClock
from podtui.manifest.folder import ManifestFolder

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n"
POD += "    - {name: c, image: busybox}\n"


async def test_a_text_is_read_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD)
    folder = ManifestFolder(tmp_path, node_name="n1", clock=SystemClock())
    snapshots = folder.snapshots()
    first = await anext(snapshots)
    changed = await folder.preview("web.yaml", POD.replace("name: web", "name: site").encode())
    assert changed.before is first
    assert [p.metadata.name for p in changed.after.pods.values()] == ["site-n1"]
    assert changed.new["spec", "containers", 0, "image"] == (6, 17)
    gone = await folder.preview("web.yaml", None)
    assert not gone.after.pods
    new = await folder.preview("new.yaml", b"kind: [")
    assert new.after.manifests["new.yaml"].status.state is ManifestState.INVALID
    assert new.after.pods == first.pods
    again = await folder.preview("web.yaml", POD.encode())
    assert again.after.pods == first.pods
    assert (tmp_path / "web.yaml").read_text() == POD
    await snapshots.aclose()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".web.yaml", "begins with a dot"),
        ("web.yaml.bak", "a backup"),
        ("../web.yaml", "not the name of a file"),
        ("", "not the name of a file"),
    ],
)
async def test_an_ignored_file_name_is_refused(tmp_path: Path, name: str, why: str) -> None:
    folder = ManifestFolder(tmp_path, node_name="n1", clock=SystemClock())
    with pytest.raises(ValueError, match=why):
        await folder.preview(name, POD.encode())


async def test_beside_a_single_file_no_other_is_read(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD)
    folder = ManifestFolder(tmp_path / "web.yaml", node_name="n1", clock=SystemClock())
    snapshots = folder.snapshots()
    await anext(snapshots)
    with pytest.raises(ValueError, match=r"only web\.yaml is read"):
        await folder.preview("other.yaml", POD.encode())
    await snapshots.aclose()
