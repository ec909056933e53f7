"""The controller of Deployments: one ReplicaSet for each template, and the way from the old ones to
the new one.

Each call of ``sync`` makes at most one step of the rollout, and writes the status. The step changes
ReplicaSets, whose next status calls ``sync`` again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import structs

from podtui.api.apps import Deployment, DeploymentStatus, ReplicaSet
from podtui.api.pods import is_finished
from podtui.api.v1 import LabelSelector, Pod
from podtui.client.cache import Cache, Key, Kind, controller_of
from podtui.clock import Clock
from podtui.controllers.client import Writer
from podtui.controllers.deployment_status import (
    CREATE_FAILED,
    CREATED,
    FOUND,
    PROGRESSING,
    condition_of,
    deployment_status,
    has_deadline,
    is_complete,
    new_condition,
    paused_status,
    rollout_status,
    seconds_to_deadline,
    with_condition,
)
from podtui.controllers.events import ControllerEvents
from podtui.controllers.loop import Keys, claimant_keys, own_key
from podtui.controllers.pods import apply_claim, claim, is_current, is_namespace_terminating
from podtui.controllers.revisions import (
    DESIRED,
    MAX,
    REVISION,
    new_and_old,
    new_replica_set,
    next_revision,
    revision_annotations,
    same_template,
    superfluous,
)
from podtui.controllers.rollouts import (
    Change,
    active,
    first_size,
    is_rolling,
    is_scaled,
    limits,
    replicas_of,
    rolling_changes,
    scaling_changes,
)
from podtui.errors import ApiError

Owner = TypeVar("Owner", Deployment, ReplicaSet)
NAME: Final = "deployment-controller"


class DeploymentController:
    def __init__(
        self, cache: Cache, writer: Writer, events: ControllerEvents, clock: Clock
    ) -> None:
        self.name = NAME
        self._cache = cache
        self._writer = writer
        self._events = events
        self._clock = clock

        def selector(deployment: Deployment) -> LabelSelector | None:
            return deployment.spec.selector

        self.kinds: Mapping[Kind, Keys] = {
            Deployment: own_key,
            ReplicaSet: claimant_keys(cache, Deployment, selector),
            Pod: self._waiting_for,
        }

    def _waiting_for(self, pod: Pod) -> Iterable[Key]:
        """Return the key of the Deployment that creates pods only after the old ones have ended."""
        deployment = self._owner(Deployment, self._owner(ReplicaSet, pod))
        if deployment is not None and not is_rolling(deployment):
            yield from own_key(deployment)

    def _owner(self, kind: type[Owner], item: ReplicaSet | Pod | None) -> Owner | None:
        reference = controller_of(item)
        if item is None or reference is None or reference.kind != kind.__name__:
            return None
        owner = self._cache.get(kind, item.metadata.namespace, reference.name)
        return owner if owner is not None and owner.metadata.uid == reference.uid else None

    async def sync(self, key: Key) -> float | None:
        deployment = self._cache.get(Deployment, *key)
        if deployment is None:
            return None
        try:
            return await self._sync(deployment)
        except ApiError as error:
            # The namespace is being deleted, and this Deployment with it.
            if not is_namespace_terminating(error):
                raise
            return None

    async def _sync(self, deployment: Deployment) -> float | None:
        items = self._cache.claimable(ReplicaSet, deployment)
        claimed = claim(deployment, deployment.spec.selector, items)
        mine = await apply_claim(self._writer, ReplicaSet, deployment, claimed)
        new, old = new_and_old(deployment, mine)
        deleted = deployment.metadata.deletionTimestamp is not None
        if not deleted:
            status = paused_status(deployment, self._clock.now())
            deployment = await self._write(deployment, status=status)
        if new is not None:
            new = await self._renew(deployment, new, old)
            deployment = await self._note(deployment, new)
        if deleted:
            await self._write_sums(deployment, new, old)
            return None
        items = [*old] if new is None else [*old, new]
        if deployment.spec.paused or is_scaled(deployment, items):
            changes = scaling_changes(deployment, new, old)
            new, old = await self._scale(deployment, changes, new, old)
            if deployment.spec.paused:
                await self._clean_up(deployment, old)
            await self._write_sums(deployment, new, old)
            return None
        if new is None and not await is_current(self._writer, deployment):
            return None
        if is_rolling(deployment):
            deployment, new, old = await self._roll(deployment, new, old)
        else:
            deployment, new, old = await self._recreate(deployment, new, old)
        now = self._clock.now()
        deployment = await self._write(deployment, status=rollout_status(deployment, new, old, now))
        return seconds_to_deadline(deployment, deployment.status, now)

    # --- rollouts

    async def _roll(
        self, deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
    ) -> tuple[Deployment, ReplicaSet | None, Sequence[ReplicaSet]]:
        if new is None:
            deployment, new = await self._create(deployment, old)
        if changes := rolling_changes(deployment, new, old):
            new, old = await self._scale(deployment, changes, new, old)
        elif is_complete(deployment, deployment.status):
            await self._clean_up(deployment, old)
        return deployment, new, old

    async def _recreate(
        self, deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
    ) -> tuple[Deployment, ReplicaSet | None, Sequence[ReplicaSet]]:
        if running := active(old):
            new, old = await self._scale(deployment, [(item, 0) for item in running], new, old)
            return deployment, new, old
        if self._has_pods(old):
            return deployment, new, old
        if new is None:
            deployment, new = await self._create(deployment, old)
        new, old = await self._scale(deployment, [(new, replicas_of(deployment))], new, old)
        if is_complete(deployment, deployment.status):
            await self._clean_up(deployment, old)
        return deployment, new, old

    def _has_pods(self, old: Iterable[ReplicaSet]) -> bool:
        return any(
            item.status.replicas
            or not all(map(is_finished, self._cache.owned(Pod, item.metadata.uid)))
            for item in old
        )

    async def _scale(
        self,
        deployment: Deployment,
        changes: Iterable[Change],
        new: ReplicaSet | None,
        old: Iterable[ReplicaSet],
    ) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
        """Write the changes; return the new and the old ReplicaSets as they are now."""
        items = {item.metadata.uid: item for item in old}
        if new is not None:
            items[new.metadata.uid] = new
        for item, size in changes:
            uid = item.metadata.uid
            items[uid] = await self._resize(deployment, items[uid], size)
        if new is not None:
            new = items.pop(new.metadata.uid)
        return new, [*items.values()]

    async def _resize(self, deployment: Deployment, item: ReplicaSet, size: int) -> ReplicaSet:
        resized = with_size(deployment, item, size)
        before = replicas_of(item)
        if resized == item:
            return item
        stored = await self._writer.update(ReplicaSet, resized)
        if size != before:
            self._record_scaling(deployment, stored, before, size)
        return stored

    def _record_scaling(
        self, deployment: Deployment, item: ReplicaSet, before: int, after: int
    ) -> None:
        direction = "up" if after > before else "down"
        text = f"Scaled {direction} replica set {item.metadata.name} from {before} to {after}"
        self._events.record(NAME, deployment, "Normal", "ScalingReplicaSet", text)

    async def _clean_up(self, deployment: Deployment, old: Iterable[ReplicaSet]) -> None:
        for item in superfluous(deployment, old):
            await self._writer.delete(ReplicaSet, item)

    # --- revisions

    async def _renew(
        self, deployment: Deployment, new: ReplicaSet, old: Iterable[ReplicaSet]
    ) -> ReplicaSet:
        """Bring the new ReplicaSet's annotations and ``minReadySeconds`` up to date."""
        meta, seconds = new.metadata, deployment.spec.minReadySeconds
        annotations = revision_annotations(deployment, meta.annotations, next_revision(old))
        same_seconds = (new.spec.minReadySeconds or 0) == (seconds or 0)
        if annotations == meta.annotations and same_seconds:
            return new
        return await self._writer.update(
            ReplicaSet,
            structs.replace(
                new,
                metadata=structs.replace(meta, annotations=annotations),
                spec=structs.replace(new.spec, minReadySeconds=seconds),
            ),
        )

    async def _note(self, deployment: Deployment, new: ReplicaSet) -> Deployment:
        """Note the revision, and that an existing ReplicaSet has the template."""
        status = deployment.status
        if has_deadline(deployment) and condition_of(status, PROGRESSING) is None:
            text = f'Found new replica set "{new.metadata.name}"'
            status = self._with_progressing(status, "True", FOUND, text)
        revision = new.metadata.annotations.get(REVISION, "")
        return await self._write(deployment, status=status, revision=revision)

    def _with_progressing(
        self, status: DeploymentStatus, value: str, reason: str, message: str
    ) -> DeploymentStatus:
        now = self._clock.now()
        return with_condition(status, new_condition(PROGRESSING, value, reason, message, now))

    async def _create(
        self, deployment: Deployment, old: Sequence[ReplicaSet]
    ) -> tuple[Deployment, ReplicaSet]:
        """Create the ReplicaSet of the Deployment's template."""
        revision = next_revision(old)
        new = new_replica_set(deployment, revision)
        size = first_size(deployment, new, old)
        name, status = new.metadata.name, deployment.status
        try:
            stored = await self._writer.create(ReplicaSet, with_size(deployment, new, size))
        except ApiError as error:
            if error.reason == "AlreadyExists":
                stored = await self._existing(deployment, new, error)
            else:
                if not is_namespace_terminating(error):
                    await self._report_failure(deployment, name, error)
                raise
        else:
            if size:
                self._record_scaling(deployment, stored, 0, size)
            if has_deadline(deployment):
                text = f'Created new replica set "{name}"'
                status = self._with_progressing(status, "True", CREATED, text)
        return await self._write(deployment, status=status, revision=str(revision)), stored

    async def _existing(
        self, deployment: Deployment, new: ReplicaSet, error: ApiError
    ) -> ReplicaSet:
        """Return the existing ReplicaSet of this name if it has this template. Otherwise count a
        collision, which changes the next name, and raise ``error``."""
        meta, status = new.metadata, deployment.status
        existing = await self._writer.get(ReplicaSet, meta.namespace, meta.name)
        owner = controller_of(existing)
        mine = owner is not None and owner.uid == deployment.metadata.uid
        if mine and same_template(existing.spec.template, deployment.spec.template):
            return existing
        collisions = (status.collisionCount or 0) + 1
        await self._write(deployment, status=structs.replace(status, collisionCount=collisions))
        raise error

    async def _report_failure(self, deployment: Deployment, name: str, error: ApiError) -> None:
        text = f'Failed to create new replica set "{name}": {error}'
        self._events.record(NAME, deployment, "Warning", CREATE_FAILED, text)
        if has_deadline(deployment):
            status = self._with_progressing(deployment.status, "False", CREATE_FAILED, text)
            await self._write(deployment, status=status)

    # --- status

    async def _write_sums(
        self, deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
    ) -> None:
        status = deployment_status(deployment, new, old, self._clock.now())
        await self._write(deployment, status=status)

    async def _write(
        self, deployment: Deployment, *, status: DeploymentStatus, revision: str = ""
    ) -> Deployment:
        """Write the status, and the annotation with the revision, if they have changed."""
        meta = deployment.metadata
        if revision and meta.annotations.get(REVISION) != revision:
            annotations = {**meta.annotations, REVISION: revision}
            meta = structs.replace(meta, annotations=annotations)
        changed = structs.replace(deployment, metadata=meta, status=status)
        if changed == deployment:
            return deployment
        return await self._writer.update(Deployment, changed, subresource="status")


def with_size(deployment: Deployment, item: ReplicaSet, size: int) -> ReplicaSet:
    """Return the ReplicaSet with a number of replicas, and the Deployment's numbers for which it
    was computed."""
    desired = replicas_of(deployment)
    numbers = {DESIRED: str(desired), MAX: str(desired + limits(deployment).surge)}
    meta = item.metadata
    return structs.replace(
        item,
        metadata=structs.replace(meta, annotations={**meta.annotations, **numbers}),
        spec=structs.replace(item.spec, replicas=size),
    )
