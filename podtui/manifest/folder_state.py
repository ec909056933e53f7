"""The state of every file, and the resulting folder. No I/O, no clock.

Three departures are implemented here: an invalid file keeps its last good version (1), of two files
with the same pod the older one wins (3), and a pod may use ConfigMaps and Secrets from the folder
(7).

The outcome of a file depends on the file itself, on whether the objects that it needs exist, and on
the files that claim the same names. A changed file is therefore evaluated together with the files
that need its objects, and with all files connected to any of these by claims. Other files are not
evaluated, and their results stay the identical objects.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from podtui.api import names, v1
from podtui.api.local import Diagnostic, Manifest, ManifestState
from podtui.api.v1 import ConfigMap, Pod, Secret
from podtui.manifest.file_state import File, FileState, as_duplicate, claims_of, is_used, record_of
from podtui.manifest.identity import with_seen
from podtui.manifest.listing import Stamp
from podtui.manifest.objects import Claim, FolderDocument, Tree
from podtui.manifest.result import (
    ReadResult,
    kept_immutable,
    missing_keys,
    name_missing,
    object_keys,
    refused,
)


@dataclass(frozen=True, slots=True)
class Folder:
    """A complete snapshot of the folder; the kubelet compares it with the previous one.

    ``pods`` are the pods to run by UID, defaulted, identified and valid, including the last good
    version of an invalid file. ``manifests`` has one record per file, including ignored ones, by
    file name. ``error`` is set if the folder cannot be read; ``pods`` are then the last known ones.
    ``config_maps`` and ``secrets`` are those of the folder (departure 7), by (namespace, name);
    ``documents`` are all objects that are not pods, by file name.
    """

    pods: Mapping[str, Pod] = field(default_factory=dict[str, Pod])
    manifests: Mapping[str, Manifest] = field(default_factory=dict[str, Manifest])
    error: str = ""
    config_maps: Mapping[tuple[str, str], ConfigMap] = field(
        default_factory=dict[tuple[str, str], ConfigMap]
    )
    secrets: Mapping[tuple[str, str], Secret] = field(default_factory=dict[tuple[str, str], Secret])
    documents: Mapping[str, tuple[FolderDocument, ...]] = field(
        default_factory=dict[str, tuple[FolderDocument, ...]]
    )


_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_Object = TypeVar("_Object", v1.ConfigMap, v1.Secret)


class FolderState:
    """The files by name. ``previous`` are the pods of an earlier run, by manifest path. Unless it
    ``applies`` them, documents other than pods are for static pods alone."""

    def __init__(
        self, *, strict: bool, previous: Mapping[str, tuple[v1.Pod, ...]], applies: bool = True
    ) -> None:
        self._strict = strict
        self._applies = applies
        self._previous = dict(previous)
        self._files: dict[str, File] = {}
        # The ``config.seen`` of each UID, kept as long as any file has a good pod with it: a pod
        # whose file is renamed keeps its time.
        self._seen: dict[str, str] = {}
        self._changed: set[str] = set()
        self._states: dict[str, FileState] = {}
        """The state of each file at its last evaluation; ``_settled`` has the outcome after
        duplicates were resolved."""
        self._settled: dict[str, FileState] = {}
        # Indexes that find the files affected by a change without a walk over all files: the
        # objects that a file provides, the keys of their data, the objects that its pod refers to,
        # the names that only one file may have, and the UID of its good pod.
        self._objects: FileIndex[Claim] = FileIndex()
        self._object_keys: FileIndex[tuple[Claim, str]] = FileIndex()
        self._needs: FileIndex[Claim] = FileIndex()
        self._present: FileIndex[Claim] = FileIndex()
        """The objects of all files, also of those that cannot be used."""
        self._unmet: set[str] = set()
        """The files that need objects which the folder does not have."""
        self._claims: FileIndex[Claim] = FileIndex()
        self._uids: FileIndex[str] = FileIndex()
        self._folder = Folder()

    @property
    def last(self) -> Folder:
        """The last result of `folder`."""
        return self._folder

    def names(self) -> tuple[str, ...]:
        return tuple(self._files)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def stamp(self, name: str) -> Stamp | None:
        """Return the stamp of a file when it was last read."""
        file = self._files.get(name)
        return file.stamp if file is not None else None

    def digest(self, name: str) -> bytes:
        """Return the digest of a file's content when it was last read."""
        file = self._files.get(name)
        return file.digest if file is not None else b""

    def read(
        self, name: str, path: str, scan: int, stamp: Stamp, digest: bytes, result: ReadResult
    ) -> None:
        """Record the content of a file; ``scan`` is the number of the scan of the folder."""
        file = self._file(name, path, scan, stamp.mtime_ns)
        result = kept_immutable(file.documents, result, path)
        file.stamp, file.digest, file.result, file.ignored = stamp, digest, result, ""
        file.refusals = ()
        if not result.invalid or self._strict:
            file.before = (file.good, file.documents)
            file.documents = result.documents
        self._enter(name, file)

    def refuse(
        self, name: str, documents: tuple[FolderDocument, ...], errors: tuple[Diagnostic, ...]
    ) -> None:
        """Record the API's errors about the documents of a file; none if it accepts them now. A
        refused file keeps its version before."""
        file = self._files.get(name)
        if file is None or file.result is None or file.result.documents is not documents:
            return
        if file.refusals == errors:
            return
        if errors and not file.refusals:
            file.good, file.documents = file.before
            file.raw = ()
        elif not errors:
            file.documents = file.result.documents
        file.refusals = errors
        self._enter(name, file)

    def touched(self, name: str, stamp: Stamp) -> None:
        """Record a new stamp of a file whose content is unchanged."""
        self._files[name].stamp = stamp

    def ignore(self, name: str, path: str, scan: int, reason: str) -> None:
        """Record a name that is ignored, and the reason."""
        file = self._files.get(name)
        if file is None or file.ignored != reason:
            file = File(name=name, path=path, first_scan=scan, first_mtime=0, ignored=reason)
            self._files[name] = file
            self._enter(name, file)

    def forget(self, name: str) -> None:
        """Record that a file is gone."""
        if self._files.pop(name, None) is not None:
            self._enter(name, None)

    def drop_invalid(self) -> None:
        """Drop the last good versions of invalid files, as a kubelet does on a full list."""
        for name, file in self._files.items():
            if file.good and file.result is not None and file.result.invalid:
                file.good = file.raw = ()
                self._changed.add(name)

    def _file(self, name: str, path: str, scan: int, mtime_ns: int) -> File:
        file = self._files.get(name)
        if file is None or file.ignored:
            before = self._previous.pop(path, ())
            # A pod that ran before this agent started has precedence.
            first = -1 if before else scan
            file = File(name=name, path=path, first_scan=first, first_mtime=mtime_ns, good=before)
            for pod in before:
                seen = pod.metadata.annotations.get(names.CONFIG_SEEN)
                if seen is not None:
                    self._seen.setdefault(pod.metadata.uid, seen)
            self._uids.put(name, [pod.metadata.uid for pod in before])
            self._files[name] = file
        return file

    def _enter(self, name: str, file: File | None) -> None:
        """Mark the files affected by a file's new content: itself and those that need its
        objects."""
        result = (file.result if file is not None else None) or ReadResult()
        documents = file.documents if file is not None else ()
        objects = frozenset(document.key for document in documents)
        before = self._objects.put(name, objects)
        pairs = frozenset(
            (document.key, key) for document in documents for key in object_keys(document.item)
        )
        # Objects that appeared or disappeared, and objects with other keys.
        changed = {key for key, _ in self._object_keys.put(name, pairs) ^ pairs} | before ^ objects
        self._needs.put(name, result.needs)
        present = self._present.put(name, result.present)
        self._changed.add(name)
        for key in changed:
            self._changed.update(self._needs.names(key))
        if before != objects or present != result.present:
            # The messages about missing objects list the objects that exist.
            self._changed.update(self._unmet)

    def folder(self, moment: str, error: str = "") -> Folder:
        """Return the current folder. ``moment`` is the ``config.seen`` of new pods.

        Returns the same object as last time if nothing changed; unchanged parts are reused.
        """
        last = self._folder
        manifests, pods = last.manifests, last.pods
        config_maps, secrets = last.config_maps, last.secrets
        documents = last.documents
        if self._changed:
            # Claims connect files: if A and B share a name, and B and C share a UID, then a change
            # of A decides whether B, and so C, is a duplicate. All connected files are resolved
            # again, from their `_states`, in which no file is a duplicate yet.
            affected = self._claims.connected(self._evaluate(moment))
            gone = [self._settled.pop(name) for name in affected if name in self._settled]
            states = self._resolve_conflicts(
                [self._states[n] for n in affected if n in self._states]
            )
            self._settled.update((state.file.name, state) for state in states)
            # `_changed` returns its argument if nothing differs: the comparison below is by
            # identity.
            manifests = _changed(
                manifests,
                (state.file.name for state in gone),
                {state.file.name: record_of(state) for state in states},
            )
            if manifests.keys() != last.manifests.keys():
                manifests = dict(sorted(manifests.items()))
            pods = _changed(pods, _pods(gone), _pods(states))
            config_maps = _changed(
                config_maps, _objects(gone, v1.ConfigMap), _objects(states, v1.ConfigMap)
            )
            secrets = _changed(secrets, _objects(gone, v1.Secret), _objects(states, v1.Secret))
            documents = _changed(documents, _documents(gone), _documents(states))
        folder = Folder(pods, manifests, error, config_maps, secrets, documents)
        if error != last.error or any(
            new is not old
            for new, old in (
                (manifests, last.manifests),
                (pods, last.pods),
                (config_maps, last.config_maps),
                (secrets, last.secrets),
                (documents, last.documents),
            )
        ):
            self._folder = folder
        return self._folder

    def copy(self) -> FolderState:
        """Return an independent copy, used for previews."""
        other = FolderState(strict=self._strict, previous=self._previous, applies=self._applies)
        other._files = {name: replace(file) for name, file in self._files.items()}
        other._seen = dict(self._seen)
        other._changed = set(self._changed)
        other._states, other._settled = dict(self._states), dict(self._settled)
        other._objects, other._needs = self._objects.copy(), self._needs.copy()
        other._present = self._present.copy()
        other._object_keys, other._unmet = self._object_keys.copy(), set(self._unmet)
        other._claims, other._uids = self._claims.copy(), self._uids.copy()
        other._folder = self._folder
        return other

    def _evaluate(self, moment: str) -> set[str]:
        """Evaluate the changed files again. Returns them and all files that claim the same names,
        or did so before."""
        changed, self._changed = self._changed, set()
        related: set[str] = set(changed)
        released: set[str] = set()
        for name in changed:
            file = self._files.get(name)
            claims: tuple[Claim, ...] = ()
            uids: tuple[str, ...] = ()
            if file is None:
                self._states.pop(name, None)
                self._unmet.discard(name)
            else:
                state = self._states[name] = self._state_of(file, moment)
                claims = tuple(claim for claim, _ in claims_of(state))
                uids = tuple(pod.metadata.uid for pod in file.good)
            released |= self._uids.put(name, uids)
            for claim in self._claims.put(name, claims):
                related.update(self._claims.names(claim))
        for uid in released:
            if not self._uids.names(uid):
                self._seen.pop(uid, None)
        return related

    def _state_of(self, file: File, moment: str) -> FileState:
        self._unmet.discard(file.name)
        if file.result is None:
            return FileState(file, ManifestState.IGNORED, ReadResult())
        result = file.result
        if file.refusals:
            result = refused(result, file.refusals)
        available = [key for key in result.needs if self._objects.names(key)]
        if len(available) < len(result.needs):
            self._unmet.add(file.name)
            result = name_missing(result, self._objects.keys(), self._present.first_names())
        if available:
            result = missing_keys(result, self._available_objects(available))
        if not result.invalid:
            # `raw` are the pods as read, `good` the same with ``config.seen``. A file whose
            # comments alone changed keeps the identical pods.
            if result.pods != file.raw or len(file.good) != len(file.raw):
                file.good = tuple(
                    with_seen(pod, self._seen.setdefault(pod.metadata.uid, moment))
                    for pod in result.pods
                )
                file.raw = result.pods
            used = not result.items or any(is_used(item) for item in result.items)
            state = ManifestState.ACCEPTED if used else ManifestState.IGNORED
            return FileState(file, state, result, file.good, file.documents, applies=self._applies)
        # In strict mode, the next full list drops `good` (`drop_invalid`).
        if file.good or file.documents:
            return FileState(file, ManifestState.LAST_GOOD, result, file.good, file.documents)
        return FileState(file, ManifestState.INVALID, result)

    def _available_objects(self, wanted: Iterable[Claim]) -> dict[Claim, frozenset[str]]:
        """Return the keys of each wanted object, from all files that have it."""
        held: dict[Claim, frozenset[str]] = {}
        for key in wanted:
            files = (self._files[name] for name in self._objects.names(key))
            items = (d.item for file in files for d in file.documents if d.key == key)
            held[key] = frozenset[str]().union(*map(object_keys, items))
        return held

    def _resolve_conflicts(self, states: list[FileState]) -> list[FileState]:
        """Sort the states by precedence, and mark those as duplicates whose claims are already
        taken."""
        if self._strict:
            # A kubelet reads the files by name, and the last one with a pod's name counts.
            states = sorted(states, key=lambda s: s.file.name, reverse=True)
        else:
            states = sorted(
                states, key=lambda s: (s.file.first_scan, s.file.first_mtime, s.file.name)
            )
        held: dict[Claim, tuple[str, Tree | None]] = {}
        settled: list[FileState] = []
        for state in states:
            claims = dict(claims_of(state))
            # Two files may have the same object, such as a namespace, if they agree on it.
            taken = next(
                (
                    claim
                    for claim, configuration in claims.items()
                    if claim in held and (configuration is None or held[claim][1] != configuration)
                ),
                None,
            )
            if taken is None:
                for claim, configuration in claims.items():
                    held.setdefault(claim, (state.file.name, configuration))
            else:
                state = as_duplicate(state, taken, held[taken][0], strict=self._strict)
            settled.append(state)
        return settled


