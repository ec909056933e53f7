"""Compare two records as lines."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from conformance.golden import Json, Occurrence, Record
from conformance.rules import EVENT, LEAVES, LOG, MASKS, REPEATS, UNORDERED, Repeat

ASPECTS: Final = (
    "pods",
    "phase",
    "conditions",
    "containers",
    "spec",
    "statuses",
    "events",
    "logs",
)
REMOVED: Final = "--- the manifest is removed ---"
AGAIN: Final = " (again and again)"
REFUSED: Final = "refused: "
_NAMES: Final = ("name", "type", "containerPort")

_as_json: Final = json.JSONEncoder(ensure_ascii=False).encode

View = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Difference:
    """A line that only one side has; the other one is None."""

    aspect: str
    ours: str | None
    theirs: str | None

    def __str__(self) -> str:
        sign, line = ("ours  ", self.ours) if self.ours is not None else ("theirs", self.theirs)
        return f"{sign} {self.aspect}: {line}"

    @property
    def line(self) -> str:
        return self.ours if self.ours is not None else self.theirs or ""


def leaves(value: Any, path: str = "") -> list[tuple[str, str]]:
    """Return (path, JSON) of every leaf. List items are identified by name or type."""
    found: list[tuple[str, str]] = []
    _add_leaves(found, value, path)
    return found


def _add_leaves(found: list[tuple[str, str]], value: Any, path: str) -> None:
    if isinstance(value, dict) and value:
        for key in sorted(value):
            _add_leaves(found, value[key], f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        times = Counter[str]()
        for index, item in enumerate(value):
            name = str(index)
            if isinstance(item, dict):
                name = str(next((item[key] for key in _NAMES if key in item), index))
            times[name] += 1
            again = f"#{times[name]}" if times[name] > 1 else ""
            _add_leaves(found, item, f"{path}[{name}{again}]")
    else:
        found.append((path, _as_json(value)))


@functools.lru_cache(maxsize=10_000)
def masked(path: str, value: str, uid: str) -> str:
    """Return a value with its variable parts replaced. ``uid`` is the UID of the pod, or empty."""
    if uid:
        value = value.replace(uid, "UID")
    for rule in MASKS:
        if re.search(rule.where, path):
            value = re.sub(rule.pattern, rule.text, value)
    return value


def _aspect(path: str) -> str:
    if path.startswith("conditions"):
        return "conditions"
    return "containers" if re.match(r"(initC|c|ephemeralC)ontainerStatuses", path) else "phase"


@functools.lru_cache(maxsize=10_000)
def _left(line: str, *when: str) -> bool:
    return any(rule.only in ("", *when) and re.search(rule.pattern, line) for rule in LEAVES)


def object_lines(value: Json, uid: str, *, strict: bool) -> list[tuple[str, str]]:
    """Yield (path, line) of every leaf of an object."""
    found = ((path, f"{path} = {masked(path, text, uid)}") for path, text in leaves(value))
    return [(path, line) for path, line in found if not _left(line, "" if strict else "default")]


def _matches(rule: Repeat, lines: Sequence[str]) -> bool:
    return len(lines) == len(rule.group) and all(
        re.search(pattern, line) for pattern, line in zip(rule.group, lines, strict=True)
    )


def _without_repeats(lines: list[str]) -> list[str]:
    kept: list[str] = []
    at = 0
    while at < len(lines):
        for rule in REPEATS:
            size = len(rule.group)
            group = lines[at : at + size]
            if _matches(rule, group):
                end = at + size
                while lines[end : end + size] == group:
                    end += size
                mark = AGAIN if rule.mark and end > at + size else ""
                kept += [line + mark for line in group]
                at = end
                break
        else:
            kept.append(lines[at])
            at += 1
    return kept


def _sorted_neighbours(lines: list[str]) -> list[str]:
    for rule in UNORDERED:
        at = 0
        while at < len(lines):
            end = at
            while end < len(lines) and re.search(rule.pattern, lines[end]):
                end += 1
            lines[at:end] = sorted(lines[at:end])
            at = end + 1
    return lines


def event_lines(events: Iterable[Occurrence], uid: str, *, after: bool) -> list[str]:
    """Return the events as lines, after applying the rules. ``uid`` is the UID of the pod, or
    empty."""
    return list(_event_lines(tuple(events), uid, after))


@functools.lru_cache(maxsize=1_000)
def _event_lines(events: tuple[Occurrence, ...], uid: str, after: bool) -> tuple[str, ...]:
    lines: list[str] = []
    for one in events:
        message = masked(EVENT, one.message, uid)
        line = f"{one.type} {one.reason} {one.field_path or 'pod'}: {message}"
        if not _left(line, "after" if after else ""):
            lines.append(line)
    return tuple(_sorted_neighbours(_without_repeats(lines)))


def view(record: Record, *, strict: bool) -> View:
    """Return a record as lines by aspect, without its variable parts."""
    pod = record.pod or {"metadata": {}, "spec": {}, "status": {}}
    uid: str = pod["metadata"].get("uid", "")
    found: dict[str, list[str]] = {aspect: [] for aspect in ASPECTS}
    found["pods"] = list(record.pod_names)
    if record.pod is not None:
        for path, line in object_lines(pod["status"], uid, strict=strict):
            found[_aspect(path)].append(line)
        found["spec"] = [line for _, line in object_lines(pod["spec"], uid, strict=strict)]
    found["events"] = [
        *event_lines(record.before, uid, after=False),
        REMOVED,
        *event_lines(record.after, uid, after=True),
    ]
    address: str = pod["status"].get("podIP") or " no address "
    found["logs"] = [
        f"{name}: {masked(LOG, line.replace(address, 'ADDRESS'), uid)}"
        for name, text in sorted(record.logs.items())
        for line in text.splitlines()
    ]
    if strict:
        # By default a status may be replaced by the next one before it is written (departure 11).
        found["statuses"] = list(record.statuses)
    if record.refusal:
        found["pods"].append(f"{REFUSED}{record.refusal}")
    return {aspect: tuple(lines) for aspect, lines in found.items()}


def aligned(aspect: str, ours: Sequence[str], theirs: Sequence[str]) -> list[Difference]:
    """Return every line that only one side has, or has at another place in the order."""
    if ours == theirs:
        return []
    found: list[Difference] = []
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    for kind, start, end, begin, stop in matcher.get_opcodes():
        if kind != "equal":
            found += [Difference(aspect, None, line) for line in theirs[start:end]]
            found += [Difference(aspect, line, None) for line in ours[begin:stop]]
    return found


def compare(ours: View, theirs: View) -> tuple[Difference, ...]:
    """Return the differences, aspect by aspect. A pod of a manifest that was refused in the
    recording is one difference: there is nothing to compare it with."""
    refused = any(line.startswith(REFUSED) for line in theirs["pods"])
    names = ("pods",) if refused and ours["pods"] != theirs["pods"] else ASPECTS
    return tuple(one for name in names for one in aligned(name, ours[name], theirs[name]))
