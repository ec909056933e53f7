"""The data of a deleted claim."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from scheduler_world import a_volume

from podtui.api.claims import PROVISIONED_BY, PROVISIONER, deleted_directory, deletion_sentence
from podtui.api.v1 import PersistentVolume


def volume(provisioner: str = "", policy: str = "Delete", **spec: Any) -> PersistentVolume:
    item = a_volume(persistentVolumeReclaimPolicy=policy, **spec)
    annotations = {PROVISIONED_BY: provisioner} if provisioner else {}
    return structs.replace(item, metadata=structs.replace(item.metadata, annotations=annotations))


@pytest.mark.parametrize(
    ("item", "directory", "sentence"),
    [
        (None, "", "It has no data: it is not bound to a volume."),
        (volume(PROVISIONER), "/data", "This deletes the directory /data with all its files."),
        (volume(PROVISIONER, "Retain"), "", "The data of the volume pv are kept in /data."),
        (volume(), "", "The data of the volume pv are kept in /data."),
        (
            volume("example.com/p", hostPath=None, csi={"driver": "d", "volumeHandle": "h"}),
            "",
            "The provisioner example.com/p deletes the volume pv with its data.",
        ),
        (
            volume("example.com/p", "Retain", hostPath=None, local={"path": "/disk"}),
            "",
            "The data of the volume pv are kept in /disk.",
        ),
        (
            volume(hostPath=None, nfs={"server": "nas", "path": "/a"}),
            "",
            "The data of the volume pv are kept on nas:/a.",
        ),
    ],
)
def test_what_the_deletion_of_a_claim_deletes(
    item: PersistentVolume | None, directory: str, sentence: str
) -> None:
    assert deleted_directory(item) == directory
    assert deletion_sentence(item) == sentence
