"""Server-side apply: merge an applied configuration, and keep record of who manages which field."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final, cast

from podtui.api.fields import LIST, types
from podtui.patching.errors import ApplyConflict, Conflict, PatchError
from podtui.patching.field_set import FieldSet, Path, field_set, path_text
from podtui.patching.managed_fields import (
    APPLY,
    UPDATE,
    Entry,
    FieldManager,
    Managers,
    decode_managers,
    encode_managers,
    is_reset,
    merge_oldest_updaters,
)
from podtui.patching.typed import (
    ABSENT,
    Comparison,
    compare,
    equal,
    fields_of,
    merge,
    remove,
    shape,
    validate,
    with_named_fields,
)
from podtui.text.json_text import read_json

Object = dict[str, Any]
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NEVER_MANAGED: Final = field_set(
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
)
_NOT_BY_STATUS: Final = {
    "Deployment": ("metadata.labels",),
    "Pod": ("metadata.deletionTimestamp", "metadata.ownerReferences"),
}
"""Parts of the metadata that a request for the status does not change, by type."""
_WRITTEN: Final = frozenset({("StatefulSetSpec", "serviceName")})
"""Optional texts that the API writes even if they are empty."""
_ZEROS: Final[Mapping[str, str | int]] = {"string": "", "bool": False, "int32": 0, "int64": 0}


def apply(
    schema: str,
    live: Object | None,
    applied: Object,
    *,
    manager: str,
    time: str,
    force: bool = False,
    subresource: str = "",
) -> Object:
    """Return the object after an applied configuration, with its new ``managedFields``.

    ``schema`` is the name of its type in `podtui.api.fields`; ``live`` is None if the object does
    not exist. The result has no defaults filled in. If nothing changes, it equals ``live``. Raises
    `PatchError`, and `ApplyConflict` unless ``force``.
    """
    if _metadata(applied).get("managedFields") is not None:
        raise PatchError("metadata.managedFields must be nil", 400)
    version = types()[schema].version
    if applied.get("apiVersion") != version:
        raise PatchError(
            "Incorrect version specified in apply patch. Specified patch version: "
            f"{applied.get('apiVersion', '')}, expected: {version}",
            400,
        )
    before = _prepared(schema, live)
    managers = decode_managers(_metadata(live or {}).get("managedFields"))
    # No manager is recorded yet: what is there is attributed to one, so that applying other values
    # is a conflict instead of a silent change.
    if not managers:
        empty = _prepared(schema, None)
        updater = FieldManager("before-first-apply", UPDATE, version, subresource)
        _update(schema, empty, before, managers, updater, time, _ignored(schema, subresource))
    try:
        validate(schema, applied)
    except PatchError as error:
        raise PatchError(
            f"failed to create typed patch object ({_names(applied)}; {_kind(applied)}): {error}",
            400,
        ) from error
    applier = FieldManager(manager or "unknown", APPLY, "", subresource)
    ignored = _ignored(schema, subresource)
    # `_apply` changes the managers in place, and may be called twice.
    entries = {who: replace(entry) for who, entry in managers.items()}
    try:
        after = _apply(schema, before, applied, entries, applier, force, ignored)
    except _Conflicts as raised:
        # kubectl may take over what it applied on the client side before, as its annotation shows.
        allowed = _fields_of_last_applied(schema, before) if manager == "kubectl" else FieldSet()
        conflicts = [(who, path) for who, path in raised.paths if path not in allowed]
        if conflicts:
            raise _conflict(conflicts) from None
        entries = managers
        after = _apply(schema, before, applied, entries, applier, True, ignored)
    if not equal(after, before):
        if applier in entries:
            entries[applier].time = time
    else:
        after = before
    if manager == "kubectl" and _annotations(after).get(LAST_APPLIED):
        _set_last_applied(after, applied)
    return _finished(live, after, entries)


def update_managers(
    schema: str,
    live: Object | None,
    new: Object,
    *,
    manager: str,
    time: str,
    subresource: str = "",
) -> list[Object]:
    """Return the ``managedFields`` of a created or updated object.

    ``new`` has its defaults filled in; ``live`` is None for an object to be created. An entry keeps
    its time if the manager changes no field.
    """
    before, after = _prepared(schema, live), _prepared(schema, new)
    try:
        managers = _managers_of_request(live or {}, new, subresource)
    except PatchError:
        managers = {}
    version = types()[schema].version
    if managers or live is None:
        updater = FieldManager(manager or "unknown", UPDATE, version, subresource)
        _update(schema, before, after, managers, updater, time, _ignored(schema, subresource))
        merge_oldest_updaters(managers)
    return encode_managers(managers)


def _managers_of_request(live: Object, new: Object, subresource: str) -> Managers:
    """Return the managers that the request states; those of the live object if it states none."""
    stored = _metadata(live).get("managedFields")
    stated = _metadata(new).get("managedFields")
    if subresource:
        return decode_managers(stored)
    if is_reset(stated):
        return {}
    try:
        return decode_managers(stated) or decode_managers(stored)
    except PatchError:
        return decode_managers(stored)


class _Conflicts(Exception):
    def __init__(self, paths: list[tuple[FieldManager, Path]]) -> None:
        super().__init__()
        self.paths = paths


def _update(
    schema: str,
    before: Object,
    after: Object,
    managers: Managers,
    updater: FieldManager,
    time: str,
    ignored: FieldSet,
) -> None:
    changes = compare(schema, before, after).without(ignored)
    _take_over(managers, changes, None, updater.version)
    taken = (changes.modified | changes.added) - _NEVER_MANAGED
    if taken:
        entry = managers.get(updater)
        fields = taken
        if entry is not None:
            fields = taken | entry.fields if taken - entry.fields else entry.fields
        managers[updater] = Entry(fields, updater.version, time)


def _take_over(
    managers: Managers, changes: Comparison, workflow: FieldManager | None, version: str
) -> None:
    """Remove changed and removed fields from all managers but one."""
    touched = changes.modified | changes.added | changes.removed
    for manager, entry in managers.items():
        if manager != workflow and entry.version == version and entry.fields & touched:
            entry.fields = entry.fields - touched
    for manager in [manager for manager, entry in managers.items() if not entry.fields]:
        del managers[manager]


def _apply(
    schema: str,
    before: Object,
    applied: Object,
    managers: Managers,
    applier: FieldManager,
    force: bool,
    ignored: FieldSet,
) -> Object:
    """Merge an applied configuration, and update the managers in place."""
    version = types()[schema].version
    after = merge(shape(schema), before, applied)
    after = {} if after is ABSENT else cast(Object, after)
    # Read before it is replaced: fields of the last application that are not in this one are
    # pruned.
    last = managers.get(applier)
    fields = fields_of(schema, applied).without(ignored)
    managers[applier] = Entry(fields, version, last.time if last is not None else None)
    if last is not None and last.fields and last.version == version:
        after = _pruned(schema, after, managers, last.fields, version)
    changes = compare(schema, before, after).without(ignored)
    changed = changes.modified | changes.added
    # A conflict is a field of another manager whose value changes. Who applies the same value only
    # becomes one more manager of it.
    if not force:
        conflicts: list[tuple[FieldManager, Path]] = []
        for manager in sorted(managers, key=lambda manager: manager.order):
            entry = managers[manager]
            if manager != applier and entry.version == version:
                conflicts += ((manager, path) for path in entry.fields & changed)
        if conflicts:
            raise _Conflicts(conflicts)
    # There was no conflict, or it is forced: the others lose what changes.
    _take_over(managers, changes, applier, version)
    if applier in managers:
        managers[applier].fields = managers[applier].fields - _NEVER_MANAGED
        if not managers[applier].fields:
            del managers[applier]
    return after


def _pruned(
    schema: str, merged: Object, managers: Managers, last: FieldSet, version: str
) -> Object:
    """Remove what the applier applied before and does not apply now, unless others manage it."""
    # Kept is what remains without the last application, and what any manager has, the new entry of
    # the applier included. Of the rest, only fields of the last application are removed.
    of = shape(schema)
    last = with_named_fields(of, last)
    pruned = remove(of, merged, last)
    managed = FieldSet()
    for entry in managers.values():
        if entry.version == version:
            managed = managed | entry.fields
    all_fields = with_named_fields(of, fields_of(schema, merged))
    kept = with_named_fields(of, fields_of(schema, pruned)) | with_named_fields(of, managed)
    pruned = remove(of, merged, all_fields - kept)
    dangling = all_fields - with_named_fields(of, fields_of(schema, pruned))
    return cast(Object, remove(of, merged, dangling & last) or {})


def _conflict(conflicts: list[tuple[FieldManager, Path]]) -> ApplyConflict:
    count = len(conflicts)
    if count == 1:
        manager, path = conflicts[0]
        text = f"Apply failed with 1 conflict: conflict with {manager.text}: {path_text(path)}"
    else:
        lines: list[str] = []
        for manager in dict.fromkeys(manager for manager, _ in conflicts):
            lines.append(f"conflicts with {manager.text}:")
            lines += (f"- {path_text(path)}" for other, path in conflicts if other == manager)
        text = f"Apply failed with {count} conflicts: " + "\n".join(lines)
    return ApplyConflict(text, [Conflict(m.text, path_text(path)) for m, path in conflicts])


def _fields_of_last_applied(schema: str, live: Object) -> FieldSet:
    """Return the fields that client-side apply manages: those of its annotation that still have
    their value."""
    text = _annotations(live).get(LAST_APPLIED)
    try:
        last = read_json(text) if isinstance(text, str) else None
        validate(schema, last)
    except (ValueError, RecursionError, PatchError):
        return FieldSet()
    version = types()[schema].version
    if not isinstance(last, dict) or cast(Object, last).get("apiVersion") != version:
        return FieldSet()
    changes = compare(schema, last, live)
    return fields_of(schema, last) - changes.modified - changes.added - changes.removed


def _set_last_applied(document: Object, applied: Object) -> None:
    stated = copy.deepcopy(applied)
    _annotations(stated).pop(LAST_APPLIED, None)
    text = json.dumps(stated, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    metadata = document["metadata"] = {**_metadata(document)}
    metadata["annotations"] = {**_annotations(document), LAST_APPLIED: text}


def _ignored(schema: str, subresource: str) -> FieldSet:
    """Return the fields that a request to a (sub)resource cannot change."""
    if subresource == "status":
        return field_set("spec", *_NOT_BY_STATUS.get(schema, ()))
    return field_set("status") if "status" in types()[schema].fields else FieldSet()


def _prepared(schema: str, document: Object | None) -> Object:
    """Return the document without ``managedFields``, with the parts that an object always has.

    Its parts share the values of ``document``, which is unchanged.
    """
    prepared = _completed(_parts(schema), document or {})
    metadata = {**_metadata(prepared)}
    metadata.pop("managedFields", None)
    if "metadata" in prepared:
        prepared["metadata"] = metadata
    return prepared


def _completed(parts: Object, document: Object) -> Object:
    completed = {**parts, **document}
    for name, part in parts.items():
        if isinstance(part, dict):
            value = document.get(name)
            below = cast(Object, value) if isinstance(value, dict) else {}
            completed[name] = _completed(cast(Object, part), below)
    return completed


@cache
def _parts(schema: str) -> Object:
    """Return the parts that an object of a type always has, though they may be empty: structs that
    Go holds by value, required lists, which are null, and required texts and numbers. It is shared
    with later calls."""
    parts: Object = {}
    for name, item in types()[schema].fields.items():
        if item.type in types() and not item.pointer:
            parts[name] = _parts(item.type)
        elif item.required and item.type.startswith(LIST):
            parts[name] = None
        elif (item.required or (schema, name) in _WRITTEN) and item.type in _ZEROS:
            parts[name] = _ZEROS[item.type]
    return parts


def _finished(live: Object | None, document: Object, managers: Managers) -> Object:
    """Return the document with its managers; the live one if only times would change."""
    metadata = {**_metadata(document)}
    metadata.pop("managedFields", None)
    if managers:
        metadata["managedFields"] = encode_managers(managers)
    finished = {**document, "metadata": metadata}
    if live is not None and equal(_without_times(finished), _without_times(live)):
        return copy.deepcopy(live)
    return finished


def _without_times(document: Object) -> Object:
    entries = _metadata(document).get("managedFields")
    if not isinstance(entries, list):
        return document
    timeless = [
        {key: value for key, value in cast(Object, entry).items() if key != "time"}
        for entry in cast("list[Any]", entries)
        if isinstance(entry, dict)
    ]
    return {**document, "metadata": {**_metadata(document), "managedFields": timeless}}


def _metadata(document: Mapping[str, Any]) -> Object:
    metadata = document.get("metadata")
    return cast(Object, metadata) if isinstance(metadata, dict) else {}


def _annotations(document: Mapping[str, Any]) -> Object:
    annotations = _metadata(document).get("annotations")
    return cast(Object, annotations) if isinstance(annotations, dict) else {}


def _names(document: Object) -> str:
    metadata = _metadata(document)
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _kind(document: Object) -> str:
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    return f"{group}/{version}, Kind={document.get('kind', '')}"
