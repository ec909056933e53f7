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
from podtui.api.health import Health, pod_health, unready, unready_words
from podtui.api.local import Manifest, ManifestState
from podtui.api.places import Path, field_text, read_places
from podtui.api.v1 import Event, Node
from podtui.editing.source import Source, find_place
from podtui.text.terminal_text import plural
from podtui.why.admission import ADMISSION
from podtui.why.cases import Case, cases, ordered
from podtui.why.container_config import CONTAINER_CONFIG
from podtui.why.endings import ENDINGS, STOPPED
from podtui.why.folder import (
    FOLDER,
    errors_of,
    fixes_of,
    is_unusable,
    manifest_evidence,
    manifest_match,
)
from podtui.why.images import IMAGES
from podtui.why.node_labels import labels_to_fit
from podtui.why.pod_rules import ENGINE, REMAINING, TERMINATIONS, engine_advice
from podtui.why.probes import KILLED, NOT_READY, PENDING
from podtui.why.sandbox import SANDBOX
from podtui.why.scheduling import NO_LABEL, SCHEDULING
from podtui.why.starting import CREATING, STARTING
from podtui.why.types import FINE, Diagnosis, Evidence, Facts, Fix, Kind, Match, Rule

# All rules in the order in which they are tried: root causes come first.
BEFORE: tuple[Rule[Facts], ...] = (*SCHEDULING, ENGINE, FOLDER, *ADMISSION, *TERMINATIONS, *SANDBOX)
"""Rules for the whole pod, tried before those of its containers."""
EACH: tuple[Rule[Case], ...] = (*IMAGES, *CONTAINER_CONFIG, *STARTING, *KILLED, *ENDINGS)
"""Rules for a container that is not running, or that terminated recently."""
RUNNING: tuple[Rule[Case], ...] = (*NOT_READY, *PENDING, CREATING)
"""Rules for a container that is running or starting."""
AFTER: tuple[Rule[Facts], ...] = REMAINING
"""Rules for the whole pod, tried if no rule of a container matched."""

REJECTIONS: Final = frozenset({"NodeLabelMissing", "NodeAffinity"})
"""The causes of a rejection for the labels of the node."""
MOST_EVENTS = 6
MOST_LINES = 8
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
T = TypeVar("T", Facts, Case)


def diagnose(facts: Facts) -> Diagnosis:
    """Return the diagnosis of a pod. Never raises, whatever an API server reports of the pod."""
    diagnosis = replace(_cause(facts), health=pod_health(facts.pod, facts.now).health)
    if diagnosis.cause in REJECTIONS or (
        diagnosis.cause == "Unschedulable" and NO_LABEL in diagnosis.title
    ):
        return replace(diagnosis, node_labels=labels_to_fit(facts.pod, facts.node))
    return diagnosis


def _cause(facts: Facts) -> Diagnosis:
    first = _of_pod(BEFORE, facts)
    if first is not None:
        return first
    waiting: Diagnosis | None = None
    for case in cases(facts):
        diagnosis = _of_container(case)
        if diagnosis is not None and diagnosis.kind is Kind.FAILURE:
            return diagnosis
        waiting = waiting or diagnosis
    last = _of_pod(AFTER, facts)
    if waiting is not None and (last is None or last.kind is Kind.WAIT):
        return waiting
    return _with_remarks(last, facts.manifest) if last else waiting or _no_information()


def _no_information() -> Diagnosis:
    return Diagnosis(cause="Unknown", kind=Kind.WAIT, title="No information yet.")


def diagnose_manifest(manifest: Manifest) -> Diagnosis:
    """Return the reason why a file produces no pod, or that it is fine or ignored."""
    if not is_unusable(manifest):
        ignored = manifest.status.state is ManifestState.IGNORED
        title = f"It is ignored: {manifest.status.message}" if ignored else "It is in use."
        fine = Diagnosis(cause="ManifestFine", kind=Kind.NONE, title=title)
        return _with_remarks(fine, manifest)
    match = manifest_match(manifest)
    diagnosis = _filled(FOLDER, match, {})
    return _at_error(replace(diagnosis, fixes=fixes_of(manifest)), manifest)


def _with_remarks(diagnosis: Diagnosis, manifest: Manifest | None) -> Diagnosis:
    """Add the mechanical fixes of a file's warnings if there is nothing else to do."""
    if manifest is None or diagnosis.fixes or diagnosis.kind not in FINE:
        return diagnosis
    accepted = manifest.status.state is ManifestState.ACCEPTED
    fixes = fixes_of(manifest) if accepted else ()
    if not fixes:
        return diagnosis
    return replace(
        diagnosis, fixes=fixes, evidence=(*diagnosis.evidence, *manifest_evidence(manifest))
    )


