"""The kinds of the group apps."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from podtui.api.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.server.resources.strategies.strategy import (
    Strategy,
    with_old_spec,
    with_old_status,
    without_status,
)

CONTROLLER_REVISIONS: Final = Strategy(struct=ControllerRevision)
DAEMON_SETS: Final = Strategy(
    struct=DaemonSet,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
DAEMON_SET_STATUS: Final = replace(DAEMON_SETS, prepare_update=with_old_spec)
DEPLOYMENTS: Final = Strategy(
    struct=Deployment,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
DEPLOYMENT_STATUS: Final = replace(DEPLOYMENTS, prepare_update=with_old_spec)
REPLICA_SETS: Final = Strategy(
    struct=ReplicaSet,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
REPLICA_SET_STATUS: Final = replace(REPLICA_SETS, prepare_update=with_old_spec)
STATEFUL_SETS: Final = Strategy(
    struct=StatefulSet,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
STATEFUL_SET_STATUS: Final = replace(STATEFUL_SETS, prepare_update=with_old_spec)
