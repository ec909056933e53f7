"""Run one case on a site: write the manifest, edit it, wait for the recorded state, remove it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from conformance.compare import Difference, compare, event_lines, view
from conformance.departures import departure
from conformance.golden import NODE, Case, Json, Occurrence, Record
from conformance.mirror import compare_records
from conformance.site import Site
from conformance.timeline import seen_of
from podtui.errors import ApiError

SLACK: Final = 15.0
LAST_WORDS: Final = 5.0
# Seconds that the state must stay the same, so that surplus events are found.
SETTLED: Final = (1.2, 2.5)
_CONTAINERS: Final = ("initContainerStatuses", "containerStatuses")


@dataclass(frozen=True, slots=True)
class Outcome:
    """``differences`` from the case's recording, departures included; ``records`` from the API
    objects of an API server, None if those were not recorded."""

    differences: tuple[Difference, ...]
    records: tuple[Difference, ...] | None


class Driver:
    """Runs one case and collects its observations."""

    def __init__(self, case: Case, site: Site) -> None:
        self._case = case
        self._site = site
        self._witness = site.witness
        self._file = f"{case.name}.yaml"
        names = case.record.pod_names
        self._pod = names[0] if names else f"{case.name}-{NODE}"
        self._theirs = view(case.record, strict=site.strict)
        self._checked: tuple[int, int, bool] = (-1, -1, False)

    async def run(self) -> Outcome:
        case, witness = self._case, self._witness
        self._site.put(self._file, case.manifest)
        for edit in case.edits:
            expected = self._expected(case.before(edit.at))
            await witness.until(
                lambda expected=expected: self._events() == expected, edit.at + SLACK
            )
            # Also wait until its status is reported.
            await witness.until(lambda: False, SETTLED[0])
            self._site.put(self._file, edit.text)
        await self._reach()
        seen = witness.seen(self._pod)
        logs = await self._logs(seen.pod)
        refusal = self._refusal()
        cut, pod = len(seen.events), seen.pod
        records = compare_records(case.name, pod, tuple(seen.records.values()))
        self._site.remove(self._file)
        after = event_lines(case.record.after, "", after=True)
        await witness.until(
            lambda: event_lines(seen.events[cut:], "", after=True) == after, LAST_WORDS
        )
        await witness.until(lambda: False, SETTLED[0])
        ours = Record(
            pod=pod,
            pod_names=self._names(),
            before=tuple(seen.events[:cut]),
            after=tuple(seen.events[cut:]),
            logs=logs,
            statuses=seen_of(case.name, case.record.statuses, seen.statuses),
            refusal=refusal,
        )
        return Outcome(compare(view(ours, strict=self._site.strict), self._theirs), records)

    async def _reach(self) -> None:
        """Wait until the recorded final state has lasted for a while, or until the timeout."""
        deadline = time.monotonic() + self._case.removed * 1.25 + SLACK
        lasting = min(max(self._case.quiet / 4, SETTLED[0]), SETTLED[1])
        while (left := deadline - time.monotonic()) > 0:
            if not await self._witness.until(self._reached, left):
                return
            if not await self._witness.until(lambda: not self._reached(), lasting):
                return

    def _reached(self) -> bool:
        seen = self._witness.seen(self._pod)
        counts = (len(seen.events), seen.changes)
        if counts != self._checked[:2]:
            self._checked = (*counts, self._agrees())
        return self._checked[2] and self._file in self._witness.manifests

    def _agrees(self) -> bool:
        theirs, seen = self._case.record, self._witness.seen(self._pod)
        now = Record(
            pod=seen.pod,
            pod_names=self._names(),
            before=tuple(seen.events),
            after=theirs.after,
            logs={},
            refusal=theirs.refusal,
        )
        found = compare(view(now, strict=self._site.strict), self._theirs)
        strict, name = self._site.strict, self._case.name
        return all(
            one.aspect in ("logs", "statuses") or departure(name, one, strict=strict) is not None
            for one in found
        )

    def _events(self) -> list[str]:
        return self._expected(self._witness.seen(self._pod).events)

    def _expected(self, events: list[Occurrence] | tuple[Occurrence, ...]) -> list[str]:
        return event_lines(events, "", after=False)

    def _names(self) -> tuple[str, ...]:
        """Return the names of all pods that this case's file has created."""
        seen = self._witness.pods.items()
        mine = (name for name, one in seen if one.last is not None)
        return tuple(sorted(name for name in mine if name.startswith(f"{self._case.name}-")))

    def _refusal(self) -> str:
        """Return the reason why the manifest was rejected, if the recording has one."""
        manifest = self._witness.manifests.get(self._file)
        if manifest is None or not self._case.record.refusal:
            return ""
        status = manifest["status"]
        messages = [
            ": ".join(filter(None, (one.get("field", ""), one["message"])))
            for one in status.get("diagnostics", ())
        ]
        expected = self._case.record.refusal
        return expected if any(expected in one for one in messages) else "; ".join(messages)

    async def _logs(self, pod: Json | None) -> Mapping[str, str]:
        """Return the output of each container's last instance."""
        found: dict[str, str] = {}
        status = (pod or {}).get("status", {})
        for one in (item for key in _CONTAINERS for item in status.get(key, ())):
            path = f"/api/v1/namespaces/default/pods/{self._pod}/log?container={quote(one['name'])}"
            try:
                text = (await self._witness.get(path)).decode(errors="replace")
            except ApiError:
                continue  # it has never run
            if text:
                found[f"{one['name']}/{one['restartCount']}"] = text
        return found
