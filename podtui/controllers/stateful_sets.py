"""The controller of StatefulSets.

`plan` is a pure function of the set, its pods, its claims and its two revisions. It walks through
the ordinals like the controller of Kubernetes does, and returns the steps to take now:

1. Upwards through the desired ordinals: delete a pod that has ended, create one that is missing. An
   ordered set stops here at the first pod that is not available, so that pod N + 1 never exists
   before pod N is ready.
2. Downwards through the ordinals beyond them: delete. An ordered set deletes one pod at a time.
3. If all of this is done, update downwards: delete pods of another revision than the update
   revision, and wait until the new pod of the same ordinal is available. Pods below the partition
   keep the current revision, and are created again with it.

The current revision becomes the update revision when all pods have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Literal

from msgspec import structs

from podtui.api.apps import ControllerRevision, StatefulSet, StatefulSetStatus
from podtui.api.v1 import PersistentVolumeClaim, Pod, PodTemplateSpec
from podtui.client.cache import Cache, Key, Kind, controller_of
from podtui.clock import Clock
from podtui.controllers.client import Writer
from podtui.controllers.events import ControllerEvents
from podtui.controllers.history import (
    HASH_LABEL,
    RevisionControl,
    equal_revisions,
    next_number,
    superfluous,
    template_of,
)
from podtui.controllers.loop import Keys, own_key
from podtui.controllers.pods import (
    apply_claim,
    claim,
    is_available,
    is_current,
    is_ready,
    seconds_to_available,
)
from podtui.controllers.stateful_pods import (
    Claims,
    claims_of,
    claims_with_wrong_owners,
    conflict_message,
    has_identity,
    has_other_controller,
    has_stale_claim,
    is_member,
    new_pod,
    ordinal_of,
    ordinals,
    parent_and_ordinal,
    revision_of,
    with_identity,
)
from podtui.errors import ApiError, PodtuiError

_COMPONENT: Final = "statefulset-controller"
Verb = Literal["create", "delete", "update", "claims", "owners"]


@dataclass(frozen=True, slots=True)
class Step:
    """``update`` is of a pod's identity, ``claims`` creates the missing claims of a pod, ``owners``
    sets the owners of its claims."""

    verb: Verb
    pod: Pod


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of the set's template, by the name of its record."""

    name: str
    template: PodTemplateSpec


