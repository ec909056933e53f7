"""The explanation of a pod or another object, as lines, and in one line for a pod's row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from podtui.api.health import Health
from podtui.api.local import Manifest, ManifestState
from podtui.api.printing import ending
from podtui.api.times import epoch, short_duration
from podtui.api.v1 import Event, Node, Pod
from podtui.editing.edits import BREAK
from podtui.tui.model.connection_checks import ConnectionChecks
from podtui.tui.model.model import Model
from podtui.tui.views.labels import manifest_message, place_of
from podtui.tui.views.pod_status import FAMILIES, GLYPHS, Family, is_rejected
from podtui.tui.widgets.cells import Line, Span, line_width, prefix, sized, width_of, wrap
from podtui.tui.widgets.format import ago
from podtui.tui.widgets.sanitize import clean
from podtui.why import Diagnosis, EditError, Evidence, Facts, Fix, Kind, diagnose, diff_lines
from podtui.why.diagnose import diagnose_waiting
from podtui.why.inventory import Inventory
from podtui.why.node_pods import NodePods, by_node
from podtui.why.report import advice_word

WIDE: Final = 130
"""Width from which manifest and fix are beside the evidence."""

AROUND: Final = 2
"""Lines of context before and after the relevant line of the manifest."""

_GAP: Final = 3

_INDENT: Final = 2

_LABEL: Final = 9

_TONES: Final = {"-": "error", "+": "good"}


@dataclass(frozen=True, slots=True)
class WhyView:
    """The diagnosis to show. ``chosen`` is the index of the selected fix; with ``readonly``, no fix
    can be applied.
    """

    diagnosis: Diagnosis
    manifest: Manifest | None
    now: float
    chosen: int = 0
    readonly: bool = False
    progress: Line = ()


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of the text: maximum ``evidence`` and log ``lines``; whether to show the
    ``excerpt`` of the manifest even if a fix shows the same lines, and the ``more`` link to the
    documentation; lines of ``context`` around a change.
    """

    evidence: int = 20
    lines: int = 20
    excerpt: bool = True
    more: bool = True
    context: int = 2


_PART_LIMITS: Final = TextLimits(3, 3, excerpt=False, more=False)
"""The limits of the diagnosis of another object."""

LIMITS: Final = (
    TextLimits(),
    TextLimits(6, 5),
    TextLimits(4, 3, excerpt=False),
    TextLimits(3, 2, excerpt=False, more=False, context=1),
    TextLimits(2, 1, excerpt=False, more=False, context=1),
    TextLimits(1, 1, excerpt=False, more=False, context=1),
    TextLimits(1, 1, excerpt=False, more=False, context=0),
)
"""From everything to the most important only."""


def why_lines(view: WhyView, width: int, height: int = 0) -> list[Line]:
    """Return rows of at most ``width`` cells. If there are more than ``height``, the least
    important are left out first.
    """
    rows: list[Line] = []
    for limits in LIMITS:
        rows = _rows(view, max(20, width), limits)
        if not height or len(rows) <= height:
            break
    return rows


def _rows(view: WhyView, width: int, limits: TextLimits) -> list[Line]:
    head = _head(view, width)
    if width < WIDE:
        rest = [_manifest(view, width, limits), _remedy(view, width, limits)]
        return _separated([head, _evidence(view, width, limits), *rest, *_parts(view, width)])
    left = (width - _GAP) // 2
    right = width - _GAP - left
    beside = _separated([_manifest(view, right, limits), _remedy(view, right, limits)])
    body = _beside(_evidence(view, left, limits), beside, left)
    return _separated([head, body, *_parts(view, width)])


