"""The agent's preview of the effects of a manifest change.

Types of ``podtui.dev/v1alpha1``, like those of `podtui.api.local`.
"""

from __future__ import annotations

from enum import StrEnum

from podtui.api.local import Diagnostic, ManifestState
from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Struct


class Outcome(StrEnum):
    """The effect on a pod."""

    UNCHANGED = "Unchanged"
    NEW = "New"
    REPLACED = "Replaced"
    """The UID changes: the old pod is terminated with its grace period, and a new one starts fresh.
    """
    IN_PLACE = "InPlace"
    """The manifest sets the UID: the pod keeps running and is updated in place."""
    REMOVED = "Removed"


class FieldChange(Struct, frozen=True, kw_only=True):
    """The old and the new value of one field; empty where the field is not set.

    ``line`` and ``column`` refer to the new text, or to the old text if the field was removed
    (``gone``). ``effect`` describes the consequence for a pod with a fixed UID, and when it takes
    place.
    """

    field: str
    old: str = ""
    new: str = ""
    line: int | None = None
    column: int | None = None
    gone: bool = False
    effect: str = ""


class PodPlan(Struct, frozen=True, kw_only=True):
    """``restarts`` names the containers that are restarted in place. ``rejection`` is the node's
    message if it would reject the pod. ``grace`` is the grace period, in seconds, of the pod that
    terminates."""

    outcome: Outcome
    namespace: str
    name: str
    changes: tuple[FieldChange, ...] = ()
    restarts: tuple[str, ...] = ()
    rejection: str = ""
    grace: int = 0


class ObjectPlan(Struct, frozen=True, kw_only=True):
    """The plan for a ConfigMap or Secret; ``readers`` are the pods that refer to it."""

    outcome: Outcome
    kind: str
    namespace: str
    name: str
    readers: tuple[str, ...] = ()


class FilePlan(Struct, frozen=True, kw_only=True):
    """Another file whose state changes as a side effect."""

    name: str
    old: ManifestState
    new: ManifestState
    message: str = ""


class Plan(Struct, frozen=True, kw_only=True):
    """The effects of a text if it were the content of the file that ``metadata`` names. ``usable``
    is False if something prevents the file from being used; ``pods`` then lists the effects that
    occur anyway."""

    metadata: ObjectMeta
    path: str
    state: ManifestState | None = None
    """None if the file would not exist."""
    usable: bool = True
    message: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    pods: tuple[PodPlan, ...] = ()
    objects: tuple[ObjectPlan, ...] = ()
    files: tuple[FilePlan, ...] = ()
    apiVersion: str = GROUP_VERSION
    kind: str = "Plan"
