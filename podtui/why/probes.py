"""Causes of probe failures, and their consequences (kubelet.md §8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from podtui.api.kills import KillReason
from podtui.api.local import Edit
from podtui.api.places import Path
from podtui.api.pods import run_began
from podtui.api.times import epoch
from podtui.api.v1 import Event, Probe
from podtui.editing.edits import EditError, apply_edits
from podtui.editing.source import Source
from podtui.why.cases import Case, newest
from podtui.why.types import Fix, Kind, Match, Rule, with_events

_DOCS = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/"
_STATUS = re.compile(r"statuscode: (\d+)")
_TIMEOUT = ("timed out", "timeout", "deadline exceeded")
_COMBINED = "(combined from similar events): "
_PLAIN_SERVER = "server gave http response to https client"
_TLS_SERVER = ("http request to an https server", "malformed http response")
_NO_PROGRAM = ("executable file not found", "no such file or directory: unknown")
_UNREACHABLE = ("no route to host", "network is unreachable", "no such host")
_WORDS = {
    "refused": "nothing listens on port {port}",
    "missing": "{path} does not exist (404)",
    "denied": "access is denied ({status})",
    "status": "it returns {status}",
    "timeout": "there is no response within {timeout} s",
    "unreachable": "its address cannot be reached",
    "serving": "the service reports that it is not serving",
    "exec": "its command fails: {output}",
    "command": "its command cannot be run: {output}",
    "https": "the server speaks plain HTTP, not HTTPS",
    "http": "the server expects HTTPS, not plain HTTP",
    "failed": "{output}",
    "unknown": "no event reports the reason",
}
_ADVICE = {
    "missing": "Probe a path that the program serves; its log or documentation names them.",
    "denied": "Probe a path that needs no login, or send credentials in httpHeaders.",
    "refused": "Probe the port that the program listens on; its log often names it.",
    "status": "The program reports an internal failure: read its log.",
    "timeout": "Find out why the program responds slowly, or increase the timeout.",
    "command": "Use a program of the image, with its full path.",
    "exec": "Run the command in the container to see why it fails.",
}
_FIELDS: dict[str, tuple[str, ...]] = {
    "refused": ("port",),
    "missing": ("path",),
    "denied": ("path",),
    "status": ("path",),
    "timeout": (),
    "unreachable": ("host",),
    "serving": ("port",),
    "exec": ("command",),
    "command": ("command",),
    "https": ("scheme",),
    "http": ("scheme",),
    "failed": (),
    "unknown": (),
}
_NEVER_SLOW = frozenset({"missing", "denied", "command", "https", "http", "unreachable", "unknown"})
"""Failures that neither a longer delay nor more attempts can fix."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failing probe. ``kind`` is ``liveness``, ``readiness`` or ``startup``; ``category`` is
    a key of `_WORDS`; ``field`` is the manifest field that is most likely wrong."""

    kind: str
    category: str
    probe: Probe
    text: str
    field: Path

    @property
    def values(self) -> dict[str, str]:
        http, status = self.probe.httpGet, _STATUS.search(self.text)
        values = {
            "probe": self.kind,
            "port": str(port_of(self.probe)),
            "path": http.path or "/" if http is not None else "",
            "status": status[1] if status else "",
            "timeout": str(self.probe.timeoutSeconds or 1),
            "output": self.text.strip() or "it exits with a non-zero code",
            "threshold": str(self.probe.failureThreshold or 3),
            "period": str(self.probe.periodSeconds or 10),
        }
        advice = _ADVICE.get(self.category, "Correct the probe, or the response of the program.")
        return {**values, "what": _WORDS[self.category].format(**values), "advice": advice}


def port_of(probe: Probe) -> int | str:
    action = probe.httpGet or probe.tcpSocket or probe.grpc
    return action.port if action is not None else ""


def _category(probe: Probe, text: str) -> str:
    status = _STATUS.search(text)
    lower = text.lower()
    if not text:
        return "unknown"
    if _PLAIN_SERVER in lower:
        return "https"
    if probe.httpGet is not None and any(hint in lower for hint in _TLS_SERVER):
        return "http"
    if status is not None:
        code = int(status[1])
        return "missing" if code == 404 else "denied" if code in (401, 403) else "status"
    if "connection refused" in text:
        return "refused"
    if any(hint in text for hint in _UNREACHABLE):
        return "unreachable"
    if any(hint in text for hint in _TIMEOUT):
        return "timeout"
    if probe.exec is not None:
        return "command" if any(hint in lower for hint in _NO_PROGRAM) else "exec"
    return "serving" if probe.grpc is not None and "unhealthy" in lower else "failed"


def _handler(probe: Probe) -> str:
    for name in ("httpGet", "tcpSocket", "grpc"):
        if getattr(probe, name) is not None:
            return name
    return "exec"


def _output(event: Event) -> str:
    """Return the probe's output, from the message of an ``Unhealthy`` event."""
    return event.message.removeprefix(_COMBINED).partition(": ")[2]


