"""Diagnoses of claims and volumes."""

from __future__ import annotations

from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from why_objects import event, inventory, make, ready_pod, unschedulable_pod

from podtui.api.storage import StorageClass
from podtui.controllers.volume_binding import best_match
from podtui.why import Diagnosis, Health, Kind
from podtui.why.claims import volume_misfit, with_claims
from podtui.why.objects import diagnose_object

DEFAULT = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
USES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def claim(phase: str = "Pending", status: Any = None, **spec: Any) -> Any:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return make("PersistentVolumeClaim", "data", spec=body,
                status={"phase": phase, **(status or {})})  # fmt: skip


def volume(name: str = "v1", size: str = "1Gi", modes: Any = ("ReadWriteOnce",),
           phase: str = "Available", labels: Any = None, **spec: Any) -> Any:  # fmt: skip
    body = {"capacity": {"storage": size}, "accessModes": list(modes), **spec}
    return make("PersistentVolume", name, labels=labels, spec=body, status={"phase": phase})


def storage_class(name: str, provisioner: str = "podtui.dev/directory", mode: str = "Immediate",
                  meta: Any = None) -> Any:  # fmt: skip
    return make("StorageClass", name, meta=meta or {}, provisioner=provisioner,
                volumeBindingMode=mode)  # fmt: skip


LATE = storage_class("standard", mode="WaitForFirstConsumer", meta=DEFAULT)


def why(item: Any, *others: Any, **more: Any) -> Diagnosis:
    return diagnose_object(inventory(item, *others, **more), item)


def test_a_bound_claim_names_its_volume_and_its_pods() -> None:
    item = claim("Bound", {"capacity": {"storage": "2Gi"}}, volumeName="v1",
                 storageClassName="standard")  # fmt: skip
    diagnosis = why(item, ready_pod("db", spec={"volumes": USES}))
    assert diagnosis.title == "It is bound to the volume v1 (2Gi, class standard)."
    assert diagnosis.sentences == ("Used by: db.",)


def test_a_bound_claim_says_that_a_directory_replaces_the_volume_of_a_cloud() -> None:
    asked = {"annotations": {"volume.kubernetes.io/storage-provisioner": "ebs.csi.aws.com"}}
    item = make("PersistentVolumeClaim", "data", meta=asked, spec={"volumeName": "v1"},
                status={"phase": "Bound"})  # fmt: skip
    ours = {"annotations": {"pv.kubernetes.io/provisioned-by": "podtui.dev/directory"}}
    made = make("PersistentVolume", "v1", meta=ours, spec={})
    text = "It is a directory of this machine: ebs.csi.aws.com does not work here."
    assert text in why(item, made).sentences
    assert text not in why(item, volume("v1")).sentences


def test_no_default_class() -> None:
    diagnosis = why(claim(), storage_class("slow"))
    assert (diagnosis.cause, diagnosis.kind) == ("NoDefaultClass", Kind.FAILURE)
    assert "kubectl annotate storageclass slow" in diagnosis.advice


def test_a_class_that_does_not_exist_is_named_with_those_that_do() -> None:
    diagnosis = why(claim(storageClassName="fast"), LATE)
    assert diagnosis.title == "Its storage class fast does not exist, and no volume fits."
    assert diagnosis.sentences == ("There is no volume.", "Classes: standard.")


def test_nothing_is_said_about_classes_that_cannot_be_read() -> None:
    diagnosis = why(claim(storageClassName="fast"), unread=(StorageClass,))
    assert (diagnosis.cause, diagnosis.kind) == ("ClaimPending", Kind.WAIT)


def test_a_late_class_waits_for_a_pod() -> None:
    diagnosis = why(claim(storageClassName="standard"), LATE)
    assert (diagnosis.cause, diagnosis.health) == ("WaitForFirstConsumer", Health.PENDING)


def test_a_late_class_waits_for_the_pod_to_be_scheduled() -> None:
    pod = unschedulable_pod("db", "0/1 nodes are available: 1 Insufficient cpu.", volumes=USES)
    diagnosis = why(claim(storageClassName="standard"), LATE, pod)
    assert diagnosis.cause == "WaitForPodScheduled"
    assert diagnosis.advice == "podtui why db"


def test_an_absent_provisioner_is_a_guess() -> None:
    diagnosis = why(claim(storageClassName="nfs"), storage_class("nfs", "example.com/nfs"))
    assert diagnosis.cause == "ProvisionerSilent"
    assert "a guess" in diagnosis.sentences[0]


def test_the_provisioners_error_is_shown() -> None:
    item = claim(storageClassName="standard")
    error = event(item, "ProvisioningFailed", "disk is full")
    diagnosis = why(item, storage_class("standard"), error)
    assert diagnosis.title == "Its volume could not be created: disk is full"


