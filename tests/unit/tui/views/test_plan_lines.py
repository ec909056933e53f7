"""Plans as text."""

from __future__ import annotations

import pytest

from podtui.api.local import (
    Diagnostic,
    FieldChange,
    FilePlan,
    ManifestState,
    ObjectPlan,
    Plan,
    PlanOutcome,
    PodPlan,
    Severity,
)
from podtui.api.v1 import ObjectMeta
from podtui.tui.views.plan import MOST, changes_text_only, is_disruptive, outcome_text, plan_lines

IMAGE = FieldChange(
    field="spec.containers[0].image", old="busybox:1.35", new="busybox:1.36", line=14, column=7
)


def plan(*pods: PodPlan, **fields: object) -> Plan:
    return Plan(
        metadata=ObjectMeta(name="web.yaml"),
        path="/m/web.yaml",
        pods=pods,
        **fields,  # type: ignore[arg-type]
    )


def pod(outcome: PlanOutcome, *changes: FieldChange, **fields: object) -> PodPlan:
    return PodPlan(
        outcome=outcome,
        namespace="default",
        name="web",
        changes=changes,
        **fields,  # type: ignore[arg-type]
    )


def texts(of: Plan) -> list[str]:
    return ["".join(span.text for span in line) for line in plan_lines(of)]


def test_a_replaced_pod_shows_reason_and_position() -> None:
    assert texts(plan(pod(PlanOutcome.REPLACED, IMAGE, grace=30))) == [
        "↻ web is replaced: the old one is terminated within 30 s, then a new one starts.",
        "    containers[0].image  busybox:1.35 → busybox:1.36  (line 14)",
    ]


@pytest.mark.parametrize(
    ("of", "first"),
    [
        (pod(PlanOutcome.UNCHANGED), "= web keeps running: no effective change."),
        (pod(PlanOutcome.NEW), "+ web is new and starts."),
        (
            pod(PlanOutcome.REMOVED, grace=0),
            "− web is removed: it is terminated immediately, then its containers are removed.",
        ),
        (pod(PlanOutcome.IN_PLACE), "~ web keeps running (fixed UID); nothing restarts now."),
        (pod(PlanOutcome.IN_PLACE, restarts=("a", "b")),
         "↻ web keeps running (fixed UID); a, b restart."),
    ],
)  # fmt: skip
def test_each_outcome_has_a_message(of: PodPlan, first: str) -> None:
    assert texts(plan(of))[0] == first


def test_a_rejection_by_the_node_is_shown_below() -> None:
    lines = texts(plan(pod(PlanOutcome.NEW, rejection="OutOfcpu: too much")))
    assert lines == ["+ web is new.", "  ✗ this node would not admit it: OutOfcpu: too much"]


def test_with_a_fixed_uid_effects_follow_their_fields() -> None:
    change = FieldChange(field="spec.restartPolicy", old="Always", new="", gone=True, line=3,
                         effect="at once, nothing restarts")  # fmt: skip
    assert texts(plan(pod(PlanOutcome.IN_PLACE, change)))[1] == (
        "    restartPolicy  Always → —  (was line 3)  at once, nothing restarts"
    )


def test_an_invalid_text_is_reported_first_with_line_and_column() -> None:
    wrong = Diagnostic(severity=Severity.ERROR, path="/m/web.yaml", code="UnknownField",
                       message='unknown field "imago"', line=9, column=7,
                       field="spec.containers[0].imago", fix="image")  # fmt: skip
    hint = Diagnostic(severity=Severity.WARNING, path="/m/web.yaml", code="X", message="hm")
    lines = texts(plan(pod(PlanOutcome.UNCHANGED), usable=False, state=ManifestState.LAST_GOOD,
                      diagnostics=(hint, wrong)))  # fmt: skip
    assert lines == [
        "✗ This manifest is invalid; the previous version keeps running.",
        '  ✗ unknown field "imago" → image  line 9:7  spec.containers[0].imago',
        "",
        "  ▲ hm",
    ]


def test_a_duplicate_names_the_other_file() -> None:
    lines = texts(plan(usable=False, state=ManifestState.DUPLICATE, message="given by a.yaml too"))
    assert lines[0] == "✗ This file would be ignored: given by a.yaml too"


def test_config_maps_are_listed_beside_pods() -> None:
    conf = ObjectPlan(outcome=PlanOutcome.IN_PLACE, kind="ConfigMap", namespace="default", name="c",
                      readers=("web",))  # fmt: skip
    file = FilePlan(name="api.yaml", old=ManifestState.ACCEPTED, new=ManifestState.INVALID,
                    message="it needs c")  # fmt: skip
    assert texts(plan(objects=(conf,), files=(file,))) == [
        (
            "~ ConfigMap default/c changes; used by web: volumes are updated soon, variables when"
            " containers restart."
        ),
        "▲ api.yaml becomes Invalid (now Accepted): it needs c",
    ]


def test_an_empty_plan_says_so() -> None:
    assert texts(plan()) == ["= Nothing changes."]
    assert changes_text_only(plan(pod(PlanOutcome.UNCHANGED)))
    assert not changes_text_only(plan(usable=False))


def test_outside_text_is_stripped_and_limited() -> None:
    evil = FieldChange(field="spec.\x1b[31m", old="\x1b]0;x\x07", new="\u202eabc")
    many = plan(pod(PlanOutcome.REPLACED, evil, *[IMAGE] * 100))
    lines = texts(many)
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 2 + MOST
    assert lines[-1] == "  … 61 more fields"


def test_only_terminations_are_disruptive() -> None:
    assert is_disruptive([plan(pod(PlanOutcome.REPLACED))])
    assert is_disruptive([plan(pod(PlanOutcome.IN_PLACE, restarts=("a",)))])
    assert not is_disruptive([plan(pod(PlanOutcome.NEW), pod(PlanOutcome.IN_PLACE))])


def test_the_result_fits_one_line() -> None:
    conf = ObjectPlan(outcome=PlanOutcome.NEW, kind="ConfigMap", namespace="default", name="c")
    assert outcome_text(plan(pod(PlanOutcome.REPLACED), objects=(conf,))) == (
        "web is replaced; ConfigMap c"
    )
    assert outcome_text(plan()) == "saved"