def _at_error(diagnosis: Diagnosis, manifest: Manifest) -> Diagnosis:
    """Use the position of the file's first error, which is more precise than any other."""
    evidence = manifest_evidence(manifest)
    first = next(iter(errors_of(manifest)), None)
    if first is None or first.line is None:
        return replace(diagnosis, evidence=evidence)
    position = (first.line, first.column or 1)
    return replace(diagnosis, evidence=evidence, field=first.field, position=position, written=True)


def _of_pod(rules: Sequence[Rule[Facts]], facts: Facts) -> Diagnosis | None:
    rule, match = _first(rules, facts)
    if rule is None or match is None:
        return None
    diagnosis = _filled(rule, match, {"container": ""})
    if rule is FOLDER and facts.manifest is not None:
        fixes = fixes_of(facts.manifest)
        return _at_error(replace(diagnosis, fixes=fixes), facts.manifest)
    evidence = (*_pod_state(facts), *_events(facts.events, rule.events))
    return _placed(replace(diagnosis, evidence=evidence), rule, facts, facts, match, match.field)


def _of_container(case: Case) -> Diagnosis | None:
    if case.completed:
        return None
    rules = RUNNING if case.stopped else (*EACH, *RUNNING)
    rule, match = _first(rules, case)
    if rule is None or match is None:
        return None
    diagnosis = _filled(rule, match, {"container": case.name, "image": case.container.image})
    events = _events(case.events, rule.events)
    evidence = (*_state(case), *match.evidence, *events, *_kill(case), *_lines(case, rule))
    field = match.field or ((*case.path, *rule.field) if rule.field else case.path)
    diagnosis = replace(
        diagnosis,
        evidence=evidence,
        container=case.name,
        wants_log=rule.logs,
        log_problem=case.facts.log_problems.get(case.name, "") if rule.logs else "",
    )
    return _placed(diagnosis, rule, case.facts, case, match, field)


def _first(rules: Iterable[Rule[T]], subject: T) -> tuple[Rule[T] | None, Match | None]:
    for rule in rules:
        match = rule.match(subject)
        if match is not None:
            return rule, match
    return None, None


def _filled(rule: Rule[T], match: Match, more: dict[str, str]) -> Diagnosis:
    """Fill in the rule's templates; sentences that become empty are left out."""
    values = {**more, **match.values}
    sentences = (template.format_map(values).strip() for template in rule.sentences)
    return Diagnosis(
        cause=rule.id,
        kind=rule.kind,
        title=rule.title.format_map(values).strip(),
        brief=rule.brief.format_map(values).strip(),
        sentences=tuple(sentence for sentence in sentences if sentence),
        advice=rule.advice.format_map(values),
        docs=rule.docs,
    )


def _placed(
    diagnosis: Diagnosis, rule: Rule[T], facts: Facts, subject: T, match: Match, field: Path | None
) -> Diagnosis:
    """Add the line of the manifest to change, and the mechanical fixes for it."""
    path = rule.field if field is None else field
    if not path or diagnosis.kind in FINE:
        return diagnosis
    diagnosis = replace(diagnosis, field=field_text(path))
    manifest = facts.manifest
    if manifest is None or manifest.status.state is not ManifestState.ACCEPTED:
        return diagnosis
    source = Source.of(manifest)
    if source is None:
        # A text that may contain a Secret is not known, but its positions are.
        position, written = find_place(read_places(manifest.status.places), path)
        return replace(diagnosis, position=position, written=written)
    position, written = source.find(path)
    fixes = _fixes(rule, subject, match, source)
    return replace(diagnosis, position=position, written=written, fixes=fixes)


def _fixes(rule: Rule[T], subject: T, match: Match, source: Source) -> tuple[Fix, ...]:
    if rule.fixes is None:
        return ()
    return tuple(
        fix
        for fix in rule.fixes(subject, match, source)
        if fix is not None and (fix.edits or fix.line)
    )


# --- evidence


def _pod_state(facts: Facts) -> Iterator[Evidence]:
    status = facts.pod.status
    if status.message:
        yield Evidence("pod", status.message.strip(), warning=status.phase == "Failed")


def _state(case: Case) -> Iterator[Evidence]:
    ending = case.ending
    if ending is not None:
        reason = f" ({ending.reason})" if ending.reason else ""
        times = f", {plural(case.restarts, 'restart')}" if case.restarts else ""
        text = f"{case.name} exited with code {ending.exitCode}{reason}{times}"
        message = f": {ending.message.strip()}" if ending.message.strip() else ""
        warning = ending.exitCode != 0
        yield Evidence("state", text + message, ending.finishedAt or "", warning=warning)
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
        kind=Kind.WAIT,
        health=Health.PENDING,
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
