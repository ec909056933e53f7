"""The record of the real kubelet, as read from ``tests/golden``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "tests" / "golden"
NODE: Final = "refnode"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event as it happened. ``at`` is in seconds since the manifest was dropped."""

    at: float
    type: str
    reason: str
    field_path: str
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """The manifest becomes ``text`` when ``at`` seconds have gone by."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was seen of one case: a kubelet's, or ours in the same shape.

    ``pod`` is its last state before the manifest was removed, None where there was no pod;
    ``before`` and ``after`` are the events up to the removal and those that followed. ``statuses``
    has a line for each that it went through, ``logs`` the text by ``CONTAINER/RESTART``,
    ``refusal`` what was said of a manifest that made no pod.
    """

    pod: Json | None
    pod_names: tuple[str, ...]
    before: tuple[Occurrence, ...]
    after: tuple[Occurrence, ...]
    logs: Mapping[str, str]
    statuses: tuple[str, ...] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``removed`` is when the manifest was removed, in seconds since it was dropped."""

    name: str
    manifest: str
    edits: tuple[Edit, ...]
    removed: float
    record: Record

    def before(self, moment: float) -> tuple[Occurrence, ...]:
        return tuple(one for one in self.record.before if one.at < moment)

    @property
    def quiet(self) -> float:
        """Seconds without an event before the removal."""
        return self.removed - max((one.at for one in self.record.before), default=0.0)


def occurrences(text: str) -> tuple[Occurrence, ...]:
    """Lines of ``seconds, type, reason, object, field path or -, message in JSON``, by tabs."""
    found: list[Occurrence] = []
    for line in text.splitlines():
        at, kind, reason, _, path, message = line.split("\t")
        path = "" if path == "-" else path
        found.append(Occurrence(float(at), kind, reason, path, json.loads(message)))
    return tuple(found)


def _text(path: Path, missing: str) -> str:
    return path.read_text() if path.exists() else missing


def load_case(folder: Path) -> Case:
    times = json.loads((folder / "times.json").read_text())
    # A case may end earlier than the recording: `times.json` says until when it can be compared.
    removed = float(times.get("comparable", times["removed"]))
    events = occurrences(_text(folder / "events.txt", ""))
    follows = () if "comparable" in times else (e for e in events if e.at >= removed)
    pod = json.loads((folder / "pod.json").read_text()) or None
    steps = json.loads(_text(folder / "steps.json", "[]"))
    return Case(
        name=folder.name,
        manifest=(folder / "manifest.yaml").read_text(),
        edits=tuple(Edit(step["at"], (folder / step["replace"]).read_text()) for step in steps),
        removed=removed,
        record=Record(
            pod=pod,
            pod_names=(pod["metadata"]["name"],) if pod else (),
            before=tuple(e for e in events if e.at < removed),
            after=tuple(follows),
            logs=json.loads(_text(folder / "logs.json", "{}")),
            statuses=tuple(_text(folder / "statuses.txt", "").splitlines()),
            refusal=_text(folder / "refusal.txt", "").strip(),
        ),
    )


def load(folder: Path = FOLDER) -> tuple[Case, ...]:
    """Every case, by name."""
    return tuple(
        load_case(one) for one in sorted(folder.iterdir()) if (one / "times.json").exists()
    )
