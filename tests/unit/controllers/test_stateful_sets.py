"""The controller of StatefulSets: with single histories, and with many random ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs
from set_world import NAMESPACE, SetWorld, from_fields, pod_template, template

from podtui.api.apps import (
    ControllerRevision,
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetUpdateStrategy,
)
from podtui.api.objects import Object
from podtui.api.v1 import ObjectMeta, OwnerReference, PersistentVolumeClaim, Pod
from podtui.controllers.stateful_pods import (
    ordinal_of,
    ordinals,
    parent_and_ordinal,
    revision_of,
)
from podtui.errors import ApiError, PodtuiError


def a_set(replicas: int = 2, **spec: Any) -> StatefulSet:
    fields = {
        "replicas": replicas,
        "serviceName": "db",
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "selector": {"matchLabels": {"app": "db"}},
        "template": template(),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        **spec,
    }
    return from_fields(StatefulSet, "db", spec=fields)


def rolling(**fields: Any) -> StatefulSetUpdateStrategy:
    return msgspec.convert(
        {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, **fields}},
        StatefulSetUpdateStrategy,
    )


CLAIMS = [
    {
        "metadata": {"name": "data", "labels": {"own": "yes"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
]


@pytest.fixture
def world() -> Iterator[SetWorld]:
    world = SetWorld()
    yield world
    world.close()


def start(world: SetWorld, stateful_set: StatefulSet, *running: str) -> None:
    """Create a set and let its pods run, one after the other."""
    world.api.put(stateful_set)
    world.settle(StatefulSet, "db")
    for name in running:
        world.run(name)
        world.settle(StatefulSet, "db")


def settle(world: SetWorld) -> None:
    world.settle(StatefulSet, "db")


def deleting(world: SetWorld) -> list[str]:
    return [name for name, pod in world.pods().items() if pod.metadata.deletionTimestamp]


def images(world: SetWorld) -> dict[str, str]:
    return {name: pod.spec.containers[0].image for name, pod in sorted(world.pods().items())}


# --- names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("db-0", ("db", 0)),
        ("a-b-12", ("a-b", 12)),
        ("db", ("", -1)),
        ("db-x", ("", -1)),
        ("db-99999999999", ("db", -1)),
    ],
)
def test_the_ordinal_of_a_pod_is_in_its_name(name: str, expected: tuple[str, int]) -> None:
    assert parent_and_ordinal(name) == expected


def test_a_pod_has_a_stable_identity(world: SetWorld) -> None:
    start(world, a_set(ordinals={"start": 5}))
    (pod,) = world.pods().values()
    revision = world.cache.list(ControllerRevision)[0].metadata.name
    assert pod.metadata.name == pod.spec.hostname == "db-5"
    assert pod.spec.subdomain == "db"
    assert pod.metadata.labels == {
        "app": "db",
        "apps.kubernetes.io/pod-index": "5",
        "controller-revision-hash": revision,
        "statefulset.kubernetes.io/pod-name": "db-5",
    }
    assert pod.metadata.ownerReferences[0].kind == "StatefulSet"


# --- order


def test_an_ordered_set_creates_a_pod_when_the_one_before_is_ready(world: SetWorld) -> None:
    start(world, a_set(3))
    assert list(world.pods()) == ["db-0"]
    world.run("db-0")
    settle(world)
    assert list(world.pods()) == ["db-0", "db-1"]
    assert world.messages() == [
        "Create Pod db-0 in StatefulSet db successful",
        "Create Pod db-1 in StatefulSet db successful",
    ]


def test_a_parallel_set_creates_all_pods_at_once(world: SetWorld) -> None:
    start(world, a_set(3, podManagementPolicy="Parallel"))
    assert list(world.pods()) == ["db-0", "db-1", "db-2"]
    world.change(StatefulSet, "db", replicas=0)
    settle(world)
    assert all(pod.metadata.deletionTimestamp for pod in world.pods().values())


def test_a_smaller_set_deletes_the_highest_pod_first(world: SetWorld) -> None:
    start(world, a_set(3), "db-0", "db-1", "db-2")
    world.change(StatefulSet, "db", replicas=1)
    settle(world)
    assert deleting(world) == ["db-2"]
    world.end("db-2")
    settle(world)
    world.end("db-1")
    settle(world)
    assert list(world.pods()) == ["db-0"]
    assert world.messages()[-2:] == [
        "Delete Pod db-2 in StatefulSet db successful",
        "Delete Pod db-1 in StatefulSet db successful",
    ]


def test_a_smaller_set_waits_for_the_pods_below_the_highest(world: SetWorld) -> None:
    start(world, a_set(3), "db-0", "db-1", "db-2")
    world.change(StatefulSet, "db", replicas=1)
    world.stop("db-1", "db-2")
    settle(world)
    assert deleting(world) == []
    world.run("db-1")
    settle(world)
    assert deleting(world) == ["db-2"]


def test_a_pod_counts_only_after_min_ready_seconds(world: SetWorld) -> None:
    start(world, a_set(2, minReadySeconds=10))
    world.run("db-0")
    assert world.sync(StatefulSet, "db") == 10
    status = world.get(StatefulSet, "db").status
    assert (status.readyReplicas, status.availableReplicas) == (1, 0)
    world.clock.seconds += 10
    world.sync(StatefulSet, "db")
    assert list(world.pods()) == ["db-0", "db-1"]
    assert world.get(StatefulSet, "db").status.availableReplicas == 1


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_replaced(world: SetWorld, phase: str) -> None:
    start(world, a_set(2), "db-0", "db-1")
    old = world.pods()["db-0"].metadata.uid
    world.fail("db-0", phase)
    settle(world)
    assert world.pods()["db-0"].metadata.uid != old
    assert "Delete Pod db-0 in StatefulSet db successful" in world.messages()


def test_a_pod_that_cannot_be_created_is_an_event(world: SetWorld) -> None:
    def refuse(verb: str, item: Object) -> None:
        if verb == "create" and isinstance(item, Pod):
            raise ApiError(403, "Forbidden", "exceeded quota: q")

    world.api.before = refuse
    world.api.put(a_set())
    with pytest.raises(ApiError):
        world.sync(StatefulSet, "db")
    assert world.recorder.events == [
        (
            "Warning",
            "FailedCreate",
            "Create Pod db-0 in StatefulSet db failed error: exceeded quota: q",
        )
    ]
    assert world.get(StatefulSet, "db").status.updateRevision


# --- updates


def test_an_update_goes_down_and_waits_for_each_pod(world: SetWorld) -> None:
    start(world, a_set(2), "db-0", "db-1")
    world.change(StatefulSet, "db", template=pod_template("b"))
    settle(world)
    status = world.get(StatefulSet, "db").status
    assert (status.currentReplicas, status.updatedReplicas) == (1, None or 0)
    assert status.currentRevision != status.updateRevision
    world.end("db-1")
    settle(world)
    assert images(world) == {"db-0": "a", "db-1": "b"}
    assert world.pods()["db-0"].metadata.deletionTimestamp is None
    world.run("db-1")
    settle(world)
    world.end("db-0")
    settle(world)
    world.run("db-0")
    settle(world)
    assert images(world) == {"db-0": "b", "db-1": "b"}
    status = world.get(StatefulSet, "db").status
    assert status.currentRevision == status.updateRevision
    assert (status.currentReplicas, status.updatedReplicas) == (2, 2)


def test_pods_below_the_partition_keep_their_revision(world: SetWorld) -> None:
    start(world, a_set(3, ordinals={"start": 1}), "db-1", "db-2", "db-3")
    world.change(StatefulSet, "db", updateStrategy=rolling(partition=2))
    world.change(StatefulSet, "db", template=pod_template("b"))
    settle(world)
    world.end("db-3")
    settle(world)
    world.run("db-3")
    settle(world)
    assert images(world) == {"db-1": "a", "db-2": "a", "db-3": "b"}
    world.fail("db-2")
    settle(world)
    assert images(world) == {"db-1": "a", "db-2": "a", "db-3": "b"}


def test_a_pod_that_has_ended_is_deleted_once_in_an_update(world: SetWorld) -> None:
    start(world, a_set(1, podManagementPolicy="Parallel"), "db-0")
    world.change(StatefulSet, "db", template=pod_template("b"))
    world.fail("db-0")
    settle(world)
    assert world.api.writes.count("delete Pod db-0") == 1
    assert images(world) == {"db-0": "b"}


def test_on_delete_waits_for_the_user(world: SetWorld) -> None:
    start(world, a_set(2, updateStrategy={"type": "OnDelete"}), "db-0", "db-1")
    world.change(StatefulSet, "db", template=pod_template("b"))
    settle(world)
    assert images(world) == {"db-0": "a", "db-1": "a"}
    world.end("db-0")
    settle(world)
    assert images(world) == {"db-0": "b", "db-1": "a"}


def test_a_parallel_set_is_updated_from_its_highest_pod_although_a_lower_one_is_missing(
    world: SetWorld,
) -> None:
    """As in Kubernetes: each new template may take one more pod away."""
    start(world, a_set(2, podManagementPolicy="Parallel"))
    world.run(*world.pods())
    world.delete("db-0")
    world.change(StatefulSet, "db", template=pod_template("b"))
    settle(world)
    assert deleting(world) == ["db-0", "db-1"]


# --- revisions


def test_a_template_that_returns_gets_the_next_number(world: SetWorld) -> None:
    start(world, a_set(1), "db-0")
    for image in ("b", "a"):
        world.change(StatefulSet, "db", template=pod_template(image))
        settle(world)
    numbers = sorted(item.revision for item in world.cache.list(ControllerRevision))
    assert numbers == [2, 3]
    update = world.get(StatefulSet, "db").status.updateRevision
    assert world.get(ControllerRevision, update).revision == 3


def test_old_revisions_are_deleted(world: SetWorld) -> None:
    start(world, a_set(0, revisionHistoryLimit=2))
    for number in range(6):
        world.change(StatefulSet, "db", template=pod_template(f"i{number}"))
        settle(world)
    # The current and the update revision, and two more.
    numbers = sorted(item.revision for item in world.cache.list(ControllerRevision))
    assert numbers == [5, 6, 7]


def test_a_name_that_another_template_has_is_a_collision(world: SetWorld) -> None:
    start(world, a_set(0))
    (revision,) = world.cache.list(ControllerRevision)
    world.cache.remove(revision)
    meta = structs.replace(revision.metadata, uid="", ownerReferences=(), labels={})
    world.api.put(structs.replace(revision, metadata=meta, data={}))
    settle(world)
    assert world.get(StatefulSet, "db").status.collisionCount == 1
    assert len(world.cache.list(ControllerRevision)) == 2


def test_orphans_are_adopted_and_kept(world: SetWorld) -> None:
    start(world, a_set(1), "db-0")
    pod, (revision,) = world.pods()["db-0"], world.cache.list(ControllerRevision)
    orphans = (pod, revision)
    for item in orphans:
        world.api.put(
            structs.replace(item, metadata=structs.replace(item.metadata, ownerReferences=()))
        )
    settle(world)
    assert world.pods()["db-0"].metadata.uid == pod.metadata.uid
    (owner,) = world.pods()["db-0"].metadata.ownerReferences
    assert (owner.kind, owner.controller) == ("StatefulSet", True)
    assert len(world.cache.owned(ControllerRevision, owner.uid)) == 1


def test_a_set_that_is_orphaning_its_pods_does_not_take_them_back(world: SetWorld) -> None:
    start(world, a_set(1), "db-0")
    pod, stateful_set = world.pods()["db-0"], world.get(StatefulSet, "db")
    world.api.put(structs.replace(pod, metadata=structs.replace(pod.metadata, ownerReferences=())))
    meta = structs.replace(stateful_set.metadata, deletionTimestamp="2026-01-02T00:00:00Z")
    world.api.newer["db"] = structs.replace(stateful_set, metadata=meta)
    world.sync(StatefulSet, "db")
    assert world.pods()["db-0"].metadata.ownerReferences == ()


def test_no_pod_is_created_for_a_set_that_is_deleted_meanwhile(world: SetWorld) -> None:
    start(world, a_set(1), "db-0")
    item = world.get(StatefulSet, "db")
    meta = structs.replace(item.metadata, deletionTimestamp="2026-01-02T00:00:00Z")
    world.api.newer["db"] = structs.replace(item, metadata=meta)
    world.end(*world.pods())
    world.sync(StatefulSet, "db")
    assert world.pods() == {}


def test_a_pod_with_a_foreign_name_is_not_adopted(world: SetWorld) -> None:
    meta = ObjectMeta(name="other", namespace=NAMESPACE, labels={"app": "db"})
    world.api.put(Pod(metadata=meta, spec=pod_template().spec))
    start(world, a_set(1))
    assert world.pods()["other"].metadata.ownerReferences == ()


def test_a_set_that_is_being_deleted_is_left_alone(world: SetWorld) -> None:
    start(world, a_set(2), "db-0", "db-1")
    stateful_set = world.get(StatefulSet, "db")
    meta = structs.replace(stateful_set.metadata, deletionTimestamp="2026-01-02T00:00:00Z")
    world.api.put(structs.replace(stateful_set, metadata=meta))
    world.end("db-1")
    before = list(world.pods())
    settle(world)
    assert list(world.pods()) == before
    assert world.get(StatefulSet, "db").status.replicas == 1


# --- claims


def test_claims_are_created_before_their_pod(world: SetWorld) -> None:
    start(world, a_set(1, volumeClaimTemplates=CLAIMS))
    claim = world.get(PersistentVolumeClaim, "data-db-0")
    assert claim.metadata.labels == {"own": "yes", "app": "db"}
    assert claim.metadata.ownerReferences == ()
    (volume,) = world.pods()["db-0"].spec.volumes
    assert volume.name == "data"
    assert volume.persistentVolumeClaim is not None
    assert volume.persistentVolumeClaim.claimName == "data-db-0"
    assert world.messages() == [
        "Create Claim data-db-0 Pod db-0 in StatefulSet db success",
        "Create Pod db-0 in StatefulSet db successful",
    ]


def test_a_volume_of_the_template_gives_way_to_the_claim(world: SetWorld) -> None:
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    start(world, a_set(1, template=template(volumes=volumes), volumeClaimTemplates=CLAIMS))
    pod = world.pods()["db-0"]
    assert [(volume.name, volume.emptyDir is None) for volume in pod.spec.volumes] == [
        ("data", True),
        ("tmp", False),
    ]


def test_claims_outlive_pods_and_are_used_again(world: SetWorld) -> None:
    start(world, a_set(2, volumeClaimTemplates=CLAIMS), "db-0", "db-1")
    uid = world.get(PersistentVolumeClaim, "data-db-1").metadata.uid
    for replicas in (1, 2):
        world.change(StatefulSet, "db", replicas=replicas)
        settle(world)
        if replicas == 1:
            world.end("db-1")
    assert world.get(PersistentVolumeClaim, "data-db-1").metadata.uid == uid


def test_a_missing_claim_of_a_pending_pod_is_created_again(world: SetWorld) -> None:
    start(world, a_set(1, volumeClaimTemplates=CLAIMS))
    world.cache.remove(world.get(PersistentVolumeClaim, "data-db-0"))
    settle(world)
    assert world.get(PersistentVolumeClaim, "data-db-0")


def test_a_pod_waits_for_the_end_of_a_claim_that_is_being_deleted(world: SetWorld) -> None:
    start(world, a_set(1, volumeClaimTemplates=CLAIMS))
    claim = world.get(PersistentVolumeClaim, "data-db-0")
    meta = structs.replace(claim.metadata, deletionTimestamp="2026-01-02T00:00:00Z")
    world.api.put(structs.replace(claim, metadata=meta))
    world.end("db-0")
    with pytest.raises(PodtuiError):
        world.sync(StatefulSet, "db")
    assert world.messages()[-1] == (
        "Create Pod db-0 in StatefulSet db failed error: pvc data-db-0 is being deleted"
    )
    assert world.pods() == {}


def owner_of(world: SetWorld, name: str) -> list[str]:
    return [owner.kind for owner in world.get(PersistentVolumeClaim, name).metadata.ownerReferences]


@pytest.mark.parametrize(
    ("scaled", "deleted", "kept", "condemned"),
    [
        ("Retain", "Retain", [], []),
        ("Retain", "Delete", ["StatefulSet"], ["StatefulSet"]),
        ("Delete", "Retain", [], ["Pod"]),
        ("Delete", "Delete", ["StatefulSet"], ["Pod"]),
    ],
)
def test_the_owners_of_claims_follow_the_retention_policy(
    world: SetWorld, scaled: str, deleted: str, kept: list[str], condemned: list[str]
) -> None:
    policy = {"whenScaled": scaled, "whenDeleted": deleted}
    the_set = a_set(2, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy)
    start(world, the_set, "db-0", "db-1")
    assert owner_of(world, "data-db-0") == owner_of(world, "data-db-1") == kept
    world.change(StatefulSet, "db", replicas=1)
    settle(world)
    assert owner_of(world, "data-db-1") == condemned
    assert owner_of(world, "data-db-0") == kept
    # Back before the pod has ended.
    world.change(StatefulSet, "db", replicas=2)
    world.end("db-1")
    if condemned == ["Pod"]:
        before = list(world.api.writes)
        settle(world)
        # The claim goes with the earlier pod, so that the new one waits.
        assert not [text for text in world.api.writes[len(before) :] if text == "create Pod db-1"]
        world.cache.remove(world.get(PersistentVolumeClaim, "data-db-1"))
    settle(world)
    assert owner_of(world, "data-db-1") == kept
    assert "db-1" in world.pods()


def test_a_new_retention_policy_changes_the_owners_of_claims(world: SetWorld) -> None:
    start(world, a_set(2, volumeClaimTemplates=CLAIMS), "db-0")
    for name in ("Delete", "Retain"):
        policy = StatefulSetPersistentVolumeClaimRetentionPolicy(
            whenScaled="Retain", whenDeleted=name
        )
        world.change(StatefulSet, "db", persistentVolumeClaimRetentionPolicy=policy)
        settle(world)
        kept = ["StatefulSet"] if name == "Delete" else []
        assert owner_of(world, "data-db-0") == owner_of(world, "data-db-1") == kept
    # The second pod is pending: what is missing is created without an event about the pod.
    assert world.messages().count("Update Pod db-0 in StatefulSet db successful") == 2
    assert "Update Pod db-1 in StatefulSet db successful" not in world.messages()


def test_a_claim_of_another_controller_is_left_to_it(world: SetWorld) -> None:
    other = OwnerReference(apiVersion="v1", kind="X", name="x", uid="x", controller=True)
    meta = ObjectMeta(name="data-db-0", namespace=NAMESPACE, ownerReferences=(other,))
    world.api.put(from_fields(PersistentVolumeClaim, "data-db-0", spec=CLAIMS[0]["spec"]))
    claim = world.get(PersistentVolumeClaim, "data-db-0")
    world.api.put(
        structs.replace(claim, metadata=structs.replace(claim.metadata, ownerReferences=(other,)))
    )
    policy = {"whenScaled": "Retain", "whenDeleted": "Delete"}
    start(world, a_set(1, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy))
    assert owner_of(world, meta.name) == ["X"]
    assert "ConflictingController" in {reason for _, reason, _ in world.recorder.events}


# --- random histories


class Histories(RuleBasedStateMachine):
    """What users and kubelets do in any order. `check` sees each write of the controller."""

    def __init__(self) -> None:
        super().__init__()
        self.world = SetWorld()
        self.ordered = True
        self.updates = 0

    @rule(parallel=st.booleans(), start=st.integers(0, 2), replicas=st.integers(0, 4))
    @precondition(lambda self: not self.world.cache.list(StatefulSet))
    def create(self, parallel: bool, start: int, replicas: int) -> None:
        self.ordered = not parallel
        policy = "Parallel" if parallel else "OrderedReady"
        self.world.api.put(a_set(replicas, podManagementPolicy=policy, ordinals={"start": start}))
        self.world.api.before = self.check
        self.settle()

    def check(self, verb: str, item: Object) -> None:
        if not isinstance(item, Pod):
            return
        pods, (the_set,) = self.world.pods(), self.world.cache.list(StatefulSet)
        spec, ordinal = the_set.spec, ordinal_of(item)
        assert spec.ordinals is not None
        assert spec.updateStrategy.rollingUpdate is not None
        first = spec.ordinals.start or 0
        below = [f"db-{number}" for number in range(first, ordinal)]
        desired = range(first, first + (spec.replicas or 0))
        if verb == "create":
            assert item.metadata.name not in pods
            assert ordinal in desired
            if self.ordered:
                assert all(name in pods and self.is_ready(name) for name in below)
        if verb == "delete":
            assert pods[item.metadata.name].metadata.deletionTimestamp is None
            if item.status.phase in ("Failed", "Succeeded") and ordinal in desired:
                return
            if self.ordered:
                # Of pods that are not desired, a lower one may have been deleted for an update.
                lowest = 0 if ordinal in desired else ordinal
                assert not any(
                    pod.metadata.deletionTimestamp
                    for pod in pods.values()
                    if ordinal_of(pod) >= lowest
                )
            if ordinal in desired:
                # For an update.
                partition = spec.updateStrategy.rollingUpdate.partition or 0
                assert ordinal >= first + partition
                above = range(ordinal + 1, desired.stop)
                assert all(self.is_ready(f"db-{number}") for number in above)
            elif self.ordered:
                assert all(self.is_ready(f"db-{number}") for number in desired)
                assert ordinal == max(map(ordinal_of, pods.values())) or ordinal < first

    def is_ready(self, name: str) -> bool:
        pod = self.world.pods().get(name)
        return (
            pod is not None
            and pod.status.phase == "Running"
            and pod.metadata.deletionTimestamp is None
        )

    def is_superfluous(self, pod: Pod) -> bool:
        return ordinal_of(pod) not in ordinals(self.world.get(StatefulSet, "db"))

    def settle(self) -> None:
        self.world.settle(StatefulSet, "db")

    @precondition(lambda self: bool(self.world.pods()))
    @rule(data=st.data(), action=st.sampled_from(["run", "fail", "end", "delete"]))
    def pod(self, data: st.DataObject, action: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.pods())))
        pod = self.world.pods()[name]
        if action == "run" and pod.status.phase == "Pending":
            self.world.run(name)
        elif action == "fail" and pod.metadata.deletionTimestamp is None:
            self.world.fail(name)
        elif action == "delete" or pod.metadata.deletionTimestamp is not None:
            self.world.end(name)
        self.settle()

    @precondition(lambda self: bool(self.world.cache.list(StatefulSet)))
    @rule(replicas=st.integers(0, 4))
    def scale(self, replicas: int) -> None:
        self.world.change(StatefulSet, "db", replicas=replicas)
        self.settle()

    @precondition(lambda self: bool(self.world.cache.list(StatefulSet)))
    @rule(image=st.sampled_from("abc"))
    def update(self, image: str) -> None:
        self.world.change(StatefulSet, "db", template=pod_template(image))
        self.settle()

    @precondition(lambda self: bool(self.world.cache.list(StatefulSet)))
    @rule(partition=st.integers(0, 4))
    def divide(self, partition: int) -> None:
        self.world.change(StatefulSet, "db", updateStrategy=rolling(partition=partition))
        self.settle()

    @invariant()
    def counts_are_those_of_the_pods(self) -> None:
        for item in self.world.cache.list(StatefulSet):
            assert item.status.replicas == len(self.world.pods())
            assert 0 <= (item.status.readyReplicas or 0) <= item.status.replicas

    def teardown(self) -> None:
        """Let everything run: the set reaches its desired state."""
        try:
            if self.world.cache.list(StatefulSet):
                self.reach_the_desired_state()
        finally:
            self.world.close()

    def reach_the_desired_state(self) -> None:
        for _ in range(40):
            for name, pod in self.world.pods().items():
                if pod.metadata.deletionTimestamp is not None:
                    self.world.end(name)
                elif pod.status.phase == "Pending":
                    self.world.run(name)
                elif pod.status.phase == "Failed" and self.is_superfluous(pod):
                    # Kubernetes' controller does not delete a failed pod either while a lower one
                    # has failed: a user has to.
                    self.world.end(name)
            self.settle()
        the_set = self.world.get(StatefulSet, "db")
        spec, status = the_set.spec, the_set.status
        assert spec.ordinals is not None
        assert spec.updateStrategy.rollingUpdate is not None
        first, replicas = spec.ordinals.start or 0, spec.replicas or 0
        names = {f"db-{number}" for number in range(first, first + replicas)}
        assert set(self.world.pods()) == names
        assert all(map(self.is_ready, names))
        partition = spec.updateStrategy.rollingUpdate.partition or 0
        for pod in self.world.pods().values():
            if ordinal_of(pod) >= first + partition:
                assert revision_of(pod) == status.updateRevision


TestHistories = Histories.TestCase
TestHistories.settings = examples(150, stateful_step_count=25)
