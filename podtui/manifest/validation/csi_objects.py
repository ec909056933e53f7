"""The API server's rules for CSIDrivers, CSINodes and VolumeAttachments."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from podtui.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    TokenRequest,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentStatus,
    VolumeError,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
    too_long,
)
from podtui.manifest.validation.metadata import label_name, object_meta
from podtui.manifest.validation.persistent_volumes import volume_spec
from podtui.manifest.validation.volumes import csi_driver_name

GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES: Final = ("Persistent", "Ephemeral")
TOKENS_IN_VOLUME_CONTEXT: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to"
    " prevent possible logging of tokens in volume attributes"
)
_IMMUTABLE: Final = "field is immutable"
_SHORTEST_TOKEN: Final = 600
_LONGEST_TOKEN: Final = 1 << 32
_SHORTEST_PERIOD: Final = 10
_MAX_NODE_ID: Final = 256
_MAX_METADATA: Final = 256 * 1024
_MAX_ERROR: Final = 1024


# --- drivers


def validate_driver(item: CSIDriver) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    yield from _driver_spec(item.spec)


def _driver_spec(spec: CSIDriverSpec) -> Errors:
    if spec.fsGroupPolicy and spec.fsGroupPolicy not in GROUP_POLICIES:
        yield not_supported("spec.fsGroupPolicy", spec.fsGroupPolicy, GROUP_POLICIES)
    yield from _token_requests(spec.tokenRequests)
    for mode in spec.volumeLifecycleModes:
        if mode not in LIFECYCLE_MODES:
            yield not_supported("spec.volumeLifecycleModes", mode, LIFECYCLE_MODES)
    period = spec.nodeAllocatableUpdatePeriodSeconds
    if period is not None and period < _SHORTEST_PERIOD:
        why = "must be greater than or equal to 10 seconds"
        yield invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why)
    in_secrets = spec.serviceAccountTokenInSecrets
    if in_secrets is not None and not spec.tokenRequests:
        why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid("spec.serviceAccountTokenInSecrets", in_secrets, why)


def _token_requests(requests: tuple[TokenRequest, ...]) -> Errors:
    audiences = set[str]()
    for index, request in enumerate(requests):
        path = f"spec.tokenRequests[{index}]"
        if request.audience in audiences:
            yield duplicate(f"{path}.audience", request.audience)
            continue
        audiences.add(request.audience)
        seconds = request.expirationSeconds
        if seconds is not None and seconds < _SHORTEST_TOKEN:
            why = "may not specify a duration less than 10 minutes"
            yield invalid(f"{path}.expirationSeconds", seconds, why)
        if seconds is not None and seconds > _LONGEST_TOKEN:
            why = "may not specify a duration larger than 2^32 seconds"
            yield invalid(f"{path}.expirationSeconds", seconds, why)


def driver_update(new: CSIDriver, old: CSIDriver) -> Errors:
    yield from _driver_spec(new.spec)
    # Kubernetes names this field so.
    if new.spec.attachRequired != old.spec.attachRequired:
        yield invalid("spec.attachedRequired", new.spec.attachRequired, _IMMUTABLE)
    if new.spec.volumeLifecycleModes != old.spec.volumeLifecycleModes:
        modes = list(new.spec.volumeLifecycleModes)
        yield invalid("spec.volumeLifecycleModes", modes, _IMMUTABLE)


# --- nodes


def validate_node(item: CSINode) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    names = set[str]()
    for index, driver in enumerate(item.spec.drivers):
        path = f"spec.drivers[{index}]"
        yield from _node_driver(driver, path)
        if driver.name in names:
            yield duplicate(f"{path}.name", driver.name)
        names.add(driver.name)


def _node_driver(driver: CSINodeDriver, path: str) -> Errors:
    yield from csi_driver_name(driver.name, f"{path}.name")
    if not driver.nodeID:
        yield required(f"{path}.nodeID")
    if formats.size(driver.nodeID) > _MAX_NODE_ID:
        why = f"must be {_MAX_NODE_ID} characters or less"
        yield invalid(f"{path}.nodeID", driver.nodeID, why)
    if driver.allocatable is not None:
        yield from formats.nonnegative(driver.allocatable.count, f"{path}.allocatable.count")
    keys = set[str]()
    for key in driver.topologyKeys:
        if not key:
            yield required(path)
        if key in keys:
            yield duplicate(path, key)
        keys.add(key)
        yield from label_name(key, path)


def node_update(new: CSINode, old: CSINode) -> Errors:
    yield from validate_node(new)
    before = {driver.name: structs.replace(driver, allocatable=None) for driver in old.spec.drivers}
    for driver in new.spec.drivers:
        changed = structs.replace(driver, allocatable=None)
        if before.get(driver.name, changed) != changed:
            yield invalid("spec.drivers", changed, _IMMUTABLE)


# --- attachments


def validate_attachment(item: VolumeAttachment) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    spec = item.spec
    yield from csi_driver_name(spec.attacher, "spec.attacher")
    yield from _attachment_source(spec.source)
    yield from invalid_each("spec.nodeName", spec.nodeName, formats.dns_subdomain(spec.nodeName))
    yield from _attachment_status(item.status)
    name = spec.source.persistentVolumeName
    if name:
        problems = formats.dns_subdomain(name)
        yield from invalid_each("spec.source.persistentVolumeName", name, problems)


def _attachment_source(source: VolumeAttachmentSource) -> Errors:
    why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    named, inline = bool(source.persistentVolumeName), source.inlineVolumeSpec
    if not named and inline is None:
        yield required("spec.source", why)
    elif named and inline is not None:
        yield forbidden("spec.source", why)
    elif inline is not None:
        yield from volume_spec(inline)


def _attachment_status(status: VolumeAttachmentStatus) -> Errors:
    pairs = status.attachmentMetadata.items()
    if sum(formats.size(key) + formats.size(value) for key, value in pairs) > _MAX_METADATA:
        yield too_long("status.attachmentMetadata", _MAX_METADATA)
    yield from _volume_error(status.attachError, "status.attachError")
    yield from _volume_error(status.detachError, "status.detachError")


def _volume_error(error: VolumeError | None, path: str) -> Errors:
    if error is not None and formats.size(error.message) > _MAX_ERROR:
        yield too_long(f"{path}.message", _MAX_METADATA)


def attachment_update(new: VolumeAttachment, old: VolumeAttachment) -> Errors:
    yield from validate_attachment(new)
    if new.spec != old.spec:
        yield invalid("spec", new.spec, _IMMUTABLE)
