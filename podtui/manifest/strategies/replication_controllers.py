"""ReplicationControllers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from podtui.api.v1 import ReplicationController
from podtui.manifest.strategies.strategy import (
    Strategy,
    no_warnings,
    with_old_spec,
    with_old_status,
    without_status,
)
from podtui.manifest.strategies.templates import (
    prepared,
    template_tree,
    written_warnings,
)
from podtui.manifest.validation.workload_status import replication_controller_status
from podtui.manifest.validation.workloads import (
    replication_controller_update,
    validate_replication_controller,
)
from podtui.manifest.workload_defaults import replication_controller_defaults


def _prepare_create(item: ReplicationController) -> ReplicationController:
    return prepared(without_status(item))


def _prepare_update(
    new: ReplicationController, old: ReplicationController
) -> ReplicationController:
    return with_old_status(prepared(new, old), old)


def _warnings(new: ReplicationController, old: ReplicationController | None) -> Iterable[str]:
    # In an update, the API server warns of the template before it.
    template = new.spec.template if old is None else old.spec.template
    yield from written_warnings(new, old, template)


REPLICATION_CONTROLLERS: Final = Strategy(
    struct=ReplicationController,
    defaults=replication_controller_defaults,
    tree_errors=template_tree,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate_create=validate_replication_controller,
    validate_update=replication_controller_update,
    warnings=_warnings,
    orphans=True,
)
REPLICATION_CONTROLLER_STATUS: Final = replace(
    REPLICATION_CONTROLLERS,
    prepare_update=with_old_spec,
    validate_update=replication_controller_status,
    warnings=no_warnings,
)