@dataclass(frozen=True, slots=True)
class Revisions:
    current: Revision
    update: Revision
    collisions: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps to take, in order until one fails, and the status to report."""

    steps: tuple[Step, ...]
    status: StatefulSetStatus


def plan(
    stateful_set: StatefulSet,
    pods: Iterable[Pod],
    claims: Claims,
    revisions: Revisions,
    now: datetime,
) -> Plan:
    """Decide what to do about the ``pods`` of a set, of which each has an own name."""
    return _Planner(stateful_set, [*pods], claims, revisions, now).plan()


class _Planner:
    """The state of one call of `plan`."""

    def __init__(
        self,
        stateful_set: StatefulSet,
        pods: list[Pod],
        claims: Claims,
        revisions: Revisions,
        now: datetime,
    ) -> None:
        self._set = stateful_set
        self._pods = pods
        self._claims = claims
        self._revisions = revisions
        self._now = now
        self._ordered = stateful_set.spec.podManagementPolicy != "Parallel"
        self._steps: list[Step] = []
        self._deleted: set[str] = set()
        """Names of pods that a step deletes."""
        existing = {ordinal_of(pod): pod for pod in pods}
        self._desired = [
            existing.get(ordinal) or self._new_pod(ordinal) for ordinal in ordinals(stateful_set)
        ]
        wanted = ordinals(stateful_set)
        self._condemned = sorted(
            (pod for pod in pods if ordinal_of(pod) >= 0 and ordinal_of(pod) not in wanted),
            key=ordinal_of,
            reverse=True,
        )

    def plan(self) -> Plan:
        updated: Pod | None = None
        if self._set.metadata.deletionTimestamp is None and self._keep() and self._shrink():
            updated = self._update()
        if updated is not None:
            self._delete(updated)
        status = _completed(self._set, self._status(updated))
        return Plan(tuple(self._steps), status)

    # --- the three parts; each returns whether the next one may begin

    def _keep(self) -> bool:
        for pod in self._desired:
            if pod.status.phase in ("Failed", "Succeeded"):
                self._delete(pod)
                if self._ordered:
                    return False
                continue
            if not _exists(pod):
                if has_stale_claim(self._set, pod, self._claims):
                    if self._ordered:
                        return False
                    continue
                self._step("create", pod)
                if self._ordered:
                    return False
                continue
            pending = pod.status.phase == "Pending"
            if pending and (self._has_missing_claims(pod) or self._has_wrong_owners(pod)):
                self._step("claims", pod)
            if self._ordered and not self._is_available(pod):
                return False
            if not has_identity(self._set, pod) or self._has_wrong_owners(pod):
                self._step("update", pod)
        return True

    def _shrink(self) -> bool:
        for pod in self._condemned:
            if self._has_wrong_owners(pod):
                self._step("owners", pod)
        unavailable = [*self._desired, *reversed(self._condemned)]
        first = next((pod for pod in unavailable if not self._is_available(pod)), None)
        for pod in self._condemned:
            if self._ordered:
                # The desired pods are available now, so that at most a condemned one is not.
                if _is_terminating(pod) or (not self._is_available(pod) and pod is not first):
                    return False
                self._delete(pod)
                return False
            self._delete(pod)
        return True

    def _update(self) -> Pod | None:
        """Return the pod to delete, so that it is created again with the update revision."""
        strategy = self._set.spec.updateStrategy
        if strategy.type == "OnDelete":
            return None
        rolling = strategy.rollingUpdate
        partition = (rolling.partition or 0) if rolling is not None else 0
        targets = self._desired[partition:][::-1]
        # The highest one, once all pods above it are available. The API drops maxUnavailable.
        for pod in targets:
            if self._is_old(pod):
                return pod
            if not self._is_available(pod):
                return None
        return None

    # --- questions

    def _is_available(self, pod: Pod) -> bool:
        seconds = self._set.spec.minReadySeconds or 0
        return not _is_terminating(pod) and is_available(pod, seconds, self._now)

    def _is_old(self, pod: Pod) -> bool:
        return (
            _exists(pod)
            and not _is_terminating(pod)
            and pod.metadata.name not in self._deleted
            and revision_of(pod) != self._revisions.update.name
        )

    def _has_missing_claims(self, pod: Pod) -> bool:
        names = (item.metadata.name for item in claims_of(self._set, pod))
        return any(name not in self._claims for name in names)

    def _has_wrong_owners(self, pod: Pod) -> bool:
        return bool(claims_with_wrong_owners(self._set, pod, self._claims))

    def _new_pod(self, ordinal: int) -> Pod:
        """Return a pod of the current revision if the update has not reached its ordinal yet."""
        strategy = self._set.spec.updateStrategy
        start = ordinals(self._set).start
        if strategy.rollingUpdate is not None:
            kept = strategy.rollingUpdate.partition or 0
        elif strategy.type == "RollingUpdate":
            kept = self._set.status.currentReplicas or 0
        else:
            kept = 0
        revisions = self._revisions
        revision = revisions.current if ordinal < start + kept else revisions.update
        return new_pod(self._set, revision.template, revision.name, ordinal)

    # --- answers

    def _step(self, verb: Verb, pod: Pod) -> None:
        self._steps.append(Step(verb, pod))

    def _delete(self, pod: Pod) -> None:
        if not _is_terminating(pod):
            self._step("delete", pod)
            self._deleted.add(pod.metadata.name)

    def _status(self, updated: Pod | None) -> StatefulSetStatus:
        """Count the pods; the one that is ``updated`` now is no current replica any more."""
        revisions = self._revisions
        existing = [pod for pod in self._pods if ordinal_of(pod) >= 0]
        ready = [pod for pod in existing if pod.status.phase == "Running" and is_ready(pod)]
        seconds = self._set.spec.minReadySeconds or 0
        kept = [pod for pod in existing if not _is_terminating(pod)]
        current = revisions.current.name
        return StatefulSetStatus(
            observedGeneration=self._set.metadata.generation,
            replicas=len(existing),
            readyReplicas=len(ready),
            availableReplicas=sum(is_available(pod, seconds, self._now) for pod in ready),
            currentReplicas=sum(revision_of(pod) == current and pod is not updated for pod in kept),
            updatedReplicas=sum(revision_of(pod) == revisions.update.name for pod in kept),
            currentRevision=current,
            updateRevision=revisions.update.name,
            collisionCount=revisions.collisions,
        )


def _exists(pod: Pod) -> bool:
    """Return whether the pod was created; the API server gives each pod a phase."""
    return bool(pod.status.phase)


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is not None


def _completed(stateful_set: StatefulSet, status: StatefulSetStatus) -> StatefulSetStatus:
    """End a rolling update when all pods have the update revision and are ready."""
    replicas = len(ordinals(stateful_set))
    counts = {status.replicas, status.readyReplicas, status.updatedReplicas}
    if stateful_set.spec.updateStrategy.type != "RollingUpdate" or counts != {replicas}:
        return status
    return structs.replace(
        status, currentReplicas=status.updatedReplicas, currentRevision=status.updateRevision
    )


def is_reported(status: StatefulSetStatus, before: StatefulSetStatus) -> bool:
    """Return whether ``before`` says the same as ``status``."""
    return (status.observedGeneration or 0) <= (before.observedGeneration or 0) and all(
        (getattr(status, field) or 0) == (getattr(before, field) or 0)
        for field in (
            "replicas",
            "currentReplicas",
            "readyReplicas",
            "updatedReplicas",
            "availableReplicas",
            "currentRevision",
            "updateRevision",
        )
    )


def _no_key(_: object) -> Iterable[Key]:
    return ()


class StatefulSetController:
    def __init__(
        self, cache: Cache, writer: Writer, events: ControllerEvents, clock: Clock
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._clock = clock
        self._revisions = RevisionControl(cache, writer)

    @property
    def name(self) -> str:
        return _COMPONENT

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {
            StatefulSet: own_key,
            Pod: self._sets_of_pod,
            PersistentVolumeClaim: _no_key,
            ControllerRevision: _no_key,
        }

    def _sets_of_pod(self, pod: Pod) -> Iterable[Key]:
        owner, namespace = controller_of(pod), pod.metadata.namespace
        if owner is not None:
            if owner.kind == StatefulSet.__name__:
                yield (namespace, owner.name)
            return
        parent, _ = parent_and_ordinal(pod.metadata.name)
        if self._cache.get(StatefulSet, namespace, parent) is not None:
            yield (namespace, parent)

    async def sync(self, key: Key) -> float | None:
        stateful_set = self._cache.get(StatefulSet, *key)
        if stateful_set is None:
            return None
        history = await self._revisions.claimed(stateful_set)
        spec = stateful_set.spec
        candidates = self._cache.claimable(Pod, stateful_set)
        members = partial(is_member, stateful_set)
        claimed = claim(stateful_set, spec.selector, candidates, members)
        pods = await apply_claim(self._writer, Pod, stateful_set, claimed)
        revisions = await self._current_and_update(stateful_set, history)
        if revisions is None:
            return None
        now = self._clock.now()
        claims = (
            {item.metadata.name: item for item in self._cache.list(PersistentVolumeClaim, key[0])}
            if spec.volumeClaimTemplates
            else {}
        )
        decided = plan(stateful_set, pods, claims, revisions, now)
        creates = any(step.verb == "create" for step in decided.steps)
        if creates and not await is_current(self._writer, stateful_set):
            return None
        try:
            for step in decided.steps:
                await self._take(stateful_set, step)
        except PodtuiError:
            await self._report(stateful_set, decided.status)
            raise
        await self._report(stateful_set, decided.status)
        live = {revision_of(pod) for pod in pods}
        live |= {revisions.current.name, revisions.update.name}
        limit = spec.revisionHistoryLimit
        await self._revisions.delete(superfluous(history, live, 10 if limit is None else limit))
        waits = (seconds_to_available(pod, spec.minReadySeconds or 0, now) for pod in pods)
        return min((seconds for seconds in waits if seconds), default=None)

    async def _current_and_update(
        self, stateful_set: StatefulSet, history: Sequence[ControllerRevision]
    ) -> Revisions | None:
        """Return the revisions, after creating one for a new template; None if the set is being
        deleted and its revisions are gone."""
        status = stateful_set.status
        collisions: int | None = status.collisionCount or 0
        equal = equal_revisions(history, stateful_set.spec.template)
        if equal and equal[-1] is history[-1]:
            update = equal[-1]
        elif stateful_set.metadata.deletionTimestamp is not None:
            return None
        elif equal:
            update = await self._revisions.renumber(equal[-1], next_number(history))
        else:
            update, collisions = await self._revisions.create(
                stateful_set, next_number(history), collisions, HASH_LABEL
            )
        revisions = {item.metadata.name: item for item in history}
        current = revisions.get(status.currentRevision, update)
        return Revisions(_revision(current), _revision(update), collisions or 0)

    async def _report(self, stateful_set: StatefulSet, status: StatefulSetStatus) -> None:
        if not is_reported(status, stateful_set.status):
            changed = structs.replace(stateful_set, status=status)
            await self._writer.update(StatefulSet, changed, subresource="status")

    # --- steps

    async def _take(self, stateful_set: StatefulSet, step: Step) -> None:
        match step.verb:
            case "create":
                await self._create(stateful_set, step.pod)
            case "delete":
                await self._delete(stateful_set, step.pod)
            case "update":
                await self._update(stateful_set, step.pod)
            case "claims":
                await self._create_claims(stateful_set, step.pod)
                await self._set_owners(stateful_set, step.pod)
            case "owners":
                await self._set_owners(stateful_set, step.pod)

    async def _create(self, stateful_set: StatefulSet, pod: Pod) -> None:
        try:
            await self._create_claims(stateful_set, pod)
            created = await self._writer.create(Pod, pod)
            await self._set_owners(stateful_set, created)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                self._record_pod("create", stateful_set, pod, error)
            raise
        except PodtuiError as error:
            self._record_pod("create", stateful_set, pod, error)
            raise
        self._record_pod("create", stateful_set, pod)

    async def _delete(self, stateful_set: StatefulSet, pod: Pod) -> None:
        try:
            await self._writer.delete(Pod, pod)
        except ApiError as error:
            self._record_pod("delete", stateful_set, pod, error)
            raise
        self._record_pod("delete", stateful_set, pod)

    async def _update(self, stateful_set: StatefulSet, pod: Pod) -> None:
        try:
            if not has_identity(stateful_set, pod):
                await self._create_claims(stateful_set, pod)
                pod = await self._writer.update(Pod, with_identity(stateful_set, pod))
            await self._set_owners(stateful_set, pod)
        except PodtuiError as error:
            self._record_pod("update", stateful_set, pod, error)
            raise
        self._record_pod("update", stateful_set, pod)

    async def _create_claims(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Create the claims that are missing. Raises `PodtuiError` if one cannot be created, or is
        being deleted."""
        failures: list[str] = []
        for item in claims_of(stateful_set, pod):
            meta = item.metadata
            existing = self._cache.get(PersistentVolumeClaim, meta.namespace, meta.name)
            if existing is not None:
                if existing.metadata.deletionTimestamp is not None:
                    failures.append(f"pvc {meta.name} is being deleted")
                continue
            try:
                await self._writer.create(PersistentVolumeClaim, item)
            except ApiError as error:
                failures.append(f"failed to create PVC {meta.name}: {error}")
                if error.reason != "AlreadyExists":
                    self._record_claim(stateful_set, pod, meta.name, error)
            else:
                self._record_claim(stateful_set, pod, meta.name)
        if failures:
            raise PodtuiError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")

    async def _set_owners(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Give the claims of a pod the owners that the retention policy demands."""
        claims: dict[str, PersistentVolumeClaim] = {}
        for item in claims_of(stateful_set, pod):
            name = item.metadata.name
            existing = self._cache.get(PersistentVolumeClaim, item.metadata.namespace, name)
            if existing is None:
                continue
            claims[name] = existing
            if has_other_controller(existing, stateful_set, pod):
                self._events.record(
                    _COMPONENT,
                    stateful_set,
                    "Warning",
                    "ConflictingController",
                    conflict_message(name),
                )
        for item in claims_with_wrong_owners(stateful_set, pod, claims):
            try:
                await self._writer.update(PersistentVolumeClaim, item)
            except ApiError as error:
                name = item.metadata.name
                message = f"could not update claim {name} for delete policy ownerRefs: {error}"
                raise ApiError(error.code, error.reason, message) from error

    # --- events

    def _record_pod(
        self, verb: str, stateful_set: StatefulSet, pod: Pod, error: PodtuiError | None = None
    ) -> None:
        text = f"{verb.title()} Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name}"
        if error is None:
            self._record(stateful_set, f"Successful{verb.title()}", f"{text} successful")
        else:
            message = f"{text} failed error: {error}"
            self._record(stateful_set, f"Failed{verb.title()}", message, failed=True)

    def _record_claim(
        self, stateful_set: StatefulSet, pod: Pod, name: str, error: PodtuiError | None = None
    ) -> None:
        end = f"Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name}"
        if error is None:
            message = f"Create Claim {name} {end} success"
            self._record(stateful_set, "SuccessfulCreate", message)
        else:
            message = f"Create Claim {name} for {end} failed error: {error}"
            self._record(stateful_set, "FailedCreate", message, failed=True)

    def _record(
        self, stateful_set: StatefulSet, reason: str, message: str, *, failed: bool = False
    ) -> None:
        event_type = "Warning" if failed else "Normal"
        self._events.record(_COMPONENT, stateful_set, event_type, reason, message)


def _revision(item: ControllerRevision) -> Revision:
    return Revision(item.metadata.name, template_of(item))
