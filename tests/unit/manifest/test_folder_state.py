"""FolderState, which evaluates only changed files, compared with a full evaluation each time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from manifests import NODE, pod_text

from podtui.api import names as labels
from podtui.api.local import Manifest, ManifestState
from podtui.api.v1 import ConfigMap, Pod, Secret
from podtui.manifest import folder_state as ledger_module
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.file_state import File, FileState, as_duplicate, claims_of, record_of
from podtui.manifest.folder_state import Folder, FolderState
from podtui.manifest.identity import with_seen
from podtui.manifest.listing import Stamp
from podtui.manifest.result import (
    ReadResult,
    kept_immutable,
    missing_keys,
    name_missing,
    object_keys,
)

NAMES = ("a", "b", "c", "d")
CONFIG = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {A: b}\n"
NEEDS = "    envFrom: [{configMapRef: {name: m}}]\n"
KEYED = "    env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: A}}}]\n"
HIDES = "    envFrom: [{secretRef: {name: s}}, {configMapRef: {name: m}}]\n"


def fixed(uid: str, name: str) -> str:
    return pod_text(name).replace("  name: ", f"  uid: {uid}\n  name: ", 1)


TEXTS = (
    pod_text("p"),
    pod_text("p", image="busybox:2"),
    "# noted\n" + pod_text("p"),
    pod_text("q"),
    pod_text("q", extra=NEEDS),
    pod_text("r", extra=NEEDS),
    pod_text("p", extra=HIDES),
    pod_text("q", extra=KEYED),
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {B: b}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: n}\ndata: {B: b}\n",
    fixed("u", "p"),
    fixed("u", "r"),
    fixed("u", "r").replace("busybox:1", "busybox:2"),
    fixed("v", "q"),
    "kind: [",
    "",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {A: b}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {A: c}\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {A: b}\n",
    "# noted\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {A: b}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\nimmutable: true\ndata: {A: b}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: M}\n",
    pod_text("p", extra=NEEDS) + CONFIG,
    pod_text("p") + CONFIG.replace("A: b", "A: c"),
    pod_text("p", extra=HIDES) + CONFIG,
    pod_text("P") + CONFIG,
    pod_text("p") + "---\n" + pod_text("q"),
    pod_text("q") + "---\n" + pod_text("r", extra=NEEDS) + CONFIG,
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: s}\n",
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: s, labels: {a: b}}\n",
    pod_text("p") + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: s}\n",
)


def path_of(name: str) -> str:
    return f"/m/{name}"


@cache
def result_of(name: str, text: str, strict: bool) -> ReadResult:
    return read_manifest(path_of(name), text.encode(), node_name=NODE, strict=strict)


class ReferenceModel:
    """A simple model of the same rules: it examines every file for every folder."""

    def __init__(self, *, strict: bool, previous: Mapping[str, tuple[Pod, ...]]) -> None:
        self.strict = strict
        self.previous = dict(previous)
        self.files: dict[str, File] = {}
        self.seen: dict[str, str] = {}

    def read(self, name: str, scan: int, stamp: Stamp, result: ReadResult) -> None:
        file = self.files.get(name)
        if file is None or file.ignored:
            good = self.previous.pop(path_of(name), ())
            file = self.files[name] = File(
                name=name,
                path=path_of(name),
                first_scan=-1 if good else scan,
                first_mtime=stamp.mtime_ns,
                good=good,
            )
            for pod in good:
                notes = pod.metadata.annotations
                self.seen.setdefault(pod.metadata.uid, notes[labels.CONFIG_SEEN])
        file.result = result = kept_immutable(file.documents, result, path_of(name))
        if not result.invalid or self.strict:
            file.documents = result.documents

    def ignore(self, name: str, scan: int, reason: str) -> None:
        file = self.files.get(name)
        if file is None or file.ignored != reason:
            self.files[name] = File(
                name=name, path=path_of(name), first_scan=scan, first_mtime=0, ignored=reason
            )

    def forget(self, name: str) -> None:
        self.files.pop(name, None)

    def drop_invalid(self) -> None:
        for file in self.files.values():
            if file.result is not None and file.result.invalid:
                file.good = file.raw = ()

    def folder(self, moment: str, error: str) -> Folder:
        there = {d.key for file in self.files.values() for d in file.documents}
        states = [self._file_state(file, there, moment) for file in self.files.values()]
        states.sort(key=lambda s: (s.file.first_scan, s.file.first_mtime, s.file.name))
        if self.strict:
            states.sort(key=lambda s: s.file.name, reverse=True)
        held: dict[Any, tuple[str, Any]] = {}
        kept: list[FileState] = []
        manifests: dict[str, Manifest] = {}
        for state in states:
            state.file.drawn = None
            claims = dict(claims_of(state))
            rivals = [c for c, what in claims.items() if _is_taken(c, what, held)]
            if rivals:
                state = as_duplicate(state, rivals[0], held[rivals[0]][0], strict=self.strict)
            else:
                held = {c: (state.file.name, what) for c, what in claims.items()} | held
                kept.append(state)
            manifests[state.file.name] = record_of(state)
        alive = {pod.metadata.uid for file in self.files.values() for pod in file.good}
        self.seen = {uid: seen for uid, seen in self.seen.items() if uid in alive}
        objects = [document.item for state in kept for document in state.documents]
        named = {
            (item.metadata.namespace, item.metadata.name, type(item)): item for item in objects
        }
        return Folder(
            pods={pod.metadata.uid: pod for s in kept for pod in s.pods},
            manifests=manifests,
            error=error,
            config_maps={k[:2]: o for k, o in named.items() if isinstance(o, ConfigMap)},
            secrets={k[:2]: o for k, o in named.items() if isinstance(o, Secret)},
            documents={s.file.name: s.documents for s in kept if s.documents},
        )

    def _file_state(self, file: File, there: set[Any], moment: str) -> FileState:
        if file.result is None:
            return FileState(file, ManifestState.IGNORED, ReadResult())
        documents = [d for other in self.files.values() for d in other.documents]
        held = {
            key: frozenset[str]().union(*(object_keys(d.item) for d in documents if d.key == key))
            for key in there
        }
        files = sorted(self.files.values(), key=lambda f: f.name, reverse=True)
        read = [(f.name, f.result) for f in files if f.result is not None]
        named = {key: name for name, other in read for key in other.present}
        result = missing_keys(name_missing(file.result, there, named), held)
        if result.invalid:
            kept = file.good or file.documents
            state = ManifestState.LAST_GOOD if kept else ManifestState.INVALID
            return FileState(file, state, result, file.good, file.documents)
        if file.raw != result.pods or len(file.good) != len(file.raw):
            file.raw = result.pods
            file.good = tuple(
                with_seen(pod, self.seen.setdefault(pod.metadata.uid, moment))
                for pod in result.pods
            )
        return FileState(file, ManifestState.ACCEPTED, result, file.good, file.documents)


def _is_taken(claim: Any, configuration: Any, held: Mapping[Any, Any]) -> bool:
    """Return whether another file has a claim; two files may agree on an object, not on a pod."""
    return claim in held and (claim[0] in ("Pod", "UID") or held[claim][1] != configuration)


steps = st.one_of(
    st.tuples(st.just("read"), st.sampled_from(NAMES), st.sampled_from(TEXTS), st.integers(0, 3)),
    st.tuples(st.just("read"), st.sampled_from(NAMES), st.sampled_from(TEXTS), st.integers(0, 3)),
    st.tuples(st.just("forget"), st.sampled_from(NAMES)),
    st.tuples(st.just("ignore"), st.sampled_from(NAMES), st.sampled_from(("a link", "a pipe"))),
    st.tuples(st.just("drop_invalid")),
    st.tuples(st.just("folder"), st.sampled_from(("", "", "", "denied"))),
    st.tuples(st.just("folder"), st.just("")),
    st.tuples(st.just("read"), st.sampled_from(NAMES), st.just("kind: ["), st.just(0)),
)


def same_objects(before: Folder, after: Folder) -> None:
    """Equal parts of both are the identical object, so that readers need not compare."""
    for field in ("pods", "manifests", "config_maps", "secrets", "documents"):
        old, new = getattr(before, field), getattr(after, field)
        assert (old == new) == (old is new)
        assert all(new[key] is old[key] for key in old.keys() & new.keys() if old[key] == new[key])
    assert (before == after) == (before is after)


@given(st.lists(steps, max_size=40), st.booleans(), st.sets(st.sampled_from(NAMES)))
@examples(400)
def test_the_state_depends_only_on_its_files(
    history: list[Any], strict: bool, ran: set[str]
) -> None:
    previous = {
        path_of(name): (with_seen(result_of(name, TEXTS[0], strict).pods[0], "before"),)
        for name in ran
    }
    state, scratch = (
        FolderState(strict=strict, previous=previous),
        ReferenceModel(strict=strict, previous=previous),
    )
    last = state.folder("at first")
    scratch.folder("at first", "")
    for moment, step in enumerate([*history, ("folder", "")]):
        scan = moment // 4  # several files are found by one scan
        match step:
            case ("read", name, text, mtime):
                stamp, result = Stamp(mtime, moment, 1, 1), result_of(name, text, strict)
                state.read(name, path_of(name), scan, stamp, b"", result)
                scratch.read(name, scan, stamp, result)
            case ("forget", name):
                state.forget(name)
                scratch.forget(name)
            case ("ignore", name, reason):
                state.ignore(name, path_of(name), scan, reason)
                scratch.ignore(name, scan, reason)
            case ("drop_invalid",):
                state.drop_invalid()
                scratch.drop_invalid()
            case ("folder", error):
                folder = state.folder(str(moment), error)
                assert folder == scratch.folder(str(moment), error)
                assert list(folder.manifests) == sorted(folder.manifests)
                same_objects(last, folder)
                last = folder
            case _:
                pytest.fail(f"no such step: {step}")


def enter(state: FolderState, name: str, text: str, scan: int = 1) -> None:
    state.read(name, path_of(name), scan, Stamp(0, 0, 1, 1), b"", result_of(name, text, False))


def filled(count: int) -> FolderState:
    state = FolderState(strict=False, previous={})
    for number in range(count):
        enter(state, f"f{number}", pod_text(f"p{number}"))
    enter(state, "needs", pod_text("needs", extra=NEEDS))
    state.folder("1")
    return state


def test_documents_of_a_node_of_a_cluster_are_not_applied() -> None:
    for applies, message in (
        (True, "applied: ConfigMap default/m"),
        (False, "not applied: ConfigMap default/m (line 2)"),
    ):
        state = FolderState(strict=False, previous={}, applies=applies)
        enter(state, "m", CONFIG)
        assert state.folder("1").manifests["m"].status.message == message
        assert state.copy().folder("1").manifests["m"].status.message == message


def test_pods_are_admitted_in_the_order_of_first_sight() -> None:
    state = FolderState(strict=False, previous={})
    for name, scan in (("a", 3), ("c", 1), ("b", 2)):
        enter(state, name, pod_text(name), scan)
    pods = state.folder("1").pods.values()
    assert [pod.metadata.name for pod in pods] == ["c-n1", "b-n1", "a-n1"]


@pytest.mark.parametrize(
    ("name", "text", "recorded"),
    [
        ("f3", pod_text("p3", image="busybox:2"), {"f3"}),
        ("new", pod_text("new"), {"new"}),
        ("new", pod_text("p7"), {"new", "f7"}),
        ("m", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n", {"m", "needs"}),
    ],
)
def test_a_change_recomputes_only_affected_files(
    name: str, text: str, recorded: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = filled(50)
    drawn: list[str] = []

    def record(state: FileState) -> object:
        drawn.append(state.file.name)
        return record_of(state)

    monkeypatch.setattr(ledger_module, "record_of", record)
    before = state.folder("2")
    assert drawn == []
    enter(state, name, text, 2)
    after = state.folder("3")
    assert set(drawn) == recorded
    assert len(drawn) == len(recorded)
    kept = [n for n in before.manifests if n not in recorded]
    assert all(after.manifests[n] is before.manifests[n] for n in kept)


def test_a_dropped_version_is_removed_without_a_file_change() -> None:
    state = filled(2)
    enter(state, "f1", "kind: [", 2)
    assert state.folder("2").manifests["f1"].status.state is ManifestState.LAST_GOOD
    state.drop_invalid()
    folder = state.folder("3")
    assert folder.manifests["f1"].status.state is ManifestState.INVALID
    assert len(folder.pods) == 2


def test_three_chained_duplicates_are_resolved() -> None:
    """The middle one conflicts with both others; without it both are valid."""
    texts = {"a": pod_text("p"), "b": fixed("u", "p"), "c": fixed("u", "q")}
    for order in itertools.permutations(texts):
        state = FolderState(strict=False, previous={})
        for scan, name in enumerate(order):
            enter(state, name, texts[name], scan)
        first = state.folder("1").manifests[order[0]].status.state
        assert first is ManifestState.ACCEPTED
        state.forget("b")
        states = {n: m.status.state.value for n, m in state.folder("2").manifests.items()}
        assert states == {"a": "Accepted", "c": "Accepted"}


def states_of(folder: Folder) -> dict[str, str]:
    return {name: manifest.status.state.value for name, manifest in folder.manifests.items()}


MAP = CONFIG.removeprefix("---\n")
KEY = ("default", "m")


@pytest.mark.parametrize("broken", ["kind: [", "", MAP.replace("A: b", "a/b: c")])
def test_an_invalid_config_map_keeps_its_last_good_version(broken: str) -> None:
    state = FolderState(strict=False, previous={})
    enter(state, "m", MAP)
    enter(state, "p", pod_text("p", extra=NEEDS))
    good = state.folder("1")
    enter(state, "m", broken, 2)
    folder = state.folder("2")
    assert states_of(folder) == {"m": "LastGood", "p": "Accepted"}
    assert folder.manifests["m"].status.message.startswith("the previous version is still")
    assert (folder.config_maps, folder.pods) == (good.config_maps, good.pods)
    enter(state, "m", MAP.replace("A: b", "A: c"), 3)
    assert state.folder("3").config_maps[KEY].data == {"A": "c"}
    state.forget("m")
    gone = state.folder("4")
    assert gone.config_maps == {}
    assert states_of(gone) == {"p": "Accepted"}
    [finding] = gone.manifests["p"].status.diagnostics
    assert finding.code == "MissingObject"


def test_pod_and_config_map_of_one_file_become_invalid_together() -> None:
    state = FolderState(strict=False, previous={})
    enter(state, "f", pod_text("p", extra=NEEDS) + CONFIG)
    good = state.folder("1")
    assert len(good.pods) == len(good.config_maps) == 1
    enter(state, "f", pod_text("P") + CONFIG.replace("A: b", "A: c"), 2)
    folder = state.folder("2")
    assert states_of(folder) == {"f": "LastGood"}
    assert (folder.pods, folder.config_maps) == (good.pods, good.config_maps)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (MAP.replace("A: b", "A: c") + "immutable: true\n", "data"),
        (MAP + "binaryData: {B: YQ==}\nimmutable: true\n", "binaryData"),
        (MAP, "immutable"),
    ],
)
def test_immutable_objects_are_kept_until_their_file_is_removed(text: str, field: str) -> None:
    state = FolderState(strict=False, previous={})
    enter(state, "m", MAP + "immutable: true\n")
    before = state.folder("1")
    enter(state, "m", text, 2)
    folder = state.folder("2")
    assert folder.config_maps == before.config_maps
    (found,) = folder.manifests["m"].status.diagnostics
    assert (found.code, found.field, found.line) == ("FieldValueForbidden", field, 3)
    assert found.message == "Forbidden: field is immutable when `immutable` is set"
    state.forget("m")
    state.folder("3")
    enter(state, "m", text, 4)
    assert states_of(state.folder("4")) == {"m": "Accepted"}


def test_an_immutable_config_map_may_be_rewritten_unchanged() -> None:
    state = FolderState(strict=False, previous={})
    enter(state, "m", MAP + "immutable: true\n")
    state.folder("1")
    enter(
        state,
        "m",
        MAP.replace("{name: m}", "{name: m, labels: {a: b}}") + "immutable: true\n",
    )
    folder = state.folder("2")
    assert folder.config_maps[KEY].metadata.labels == {"a": "b"}


def test_the_older_of_two_config_maps_is_used() -> None:
    state = FolderState(strict=False, previous={})
    enter(state, "b", MAP, 1)
    enter(state, "a", pod_text("p") + CONFIG.replace("A: b", "A: c"), 2)
    folder = state.folder("1")
    assert states_of(folder) == {"a": "Duplicate", "b": "Accepted"}
    assert folder.config_maps[KEY].data == {"A": "b"}
    assert folder.pods == {}
    (found,) = folder.manifests["a"].status.diagnostics
    assert (found.code, found.line, found.column) == ("DuplicateObject", 12, 18)
    assert "ConfigMap default/m is defined in a and in b; b is used" in found.message
    state.forget("b")
    assert state.folder("2").config_maps[KEY].data == {"A": "c"}


def test_a_dangling_reference_lists_the_existing_objects() -> None:
    state = FolderState(strict=False, previous={})
    enter(state, "pod", pod_text("q", extra=KEYED))

    def messages() -> list[tuple[str, str]]:
        found = state.folder("1").manifests["pod"].status.diagnostics
        return [(d.message, d.fix) for d in found if d.code != "NotPortable"]

    def config(name: str, key: str) -> str:
        return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{{key}: x}}\n"

    ((message, fix),) = messages()
    assert message == 'there is no ConfigMap "m"; the folder has none'
    assert fix.startswith("put that ConfigMap into the folder")
    enter(state, "other", config("M-", "A"))
    enter(state, "other", config("mm", "A"))
    missing = 'there is no ConfigMap "m"; the folder has "mm"'
    assert messages() == [(missing, 'perhaps "mm" is meant')]
    enter(state, "c", config("m", "a"))
    assert messages() == [('there is no key "A"; the ConfigMap m has "a"', 'did you mean "a"?')]
    enter(state, "c", config("m", "A"))
    assert messages() == []
    state.forget("c")
    assert messages()[0][0] == 'there is no ConfigMap "m"; the folder has "mm"'


CLAIM = "  volumes: [{name: d, glusterfs: {endpoints: x, path: x}}]\n"


def test_a_reference_of_a_file_with_other_errors_is_compared_with_the_folder() -> None:
    state = FolderState(strict=False, previous={})

    def references() -> list[tuple[str, str]]:
        found = state.folder("1").manifests["pod"].status.diagnostics
        return [(d.code, d.message) for d in found if "onfig" in d.message]

    claims = pod_text("q", extra=NEEDS + CLAIM)
    enter(state, "pod", claims)
    missing = ("MissingObject", 'there is no ConfigMap "m"; the folder has none')
    assert references() == [missing]
    enter(state, "other", MAP)
    ((code, _),) = references()
    assert code == "NotPortable"
    state.forget("other")
    assert references() == [missing]
    enter(state, "third", pod_text("r", extra=CLAIM) + CONFIG)
    unusable = 'the ConfigMap "m" is in third, which has errors'
    assert references() == [("MissingObject", unusable)]
    enter(state, "pod", claims + CONFIG)
    ((code, _),) = references()
    assert code == "NotPortable"


def test_an_optional_reference_is_no_error_beside_other_errors() -> None:
    state = FolderState(strict=False, previous={})
    extra = "    envFrom: [{configMapRef: {name: m, optional: true}}]\n" + CLAIM
    enter(state, "pod", pod_text("q", extra=extra))
    found = state.folder("1").manifests["pod"].status.diagnostics
    assert [d.code for d in found] == ["NotPortable", "FieldValueForbidden"]
    assert "endpoints" in found[1].message
