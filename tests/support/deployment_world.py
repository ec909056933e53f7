"""A namespace in memory for the controllers of Deployments and ReplicaSets.

A test changes the Deployment, and says which pods run and end.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from controller_store import ControllerStore, RecordedEvents
from fixed_clock import FixedClock
from msgspec import structs

from podtui.api.apps import Deployment, DeploymentCondition, ReplicaSet
from podtui.api.times import rfc3339
from podtui.api.v1 import Pod, PodCondition, PodStatus, ReplicationController
from podtui.client.cache import Cache
from podtui.controllers.deployments import DeploymentController
from podtui.controllers.events import ControllerEvents
from podtui.controllers.pods import is_active, is_ready
from podtui.controllers.replica_sets import ReplicaSetController
from podtui.controllers.revisions import REVISION
from podtui.errors import ApiError

NAMESPACE = "ns"


def template(image: str = "a", **labels: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": image}]
    return {"metadata": {"labels": {"app": "web", **labels}}, "spec": {"containers": containers}}


def deployment(replicas: int = 3, *, image: str = "a", **spec: Any) -> Deployment:
    """Return a Deployment with the API server's defaults."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    fields = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(image),
        "strategy": strategy,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        **spec,
    }
    meta = {"name": "web", "namespace": NAMESPACE, "uid": "d1", "generation": 1}
    return msgspec.convert({"metadata": meta, "spec": fields}, Deployment)


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    update = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": update}


def replica_set(
    name: str, replicas: int, available: int = 0, *, age: int = 0, **annotations: str
) -> ReplicaSet:
    """Return a ReplicaSet of the Deployment; ``age`` is its creation in reverse minutes."""
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": name,
                "generation": 1,
                "creationTimestamp": f"2026-01-01T00:{59 - age:02}:00Z",
                "annotations": {
                    f"deployment.kubernetes.io/{key.replace('_', '-')}": value
                    for key, value in annotations.items()
                },
            },
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template(name),
            },
            "status": {
                "replicas": replicas,
                "readyReplicas": available,
                "availableReplicas": available,
                "observedGeneration": 1,
                "terminatingReplicas": 0,
            },
        },
        ReplicaSet,
    )


class DeploymentWorld:
    def __init__(self, item: Deployment | None = None) -> None:
        self.clock = FixedClock()
        self.cache = Cache()
        for kind in (Deployment, ReplicaSet, ReplicationController, Pod):
            self.cache.add_kind(kind)
        self.store = ControllerStore(self.cache, self.clock)
        self.recorder = RecordedEvents()
        events = cast("ControllerEvents", self.recorder)
        common = (self.cache, self.store, events, self.clock)
        self.deployments = DeploymentController(*common)
        self.sets = ReplicaSetController(ReplicaSet, "replicaset-controller", *common)
        self.replications = ReplicaSetController(
            ReplicationController, "replication-controller", *common
        )
        if item is not None:
            self.store.add(item)

    # --- what exists

    @property
    def deployment(self) -> Deployment:
        item = self.cache.get(Deployment, NAMESPACE, "web")
        assert item is not None
        return item

    @property
    def replica_sets(self) -> dict[str, ReplicaSet]:
        """The ReplicaSets by image."""
        return {
            item.spec.template.spec.containers[0].image: item
            for item in self.cache.list(ReplicaSet)
        }

    @property
    def sizes(self) -> dict[str, int | None]:
        """The replicas of the ReplicaSets by image, without those that have none."""
        return {
            image: item.spec.replicas
            for image, item in self.replica_sets.items()
            if item.spec.replicas
        }

    @property
    def pods(self) -> list[Pod]:
        return self.cache.list(Pod)

    @property
    def active(self) -> list[Pod]:
        return [pod for pod in self.pods if is_active(pod)]

    @property
    def available(self) -> int:
        return sum(is_ready(pod) for pod in self.active)

    @property
    def revisions(self) -> dict[str, str]:
        return {
            image: item.metadata.annotations[REVISION] for image, item in self.replica_sets.items()
        }

    def condition(self, name: str) -> tuple[str, str, str]:
        """Return status, reason and message; empty texts if the condition is absent."""
        status = self.deployment.status
        absent = DeploymentCondition(type=name, status="")
        condition = next((c for c in status.conditions if c.type == name), absent)
        return condition.status, condition.reason, condition.message

    # --- what happens

    def change(self, **spec: Any) -> None:
        """Change the Deployment's spec, as a user does."""
        item = self.deployment
        changed = msgspec.convert({**msgspec.to_builtins(item.spec), **spec}, type(item.spec))
        meta = structs.replace(item.metadata, generation=(item.metadata.generation or 0) + 1)
        self.store.change(item, spec=changed, metadata=meta)

    def set_image(self, image: str) -> None:
        self.change(template=template(image))

    def run(self, *pods: Pod) -> None:
        """Let pods run and be ready; without arguments all that are active."""
        since = rfc3339(self.clock.now())
        ready = PodCondition(type="Ready", status="True", lastTransitionTime=since)
        for pod in pods or self.active:
            if not is_ready(pod):
                status = PodStatus(phase="Running", conditions=(ready,))
                self.store.change(pod, status=status)

    def start(self, pod: Pod) -> None:
        """Let a pod run without being ready."""
        self.store.change(pod, status=PodStatus(phase="Running"))

    def end(self) -> None:
        """Let all pods end that are being deleted."""
        for pod in self.pods:
            if pod.metadata.deletionTimestamp is not None:
                self.cache.remove(pod)

    async def sync_deployment(self) -> float | None:
        return await self.deployments.sync((NAMESPACE, "web"))

    async def sync_sets(self) -> None:
        for item in self.cache.list(ReplicaSet):
            await self.sets.sync((NAMESPACE, item.metadata.name))

    async def settle(self, *, runs: bool = True, ends: bool = True) -> None:
        """Call the controllers until they write nothing. Pods run and end at once, if they may."""
        for _ in range(200):
            before = (self.store.version, len(self.pods))
            try:
                await self.sync_deployment()
                await self.sync_sets()
            except ApiError as error:
                if error.code != 409:
                    raise
            if runs:
                self.run()
            if ends:
                self.end()
            if (self.store.version, len(self.pods)) == before:
                return
        raise AssertionError("the controllers do not come to rest")
