"""Causes of a container's termination, derived from its exit code (kubelet.md §6.6, §7.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from podtui.api.kills import KillReason
from podtui.api.places import Path
from podtui.editing.source import Source
from podtui.why.amounts import quantity
from podtui.why.cases import Case
from podtui.why.missing_rules import missing_rule
from podtui.why.types import Evidence, Fix, Kind, Match, Rule, with_events

_DOCS = "https://kubernetes.io/docs/"
_EVENTS = ("BackOff", "Killing")
_RESTARTS = "It is restarted with back-off, up to 5 minutes."
_IN_USE = ("address already in use", "eaddrinuse", "bind: address")
_READ_ONLY = ("read-only file system", "erofs")
_FORBIDDEN = ("permission denied", "eacces", "operation not permitted")
_UNREACHED = ("connection refused", "could not connect", "no such host", "name resolution")


def _values(case: Case) -> dict[str, str]:
    ending = case.ending
    code = ending.exitCode if ending is not None else 0
    last_output = ending.message.strip() if ending is not None else ""
    line = last_output.splitlines()[-1] if last_output else case.log[-1].strip() if case.log else ""
    name = (*case.container.command, *case.container.args, case.container.image)[0]
    again = _RESTARTS if case.policy != "Never" else ""
    return {
        "code": str(code),
        "last_output": f"Last log line: {line}" if line else "",
        "program": name,
        "again": again,
        "signal": str(code - 128) if code > 128 else "",
    }


def _command(case: Case) -> Path:
    for kind in ("command", "args"):
        if getattr(case.container, kind):
            return (*case.path, kind)
    return (*case.path, "image")


def _code(*codes: int) -> Callable[[Case], Match | None]:
    def match(case: Case) -> Match | None:
        ending = case.ending
        if ending is None or ending.exitCode not in codes or case.completed:
            return None
        return Match(_values(case), _command(case))

    return match


def _by_output(*hints: str) -> Callable[[Case], Match | None]:
    """Match a failure whose last output contains one of these texts."""

    def match(case: Case) -> Match | None:
        ending = case.ending
        if ending is None or ending.exitCode in (0, 137, 143):
            return None
        output = case.output.lower()
        line = next((line for line in reversed(case.output.splitlines())
                     if any(hint in line.lower() for hint in hints)), "")  # fmt: skip
        if not any(hint in output for hint in hints):
            return None
        return Match({**_values(case), "line": line.strip()}, _command(case))

    return match


def _forbidden_request(case: Case) -> Match | None:
    """Match a failure whose last output has an error of an API server that names a rule."""
    ending = case.ending
    if ending is None or ending.exitCode in (0, 137, 143):
        return None
    for line in reversed(case.output.splitlines()):
        rule = missing_rule(line)
        if rule is not None:
            values = {"line": line.strip(), "missing": rule.title, "what": rule.what,
                      "rule": rule.rule, "grant": rule.advice}  # fmt: skip
            return Match({**_values(case), **values}, ("spec", "serviceAccountName"))
    return None


# --- memory


def memory_limit(case: Case) -> Path:
    """Return the field that sets the container's memory limit."""
    path = (*case.path, "resources", "limits", "memory")
    shared = case.pod.spec.resources
    if "memory" not in case.container.resources.limits and shared is not None:
        return ("spec", "resources", "limits", "memory")
    return path


def _limit(case: Case) -> str:
    shared = case.pod.spec.resources
    limit = case.container.resources.limits.get("memory", "")
    return limit or (shared.limits.get("memory", "") if shared is not None else "")


def _oom(case: Case) -> Match | None:
    ending = case.ending
    if ending is None or ending.reason != "OOMKilled":
        return None
    limit = _limit(case)
    # A container that runs again may have been resized meanwhile.
    its = f"its limit (now {limit})" if case.running else f"its limit of {limit}"
    what = its if limit else "the free memory of the machine"
    size = f"limit {limit}" if limit else "the machine has no more"
    return Match({**_values(case), "limit": what, "size": size}, memory_limit(case))


