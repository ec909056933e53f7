"""What happens to claims and volumes, decided without a cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.api import claims as claims_api
from podtui.api.storage import StorageClass
from podtui.api.v1 import PersistentVolume, PersistentVolumeClaim, Pod
from podtui.controllers import volume_binding as binding
from podtui.controllers.volume_binding import (
    AskProvisioner,
    Bind,
    DeleteData,
    Expand,
    Lose,
    Note,
    Provision,
    SetClass,
    SetPhase,
    Unbind,
    Wait,
)

DIRECTORY = "/volumes"
MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")


def claim(uid: str = "u1", size: str = "1Gi", **changes: Any) -> PersistentVolumeClaim:
    annotations: dict[str, str] = changes.pop("annotations", {})
    status = changes.pop("status", {"phase": "Pending"})
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "",
        **changes,
    }
    meta = {"name": "data", "namespace": "ns", "uid": uid, "annotations": annotations}
    document = {"metadata": meta, "spec": spec, "status": status}
    return msgspec.convert(document, PersistentVolumeClaim)


def volume(name: str = "pv", size: str = "1Gi", **changes: Any) -> PersistentVolume:
    meta = {"name": name, "uid": name, **changes.pop("metadata", {})}
    phase = changes.pop("phase", "Available")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/data"},
        **changes,
    }
    document = {"metadata": meta, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(document, PersistentVolume)


def storage_class(name: str = "c", provisioner: str = "", **fields: Any) -> StorageClass:
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "provisioner": provisioner or binding.PROVISIONER,
            "volumeBindingMode": "Immediate",
            **fields,
        },
        StorageClass,
    )


def pod(name: str = "p", node: str = "") -> Pod:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"containers": [], "nodeName": node, "volumes": volumes}
    return msgspec.convert({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}, Pod)


def decide(
    item: PersistentVolumeClaim,
    *volumes: PersistentVolume,
    classes: tuple[StorageClass, ...] = (),
    default: str = "",
    pods: tuple[Pod, ...] = (),
    drivers: tuple[str, ...] = (),
) -> binding.ClaimAction:
    return binding.decide_claim(
        item,
        {each.metadata.name: each for each in volumes},
        {each.metadata.name: each for each in classes},
        default,
        pods,
        drivers,
    )


REF = {"namespace": "ns", "name": "data"}
LATE = storage_class(volumeBindingMode="WaitForFirstConsumer")


def test_the_smallest_volume_with_the_fewest_modes_is_bound() -> None:
    more_modes = volume("a", accessModes=["ReadWriteOnce", "ReadWriteMany"])
    large, small = volume("b", "5Gi"), volume("c", "2Gi")
    tiny, taken = volume("d", "10Mi"), volume("e", claimRef={"namespace": "x", "name": "y"})
    assert decide(claim(), more_modes, large, small, tiny, taken) == Bind(small)
    assert decide(claim(accessModes=["ReadWriteMany"]), large, more_modes) == Bind(more_modes)


def test_a_reserved_volume_comes_first_and_even_before_the_first_pod() -> None:
    reserved, free = volume("b", "5Gi", claimRef=REF, storageClassName="c"), volume("a")
    late = claim(storageClassName="c")
    assert decide(late, free, reserved, classes=(LATE,)) == Bind(reserved)


def test_selectors_classes_and_phases_exclude_volumes() -> None:
    labelled = volume("a", metadata={"labels": {"disk": "fast"}})
    selector = {"matchLabels": {"disk": "fast"}}
    assert decide(claim(selector=selector), volume("b"), labelled) == Bind(labelled)
    excluded = (
        volume("c", phase="Released"),
        volume("d", storageClassName="other"),
        volume("e", volumeMode="Block"),
        volume("f", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    )
    why = "no persistent volumes available for this claim and no storage class is set"
    assert decide(claim(), *excluded) == Wait(Note("Normal", "FailedBinding", why))


def test_waiting_for_the_first_pod() -> None:
    """The messages are recorded from a real controller."""
    item = claim(storageClassName="c")
    waiting = decide(item, classes=(LATE,))
    first = "waiting for first consumer to be created before binding"
    assert waiting == Wait(Note("Normal", "WaitForFirstConsumer", first))
    waiting = decide(item, classes=(LATE,), pods=(pod("va-0"),))
    text = "waiting for pod va-0 to be scheduled"
    assert waiting == Wait(Note("Normal", "WaitForPodScheduled", text))
    assert decide(item, classes=(LATE,), pods=(pod(node="n1"),)) == Provision(LATE, "n1")


def test_provisioning() -> None:
    item = claim(storageClassName="c")
    ours = storage_class()
    assert decide(item, classes=(ours,)) == Provision(ours, "")
    missing = 'storageclass.storage.k8s.io "c" not found'
    assert decide(item) == Wait(Note("Warning", "ProvisioningFailed", missing))
    none = storage_class(provisioner="kubernetes.io/no-provisioner")
    text = "no volume plugin matched name: kubernetes.io/no-provisioner"
    assert decide(item, classes=(none,)) == Wait(Note("Warning", "ProvisioningFailed", text))
    other = storage_class(provisioner="example.com/none")
    assert isinstance(decide(item, classes=(other,)), AskProvisioner)


@pytest.mark.parametrize(
    "provisioner", ["kubernetes.io/azure-disk", "pd.csi.storage.gke.io", "k8s.io/minikube-hostpath"]
)
def test_a_directory_replaces_a_volume_that_cannot_exist_on_this_machine(provisioner: str) -> None:
    other = storage_class(provisioner=provisioner, mountOptions=["debug"])
    action = decide(claim(storageClassName="c"), classes=(other,))
    assert isinstance(action, Provision)
    assert action.note is not None
    assert (action.note.type, action.note.reason) == ("Warning", "ProvisionerReplaced")
    assert provisioner in action.note.message


def test_a_csi_driver_that_is_installed_provides_its_volumes() -> None:
    name = "pd.csi.storage.gke.io"
    other = storage_class(provisioner=name)
    item = claim(storageClassName="c")
    assert isinstance(decide(item, classes=(other,), drivers=(name,)), AskProvisioner)


def test_a_default_class_that_comes_later() -> None:
    item = claim(storageClassName=None)
    assert decide(item, default="c") == SetClass("c")
    assert isinstance(decide(item), Wait)


@pytest.mark.parametrize(
    ("requested", "reason", "message"),
    [
        (
            volume(size="1Mi"),
            "VolumeMismatch",
            'Cannot bind to requested volume "pv": requested PV is too small',
        ),
        (
            volume(claimRef={**REF, "name": "other"}),
            "FailedBinding",
            'volume "pv" already bound to a different claim.',
        ),
    ],
)
def test_a_named_volume_that_does_not_fit(
    requested: PersistentVolume, reason: str, message: str
) -> None:
    action = decide(claim(volumeName="pv"), requested)
    assert action == Wait(Note("Warning", reason, message))


def test_a_named_volume_ignores_the_first_pod() -> None:
    named = volume(storageClassName="c")
    assert decide(claim(volumeName="pv", storageClassName="c"), named, classes=(LATE,)) == Bind(
        named
    )
    assert decide(claim(volumeName="pv")) == Wait()


DONE = {binding.BIND_COMPLETED: "yes"}


def test_a_bound_claim_keeps_loses_or_expands_its_volume() -> None:
    mine = volume(claimRef={**REF, "uid": "u1"}, phase="Bound")
    bound = claim(volumeName="pv", annotations=DONE)
    assert decide(bound, mine) == Bind(mine)
    lost = decide(bound)
    assert isinstance(lost, Lose)
    assert lost.note.reason == "ClaimLost"
    other = volume(claimRef={**REF, "uid": "u2"})
    wrong = decide(bound, other)
    assert isinstance(wrong, Lose)
    assert wrong.note.reason == "ClaimMisbound"
    larger = claim(size="2Gi", volumeName="pv", annotations=DONE)
    waiting = decide(larger, mine)
    assert isinstance(waiting, Bind)
    assert waiting.note == Note(
        "Normal", "ExternalExpanding", "waiting for an external controller to expand this PVC"
    )
    ours = volume(
        claimRef={**REF, "uid": "u1"},
        metadata={"annotations": {binding.PROVISIONED_BY: binding.PROVISIONER}},
    )
    assert decide(larger, ours) == Expand(ours)
    grown = binding.expanded(ours, larger)
    assert grown.spec.capacity == {"storage": "2Gi"}
    # The agent ended before it wrote the claim's status.
    halfway = claim(
        size="2Gi", volumeName="pv", annotations=DONE, status={"capacity": {"storage": "1Gi"}}
    )
    assert decide(halfway, grown) == Expand(grown)
    assert binding.expanded(grown, halfway) is grown
    done = binding.claim_with_size(halfway)
    assert done.status.capacity == done.status.allocatedResources == {"storage": "2Gi"}
    assert decide(done, grown) == Bind(grown)


def test_a_retained_volume_is_free_when_its_reference_is_removed() -> None:
    kept = provisioned(persistentVolumeReclaimPolicy="Retain")
    # Neither a new claim of the same name nor another claim gets it.
    again = claim("u2", volumeName="", storageClassName="")
    assert not isinstance(decide(again, kept), Bind)
    named = claim("u2", volumeName="pv")
    wait = decide(named, kept)
    assert isinstance(wait, Wait)
    assert wait.note is not None
    assert wait.note.message == 'volume "pv" already bound to a different claim.'
    free = msgspec.structs.replace(kept, spec=msgspec.structs.replace(kept.spec, claimRef=None))
    assert binding.decide_volume(free, None, DIRECTORY) == SetPhase("Available")
    available = msgspec.structs.replace(
        free, status=msgspec.structs.replace(free.status, phase="Available")
    )
    assert decide(named, available) == Bind(available)


def test_a_policy_changed_after_the_claim_is_gone_still_counts() -> None:
    kept = provisioned(persistentVolumeReclaimPolicy="Retain")
    assert binding.decide_volume(kept, None, DIRECTORY) is None
    spec = msgspec.structs.replace(kept.spec, persistentVolumeReclaimPolicy="Delete")
    deleted = msgspec.structs.replace(kept, spec=spec)
    path = "/volumes/ns_data_pvc-u1"
    assert binding.decide_volume(deleted, None, DIRECTORY) == DeleteData(path)


def test_volumes_are_not_recycled() -> None:
    action = binding.decide_volume(
        provisioned(persistentVolumeReclaimPolicy="Recycle"), None, DIRECTORY
    )
    assert isinstance(action, SetPhase)
    assert action.phase == "Failed"
    assert action.note == Note("Warning", "VolumeFailedRecycle", "podtui does not recycle volumes")
    failed = provisioned(persistentVolumeReclaimPolicy="Recycle", phase="Failed")
    assert binding.decide_volume(failed, None, DIRECTORY) is None


def test_the_scheduler_chooses_for_the_first_pod() -> None:
    late = storage_class(volumeBindingMode="WaitForFirstConsumer")
    waiting = claim(storageClassName="c")
    free = volume(storageClassName="c")
    # A free volume is not taken before the scheduler reserves it, or selects a node.
    assert isinstance(decide(waiting, free, classes=[late], pods=[pod()]), Wait)
    taken = claims_api.reserved(free, waiting)
    assert decide(waiting, taken, classes=[late], pods=[pod()]) == Bind(taken)
    selected = claim(storageClassName="c", annotations={claims_api.SELECTED_NODE: "n1"})
    assert decide(selected, classes=[late], pods=[pod()]) == Provision(late, "n1")
    # A static pod has its node without a scheduler.
    assert decide(waiting, classes=[late], pods=[pod(node="n1")]) == Provision(late, "n1")


# --- volumes


def provisioned(path: str = "/volumes/ns_data_pvc-u1", **changes: Any) -> PersistentVolume:
    return volume(
        claimRef={**REF, "uid": "u1"},
        metadata={"annotations": {binding.PROVISIONED_BY: binding.PROVISIONER}},
        hostPath={"path": path},
        **{"persistentVolumeReclaimPolicy": "Delete", "phase": "Released", **changes},
    )


def test_phases_of_a_volume() -> None:
    assert binding.decide_volume(volume(phase="Pending"), None, DIRECTORY) == SetPhase("Available")
    assert binding.decide_volume(volume(claimRef=REF), None, DIRECTORY) is None
    taken = volume(claimRef={**REF, "uid": "u1"})
    bound = claim(volumeName="pv")
    assert binding.decide_volume(taken, bound, DIRECTORY) == SetPhase("Bound")
    assert binding.decide_volume(taken, claim(), DIRECTORY) is None
    assert binding.decide_volume(taken, None, DIRECTORY) == SetPhase("Released")
    assert binding.decide_volume(taken, claim("u2"), DIRECTORY) == SetPhase("Released")
    assert binding.decide_volume(taken, claim(volumeName="other"), DIRECTORY) == Unbind()


def test_only_data_below_the_directory_of_volumes_are_deleted() -> None:
    path = "/volumes/ns_data_pvc-u1"
    assert binding.decide_volume(provisioned(), None, DIRECTORY) == DeleteData(path)
    kept = provisioned(persistentVolumeReclaimPolicy="Retain")
    assert binding.decide_volume(kept, None, DIRECTORY) is None
    for other in ("/etc", "/volumes", "/volumes/../etc", "/volumes/a/b", "/volumes/", "/"):
        action = binding.decide_volume(provisioned(other), None, DIRECTORY)
        assert isinstance(action, SetPhase)
        assert (action.phase, action.note and action.note.reason) == (
            "Failed",
            "VolumeFailedDelete",
        )
    manual = volume(
        claimRef={**REF, "uid": "u1"}, phase="Released", persistentVolumeReclaimPolicy="Delete"
    )
    action = binding.decide_volume(manual, None, DIRECTORY)
    assert isinstance(action, SetPhase)
    assert action.message == (
        'error getting deleter volume plugin for volume "pv": no deletable volume plugin matched'
    )


def test_names_of_provisioned_volumes() -> None:
    new = binding.provisioned(claim(storageClassName="c"), storage_class(), DIRECTORY)
    assert new.metadata.name == "pvc-u1"
    assert new.spec.hostPath is not None
    assert new.spec.hostPath.path == "/volumes/ns_data_pvc-u1"
    assert new.spec.hostPath.type == "DirectoryOrCreate"
    assert new.metadata.annotations == {
        binding.BOUND_BY_CONTROLLER: "yes",
        binding.PROVISIONED_BY: binding.PROVISIONER,
    }
    assert claims_api.is_reserved_for(new, claim())


def test_the_longest_name_of_a_claim_fits_into_a_file_name() -> None:
    long = msgspec.structs.replace(
        claim("u" * 36),
        metadata=msgspec.structs.replace(claim("u" * 36).metadata, name="n" * 253),
    )
    host = binding.provisioned(long, storage_class(), DIRECTORY).spec.hostPath
    assert host is not None
    assert len(host.path.rpartition("/")[2]) <= 255


def test_unbinding_keeps_what_the_user_reserved() -> None:
    ref = {**REF, "uid": "u1"}
    assert binding.unbound(volume(claimRef=ref)).spec.claimRef == msgspec.convert(
        REF, type(claims_api.claim_reference(claim()))
    )
    ours = volume(claimRef=ref, metadata={"annotations": {binding.BOUND_BY_CONTROLLER: "yes"}})
    assert binding.unbound(ours).spec.claimRef is None


# --- all together


SIZES = st.sampled_from(("1Mi", "10Mi", "1Gi"))
SOME_MODES = st.lists(st.sampled_from(MODES), min_size=1, unique=True)
CLASS_NAMES = st.sampled_from(("", "c"))
VOLUMES = st.lists(
    st.builds(
        lambda size, modes, name: {"size": size, "accessModes": modes, "storageClassName": name},
        SIZES,
        SOME_MODES,
        CLASS_NAMES,
    ),
    max_size=5,
)
CLAIMS = st.lists(st.tuples(SIZES, SOME_MODES, CLASS_NAMES), max_size=5)


@given(VOLUMES, CLAIMS, st.lists(st.integers(0, 4), max_size=20))
def test_whatever_the_order_a_volume_has_one_claim_and_a_claim_one_volume(
    volumes: list[dict[str, Any]], claims: list[tuple[str, list[str], str]], order: list[int]
) -> None:
    """Runs the decisions in any order, with a stop after each write of a binding."""
    world = {f"v{n}": volume(f"v{n}", **spec) for n, spec in enumerate(volumes)}
    items = {
        n: msgspec.structs.replace(
            claim(f"u{n}", size, accessModes=modes, storageClassName=name),
            metadata=msgspec.structs.replace(claim().metadata, name=f"c{n}", uid=f"u{n}"),
        )
        for n, (size, modes, name) in enumerate(claims)
    }
    for turn, number in enumerate([*order, *range(5), *range(5)]):
        item = items.get(number)
        if item is None:
            continue
        match binding.decide_claim(item, world, {}, "", ()):
            case Bind(chosen):
                taken = claims_api.reserved(chosen, item)
                world[chosen.metadata.name] = taken
                if turn % 2 and turn < len(order):
                    continue  # Interrupted between the two sides.
                items[number] = binding.bound_claim(item, taken)
            case Lose():
                raise AssertionError("a claim lost its volume")
            case _:
                pass
    bound = {item.metadata.uid: item.spec.volumeName for item in items.values()}
    named = {each.spec.claimRef.uid: name for name, each in world.items() if each.spec.claimRef}
    assert {uid: name for uid, name in bound.items() if name} == named
    for item in items.values():
        free = [each for each in world.values() if each.spec.claimRef is None]
        if item.spec.volumeName:
            final = world[item.spec.volumeName]
            assert claims_api.capacity(final) >= claims_api.requested(item)
            assert set(item.spec.accessModes) <= set(final.spec.accessModes)
        else:
            assert all(claims_api.mismatch(each, item) for each in free)


@given(st.text("/.a", max_size=12))
def test_nothing_outside_of_the_directory_counts_as_below(path: str) -> None:
    if binding.is_below(path, DIRECTORY):
        assert path.startswith("/volumes/")
        assert ".." not in path.split("/")
        assert path.count("/") == 2


def test_a_claim_is_used_by_pods_with_a_node() -> None:
    assert binding.is_claim_used(claim(), [pod(node="n1")])
    assert not binding.is_claim_used(claim(), [pod()])
    other = msgspec.structs.replace(
        claim(), metadata=msgspec.structs.replace(claim().metadata, name="other")
    )
    assert not binding.is_claim_used(other, [pod(node="n1")])