def _pods(states: Iterable[FileState]) -> dict[str, v1.Pod]:
    """Return the pods to run, by UID."""
    kept = (s.pods for s in states if s.state is not ManifestState.DUPLICATE)
    return {pod.metadata.uid: pod for pods in kept for pod in pods}


def _documents(states: Iterable[FileState]) -> dict[str, tuple[FolderDocument, ...]]:
    """Return the objects to apply, by file name."""
    return {
        state.file.name: state.documents
        for state in states
        if state.documents and state.state is not ManifestState.DUPLICATE
    }


def _objects(states: Iterable[FileState], kind: type[_Object]) -> dict[tuple[str, str], _Object]:
    """Return the ConfigMaps or Secrets to use, by namespace and name."""
    return {
        (document.item.metadata.namespace, document.item.metadata.name): document.item
        for state in states
        if state.state is not ManifestState.DUPLICATE
        for document in state.documents
        if isinstance(document.item, kind)
    }


def _changed(
    old: Mapping[_Key, _Value], gone: Iterable[_Key], new: Mapping[_Key, _Value]
) -> Mapping[_Key, _Value]:
    """Apply removals and new values to ``old``; return ``old`` itself if nothing changes."""
    left = [key for key in gone if key not in new]
    fresh = {
        key: value
        for key, value in new.items()
        if (previous := old.get(key)) is not value and previous != value
    }
    if not left and not fresh:
        return old
    changed = dict(old)
    for key in left:
        changed.pop(key, None)
    changed.update(fresh)
    return changed


