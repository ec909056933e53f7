"""A two-way index between files and keys."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class FileIndex(Generic[Key]):
    """Maps file names to keys and keys to file names. The cost of a call depends on the names and
    keys involved, not on the size of the index."""

    def __init__(self) -> None:
        self._keys: dict[str, frozenset[Key]] = {}
        self._names: dict[Key, set[str]] = {}

    def copy(self) -> FileIndex[Key]:
        """Return an independent copy."""
        other: FileIndex[Key] = FileIndex()
        other._keys = dict(self._keys)
        other._names = {key: set(names) for key, names in self._names.items()}
        return other

    def put(self, name: str, keys: Iterable[Key]) -> frozenset[Key]:
        """Replace the keys of a file; return its previous keys."""
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
        return self._names.keys()

    def names(self, key: Key) -> Collection[str]:
        return self._names.get(key, ())

    def connected(self, names: Iterable[str]) -> set[str]:
        """Return these files and all that are connected to them, directly or not, by shared
        keys."""
        found: set[str] = set()
        rest = list(names)
        while rest:
            name = rest.pop()
            if name not in found:
                found.add(name)
                for key in self._keys.get(name, ()):
                    rest.extend(self._names[key] - found)
        return found
