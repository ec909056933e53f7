"""Types of ``podtui.dev/v1alpha1``, which Kubernetes does not have, in Kubernetes' shapes.

The files of the manifest folder with their diagnostics, usage, the journal of engine calls, images,
the plan of a changed manifest, and the admission of a pod that is not stored. Reports on a running
pod are in `podtui.api.insight`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from podtui.api.names import GROUP_VERSION, MANIFEST_PATH, METRICS_GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Pod, Quantity, Struct, Time


class Severity(StrEnum):
    """``ERROR`` prevents a manifest from being used; ``WARNING`` does not."""

    ERROR = "Error"
    WARNING = "Warning"


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One finding at one position of a manifest.

    ``line`` and ``column`` count from 1 and are None if the finding has no position in the text.
    ``field`` is a path in the API server's notation (``spec.containers[0].image``). ``code`` is one
    of the API's error types (``FieldValueInvalid`` …) or one of podtui's (``UnknownField``,
    ``DuplicatePod`` …). ``fix`` says what to do; it is empty if that is not known. ``remove`` lists
    the fields and items whose removal is the fix.
    """

    severity: Severity
    path: str
    code: str
    message: str
    line: int | None = None
    column: int | None = None
    field: str = ""
    fix: str = ""
    remove: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The message followed by the field: ``Required value (spec.containers)``."""
        if not self.field or self.field in self.message:
            return self.message
        return f"{self.message} ({self.field})"


class ManifestState(StrEnum):
    """The state of a file in the folder."""

    ACCEPTED = "Accepted"
    LAST_GOOD = "LastGood"
    """Invalid; the last good version keeps running (departure 1)."""
    INVALID = "Invalid"
    DUPLICATE = "Duplicate"
    """An older file already has this namespace/name (departure 3)."""
    IGNORED = "Ignored"


UNUSABLE: Final = frozenset(
    {ManifestState.INVALID, ManifestState.LAST_GOOD, ManifestState.DUPLICATE}
)
"""The states of files whose content is not used."""


class Edit(Struct, frozen=True):
    """Replaces ``old`` at a position of a text by ``new``; both may span several lines."""

    line: int
    column: int
    old: str
    new: str


class ManifestFix(Struct, frozen=True, kw_only=True):
    """The mechanical fixes of a file's findings, as one change of its text. Applied, the text has
    fewer findings and no new one. ``title`` begins with a verb; ``errors`` remain after it."""

    title: str
    edits: tuple[Edit, ...]
    errors: int = 0


class ManifestSpec(Struct, frozen=True, kw_only=True):
    """``path`` is absolute. ``text`` is the content as last read, cut at 256 KiB, with undecodable
    bytes replaced."""

    path: str
    text: str = ""


class DocumentOutcome(StrEnum):
    """The outcome of a document of a file."""

    RUNS = "Runs"
    """A static pod."""
    APPLIED = "Applied"
    """An object that is stored in the API, as the file states it."""
    NO_EFFECT = "NoEffect"
    """Stored in the API, but nothing acts on it."""
    WAITS = "Waits"
    """Usable, but not used: another document of the file, or another file, prevents it."""
    REFUSED = "Refused"
    IGNORED = "Ignored"
    """Of a kind that podtui does not serve."""


class ManifestObject(Struct, frozen=True, kw_only=True):
    """One document of a file. ``line`` is its first one, 0 for rendered output; ``uid`` is that of
    a pod; ``places`` are the positions of the fields of a pod, a workload, a Service or an Ingress;
    ``message`` is the reason for the outcome."""

    apiVersion: str
    kind: str
    namespace: str
    name: str
    line: int
    outcome: DocumentOutcome
    message: str = ""
    uid: str = ""
    places: str = ""


_VERBS: Final = {
    DocumentOutcome.RUNS: "runs",
    DocumentOutcome.APPLIED: "applied",
    DocumentOutcome.NO_EFFECT: "no effect",
    DocumentOutcome.WAITS: "not applied",
    DocumentOutcome.REFUSED: "refused",
    DocumentOutcome.IGNORED: "ignored",
}
_MOST_NAMED: Final = 6


def summary_text(objects: Iterable[ManifestObject]) -> str:
    """Return what becomes of the documents of a file, with the lines of those that do not run."""
    names: dict[DocumentOutcome, list[str]] = {outcome: [] for outcome in DocumentOutcome}
    for item in objects:
        name = f"{item.namespace}/{item.name}" if item.namespace else item.name
        well = item.outcome in (DocumentOutcome.RUNS, DocumentOutcome.APPLIED)
        text = f"{item.kind or 'a document'} {name}".rstrip()
        names[item.outcome].append(f"{text} (line {item.line})" if item.line and not well else text)
    parts: list[str] = []
    for outcome, listed in names.items():
        if listed:
            more = len(listed) - _MOST_NAMED
            shown = [*listed[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
            parts.append(f"{_VERBS[outcome]}: {', '.join(shown)}")
    return "; ".join(parts)


class ManifestStatus(Struct, frozen=True, kw_only=True):
    """``podNamespace``, ``podName``, ``podUID`` and ``places`` are those of the first pod;
    ``objects`` are all documents of the file."""

    state: ManifestState
    message: str = ""
    podNamespace: str = ""
    podName: str = ""
    podUID: str = ""
    places: str = ""
    """Positions of the pod's fields in the text, encoded by `podtui.api.places`; at most
    `podtui.api.places.MAX_PLACES` of them."""
    diagnostics: tuple[Diagnostic, ...] = ()
    fix: ManifestFix | None = None
    objects: tuple[ManifestObject, ...] = ()


class Manifest(Struct, frozen=True, kw_only=True):
    """One file of the static-pod folder. ``metadata.name`` is the file name."""

    metadata: ObjectMeta
    spec: ManifestSpec
    status: ManifestStatus
    apiVersion: str = GROUP_VERSION
    kind: str = "Manifest"


class ContainerMetrics(Struct, frozen=True, kw_only=True):
    """``usage`` has ``cpu`` (cores, as a quantity such as ``12m``) and ``memory`` (bytes)."""

    name: str
    usage: dict[str, Quantity]


class PodMetrics(Struct, frozen=True, kw_only=True):
    """A pod's usage in the format of ``metrics.k8s.io``, over the ``window`` that ends at
    ``timestamp``."""

    metadata: ObjectMeta
    timestamp: Time
    window: str
    containers: tuple[ContainerMetrics, ...]
    apiVersion: str = METRICS_GROUP_VERSION
    kind: str = "PodMetrics"


class NodeMetrics(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    timestamp: Time
    window: str
    usage: dict[str, Quantity]
    apiVersion: str = METRICS_GROUP_VERSION
    kind: str = "NodeMetrics"


class ManifestIndex:
    """Finds the manifest that a pod came from. It is matched by UID, then by path, then by name,
    which is not unique among the files."""

    def __init__(self, manifests: Iterable[Manifest] = ()) -> None:
        self._by_uid: dict[str, Manifest] = {}
        self._by_path: dict[str, Manifest] = {}
        self._by_name: dict[tuple[str, str], Manifest] = {}
        for manifest in manifests:
            status = manifest.status
            self._by_uid.setdefault(status.podUID, manifest)
            for item in status.objects[1:]:
                if item.uid:
                    self._by_uid.setdefault(item.uid, manifest)
            self._by_path.setdefault(manifest.spec.path, manifest)
            self._by_name.setdefault((status.podNamespace, status.podName), manifest)
        self._by_uid.pop("", None)
        self._by_path.pop("", None)

    def manifest_of(self, pod: Pod) -> Manifest | None:
        """Return the manifest of a pod; of a file with several pods, its status is about that
        pod."""
        meta = pod.metadata
        manifest = (
            self._by_uid.get(meta.uid)
            or self._by_path.get(meta.annotations.get(MANIFEST_PATH, ""))
            or self._by_name.get((meta.namespace, meta.name))
        )
        return None if manifest is None else of_pod(manifest, meta.namespace, meta.name)


def of_pod(manifest: Manifest, namespace: str, name: str) -> Manifest:
    """Return the manifest with the status of one of its pods."""
    status = manifest.status
    if (status.podNamespace, status.podName) == (namespace, name):
        return manifest
    for item in status.objects:
        if item.uid and (item.namespace, item.name) == (namespace, name):
            about = msgspec.structs.replace(
                status, podNamespace=namespace, podName=name, podUID=item.uid, places=item.places
            )
            return msgspec.structs.replace(manifest, status=about)
    return manifest


class EngineCall(Struct, frozen=True, kw_only=True):
    """One call to the engine. ``line`` is an equivalent docker command line, ready to be copied;
    the values of environment variables are left out. ``count`` is the number of identical calls in
    a row; ``time`` is that of the last one. ``seconds`` is how long that call took, and ``error``
    why it failed."""

    serial: int
    time: Time
    line: str
    verb: str
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    container: str = ""
    count: int = 1
    seconds: float = 0.0
    error: str = ""


class EngineCallList(Struct, frozen=True, kw_only=True):
    """``items`` are sorted from oldest to newest."""

    metadata: ObjectMeta
    items: tuple[EngineCall, ...]
    apiVersion: str = GROUP_VERSION
    kind: str = "EngineCallList"


class NodeImage(Struct, frozen=True, kw_only=True):
    """One image; a Node's status lists at most 50, without their age.

    ``names`` are its tags, or its digests if it has no tags; ``created`` is the build time.
    ``usedBy`` lists the pods (``namespace/name``) that have a container of this image, including
    stopped ones; ``otherContainers`` lists the containers that are not podtui's. ``collectable`` is
    set if image garbage collection may delete it once no container uses it."""

    id: str
    names: tuple[str, ...] = ()
    sizeBytes: int = 0
    created: Time | None = None
    usedBy: tuple[str, ...] = ()
    otherContainers: tuple[str, ...] = ()
    collectable: bool = False

    @property
    def users(self) -> tuple[str, ...]:
        """The pods and the other containers that use the image."""
        return (*self.usedBy, *(f"container {name}" for name in self.otherContainers))


class NodeImageList(Struct, frozen=True, kw_only=True):
    items: tuple[NodeImage, ...] = ()
    apiVersion: str = GROUP_VERSION
    kind: str = "NodeImageList"


class PrunedImages(Struct, frozen=True, kw_only=True):
    """The result of a prune: the removed images by their first name, and the sum of their sizes (a
    shared layer counts once per image). ``kept`` lists the images that the engine refused to
    remove, with its reason."""

    removed: tuple[str, ...] = ()
    sizeBytes: int = 0
    kept: tuple[str, ...] = ()


class PullStep(Struct, frozen=True, kw_only=True):
    """One message of a pull's response stream: progress in bytes of the layers known so far. The
    last message has ``image``, or ``error`` with the reason for the failure."""

    status: str = ""
    current: int = 0
    total: int = 0
    image: NodeImage | None = None
    error: str = ""


class PlanOutcome(StrEnum):
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

    outcome: PlanOutcome
    namespace: str
    name: str
    changes: tuple[FieldChange, ...] = ()
    restarts: tuple[str, ...] = ()
    rejection: str = ""
    grace: int = 0


class ObjectPlan(Struct, frozen=True, kw_only=True):
    """The plan for a ConfigMap or Secret; ``readers`` are the pods that refer to it."""

    outcome: PlanOutcome
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


class Lack(Struct, frozen=True, kw_only=True):
    """A resource that is insufficient; ``capacity`` is the node's allocatable amount. Amounts are
    in milli cores for cpu, and in bytes or counts for other resources."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        return self.requested - (self.capacity - self.used)

    @property
    def exceeds_node(self) -> bool:
        """True if the node lacks the resource even with no other pod on it."""
        return self.requested > self.capacity


