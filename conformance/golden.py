"""The recordings of the real kubelet in ``tests/golden``."""

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
    """One occurrence of an event. ``at`` is in seconds since the manifest was written."""

    at: float
    type: str
    reason: str
    field_path: str
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """The manifest changes to ``text`` after ``at`` seconds."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The observations of one case, from the kubelet or from podtui.

    ``pod`` is its last state before the manifest was removed, None if there was no pod; ``before``
    and ``after`` are the events until and after the removal. ``statuses`` has one line for each
    status, ``logs`` the text by ``CONTAINER/RESTART``, ``refusal`` the reason why a manifest was
    rejected.
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
    """``removed`` is the time of the removal, in seconds since the manifest was written."""

    name: str
    manifest: str
    edits: tuple[Edit, ...]
    removed: float
    record: Record

    def before(self, moment: float) -> tuple[Occurrence, ...]:
        return tuple(one for one in self.record.before if one.at < moment)

    @property
    def quiet(self) -> float:
        """The seconds without an event before the removal."""
        return self.removed - max((one.at for one in self.record.before), default=0.0)


def occurrences(text: str) -> tuple[Occurrence, ...]:
    """Parse lines of ``seconds, type, reason, object, field path or -, message in JSON``, separated
    by tabs."""
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
    # A case may end earlier than the recording: `times.json` has the end of the comparison.
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
    """Return every case by name."""
    return tuple(
        load_case(one) for one in sorted(folder.iterdir()) if (one / "times.json").exists()
    )
