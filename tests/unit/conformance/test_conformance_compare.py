"""The comparer of the conformance run finds every change of a record, and its rules hide no more
than they describe."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from conformance.compare import REMOVED, View, compare, leaves, masked, view
from conformance.departures import DEPARTURES, departure
from conformance.drive import Outcome
from conformance.golden import ROOT, Case, Json, Occurrence, Record, load
from conformance.mirror import MIRROR, compare_node, compare_records
from conformance.report import as_json, document, evaluate, rows
from conformance.rules import EVENT, FLEETING, LOG, MASKS, REPEATS, UNORDERED
from conformance.timeline import seen_of, status_line

CASES = {case.name: case for case in load()}
WITH_POD = [case for case in CASES.values() if case.record.pod is not None]


@functools.cache
def known(name: str) -> View:
    return view(CASES[name].record, strict=True)


def seen(record: Record) -> View:
    """Return the normalized record; those of the cases are computed once."""
    name = next((name for name, case in CASES.items() if case.record is record), None)
    return view(record, strict=True) if name is None else known(name)


def differs(ours: Record, theirs: Record) -> list[str]:
    return [str(one) for one in compare(seen(ours), seen(theirs))]


def edited(record: Record, change: Callable[[Json], None]) -> Record:
    """Return the record with its pod changed in place by ``change``."""
    assert record.pod is not None
    pod = json.loads(json.dumps(record.pod))  # a copy, quicker than copy.deepcopy
    change(pod)
    return replace(record, pod=pod)


def all_cases(
    cases: Iterable[Case], missed: Callable[[Record], Iterable[object]]
) -> list[tuple[str, object]]:
    """Return the changes that the comparer misses in the records of all cases, with the case's
    name.
    """
    return [(case.name, one) for case in cases for one in missed(case.record)]


def parents(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every leaf."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list) and item:
            yield from parents(item)
        else:
            yield value, key


def another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}x"


def neighbours(events: tuple[Occurrence, ...]) -> Iterator[tuple[int, tuple[Occurrence, ...]]]:
    """Return the events with two adjacent ones swapped that differ in more than time."""
    for at, (one, two) in enumerate(itertools.pairwise(events)):
        if replace(one, at=two.at) != two:
            yield at, (*events[:at], two, one, *events[at + 2 :])


def test_a_record_agrees_with_itself() -> None:
    assert [name for name, case in CASES.items() if differs(case.record, case.record)] == []


def test_all_cases_are_there() -> None:
    assert len(CASES) == 38
    assert sum(len(case.record.before) for case in CASES.values()) > 200


# --- statuses


def missed_value_changes(record: Record) -> Iterator[str]:
    changed = edited(record, lambda _: None)
    assert changed.pod is not None
    for part in ("status", "spec"):
        for holder, key in list(parents(changed.pod[part])):
            value, holder[key] = holder[key], another(holder[key])
            # An engine's message about an unreachable registry is masked up to its end.
            if "ErrImagePull: " not in str(value) and not differs(changed, record):
                yield f"{part}: {key} of {holder}"
            holder[key] = value


def test_every_value_of_a_pod_is_compared() -> None:
    assert all_cases(WITH_POD, missed_value_changes) == []


def missed_value_removals(record: Record) -> Iterator[str]:
    changed = edited(record, lambda _: None)
    assert changed.pod is not None
    for holder, key in list(parents(changed.pod["status"])):
        value = holder.pop(key)
        if not differs(changed, record):
            yield key
        if isinstance(holder, list):
            holder.insert(key, value)
        else:
            holder[key] = value


def test_a_missing_value_is_a_difference() -> None:
    assert all_cases(WITH_POD, missed_value_removals) == []


@pytest.mark.parametrize("key", ["conditions", "containerStatuses"])
def test_the_order_of_a_list_is_compared(key: str) -> None:
    record = CASES["emptydir"].record
    assert differs(edited(record, lambda pod: pod["status"][key].reverse()), record)


def test_times_addresses_and_ids_are_ignored() -> None:
    record = CASES["always-exit0"].record

    def change(pod: Json) -> None:
        status = pod["status"]["containerStatuses"][0]
        status["containerID"] = "docker://" + "0" * 64
        status["imageID"] = "docker-pullable://busybox@sha256:" + "1" * 64
        status["image"] = "busybox:latest"
        status["state"]["terminated"]["finishedAt"] = "2030-01-02T03:04:05Z"
        status["state"]["terminated"]["containerID"] = "docker://" + "0" * 64
        pod["status"]["podIP"] = pod["status"]["podIPs"][0]["ip"] = "172.17.0.2"

    assert differs(edited(record, change), record) == []


def test_only_the_pods_uid_is_ignored() -> None:
    record = CASES["liveness-fail"].record
    assert record.pod is not None
    old = record.pod["metadata"]["uid"]

    def renamed(events: tuple[Occurrence, ...]) -> tuple[Occurrence, ...]:
        return tuple(replace(e, message=e.message.replace(old, "f" * 32)) for e in events)

    def change(pod: Json) -> None:
        pod["metadata"]["uid"] = "f" * 32
        waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
        waiting["message"] = waiting["message"].replace(old, "f" * 32)

    other = replace(edited(record, change), before=renamed(record.before))
    assert differs(other, record) == []
    assert differs(replace(record, before=renamed(record.before)), record)


def test_host_addresses_are_compared_only_in_strict_mode() -> None:
    record = CASES["plain"].record
    ours = edited(record, lambda pod: pod["status"].update(hostIP="192.0.2.7"))
    assert differs(ours, record)
    assert not compare(view(ours, strict=False), view(record, strict=False))


# --- events


def missed_event_removals(record: Record) -> Iterator[Occurrence]:
    for key in ("before", "after"):
        events = getattr(record, key)
        for at, event in enumerate(events):
            if not differs(replace(record, **{key: events[:at] + events[at + 1 :]}), record):
                again = [
                    e for e in events if (e.reason, e.message) == (event.reason, event.message)
                ]
                after = key == "after" and event.reason == "Unhealthy"
                repeats = event.reason in ("BackOff", "Unhealthy", "FailedMount")
                if not (repeats and (after or len(again) > 1)):
                    yield event


def test_a_missing_event_is_a_difference_unless_repeated() -> None:
    assert all_cases(CASES.values(), missed_event_removals) == []


def missed_message_changes(record: Record) -> Iterator[tuple[dict[str, str], Occurrence]]:
    for at, event in enumerate(record.before):
        for change in (
            {"reason": "Other"},
            {"type": "Normal" if event.type == "Warning" else "Warning"},
            {"field_path": "spec.containers{other}"},
            {"message": f"x{event.message}"},
        ):
            events = (*record.before[:at], replace(event, **change), *record.before[at + 1 :])
            if not differs(replace(record, before=events), record):
                yield change, event


def test_a_changed_event_message_is_a_difference() -> None:
    assert all_cases(CASES.values(), missed_message_changes) == []


def missed_order_changes(record: Record) -> Iterator[tuple[Occurrence, ...]]:
    for at, events in neighbours(record.before):
        if not differs(replace(record, before=events), record):
            yield record.before[at : at + 2]
    for at, events in neighbours(record.after):
        two = record.after[at : at + 2]
        if not {e.reason for e in two} <= {"Killing", "Unhealthy"} and not differs(
            replace(record, after=events), record
        ):
            yield two


def test_another_order_of_events_is_a_difference() -> None:
    assert all_cases(CASES.values(), missed_order_changes) == []


def missed_extra_events(record: Record) -> Iterator[int]:
    extra = Occurrence(0.0, "Normal", "Pulled", "spec.containers{main}", "again")
    for at in range(len(record.before) + 1):
        events = (*record.before[:at], extra, *record.before[at:])
        if not differs(replace(record, before=events), record):
            yield at


def test_an_extra_event_is_a_difference() -> None:
    assert all_cases(CASES.values(), missed_extra_events) == []


def test_the_number_of_failed_probes_before_a_restart_is_compared() -> None:
    for name in ("liveness-fail", "startup-fail", "startup-ok"):
        record = CASES[name].record
        at = next(i for i, e in enumerate(record.before) if e.reason == "Unhealthy")
        twice = (*record.before[:at], record.before[at], *record.before[at:])
        assert differs(replace(record, before=twice), record)


def test_repeated_events_differ_from_single_events() -> None:
    record = CASES["readiness-fail"].record
    failures = [e for e in record.before if e.reason == "Unhealthy"]
    others = tuple(e for e in record.before if e.reason != "Unhealthy")
    assert differs(replace(record, before=(*others, *failures[:2])), record) == []
    assert differs(replace(record, before=(*others, failures[0])), record)


def test_events_before_and_after_the_removal_are_separate() -> None:
    record = CASES["plain"].record
    moved = replace(record, before=(*record.before, *record.after), after=())
    assert differs(moved, record)
    assert REMOVED in view(record, strict=True)["events"]


# --- the history of a pod


def test_a_missing_status_is_a_difference() -> None:
    wrong: list[tuple[str, str]] = []
    for name, case in CASES.items():
        theirs = case.record.statuses
        assert seen_of(name, theirs, theirs) == theirs
        fleeting = [rule.text for rule in FLEETING if rule.case == name]
        for at, line in enumerate(theirs):
            seen = seen_of(name, theirs, (*theirs[:at], *theirs[at + 1 :]))
            if seen == theirs:
                found = any(text in line for text in fleeting)
            else:
                found = bool(differs(replace(case.record, statuses=seen), case.record))
            if not found:
                wrong.append((name, line))
    assert wrong == []


def test_the_order_of_statuses_is_compared_but_not_extra_ones() -> None:
    theirs = CASES["plain"].record.statuses
    assert len(theirs) == 3
    assert seen_of("plain", theirs, [theirs[0], "other", *theirs[1:]]) == theirs
    assert seen_of("plain", theirs, theirs[::-1]) != theirs


def test_a_line_of_a_status_has_what_a_record_has() -> None:
    for case in WITH_POD:
        pod = case.record.pod
        assert pod is not None
        last = status_line(pod["status"], pod["metadata"]["uid"])
        assert last == case.record.statuses[-1]
        assert "\n" not in last


# --- the rest of a record


def test_output_refusals_and_pods_are_compared() -> None:
    downward = CASES["downward"].record
    (name,) = downward.logs
    text = downward.logs[name]
    assert differs(replace(downward, logs={name: text.replace("REF=", "REF=x")}), downward)
    assert differs(replace(downward, logs={name.replace("0", "1"): text}), downward)
    assert not differs(replace(downward, logs={name: re.sub("LIM=2", "LIM=16", text)}), downward)
    refused = CASES["configmap-env"].record
    assert differs(replace(refused, refusal=""), refused)
    two = CASES["multi-doc"].record
    assert differs(replace(two, pod_names=(*two.pod_names, "multi-doc-two-refnode")), two)
    assert differs(CASES["plain"].record, replace(CASES["plain"].record, pod=None))


# --- the rules and the list of departures themselves


def all_values() -> Iterator[tuple[str, str]]:
    for case in CASES.values():
        for one in (*case.record.before, *case.record.after):
            yield EVENT, one.message
        for text in case.record.logs.values():
            yield from ((LOG, line) for line in text.splitlines())
        if case.record.pod is not None:
            yield from leaves(case.record.pod["status"])


@pytest.mark.parametrize("rule", [rule for rule in MASKS if rule.pattern != r"\n$"], ids=str)
def test_each_mask_matches_something(rule: Any) -> None:
    assert any(re.search(rule.where, p) and re.search(rule.pattern, v) for p, v in all_values())


def test_a_trailing_line_feed_of_an_event_is_ignored() -> None:
    assert masked(EVENT, "No such file or directory\n", "") == "No such file or directory"
    assert masked("message", '"a\\n"', "") == '"a\\n"'


@pytest.mark.parametrize("rule", [*REPEATS, *UNORDERED], ids=str)
def test_each_event_rule_matches_something(rule: Any) -> None:
    patterns = getattr(rule, "group", None) or (rule.pattern,)
    lines = [line for case in CASES.values() for line in view(case.record, strict=True)["events"]]
    for pattern in patterns:
        assert any(re.search(pattern, line) for line in lines), pattern


def test_departures_are_those_of_the_document() -> None:
    text = (ROOT / "docs" / "departures.md").read_text()
    numbers = {int(n) for n in re.findall(r"^(?:\| )?([0-9]+)(?:\.| \|)", text, re.MULTILINE)}
    assert {one.number for one in DEPARTURES} <= numbers
    assert {one.case for one in DEPARTURES} <= CASES.keys()


def outcome(ours: Record, theirs: Record) -> Outcome:
    return Outcome(compare(view(ours, strict=True), view(theirs, strict=True)), None)


def test_a_departure_explains_its_lines_and_no_others() -> None:
    record = CASES["hostnetwork"].record

    def address(pod: Json) -> None:
        pod["status"].update(podIP="192.0.2.7", podIPs=[{"ip": "192.0.2.7"}])

    def more(pod: Json) -> None:
        address(pod)
        pod["status"]["phase"] = "Failed"

    listed = evaluate("hostnetwork", "default", outcome(edited(record, address), record))
    assert (listed.verdict, listed.marks["phase"]) == ("departs (5)", "5")
    strict = evaluate("hostnetwork", "strict", outcome(edited(record, address), record))
    assert (strict.verdict, strict.passed) == ("DIFFERS", False)
    worse = evaluate("hostnetwork", "default", outcome(edited(record, more), record))
    assert (worse.verdict, worse.marks["phase"]) == ("DIFFERS", "≠")
    assert len(worse.bad) == 2
    gone = evaluate("hostnetwork", "default", outcome(record, record))
    assert (gone.verdict, gone.passed) == ("no longer departs", False)
    elsewhere = evaluate("plain", "default", outcome(edited(record, address), record))
    assert elsewhere.verdict == "DIFFERS"


def test_a_refused_feature_removes_lines_and_adds_none() -> None:
    record = CASES["unknown-field"].record
    found = compare(view(edited(record, lambda p: p["status"].update(phase="x")), strict=False),
                    view(record, strict=False))  # fmt: skip
    explained = [departure("unknown-field", one, strict=False) for one in found]
    assert explained == [4, None]


# --- the records of the API


def test_a_record_of_the_api_agrees_with_itself_and_not_with_another() -> None:
    pod = json.loads((MIRROR / "plain" / "pod.json").read_text())
    events = json.loads((MIRROR / "plain" / "events.json").read_text())["items"]
    assert compare_records("plain", pod, events) == ()
    assert compare_records("prestop", pod, events) is None
    for change in (
        lambda: pod["metadata"]["labels"].update(case="x"),
        lambda: pod["metadata"]["annotations"].pop("kubernetes.io/config.mirror"),
        lambda: pod["metadata"]["ownerReferences"][0].update(controller=False),
        lambda: pod["spec"].update(dnsPolicy="Default"),
        lambda: events[0].update(reportingComponent="x"),
        lambda: events[1]["involvedObject"].update(fieldPath=""),
    ):
        before = len(compare_records("plain", pod, events) or ())
        change()
        assert len(compare_records("plain", pod, events) or ()) > before


def test_node_conditions_are_compared() -> None:
    node = json.loads((MIRROR / "node.json").read_text())
    assert compare_node(node) == ()
    node["status"]["conditions"].reverse()
    assert compare_node(node)


# --- the report


def test_the_table_and_the_document_agree_with_the_results() -> None:
    plain, other = CASES["plain"].record, CASES["hostnetwork"].record
    results = {
        "plain": [evaluate("plain", "default", outcome(plain, plain)),
                  evaluate("plain", "strict", outcome(other, plain))],
    }  # fmt: skip
    head, row = rows(results)
    cells = dict(zip(head, row, strict=True))
    assert (cells["case"], cells["default"], cells["strict"]) == ("plain", "agrees", "DIFFERS")
    assert (cells["pods"], cells["events"]) == ("=/≠", "=")
    text = document(results, ())
    assert "default: 1 of 1 agree" in text
    assert "strict: 0 of 1 agree" in text
    assert text == document(results, ())
    assert '"theirs": "plain-refnode"' in as_json(results, ())
