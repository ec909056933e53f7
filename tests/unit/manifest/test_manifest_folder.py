"""Changes of the folder: acceptance cases, ways in which editors write files, departures."""

# ruff: noqa: ASYNC240 - the tests are the ones that write the files

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
from asyncinotify import Inotify
from manifests import NODE, Watched, images, names, pod_text, put, states, watch

from podtui.api import names as labels
from podtui.api.local import ManifestState
from podtui.clock import SystemClock
from podtui.manifest import folder as folder_module
from podtui.manifest.folder import ManifestFolder
from podtui.manifest.folder_state import Folder
from podtui.manifest.listing import FileContent, being_edited, ignore_reason

BROKEN = "kind: ["


@pytest.fixture(autouse=True)
def quick_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll more than once per second for changes without an event."""
    monkeypatch.setattr(folder_module, "POLL_SECONDS", 0.1)


async def first(path: Path) -> Folder:
    snapshots = ManifestFolder(path, node_name=NODE, clock=SystemClock()).snapshots()
    try:
        return await anext(snapshots)
    finally:
        await snapshots.aclose()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110 - the folder reports only changes
            await asyncio.sleep(0.01)


def only_image(folder: Folder) -> str:
    (image,) = images(folder).values()
    return image


async def test_case_1_a_manifest_appears(folder: Path) -> None:
    async with watch(folder) as watched:
        put(folder / "web.yaml", pod_text())
        seen = await watched.until(lambda f: names(f) == ["web-n1"])
    ((uid, pod),) = seen.pods.items()
    assert pod.metadata.uid == uid
    notes = pod.metadata.annotations
    assert notes[labels.CONFIG_HASH] == uid
    assert notes[labels.CONFIG_SOURCE] == "file"
    assert notes[labels.MANIFEST_PATH] == str(folder / "web.yaml")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", notes[labels.CONFIG_SEEN])
    record = seen.manifests["web.yaml"]
    assert record.status.state is ManifestState.ACCEPTED
    assert (record.status.podName, record.status.podUID) == ("web-n1", uid)
    assert record.spec.path == str(folder / "web.yaml")
    assert record.spec.text == pod_text()


async def test_case_3_accepted_file_names(folder: Path) -> None:
    for name in (".web.yaml", "web.txt", "web.yaml~", "#x#", "x.swp", "x.bak", "4913", "README"):
        (folder / name).write_text(pod_text("p" + name.strip(".~#").lower().replace(".", "-")))
    assert names(await first(folder)) == ["preadme-n1", "pweb-txt-n1"]
    async with watch(folder, strict=True) as watched:
        assert {"pweb-yaml-n1", "px-n1", "p4913-n1"} <= set(names(watched.last))
        assert ".web.yaml" not in watched.last.manifests


async def test_departure_2_ignored_files_are_listed_with_the_reason(folder: Path) -> None:
    (folder / "web.yaml~").write_text(pod_text())
    seen = await first(folder)
    assert seen.pods == {}
    status = seen.manifests["web.yaml~"].status
    assert (status.state, status.message) == (ManifestState.IGNORED, "an editor's backup")


async def test_names_that_are_not_utf8_are_escaped_in_records(folder: Path) -> None:
    names_of_bytes = [b"caf\xe9.yaml", b"caf\xff.yaml", b"caf\xe9.yaml~", b"\xe9broken.yaml"]
    for name, text in zip(names_of_bytes, [pod_text()] * 3 + [BROKEN], strict=True):
        put(folder / os.fsdecode(name), text)
    read = await first(folder)
    assert names(read) == ["web-n1"]
    assert len(read.manifests) == 4
    encoded = b"".join(map(msgspec.json.encode, read.manifests.values()))
    shown = {record.metadata.name for record in read.manifests.values()}
    expected = {name.decode(errors="backslashreplace") for name in names_of_bytes}
    assert shown == expected
    # Also in the text about the duplicate.
    assert b"is defined in caf\\\\x" in encoded


async def test_case_4_only_regular_files_are_read(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "web.yaml").write_text(pod_text())
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "link.yaml").symlink_to(folder / "sub" / "web.yaml")
    seen = await first(folder)
    assert names(seen) == ["web-n1"]
    assert states(seen) == {
        "sub": "Ignored",
        "pipe": "Ignored",
        "dangling": "Ignored",
        "loop": "Ignored",
        "link.yaml": "Accepted",
    }
    assert all(m.status.message for n, m in seen.manifests.items() if n != "link.yaml")


async def test_case_6_comments_do_not_change_the_pod(folder: Path) -> None:
    path = folder / "web.yaml"
    put(path, pod_text())
    async with watch(folder) as watched:
        (before,) = watched.last.pods.values()
        put(path, "# hello\n\n" + pod_text())
        seen = await watched.until(lambda f: "hello" in f.manifests["web.yaml"].spec.text)
        assert seen.pods == {before.metadata.uid: before}


async def test_case_7_an_edit_changes_the_uid(folder: Path) -> None:
    path = folder / "web.yaml"
    put(path, pod_text())
    async with watch(folder) as watched:
        (before,) = watched.last.pods
        put(path, pod_text(image="busybox:2"))
        seen = await watched.until(lambda f: only_image(f) == "busybox:2")
        assert before not in seen.pods


async def test_case_8_a_fixed_uid_keeps_uid_and_first_sight(folder: Path) -> None:
    path = folder / "web.yaml"
    text = pod_text().replace("  name: web\n", "  name: web\n  uid: abc\n")
    put(path, text)
    async with watch(folder) as watched:
        seen = watched.last.pods["abc"].metadata.annotations[labels.CONFIG_SEEN]
        put(path, text.replace("busybox:1", "busybox:2"))
        after = await watched.until(lambda f: only_image(f) == "busybox:2")
        assert after.pods["abc"].metadata.annotations[labels.CONFIG_SEEN] == seen


async def test_case_10_valid_and_invalid_files_together(folder: Path) -> None:
    (folder / "bad.yaml").write_text(BROKEN)
    (folder / "good.yaml").write_text(pod_text())
    seen = await first(folder)
    assert names(seen) == ["web-n1"]
    assert states(seen) == {"bad.yaml": "Invalid", "good.yaml": "Accepted"}
    status = seen.manifests["bad.yaml"].status
    assert status.diagnostics[0].line == 1
    assert "did not find" in status.message


async def test_departure_1_the_last_good_version_is_kept(folder: Path) -> None:
    path = folder / "web.yaml"
    put(path, pod_text())
    async with watch(folder) as watched:
        pods = watched.last.pods
        put(path, BROKEN)
        seen = await watched.until(lambda f: states(f) == {"web.yaml": "LastGood"})
        assert seen.pods == pods
        assert seen.manifests["web.yaml"].status.podName == "web-n1"
        put(path, pod_text(image="busybox:2"))
        seen = await watched.until(lambda f: states(f) == {"web.yaml": "Accepted"})
        assert only_image(seen) == "busybox:2"


async def test_departure_1_across_a_restart_of_the_agent(folder: Path) -> None:
    path = folder / "web.yaml"
    put(path, pod_text())
    (good,) = (await first(folder)).pods.values()
    put(path, BROKEN)
    async with watch(folder, last_good={str(path): (good,)}) as watched:
        assert watched.last.pods == {good.metadata.uid: good}
        assert states(watched.last) == {"web.yaml": "LastGood"}
        put(path, pod_text())
        seen = await watched.until(lambda f: states(f) == {"web.yaml": "Accepted"})
        assert seen.pods == {good.metadata.uid: good}  # config.seen too


async def test_case_11_strict_drops_a_broken_pod_at_the_next_full_list(folder: Path) -> None:
    path = folder / "web.yaml"
    put(path, pod_text())
    async with watch(folder, strict=True, full_list_seconds=0.1) as watched:
        put(path, BROKEN)
        seen = await watched.until(lambda f: not f.pods)
        assert states(seen) == {"web.yaml": "Invalid"}


async def test_case_12_a_deleted_file_removes_its_pod(folder: Path) -> None:
    put(folder / "web.yaml", pod_text())
    async with watch(folder) as watched:
        (folder / "web.yaml").unlink()
        seen = await watched.until(lambda f: not f.pods)
        assert seen.manifests == {}


async def test_case_13_and_departure_3_the_older_of_two_files_has_the_pod(folder: Path) -> None:
    put(folder / "b.yaml", pod_text())
    async with watch(folder) as watched:
        (uid,) = watched.last.pods
        put(folder / "a.yaml", pod_text(image="busybox:2"))
        seen = await watched.until(lambda f: len(f.manifests) == 2)
        assert list(seen.pods) == [uid]
        assert states(seen) == {"a.yaml": "Duplicate", "b.yaml": "Accepted"}
        (found,) = seen.manifests["a.yaml"].status.diagnostics
        assert found.code == "DuplicatePod"
        assert "a.yaml" in found.message
        assert "b.yaml" in found.message
        assert (found.line, found.column) == (4, 9)
        (folder / "b.yaml").unlink()
        seen = await watched.until(lambda f: states(f) == {"a.yaml": "Accepted"})
        assert only_image(seen) == "busybox:2"


async def test_case_13_strict_lets_the_later_by_name_win(folder: Path) -> None:
    put(folder / "b.yaml", pod_text(image="b:1"))
    put(folder / "a.yaml", pod_text(image="a:1"))
    async with watch(folder, strict=True) as watched:
        assert only_image(watched.last) == "b:1"
        assert states(watched.last) == {"a.yaml": "Duplicate", "b.yaml": "Accepted"}


async def test_two_pods_with_one_uid_are_duplicates(folder: Path) -> None:
    for name in "ab":
        put(folder / f"{name}.yaml", pod_text(name).replace("  name:", "  uid: u\n  name:"))
    seen = await first(folder)
    assert sorted(states(seen).values()) == ["Accepted", "Duplicate"]
    assert len(seen.pods) == 1


async def test_case_17_an_empty_folder_is_a_first_snapshot(folder: Path) -> None:
    seen = await first(folder)
    assert (seen.pods, seen.manifests, seen.error) == ({}, {}, "")


async def test_case_18_two_pods_of_a_file_run(folder: Path) -> None:
    put(folder / "web.yaml", pod_text() + "---\n" + pod_text("two"))
    assert names(await first(folder)) == ["two-n1", "web-n1"]


async def test_a_missing_folder_is_picked_up_when_it_appears(tmp_path: Path) -> None:
    path = tmp_path / "later"
    async with watch(path) as watched:
        assert "No such file or directory" in watched.last.error
        path.mkdir()
        put(path / "web.yaml", pod_text())
        seen = await watched.until(lambda f: bool(f.pods))
        assert seen.error == ""
        put(path / "two.yaml", pod_text("two"))
        await watched.until(lambda f: len(f.pods) == 2)


async def test_a_removed_folder_keeps_its_pods(folder: Path, tmp_path: Path) -> None:
    put(folder / "web.yaml", pod_text())
    async with watch(folder) as watched:
        pods = watched.last.pods
        folder.rename(tmp_path / "elsewhere")
        seen = await watched.until(lambda f: bool(f.error))
        assert seen.pods == pods
        (tmp_path / "elsewhere").rename(folder)
        seen = await watched.until(lambda f: not f.error)
        assert seen.pods == pods
        put(folder / "two.yaml", pod_text("two"))
        await watched.until(lambda f: len(f.pods) == 2)


async def test_a_replaced_folder_is_watched(folder: Path, tmp_path: Path) -> None:
    put(folder / "web.yaml", pod_text())
    new = tmp_path / "new"
    new.mkdir()
    put(new / "web.yaml", pod_text(image="busybox:2"))
    async with watch(folder) as watched:
        folder.rename(tmp_path / "old")
        new.rename(folder)
        await watched.until(lambda f: only_image(f) == "busybox:2")
        put(folder / "two.yaml", pod_text("two"))
        await watched.until(lambda f: len(f.pods) == 2)
        assert len(watched.last.pods) == 2


async def test_a_single_file_is_a_source_too(tmp_path: Path) -> None:
    path = tmp_path / "pod"
    put(path, pod_text())
    (tmp_path / "other.yaml").write_text(pod_text("other"))
    async with watch(path) as watched:
        assert names(watched.last) == ["web-n1"]
        put(path, pod_text(image="busybox:2"))
        await watched.until(lambda f: only_image(f) == "busybox:2")
        path.unlink()
        await watched.until(lambda f: not f.pods)
        put(path, pod_text())
        await watched.until(lambda f: names(f) == ["web-n1"])


async def test_an_edit_in_place_is_read_after_a_quiet_period(folder: Path) -> None:
    path = folder / "web.yaml"
    put(path, pod_text())
    async with watch(folder) as watched:
        path.write_text(pod_text(image="busybox:2"))
        await watched.until(lambda f: only_image(f) == "busybox:2")
        assert all(len(f.pods) == 1 for f in watched.history)


async def test_a_partly_written_file_is_not_applied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every prefix that is read is invalid or means another pod; none is applied."""
    monkeypatch.setattr(folder_module, "BOUND_SECONDS", 600.0)
    reads: list[int] = []
    real = folder_module.read_file

    def read_file(path: str) -> FileContent:
        content = real(path)
        reads.append(len(content.data))
        return content

    monkeypatch.setattr(folder_module, "read_file", read_file)
    text = pod_text() + "  - name: d\n    image: busybox:1\n"
    cuts = [0, 30, text.index("  - name: d"), len(text) - 4, len(text)]
    async with watch(folder) as watched:
        with (folder / "web.yaml").open("w") as file:
            for start, end in itertools.pairwise(cuts):
                file.write(text[start:end])
                file.flush()
                await until(lambda: end in reads)  # noqa: B023
        seen = await watched.until(lambda f: bool(f.pods))
        ((pod),) = seen.pods.values()
        assert len(pod.spec.containers) == 2
        assert all(not f.manifests or f is seen for f in watched.history)


