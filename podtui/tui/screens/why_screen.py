"""The screen that explains why a pod does not run: cause, evidence, manifest line, and the fix."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.batch import CronJob, Job
from podtui.api.discovery import EndpointSlice
from podtui.api.insight import InsightPart, InsightQuery
from podtui.api.local import Manifest
from podtui.api.pods import is_api_pod
from podtui.api.storage import StorageClass
from podtui.api.v1 import (
    ConfigMap,
    Endpoints,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    Service,
)
from podtui.client.protocol import LogQuery
from podtui.errors import PodtuiError
from podtui.text.terminal_text import after_return
from podtui.tui.commands.edit_manifest import edit_file
from podtui.tui.commands.edit_record import edit_pod, fix_pod
from podtui.tui.commands.fix import Applied, apply_fix, outcome, outcome_line
from podtui.tui.commands.label_node import label_node, wanted_labels
from podtui.tui.model.connection_checks import ConnectionChecks
from podtui.tui.model.model import Changes
from podtui.tui.model.objects import FollowedObjects
from podtui.tui.screens.acting_screen import ActingScreen
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.views.labels import place_of, pod_label
from podtui.tui.views.pods.live_manifest import live_manifest
from podtui.tui.views.why import (
    WhyView,
    facts_of,
    health_text,
    inventory_of,
    newest_of,
    why_lines,
)
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.delays import call_after
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.tones import LinesView
from podtui.why import Diagnosis, Facts, Fix, Kind, diagnose, diagnose_manifest
from podtui.why.cases import log_failure
from podtui.why.diagnose import diagnose_waiting
from podtui.why.objects import explain_pod
from podtui.why.trial import begin_trial
from podtui.why.types import FINE

AROUND_PODS: Final[tuple[type[Any], ...]] = (
    ReplicaSet, Deployment, StatefulSet, DaemonSet, ReplicationController, Job, CronJob,
    PersistentVolumeClaim, PersistentVolume, StorageClass, Service, EndpointSlice, Endpoints,
    ConfigMap, Namespace,
)  # fmt: skip
"""The kinds of the owners and the storage of pods, and of what they connect to."""
LOG_LINES = 8
LONGEST_LINE = 500
"""Bytes of a log line that are kept. The diagnosis runs at each change, and needs the beginning
only.
"""
LOG_SECONDS = 10.0
"""Timeout of the log query."""
PROBE_SECONDS = 5.0
"""Seconds that the agent holds a probe query until it has news."""
PROBE_PAUSE = 0.5
AGAIN_SECONDS = 5.0
"""Seconds until a failed log query is repeated."""


class WhyScreen(ActingScreen, BackScreen):
    """The explanation of a pod, found by namespace and name so that the screen follows its
    replacement after a fix; or of a manifest file that defines no pod.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "apply", "Apply the fix", id="why.apply",
                tooltip="Show the plan of the fix, then apply it"),
        Binding("n", "next(1)", "Next fix", id="why.next", tooltip="Show another fix"),
        Binding("N", "next(-1)", "Previous fix", show=False, id="why.before"),
        Binding("L", "label_node", "Label the node", id="why.label",
                tooltip="Label the node, so that the pod fits its selector and affinity"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    WhyScreen #why-text { height: 1fr; border: round $pane-border-focus; padding: 0 1;
        border-title-color: $pane-title-focus; background: $background; }
    """
    AUTO_FOCUS = "#why-text"
    FIRST_HINTS: ClassVar[frozenset[str]] = frozenset({"why.apply", "why.next", "why.label"})

    def __init__(self, pod: Pod | None, file: str = "") -> None:
        super().__init__()
        self._name_ = (pod.metadata.namespace, pod.metadata.name) if pod is not None else None
        self._file = file
        self._pod = pod
        self._chosen = 0
        self._applied: Applied | None = None
        self._in_force = False
        """True after the agent has read the applied fix, or the API pod has it."""
        self._liveness_passed = False
        self._diagnosis: Diagnosis | None = None
        self._logs: dict[str, tuple[str, ...]] = {}
        self._log_of: tuple[object, ...] = ()
        self._log_problems: dict[str, str] = {}
        self._live: tuple[Pod, Manifest] | None = None
        """The API pod as a manifest, cached until the pod changes."""
        self._objects = FollowedObjects(AROUND_PODS)
        self._follows = False
        self._checks = ConnectionChecks(lambda: self.session.now())

    def compose(self) -> ComposeResult:
        yield Bar(id="header")
        yield LinesView(id="why-text")
        yield Hints()
        yield Prompt()

    # --- subject

    @property
    def manifest(self) -> Manifest | None:
        model = self.session.model
        if self._file:
            return model.manifests.get(self._file)
        return model.manifest_of(self._pod) if self._pod is not None else None

    def _find(self) -> Pod | None:
        """Return the current pod or its replacement. Return None if it is gone; `_pod` keeps its
        last known state.
        """
        model, manifest = self.session.model, self.manifest
        name = self._name_
        if manifest is not None and name is None and manifest.status.podName:
            name = (manifest.status.podNamespace, manifest.status.podName)
        pods = [p for p in model.pods.values() if (p.metadata.namespace, p.metadata.name) == name]
        pod = newest_of(pods, manifest.status.podUID if manifest is not None else "")
        if pod is not None:
            self._pod, self._name_ = pod, name
        return pod

    def chosen_pods(self) -> tuple[Pod, ...]:
        return (self._pod,) if self._pod is not None else ()

    def chosen_manifests(self) -> tuple[Manifest, ...]:
        return (self.manifest,) if self.manifest is not None else ()

    # --- display

    def publish(self, changes: Changes, now: float) -> None:
        self._draw(now)

    def on_resize(self) -> None:
        self.call_after_refresh(lambda: self._draw(self.session.now()))

    def _draw(self, now: float) -> None:
        if not self.shown:
            return
        pod, manifest = self._find(), self.manifest
        facts = self._facts(pod, now) if pod is not None else None
        diagnosis = self._diagnose(facts, manifest)
        if diagnosis is None:
            self._header((Span("is gone", "warning"),))
            return
        if self._diagnosis is None or (diagnosis.cause, diagnosis.fixes) != (
            self._diagnosis.cause,
            self._diagnosis.fixes,
        ):
            self._chosen = 0
        self._diagnosis = diagnosis
        self._header(health_text(diagnosis, manifest))
        view = self.query_one("#why-text", LinesView)
        shown = WhyView(
            diagnosis,
            self._manifest_of(pod),
            now,
            self._chosen,
            readonly=self.session.readonly,
            progress=self._progress(manifest, facts, diagnosis),
        )
        view.show(why_lines(shown, view.size.width - 1, view.size.height))
        self.refresh_bindings()
        if pod is not None:
            self._request_log(pod, diagnosis)
        if self._checks.is_due:
            ask = partial(self._checks.ask, self.session.client, self._draw_now)
            self.run_worker(ask, group="why-connections")

    def _facts(self, pod: Pod, now: float) -> Facts:
        facts = facts_of(self.session.model, pod, now, self._logs, self._log_problems)
        return replace(facts, manifest=self._manifest_of(pod))

    def _manifest_of(self, pod: Pod | None) -> Manifest | None:
        """Return the manifest of the file; for an API pod, the pod itself as a manifest."""
        if self.manifest is not None or pod is None or not self._is_changeable(pod):
            return self.manifest
        if self._live is None or self._live[0] is not pod:
            self._live = (pod, live_manifest(pod))
        return self._live[1]

    def _is_changeable(self, pod: Pod) -> bool:
        """Return whether a fix can be applied to the pod itself, not to its file or its owner, and
        not only in the cluster that this node belongs to."""
        return (
            is_api_pod(pod)
            and not pod.metadata.ownerReferences
            and not self.session.model.member_of
        )

    def _diagnose(self, facts: Facts | None, manifest: Manifest | None) -> Diagnosis | None:
        if facts is not None:
            diagnosis = diagnose(facts)
            if not self._follow(facts.pod, diagnosis):
                return diagnosis
            inventory = inventory_of(
                self.session.model, self._objects.read, facts.now, self._checks
            )
            return explain_pod(inventory, facts.pod, diagnosis)
        if manifest is None:
            return None
        # The pod is gone or never existed. An accepted file gets a pod as soon as the node is
        # ready.
        return diagnose_waiting(manifest, self.session.model.node) or diagnose_manifest(manifest)

    def _follow(self, pod: Pod, diagnosis: Diagnosis) -> bool:
        """Follow the owners and the claims of a pod, if it has any, and the Services that it names,
        if it does not work; return whether they are followed."""
        has_claims = any(v.persistentVolumeClaim or v.ephemeral for v in pod.spec.volumes)
        is_well = diagnosis.kind in FINE and not self._follows
        if not pod.metadata.ownerReferences and not has_claims and is_well:
            return False
        if not self._follows:
            self._follows = True
            follow = partial(self._objects.run, self.session.client, self._draw_now)
            self.run_worker(follow, group="why-objects", exclusive=True)
        return True

    def _draw_now(self) -> None:
        self._draw(self.session.now())

    def _progress(
        self, manifest: Manifest | None, facts: Facts | None, diagnosis: Diagnosis
    ) -> Line:
        """Return the progress of an applied fix; empty without one, after undo and after another
        edit.
        """
        applied = self._applied
        if applied is None:
            return ()
        taken = applied.is_taken(manifest, facts.pod if facts is not None else None)
        if applied.change not in self.session.undoable or (self._in_force and not taken):
            self._applied = None
            return ()
        self._in_force = taken
        passed = self._liveness_passed
        result = outcome(applied, manifest, facts, diagnosis, liveness_passed=passed)
        return outcome_line(applied, result)

    def _header(self, state: Line) -> None:
        label = pod_label(self._pod) if self._pod is not None else ""
        if not label and self.manifest is not None:
            label = place_of(self.manifest)
        head = (Span(" why ", "brand"), Span(f" {clean(label or self._file)} ", "name"), *state)
        self.query_one("#header", Bar).show(head)

    # --- the log

    def _request_log(self, pod: Pod, diagnosis: Diagnosis) -> None:
        """Query the last log lines of the diagnosed container, once per run."""
        statuses = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
        status = next((s for s in statuses if s.name == diagnosis.container), None)
        if not diagnosis.wants_log or status is None:
            return
        runs = status.state.running is not None
        end = status.lastState.terminated if runs else None
        basis = (pod.metadata.uid, status.name, status.restartCount, status.containerID, runs)
        if basis == self._log_of:
            return
        self._log_of = basis
        previous = runs and end is not None and diagnosis.kind is Kind.FAILURE and status.ready
        query = LogQuery(container=status.name, follow=False, previous=previous, tail=LOG_LINES,
                         timestamps=False)  # fmt: skip
        self.run_worker(partial(self._fetch, pod, query), group="why-log", exclusive=True)

    async def _fetch(self, pod: Pod, query: LogQuery) -> None:
        lines: list[str] = []
        try:
            meta = pod.metadata
            async with asyncio.timeout(LOG_SECONDS):
                async for batch in self.session.client.logs(meta.namespace, meta.name, query):
                    lines += map(_shortened, batch)
        except PodtuiError as error:
            self._no_log(query.container, str(error))
        except TimeoutError:
            self._no_log(query.container, f"no answer in {LOG_SECONDS:.0f} s")
        else:
            failure = log_failure(lines)
            self._logs = {} if failure else {query.container: tuple(lines[-LOG_LINES:])}
            self._log_problems = {query.container: failure} if failure else {}
        self._draw(self.session.now())

    def _no_log(self, container: str, why: str) -> None:
        self._logs = {}
        self._log_problems = {container: why}
        call_after(self, AGAIN_SECONDS, self._retry_log)

    def _retry_log(self) -> None:
        self._log_of = ()
        self._draw(self.session.now())

    # --- the fix

    def _fix(self) -> Fix | None:
        fixes = self._diagnosis.fixes if self._diagnosis is not None else ()
        return fixes[self._chosen % len(fixes)] if fixes else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "apply":
            if self._fix() is None:
                return False
            return None if self.session.readonly else True
        if action == "label_node":
            if not wanted_labels(self._diagnosis) or self._home is None:
                return False
            return True if self.session.changes_objects else None
        if action == "next":
            return self._diagnosis is not None and len(self._diagnosis.fixes) > 1
        return super().check_action(action, parameters)

    @property
    def _home(self) -> Node | None:
        model = self.session.model
        return model.home_of(self._pod) if self._pod is not None else None

    def action_label_node(self) -> None:
        labels, node, diagnosis = wanted_labels(self._diagnosis), self._home, self._diagnosis
        if labels and node is not None and diagnosis is not None:
            name = node.metadata.name
            label = partial(label_node, self.session, name, labels, self._pod, diagnosis.cause)
            self.session.start("Label", label)

    def action_next(self, step: int) -> None:
        self._chosen += step
        self._draw(self.session.now())

    def action_apply(self) -> None:
        fix, manifest, diagnosis = self._fix(), self.manifest, self._diagnosis
        pod = self._pod
        if fix is None or diagnosis is None:
            return
        if not fix.edits:
            self._edit_by_hand(fix)
            return
        if manifest is not None:
            write = partial(apply_fix, self.session, manifest, fix)
        elif pod is not None and self._is_changeable(pod):
            write = partial(fix_pod, self.session, pod, fix)
        else:
            return
        facts = self._facts(pod, self.session.now()) if pod is not None else None
        trial = begin_trial(facts, diagnosis, fix)

        async def apply() -> None:
            change = await write()
            if change is None:
                return
            self._applied = Applied(change, trial)
            self._in_force = self._liveness_passed = False
            if trial.watches_liveness and self.is_attached:
                watch = partial(self._watch_liveness, trial.container)
                self.run_worker(watch, group="why-probe", exclusive=True)
            self._draw(self.session.now())

        self.session.start("Fix", apply)

    def _edit_by_hand(self, fix: Fix) -> None:
        """Open the manifest in the editor, at the line that the fix names."""
        manifest, pod = self.manifest, self._pod
        if manifest is not None:
            path = Path(manifest.spec.path)
            self.session.start("Edit", partial(edit_file, self.session, path, line=fix.line))
        elif pod is not None and self._is_changeable(pod):
            self.session.start("Edit", partial(edit_pod, self.session, pod, fix.line))

    async def _watch_liveness(self, container: str) -> None:
        """Wait until the liveness probe of the fixed pod has passed."""
        seen = ""
        while self._applied is not None and not self._liveness_passed:
            pod, insight = self._pod_in_force(), None
            if pod is not None:
                query = InsightQuery(part=InsightPart.PROBES, seen=seen, wait=PROBE_SECONDS)
                try:
                    async with asyncio.timeout(2 * PROBE_SECONDS):
                        meta = pod.metadata
                        insight = await self.session.client.insight(
                            meta.namespace, meta.name, query
                        )
                except (PodtuiError, TimeoutError):
                    seen = ""
            after = self._pod_in_force()
            if insight is not None and pod is not None and after is not None:
                seen = insight.version
                same = pod.metadata.uid == after.metadata.uid
                self._liveness_passed = same and any(
                    report.container == container
                    and (report.probe, report.last) == ("Liveness", "Success")
                    for report in insight.probes
                )
                self._draw(self.session.now())
            await asyncio.sleep(PROBE_PAUSE)

    def _pod_in_force(self) -> Pod | None:
        """Return the pod that has the applied fix; None until it exists."""
        pod, manifest = self._pod, self.manifest
        if pod is None or not self._in_force:
            return None
        wanted = manifest.status.podUID if manifest is not None else ""
        return pod if not wanted or pod.metadata.uid == wanted else None


def _shortened(line: bytes) -> str:
    line = after_return(line)
    more = "…" if len(line) > LONGEST_LINE else ""
    return line[:LONGEST_LINE].decode(errors="replace") + more
