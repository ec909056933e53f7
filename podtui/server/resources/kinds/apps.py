"""The kinds of the group apps."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import apps

CONTROLLER_REVISIONS = Resource(
    api_version="apps/v1",
    plural="controllerrevisions",
    singular="controllerrevision",
    kind="ControllerRevision",
    namespaced=True,
    record="controllerrevisions",
    strategy=apps.CONTROLLER_REVISIONS,
)
DAEMON_SETS = Resource(
    api_version="apps/v1",
    plural="daemonsets",
    singular="daemonset",
    kind="DaemonSet",
    namespaced=True,
    short_names=("ds",),
    categories=("all",),
    subresources={"status": ("get", "patch", "update")},
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
    short_names=("deploy",),
    categories=("all",),
    subresources={"status": ("get", "patch", "update")},
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
    short_names=("rs",),
    categories=("all",),
    fields=("status.replicas",),
    subresources={"status": ("get", "patch", "update")},
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
    short_names=("sts",),
    categories=("all",),
    subresources={"status": ("get", "patch", "update")},
    record="statefulsets",
    strategy=apps.STATEFUL_SETS,
    updates={"status": apps.STATEFUL_SET_STATUS},
)
