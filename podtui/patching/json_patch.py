"""JSON patch (RFC 6902) with the semantics of the API server's library, evanphx/json-patch v4.

It differs from the RFC in some points: indexes may be negative, ``replace`` may add a missing key
of an object, ``copy`` of one writes null, and a missing key passes ``test`` against null.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from podtui.patching.errors import PatchError, same

Holder = dict[str, Any] | list[Any]
MOST_OPERATIONS: Final = 10_000
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_MISSING: Final = ": missing value"


def apply(document: Any, patch: Any) -> Any:
    """Return the patched document; the arguments stay as they are. Raises `PatchError`."""
    if not isinstance(patch, list) or not all(
        isinstance(operation, dict) for operation in cast("list[Any]", patch)
    ):
        message = "error decoding patch: json: cannot unmarshal the patch into a list of operations"
        raise PatchError(message, 400)
    operations = cast("list[dict[str, Any]]", patch)
    if len(operations) > MOST_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, "
            f"got {len(operations)}",
            413,
        )
    target = _Document(copy.deepcopy(document))
    for operation in operations:
        kind = operation.get("op")
        perform = _OPERATIONS.get(kind) if isinstance(kind, str) else None
        if perform is None:
            raise PatchError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
        perform(target, operation)
    return target.root


class _Document:
    def __init__(self, root: Any) -> None:
        self.root = root

    def find(self, path: str) -> tuple[Holder | None, str]:
        """Return the object or list that holds the last step of a path, and that step."""
        steps = path.split("/")
        if len(steps) < 2:
            return None, ""
        here: Any = self.root
        for step in map(_unescape, steps[1:-1]):
            try:
                here = _get(cast(Holder, here), step)
            except PatchError:
                return None, ""
            if not isinstance(here, dict | list):
                return None, ""
        return cast(Holder, here), _unescape(steps[-1])


def _unescape(step: str) -> str:
    return re.sub("~[01]", lambda match: "/" if match[0] == "~1" else "~", step)


def _index(text: str) -> int:
    if not _INDEX.fullmatch(text):
        raise PatchError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def _position(text: str, size: int) -> int:
    """Return an index into a list of ``size`` items."""
    index = _index(text)
    if not -size <= index < size:
        raise PatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % size


def _get(holder: Holder, key: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(key)
    return holder[_position(key, len(holder))]


def _add(holder: Holder, key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    elif key == "-":
        holder.append(value)
    else:
        if not _INDEX.fullmatch(key):
            problem = f'strconv.Atoi: parsing "{key}": invalid syntax'
            raise PatchError(f"value was not a proper array index: '{key}': {problem}")
        holder.insert(_position(key, len(holder) + 1), value)


def _remove(holder: Holder, key: str) -> None:
    if isinstance(holder, list):
        del holder[_position(key, len(holder))]
    elif key in holder:
        del holder[key]
    else:
        raise PatchError(f"Unable to remove nonexistent key: {key}{_MISSING}")


def _text(operation: Mapping[str, Any], name: str) -> str:
    value, kind = operation.get(name), operation["op"]
    if not isinstance(value, str):
        middle = "operation, missing" if name == "from" else "operation missing"
        problem = "" if kind in ("add", "remove") else f"{middle} {name} field: "
        raise PatchError(f"{kind} operation failed to decode {name}: {problem}missing value")
    return value


def _at(document: _Document, path: str, prefix: str, *, quoted: bool = False) -> tuple[Holder, str]:
    holder, key = document.find(path)
    if holder is None:
        where = f'"{path}"' if quoted else path
        raise PatchError(f"{prefix}: {where}{_MISSING}")
    return holder, key


class _Within:
    """Put the operation before the text of an error."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PatchError):
            raise PatchError(f"{self._text}: {error}", error.code) from error


def _do_add(document: _Document, operation: Mapping[str, Any]) -> None:
    path = _text(operation, "path")
    prefix = "add operation does not apply: doc is missing path"
    holder, key = _at(document, path, prefix, quoted=True)
    with _Within(f"error in add for path: '{path}'"):
        _add(holder, key, copy.deepcopy(operation.get("value")))


def _do_remove(document: _Document, operation: Mapping[str, Any]) -> None:
    path = _text(operation, "path")
    prefix = "remove operation does not apply: doc is missing path"
    holder, key = _at(document, path, prefix, quoted=True)
    with _Within(f"error in remove for path: '{path}'"):
        _remove(holder, key)


def _do_replace(document: _Document, operation: Mapping[str, Any]) -> None:
    path = _text(operation, "path")
    value = copy.deepcopy(operation.get("value"))
    if path == "":
        if not isinstance(value, dict | list):
            raise PatchError("replace operation value must be object or array")
        document.root = value
        return
    holder, key = _at(document, path, "replace operation does not apply: doc is missing path")
    try:
        _get(holder, key)
    except PatchError as error:
        message = f"replace operation does not apply: doc is missing key: {path}{_MISSING}"
        raise PatchError(message) from error
    if isinstance(holder, dict):
        holder[key] = value
    else:
        holder[_position(key, len(holder))] = value


def _do_move(document: _Document, operation: Mapping[str, Any]) -> None:
    source = _text(operation, "from")
    holder, key = _at(document, source, "move operation does not apply: doc is missing from path")
    with _Within(f"error in move for path: '{key}'"):
        value = _get(holder, key)
        _remove(holder, key)
    path = _text(operation, "path")
    prefix = "move operation does not apply: doc is missing destination path"
    holder, key = _at(document, path, prefix)
    with _Within(f"error in move for path: '{path}'"):
        _add(holder, key, value)


def _do_copy(document: _Document, operation: Mapping[str, Any]) -> None:
    source = _text(operation, "from")
    holder, key = _at(document, source, "copy operation does not apply: doc is missing from path")
    with _Within(f"error in copy for from: '{source}'"):
        value = copy.deepcopy(_get(holder, key))
    path = _text(operation, "path")
    prefix = "copy operation does not apply: doc is missing destination path"
    holder, key = _at(document, path, prefix)
    with _Within("error while adding value during copy"):
        _add(holder, key, value)


def _do_test(document: _Document, operation: Mapping[str, Any]) -> None:
    path, wanted = _text(operation, "path"), operation.get("value")
    if path == "":
        value = document.root
    else:
        holder, key = _at(document, path, "test operation does not apply: is missing path")
        with _Within(f"error in test for path: '{path}'"):
            value = _get(holder, key)
    if not same(value, wanted):
        raise PatchError(f"testing value {path} failed: test failed")


_OPERATIONS: Final[Mapping[str, Callable[[_Document, Mapping[str, Any]], None]]] = {
    "add": _do_add,
    "remove": _do_remove,
    "replace": _do_replace,
    "move": _do_move,
    "copy": _do_copy,
    "test": _do_test,
}