async def test_a_file_that_stays_broken_is_reported(folder: Path) -> None:
    async with watch(folder) as watched:
        (folder / "web.yaml").write_text(BROKEN)
        await watched.until(lambda f: states(f) == {"web.yaml": "Invalid"})
        (folder / "empty.yaml").touch()
        seen = await watched.until(lambda f: "empty.yaml" in f.manifests)
        assert seen.manifests["empty.yaml"].status.diagnostics[0].code == "EmptyManifest"


async def test_a_constantly_changing_file_is_read_within_a_bound(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "BOUND_SECONDS", 0.3)
    path = folder / "web.yaml"
    async with watch(folder) as watched:
        path.write_text(pod_text())
        try:
            async with asyncio.timeout(120):
                while not watched.last.pods:
                    with path.open("a") as file:
                        file.write("# more\n")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail("a file that keeps growing was never read")


async def _vim(path: Path, text: str) -> AsyncIterator[None]:
    """Vim with a backup: a test file, the original renamed, a new file, the backup removed."""
    trial, backup = path.with_name("4913"), path.with_name(path.name + "~")
    trial.touch()
    trial.unlink()
    path.rename(backup)
    yield
    path.write_text(text)
    yield
    backup.unlink()


async def _nano(path: Path, text: str) -> AsyncIterator[None]:
    """Nano, VS Code and shells: truncated, then written."""
    with path.open("w") as file:
        yield
        file.write(text)


