"""Priority classes."""

from __future__ import annotations

from typing import Final

from podtui.api.scheduling import PriorityClass
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy, with_meta
from podtui.manifest.validation.priority_classes import (
    priority_class_update,
    validate_priority_class,
)


def _defaults(tree: Tree) -> None:
    tree.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _prepare_create(item: PriorityClass) -> PriorityClass:
    return with_meta(item, generation=1)


PRIORITY_CLASSES: Final = Strategy(
    struct=PriorityClass,
    defaults=_defaults,
    prepare_create=_prepare_create,
    validate_create=validate_priority_class,
    validate_update=priority_class_update,
)
