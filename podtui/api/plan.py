"""What would happen if a manifest were changed: the agent's answer to a question.

Of ``podtui.dev/v1alpha1``, as the types of `podtui.api.local`.
"""

from __future__ import annotations

from enum import StrEnum

from podtui.api.local import Diagnostic, ManifestState
from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Struct


class Outcome(StrEnum):
    """What becomes of a pod."""

    UNCHANGED = "Unchanged"
    NEW = "New"
    REPLACED = "Replaced"
    """Its UID changes: the old one is ended with its grace, the new one begins from nothing."""
    IN_PLACE = "InPlace"
    """Its UID is fixed in the manifest: it goes on."""
    REMOVED = "Removed"


class FieldChange(Struct, frozen=True, kw_only=True):
    """One field, as it was and as it will be; empty where it is not given.

    ``line`` and ``column`` are of the new text; of a field that is gone, of the old one (``gone``).
    ``effect`` says what follows under a fixed UID, and when.
    """

    field: str
    old: str = ""
    new: str = ""
    line: int | None = None
    column: int | None = None
    gone: bool = False
    effect: str = ""


class PodPlan(Struct, frozen=True, kw_only=True):
    """``restarts`` names the containers that are restarted in place. ``rejection`` is what the node
    would say where it would not take the pod. ``grace`` is in seconds, of what ends."""

    outcome: Outcome
    namespace: str
    name: str
    changes: tuple[FieldChange, ...] = ()
    restarts: tuple[str, ...] = ()
    rejection: str = ""
    grace: int = 0


class ObjectPlan(Struct, frozen=True, kw_only=True):
    """A ConfigMap or Secret; ``readers`` are the pods that refer to it."""

    outcome: Outcome
    kind: str
    namespace: str
    name: str
    readers: tuple[str, ...] = ()


class FilePlan(Struct, frozen=True, kw_only=True):
    """Another file of which something else becomes."""

    name: str
    old: ManifestState
    new: ManifestState
    message: str = ""


class Plan(Struct, frozen=True, kw_only=True):
    """What a text would come to as the file of the folder that ``metadata`` names. ``usable``:
    nothing keeps it from being used; where something does, ``pods`` tells what happens all the
    same."""

    metadata: ObjectMeta
    path: str
    state: ManifestState | None = None
    """None where there would be no such file."""
    usable: bool = True
    message: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    pods: tuple[PodPlan, ...] = ()
    objects: tuple[ObjectPlan, ...] = ()
    files: tuple[FilePlan, ...] = ()
    apiVersion: str = GROUP_VERSION
    kind: str = "Plan"
