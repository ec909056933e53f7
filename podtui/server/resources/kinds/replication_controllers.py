"""ReplicationControllers."""

from __future__ import annotations

from datetime import datetime

from podtui.api.selectors import label_text
from podtui.api.v1 import ReplicationController
from podtui.manifest.strategies import replication_controllers
from podtui.server.resources.kinds.apps import REPLICA_COLUMNS, STATUS_VERBS, replica_counts
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import Cell, Columns, container_names


def _row(item: ReplicationController, now: datetime) -> list[Cell]:
    template = item.spec.template
    containers: list[Cell] = ["", ""] if template is None else container_names(template.spec)
    return [*replica_counts(item, now), *containers, label_text(item.spec.selector)]


REPLICATION_CONTROLLERS = Resource(
    api_version="v1",
    plural="replicationcontrollers",
    singular="replicationcontroller",
    kind="ReplicationController",
    namespaced=True,
    columns=Columns(REPLICA_COLUMNS, _row),
    short_names=("rc",),
    categories=("all",),
    fields=("status.replicas",),
    subresources={"scale": STATUS_VERBS, "status": STATUS_VERBS},
    record="replicationcontrollers",
    strategy=replication_controllers.REPLICATION_CONTROLLERS,
    updates={"status": replication_controllers.REPLICATION_CONTROLLER_STATUS},
)
