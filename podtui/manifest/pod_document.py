"""Reads one document of a manifest into a pod, or into problems."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import msgspec

from podtui.api import v1
from podtui.api.local import Severity
from podtui.manifest.cluster_copy import as_copy
from podtui.manifest.decode import decode
from podtui.manifest.defaults import apply_defaults
from podtui.manifest.document import Document, Path, Problem, printable
from podtui.manifest.foreign import foreign_object
from podtui.manifest.identity import identify
from podtui.manifest.objects import ObjectKey, references
from podtui.manifest.problems import fresh, validation_problems
from podtui.manifest.unscheduled import unscheduled_fields
from podtui.manifest.vain import missing_ports, vain_fields
from podtui.manifest.validation import validate_pod, validate_static, written_empties
from podtui.manifest.validation.errors import INVALID

NAME: Final[Path] = ("metadata", "name")
_FOLDER_VOLUMES: Final = {("configMap",), ("secret",), ("projected",)}


@dataclass(frozen=True, slots=True)
class PodReading:
    """``pod`` is set if at most missing ConfigMaps and Secrets prevent its use; ``needs`` are those
    that it requires (departure 7)."""

    problems: tuple[Problem, ...]
    pod: v1.Pod | None = None
    needs: frozenset[ObjectKey] = field(default_factory=frozenset[ObjectKey])


def read_pod(document: Document, *, path: str, node_name: str, strict: bool) -> PodReading:
    """Decode, default, identify and validate one document (reference §1.3–1.5)."""
    reading = _read_pod(document, path=path, node_name=node_name, strict=strict)
    problems = as_copy(reading.problems, document, strict=strict)
    if strict:
        problems = _advised(problems, document)
    return replace(reading, problems=tuple(problems))


def _advised(problems: list[Problem], document: Document) -> list[Problem]:
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
    tree, found = decode(document, strict=strict)
    problems += found
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
    vain = [*vain_fields(pod), *unscheduled_fields(tree["spec"], node_name), *missing_ports(pod)]
    problems += fresh(vain, problems)
    return _with_references(pod, problems, document, strict=strict)


def _with_references(
    pod: v1.Pod, problems: list[Problem], document: Document, *, strict: bool
) -> PodReading:
    """Return the reading, with its pod unless problems or the rules for static pods exclude it."""
    refused = validation_problems(validate_static(pod), document, problems)
    good = all(p.severity is Severity.WARNING for p in problems)
    wanted = references(pod)
    if not strict and wanted.found:
        fix = "put that ConfigMap or Secret into the folder, or write its values into the manifest"
        refused = [replace(p, fix=p.fix or fix) if _resolvable(p) else p for p in refused]
    said = (*problems, *refused)
    if not good or (refused and strict) or not all(map(_resolvable, refused)):
        return PodReading(said)
    return PodReading(said, pod, wanted.needed if refused else frozenset())


def _resolvable(problem: Problem) -> bool:
    """Return whether the refused reference is a ConfigMap or Secret that the folder could
    provide."""
    if problem.path[1:2] == ("volumes",) and problem.path[3:4] not in _FOLDER_VOLUMES:
        return False
    return problem.message.endswith(
        ("static pods may not reference secrets", "static pods may not reference configmaps")
    )