def _failure(case: Case, kind: str, text: str) -> Failure | None:
    field = f"{kind}Probe"
    probe: Probe | None = getattr(case.container, field)
    if probe is None:
        return None
    category, handler = _category(probe, text), _handler(probe)
    path = (*case.path, field, handler, *_FIELDS[category])
    if category == "timeout":
        path = (*case.path, field, "timeoutSeconds")
    return Failure(kind, category, probe, text, path)


def _killed(kind: str) -> Callable[[Case], Failure | None]:
    """Return a function that finds the probe failure because of which the container was stopped."""
    title = f"{kind.capitalize()} probe "
    reason = KillReason.LIVENESS_PROBE if kind == "liveness" else KillReason.STARTUP_PROBE

    def find(case: Case) -> Failure | None:
        if case.ending is None:
            return None
        if not case.killed_for(reason, f"failed {kind} probe"):
            # The last container of a pod that is not restarted is stopped with an event that does
            # not mention the probe.
            last = case.kill is None and case.policy == "Never"
            stopped = last and case.event_of_termination("Killing", "Stopping container")
            if not stopped or case.event_of_termination("Unhealthy", title) is None:
                return None
        if case.kill is not None and case.kill.message:
            return _failure(case, kind, case.kill.message)
        event = newest(case.events_with("Unhealthy", title))
        return _failure(case, kind, _output(event) if event is not None else "")

    return find


def _failing(kind: str) -> Callable[[Case], Failure | None]:
    """Return a function that finds the failure because of which a running container is not ready or
    not started."""
    title = kind.capitalize()

    def find(case: Case) -> Failure | None:
        if not case.running or case.status is None:
            return None
        held = not case.status.started if kind == "startup" else not case.status.ready
        if not held or (kind == "readiness" and not case.status.started):
            return None
        since = case.status.state.running
        began = since.startedAt if since is not None else None
        event = newest(case.events_with("Unhealthy", f"{title} probe "))
        if event is None or (began and (event.lastTimestamp or began) < began):
            return None
        return _failure(case, kind, _output(event))

    return find


def _match(
    find: Callable[[Case], Failure | None], *categories: str
) -> Callable[[Case], Match | None]:
    def match(case: Case) -> Match | None:
        failure = find(case)
        if failure is None or (categories and failure.category not in categories):
            return None
        return Match(failure.values, failure.field)

    return match


# --- fixes


