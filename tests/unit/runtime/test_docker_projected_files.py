"""Updates of projected files: the plan, and the content of the volume after it."""

from __future__ import annotations

from collections.abc import Mapping

from projected_volume import projected

from podtui.runtime.docker.volumes import listing_of, plan
from podtui.runtime.protocol import PodVolume


def after(volume: PodVolume, there: Mapping[str, str]) -> dict[str, str]:
    """Return the content of the volume after the plan is applied."""
    update = plan(volume, "v/00", there)
    held = dict(there)
    if update is None:
        return held
    for entry in update.uploads:
        held[entry.path.removeprefix("v/00/")] = entry.target
    source, target = (path.removeprefix("v/00/") for path in update.switch)
    held[target] = held.pop(source)
    for path in update.gone:
        name = path.removeprefix("v/00/")
        assert not any(other.startswith(name + "/") for other in held), "removed before its content"
        held.pop(name, None)
    return held


FIRST = projected({"a": "1", "deep/x": "1", "old": "1"})
SECOND = projected({"a": "2", "deep/y/z": "2", "new": "2"})


def test_an_update_replaces_all_old_files() -> None:
    assert after(SECOND, listing_of(FIRST.files)) == listing_of(SECOND.files)
    assert after(projected({}), listing_of(FIRST.files)) == listing_of(projected({}).files)
    assert after(FIRST, {}) == listing_of(FIRST.files)


def test_unchanged_files_are_not_written() -> None:
    assert plan(FIRST, "v/00", listing_of(FIRST.files)) is None
    mine = dict(listing_of(FIRST.files)) | {"mine": "", "link": "mine"}
    assert plan(FIRST, "v/00", mine) is None
    assert after(SECOND, mine) == dict(listing_of(SECOND.files)) | {"mine": "", "link": "mine"}


def test_unchanged_links_are_not_touched() -> None:
    update = plan(SECOND, "v/00", listing_of(FIRST.files))
    assert update is not None
    paths = {entry.path for entry in update.uploads}
    assert "v/00/new" in paths
    assert not paths & {"v/00/a", "v/00/deep", "v/00/..data"}


def test_leftovers_of_earlier_updates_are_removed() -> None:
    there = dict(listing_of(FIRST.files))
    there |= {"..x": "", "..x/d": "", "..x/d/f": "", "..data_tmp": "..x", "gone": "..data/gone"}
    assert after(FIRST, there) == listing_of(FIRST.files)
    del there["a"]
    assert after(FIRST, there) == listing_of(FIRST.files)
