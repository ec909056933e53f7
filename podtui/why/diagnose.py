"""Derives one root cause from facts.

The rules for the whole pod come first, then those of each container in start order, so that the
init container is named and not the app container that waits for it, then the remaining rules
for the pod. The first result that fails is the cause; if there is none, the first one that is only
waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from podtui.api.events import event_count, last_seen
from podtui.api.health import unready, unready_words
from podtui.api.local import Manifest, ManifestState
from podtui.api.places import Path, field_text
from podtui.api.v1 import Event, Node
from podtui.why.cases import Case, cases, ordered
from podtui.why.endings import STOPPED
from podtui.why.folder import (
    FOLDER,
    errors_of,
    fix_errors,
    is_unusable,
    manifest_evidence,
    manifest_words,
)
from podtui.why.pod_rules import engine_advice
from podtui.why.rules import AFTER, BEFORE, EACH, RUNNING
from podtui.why.source import Source
from podtui.why.types import Diagnosis, Evidence, Facts, Fix, Found, Health, Rule

MOST_EVENTS = 6
MOST_LINES = 8
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
T = TypeVar("T", Facts, Case)


def diagnose(facts: Facts) -> Diagnosis:
    """Return the diagnosis of a pod. Never raises, whatever an API server reports of the pod."""
    first = _of_pod(BEFORE, facts)
    if first is not None:
        return first
    waiting: Diagnosis | None = None
    for case in cases(facts):
        found = _of_container(case)
        if found is not None and found.health is Health.FAILING:
            return found
        waiting = waiting or found
    last = _of_pod(AFTER, facts)
    if waiting is not None and (last is None or last.health is Health.WAITING):
        return waiting
    return _with_remarks(last, facts.manifest) if last else waiting or _no_information()


def _no_information() -> Diagnosis:
    return Diagnosis(cause="Unknown", health=Health.WAITING, title="No information yet.")


def diagnose_manifest(manifest: Manifest) -> Diagnosis:
    """Return the reason why a file produces no pod, or that it is fine or ignored."""
    if not is_unusable(manifest):
        ignored = manifest.status.state is ManifestState.IGNORED
        title = f"It is ignored: {manifest.status.message}" if ignored else "It is in use."
        fine = Diagnosis(cause="ManifestFine", health=Health.HEALTHY, title=title)
        return _with_remarks(fine, manifest)
    found = manifest_words(manifest)
    made = _filled(FOLDER, found, {})
    source = Source.of(manifest)
    fixes = tuple(fix_errors(manifest, source)) if source is not None else ()
    return _at_error(replace(made, fixes=fixes), manifest)


def _with_remarks(made: Diagnosis, manifest: Manifest | None) -> Diagnosis:
    """Add the mechanical fixes of a file's warnings if there is nothing else to do."""
    if manifest is None or made.fixes or made.health not in (Health.HEALTHY, Health.COMPLETED):
        return made
    source = Source.of(manifest) if manifest.status.state is ManifestState.ACCEPTED else None
    fixes = tuple(fix_errors(manifest, source)) if source is not None else ()
    if not fixes:
        return made
    return replace(made, fixes=fixes, evidence=(*made.evidence, *manifest_evidence(manifest)))


def _at_error(made: Diagnosis, manifest: Manifest) -> Diagnosis:
    """Use the position of the file's first error, which is more precise than any other."""
    evidence = manifest_evidence(manifest)
    first = next(iter(errors_of(manifest)), None)
    if first is None or first.line is None:
        return replace(made, evidence=evidence)
    place = (first.line, first.column or 1)
    return replace(made, evidence=evidence, field=first.field, place=place, written=True)


def _of_pod(rules: Sequence[Rule[Facts]], facts: Facts) -> Diagnosis | None:
    rule, found = _first(rules, facts)
    if rule is None or found is None:
        return None
    made = _filled(rule, found, {"container": ""})
    if rule is FOLDER and facts.manifest is not None:
        source = Source.of(facts.manifest)
        fixes = _fixes(rule, facts, found, source) if source is not None else ()
        return _at_error(replace(made, fixes=fixes), facts.manifest)
    evidence = (*_pod_state(facts), *_events(facts.events, rule.events))
    return _placed(replace(made, evidence=evidence), rule, facts, facts, found, found.field)


def _of_container(case: Case) -> Diagnosis | None:
    if case.completed:
        return None
    rules = RUNNING if case.stopped else (*EACH, *RUNNING)
    rule, found = _first(rules, case)
    if rule is None or found is None:
        return None
    made = _filled(rule, found, {"container": case.name, "image": case.container.image})
    events = _events(case.events, rule.events)
    evidence = (*_state(case), *events, *_kill(case), *_lines(case, rule))
    field = found.field or ((*case.path, *rule.field) if rule.field else case.path)
    made = replace(
        made,
        evidence=evidence,
        container=case.name,
        wants_log=rule.logs,
        log_problem=case.facts.log_problems.get(case.name, "") if rule.logs else "",
    )
    return _placed(made, rule, case.facts, case, found, field)