def test_each_volume_has_its_reasons_the_nearest_first() -> None:
    volumes = [
        volume("far", "1Mi", ("ReadOnlyMany",)),
        volume("small", "512Mi"),
        volume("taken", claimRef={"namespace": "shop", "name": "other"}, phase="Bound"),
    ]
    diagnosis = why(claim(storageClassName=""), *volumes)
    assert diagnosis.cause == "NoVolumeFits"
    far = "too small: 1Mi, 1Gi requested; no access mode ReadWriteOnce (it has ReadOnlyMany)"
    assert diagnosis.sentences == (
        "Volume small: too small: 512Mi, 1Gi requested.",
        "Volume taken: in use by shop/other.",
        f"Volume far: {far}.",
    )


def test_many_volumes_are_counted() -> None:
    diagnosis = why(claim(storageClassName=""), *(volume(f"v{n}", "1Mi") for n in range(8)))
    assert diagnosis.sentences[-1] == "3 more volumes do not fit."


def test_a_volume_that_is_named_but_absent() -> None:
    assert why(claim(volumeName="gone")).cause == "VolumeMissing"
    named = why(claim(volumeName="v1", storageClassName=""), volume("v1", "1Mi"))
    assert named.cause == "VolumeMismatch"
    assert "too small" in named.title
    assert named.advice == "Change the volume, or create the claim again."
    named = why(claim(volumeName="v1", storageClassName="standard"), volume("v1"))
    assert named.title.endswith('class "", not "standard".')
    assert named.advice.endswith('create the claim again with storageClassName: "".')


def test_a_static_pod_that_waits_for_its_claim_explains_the_claim() -> None:
    pod = ready_pod("db", spec={"volumes": USES})
    waits = claim(storageClassName="fast")
    failed = Diagnosis(
        cause="ClaimUnbound", kind=Kind.FAILURE,
        title="The claim data of the volume data is not bound.",
    )  # fmt: skip
    explained = with_claims(inventory(pod, waits, LATE), pod, failed)
    assert [(part.name, part.diagnosis.cause) for part in explained.parts] == [
        ("pvc/data", "ClassMissing")
    ]


def test_a_lost_claim_says_that_the_data_is_gone() -> None:
    diagnosis = why(claim("Lost", volumeName="v1"))
    assert diagnosis.title == "Its volume v1 is gone, with its data."


def test_a_deleted_claim_is_kept_while_it_is_used() -> None:
    item = claim("Bound")
    meta = {"deletionTimestamp": "2026-11-20T12:00:00Z",
            "finalizers": ["kubernetes.io/pvc-protection"]}  # fmt: skip
    deleted = make("PersistentVolumeClaim", "data", meta=meta, spec={},
                   status={"phase": item.status.phase})  # fmt: skip
    diagnosis = why(deleted, ready_pod("db", spec={"volumes": USES}))
    assert diagnosis.kind is Kind.TERMINATION
    assert diagnosis.sentences == ("It is kept while pods use it: db.",)


@pytest.mark.parametrize(
    ("phase", "state", "kind"),
    [
        ("Available", "available", Kind.NONE),
        ("Bound", "bound", Kind.NONE),
        ("Released", "released", Kind.WAIT),
        ("Failed", "failed", Kind.FAILURE),
    ],
)
def test_a_volume_is_explained_by_its_phase(phase: str, state: str, kind: Kind) -> None:
    item = volume(phase=phase, claimRef={"namespace": "shop", "name": "data", "uid": "u"})
    diagnosis = why(item)
    assert (diagnosis.state, diagnosis.kind) == (state, kind)


SIZES = st.sampled_from(["1Mi", "512Mi", "1Gi", "2Gi"])
MODES = st.lists(st.sampled_from(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"]),
                 min_size=1, unique=True)  # fmt: skip
CLASSES = st.sampled_from(["", "fast"])
VOLUME_MODES = st.sampled_from(["", "Filesystem", "Block"])


@examples(300)
@given(SIZES, SIZES, MODES, MODES, CLASSES, CLASSES, VOLUME_MODES, VOLUME_MODES,
       st.booleans(), st.booleans())  # fmt: skip
def test_a_free_volume_without_a_reason_is_the_one_that_is_bound(
    size: str, wanted: str, modes: Any, wanted_modes: Any, class_: str, wanted_class: str,
    mode: str, wanted_mode: str, selects: bool, labelled: bool,
) -> None:  # fmt: skip
    """The reasons agree with the decision of the controller."""
    selector = {"selector": {"matchLabels": {"tier": "db"}}} if selects else {}
    item = claim(accessModes=wanted_modes, resources={"requests": {"storage": wanted}},
                 storageClassName=wanted_class, volumeMode=wanted_mode, **selector)  # fmt: skip
    free = volume(size=size, modes=modes, storageClassName=class_, volumeMode=mode,
                  labels={"tier": "db"} if labelled else {})  # fmt: skip
    bound = best_match(item, [free], delayed=False) is not None
    assert bound is (volume_misfit(free, item) == ())
