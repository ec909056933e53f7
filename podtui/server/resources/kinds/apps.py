"""The kinds of the group apps."""

from __future__ import annotations

from datetime import datetime

from podtui.api.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.selectors import label_text, selector_text
from podtui.api.times import since
from podtui.api.v1 import ReplicationController
from podtui.manifest.strategies import apps
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import (
    AGE,
    CONTAINERS,
    NAME,
    NONE,
    Cell,
    Columns,
    TableColumn,
    container_names,
)

STATUS_VERBS = ("get", "patch", "update")
SELECTOR = TableColumn("Selector", "Labels of the pods that belong to the object.", wide=True)
REPLICA_COLUMNS = (
    NAME,
    TableColumn("Desired", "Number of pods that the object asks for.", type="integer"),
    TableColumn("Current", "Number of pods that exist.", type="integer"),
    TableColumn("Ready", "Number of pods that are ready.", type="integer"),
    AGE,
    *CONTAINERS,
    SELECTOR,
)
_READY = TableColumn("Ready", "Number of ready pods, of those wanted.")


def _revision(item: ControllerRevision, now: datetime) -> list[Cell]:
    return [
        item.metadata.name,
        _controller(item),
        item.revision,
        since(item.metadata.creationTimestamp, now),
    ]


def _controller(item: ControllerRevision) -> str:
    owner = next((owner for owner in item.metadata.ownerReferences if owner.controller), None)
    if owner is None:
        return NONE
    group = owner.apiVersion.rpartition("/")[0]
    kind = f"{owner.kind}.{group}" if group else owner.kind
    return f"{kind.lower()}/{owner.name}"


def _daemon_set(item: DaemonSet, now: datetime) -> list[Cell]:
    spec, status = item.spec, item.status
    return [
        item.metadata.name,
        status.desiredNumberScheduled,
        status.currentNumberScheduled,
        status.numberReady,
        status.updatedNumberScheduled or 0,
        status.numberAvailable or 0,
        label_text(spec.template.spec.nodeSelector),
        since(item.metadata.creationTimestamp, now),
        *container_names(spec.template.spec),
        selector_text(spec.selector),
    ]


def _deployment(item: Deployment, now: datetime) -> list[Cell]:
    spec, status = item.spec, item.status
    return [
        item.metadata.name,
        f"{status.readyReplicas or 0}/{spec.replicas or 0}",
        status.updatedReplicas or 0,
        status.availableReplicas or 0,
        since(item.metadata.creationTimestamp, now),
        *container_names(spec.template.spec),
        selector_text(spec.selector),
    ]


def replica_counts(item: ReplicaSet | ReplicationController, now: datetime) -> list[Cell]:
    """Return the first cells of `REPLICA_COLUMNS`."""
    return [
        item.metadata.name,
        item.spec.replicas or 0,
        item.status.replicas,
        item.status.readyReplicas or 0,
        since(item.metadata.creationTimestamp, now),
    ]


def _replica_set(item: ReplicaSet, now: datetime) -> list[Cell]:
    spec = item.spec
    return [
        *replica_counts(item, now),
        *container_names(spec.template.spec),
        selector_text(spec.selector),
    ]


def _stateful_set(item: StatefulSet, now: datetime) -> list[Cell]:
    return [
        item.metadata.name,
        f"{item.status.readyReplicas or 0}/{item.spec.replicas or 0}",
        since(item.metadata.creationTimestamp, now),
        *container_names(item.spec.template.spec),
    ]


CONTROLLER_REVISIONS = Resource(
    api_version="apps/v1",
    plural="controllerrevisions",
    singular="controllerrevision",
    kind="ControllerRevision",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("Controller", "Object that the revision belongs to."),
            TableColumn("Revision", "Number of the revision; newer ones are higher."),
            AGE,
        ),
        _revision,
    ),
    record="controllerrevisions",
    strategy=apps.CONTROLLER_REVISIONS,
)
DAEMON_SETS = Resource(
    api_version="apps/v1",
    plural="daemonsets",
    singular="daemonset",
    kind="DaemonSet",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("Desired", "Number of nodes that should run a pod.", type="integer"),
            TableColumn("Current", "Number of nodes that run a pod and should.", type="integer"),
            TableColumn("Ready", "Number of nodes with a ready pod.", type="integer"),
            TableColumn("Up-to-date", "Number of nodes with the newest pod.", type="integer"),
            TableColumn("Available", "Number of nodes with an available pod.", type="integer"),
            TableColumn("Node Selector", "Labels of the nodes that run a pod."),
            AGE,
            *CONTAINERS,
            SELECTOR,
        ),
        _daemon_set,
    ),
    short_names=("ds",),
    categories=("all",),
    subresources={"status": STATUS_VERBS},
    record="daemonsets",
    strategy=apps.DAEMON_SETS,
    updates={"status": apps.DAEMON_SET_STATUS},
)
DEPLOYMENTS = Resource(
    api_version="apps/v1",
    plural="deployments",
    singular="deployment",
    kind="Deployment",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            _READY,
            TableColumn("Up-to-date", "Number of pods of the present template."),
            TableColumn("Available", "Number of pods that have been ready for long enough."),
            AGE,
            *CONTAINERS,
            SELECTOR,
        ),
        _deployment,
    ),
    short_names=("deploy",),
    categories=("all",),
    subresources={"scale": STATUS_VERBS, "status": STATUS_VERBS},
    record="deployments",
    strategy=apps.DEPLOYMENTS,
    updates={"status": apps.DEPLOYMENT_STATUS},
)
REPLICA_SETS = Resource(
    api_version="apps/v1",
    plural="replicasets",
    singular="replicaset",
    kind="ReplicaSet",
    namespaced=True,
    columns=Columns(REPLICA_COLUMNS, _replica_set),
    short_names=("rs",),
    categories=("all",),
    subresources={"scale": STATUS_VERBS, "status": STATUS_VERBS},
    record="replicasets",
    strategy=apps.REPLICA_SETS,
    updates={"status": apps.REPLICA_SET_STATUS},
)
STATEFUL_SETS = Resource(
    api_version="apps/v1",
    plural="statefulsets",
    singular="statefulset",
    kind="StatefulSet",
    namespaced=True,
    columns=Columns((NAME, _READY, AGE, *CONTAINERS), _stateful_set),
    short_names=("sts",),
    categories=("all",),
    subresources={"scale": STATUS_VERBS, "status": STATUS_VERBS},
    record="statefulsets",
    strategy=apps.STATEFUL_SETS,
    updates={"status": apps.STATEFUL_SET_STATUS},
)
