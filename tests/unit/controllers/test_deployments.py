"""The controller of Deployments on a store: conditions, events, revisions, pauses, strategies."""

from __future__ import annotations

import pytest
from deployment_world import DeploymentWorld, deployment, rolling
from msgspec import structs

from podtui.api.apps import DeploymentStatus, ReplicaSet
from podtui.client.cache import controller_of
from podtui.controllers.revisions import DESIRED, HISTORY, MAX, REVISION, template_hash
from podtui.errors import ApiError

NO_SURGE = {"strategy": rolling(0, 1)}


def hash_of(world: DeploymentWorld) -> str:
    return template_hash(world.deployment.spec.template, None)


async def test_a_first_rollout() -> None:
    world = DeploymentWorld(deployment(2))
    await world.sync_deployment()
    name = f"web-{hash_of(world)}"
    assert world.recorder.texts == [
        f"Normal ScalingReplicaSet: Scaled up replica set {name} from 0 to 2"
    ]
    created = ("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
    assert world.condition("Progressing") == created
    assert world.condition("Available")[:2] == ("False", "MinimumReplicasUnavailable")
    assert world.deployment.metadata.annotations[REVISION] == "1"
    assert world.replica_sets["a"].metadata.annotations == {DESIRED: "2", MAX: "3", REVISION: "1"}
    for _ in range(3):
        await world.sync_sets()
        await world.sync_deployment()
    text = f'ReplicaSet "{name}" is progressing.'
    assert world.condition("Progressing") == ("True", "ReplicaSetUpdated", text)
    await world.settle()
    text = f'ReplicaSet "{name}" has successfully progressed.'
    assert world.condition("Progressing") == ("True", "NewReplicaSetAvailable", text)
    assert world.condition("Available") == (
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    )
    assert structs.replace(world.deployment.status, conditions=()) == DeploymentStatus(
        observedGeneration=1,
        replicas=2,
        updatedReplicas=2,
        readyReplicas=2,
        availableReplicas=2,
        terminatingReplicas=0,
    )


async def test_a_new_image_replaces_the_pods_step_by_step() -> None:
    world = DeploymentWorld(deployment(2))
    await world.settle()
    old = world.replica_sets["a"].metadata.name
    world.recorder.texts.clear()
    world.set_image("b")
    await world.settle()
    new = world.replica_sets["b"].metadata.name
    steps = [text for text in world.recorder.texts if "ScalingReplicaSet" in text]
    assert [text.partition("Scaled ")[2] for text in steps] == [
        f"up replica set {new} from 0 to 1",
        f"down replica set {old} from 2 to 1",
        f"up replica set {new} from 1 to 2",
        f"down replica set {old} from 1 to 0",
    ]
    assert world.revisions == {"a": "1", "b": "2"}
    assert world.deployment.metadata.annotations[REVISION] == "2"


async def test_an_undo_gives_the_old_set_the_next_number() -> None:
    world = DeploymentWorld(deployment(2))
    for image in "aba":
        world.clock.advance(1)
        world.set_image(image)
        await world.settle()
    assert world.sizes == {"a": 2}
    assert world.revisions == {"a": "3", "b": "2"}
    assert world.replica_sets["a"].metadata.annotations[HISTORY] == "1"


async def test_scaling_changes_no_revision() -> None:
    world = DeploymentWorld(deployment(2))
    await world.settle()
    world.change(replicas=5)
    await world.settle()
    assert world.sizes == {"a": 5}
    assert len(world.active) == 5
    assert world.revisions == {"a": "1"}
    assert world.replica_sets["a"].metadata.annotations[MAX] == "6"


async def test_scaling_during_a_rollout_keeps_the_shares() -> None:
    world = DeploymentWorld(deployment(4, strategy=rolling(0, 2)))
    await world.settle()
    world.set_image("b")
    await world.settle(runs=False)
    assert world.sizes == {"a": 2, "b": 2}
    world.change(replicas=8)
    await world.settle(runs=False)
    assert world.sizes == {"a": 4, "b": 4}
    await world.settle()
    assert world.sizes == {"b": 8}


async def test_a_paused_deployment_is_scaled_but_not_rolled_out() -> None:
    world = DeploymentWorld(deployment(2))
    await world.settle()
    world.change(paused=True)
    await world.settle()
    paused = ("Unknown", "DeploymentPaused", "Deployment is paused")
    assert world.condition("Progressing") == paused
    world.set_image("b")
    world.change(replicas=3)
    await world.settle()
    assert world.sizes == {"a": 3}
    assert world.deployment.status.updatedReplicas is None
    world.change(paused=False)
    await world.sync_deployment()
    resumed = ("Unknown", "DeploymentResumed", "Deployment is resumed")
    # The new ReplicaSet is the next news.
    assert world.condition("Progressing")[1] == "NewReplicaSetCreated"
    world.change(paused=True)
    await world.settle()
    assert world.condition("Progressing") == paused
    world.change(paused=False)
    await world.sync_deployment()
    assert world.condition("Progressing") == resumed
    await world.settle()
    assert world.sizes == {"b": 3}


async def test_a_rollout_without_progress_exceeds_its_deadline() -> None:
    world = DeploymentWorld(deployment(2, progressDeadlineSeconds=6))
    await world.settle()
    world.set_image("b")
    await world.settle(runs=False)
    assert await world.sync_deployment() == 7
    world.clock.advance(6)
    assert await world.sync_deployment() == 1
    assert world.condition("Progressing")[0] == "True"
    world.clock.advance(1)
    assert await world.sync_deployment() is None
    name = world.replica_sets["b"].metadata.name
    text = f'ReplicaSet "{name}" has timed out progressing.'
    assert world.condition("Progressing") == ("False", "ProgressDeadlineExceeded", text)
    assert world.condition("Available")[0] == "True"
    world.change(paused=True)
    await world.sync_deployment()
    assert world.condition("Progressing")[1] == "ProgressDeadlineExceeded"
    world.change(paused=False)
    world.set_image("a")
    await world.settle()
    assert world.condition("Progressing")[:2] == ("True", "NewReplicaSetAvailable")


async def test_no_deadline_means_no_condition() -> None:
    world = DeploymentWorld(deployment(1, progressDeadlineSeconds=2**31 - 1))
    await world.settle()
    assert world.condition("Progressing") == ("", "", "")
    world.change(paused=True)
    await world.settle()
    assert world.condition("Progressing") == ("", "", "")


async def test_recreate_waits_until_the_old_pods_have_ended() -> None:
    world = DeploymentWorld(deployment(2, strategy={"type": "Recreate"}))
    await world.settle()
    world.set_image("b")
    await world.settle(ends=False)
    assert world.active == []
    assert len(world.pods) == 2
    assert "b" not in world.replica_sets
    [key] = {key for pod in world.pods for key in world.deployments.kinds[type(pod)](pod)}
    assert key == ("ns", "web")
    await world.settle()
    assert world.sizes == {"b": 2}
    assert world.condition("Progressing")[1] == "NewReplicaSetAvailable"


async def test_pods_of_rolling_updates_wake_nobody() -> None:
    world = DeploymentWorld(deployment(1))
    await world.settle()
    [pod] = world.pods
    assert list(world.deployments.kinds[type(pod)](pod)) == []


@pytest.mark.parametrize("strategy", [rolling(1, 0), {"type": "Recreate"}])
async def test_only_some_old_sets_are_kept(strategy: dict[str, object]) -> None:
    world = DeploymentWorld(deployment(1, revisionHistoryLimit=1, strategy=strategy))
    for image in "abcd":
        world.clock.advance(1)
        world.set_image(image)
        await world.settle()
    assert world.revisions == {"c": "3", "d": "4"}


async def test_a_set_of_a_deleted_deployment_is_adopted() -> None:
    world = DeploymentWorld(deployment(2))
    await world.settle()
    orphan = world.replica_sets["a"]
    meta = structs.replace(orphan.metadata, ownerReferences=())
    world.store.change(orphan, metadata=meta)
    world.cache.remove(world.deployment)
    keys = world.deployments.kinds[ReplicaSet]
    assert list(keys(world.replica_sets["a"])) == []
    item = deployment(2)
    world.store.add(structs.replace(item, metadata=structs.replace(item.metadata, uid="d2")))
    assert list(keys(world.replica_sets["a"])) == [("ns", "web")]
    await world.sync_deployment()
    owner = controller_of(world.replica_sets["a"])
    assert owner is not None
    assert owner.uid == "d2"
    assert len(world.replica_sets) == 1
    assert world.condition("Progressing")[1] in ("FoundNewReplicaSet", "NewReplicaSetAvailable")


async def test_annotations_and_minimum_times_follow_the_deployment() -> None:
    world = DeploymentWorld(deployment(1))
    await world.settle()
    meta = world.deployment.metadata
    annotations = {**meta.annotations, "kubernetes.io/change-cause": "first"}
    world.store.change(world.deployment, metadata=structs.replace(meta, annotations=annotations))
    world.change(minReadySeconds=3)
    await world.sync_deployment()
    item = world.replica_sets["a"]
    assert item.metadata.annotations["kubernetes.io/change-cause"] == "first"
    assert item.spec.minReadySeconds == 3


async def test_another_template_with_the_same_hash_is_a_collision() -> None:
    world = DeploymentWorld(deployment(1))
    await world.sync_deployment()
    taken = world.replica_sets["a"]
    world.cache.remove(taken)
    stranger = structs.replace(taken.metadata, ownerReferences=(), labels={}, uid="other")
    world.store.add(structs.replace(taken, metadata=stranger))
    with pytest.raises(ApiError, match="already exists"):
        await world.sync_deployment()
    assert world.deployment.status.collisionCount == 1
    await world.sync_deployment()
    names = {item.metadata.name for item in world.cache.list(ReplicaSet)}
    assert names == {
        taken.metadata.name,
        f"web-{template_hash(world.deployment.spec.template, 1)}",
    }


async def test_a_refused_replica_set_is_reported() -> None:
    world = DeploymentWorld(deployment(1))
    world.store.failures.append(ApiError(403, "Forbidden", "exceeded quota"))
    with pytest.raises(ApiError, match="exceeded quota"):
        await world.sync_deployment()
    text = f'Failed to create new replica set "web-{hash_of(world)}": exceeded quota'
    assert world.recorder.texts == [f"Warning ReplicaSetCreateError: {text}"]
    assert world.condition("Progressing") == ("False", "ReplicaSetCreateError", text)


async def test_a_namespace_that_is_deleted_is_no_error() -> None:
    world = DeploymentWorld(deployment(1))
    text = "unable to create new content in namespace ns because it is being terminated"
    world.store.failures.append(ApiError(403, "Forbidden", text))
    await world.sync_deployment()
    assert world.recorder.texts == []


async def test_pods_that_cannot_be_created_are_a_failure_of_the_deployment() -> None:
    world = DeploymentWorld(deployment(1))
    await world.sync_deployment()
    world.store.failures.append(ApiError(403, "Forbidden", "exceeded quota"))
    with pytest.raises(ApiError):
        await world.sync_sets()
    await world.sync_deployment()
    assert world.condition("ReplicaFailure") == ("True", "FailedCreate", "exceeded quota")
    await world.settle()
    assert world.condition("ReplicaFailure") == ("", "", "")


async def test_a_deleted_deployment_only_reports() -> None:
    world = DeploymentWorld(deployment(2))
    await world.settle()
    world.set_image("b")
    meta = structs.replace(world.deployment.metadata, deletionTimestamp="2026-01-01T00:00:00Z")
    world.store.change(world.deployment, metadata=meta)
    await world.settle()
    assert world.sizes == {"a": 2}
    assert world.deployment.status.observedGeneration == 2


async def test_a_deployment_that_is_gone_creates_nothing() -> None:
    """The cache may still have it: the watches of two kinds are not in step."""
    world = DeploymentWorld(deployment(2))

    async def gone(*_: object) -> None:
        raise ApiError(404, "NotFound", "not found")

    world.store.get = gone  # type: ignore[method-assign,assignment]
    await world.sync_deployment()
    assert world.replica_sets == {}