def _parts(view: WhyView, width: int) -> Iterator[list[Line]]:
    """Yield the diagnoses of the objects that explain this one, indented."""
    for part in view.diagnosis.parts:
        glyph, tone = _mark(part.diagnosis)
        more = f" and {len(part.more):,} more" if part.more else ""
        name = (Span(f"{glyph} ", tone), Span(clean(part.name) + more, "heading"))
        inner = replace(view, diagnosis=part.diagnosis, manifest=None, chosen=0, progress=())
        narrow = min(width - _INDENT, WIDE - 1)
        lines = [
            line
            for block in (_head(inner, narrow), _evidence(inner, narrow, _PART_LIMITS),
                          _remedy(inner, narrow, _PART_LIMITS))
            for line in block
        ]  # fmt: skip
        nested = [line for block in _parts(inner, narrow) for line in ((), *block)]
        yield [name, *((Span(" " * _INDENT), *line) if line else () for line in (*lines, *nested))]


def _separated(parts: Sequence[list[Line]]) -> list[Line]:
    lines: list[Line] = []
    for part in parts:
        if part:
            lines += [(), *part] if lines else part
    return lines


def _beside(left: list[Line], right: list[Line], width: int) -> list[Line]:
    return [
        (*line, Span(" " * (width + _GAP - line_width(line))), *other) if other else line
        for line, other in zip_longest(left, right, fillvalue=())
    ]


def _head(view: WhyView, width: int) -> list[Line]:
    diagnosis = view.diagnosis
    glyph, tone = _mark(diagnosis)
    lines = wrap((Span(f"{glyph} ", tone), Span(clean(diagnosis.title), "name")), width, indent=2)
    for sentence in diagnosis.sentences:
        lines += wrap((Span("  "), Span(clean(sentence))), width, indent=2)
    if view.progress:
        lines += [(), *wrap(view.progress, width, indent=2)]
    return lines


def _evidence(view: WhyView, width: int, limits: TextLimits) -> list[Line]:
    lines: list[Line] = []
    logs: list[Line] = []
    seen = [item for item in view.diagnosis.evidence if item.source != "log"]
    output = [item for item in view.diagnosis.evidence if item.source == "log"]
    for item in seen[-limits.evidence :]:
        lines += _evidence_row(item, view.now, width)
    for item in output[-limits.lines :]:
        logs += wrap((Span("│ ", "muted"), Span(clean(item.text), "soft")), width, indent=2)
    if lines:
        lines = [(Span("Evidence", "heading"),), *lines]
    if view.diagnosis.log_problem:
        text = f"  could not be read: {clean(view.diagnosis.log_problem)}"
        logs = wrap((Span(text, "warning"),), width, indent=2)
    if logs:
        title = f"Last lines of {clean(view.diagnosis.container)}"
        lines += [(), (Span(title, "heading"),), *logs] if lines else [
            (Span(title, "heading"),), *logs]  # fmt: skip
    return lines


def _evidence_row(evidence: Evidence, now: float, width: int) -> list[Line]:
    when = ago(evidence.time, now).removesuffix(" ago") if evidence.time else ""
    text = clean(evidence.text)
    reason, parted, rest = text.partition(": ")
    text_spans: Line = (Span(text, ""),)
    if evidence.source == "event" and parted:
        text_spans = (Span(f"{reason}: ", "warning" if evidence.warning else "reason"), Span(rest))
    elif evidence.warning:
        text_spans = (Span("▲ ", "warning"), Span(text))
    times = Span(f" ×{evidence.count}" if evidence.count > 1 else "", "muted")
    label = Span(f"{when:>{_LABEL - 2}}  ", "muted")
    return wrap((label, *text_spans, times), width, indent=_LABEL)


def _manifest(view: WhyView, width: int, limits: TextLimits) -> list[Line]:
    diagnosis, manifest = view.diagnosis, view.manifest
    if manifest is None or not (diagnosis.field or diagnosis.position):
        return []
    line = f":{diagnosis.position[0]}" if diagnosis.position is not None else ""
    unset = not diagnosis.written and diagnosis.position is not None
    where = (Span(f"{clean(manifest.metadata.name)}{line}", "heading"),
             Span(f"  {clean(diagnosis.field)}", "key"),
             Span("  is not set" if unset else "", "muted"),
             )  # fmt: skip
    lines = wrap(where, width, indent=2)
    if diagnosis.position is not None and manifest.spec.text:
        if limits.excerpt or not diagnosis.fixes:
            lines += excerpt(
                manifest.spec.text, diagnosis.position[0], diagnosis.position[1], width
            )
    elif not manifest.spec.text:
        note = "  The text may contain a Secret and is not shown."
        lines += wrap((Span(note, "muted"),), width, indent=2)
    return lines