def _fixes(
    find: Callable[[Case], Failure | None],
) -> Callable[[Case, Match, Source], Iterator[Fix | None]]:
    def fixes(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
        failure = find(case)
        if failure is None:
            return
        if failure.category in ("refused", "serving"):
            yield from _declared_port(case, failure, source)
        if failure.category in ("missing", "denied"):
            yield from _readiness_path(case, failure, source)
            yield _path_by_hand(failure, source)
            yield _port_alone(case, failure, source)
        if failure.category in ("https", "http"):
            yield _scheme(case, failure, source)
        if failure.category == "timeout":
            yield _raise(case, failure, source, "timeoutSeconds", 1, 5, "s")
        if failure.category in _NEVER_SLOW:
            return
        if failure.kind == "liveness" and _never_started(case, failure):
            yield _raise(case, failure, source, "initialDelaySeconds", 0, 30, "s")
        if failure.kind == "liveness" and failure.category == "timeout":
            yield _raise(case, failure, source, "failureThreshold", 3, 6, " failures")
        if failure.kind == "startup":
            yield _raise(case, failure, source, "failureThreshold", 3, 30, " failures")

    return fixes


def _never_started(case: Case, failure: Failure) -> bool:
    """Return whether the killed run was so short that the probe cannot have passed. Only then may
    the program be slow to start."""
    ending, probe = case.ending, failure.probe
    began = epoch(run_began(ending)) if ending is not None else None
    ended = epoch(ending.finishedAt) if ending is not None else None
    if began is None or ended is None:
        return True
    grace = probe.terminationGracePeriodSeconds or case.pod.spec.terminationGracePeriodSeconds or 0
    period, tries = probe.periodSeconds or 10, probe.failureThreshold or 3
    longest = (probe.initialDelaySeconds or 0) + period * (tries + 1) + grace
    return ended - began <= longest + (probe.timeoutSeconds or 1) * tries


def _readiness_path(case: Case, failure: Failure, source: Source) -> Iterator[Fix | None]:
    """Offer the path of the readiness probe, if that probe passes on the same port."""
    failing, ready = failure.probe.httpGet, case.container.readinessProbe
    other = ready.httpGet if ready is not None else None
    if failure.kind == "readiness" or failing is None or other is None:
        return
    same = (failing.port, failing.host, failing.scheme) == (other.port, other.host, other.scheme)
    if not same or (failing.path or "/") == (other.path or "/"):
        return
    if any(case.events_with("Unhealthy", "Readiness probe ")):
        return
    path = (*case.path, f"{failure.kind}Probe", "httpGet", "path")
    wanted = other.path or "/"
    yield Fix(f"Probe {wanted}, the path of the readiness probe", source.set(path, wanted))


def _path_by_hand(failure: Failure, source: Source) -> Fix | None:
    position, _ = source.find(failure.field)
    return Fix("Correct the path in the editor", line=position[0]) if position is not None else None


def _port_alone(case: Case, failure: Failure, source: Source) -> Fix | None:
    http = failure.probe.httpGet
    if http is None:
        return None
    handler = (*case.path, f"{failure.kind}Probe", "httpGet")
    extra = [
        field for field in ("path", "scheme", "httpHeaders") if (*handler, field) in source.places
    ]
    edits = [source.replace_key(handler, "tcpSocket")]
    edits += [source.remove((*handler, field)) for field in extra]
    complete = tuple([edit for edit in edits if edit is not None])
    if len(complete) != len(edits) or not _fits(source, complete):
        return None
    note = "This passes at once, because the server responds; it does not show that it works."
    title = f"Weaken the check: test only that port {http.port} accepts connections"
    return Fix(title, complete, note, weakens=True)


def _fits(source: Source, edits: tuple[Edit, ...]) -> bool:
    """Return whether the edits do not overlap."""
    try:
        apply_edits(source.text, edits)
    except EditError:
        return False
    return True


def _scheme(case: Case, failure: Failure, source: Source) -> Fix:
    scheme = "HTTP" if failure.category == "https" else "HTTPS"
    path = (*case.path, f"{failure.kind}Probe", "httpGet", "scheme")
    return Fix(f"Probe with {scheme}", source.set(path, scheme))


def _declared_port(case: Case, failure: Failure, source: Source) -> Iterator[Fix | None]:
    ports = {port.containerPort for port in case.container.ports}
    requested = port_of(failure.probe)
    named = {p.name: p.containerPort for p in case.container.ports}.get(str(requested), requested)
    if len(ports) != 1 or named in ports:
        return
    (port,) = ports
    path = (*case.path, f"{failure.kind}Probe", _handler(failure.probe), "port")
    yield Fix(f"Probe port {port}, the one that {case.name} declares", source.set(path, port))


def _raise(
    case: Case, failure: Failure, source: Source, field: str, default: int, least: int, unit: str
) -> Fix:
    now = getattr(failure.probe, field)
    wanted = max(least, 2 * (default if now is None else now))
    path = (*case.path, f"{failure.kind}Probe", field)
    but = "listens on another port" if failure.category == "refused" else "hangs"
    note = f"This helps a slow program, but not one that {but}."
    return Fix(f"Raise {field} to {wanted}{unit}", source.set(path, wanted), note)


_FAILING_READINESS = _failing("readiness")
_KILLED_BY_LIVENESS = _killed("liveness")
_KILLED_BY_STARTUP = _killed("startup")
_FAILING_STARTUP = _failing("startup")
_EVENTS = ("Unhealthy", "Killing", "ProbeWarning")

KILLED: tuple[Rule[Case], ...] = with_events(
    _EVENTS,
    Rule(
        id="LivenessKilled",
        match=_match(_KILLED_BY_LIVENESS),
        title="{container} is restarted by its liveness probe: {what}.",
        brief="liveness: {what}",
        sentences=(
            (
                "After {threshold} failures in a row, probed every {period} s, the kubelet stops"
                " the container."
            ),
        ),
        advice="{advice}",
        logs=True,
        fixes=_fixes(_KILLED_BY_LIVENESS),
        docs=_DOCS + "#define-a-liveness-command",
    ),
    Rule(
        id="StartupKilled",
        match=_match(_KILLED_BY_STARTUP),
        title="{container} is stopped: its startup probe does not pass in time, {what}.",
        brief="startup: {what}",
        sentences=("It has {threshold} tries, one every {period} s, to start.",),
        advice="{advice}",
        logs=True,
        fixes=_fixes(_KILLED_BY_STARTUP),
        docs=_DOCS + "#define-startup-probes",
    ),
)
NOT_READY: tuple[Rule[Case], ...] = with_events(
    _EVENTS,
    Rule(
        id="StartupWaiting",
        match=_match(_FAILING_STARTUP),
        title="{container} runs, but its startup probe does not pass yet: {what}.",
        brief="startup: {what}",
        sentences=("It has {threshold} tries, one every {period} s; then it is stopped.",),
        logs=True,
        fixes=_fixes(_FAILING_STARTUP),
        docs=_DOCS + "#define-startup-probes",
    ),
    Rule(
        id="ReadinessRefused",
        match=_match(_FAILING_READINESS, "refused"),
        title="{container} runs but is not ready: nothing listens on port {port} of the pod.",
        brief="not ready: port {port} is closed",
        sentences=(
            (
                "Either the program listens on another port or only on 127.0.0.1, or it does not"
                " listen yet."
            ),
        ),
        advice="Probe the port that the program listens on; its log often names it.",
        logs=True,
        fixes=_fixes(_FAILING_READINESS),
        docs=_DOCS + "#define-readiness-probes",
    ),
    Rule(
        id="ReadinessPath",
        match=_match(_FAILING_READINESS, "missing"),
        title="{container} runs but is not ready: {path} does not exist (404).",
        brief="not ready: no {path} (404)",
        advice="{advice}",
        logs=True,
        fixes=_fixes(_FAILING_READINESS),
        docs=_DOCS + "#define-readiness-probes",
    ),
    Rule(
        id="ReadinessStatus",
        match=_match(_FAILING_READINESS, "status", "denied"),
        title="{container} runs but is not ready: {path} returns {status}.",
        brief="not ready: {status} from {path}",
        sentences=("A status from 200 to 399 counts as ready.",),
        advice="The program reports that it is unhealthy: read its log.",
        logs=True,
        docs=_DOCS + "#define-readiness-probes",
    ),
    Rule(
        id="ReadinessTimeout",
        match=_match(_FAILING_READINESS, "timeout"),
        title="{container} runs but is not ready: its probe gets no response within {timeout} s.",
        brief="not ready: no response in {timeout} s",
        logs=True,
        fixes=_fixes(_FAILING_READINESS),
        docs=_DOCS + "#configure-probes",
    ),
    Rule(
        id="ReadinessExec",
        match=_match(_FAILING_READINESS, "exec"),
        title="{container} runs but is not ready: its readiness command fails.",
        brief="not ready: its command fails",
        sentences=("Output: {output}",),
        advice="Run the command in the container to see why.",
        logs=True,
        docs=_DOCS + "#define-readiness-probes",
    ),
    Rule(
        id="ReadinessFailing",
        match=_match(_FAILING_READINESS),
        title="{container} runs but is not ready: {what}.",
        brief="not ready: {what}",
        logs=True,
        fixes=_fixes(_FAILING_READINESS),
        docs=_DOCS + "#define-readiness-probes",
    ),
)


def _probe_pending(case: Case) -> Match | None:
    status = case.status
    if status is None or not case.running or (status.ready and status.started):
        return None
    kind = "startup" if not status.started else "readiness"
    return Match({"probe": kind}, (*case.path, f"{kind}Probe"))


def _init_runs(case: Case) -> Match | None:
    return Match() if case.init and not case.sidecar and case.running else None


PENDING: tuple[Rule[Case], ...] = with_events(
    _EVENTS,
    Rule(
        id="InitRunning",
        match=_init_runs,
        title="The init container {container} is still running; the app containers wait for it.",
        logs=True,
        events=("Started",),
        kind=Kind.WAIT,
        docs="https://kubernetes.io/docs/concepts/workloads/pods/init-containers/",
    ),
    Rule(
        id="ProbePending",
        match=_probe_pending,
        title="{container} runs; its {probe} probe has not passed yet.",
        brief="{probe} probe is pending",
        kind=Kind.WAIT,
        docs=_DOCS,
    ),
)
