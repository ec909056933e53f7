"""Types that Kubernetes does not have: the files of the manifest folder and their diagnostics.

They are served as ``podtui.dev/v1alpha1`` resources, in Kubernetes' shapes, beside the core API.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

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
    ``DuplicatePod`` …). ``fix`` says what to write instead; it is empty if there is no mechanical
    fix. ``remove`` lists the fields and items whose removal is the fix.
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
    """Broken; the last good version keeps running (departure 1)."""
    INVALID = "Invalid"
    DUPLICATE = "Duplicate"
    """An older file already has this namespace/name (departure 3)."""
    IGNORED = "Ignored"


class ManifestSpec(Struct, frozen=True, kw_only=True):
    """``path`` is absolute. ``text`` is the content as last read, cut at 256 KiB, with undecodable
    bytes replaced."""

    path: str
    text: str = ""


class ManifestStatus(Struct, frozen=True, kw_only=True):
    state: ManifestState
    message: str = ""
    podNamespace: str = ""
    podName: str = ""
    podUID: str = ""
    places: str = ""
    """Positions of the pod's fields in the text, encoded by `podtui.api.places`; at most
    `podtui.api.places.MAX_PLACES` of them."""
    diagnostics: tuple[Diagnostic, ...] = ()


class Manifest(Struct, frozen=True, kw_only=True):
    """One file of the static-pod folder. ``metadata.name`` is the file name."""

    metadata: ObjectMeta
    spec: ManifestSpec
    status: ManifestStatus
    apiVersion: str = GROUP_VERSION
    kind: str = "Manifest"


class ManifestList(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    items: tuple[Manifest, ...]
    apiVersion: str = GROUP_VERSION
    kind: str = "ManifestList"


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


def manifest_of(pod: Pod, manifests: Iterable[Manifest]) -> Manifest | None:
    """Return the manifest that a pod came from. It is matched by UID, then by path, then by name,
    which is not unique among the files."""
    meta = pod.metadata
    path = meta.annotations.get(MANIFEST_PATH)
    of_path: Manifest | None = None
    of_name: Manifest | None = None
    for manifest in manifests:
        status = manifest.status
        if status.podUID and status.podUID == meta.uid:
            return manifest
        if path and manifest.spec.path == path:
            of_path = of_path or manifest
        elif (status.podName, status.podNamespace) == (meta.name, meta.namespace):
            of_name = of_name or manifest
    return of_path or of_name