async def _emacs(path: Path, text: str) -> AsyncIterator[None]:
    """Emacs: a lock link, the original renamed to a backup, a new file."""
    lock = path.with_name(f".#{path.name}")
    lock.symlink_to("user@host.1:2")
    path.rename(path.with_name(path.name + "~"))
    yield
    path.write_text(text)
    lock.unlink()


async def _atomic(path: Path, text: str) -> AsyncIterator[None]:
    put(path, text)
    yield


@pytest.mark.parametrize("habit", [_vim, _nano, _emacs, _atomic])
async def test_editors_never_make_the_pod_disappear(
    folder: Path, habit: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, the pauses of the editor may be longer than the usual delays.
    monkeypatch.setattr(folder_module, "GONE_EDITED_SECONDS", 600.0)
    monkeypatch.setattr(folder_module, "BOUND_SECONDS", 600.0)
    path = folder / "web.yaml"
    put(path, pod_text())
    async with watch(folder) as watched:
        async for _ in habit(path, pod_text(image="busybox:2")):  # type: ignore[operator]
            await asyncio.sleep(0.1)
        await watched.until(lambda f: only_image(f) == "busybox:2")
        assert all(names(f) == ["web-n1"] for f in watched.history)
        assert all("Invalid" not in states(f).values() for f in watched.history)
        assert all("LastGood" not in states(f).values() for f in watched.history)


async def test_a_renamed_file_is_read_at_once(folder: Path) -> None:
    put(folder / "a.yaml", pod_text())
    async with watch(folder) as watched:
        (folder / "a.yaml").rename(folder / "b.yaml")
        await watched.until(lambda f: states(f) == {"b.yaml": "Accepted"})
        assert all(len(f.pods) == 1 for f in watched.history)


async def test_departure_7_a_config_map_beside_the_pod(folder: Path) -> None:
    put(folder / "web.yaml", pod_text(extra="    envFrom: [{configMapRef: {name: m}}]\n"))
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {A: %s}\n"
    async with watch(folder) as watched:
        assert watched.last.manifests["web.yaml"].status.diagnostics[0].code == "MissingObject"
        put(folder / "m.yaml", config % "b")
        seen = await watched.until(lambda f: bool(f.config_maps))
        assert seen.config_maps[("default", "m")].data == {"A": "b"}
        assert seen.manifests["web.yaml"].status.diagnostics[0].code == "NotPortable"
        put(folder / "m.yaml", config % "c")
        seen = await watched.until(lambda f: f.config_maps[("default", "m")].data == {"A": "c"})
        (folder / "m.yaml").unlink()
        seen = await watched.until(lambda f: not f.config_maps)
        assert states(seen) == {"web.yaml": "Accepted"}


async def test_unreadable_files_are_diagnosed_and_read_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = True
    real = folder_module.read_file

    def read_file(path: str) -> object:
        if denied and path.endswith("web.yaml"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(folder_module, "read_file", read_file)
    put(folder / "web.yaml", pod_text())
    async with watch(folder) as watched:
        (found,) = watched.last.manifests["web.yaml"].status.diagnostics
        assert found.code == "Unreadable"
        assert found.message == "the file cannot be read: Permission denied"
        denied = False
        (folder / "web.yaml").chmod(0o644)
        await watched.until(lambda f: names(f) == ["web-n1"])


async def test_a_file_removed_before_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = folder_module.read_file

    def read_file(path: str) -> object:
        if path.endswith("gone.yaml"):
            os.unlink(path)
        return real(path)

    monkeypatch.setattr(folder_module, "read_file", read_file)
    put(folder / "gone.yaml", pod_text("gone"))
    put(folder / "web.yaml", pod_text())
    async with watch(folder) as watched:
        assert states(watched.last) == {"web.yaml": "Accepted"}


async def test_too_large_and_binary_files(folder: Path) -> None:
    with (folder / "large.yaml").open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    (folder / "binary.yaml").write_bytes(bytes(range(256)) * 4)
    (folder / os.fsdecode(b"n\xffme.yaml")).write_text(pod_text())
    seen = await first(folder)
    codes = {n: [d.code for d in m.status.diagnostics] for n, m in seen.manifests.items()}
    assert codes["large.yaml"] == ["FileTooLarge"]
    assert codes["binary.yaml"] == ["NotText"]
    (pod,) = seen.pods.values()
    assert pod.metadata.annotations[labels.MANIFEST_PATH].endswith("n\\xffme.yaml")


async def test_only_what_changed_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    real = folder_module.read_with_fix

    def read_manifest(path: str, data: bytes, *, node_name: str, strict: bool = False) -> object:
        parsed.append(Path(path).name)
        return real(path, data, node_name=node_name, strict=strict)

    monkeypatch.setattr(folder_module, "read_with_fix", read_manifest)
    for i in range(50):
        put(folder / f"p{i}.yaml", pod_text(f"p{i}"))
    async with watch(folder, full_list_seconds=0.3) as watched:
        assert len(parsed) == 50
        before = watched.last
        put(folder / "p7.yaml", pod_text("p7", image="busybox:2"))
        seen = await watched.until(lambda f: images(f)["p7-n1"] == "busybox:2")
        os.utime(folder / "p8.yaml")
        put(folder / "p9.yaml", pod_text("p9", image="busybox:2"))
        await watched.until(lambda f: images(f)["p9-n1"] == "busybox:2")
        assert parsed[50:] == ["p7.yaml", "p9.yaml"]
        assert seen.manifests["p1.yaml"] is before.manifests["p1.yaml"]


async def test_an_unchanged_folder_reports_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings = Listings(monkeypatch)
    put(folder / "web.yaml", pod_text())
    (folder / "bad.yaml").write_text(BROKEN)
    async with watch(folder, full_list_seconds=0.05) as watched:
        os.utime(folder / "web.yaml")
        begun = listings.full
        await until(lambda: listings.full > begun + 3)
        assert len(watched.history) == 1


async def test_a_folder_that_cannot_be_watched_is_polled(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("podtui.manifest.watch.Inotify.add_watch", none_left)
    monkeypatch.setattr("podtui.manifest.watch.POLL_MS", 20)
    async with watch(folder, full_list_seconds=600.0) as watched:
        put(folder / "web.yaml", pod_text())
        await watched.until(lambda f: names(f) == ["web-n1"])
        (folder / "web.yaml").write_text(pod_text(image="busybox:2"))
        await watched.until(lambda f: only_image(f) == "busybox:2")
    assert caplog.text.count("cannot be watched") == 1


class Listings:
    """Counts full listings, and records the names that were examined separately."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = 0
        self.names: set[str] = set()
        real_path, real_names = folder_module.list_path, folder_module.list_names

        def list_path(path: str, *, strict: bool) -> object:
            self.full += 1
            return real_path(path, strict=strict)

        def list_names(path: str, names: set[str], *, strict: bool) -> object:
            self.names |= names
            return real_names(path, names, strict=strict)

        monkeypatch.setattr(folder_module, "list_path", list_path)
        monkeypatch.setattr(folder_module, "list_names", list_names)


async def test_only_the_changed_file_is_examined(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(20):
        put(folder / f"p{i}.yaml", pod_text(f"p{i}"))
        os.utime(folder / f"p{i}.yaml", (1, 1))  # recently changed files are read twice
    listings = Listings(monkeypatch)
    # On a busy machine a poll can precede the event of the watch, and then lists everything.
    monkeypatch.setattr(folder_module, "POLL_SECONDS", 600.0)
    async with watch(folder, full_list_seconds=600.0) as watched:
        begun = listings.full
        put(folder / "p7.yaml", pod_text("p7", image="busybox:2"))
        await watched.until(lambda f: images(f)["p7-n1"] == "busybox:2")
        (folder / "p8.yaml").write_text(pod_text("p8", image="busybox:2"))
        await watched.until(lambda f: images(f)["p8-n1"] == "busybox:2")
        (folder / "p9.yaml").unlink()
        await watched.until(lambda f: "p9-n1" not in names(f))
        (folder / "p10.yaml").rename(folder / "q10.yaml")
        await watched.until(lambda f: "q10.yaml" in f.manifests and "p10.yaml" not in f.manifests)
        assert listings.full == begun
        seen = {".p7.yaml.new", "p7.yaml", "p8.yaml", "p9.yaml", "p10.yaml", "q10.yaml"}
        assert listings.names == seen


async def test_links_are_checked_on_every_change(folder: Path) -> None:
    """As in an update of a mounted volume: a hidden link to a folder is replaced."""
    for version in "12":
        (folder / f"..{version}").mkdir()
        (folder / f"..{version}" / "web").write_text(pod_text(image=f"busybox:{version}"))
    (folder / "..data").symlink_to("..1")
    (folder / "web").symlink_to("..data/web")
    async with watch(folder) as watched:
        assert only_image(watched.last) == "busybox:1"
        (folder / "..new").symlink_to("..2")
        (folder / "..new").rename(folder / "..data")
        await watched.until(lambda f: only_image(f) == "busybox:2")


async def test_changes_missed_by_the_watch_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Inotify.sync_get

    def drop(inotify: Inotify) -> None:
        while take(inotify) is not None:
            pass

    monkeypatch.setattr(Inotify, "sync_get", drop)
    async with watch(folder, full_list_seconds=0.05) as watched:
        put(folder / "web.yaml", pod_text())
        await watched.until(lambda f: names(f) == ["web-n1"])
        (folder / "web.yaml").write_text(pod_text(image="busybox:2"))
        await watched.until(lambda f: only_image(f) == "busybox:2")
        assert only_image(watched.last) == "busybox:2"


async def test_an_event_overflow_triggers_a_listing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    (folder / "a.yaml").write_text(pod_text())
    (folder / "notes.txt").touch()
    listings = Listings(monkeypatch)
    monkeypatch.setattr(folder_module, "POLL_SECONDS", 600.0)
    async with watch(folder, full_list_seconds=600.0) as watched:
        begun = listings.full
        # Equal events in a row count as one.
        for _ in range(kept // 2 + 10):
            os.utime(folder / "a.yaml")
            os.utime(folder / "notes.txt")
        put(folder / "late.yaml", pod_text("late"))
        await watched.until(lambda f: "late-n1" in names(f))
        assert listings.full > begun


async def test_a_recreated_folder_is_watched_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the file system reuses the inode number."""
    monkeypatch.setattr(folder_module, "POLL_SECONDS", 600.0)
    async with watch(folder, full_list_seconds=600.0) as watched:
        put(folder / "a.yaml", pod_text("a"))
        await watched.until(lambda f: names(f) == ["a-n1"])
        (folder / "a.yaml").unlink()
        folder.rmdir()
        folder.mkdir()
        put(folder / "b.yaml", pod_text("b"))
        await watched.until(lambda f: names(f) == ["b-n1"])
        put(folder / "c.yaml", pod_text("c"))
        await watched.until(lambda f: names(f) == ["b-n1", "c-n1"])
        assert names(watched.last) == ["b-n1", "c-n1"]


async def test_a_change_of_the_folder_itself_names_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings = Listings(monkeypatch)
    async with watch(folder) as watched:
        begun = listings.full
        folder.chmod(0o750)
        await until(lambda: listings.full > begun)
        assert len(watched.history) == 1


async def test_any_sequence_of_changes_ends_in_the_current_state(tmp_path: Path) -> None:
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        for seed in range(4):
            folder = tmp_path / str(seed)
            folder.mkdir()
            group.create_task(change_and_compare(folder, seed))


async def change_and_compare(folder: Path, seed: int) -> None:
    """Without periodic listings, the watched folder equals a new scan at the end."""
    chance = random.Random(seed)
    files = [f"{name}.yaml" for name in "abcde"]
    async with watch(folder, full_list_seconds=1000) as watched:
        for turn in range(60):
            path = folder / chance.choice(files)
            text = pod_text(path.stem, image=f"busybox:{turn}")
            match chance.randrange(7):
                case 0 | 1:
                    put(path, text)
                case 2 if not path.is_symlink():
                    path.write_text(text)
                case 3:
                    path.unlink(missing_ok=True)
                case 4 if path.exists():
                    path.rename(folder / chance.choice(files))
                case 5 if path.exists():
                    path.rename(path.with_name(path.name + "~"))
                case 6 if not os.path.lexists(path):
                    path.symlink_to(folder / chance.choice(files))
                case _:
                    path.with_name(f"{path.name}~").unlink(missing_ok=True)
            if chance.random() < 0.5:
                await asyncio.sleep(chance.choice((0, 0.01, 0.03, 0.06)))
        there = await first(folder)
        texts = {name: m.spec.text for name, m in there.manifests.items()}

        def as_listed(seen: Folder) -> bool:
            return texts == {name: m.spec.text for name, m in seen.manifests.items()}

        await watched.until(as_listed)
        assert as_listed(watched.last)


async def test_fifty_files_appear_and_disappear_at_once(folder: Path) -> None:
    async with watch(folder) as watched:
        for i in range(50):
            put(folder / f"p{i}.yaml", pod_text(f"p{i}"))
        await watched.until(lambda f: len(f.pods) == 50)
        for path in folder.iterdir():
            path.unlink()
        await watched.until(lambda f: not f.pods)
        assert not watched.last.pods


def test_ignore_reasons() -> None:
    assert ignore_reason("web.yaml") == ""
    for name in ("a~", "a.swp", "a.swx", "a.bak", "#a#", "4913", "a.tmp", ".#a", ".a"):
        assert ignore_reason(name)
    assert ignore_reason("a~", strict=True) == ""
    assert ignore_reason(".a", strict=True)
    assert being_edited("a.yaml", {".a.yaml.swp"})
    assert not being_edited("a.yaml", {"b.yaml~", "b.yaml"})


def test_watched_is_a_helper_that_can_fail() -> None:
    async def never() -> None:
        watched = Watched()
        with pytest.raises(AssertionError, match="never came"):
            await watched.until(lambda _: True, seconds=0.01)

    asyncio.run(never())
