"""Reads one manifest from bytes into pods and objects, or into diagnostics.

`read_manifest` is a pure function; `podtui.manifest.folder` reads the files and keeps earlier
versions.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import msgspec

from podtui.api import v1
from podtui.api.local import DocumentOutcome, ManifestObject, Severity
from podtui.api.places import write_places
from podtui.api.token_volumes import with_token_volume
from podtui.manifest.cluster_copy import as_copy
from podtui.manifest.decode import decode
from podtui.manifest.defaults import apply_defaults
from podtui.manifest.document import (
    FURTHER_DOCUMENT,
    Document,
    Path,
    Position,
    Problem,
    UnreadableText,
    as_utf8,
    printable,
)
from podtui.manifest.foreign import foreign_bytes, foreign_object, foreign_text, template_in_pod
from podtui.manifest.host_paths import relative_host_paths
from podtui.manifest.identity import identify
from podtui.manifest.kinds import Kind
from podtui.manifest.no_effect_fields import missing_ports, no_effect_fields, unscheduled_fields
from podtui.manifest.objects import (
    Claim,
    DocumentKind,
    FolderDocument,
    ObjectKey,
    read_object,
    references,
)
from podtui.manifest.problems import (
    MAX_DIAGNOSTICS,
    diagnostics,
    validation_problems,
    without_consequences,
)
from podtui.manifest.reader import Contents, read_document, read_documents, split_documents
from podtui.manifest.result import (
    NOT_PORTABLE,
    ReadResult,
    Spot,
    is_reference,
    not_portable,
    spot_of,
)
from podtui.manifest.validation import (
    ACCOUNTS,
    CLAIMS,
    validate_pod,
    validate_static,
    written_empties,
)
from podtui.manifest.validation.errors import INVALID

_log = logging.getLogger(__name__)

NAME: Final[Path] = ("metadata", "name")
MAX_TEXT: Final = 256 * 1024
_NO_CLAIMS: Final = "create a PersistentVolumeClaim in the API, and name it in the volume"
_REMEDIES: Final = {
    "secrets": "put that Secret into the folder, or write its values into the manifest",
    "configmaps": "put that ConfigMap into the folder, or write its values into the manifest",
    "persistentvolumeclaims": _NO_CLAIMS,
}
_OF_THE_API: Final = (CLAIMS, *ACCOUNTS)
_TOKEN_SUFFIX: Final = "token"
_SECRET: Final = re.compile(rb"kind[\"']?\s*:\s*[\"']?secret", re.IGNORECASE)
_QUOTATION: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[*&][^\s*&]+')
_QUOTING: Final = ("InvalidAlias", "InvalidYAML", "InvalidJSON", FURTHER_DOCUMENT)
"""The codes of problems whose messages quote the text."""

Placed = tuple[Problem, Document]


@dataclass(frozen=True, slots=True)
class PodReading:
    """``pod`` is set if it can be used. ``references`` are the ConfigMaps and Secrets of the
    problems that only a kubelet would refuse (departure 7)."""

    problems: tuple[Problem, ...]
    pod: v1.Pod | None = None
    references: tuple[tuple[Problem, ObjectKey], ...] = ()


def read_pod(document: Document, *, path: str, node_name: str, strict: bool) -> PodReading:
    """Decode, default, identify and validate one document (kubelet.md §1.3–1.5)."""
    reading = _read_pod(document, path=path, node_name=node_name, strict=strict)
    problems = as_copy(reading.problems, document, strict=strict)
    if strict:
        problems = _with_advice(problems, document)
    return replace(reading, problems=tuple(problems))


def _with_advice(problems: list[Problem], document: Document) -> list[Problem]:
    """Replace the fixes of a file that is not a Pod by advice about its actual kind. Fixes that
    would turn it into a Pod are useless."""
    tree: object = document.value
    foreign = foreign_object(cast("dict[str, Any]", tree)) if isinstance(tree, dict) else None
    if foreign is None or not problems:
        return problems
    first, *rest = problems
    advice = f"{foreign.message}; {foreign.fix}"
    return [replace(first, fix=advice), *(replace(problem, fix="") for problem in rest)]


def _read_pod(document: Document, *, path: str, node_name: str, strict: bool) -> PodReading:
    problems = list(document.problems)
    tree, decode_problems = decode(document, strict=strict)
    problems += decode_problems
    if tree is None:
        return PodReading(tuple(problems))
    apply_defaults(tree)
    try:
        pod = identify(msgspec.convert(tree, v1.Pod), node_name=node_name, path=path)
    except msgspec.ValidationError as error:
        problems.append(Problem(code="FieldValueTypeInvalid", message=printable(str(error))))
        return PodReading(tuple(problems))
    if not pod.metadata.name:
        problems.append(
            Problem(
                code="FieldValueRequired",
                message="Required value: name is needed for the pod",
                path=NAME,
                fix="add name",
            )
        )
    # The node's name does not come from the manifest, so an invalid one is not reported (case 2).
    errors = [e for e in validate_pod(pod) if (e.path, e.type) != ("spec.nodeName", INVALID)]
    errors += written_empties(tree)
    problems += validation_problems(errors, document, problems, strict=strict)
    if not strict:
        relative = [*relative_host_paths(pod.spec, path)]
        # Also instead of the error about ``..``: the fix removes it.
        problems = [p for p in problems if p.path not in {each.path for each in relative}]
        problems += relative
    no_effect = [
        *no_effect_fields(pod, strict=strict),
        *unscheduled_fields(tree["spec"], node_name),
        *missing_ports(pod),
    ]
    problems += without_consequences(no_effect, problems)
    return _with_references(pod, problems, document, strict=strict)


def _with_references(
    pod: v1.Pod, problems: list[Problem], document: Document, *, strict: bool
) -> PodReading:
    """Return the reading, with its pod unless problems or the rules for static pods exclude it."""
    errors = validate_static(pod)
    if not strict:
        # The claims and accounts of the API (departures 14 and 66).
        errors = [error for error in errors if error.value not in _OF_THE_API]
    refused = validation_problems(errors, document, problems)
    if not strict:
        refused = [not_portable(p) if is_reference(p.path, p.message) else p for p in refused]
        refused = [replace(p, fix=p.fix or _remedy(p.message)) for p in refused]
    problems = [*problems, *refused]
    good = all(p.severity is Severity.WARNING for p in problems)
    keys = ((p, _referenced(pod, p)) for p in refused if p.code == NOT_PORTABLE)
    references = tuple((problem, key) for problem, key in keys if key is not None)
    if not good:
        return PodReading(tuple(problems), None, references)
    return PodReading(tuple(problems), pod if strict else _with_token(pod), references)


def _referenced(pod: v1.Pod, problem: Problem) -> ObjectKey | None:
    """Return the ConfigMap or Secret at the path of a problem, if the pod requires it."""
    value: Any = pod
    for step in problem.path:
        try:
            value = value[step] if isinstance(step, int) else getattr(value, step, None)
        except (IndexError, TypeError):
            return None
    kind: DocumentKind = "Secret" if "secrets" in problem.message else "ConfigMap"
    key: ObjectKey = (kind, pod.metadata.namespace, value if isinstance(value, str) else "")
    return key if key in references(pod).needed else None


def _with_token(pod: v1.Pod) -> v1.Pod:
    """Return the pod with the token of the account that it names, or asks for."""
    spec = pod.spec
    account = spec.serviceAccountName or spec.serviceAccount
    spec = msgspec.structs.replace(spec, serviceAccountName=account, serviceAccount=account)
    wanted = spec.automountServiceAccountToken
    if bool(account) if wanted is None else wanted:
        spec = with_token_volume(spec, _TOKEN_SUFFIX)
    return msgspec.structs.replace(pod, spec=spec)


def _remedy(message: str) -> str:
    """Return what to do about a reference that a static pod may not have."""
    return next((fix for what, fix in _REMEDIES.items() if what in message), "")


def read_manifest(
    path: str,
    data: bytes,
    *,
    node_name: str,
    strict: bool = False,
    most: int | None = MAX_DIAGNOSTICS,
) -> ReadResult:
    """Read one manifest: its Pods and its other objects (kubelet.md §1.1, §1.3–1.5).

    ``path`` is absolute, because it is part of the pod's identity. ``strict`` is ``kubeletStrict``:
    only the first document is read, as a Pod, and unknown fields are warnings. ``most`` limits the
    diagnostics. Never raises, whatever ``data`` contains.
    """
    shown = as_utf8(data, "replace")
    secret = _SECRET.search(shown) is not None
    try:
        problems, result = _read(path, data, node_name=node_name, strict=strict)
    except UnreadableText as error:
        problem = error.problem if strict else _foreign(data) or error.problem
        problems, result = [(problem, Document(None))], ReadResult()
    except Exception as error:  # noqa: BLE001 - one file's bug must not stop the other files
        _log.error("Reading %s failed", path, exc_info=None if secret else error)
        why = "" if secret else f": {printable(str(error))}"
        problem = Problem(
            code="InternalError",
            message=f"podtui failed on this file: {type(error).__name__}{why}",
            fix="please report this with the file",
        )
        problems, result = [(problem, Document(None))], ReadResult()
    if secret:
        problems = [(_without_quotations(problem), document) for problem, document in problems]
    text = "" if secret else shown[:MAX_TEXT].decode("utf-8", "replace")
    return replace(result, diagnostics=diagnostics(problems, path, most), text=text)


def _foreign(data: bytes) -> Problem | None:
    """Recognize a file without a readable document by its content, if possible."""
    return foreign_bytes(data) or foreign_text(data[:MAX_TEXT].decode("utf-8-sig", "replace"))


def _without_quotations(problem: Problem) -> Problem:
    """Remove quotations from the problem of a text that may contain a Secret."""
    if problem.code not in _QUOTING:
        return problem
    return replace(
        problem,
        message=_QUOTATION.sub("…", problem.message),
        fix=_QUOTATION.sub("…", problem.fix),
    )


def _read(
    path: str, data: bytes, *, node_name: str, strict: bool
) -> tuple[list[Placed], ReadResult]:
    contents = (
        Contents(pods=[read_document(data)]) if strict else split_documents(read_documents(data))
    )
    problems: list[Placed] = [(problem, Document(None)) for problem in contents.problems]
    alone = len(contents.pods) == 1 and not contents.objects
    if alone and not strict and (foreign := _foreign_pod(contents.pods[0], data)) is not None:
        return [*problems, (foreign, Document(None))], ReadResult()
    reading = _Reading(path, node_name, strict)
    for document in contents.pods:
        reading.take_pod(document)
    for document, kind in contents.objects:
        reading.take_object(document, kind)
    problems += reading.problems
    sound = all(problem.severity is not Severity.ERROR for problem, _ in problems)
    result = ReadResult(
        pod_places=tuple(reading.pod_places),
        references=reading.references,
        present=frozenset(key for key in reading.positions if key[0] not in ("Pod", "UID")),
        positions=reading.positions,
        items=(*reading.items, *map(_item_of, [*contents.former, *contents.others])),
    )
    if sound:
        # A file is used as a whole or not at all.
        result = replace(result, pods=tuple(reading.pods), documents=tuple(reading.documents))
    return problems, result


def _foreign_pod(document: Document, data: bytes) -> Problem | None:
    """Recognize a file whose only document is not an object, or is a Pod with placeholders."""
    value: object = document.value
    if isinstance(value, list):
        # Text in another format may parse as a list of strings, but not as a list of maps.
        maps = any(isinstance(item, dict) for item in cast("list[object]", value))
        return None if maps else _foreign(data)
    if value is not None and not isinstance(value, dict):
        return _foreign(data)
    return template_in_pod(document)


_EXPLAINED: Final = frozenset(
    {"Service", "Ingress", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}
)
"""The kinds whose positions clients need for their fixes; those of a pod are always known."""


@dataclass(slots=True)
class _Reading:
    """The pods and the other objects of one file, collected while it is read."""

    path: str
    node_name: str
    strict: bool
    pods: list[v1.Pod] = field(default_factory=list[v1.Pod])
    pod_places: list[str] = field(default_factory=list[str])
    documents: list[FolderDocument] = field(default_factory=list[FolderDocument])
    positions: dict[Claim, Position] = field(default_factory=dict[Claim, Position])
    references: dict[Spot, ObjectKey] = field(default_factory=dict[Spot, ObjectKey])
    items: list[ManifestObject] = field(default_factory=list[ManifestObject])
    problems: list[Placed] = field(default_factory=list[Placed])

    def take_pod(self, document: Document) -> None:
        reading = read_pod(document, path=self.path, node_name=self.node_name, strict=self.strict)
        self.problems += ((problem, document) for problem in reading.problems)
        places = write_places(document.keys, document.values)
        self.pod_places.append(places)
        for problem, key in reading.references:
            self.references[spot_of(problem, document)] = key
        item = _item_of(document)
        if reading.pod is not None:
            meta = reading.pod.metadata
            position = document.position(NAME) or (1, 1)
            item = msgspec.structs.replace(
                item,
                namespace=meta.namespace,
                name=meta.name,
                outcome=DocumentOutcome.RUNS,
                uid=meta.uid,
                places=places,
            )
            if ("Pod", meta.namespace, meta.name) in self.positions:
                self._duplicate(document, ("Pod", meta.namespace, meta.name))
            self.positions.setdefault(("Pod", meta.namespace, meta.name), position)
            self.positions.setdefault(("UID", "", meta.uid), position)
            self.pods.append(reading.pod)
        self.items.append(item)

    def take_object(self, document: Document, kind: Kind) -> None:
        read, problems = read_object(document, kind)
        self.problems += ((problem, document) for problem in problems)
        item = _item_of(document)
        if read is not None:
            kind_name, namespace, name = read.key
            item = msgspec.structs.replace(
                item,
                kind=kind_name,
                namespace=namespace,
                name=name,
                outcome=DocumentOutcome.APPLIED,
                places=read.places if kind_name in _EXPLAINED else "",
            )
            if read.key not in self.positions:
                self.positions[read.key] = read.position
                self.documents.append(read)
            elif any(
                other.key == read.key and other.configuration != read.configuration
                for other in self.documents
            ):
                self._duplicate(document, read.key)
        self.items.append(item)

    def _duplicate(self, document: Document, key: Claim) -> None:
        kind, namespace, name = key
        named = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        message = f"{named} is already defined on line {self.positions[key][0]}"
        fix = "give it another name, or remove one of the two"
        problem = Problem(code="DuplicateObject", message=message, path=NAME, fix=fix)
        self.problems.append((problem, document))


def _item_of(document: Document) -> ManifestObject:
    """Return the entry of a document in the summary of its file."""
    value: object = document.value
    tree = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    written: object = tree.get("metadata")
    metadata = cast("dict[str, Any]", written) if isinstance(written, dict) else {}
    line, _ = document.position(()) or (1, 1)

    def text(holder: dict[str, Any], name: str) -> str:
        stated: object = holder.get(name)
        return printable(stated, 253) if isinstance(stated, str) else ""

    return ManifestObject(
        apiVersion=text(tree, "apiVersion"),
        kind=text(tree, "kind"),
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        line=line,
        outcome=DocumentOutcome.IGNORED,
    )
