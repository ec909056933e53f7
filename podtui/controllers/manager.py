"""All controllers, and what they share: a client, a cache and a recorder of events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from podtui.api.apps import ReplicaSet
from podtui.api.v1 import ReplicationController
from podtui.client.api_client import ApiClient
from podtui.client.cache import Cache
from podtui.client.protocol import Follower
from podtui.clock import Clock
from podtui.controllers.attachments import AttachmentController
from podtui.controllers.autoscaling import Autoscaler
from podtui.controllers.client import ControllerClient
from podtui.controllers.cron_jobs import CronJobController
from podtui.controllers.daemon_sets import DaemonSetController
from podtui.controllers.deployments import DeploymentController
from podtui.controllers.disruption import DisruptionController
from podtui.controllers.endpoints import (
    EndpointsController,
    EndpointSliceController,
    EndpointsMirror,
)
from podtui.controllers.events import ControllerEvents
from podtui.controllers.jobs import FinishedJobs, JobController, OrphanedJobPods
from podtui.controllers.loop import Controller, run_controller
from podtui.controllers.quotas import QuotaController
from podtui.controllers.replica_sets import ReplicaSetController
from podtui.controllers.stateful_sets import StatefulSetController
from podtui.controllers.volumes import (
    ClaimBinder,
    ClaimProtection,
    EphemeralVolumes,
    Tools,
    VolumeDirectories,
    VolumeProtection,
    VolumeReclaimer,
)

AGENT: Final = "kube-controller-manager"
"""The User-Agent of the controllers, which is also the manager of the fields that they write."""


def controller_jobs(
    client: ApiClient, objects: Follower, clock: Clock, directories: VolumeDirectories
) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return the long-running calls of the controllers, by name. They follow ``objects``, and
    write with ``client``."""
    cache = Cache()
    writer = ControllerClient(client, cache)
    events = ControllerEvents(client, clock)
    controllers = _controllers(cache, writer, events, clock, directories)
    for controller in controllers:
        for kind in controller.kinds:
            cache.add_kind(kind)
    return {
        "objects of the controllers": partial(cache.run, objects),
        "events of the controllers": events.run,
        **{
            controller.name: partial(run_controller, controller, cache, clock)
            for controller in controllers
        },
    }


def _controllers(
    cache: Cache,
    writer: ControllerClient,
    events: ControllerEvents,
    clock: Clock,
    directories: VolumeDirectories,
) -> list[Controller]:
    tools = Tools(cache, writer, events, clock, directories)
    return [
        DeploymentController(cache, writer, events, clock),
        ClaimBinder(tools),
        VolumeReclaimer(tools),
        ClaimProtection(tools),
        VolumeProtection(tools),
        EphemeralVolumes(tools),
        AttachmentController(cache, writer, events),
        ReplicaSetController(ReplicaSet, "replicaset-controller", cache, writer, events, clock),
        ReplicaSetController(
            ReplicationController, "replication-controller", cache, writer, events, clock
        ),
        DaemonSetController(cache, writer, events, clock),
        StatefulSetController(cache, writer, events, clock),
        JobController(cache, writer, events, clock),
        OrphanedJobPods(cache, writer),
        FinishedJobs(cache, writer, clock),
        CronJobController(cache, writer, events, clock),
        EndpointSliceController(cache, writer, events),
        EndpointsController(cache, writer, events),
        EndpointsMirror(cache, writer, events),
        DisruptionController(cache, writer, events, clock),
        Autoscaler(cache, writer, events, clock),
        QuotaController(cache, writer, clock),
    ]
