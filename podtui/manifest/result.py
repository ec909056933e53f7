"""The result of reading one manifest, and its evaluation within the folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import msgspec

from podtui.api import v1
from podtui.api.local import Diagnostic, ManifestFix, Severity
from podtui.api.places import Path, field_path, read_places
from podtui.manifest.document import Document, Position, Problem, printable, quoted
from podtui.manifest.objects import FolderObject, ObjectKey, immutable_problems, object_key
from podtui.manifest.problems import diagnostics, not_named
from podtui.text.nearest import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """The result of reading a manifest's bytes.

    ``pods`` has one pod or none. With an error among ``diagnostics``, ``pods`` and ``objects`` are
    empty. A pod whose only errors are references to ConfigMaps and Secrets is kept as
    ``candidate``, and ``needs`` lists the objects that must exist in the folder (departure 7); see
    `accept_if_complete`.
    """

    pods: tuple[v1.Pod, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    text: str = ""
    """At most 256 KiB of the file's text; empty if it may contain a Secret."""
    places: str = ""
    """The positions of the pod's fields (`podtui.api.places`)."""
    objects: tuple[FolderObject, ...] = ()
    name_place: Position | None = None
    object_places: Mapping[ObjectKey, Position] = field(default_factory=dict[ObjectKey, Position])
    candidate: v1.Pod | None = None
    referrer: v1.Pod | None = None
    """The pod whose references to ConfigMaps and Secrets are among the diagnostics, even if the
    file has other errors."""
    present: frozenset[ObjectKey] = field(default_factory=frozenset[ObjectKey])
    """The ConfigMaps and Secrets of the file, even if the file cannot be used."""
    needs: frozenset[ObjectKey] = field(default_factory=frozenset[ObjectKey])
    fix: ManifestFix | None = None
    """The mechanical fixes of the file itself, if they were looked for."""

    @property
    def invalid(self) -> bool:
        """True if an error prevents the manifest from being used."""
        return any(d.severity is Severity.ERROR for d in self.diagnostics)

    @property
    def sound(self) -> bool:
        """True if the file itself has no errors, regardless of the objects that it needs."""
        return self.candidate is not None or not self.invalid


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


def name_missing(
    result: ReadResult, existing: Collection[ObjectKey], unusable: Mapping[ObjectKey, str]
) -> ReadResult:
    """Name the missing ConfigMaps and Secrets of the file's pod in its errors, with those that
    exist. ``unusable`` are objects of files that cannot be used, with the name of the file."""
    pod = result.referrer
    if pod is None:
        return result
    updated: list[Diagnostic] = []
    for d in result.diagnostics:
        if d.severity is Severity.ERROR and is_reference(field_path(d.field), d.message):
            kind = "Secret" if d.message.endswith("secrets") else "ConfigMap"
            key: ObjectKey = (kind, pod.metadata.namespace, _named(pod, d.field))
            if key in existing or key in result.present or key not in result.needs:
                d = _not_portable(d)
            elif key in unusable:
                message = f"the {kind} {quoted(key[2], 60)} is in {unusable[key]}, which has errors"
                fix = "correct that file"
                d = msgspec.structs.replace(d, message=message, fix=fix)
            else:
                there = sorted(n for k, ns, n in existing if (k, ns) == key[:2])
                message = not_named(kind, key[2], there, "the folder")
                fix = printable(suggestion(key[2], there)) or d.fix
                d = msgspec.structs.replace(d, message=message, fix=fix)
        updated.append(d)
    return replace(result, diagnostics=tuple(updated))


def _not_portable(error: Diagnostic) -> Diagnostic:
    reason = error.message.removeprefix("Forbidden: ")
    return msgspec.structs.replace(
        error,
        severity=Severity.WARNING,
        code="NotPortable",
        message=f"not portable to a kubelet: {reason}; podtui reads them from the folder",
        fix="",
    )


def _named(pod: v1.Pod, field: str) -> str:
    """Return the text at a field of a pod; empty if there is none."""
    value: Any = pod
    for step in field_path(field):
        try:
            value = value[step] if isinstance(step, int) else getattr(value, step, None)
        except (IndexError, TypeError):
            return ""
    return value if isinstance(value, str) else ""


def missing_keys(result: ReadResult, held: Mapping[ObjectKey, frozenset[str]]) -> ReadResult:
    """Add a warning for each key that the pod requires and its ConfigMap or Secret lacks; ``held``
    are the existing keys."""
    if not result.pods:
        return result
    pod = result.pods[0]
    problems: list[tuple[Problem, Document]] = []
    for path, kind, name, key in _needed_keys(pod):
        there = held.get((kind, pod.metadata.namespace, name))
        if there is None or key in there:
            continue
        positions = read_places(result.places).get(path)
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


def object_keys(item: FolderObject) -> frozenset[str]:
    more = item.binaryData if isinstance(item, v1.ConfigMap) else {}
    return frozenset({*item.data, *more})


def accept_if_complete(result: ReadResult, available: Collection[ObjectKey]) -> ReadResult:
    """Accept the candidate if the folder has all objects that it needs.

    A kubelet would refuse the pod, so that its errors become warnings: it is not portable as a
    static pod.
    """
    if result.candidate is None or not all(key in available for key in result.needs):
        return result
    updated = tuple(
        _not_portable(d) if d.severity is Severity.ERROR else d for d in result.diagnostics
    )
    return replace(result, pods=(result.candidate,), candidate=None, diagnostics=updated)


def kept_immutable(old: Iterable[FolderObject], result: ReadResult, path: str) -> ReadResult:
    """Return the result, or one with errors and no content if it changes an immutable object."""
    before = {object_key(item): item for item in old}
    problems = [
        (problem, Document(None, values={problem.path: result.object_places[key]}))
        for item in result.objects
        if (key := object_key(item)) in before
        for problem in immutable_problems(before[key], item)
    ]
    if not problems:
        return result
    updated = (*result.diagnostics, *diagnostics(problems, path))
    return ReadResult(
        diagnostics=updated, text=result.text, places=result.places, name_place=result.name_place
    )