def _more_memory(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    limit = quantity(_limit(case))
    if limit:
        path, more = memory_limit(case), str(limit + limit)
        yield Fix(f"Double the memory limit to {more}", source.set(path, more),
                  "A memory leak will reach this limit, too.")  # fmt: skip


_OFTEN: Final = 2
"""The number of restarts from which the limit is the probable cause of a kill."""


def _killed_at_limit(case: Case) -> Match | None:
    """Match repeated kills of unknown origin under a memory limit."""
    ending, limit = case.ending, _limit(case)
    if ending is None or ending.exitCode != 137 or not limit or case.restarts < _OFTEN:
        return None
    observed = f"{case.name} has a memory limit of {limit}; the engine reports no OOM kill"
    evidence = (Evidence("state", observed),)
    return Match({**_values(case), "limit": limit}, memory_limit(case), evidence)


_IF_MEMORY: Final = "This helps only if memory is the cause: check its usage first."


def _perhaps_more_memory(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    for fix in _more_memory(case, match, source):
        if fix is not None:
            yield replace(fix, note=_IF_MEMORY)


# --- terminations that are not failures


def _by_design(case: Case) -> Match | None:
    ending = case.ending
    if ending is None or ending.exitCode != 0 or case.completed:
        return None
    if case.kill is not None or case.event_of_termination("Killing") is not None:
        return None
    return Match(_values(case), case.policy_path)


def _ends(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    if case.sidecar:
        edit = source.remove((*case.path, "restartPolicy"))
        note = "It must then complete before the next containers start."
        yield Fix("Make it a regular init container", (edit,) if edit else (), note)
        return
    for policy, when in (("OnFailure", "again only on failure"), ("Never", "once")):
        edits = source.set(case.policy_path, policy)
        if not edits and case.policy_path not in source.places:
            edits = source.set(("spec", "restartPolicy"), policy)
        yield Fix(f"Run it {when}: restartPolicy {policy}", edits)


# --- terminations by a signal


def _after_grace(case: Case) -> Match | None:
    """Match a container that was killed because it did not terminate within its grace period."""
    ending = case.ending
    if ending is None or ending.exitCode != 137 or ending.reason == "OOMKilled":
        return None
    if case.kill is None and case.event_of_termination("Killing") is None:
        return None
    grace = case.pod.spec.terminationGracePeriodSeconds
    return Match({**_values(case), "grace": str(grace or 0)}, _command(case))


def _stopped(case: Case) -> Match | None:
    if case.ending is None or case.kill is None or _after_grace(case) is not None:
        return None
    return Match({**_values(case), "why": STOPPED[case.kill.reason]})


def _status_unknown(case: Case) -> Match | None:
    ending = case.ending
    if ending is None or ending.reason != "ContainerStatusUnknown":
        return None
    return Match(_values(case))


def _all_restarted(case: Case) -> Match | None:
    ending = case.ending
    if ending is None or ending.reason != "RestartingAllContainers":
        return None
    return Match(_values(case))


def _failed(case: Case) -> Match | None:
    ending = case.ending
    if ending is None or ending.exitCode == 0:
        return None
    return Match(_values(case), _command(case))


def _backing_off(case: Case) -> Match | None:
    return Match() if case.waiting.reason == "CrashLoopBackOff" else None


STOPPED: Final = {
    KillReason.UNKNOWN: "its state was not known",
    KillReason.STARTUP_PROBE: "its startup probe had failed",
    KillReason.LIVENESS_PROBE: "its liveness probe had failed",
    KillReason.POST_START: "its postStart hook had failed",
    KillReason.DEFINITION_CHANGED: "its definition changed",
    KillReason.RESIZE: "its resources changed, which needs a restart",
    KillReason.REQUESTED: "a restart was requested",
    KillReason.RESTART_ALL: "a restart rule restarts all containers",
    KillReason.SANDBOX_CHANGED: "the pod's sandbox had to be replaced",
    KillReason.POD: "the whole pod was stopped",
}


ENDINGS: tuple[Rule[Case], ...] = with_events(
    _EVENTS,
    Rule(
        id="OutOfMemory",
        match=_oom,
        title="{container} was killed for using more memory than {limit}.",
        brief="out of memory: {size}",
        sentences=("The kernel killed it at once: exit code 137.", "{again}"),
        advice="Give it more memory, or make the program use less.",
        logs=True,
        fixes=_more_memory,
        docs=_DOCS + "tasks/configure-pod-container/assign-memory-resource/",
    ),
    Rule(
        id="ContainerLost",
        match=_status_unknown,
        title="{container} disappeared: the engine no longer has it.",
        brief="lost by the engine",
        sentences=("It was removed manually, or lost by the engine; its exit code is unknown.",),
    ),
    Rule(
        id="Stopped",
        match=_stopped,
        title="{container} was stopped by the kubelet: {why}.",
        brief="stopped: {why}",
        sentences=("It exited with code {code}.",),
        kind=Kind.WAIT,
    ),
    Rule(
        id="AllRestarted",
        match=_all_restarted,
        title="All containers were restarted, as a restart rule of one of them requires.",
        brief="all restarted by a restart rule",
        field=("restartPolicyRules",),
        docs=_DOCS + "concepts/workloads/pods/pod-lifecycle/",
    ),
    Rule(
        id="EndsByDesign",
        match=_by_design,
        title="{container} exits without an error, but its restartPolicy is Always.",
        brief="exit code 0, but restartPolicy Always",
        sentences=(
            (
                "Its program ({program}) finished with exit code 0; under restartPolicy"
                " Always that counts as a crash."
            ),
            "{again}",
        ),
        advice="Give it a command that keeps running, or a restartPolicy for work that ends.",
        logs=True,
        fixes=_ends,
        docs=_DOCS + "concepts/workloads/pods/pod-lifecycle/#restart-policy",
    ),
    Rule(
        id="AccountForbidden",
        match=_forbidden_request,
        title="{container} exited with code {code}, probably because {missing}.",
        brief="account may not {what}",
        sentences=("Log: {line}", "Missing rule: {rule}.", "{again}"),
        advice="{grant}",
        logs=True,
        docs=_DOCS + "reference/access-authn-authz/rbac/",
    ),
    Rule(
        id="AddressInUse",
        match=_by_output(*_IN_USE),
        title="{container} exited with code {code}, probably because a port is already in use.",
        brief="port probably in use, exit code {code}",
        sentences=(
            "Log: {line}",
            "All containers of a pod share one address; with hostNetwork it is the machine's.",
        ),
        advice="Let one of them listen on another port.",
        logs=True,
    ),
    Rule(
        id="ReadOnly",
        match=_by_output(*_READ_ONLY),
        title="{container} exited with code {code}, probably because it writes to a read-only file"
        " system.",
        brief="probably read-only files, exit code {code}",
        sentences=("Log: {line}",),
        advice="Mount an emptyDir there, or remove readOnlyRootFilesystem or readOnly.",
        logs=True,
        docs=_DOCS + "tasks/configure-pod-container/security-context/",
    ),
    Rule(
        id="Forbidden",
        match=_by_output(*_FORBIDDEN),
        title="{container} exited with code {code}, probably because it lacks a permission.",
        brief="permission probably lacking, exit code {code}",
        sentences=("Log: {line}",),
        advice="Check the user it runs as (runAsUser, fsGroup) and the owner of the files.",
        logs=True,
        docs=_DOCS + "tasks/configure-pod-container/security-context/",
    ),
    Rule(
        id="DependencyMissing",
        match=_by_output(*_UNREACHED),
        title="{container} exited with code {code}, probably because a service that it needs does"
        " not respond.",
        brief="service probably down, exit code {code}",
        sentences=("Log: {line}", "It is restarted with back-off until the service responds."),
        advice="Start what it needs first, or let an init container wait for it.",
        logs=True,
    ),
    Rule(
        id="KilledAfterGrace",
        match=_after_grace,
        title="{container} did not stop within its grace period and was killed.",
        brief="killed after its grace period",
        sentences=(
            (
                "It had {grace} s from SIGTERM to SIGKILL (exit code 137). Process 1 receives"
                " SIGTERM only if it has a handler for it."
            ),
        ),
        advice="Make the program exit on SIGTERM; in a script, start the program with exec.",
        logs=True,
        docs=_DOCS + "concepts/workloads/pods/pod-lifecycle/#pod-termination",
    ),
    Rule(
        id="KilledAtLimit",
        match=_killed_at_limit,
        title="{container} was killed again and again: exit code 137 (SIGKILL), probably for"
        " reaching its memory limit of {limit}.",
        brief="exit code 137, probably memory limit {limit}",
        sentences=(
            (
                "This is a guess: neither the kubelet nor the engine recorded what killed it. An"
                " engine can miss that the kernel killed a process for lack of memory."
            ),
            "{again}",
        ),
        advice="Compare its memory usage with the limit, and look for its name in dmesg. If memory"
        " is not the cause, check if another program or user kills it.",
        logs=True,
        fixes=_perhaps_more_memory,
        docs=_DOCS + "tasks/configure-pod-container/assign-memory-resource/",
    ),
    Rule(
        id="Killed",
        match=_code(137),
        title="{container} was killed: exit code 137 (SIGKILL).",
        brief="exit code 137 (SIGKILL)",
        sentences=(
            "Neither the kubelet nor the engine recorded what killed it.",
            "{again}",
        ),
        advice="Check if another program or user killed it, or if dmesg reports a lack of memory.",
        logs=True,
    ),
    Rule(
        id="Terminated",
        match=_code(143),
        title="{container} exited on SIGTERM: exit code 143.",
        brief="exit code 143 (SIGTERM)",
        sentences=("It received a request to stop, and exited.", "{again}"),
        logs=True,
        docs=_DOCS + "concepts/workloads/pods/pod-lifecycle/#pod-termination",
    ),
    Rule(
        id="SegmentationFault",
        match=_code(139),
        title="{container} crashed: segmentation fault (exit code 139, SIGSEGV).",
        brief="segmentation fault, exit code 139",
        sentences=(
            "Probably, the program has a bug, or the image is for another processor or C library.",
            "{again}",
        ),
        field=("image",),
        logs=True,
    ),
    Rule(
        id="Aborted",
        match=_code(134, 132, 136),
        title="{container} crashed: its program aborted (exit code {code}).",
        brief="aborted, exit code {code}",
        sentences=("{last_output}", "{again}"),
        logs=True,
    ),
    Rule(
        id="NoSuchCommand",
        match=_code(127),
        title="{container} exited with code 127: probably, a shell found no such command.",
        brief="exit code 127, probably no such command",
        sentences=("{last_output}", "If so, the image lacks that program, or its name has a typo."),
        advice="Correct the name, or use an image that has it.",
        logs=True,
        docs=_DOCS + "tasks/inject-data-application/define-command-argument-container/",
    ),
    Rule(
        id="NotExecutable",
        match=_code(126),
        title="{container} exited with code 126: probably, a command was found, but cannot"
        " be executed.",
        brief="exit code 126, probably not executable",
        sentences=("{last_output}", "If so, the file is not executable, or not a program."),
        advice="Make it executable in the image, or name its interpreter.",
        logs=True,
    ),
    Rule(
        id="Usage",
        match=_code(2),
        title="{container} exited with code 2, possibly because of wrong arguments.",
        brief="exit code 2, possibly wrong arguments",
        sentences=(
            "{last_output}",
            "Many programs use this code for them, others for any error.",
            "{again}",
        ),
        advice="Read its log; if it names no other cause, check command and args: each argument is"
        " a separate item.",
        logs=True,
        docs=_DOCS + "tasks/inject-data-application/define-command-argument-container/",
    ),
    Rule(
        id="Fails",
        match=_failed,
        title="{container} fails: it exited with code {code}.",
        brief="exit code {code}",
        sentences=("{last_output}", "{again}"),
        advice="Read its log for the cause; then change the manifest or the program.",
        logs=True,
        docs=_DOCS + "tasks/debug/debug-application/debug-pods/",
    ),
    Rule(
        id="BackingOff",
        match=_backing_off,
        title="{container} keeps exiting and waits for its next restart.",
        brief="keeps exiting",
        logs=True,
    ),
)
