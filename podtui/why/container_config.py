"""Causes of a container configuration that cannot be built (kubelet.md §10.3, §10.5, §12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from podtui.api.places import Path
from podtui.api.pod_resources import is_static
from podtui.api.v1 import Container
from podtui.editing.source import Source
from podtui.why.cases import Case
from podtui.why.folder import findings_at
from podtui.why.missing_rules import missing_rule
from podtui.why.types import Facts, Fix, Match, Rule, with_events

_DOCS = "https://kubernetes.io/docs/"
_EVENTS = ("Failed",)
_NOBODY = 65534
_DOCUMENT = re.compile(r'^(configmap|secret) "([^"]+)" not found')
_DENIED = re.compile(r'(?P<resource>[a-z]+) "(?P<name>[^"]+)" is forbidden: User "(?P<user>[^"]+)"')
_KINDS = {
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "persistentvolumeclaims": "claim",
    "persistentvolumes": "PersistentVolume",
}
_KEY = re.compile(r"couldn't find key (\S+) in (\w+) (\S+)/(\S+)")


def _text(case: Case) -> str:
    """Return the error of the last attempt; empty if there was none."""
    return case.waiting.message if case.waiting.reason == "CreateContainerConfigError" else ""


def _any(case: Case) -> Match | None:
    text = _text(case)
    return Match({"text": text}) if text else None


# --- user and group


def _non_root(hint: str, name: str) -> Callable[[Case], Match | None]:
    def match(case: Case) -> Match | None:
        text = _text(case)
        if hint not in text:
            return None
        user = re.search(r"non-numeric user \((.*?)\)", text)
        values = {"text": text, "user": user[1] if user else "root"}
        return Match(values, case.security_path(name))

    return match


def _run_as_nobody(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    demand, user = case.security_path("runAsNonRoot"), case.security_path("runAsUser")
    if user not in source.places:
        # Set the user at the same level as runAsNonRoot, so that both apply to the same containers.
        user = (*demand[:-1], "runAsUser")
    edits = source.set(user, _NOBODY, after="runAsNonRoot")
    note = "Without root, the program may lack access to its files and to ports below 1024."
    yield Fix(f"Run it as user {_NOBODY} (nobody)", edits, note)
    yield Fix("Allow root: runAsNonRoot false", source.set(demand, False))


# --- ConfigMaps and Secrets


def missing_document(facts: Facts, kind: str) -> dict[str, str]:
    """Return values about a missing ConfigMap or Secret: those of a static pod are files."""
    if is_static(facts.pod):
        lack, remedy = "is not in the folder", f"Add that {kind} to the folder"
    else:
        lack, remedy = "does not exist", f"Create that {kind} in the pod's namespace"
    return {"kind": kind, "lack": lack, "remedy": remedy}


def _document(case: Case) -> Match | None:
    match = _DOCUMENT.search(_text(case))
    if match is None:
        return None
    kind = {"configmap": "ConfigMap", "secret": "Secret"}[match[1]]
    values = {"name": match[2], **missing_document(case.facts, kind)}
    return Match(values, _reference(case.container, case.path, match[2], ""))


def denied_values(text: str) -> dict[str, str] | None:
    """Return values about an object that the cluster does not let the node read; None for another
    error."""
    match = _DENIED.search(text)
    if match is None:
        return None
    kind = _KINDS.get(match["resource"], match["resource"])
    return {"kind": kind, "name": match["name"], "advice": denied_advice(text)}


def denied_advice(text: str) -> str:
    """Return advice about a request of the node that the cluster refuses with ``text``."""
    rule = None if "no relationship found between node" in text else missing_rule(text)
    match = _DENIED.search(text)
    user = match["user"] if match is not None else ""
    if rule is not None and not rule.user.startswith("system:node:"):
        return rule.advice
    return (
        f"Check that the credentials ({user}) are those of the pod's node. Right after its start,"
        " an API server refuses such requests for some seconds."
    )


def _forbidden(case: Case) -> Match | None:
    values = denied_values(_text(case))
    if values is None:
        return None
    return Match(values, _reference(case.container, case.path, values["name"], ""))


def _key(case: Case) -> Match | None:
    match = _KEY.search(_text(case))
    if match is None:
        return None
    values = {"key": match[1], "kind": match[2], "name": match[4]}
    field = _reference(case.container, case.path, match[4], match[1])
    # The finding names the keys that exist.
    return Match(values, field, findings_at(case.facts.manifest, field))


def _reference(container: Container, path: Path, name: str, key: str) -> Path:
    """Return the field that refers to a ConfigMap or Secret."""
    for index, entry in enumerate(container.env):
        value = entry.valueFrom
        for field in ("configMapKeyRef", "secretKeyRef"):
            ref = getattr(value, field) if value is not None else None
            if ref is not None and ref.name == name and key in ("", ref.key):
                end = "key" if key else "name"
                return (*path, "env", index, "valueFrom", field, end)
    for index, source in enumerate(container.envFrom):
        for field in ("configMapRef", "secretRef"):
            ref = getattr(source, field)
            if ref is not None and ref.name == name:
                return (*path, "envFrom", index, field, "name")
    return (*path, "env")


def _correct_key(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    position, written = source.find(match.field or ())
    if position is not None and written:
        yield Fix("Correct the key in the editor", line=position[0])
    yield from _optional(case, match, source)


def _optional(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    if match.field is not None and match.field[-1] in ("name", "key"):
        edits = source.set((*match.field[:-1], "optional"), True, after="name")
        yield Fix("Start without it: optional true", edits, "The variable is then not set.")


def _sub_path(case: Case) -> Match | None:
    match = re.search(r"missing value for (\S+)", _text(case))
    if match is None:
        return None
    mounts = case.container.volumeMounts
    index = next((i for i, m in enumerate(mounts) if f"$({match[1]})" in m.subPathExpr), 0)
    return Match({"name": match[1]}, (*case.path, "volumeMounts", index, "subPathExpr"))


CONTAINER_CONFIG: tuple[Rule[Case], ...] = with_events(
    _EVENTS,
    Rule(
        id="RunsAsRoot",
        match=_non_root("image will run as root", "runAsNonRoot"),
        title="The image runs as root, and runAsNonRoot forbids that.",
        brief="runs as root despite runAsNonRoot",
        sentences=("Neither the image nor the manifest names another user.",),
        fixes=_run_as_nobody,
        docs=_DOCS + "tasks/configure-pod-container/security-context/",
    ),
    Rule(
        id="RunAsUserIsRoot",
        match=_non_root("runAsUser breaks non-root policy", "runAsUser"),
        title="runAsUser 0 is root, and runAsNonRoot forbids that.",
        brief="runAsUser 0 despite runAsNonRoot",
        fixes=_run_as_nobody,
        docs=_DOCS + "tasks/configure-pod-container/security-context/",
    ),
    Rule(
        id="UserNotANumber",
        match=_non_root("non-numeric user", "runAsNonRoot"),
        title="The image runs as {user}, a name: the kubelet cannot verify that it is not root.",
        brief="user {user} is not a number",
        sentences=("runAsNonRoot requires a numeric user.",),
        advice="Set runAsUser to that user's number.",
        fixes=_run_as_nobody,
        docs=_DOCS + "tasks/configure-pod-container/security-context/",
    ),
    Rule(
        id="DocumentMissing",
        match=_document,
        title="A variable of {container} needs the {kind} {name}, which {lack}.",
        brief="no {kind} {name}",
        advice="{remedy}, or write the value into the manifest.",
        fixes=_optional,
        docs=_DOCS + "tasks/configure-pod-container/configure-pod-configmap/",
    ),
    Rule(
        id="DocumentForbidden",
        match=_forbidden,
        title="The cluster does not let its node read the {kind} {name} for a variable of"
        " {container}.",
        brief="node may not read {kind} {name}",
        sentences=("A node may read only what the pods that are bound to it name.",),
        advice="{advice}",
        docs=_DOCS + "reference/access-authn-authz/node/",
    ),
    Rule(
        id="KeyMissing",
        match=_key,
        title="The {kind} {name} has no key {key}.",
        brief="no key {key} in {kind} {name}",
        advice="Add the key, or refer to an existing one.",
        fixes=_correct_key,
        docs=_DOCS + "tasks/configure-pod-container/configure-pod-configmap/",
    ),
    Rule(
        id="SubPathVariable",
        match=_sub_path,
        title="The variable {name} of a subPathExpr is not set or empty.",
        brief="no variable {name} for subPathExpr",
        advice="Set it under env of the same container, or write another subPathExpr.",
        docs=_DOCS + "concepts/storage/volumes/#using-subpath-expanded-environment",
    ),
    Rule(
        id="ContainerConfig",
        match=_any,
        title="The container {container} cannot be configured: {text}",
        brief="cannot be configured: {text}",
        field=(),
    ),
)