class FileIndex(Generic[_Key]):
    """Maps file names to keys and keys to file names. The cost of a call depends on the names and
    keys involved, not on the size of the index."""

    def __init__(self) -> None:
        self._keys: dict[str, frozenset[_Key]] = {}
        self._names: dict[_Key, set[str]] = {}

    def copy(self) -> FileIndex[_Key]:
        """Return an independent copy."""
        other: FileIndex[_Key] = FileIndex()
        other._keys = dict(self._keys)
        other._names = {key: set(names) for key, names in self._names.items()}
        return other

    def put(self, name: str, keys: Iterable[_Key]) -> frozenset[_Key]:
        """Replace the keys of a file; return its previous keys."""
        before, now = self._keys.get(name, frozenset[_Key]()), frozenset(keys)
        for key in before - now:
            names = self._names[key]
            names.discard(name)
            if not names:
                del self._names[key]
        for key in now - before:
            self._names.setdefault(key, set()).add(name)
        if now:
            self._keys[name] = now
        else:
            self._keys.pop(name, None)
        return before

    def keys(self) -> Collection[_Key]:
        return self._names.keys()

    def names(self, key: _Key) -> Collection[str]:
        return self._names.get(key, ())

    def first_names(self) -> dict[_Key, str]:
        """Return the first file of each key, by name."""
        return {key: min(names) for key, names in self._names.items()}

    def connected(self, names: Iterable[str]) -> set[str]:
        """Return these files and all that are connected to them, directly or not, by shared
        keys."""
        reached: set[str] = set()
        rest = list(names)
        while rest:
            name = rest.pop()
            if name not in reached:
                reached.add(name)
                for key in self._keys.get(name, ()):
                    rest.extend(self._names[key] - reached)
        return reached
