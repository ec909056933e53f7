"""A plan as text: the effect on each pod, its reason, and the line in the manifest. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

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
from podtui.tui.views.labels import name_label
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.sanitize import clean

MOST: Final = 40
"""Maximum changed fields, and diagnostics, that are listed."""
_EMPTY: Final = "—"


def plan_lines(plan: Plan, ended: Collection[tuple[str, str]] = ()) -> list[Line]:
    """Return the errors if they make the text unusable, then the effects, then the warnings.
    ``ended`` are the pods, by namespace and name, that have ended already.
    """
    errors = [d for d in plan.diagnostics if d.severity is Severity.ERROR]
    warnings = [d for d in plan.diagnostics if d.severity is not Severity.ERROR]
    lines: list[Line] = []
    if not plan.usable:
        lines.append((Span("✗ ", "error"), Span(_unusable(plan), "error")))
        lines += _limited([_diagnostic(d) for d in errors], "more errors")
    effects: list[Line] = []
    for pod in plan.pods:
        # The first line says what an unusable text changes: nothing.
        if plan.usable or pod.outcome is not PlanOutcome.UNCHANGED:
            effects += pod_lines(pod, has_ended=(pod.namespace, pod.name) in ended)
    for item in plan.objects:
        effects.append(object_line(item))
    for file in plan.files:
        effects += file_lines(file)
    if plan.usable and not effects:
        effects.append((Span("= ", "muted"), Span("Nothing changes.", "soft")))
    if lines and effects:
        lines.append(())
    lines += effects
    if warnings:
        lines.append(())
        lines += _limited([_diagnostic(d) for d in warnings], "more warnings")
    return lines


def _unusable(plan: Plan) -> str:
    if plan.state is ManifestState.DUPLICATE:
        return f"This file would be ignored: {clean(plan.message)}"
    if plan.state is ManifestState.LAST_GOOD:
        return "This manifest is invalid; the previous version keeps running."
    return "This manifest is invalid."


def _limited(lines: list[Line], what: str) -> Iterator[Line]:
    yield from lines[:MOST]
    if len(lines) > MOST:
        yield (Span(f"  … {len(lines) - MOST} {what}", "muted"),)


def _diagnostic(diagnostic: Diagnostic) -> Line:
    error = diagnostic.severity is Severity.ERROR
    spans = [
        Span("  ✗ " if error else "  ▲ ", "error" if error else "warning"),
        Span(clean(diagnostic.message)),
    ]
    if diagnostic.fix:
        spans.append(Span(f" → {clean(diagnostic.fix)}", "good"))
    if diagnostic.line is not None:
        column = f":{diagnostic.column}" if diagnostic.column is not None else ""
        spans.append(Span(f"  line {diagnostic.line}{column}", "key"))
    field = clean(diagnostic.field)
    if field and field not in diagnostic.message:
        spans.append(Span(f"  {field}", "muted"))
    return tuple(spans)


def pod_lines(plan: PodPlan, *, has_ended: bool = False) -> Iterator[Line]:
    """Return the effect on one pod, and the fields that cause it."""
    name = Span(name_label(plan.namespace, plan.name), "name")
    glyph, tone, text = _words(plan, has_ended=has_ended)
    yield (Span(f"{glyph} ", tone), name, Span(f" {text}"))
    if plan.rejection:
        yield (
            Span("  ✗ ", "error"),
            Span("this node would not admit it: ", "error"),
            Span(clean(plan.rejection)),
        )
    yield from _limited([_change(change) for change in plan.changes], "more fields")


def _words(plan: PodPlan, *, has_ended: bool) -> tuple[str, str, str]:
    """Return glyph, tone and words."""
    match plan.outcome:
        case PlanOutcome.UNCHANGED:
            return "=", "muted", "keeps running: no effective change."
        case PlanOutcome.NEW:
            return "+", "good", "is new." if plan.rejection else "is new and starts."
        case PlanOutcome.REPLACED:
            return (
                "↻",
                "warning",
                f"is replaced: {_ends(plan, 'the old one', has_ended)}, then a new one starts.",
            )
        case PlanOutcome.REMOVED:
            return (
                "−",
                "error",
                f"is removed: {_ends(plan, 'it', has_ended)}, then its containers are removed.",
            )
        case PlanOutcome.IN_PLACE if plan.restarts:
            names = ", ".join(map(clean, plan.restarts))
            verb = "restarts" if len(plan.restarts) == 1 else "restart"
            return "↻", "warning", f"keeps running (fixed UID); {names} {verb}."
        case PlanOutcome.IN_PLACE:
            return "~", "init", "keeps running (fixed UID); nothing restarts now."


def _ends(plan: PodPlan, what: str, has_ended: bool) -> str:
    if has_ended:
        return f"{what} has ended"
    grace = f"within {plan.grace} s" if plan.grace else "immediately"
    return f"{what} is terminated {grace}"


def _change(change: FieldChange) -> Line:
    spans = [
        Span("    "),
        Span(clean(change.field).removeprefix("spec."), "key"),
        Span("  "),
        Span(clean(change.old) or _EMPTY, "muted"),
        Span(" → "),
        Span(clean(change.new) or _EMPTY, "name"),
    ]
    if change.line is not None:
        was = "was line" if change.gone else "line"
        spans.append(Span(f"  ({was} {change.line})", "muted"))
    if change.effect:
        spans.append(Span(f"  {clean(change.effect)}", "init"))
    return tuple(spans)


def object_line(item: ObjectPlan) -> Line:
    """Return the effect on a ConfigMap or Secret, and the pods that read it."""
    name = f"{item.kind} {clean(item.namespace)}/{clean(item.name)}"
    readers = ", ".join(map(clean, item.readers))
    glyph, tone, text = {
        PlanOutcome.NEW: ("+", "good", "is new"),
        PlanOutcome.REMOVED: ("−", "error", "is removed"),
    }.get(item.outcome, ("~", "init", "changes"))
    follow = ""
    if readers and item.outcome is PlanOutcome.REMOVED:
        follow = f"; {readers} refers to it"
    elif readers:
        follow = f"; used by {readers}: volumes are updated soon, variables when containers restart"
    return (Span(f"{glyph} ", tone), Span(name, "name"), Span(f" {text}{follow}."))


def file_lines(file: FilePlan) -> Iterator[Line]:
    """Return the changed state of another file: accepted, or no longer accepted."""
    good = file.new is ManifestState.ACCEPTED
    yield (
        Span("✓ " if good else "▲ ", "good" if good else "warning"),
        Span(clean(file.name), "name"),
        Span(f" becomes {file.new} (now {file.old})"),
        Span(f": {clean(file.message)}" if file.message and not good else "."),
    )


def is_disruptive(plans: Iterable[Plan]) -> bool:
    """Return whether the plans end a running pod or container."""
    ends = (PlanOutcome.REPLACED, PlanOutcome.REMOVED)
    return any(pod.outcome in ends or pod.restarts for plan in plans for pod in plan.pods)


def changes_text_only(plan: Plan) -> bool:
    """Return whether nothing but the text of the file would change."""
    return (
        plan.usable
        and all(pod.outcome is PlanOutcome.UNCHANGED for pod in plan.pods)
        and not (plan.objects or plan.files)
    )


def outcome_text(plan: Plan) -> str:
    """Return one short line about an applied plan."""
    message_text = {
        PlanOutcome.NEW: "starts",
        PlanOutcome.REPLACED: "is replaced",
        PlanOutcome.REMOVED: "is removed",
        PlanOutcome.IN_PLACE: "changes in place",
        PlanOutcome.UNCHANGED: "keeps running",
    }
    pods = ", ".join(f"{clean(pod.name)} {message_text[pod.outcome]}" for pod in plan.pods)
    objects = ", ".join(f"{item.kind} {clean(item.name)}" for item in plan.objects)
    return "; ".join(part for part in (pods, objects) if part) or "saved"
