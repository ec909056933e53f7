"""Compare two versions of a pod field by field. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from podtui.api.names import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    CONFIG_SEEN,
    CONFIG_SOURCE,
    MANIFEST_PATH,
)
from podtui.api.v1 import Pod
from podtui.manifest.document import MapKey, Path, path_text

SHOWN: Final = 80
"""Maximum length of a displayed value, in characters."""
_LOCAL: Final = frozenset({CONFIG_HASH, CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE, MANIFEST_PATH})
# Keys that identify list items; the first one that all items of both lists have is used.
_KEYS: Final = ("name", "mountPath", "containerPort", "key", "ip", "devicePath")
_FREE_MAPS: Final = frozenset(
    {"labels", "annotations", "limits", "requests", "nodeSelector", "matchLabels"}
)
_Tree = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs; ``old`` or ``new`` is None where the field is absent.

    ``path`` belongs to the new pod or, if ``gone`` is set, to the old one.
    """

    path: Path
    old: Any
    new: Any
    gone: bool = False

    @property
    def field(self) -> str:
        return path_text(self.path)


def pod_differences(old: Pod, new: Pod) -> list[Difference]:
    """Return the fields that differ between two defaulted pods, in the order of the new pod.

    Fields added by the node are ignored.
    """
    return list(_compare((), _said(old), _said(new)))


def shown(value: Any) -> str:
    """Format a value on one line of at most `SHOWN` characters; None gives an empty text."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(c if c.isprintable() else " " for c in text) or '""'
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _said(pod: Pod) -> _Tree:
    """Return the part of a pod that comes from its manifest."""
    tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(pod))
    meta = tree.get("metadata", {})
    annotations = {k: v for k, v in meta.get("annotations", {}).items() if k not in _LOCAL}
    spec = dict(tree.get("spec", {}))
    return {
        "metadata": {"labels": meta.get("labels", {}), "annotations": annotations},
        "spec": spec,
    }


def _compare(path: Path, old: Any, new: Any) -> Iterator[Difference]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _compare_maps(path, cast("_Tree", old), cast("_Tree", new))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(path, cast("list[Any]", old), cast("list[Any]", new))
    else:
        yield Difference(path, old, new, gone=new is None)


def _compare_maps(path: Path, old: _Tree, new: _Tree) -> Iterator[Difference]:
    free = bool(path) and path[-1] in _FREE_MAPS
    for key in dict.fromkeys((*new, *old)):
        step = MapKey(key) if free else key
        yield from _compare((*path, step), old.get(key), new.get(key))


def _compare_lists(path: Path, old: list[Any], new: list[Any]) -> Iterator[Difference]:
    """Match list items by an identifying key; without such a key, compare the lists as a whole."""
    key = next((k for k in _KEYS if _is_key(k, old) and _is_key(k, new)), None)
    if key is None:
        yield Difference(path, old, new)
        return
    before = {item[key]: (index, item) for index, item in enumerate(old)}
    for index, item in enumerate(new):
        found = before.pop(item[key], None)
        yield from _compare((*path, index), None if found is None else found[1], item)
    for index, item in before.values():
        yield Difference((*path, index), item, None, gone=True)


def _is_key(key: str, items: list[Any]) -> bool:
    found = [cast("_Tree", one).get(key) for one in items if isinstance(one, dict)]
    values = [value for value in found if value is not None]
    return len(values) == len(items) and len(set(values)) == len(values)
