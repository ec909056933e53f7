"""CSI drivers, the drivers of nodes, and attachments of volumes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    VolumeAttachment,
    VolumeAttachmentStatus,
)
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy, counted, no_warnings, with_old_spec
from podtui.manifest.validation.csi_objects import (
    TOKENS_IN_VOLUME_CONTEXT,
    attachment_update,
    driver_update,
    node_update,
    validate_attachment,
    validate_driver,
    validate_node,
)


def _driver_defaults(tree: Tree) -> None:
    spec: Tree = tree.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    for name in ("podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"):
        spec.setdefault(name, False)
    spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or ["Persistent"]


def _prepare_driver(item: CSIDriver) -> CSIDriver:
    return structs.replace(item, spec=_without_alpha(item))


def _prepare_driver_update(new: CSIDriver, old: CSIDriver) -> CSIDriver:
    return counted(structs.replace(new, spec=_without_alpha(new)), old)


def _without_alpha(item: CSIDriver) -> CSIDriverSpec:
    """Return the spec without the field of the alpha feature VolumeLimitScaling."""
    return structs.replace(item.spec, preventPodSchedulingIfMissing=None)


def _driver_warnings(new: CSIDriver, old: CSIDriver | None) -> Iterable[str]:
    requests = new.spec.tokenRequests
    changed = requests != (() if old is None else old.spec.tokenRequests)
    unset = new.spec.serviceAccountTokenInSecrets is None
    return (TOKENS_IN_VOLUME_CONTEXT,) if requests and changed and unset else ()


def _prepare_attachment(item: VolumeAttachment) -> VolumeAttachment:
    return structs.replace(item, status=VolumeAttachmentStatus())


def _old_attachment_status(new: VolumeAttachment, old: VolumeAttachment) -> VolumeAttachment:
    return structs.replace(new, status=old.status)


CSI_DRIVERS: Final = Strategy(
    struct=CSIDriver,
    defaults=_driver_defaults,
    prepare_create=_prepare_driver,
    prepare_update=_prepare_driver_update,
    validate_create=validate_driver,
    validate_update=driver_update,
    warnings=_driver_warnings,
    unconditional_update=False,
    returns_deleted=True,
)
CSI_NODES: Final = Strategy(
    struct=CSINode,
    validate_create=validate_node,
    validate_update=node_update,
    unconditional_update=False,
    returns_deleted=True,
)
VOLUME_ATTACHMENTS: Final = Strategy(
    struct=VolumeAttachment,
    prepare_create=_prepare_attachment,
    prepare_update=_old_attachment_status,
    validate_create=validate_attachment,
    validate_update=attachment_update,
    unconditional_update=False,
    returns_deleted=True,
)
VOLUME_ATTACHMENT_STATUS: Final = replace(
    VOLUME_ATTACHMENTS, prepare_update=with_old_spec, warnings=no_warnings
)
