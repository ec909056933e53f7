"""Causes of a container that cannot be created or started (kubelet.md §6.5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from podtui.api.kills import KillReason
from podtui.api.places import Path
from podtui.editing.source import Source
from podtui.why.admission import move_port
from podtui.why.amounts import HostPort, host_ports
from podtui.why.cases import Case, newest
from podtui.why.types import Facts, Fix, Kind, Match, Rule, with_events

_DOCS = "https://kubernetes.io/docs/"
_START = ("CreateContainerError", "RunContainerError")
_EVENTS = ("Failed",)
_BUILTINS = frozenset(
    "cd export source . alias ulimit umask set unset eval exec exit trap wait if for while".split()
)
"""Built-in commands of a shell: there is no executable with such a name."""
_BIND = re.compile(r"(?:Bind for|listen (?:tcp|udp)\d?) \S*?:(\d+)\b.*?(?:already|in use)")
PORT_TEXTS = ("port is already allocated", "address already in use")
_PROGRAM = re.compile(r'exec: \\?"([^"\\]+)\\?"')
_USER = re.compile(r"unable to find (?:user|group) ([^:\s]+)")


def _text(case: Case) -> str:
    """Return the error of the last attempt. A failed start may be reported as a termination."""
    if case.waiting.reason in _START:
        return case.waiting.message
    ending = case.ending
    if ending is not None and ending.reason in ("StartError", "ContainerCannotRun"):
        return ending.message
    return ""


def _by_text(*hints: str) -> Callable[[Case], Match | None]:
    def match(case: Case) -> Match | None:
        text = _text(case)
        if not text or (hints and not any(hint in text for hint in hints)):
            return None
        return Match({"text": text})

    return match


# --- programs


def _program(case: Case, text: str) -> tuple[str, Path]:
    """Return the program that could not be run, and the field that names it."""
    match = _PROGRAM.search(text)
    command = case.container.command or case.container.args
    name = match[1] if match else (command[0] if command else "its program")
    kind = "command" if case.container.command else "args" if case.container.args else "image"
    return name, (*case.path, kind)


def _missing(case: Case) -> Match | None:
    text = _text(case)
    absent = "executable file not found" in text or (
        "no such file or directory" in text and ("exec:" in text or "exec /" in text)
    )
    if not absent or "chdir" in text:
        return None
    name, path = _program(case, text)
    why = "The image has no program of that name on its PATH."
    if name in _BUILTINS:
        why = "That is a shell built-in, not a program: run it with a shell."
    elif " " in name:
        why = (
            "The whole line was used as the program's name: each word must be an item of the list."
        )
    elif "/" in name:
        why = "The image has no such file, or the file names an interpreter that it does not have."
    return Match({"program": name, "why": why}, path)


def _in_shell(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    """Offer to pass a command that is a whole command line to a shell."""
    command = case.container.command
    if len(command) == 1 and " " in command[0] and command[0] == match.values["program"]:
        edit = source.prepend((*case.path, "command"), ("sh", "-c"))
        if edit is not None:
            yield Fix("Run the line with a shell: sh -c", (edit,), "The image must have a shell.")


def _mode(case: Case) -> Match | None:
    text = _text(case)
    if "permission denied" not in text or ("exec" not in text and "starting" not in text):
        return None
    name, path = _program(case, text)
    return Match({"program": name}, path)


def _chdir(case: Case) -> Match | None:
    text = _text(case)
    if "chdir" not in text and "working directory" not in text.lower():
        return None
    return Match({"directory": case.container.workingDir or "?"}, (*case.path, "workingDir"))


def _user(case: Case) -> Match | None:
    match = _USER.search(_text(case))
    return Match({"user": match[1]}, case.security_path("runAsUser")) if match else None


def _memory(case: Case) -> Match | None:
    text = _text(case)
    if "inimum memory limit" not in text:
        return None
    return Match({"text": text}, (*case.path, "resources", "limits", "memory"))


def _enough_memory(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    path = (*case.path, "resources", "limits", "memory")
    yield Fix("Raise the memory limit to 16Mi", source.set(path, "16Mi"))


def taken_port(facts: Facts, text: str) -> HostPort | None:
    """Return the pod's host port that the engine could not bind, parsed from its message."""
    match = _BIND.search(text)
    ports = tuple(host_ports(facts.pod))
    return next((p for p in ports if match and p.number == int(match[1])), None)


def port_values(facts: Facts, port: HostPort | None, text: str) -> dict[str, str]:
    match = _BIND.search(text)
    number = str(port.number) if port else match[1] if match else "?"
    holder = facts.node_pods.port_holder(port, facts.pod) if port else ""
    owner = f"the pod {holder}" if holder else "another program or container of this machine"
    return {"port": number, "holder": owner, "text": text}


def _port(case: Case) -> Match | None:
    text = _text(case)
    if not any(hint in text for hint in PORT_TEXTS):
        return None
    port = taken_port(case.facts, text)
    return Match(port_values(case.facts, port, text), port.path if port else None)