def excerpt(text: str, line: int, column: int, width: int) -> list[Line]:
    """Return the lines around ``line`` of a manifest, highlighted from ``column`` on."""
    source = BREAK.split(text)
    first, last = max(1, line - AROUND), min(len(source), line + AROUND)
    digits = len(str(last))
    limits = max(8, width - digits - 4)
    rows: list[Line] = []
    # In cells of the cleaned text: the source may contain characters that are not drawn.
    position = width_of(clean(source[line - 1][: column - 1])) if 0 < line <= len(source) else 0
    shift = position + 1 - limits // 2 if position + 1 > limits - 8 else 0
    for number in range(first, last + 1):
        whole = clean(source[number - 1])
        left = len(prefix(whole, shift)) if shift else 0
        shown = prefix(whole[left:], limits)
        if len(shown) < len(whole) - left:
            shown = prefix(whole[left:], limits - 1) + "…"
        here = number == line
        mark = Span("▶ " if here else "  ", "error")
        gutter = Span(f"{number:>{digits}} ", "key" if here else "muted")
        soft = position - width_of(whole[:left])
        before = len(shown) if not here else len(prefix(shown, soft)) if soft > 0 else 0
        rows.append((mark, gutter, Span(shown[:before], "soft"), Span(shown[before:], "name")))
    return rows


def _remedy(view: WhyView, width: int, limits: TextLimits) -> list[Line]:
    diagnosis = view.diagnosis
    lines: list[Line] = []
    if diagnosis.fixes:
        lines += _fix(view, diagnosis.fixes[view.chosen % len(diagnosis.fixes)], width, limits)
    if diagnosis.advice:
        word = advice_word(diagnosis.fixes)
        by_hand = (Span(f"{word}  ", "heading"), Span(clean(diagnosis.advice)))
        lines += ([()] if lines else []) + wrap(by_hand, width, indent=2)
    if diagnosis.docs and limits.more:
        lines += wrap((Span("Read  ", "heading"), Span(diagnosis.docs, "muted")), width, indent=2)
    return lines


def _fix(view: WhyView, fix: Fix, width: int, limits: TextLimits) -> list[Line]:
    count = len(view.diagnosis.fixes)
    number = f" {view.chosen % count + 1} of {count}" if count > 1 else ""
    lines = wrap((Span(f"Fix{number}  ", "heading"), Span(clean(fix.title), "name")), width,
                 indent=2)  # fmt: skip
    if fix.note:
        lines += wrap((Span(f"  {clean(fix.note)}", "muted"),), width, indent=2)
    text = view.manifest.spec.text if view.manifest is not None else ""
    if fix.edits:
        lines += diff_rows(text, fix, width, limits.context)
    does = " shows the plan, then applies it" if fix.edits else f" opens it at line {fix.line}"
    if view.readonly:
        lines.append((Span("  podtui is read-only: it cannot be applied here", "muted"),))
    else:
        more = f", n shows the next of {count} fixes"
        lines += wrap((Span("  f", "hint-key"), Span(does, "muted"),
                       Span(more * (count > 1), "muted")), width, indent=2)  # fmt: skip
    return lines


def diff_rows(text: str, fix: Fix, width: int, context: int) -> list[Line]:
    """Return the diff of a fix; signs repeat the meaning of the colours."""
    try:
        diff = diff_lines(text, fix.edits, context)
    except EditError as error:
        return [(Span(f"  ▲ {clean(str(error))}", "warning"),)]
    rows: list[Line] = []
    for line in diff:
        sign = line[:1]
        if sign == "@":
            if rows:
                rows.append((Span("  ⋯", "muted"),))
            continue
        shown = clean(line[1:])
        if sign in _TONES:
            # Wrap changed lines instead of cutting them: they must be readable at any width.
            inside = 6 + len(shown) - len(shown.lstrip())
            rows += wrap((Span(f"  {sign} {shown}", _TONES[sign]),), width, indent=inside)
        else:
            rows.append((Span(f"    {sized(shown, max(8, width - 4)).rstrip()}", "soft"),))
    return rows


