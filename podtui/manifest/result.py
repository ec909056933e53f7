"""The result of reading one manifest, and its evaluation within the folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import msgspec

from podtui.api import v1
from podtui.api.local import Diagnostic, ManifestFix, ManifestObject, Severity
from podtui.api.objects import Object
from podtui.api.places import Path, read_places
from podtui.manifest.document import Document, Position, Problem, path_text, printable, quoted
from podtui.manifest.objects import Claim, FolderDocument, ObjectKey, immutable_problems
from podtui.manifest.problems import diagnostics, not_named
from podtui.text.nearest import suggestion

Spot = tuple[int | None, int | None, str]
"""The line, column and field of a finding."""
NOT_PORTABLE: Final = "NotPortable"
MISSING_OBJECT: Final = "MissingObject"
"""The code of warnings about ConfigMaps and Secrets that a pod needs and the folder does not
have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """The result of reading a manifest's bytes.

    With an error among ``diagnostics``, ``pods`` and ``documents`` are empty. ``pod_places`` are
    the positions of the fields of each pod (`podtui.api.places`), also of pods with errors.
    ``items`` are all documents of the file, for its summary.
    """

    pods: tuple[v1.Pod, ...] = ()
    documents: tuple[FolderDocument, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    text: str = ""
    """At most 256 KiB of the file's text; empty if it may contain a Secret."""
    pod_places: tuple[str, ...] = ()
    references: Mapping[Spot, ObjectKey] = field(default_factory=dict[Spot, ObjectKey])
    """The ConfigMaps and Secrets that the pods require, by the findings about them (departure
    7)."""
    positions: Mapping[Claim, Position] = field(default_factory=dict[Claim, Position])
    """The position of the name of each pod and object of the file."""
    present: frozenset[Claim] = field(default_factory=frozenset[Claim])
    """The objects of the file, even if the file cannot be used."""
    items: tuple[ManifestObject, ...] = ()
    fix: ManifestFix | None = None
    """The mechanical fixes of the file itself, if they were looked for."""

    @property
    def invalid(self) -> bool:
        """True if an error prevents the manifest from being used."""
        return any(d.severity is Severity.ERROR for d in self.diagnostics)

    @property
    def objects(self) -> tuple[Object, ...]:
        return tuple(document.item for document in self.documents)

    @property
    def needs(self) -> frozenset[ObjectKey]:
        return frozenset(self.references.values())

    @property
    def places(self) -> str:
        """The positions of the first pod's fields."""
        return self.pod_places[0] if self.pod_places else ""


_VOLUMES: Final = ("configMap", "secret", "projected")
_REFERENCES: Final = (
    "static pods may not reference secrets",
    "static pods may not reference configmaps",
)


def is_reference(path: Path, message: str) -> bool:
    """Return whether a refused reference is to a ConfigMap or Secret that the folder could
    provide."""
    if path[1:2] == ("volumes",) and path[3:4] not in [(name,) for name in _VOLUMES]:
        return False
    return message.endswith(_REFERENCES)


def not_portable(problem: Problem) -> Problem:
    """Return the warning that only a kubelet would refuse a reference."""
    reason = problem.message.removeprefix("Forbidden: ")
    return replace(
        problem,
        severity=Severity.WARNING,
        code=NOT_PORTABLE,
        message=f"not portable to a kubelet: {reason}; podtui's API has them",
        fix="",
    )


def spot_of(problem: Problem, document: Document) -> Spot:
    """Return where the diagnostic of a problem is."""
    position = problem.position or document.position(problem.path, at_key=problem.at_key)
    line, column = position or (None, None)
    return line, column, printable(path_text(problem.path), 300)


def name_missing(
    result: ReadResult, existing: Collection[Claim], unusable: Mapping[Claim, str]
) -> ReadResult:
    """Name the ConfigMaps and Secrets that pods of the file require and the folder does not have,
    with those that it has. ``unusable`` are objects of files that cannot be used, with the name of
    the file."""
    updated: list[Diagnostic] = []
    for d in result.diagnostics:
        key = result.references.get((d.line, d.column, d.field))
        if key is None or d.code != NOT_PORTABLE or key in existing or key in result.present:
            updated.append(d)
            continue
        kind, _, name = key
        if key in unusable:
            message = f"the {kind} {quoted(name, 60)} is in {unusable[key]}, which has errors"
            fix = "correct that file"
        else:
            there = sorted(n for k, ns, n in existing if (k, ns) == key[:2])
            fix = printable(suggestion(name, there))
            message = not_named(kind, name, there, "the folder")
            fix = fix or f"put that {kind} into the folder, or create it; the pod waits for it"
        updated.append(msgspec.structs.replace(d, code=MISSING_OBJECT, message=message, fix=fix))
    return replace(result, diagnostics=tuple(updated))


def missing_keys(result: ReadResult, held: Mapping[Claim, frozenset[str]]) -> ReadResult:
    """Add a warning for each key that a pod requires and its ConfigMap or Secret lacks; ``held``
    are the existing keys."""
    problems: list[tuple[Problem, Document]] = []
    for pod, places in zip(result.pods, result.pod_places, strict=False):
        for path, kind, name, key in _needed_keys(pod):
            there = held.get((kind, pod.metadata.namespace, name))
            if there is None or key in there:
                continue
            positions = read_places(places).get(path)
            problem = Problem(
                code="FieldValueNotFound",
                message=not_named("key", key, sorted(there), f"the {kind} {name}"),
                path=path,
                position=positions.value if positions is not None else None,
                fix=printable(suggestion(key, sorted(there))),
                severity=Severity.WARNING,
            )
            problems.append((problem, Document(None)))
    if not problems:
        return result
    path = next((d.path for d in result.diagnostics), "")
    return replace(result, diagnostics=(*result.diagnostics, *diagnostics(problems, path)))


def _needed_keys(pod: v1.Pod) -> Iterator[tuple[Path, Literal["ConfigMap", "Secret"], str, str]]:
    """Yield the keys that variables and volumes require: path, kind, name, key."""
    for part in ("initContainers", "containers"):
        for index, container in enumerate(getattr(pod.spec, part)):
            for number, variable in enumerate(container.env):
                here: Path = ("spec", part, index, "env", number, "valueFrom")
                value = variable.valueFrom
                ref = value.configMapKeyRef if value is not None else None
                if ref is not None and not ref.optional:
                    yield (*here, "configMapKeyRef", "key"), "ConfigMap", ref.name, ref.key
                hidden = value.secretKeyRef if value is not None else None
                if hidden is not None and not hidden.optional:
                    yield (*here, "secretKeyRef", "key"), "Secret", hidden.name, hidden.key
    for index, volume in enumerate(pod.spec.volumes):
        here = ("spec", "volumes", index)
        files, secrets = volume.configMap, volume.secret
        for number, item in enumerate(files.items if files and not files.optional else ()):
            name = files.name if files else ""
            yield (*here, "configMap", "items", number, "key"), "ConfigMap", name, item.key
        for number, item in enumerate(secrets.items if secrets and not secrets.optional else ()):
            name = secrets.secretName if secrets else ""
            yield (*here, "secret", "items", number, "key"), "Secret", name, item.key


def object_keys(item: Object) -> frozenset[str]:
    """Return the keys of the data of a ConfigMap or Secret."""
    if isinstance(item, v1.ConfigMap):
        return frozenset({*item.data, *item.binaryData})
    return frozenset(item.data) if isinstance(item, v1.Secret) else frozenset()


def kept_immutable(old: Iterable[FolderDocument], result: ReadResult, path: str) -> ReadResult:
    """Return the result, or one with errors and no content if it changes an immutable object."""
    before = {document.key: document.item for document in old}
    problems = [
        (problem, Document(None, values={problem.path: document.position}))
        for document in result.documents
        if document.key in before
        for problem in immutable_problems(before[document.key], document.item)
    ]
    return refused(result, diagnostics(problems, path)) if problems else result


def refused(result: ReadResult, errors: Iterable[Diagnostic]) -> ReadResult:
    """Return the result of a file that cannot be used for further reasons."""
    findings = (*result.diagnostics, *errors)
    return replace(result, pods=(), documents=(), diagnostics=findings)
