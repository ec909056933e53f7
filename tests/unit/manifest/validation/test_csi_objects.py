"""CSIDrivers, CSINodes and VolumeAttachments as the API server defaults and checks them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from podtui.api.storage import CSIDriver, CSINode, VolumeAttachment, VolumeAttachmentStatus
from podtui.manifest.strategies import csi
from podtui.manifest.validation.csi_objects import TOKENS_IN_VOLUME_CONTEXT


def driver(name: str = "d.example.com", **spec: Any) -> CSIDriver:
    tree: dict[str, Any] = {"metadata": {"name": name}, "spec": spec}
    csi.CSI_DRIVERS.defaults(tree)
    return msgspec.convert(tree, CSIDriver)


def node(*drivers: dict[str, Any]) -> CSINode:
    tree = {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}}
    return msgspec.convert(tree, CSINode)


def attachment(source: dict[str, Any] | None = None, attacher: str = "d") -> VolumeAttachment:
    source = {"persistentVolumeName": "pv"} if source is None else source
    spec = {"attacher": attacher, "nodeName": "n1", "source": source}
    return msgspec.convert({"metadata": {"name": "a"}, "spec": spec}, VolumeAttachment)


def texts(errors: Any) -> list[str]:
    return [error.message() for error in errors]


def test_the_defaults_of_a_driver() -> None:
    spec = driver().spec
    assert (spec.attachRequired, spec.podInfoOnMount, spec.storageCapacity) == (True, False, False)
    assert (spec.requiresRepublish, spec.seLinuxMount) == (False, False)
    assert spec.fsGroupPolicy == "ReadWriteOnceWithFSType"
    assert spec.volumeLifecycleModes == ("Persistent",)
    assert texts(csi.CSI_DRIVERS.validate_create(driver())) == []


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            {"fsGroupPolicy": "x"},
            (
                'spec.fsGroupPolicy: Unsupported value: "x": supported values: "File", "None",'
                ' "ReadWriteOnceWithFSType"'
            ),
        ),
        (
            {"volumeLifecycleModes": ["x"]},
            (
                'spec.volumeLifecycleModes: Unsupported value: "x": supported values: "Persistent",'
                ' "Ephemeral"'
            ),
        ),
        (
            {"tokenRequests": [{"audience": "a", "expirationSeconds": 5}]},
            (
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 5: may not specify a"
                " duration less than 10 minutes"
            ),
        ),
        (
            {"tokenRequests": [{"audience": "a"}, {"audience": "a"}]},
            'spec.tokenRequests[1].audience: Duplicate value: "a"',
        ),
        (
            {"serviceAccountTokenInSecrets": True},
            (
                "spec.serviceAccountTokenInSecrets: Invalid value: true:"
                " serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            ),
        ),
        (
            {"nodeAllocatableUpdatePeriodSeconds": 3},
            (
                "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 3: must be greater than or"
                " equal to 10 seconds"
            ),
        ),
    ],
)
def test_the_rules_of_a_driver(spec: dict[str, Any], error: str) -> None:
    assert texts(csi.CSI_DRIVERS.validate_create(driver(**spec))) == [error]


def test_what_of_a_driver_cannot_change() -> None:
    old = driver()
    new = driver(attachRequired=False, podInfoOnMount=True)
    assert texts(csi.CSI_DRIVERS.validate_update(new, old)) == [
        "spec.attachedRequired: Invalid value: false: field is immutable"
    ]
    assert csi.CSI_DRIVERS.prepare_update(new, old).metadata.generation == 1


def test_tokens_among_the_attributes_are_a_warning() -> None:
    item = driver(tokenRequests=[{"audience": "a"}])
    assert [*csi.CSI_DRIVERS.warnings(item, None)] == [TOKENS_IN_VOLUME_CONTEXT]
    assert [*csi.CSI_DRIVERS.warnings(item, item)] == []


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"name": "d", "nodeID": ""}, "spec.drivers[0].nodeID: Required value"),
        ({"name": "", "nodeID": "x"}, "spec.drivers[0].name: Required value"),
        (
            {"name": "d", "nodeID": "x", "topologyKeys": ["k", "k"]},
            'spec.drivers[0]: Duplicate value: "k"',
        ),
    ],
)
def test_the_rules_of_the_drivers_of_a_node(entry: dict[str, Any], error: str) -> None:
    assert texts(csi.CSI_NODES.validate_create(node(entry))) == [error]


def test_only_the_limit_of_a_registered_driver_may_change() -> None:
    old = node({"name": "d", "nodeID": "x"})
    limit = node({"name": "d", "nodeID": "x", "allocatable": {"count": 3}})
    assert texts(csi.CSI_NODES.validate_update(limit, old)) == []
    (error,) = texts(csi.CSI_NODES.validate_update(node({"name": "d", "nodeID": "y"}), old))
    assert error.startswith("spec.drivers: Invalid value: ")
    assert error.endswith(": field is immutable")


def test_the_rules_of_an_attachment() -> None:
    strategy = csi.VOLUME_ATTACHMENTS
    assert texts(strategy.validate_create(attachment())) == []
    assert texts(strategy.validate_create(attachment({}))) == [
        (
            "spec.source: Required value: must specify exactly one of inlineVolumeSpec and"
            " persistentVolumeName"
        )
    ]
    (error,) = texts(strategy.validate_update(attachment(attacher="e"), attachment()))
    assert error.endswith(": field is immutable")


def test_only_its_subresource_sets_the_status_of_an_attachment() -> None:
    done = structs.replace(attachment(), status=VolumeAttachmentStatus(attached=True))
    assert not csi.VOLUME_ATTACHMENTS.prepare_create(done).status.attached
    assert not csi.VOLUME_ATTACHMENTS.prepare_update(done, attachment()).status.attached
    assert csi.VOLUME_ATTACHMENT_STATUS.prepare_update(done, attachment()).status.attached