FRESH_SECONDS: Final = 2.0
"""Seconds after which the explanation of an unhealthy pod is updated at the latest."""


def facts_of(
    model: Model,
    pod: Pod,
    now: float,
    logs: Mapping[str, tuple[str, ...]] | None = None,
    log_problems: Mapping[str, str] | None = None,
    nodes: Mapping[str, NodePods] | None = None,
) -> Facts:
    """Return the facts about a pod that the screen has. ``nodes`` are the pods by node, if the
    caller has them.
    """
    node = model.home_of(pod)
    name = pod.spec.nodeName or (node.metadata.name if node is not None else "")
    if nodes is None:
        nodes = by_node(model.pods.values())
    return Facts(
        pod=pod,
        now=now,
        events=tuple(model.events_of(pod)),
        manifest=model.manifest_of(pod),
        node=node,
        node_pods=nodes.get(name) or NodePods(),
        logs=logs or {},
        log_problems=log_problems or {},
        in_cluster=model.server.is_cluster,
    )


def inventory_of(
    model: Model,
    read: Callable[[type[Any]], Iterable[Any] | None],
    now: float,
    checks: ConnectionChecks | None = None,
) -> Inventory:
    """Return the objects that the screen has: those of the model, and those of other kinds that
    ``read`` returns. Logs are not read. ``checks`` are the connections that were tried."""
    own = {Pod: model.pods, Node: model.nodes, Event: model.events, Manifest: model.manifests}
    nodes = by_node(model.pods.values())
    inventory = Inventory(
        read=lambda kind: own[kind].values() if kind in own else read(kind),
        now=now,
        diagnose_pod=lambda pod: diagnose(facts_of(model, pod, now, nodes=nodes)),
        in_cluster=model.server.is_cluster,
        scope=model.namespace or "",
    )
    return inventory if checks is None else replace(inventory, check_connection=checks.of)


