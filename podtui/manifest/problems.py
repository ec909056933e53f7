"""Problems of documents, and their conversion to diagnostics with positions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, cast

from podtui.api.local import Diagnostic, Severity
from podtui.api.places import field_path, field_text
from podtui.manifest.document import (
    Document,
    Path,
    Problem,
    path_text,
    printable,
    quoted,
)
from podtui.manifest.validation.errors import FieldError
from podtui.text.nearest import suggestion

MAX_DIAGNOSTICS: Final = 100
_MOST_NAMES: Final = 8
_NOUNS: Final[dict[str | int, str]] = {
    "volumeMounts": "volume",
    "volumeDevices": "volume",
    "volumeName": "volume",
    "claims": "resource claim",
    "targetContainerName": "container",
}
"""The noun for fields that refer to another part of the pod."""
_PARTS: Final[dict[str | int, Path]] = {
    "volumeMounts": ("spec", "volumes"),
    "volumeDevices": ("spec", "volumes"),
    "claims": ("spec", "resourceClaims"),
    "targetContainerName": ("spec", "containers"),
}
"""The parts of the pod that these fields refer to."""
_PLACEHOLDER: Final = re.compile(r"\$\{\w[^{}]*\}|\$\w+|<[\w -]+>")
_ENVSUBST: Final = re.compile(r"\$\{?\w+\}?")
"""A placeholder that envsubst replaces; it knows no default values."""
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


def _rfc1123(text: str) -> str:
    """Derive a valid RFC 1123 name; empty if the text is valid already."""
    name = re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.")[:63].rstrip("-.")
    return "" if name == text else name


def _fix(error: FieldError, document: Document, path: Path, names: Sequence[str]) -> str:
    if error.type == "FieldValueNotSupported" and isinstance(error.value, str):
        return printable(suggestion(error.value, _QUOTED.findall(error.detail)))
    if error.type == "FieldValueInvalid" and "RFC 1123" in error.detail:
        written = value_at(document.value, path)
        if isinstance(written, str) and (placeholder := _PLACEHOLDER.search(written)):
            tool = "; envsubst can do it" if _ENVSUBST.fullmatch(placeholder[0]) else ""
            return f"replace the placeholder {printable(placeholder[0])}{tool}"
        name = _rfc1123(written) if isinstance(written, str) else ""
        return f'a valid name: "{name}"' if name else ""
    if error.type == "FieldValueDuplicate":
        return "give each one of its own"
    if error.existing is not None and isinstance(error.value, str):
        return printable(suggestion(error.value, names))
    if error.type == "FieldValueRequired" and path and isinstance(path[-1], str):
        return f"add {printable(path[-1])}"
    return ""


def not_named(what: str, name: object, existing: Sequence[str], owner: str = "the Pod") -> str:
    """Return a message that a name does not exist, with a list of the names that do."""
    names = ", ".join(quoted(other, 60) for other in existing[:_MOST_NAMES])
    more = ", …" if len(existing) > _MOST_NAMES else ""
    has = f"has {names}{more}" if existing else "has none"
    return f"there is no {what} {quoted(name, 60)}; {owner} {has}"


def _message(error: FieldError, path: Path, names: Sequence[str], *, strict: bool) -> str:
    if strict or error.existing is None:
        return printable(error.body(), 600)
    nouns = (noun for step in reversed(path) if (noun := _NOUNS.get(step)))
    return not_named(next(nouns, "name"), error.value, names)


def _written_names(error: FieldError, document: Document, path: Path) -> Sequence[str]:
    """Return the names that a reference may have: also those of parts that have errors of their
    own."""
    parts = next((_PARTS[step] for step in reversed(path) if step in _PARTS), None)
    written: object = value_at(document.value, parts) if parts is not None else None
    names = list(error.existing or ())
    for item in cast("list[object]", written) if isinstance(written, list) else ():
        name = cast("dict[str, object]", item).get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and name not in names:
            names.append(name)
    return names


def value_at(value: Any, path: Path) -> Any:
    """Return the value at a path of a tree; None if there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def validation_problems(
    errors: Iterable[FieldError],
    document: Document,
    reported: Collection[Problem],
    *,
    strict: bool = False,
) -> list[Problem]:
    """Convert the errors to problems, without those that only follow from reported problems.

    ``strict`` keeps the kubelet's texts.
    """
    problems: list[Problem] = []
    for error in errors:
        path = field_path(error.location)
        names = _written_names(error, document, path) if error.existing is not None else ()
        if not strict and error.existing is not None and error.value in names:
            # What it refers to has an error of its own.
            continue
        problems.append(
            Problem(
                code=error.type,
                message=_message(error, path, names, strict=strict),
                path=path,
                fix=_fix(error, document, path, names),
                at_key=error.type == "FieldValueForbidden",
            )
        )
    return without_consequences(problems, reported)


def without_consequences(
    problems: Iterable[Problem], reported: Collection[Problem]
) -> list[Problem]:
    """Drop problems that only follow from a reported problem at the same path."""
    faulty = {p.path for p in reported if p.severity is Severity.ERROR and p.path}
    parents = {path[:-1] for path in faulty}
    similar = {p.stands_for for p in reported if p.stands_for}
    kept: list[Problem] = []
    for problem in problems:
        path = problem.path
        if path in similar or (path in parents and path not in ((), ("spec",), ("metadata",))):
            continue
        if any(path[:end] in faulty for end in range(1, len(path) + 1)):
            continue
        kept.append(problem)
    return kept


def diagnostics(
    problems: Iterable[tuple[Problem, Document]], path: str, most: int | None = MAX_DIAGNOSTICS
) -> tuple[Diagnostic, ...]:
    """Return each problem once, sorted by line and column, and how many are beyond ``most``.

    A wrong kind or apiVersion comes first in its document: the other problems depend on it.
    """
    places: dict[Diagnostic, tuple[int, int]] = {}
    for problem, document in problems:
        position = problem.position or document.position(problem.path, at_key=problem.at_key)
        line, column = position or (None, None)
        is_kind = problem.path in (("kind",), ("apiVersion",))
        begin = document.position(()) if is_kind else None
        places[
            Diagnostic(
                severity=problem.severity,
                path=path,
                code=problem.code,
                message=problem.message,
                line=line,
                column=column,
                field=printable(path_text(problem.path), 300),
                fix=problem.fix,
                remove=tuple(map(field_text, problem.remove)),
            )
        ] = (line or 0, column or 0) if begin is None else (begin[0], 0)
    ordered = sorted(places, key=places.__getitem__)
    if most is None or len(ordered) <= most:
        return tuple(ordered)
    # Errors go first: cutting them off must not make an invalid manifest look usable.
    ordered.sort(key=lambda d: d.severity is Severity.WARNING)
    rest = len(ordered) - most
    more = Diagnostic(
        severity=ordered[most].severity,
        path=path,
        code="MoreProblems",
        message=f"{rest} more problems are not shown",
    )
    return (*ordered[:most], more)
