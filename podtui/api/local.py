"""Types that Kubernetes does not have: what the manifest folder holds and what is wrong with it.

They are served as ``podtui.dev/v1alpha1`` resources, in Kubernetes' shapes, beside the core API.
"""

from __future__ import annotations

from enum import StrEnum

from podtui.api.names import GROUP_VERSION, METRICS_GROUP_VERSION
from podtui.api.v1 import ObjectMeta, Quantity, Struct, Time


class Severity(StrEnum):
    """``ERROR`` keeps a manifest from being used; ``WARNING`` does not."""

    ERROR = "Error"
    WARNING = "Warning"


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One thing to say about one place in one manifest.

    ``line`` and ``column`` count from 1 and are None where the text has no such place. ``field`` is
    a path as the API server writes it (``spec.containers[0].image``); ``code`` one of the API's
    error types (``FieldValueInvalid`` …) or one of ours (``UnknownField``, ``DuplicatePod`` …).
    ``fix`` says what to write instead, empty where there is nothing mechanical to say; ``remove``
    are the fields and items whose removal is the fix.
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
        """The cause, then the field: ``Required value (spec.containers)``."""
        if not self.field or self.field in self.message:
            return self.message
        return f"{self.message} ({self.field})"


class ManifestState(StrEnum):
    """What became of a file in the folder."""

    ACCEPTED = "Accepted"
    LAST_GOOD = "LastGood"
    """Broken now; the version before it keeps running (departure 1)."""
    INVALID = "Invalid"
    DUPLICATE = "Duplicate"
    """Another, older file has this namespace/name (departure 3)."""
    IGNORED = "Ignored"


class ManifestSpec(Struct, frozen=True, kw_only=True):
    """``path`` is absolute; ``text`` the file as last read, cut at 256 KiB, undecodable bytes
    replaced."""

    path: str
    text: str = ""


class ManifestStatus(Struct, frozen=True, kw_only=True):
    state: ManifestState
    message: str = ""
    podNamespace: str = ""
    podName: str = ""
    podUID: str = ""
    places: str = ""
    """Where the pod's fields are in the text, as `podtui.api.places` writes it; not more than
    `podtui.api.places.MAX_PLACES` of them."""
    diagnostics: tuple[Diagnostic, ...] = ()


class Manifest(Struct, frozen=True, kw_only=True):
    """One file of the static-pod folder. ``metadata.name`` is the file's name."""

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
    """What ``metrics.k8s.io`` says of a pod: usage over ``window`` ending at ``timestamp``."""

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
