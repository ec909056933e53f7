"""Which files have to do with which keys, in both directions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class FileIndex(Generic[Key]):
    """Keys by file name and file names by key; every call costs what it is about, not the whole."""

    def __init__(self) -> None:
        self._keys: dict[str, frozenset[Key]] = {}
        self._names: dict[Key, set[str]] = {}

    def copy(self) -> FileIndex[Key]:
        """The same, to be changed by itself."""
        other: FileIndex[Key] = FileIndex()
        other._keys = dict(self._keys)
        other._names = {key: set(names) for key, names in self._names.items()}
        return other

    def put(self, name: str, keys: Iterable[Key]) -> frozenset[Key]:
        """Say which keys are the file's from now on; returns those that were until now."""
        before, now = self._keys.get(name, frozenset[Key]()), frozenset(keys)
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

    def keys(self) -> Collection[Key]:
        """All keys of all files."""
        return self._names.keys()

    def names(self, key: Key) -> Collection[str]:
        """The files that have this key."""
        return self._names.get(key, ())

    def connected(self, names: Iterable[str]) -> set[str]:
        """These files and all that share a key with them, or with one that does, and so on."""
        found: set[str] = set()
        rest = list(names)
        while rest:
            name = rest.pop()
            if name not in found:
                found.add(name)
                for key in self._keys.get(name, ()):
                    rest.extend(self._names[key] - found)
        return found