class Explanations:
    """The explanation of the pod under the cursor, cached while its inputs are unchanged, and the
    causes of failures.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._basis: tuple[object, ...] = ()
        self._healthy = False
        self._line: Line = ()
        self._nodes: dict[str, NodePods] = {}
        self._nodes_turn = -1

    def of(self, pod: Pod, now: float) -> Line:
        model = self._model
        # A healthy pod stays healthy until its record changes; a wait may exceed its deadline.
        turn = None if self._healthy else now // FRESH_SECONDS
        basis = (pod, model.home_of(pod), len(model.events), turn)
        if len(basis) != len(self._basis) or any(
            a is not b and a != b for a, b in zip(basis, self._basis, strict=True)
        ):
            facts = self._facts(pod, now)
            diagnosis = diagnose(facts)
            self._healthy = diagnosis.kind is Kind.NONE
            self._basis = (*basis[:-1], None if self._healthy else now // FRESH_SECONDS)
            self._line = _summary(facts, diagnosis)
        return self._line

    def cause_of(self, pod: Pod, now: float) -> str:
        """Return the cause of a failure in a few words, empty if nothing has failed."""
        return brief_cause(self._facts(pod, now))

    def _facts(self, pod: Pod, now: float) -> Facts:
        model = self._model
        if self._nodes_turn != model.pod_turns:
            self._nodes_turn, self._nodes = model.pod_turns, by_node(model.pods.values())
        return facts_of(model, pod, now, nodes=self._nodes)


def brief_cause(facts: Facts) -> str:
    """Return the cause of a failure in a few words, with the container if the pod has several;
    empty for a pod that only waits."""
    diagnosis = diagnose(facts)
    if diagnosis.kind is Kind.WAIT and diagnosis.health in (Health.PENDING, Health.INIT):
        return ""
    spec = facts.pod.spec
    several = len(spec.containers) + len(spec.initContainers) > 1
    container = f" ({diagnosis.container})" if several and diagnosis.container else ""
    return clean(diagnosis.brief + container if diagnosis.brief else diagnosis.title)


def titled_explanation(facts: Facts) -> tuple[str, Line]:
    """Return a title for the kind of explanation, and the cause and the fix of a problem; for a
    healthy pod, its containers."""
    diagnosis = diagnose(facts)
    title = {Kind.COMPLETION: "Ended", Kind.NONE: "Runs"}.get(diagnosis.kind, "Why")
    return title, _summary(facts, diagnosis)


def _summary(facts: Facts, diagnosis: Diagnosis) -> Line:
    if diagnosis.kind is Kind.COMPLETION:
        return _endings(facts.pod, facts.now)
    if diagnosis.kind is Kind.NONE:
        return _contents(facts.pod)
    return (*_cause(facts.pod, diagnosis), *_remedy_text(diagnosis))


def _cause(pod: Pod, diagnosis: Diagnosis) -> Line:
    rejected = is_rejected(pod)
    head = (Span("rejected ", "error"),) if rejected else ()
    return (*head, Span(clean(diagnosis.title)))


def _remedy_text(diagnosis: Diagnosis) -> Line:
    if diagnosis.fixes:
        return (Span("  X ", "hint-key"), Span(clean(diagnosis.fixes[0].title), "soft"))
    return (Span("  X", "hint-key"), Span(": details", "muted"))


def _endings(pod: Pod, now: float) -> Line:
    spans: list[Span] = []
    for status in pod.status.containerStatuses:
        ended = status.state.terminated
        if ended is None:
            continue
        when = epoch(ended.finishedAt)
        ago = f" {short_duration(now - when)} ago" if when is not None else ""
        reason = "" if ended.exitCode == 0 else f" ({clean(ending(ended))})"
        spans += [
            Span("  ·  " if spans else "", "muted"),
            Span(clean(status.name) + " ", "key"),
            Span(f"exited with code {ended.exitCode}{reason}{ago}", "soft"),
        ]
    return tuple(spans) or _contents(pod)


def _contents(pod: Pod) -> Line:
    spans: list[Span] = []
    for container in pod.spec.containers:
        if spans:
            spans.append(Span("  ·  ", "muted"))
        spans.append(Span(clean(container.name) + " ", "key"))
        spans.append(Span(clean(container.image), "soft"))
    return tuple(spans)


def explain_manifest(manifest: Manifest, node: Node | None = None) -> Line:
    """Return the problem of a file with podtui's reaction, or what its pod waits for."""
    waits = diagnose_waiting(manifest, node)
    if waits is not None:
        return (
            Span(f"{clean(waits.title)} "),
            Span(place_of(manifest), "key"),
            *_remedy_text(waits),
        )
    # The other states need no words: their message repeats the first error.
    runs = manifest.status.state is ManifestState.LAST_GOOD
    return (
        Span(f"{manifest_message(manifest)}  "),
        Span(place_of(manifest), "key"),
        Span(f"  {clean(manifest.status.message)}" if runs else "", "muted"),
    )


def health_text(diagnosis: Diagnosis, manifest: Manifest | None) -> Line:
    """Return a glyph and the word for the health of a pod, or the state of another object or of a
    file without a pod."""
    glyph, tone = _mark(diagnosis)
    state = manifest.status.state if manifest is not None else ""
    return (Span(f"{glyph} {diagnosis.state or diagnosis.health or state}", tone),)


def _mark(diagnosis: Diagnosis) -> tuple[str, str]:
    """Return glyph and tone."""
    if diagnosis.health is None:
        family = Family.ERROR if diagnosis.kind is Kind.FAILURE else Family.RUNNING
    else:
        family = Family.UNSTABLE if diagnosis.besides else FAMILIES[diagnosis.health]
    return GLYPHS[family], family.value


def newest_of(pods: Sequence[Pod], uid: str) -> Pod | None:
    """Return the pod that its manifest currently defines, else the last one."""
    for pod in pods:
        if uid and pod.metadata.uid == uid:
            return pod
    return pods[-1] if pods else None