def _first(rules: Iterable[Rule[T]], what: T) -> tuple[Rule[T] | None, Found | None]:
    for rule in rules:
        found = rule.match(what)
        if found is not None:
            return rule, found
    return None, None


def _filled(rule: Rule[T], found: Found, more: dict[str, str]) -> Diagnosis:
    """Fill in the rule's templates; sentences that become empty are left out."""
    words = {**more, **found.words}
    sentences = (template.format_map(words).strip() for template in rule.sentences)
    return Diagnosis(
        cause=rule.id,
        health=found.health or rule.health,
        title=rule.title.format_map(words).strip(),
        sentences=tuple(sentence for sentence in sentences if sentence),
        advice=rule.advice.format_map(words),
        docs=rule.docs,
    )


def _placed(
    made: Diagnosis, rule: Rule[T], facts: Facts, what: T, found: Found, field: Path | None
) -> Diagnosis:
    """Add the line of the manifest to change, and the mechanical fixes for it."""
    path = rule.field if field is None else field
    if not path or made.health in (Health.HEALTHY, Health.COMPLETED):
        return made
    made = replace(made, field=field_text(path))
    source = Source.of(facts.manifest)
    manifest = facts.manifest
    if source is None or manifest is None or manifest.status.state is not ManifestState.ACCEPTED:
        return made
    place, written = source.find(path)
    fixes = _fixes(rule, what, found, source)
    return replace(made, place=place, written=written, fixes=fixes)


def _fixes(rule: Rule[T], what: T, found: Found, source: Source) -> tuple[Fix, ...]:
    if rule.fixes is None:
        return ()
    return tuple(fix for fix in rule.fixes(what, found, source) if fix is not None and fix.edits)


# --- evidence


def _pod_state(facts: Facts) -> Iterator[Evidence]:
    status = facts.pod.status
    if status.message:
        yield Evidence("pod", status.message.strip(), warning=status.phase == "Failed")


def _state(case: Case) -> Iterator[Evidence]:
    ending = case.ending
    if ending is not None:
        reason = f" ({ending.reason})" if ending.reason else ""
        times = f", {case.restarts} restart{'s' * (case.restarts != 1)}" * bool(case.restarts)
        text = f"{case.name} exited with code {ending.exitCode}{reason}{times}"
        diagnosis = f": {ending.message.strip()}" if ending.message.strip() else ""
        warning = ending.exitCode != 0
        yield Evidence("state", text + diagnosis, ending.finishedAt or "", warning=warning)
    if case.waiting.reason:
        text = f"{case.name} is waiting: {case.waiting.reason}"
        if case.waiting.message:
            text += f": {case.waiting.message}"
        yield Evidence("state", text, warning=case.waiting.reason not in _STARTING)
    elif case.running and case.status is not None and not case.status.ready:
        yield Evidence("state", f"{case.name} is running but not ready", warning=True)


def _kill(case: Case) -> Iterator[Evidence]:
    """Return the kubelet's own record. It comes after all events, because it is the strongest
    evidence."""
    kill = case.kill
    if case.ending is not None and kill is not None:
        because = f"{STOPPED[kill.reason]}{f': {kill.message}' if kill.message else ''}"
        text = f"the kubelet stopped {case.name} because {because}"
        yield Evidence("kubelet", text, "", kill.count, not kill.on_purpose)


def _events(events: Iterable[Event], reasons: Sequence[str]) -> list[Evidence]:
    picked = [event for event in ordered(list(events)) if event.reason in reasons]
    return [
        Evidence(
            "event",
            f"{event.reason}: {event.message.strip()}",
            last_seen(event),
            event_count(event),
            event.type == "Warning",
        )
        for event in picked[-MOST_EVENTS:]
    ]


def _lines(case: Case, rule: Rule[Case]) -> list[Evidence]:
    if not rule.logs:
        return []
    return [Evidence("log", line) for line in case.log[-MOST_LINES:]]


_TRIED: Final = "; tried:"


def diagnose_waiting(manifest: Manifest, node: Node | None) -> Diagnosis | None:
    """Diagnose the delay of an accepted file's pod; return None if nothing delays it, so that the
    pod will appear shortly."""
    condition = unready(node)
    if node is None or condition is None or manifest.status.state is not ManifestState.ACCEPTED:
        return None
    reason = unready_words(condition)
    first = reason.partition("\n")[0].removesuffix(_TRIED)
    of_runtime = "container runtime" in reason
    return Diagnosis(
        cause="NodeNotReady",
        health=Health.WAITING,
        title=f"It waits for the node {node.metadata.name}, which is not ready: {first}",
        evidence=(
            Evidence("node", f"{condition.reason}: {reason}", condition.lastTransitionTime or "",
                     warning=True),
        ),
        advice=engine_advice(reason, condition.reason)
        if of_runtime
        else "Check the node's conditions.",
        docs="https://kubernetes.io/docs/reference/node/node-status/#condition",
    )  # fmt: skip
