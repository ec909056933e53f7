"""One manifest, from its bytes to the pod it makes or to everything that is wrong with it.

`read_manifest` is a plain function: reading files and remembering versions are the folder's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from podtui.api import v1
from podtui.api.local import Diagnostic, Severity
from podtui.manifest.decode import decode
from podtui.manifest.defaults import apply_defaults
from podtui.manifest.document import (
    Document,
    Path,
    Place,
    Problem,
    UnreadableText,
    parse_path,
    path_text,
    printable,
)
from podtui.manifest.identity import identify
from podtui.manifest.objects import ObjectKey, object_problems, references
from podtui.manifest.reader import read_document
from podtui.manifest.unknown import closest
from podtui.manifest.unscheduled import unscheduled_fields
from podtui.manifest.vain import vain_fields
from podtui.manifest.validation import validate_pod, written_empties
from podtui.manifest.validation.errors import INVALID, FieldError
from podtui.manifest.validation.static import validate_static

_log = logging.getLogger(__name__)

MAX_TEXT: Final = 256 * 1024
MAX_DIAGNOSTICS: Final = 100
_NAME: Final[Path] = ("metadata", "name")
_OBJECTS: Final[dict[object, type[v1.ConfigMap | v1.Secret]]] = {
    "ConfigMap": v1.ConfigMap,
    "Secret": v1.Secret,
}
_FOLDER_VOLUMES: Final = {("configMap",), ("secret",), ("projected",)}
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """What a manifest's bytes come to.

    ``pods`` holds one pod or none; with an error among ``diagnostics`` it holds none. A pod whose
    only errors are the ConfigMaps and Secrets it refers to is kept as ``candidate``, and ``needs``
    names what must stand beside it in the folder (departure 7); see `settle`.
    """

    pods: tuple[v1.Pod, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    text: str = ""
    """At most 256 KiB of the file's text; nothing of a Secret's."""
    objects: tuple[v1.ConfigMap | v1.Secret, ...] = ()
    name_place: Place | None = None
    candidate: v1.Pod | None = None
    needs: frozenset[ObjectKey] = field(default_factory=frozenset[ObjectKey])

    @property
    def broken(self) -> bool:
        """Whether an error keeps the manifest from being used."""
        return any(d.severity is Severity.ERROR for d in self.diagnostics)


def _rfc1123(text: str) -> str:
    """A name made of this one that the API would take, or empty."""
    name = re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.")[:63].rstrip("-.")
    return "" if name == text else name


def _fix(error: FieldError, document: Document, path: Path) -> str:
    if error.type == "FieldValueNotSupported" and isinstance(error.value, str):
        guess = closest(error.value, _QUOTED.findall(error.detail))
        return f'did you mean "{printable(guess)}"?' if guess else ""
    if error.type == "FieldValueInvalid" and "RFC 1123" in error.detail:
        written = _at(document.value, path)
        name = _rfc1123(written) if isinstance(written, str) else ""
        return f'a name that would do: "{name}"' if name else ""
    if error.type == "FieldValueDuplicate":
        return "give each one of its own"
    if error.type == "FieldValueRequired" and path and isinstance(path[-1], str):
        return f"add {printable(path[-1])}"
    return ""


def _at(value: Any, path: Path) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _validation_problems(errors: Iterable[FieldError], document: Document) -> list[Problem]:
    problems: list[Problem] = []
    for error in errors:
        path = parse_path(error.location)
        problems.append(
            Problem(
                code=error.type,
                message=printable(error.body(), 600),
                path=path,
                fix=_fix(error, document, path),
                at_key=error.type == "FieldValueForbidden",
            )
        )
    return problems


def _fresh(problems: Iterable[Problem], known: Collection[Problem]) -> list[Problem]:
    """Those that do not merely follow from a known problem at the same place."""
    said = {p.path for p in known if p.severity is Severity.ERROR and p.path}
    parents = {path[:-1] for path in said}
    meant = {p.stands_for for p in known if p.stands_for}
    fresh: list[Problem] = []
    for problem in problems:
        path = problem.path
        if path in meant or (path in parents and path not in ((), ("spec",), ("metadata",))):
            continue
        if any(path[:end] in said for end in range(1, len(path) + 1)):
            continue
        fresh.append(problem)
    return fresh


def _diagnostics(
    problems: Iterable[Problem], document: Document, path: str
) -> tuple[Diagnostic, ...]:
    found: dict[Diagnostic, None] = {}
    for problem in problems:
        place = problem.place or document.place(problem.path, at_key=problem.at_key)
        line, column = place or (None, None)
        found[
            Diagnostic(
                severity=problem.severity,
                path=path,
                code=problem.code,
                message=problem.message,
                line=line,
                column=column,
                field=printable(path_text(problem.path), 300),
                fix=problem.fix,
            )
        ] = None
    ordered = sorted(found, key=lambda d: (d.line or 0, d.column or 0))
    if len(ordered) <= MAX_DIAGNOSTICS:
        return tuple(ordered)
    # Errors stay errors: what is cut off must not make a broken manifest look usable.
    ordered.sort(key=lambda d: d.severity is Severity.WARNING)
    rest = len(ordered) - MAX_DIAGNOSTICS
    more = Diagnostic(
        severity=ordered[MAX_DIAGNOSTICS].severity,
        path=path,
        code="MoreProblems",
        message=f"{rest} more problems are not shown",
    )
    return (*ordered[:MAX_DIAGNOSTICS], more)


def _text(data: bytes) -> str:
    return data[:MAX_TEXT].decode("utf-8", "replace")


def read_manifest(path: str, data: bytes, *, node_name: str, strict: bool = False) -> ReadResult:
    """Read, decode, default, identify and validate one manifest (reference §1.3–1.5).

    ``path`` is absolute: it is part of the pod's identity. ``strict`` is ``kubeletStrict``: unknown
    fields are warnings and only pods are read. Never raises for anything that ``data`` holds.
    """
    try:
        return _read(path, data, node_name=node_name, strict=strict)
    except Exception as error:  # noqa: BLE001 - one file's bug must not stop the other files
        _log.exception("Reading %s failed", path)
        problem = Problem(
            code="InternalError",
            message=f"podtui failed on this file: {type(error).__name__}: {printable(str(error))}",
            fix="please report this with the file",
        )
        return ReadResult(
            diagnostics=_diagnostics([problem], Document(None), path), text=_text(data)
        )


def _read(path: str, data: bytes, *, node_name: str, strict: bool) -> ReadResult:
    try:
        document = read_document(data)
    except UnreadableText as error:
        nothing = Document(None)
        return ReadResult(
            diagnostics=_diagnostics([error.problem], nothing, path), text=_text(data)
        )
    kind = _at(document.value, ("kind",))
    if not strict and isinstance(kind, str) and kind in _OBJECTS:
        return _read_object(path, data, document, _OBJECTS[kind])
    problems = list(document.problems)
    tree, found = decode(document, strict=strict)
    problems += found
    result = ReadResult(text=_text(data), name_place=document.place(_NAME))
    if tree is None:
        return replace(result, diagnostics=_diagnostics(problems, document, path))
    apply_defaults(tree)
    try:
        pod = identify(msgspec.convert(tree, v1.Pod), node_name=node_name, path=path)
    except msgspec.ValidationError as error:
        problems.append(Problem(code="FieldValueTypeInvalid", message=printable(str(error))))
        return replace(result, diagnostics=_diagnostics(problems, document, path))
    if not pod.metadata.name:
        problems.append(
            Problem(
                code="FieldValueRequired",
                message="Required value: name is needed for the pod",
                path=_NAME,
                fix="add name",
            )
        )
    # The node's name is not the manifest's doing, whatever it looks like (case 2).
    errors = [
        error
        for error in validate_pod(pod)
        if (error.path, error.type) != ("spec.nodeName", INVALID)
    ]
    errors += written_empties(tree)
    problems += _fresh(_validation_problems(errors, document), problems)
    vain = [*vain_fields(pod), *unscheduled_fields(tree["spec"], node_name)]
    problems += _fresh(vain, problems)
    return _with_pod(result, pod, problems, document, path, strict=strict)


def _with_pod(
    result: ReadResult,
    pod: v1.Pod,
    problems: list[Problem],
    document: Document,
    path: str,
    *,
    strict: bool,
) -> ReadResult:
    """The result with the pod in it, as far as the problems and the static rules let it."""
    refused = _fresh(_validation_problems(validate_static(pod), document), problems)
    good = all(p.severity is Severity.WARNING for p in problems)
    wanted = references(pod)
    if not strict and wanted.found:
        fix = "put that ConfigMap or Secret into the folder, or write its values into the manifest"
        refused = [replace(p, fix=p.fix or fix) if _resolvable(p) else p for p in refused]
    diagnostics = _diagnostics([*problems, *refused], document, path)
    if not good or (refused and strict):
        return replace(result, diagnostics=diagnostics)
    if not refused:
        return replace(result, pods=(pod,), diagnostics=diagnostics)
    if not all(_resolvable(p) for p in refused):
        return replace(result, diagnostics=diagnostics)
    return replace(result, diagnostics=diagnostics, candidate=pod, needs=wanted.needed)


def _resolvable(problem: Problem) -> bool:
    """Whether what is refused is a ConfigMap or Secret that the folder could hold."""
    if problem.path[1:2] == ("volumes",) and problem.path[3:4] not in _FOLDER_VOLUMES:
        return False
    return problem.message.endswith(
        ("static pods may not reference secrets", "static pods may not reference configmaps")
    )


def _read_object(
    path: str, data: bytes, document: Document, struct: type[v1.ConfigMap | v1.Secret]
) -> ReadResult:
    tree, found = decode(document, struct)
    problems = [*document.problems, *found]
    text = "" if struct is v1.Secret else _text(data)
    if tree is None:
        return ReadResult(diagnostics=_diagnostics(problems, document, path), text=text)
    problems += object_problems(tree, struct)
    diagnostics = _diagnostics(problems, document, path)
    if any(p.severity is Severity.ERROR for p in problems):
        return ReadResult(diagnostics=diagnostics, text=text)
    item = msgspec.convert(tree, struct)
    metadata = msgspec.structs.replace(
        item.metadata, namespace=item.metadata.namespace or "default"
    )
    item = msgspec.structs.replace(item, metadata=metadata)
    return ReadResult(diagnostics=diagnostics, text=text, objects=(item,))


def settle(result: ReadResult, available: Collection[ObjectKey]) -> ReadResult:
    """The result with its candidate accepted, if all that it needs stands in the folder.

    What a kubelet would refuse is then a warning: the pod is not portable as a static pod.
    """
    if result.candidate is None or not all(key in available for key in result.needs):
        return result
    said = tuple(
        msgspec.structs.replace(
            d,
            severity=Severity.WARNING,
            code="NotPortable",
            message=f"{d.message}; podtui takes them from the folder, a kubelet refuses the pod",
            fix="",
        )
        if d.severity is Severity.ERROR
        else d
        for d in result.diagnostics
    )
    return replace(result, pods=(result.candidate,), candidate=None, diagnostics=said)