def _other_port(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    port = taken_port(case.facts, match.values["text"])
    if port is not None:
        yield from move_port(case.facts, port, source)


def _not_a_directory(case: Case) -> Match | None:
    text = _text(case)
    if "not a directory" not in text and "mount a directory onto a file" not in text:
        return None
    mounts = case.container.volumeMounts
    index = next((i for i, m in enumerate(mounts) if m.mountPath in text), None)
    path = (*case.path, "volumeMounts", index, "mountPath") if index is not None else None
    where = mounts[index].mountPath if index is not None else "that path"
    return Match({"where": where}, path or (*case.path, "volumeMounts"))


def _hook(case: Case) -> Match | None:
    waits = case.waiting.reason == "PostStartHookError"
    lifecycle = case.container.lifecycle
    if not waits and (
        lifecycle is None
        or lifecycle.postStart is None
        or not case.killed_for(KillReason.POST_START, "FailedPostStartHook")
    ):
        return None
    event = newest(case.events_with("FailedPostStartHook"))
    text = case.kill.message if case.kill is not None else event.message if event else ""
    text = case.waiting.message if waits else text
    return Match({"text": text or "no reason is given"})


def _creating(case: Case) -> Match | None:
    waits = case.waiting.reason == "ContainerCreating"
    return Match() if waits or (case.waiting.reason == "" and case.status is not None
                                and case.status.state.waiting is not None) else None  # fmt: skip


STARTING: tuple[Rule[Case], ...] = with_events(
    _EVENTS,
    Rule(
        id="PostStartFailed",
        match=_hook,
        title="The postStart hook of {container} failed, so the container was stopped.",
        brief="postStart hook failed",
        sentences=(
            "{text}",
            "The hook may run before the program is ready, and is not retried.",
        ),
        advice="Let the hook wait for what it needs, and exit with 0.",
        field=("lifecycle", "postStart"),
        events=("FailedPostStartHook", "Killing"),
        logs=True,
        docs=_DOCS + "concepts/containers/container-lifecycle-hooks/",
    ),
    Rule(
        id="HostPortInUse",
        match=_port,
        title="Port {port} of this machine is in use by {holder}.",
        brief="port {port} in use by {holder}",
        fixes=_other_port,
        docs=_DOCS + "concepts/configuration/overview/",
    ),
    Rule(
        id="WorkingDirectory",
        match=_chdir,
        title="{container} cannot start in {directory}: the image has no such directory.",
        brief="no directory {directory}",
        field=("workingDir",),
    ),
    Rule(
        id="CommandNotFound",
        match=_missing,
        title="{container} cannot start: there is no program {program} in the image {image}.",
        brief="no program {program}",
        sentences=("{why}",),
        advice="Use a program of the image, with its full path if it is not on the PATH.",
        fixes=_in_shell,
        docs=_DOCS + "tasks/inject-data-application/define-command-argument-container/",
    ),
    Rule(
        id="CommandNotExecutable",
        match=_mode,
        title="{container} cannot start: {program} cannot be executed.",
        brief="cannot execute {program}",
        sentences=("It is a directory, or a file without the permission to execute it.",),
        advice="Use a program; for a script, run its interpreter: sh /path/to/script.",
        docs=_DOCS + "tasks/inject-data-application/define-command-argument-container/",
    ),
    Rule(
        id="WrongFormat",
        match=_by_text("exec format error"),
        title="The program of {image} was built for another processor, or is a script without #!.",
        brief="wrong processor, or no #!",
        advice="Use an image for this machine, or run the interpreter: sh script.",
        field=("image",),
    ),
    Rule(
        id="MountKind",
        match=_not_a_directory,
        title="A file and a directory cannot be mounted over each other at {where}.",
        brief="file and directory at {where}",
        sentences=("The volume has a directory there and the image a file, or the reverse.",),
        advice="Mount it at another path, or select one file of the volume with subPath.",
        docs=_DOCS + "concepts/storage/volumes/#using-subpath",
    ),
    Rule(
        id="UserUnknown",
        match=_user,
        title="The image {image} has no user {user}.",
        brief="no user {user} in the image",
        advice="Use a numeric user id.",
    ),
    Rule(
        id="MemoryTooSmall",
        match=_memory,
        title="The memory limit of {container} is below the engine's minimum.",
        brief="memory limit too small",
        sentences=("{text}",),
        fixes=_enough_memory,
        docs=_DOCS + "concepts/configuration/manage-resources-containers/",
    ),
    Rule(
        id="ContainerStart",
        match=_by_text(),
        title="The engine cannot start {container}: {text}",
        brief="cannot start: {text}",
        field=(),
    ),
)
CREATING: Rule[Case] = Rule(
    id="Creating",
    match=_creating,
    title="The container {container} is being created.",
    events=("Pulled", "Created", "Started", "FailedSync"),
    kind=Kind.WAIT,
)