class PortHolder(Struct, frozen=True, kw_only=True):
    """The pod, or the other process of the machine, that uses a host port which the pod needs.

    ``pid`` is None and ``process`` is empty if the machine does not reveal the owner.
    """

    port: int
    protocol: str
    hostIP: str = ""
    namespace: str = ""
    pod: str = ""
    process: str = ""
    pid: int | None = None


class PodToRemove(Struct, frozen=True, kw_only=True):
    """A pod that would have to be removed. ``preempted`` is set if the kubelet would preempt it
    itself."""

    namespace: str
    name: str
    uid: str
    frees: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    ports: tuple[int, ...] = ()
    preempted: bool = False


class WhatIf(Struct, frozen=True, kw_only=True):
    """The admission result of the pod in ``metadata``. Unless it is ``admitted``, ``reason`` and
    ``message`` are the kubelet's.

    ``replaces`` is set if a running pod of the same name would be replaced. ``leave`` is the
    smallest set of pods whose removal makes the pod fit; it is empty if the pod fits now or if no
    removal helps. ``remarks`` are sentences for users.
    """

    metadata: ObjectMeta
    admitted: bool
    reason: str = ""
    message: str = ""
    replaces: bool = False
    lacks: tuple[Lack, ...] = ()
    holders: tuple[PortHolder, ...] = ()
    leave: tuple[PodToRemove, ...] = ()
    remarks: tuple[str, ...] = ()
    apiVersion: str = GROUP_VERSION
    kind: str = "WhatIf"
