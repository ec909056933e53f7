"""What reading a manifest comes to, and what the folder around it makes of that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from podtui.api import v1
from podtui.api.local import Diagnostic, Severity
from podtui.manifest.document import Document, Place
from podtui.manifest.objects import FolderObject, ObjectKey, immutable_problems, object_key
from podtui.manifest.problems import diagnostics


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """What a manifest's bytes come to.

    ``pods`` holds one pod or none; with an error among ``diagnostics`` it holds none, and
    ``objects`` neither. A pod whose only errors are the ConfigMaps and Secrets it refers to is kept
    as ``candidate``, and ``needs`` names what must stand beside it in the folder (departure 7); see
    `settle`.
    """

    pods: tuple[v1.Pod, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    text: str = ""
    """At most 256 KiB of the file's text; none where there may be a Secret in it."""
    places: str = ""
    """Where the pod's fields are in the text (`podtui.api.places`)."""
    objects: tuple[FolderObject, ...] = ()
    name_place: Place | None = None
    object_places: Mapping[ObjectKey, Place] = field(default_factory=dict[ObjectKey, Place])
    candidate: v1.Pod | None = None
    needs: frozenset[ObjectKey] = field(default_factory=frozenset[ObjectKey])

    @property
    def broken(self) -> bool:
        """Whether an error keeps the manifest from being used."""
        return any(d.severity is Severity.ERROR for d in self.diagnostics)

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with the file itself, whatever it needs beside it."""
        return self.candidate is not None or not self.broken


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


def kept_immutable(old: Iterable[FolderObject], result: ReadResult, path: str) -> ReadResult:
    """The result, or one without pod and objects where it changes what was to stay as it is."""
    before = {object_key(item): item for item in old}
    found = [
        (problem, Document(None, values={problem.path: result.object_places[key]}))
        for item in result.objects
        if (key := object_key(item)) in before
        for problem in immutable_problems(before[key], item)
    ]
    if not found:
        return result
    said = (*result.diagnostics, *diagnostics(found, path))
    return ReadResult(
        diagnostics=said, text=result.text, places=result.places, name_place=result.name_place
    )
