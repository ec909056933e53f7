"""Runtime classes."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import RuntimeClass
from podtui.manifest.defaults import Tree, round_up
from podtui.manifest.strategies.strategy import Strategy
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import Errors, invalid, invalid_each, required
from podtui.manifest.validation.metadata import labels, object_meta
from podtui.manifest.validation.resources import overhead
from podtui.manifest.validation.scheduling import tolerations


def _defaults(tree: Tree) -> None:
    round_up(tree.get("overhead", {}).get("podFixed", {}))


def _errors(item: RuntimeClass) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    if item.handler:
        yield from invalid_each("handler", item.handler, formats.dns_label(item.handler))
    else:
        yield required("handler")
    if item.overhead is not None:
        yield from overhead(item.overhead.podFixed, "overhead")
    if item.scheduling is not None:
        yield from labels(item.scheduling.nodeSelector, "scheduling.nodeSelector")
        yield from tolerations(item.scheduling.tolerations, "scheduling.tolerations")


def _update_errors(new: RuntimeClass, old: RuntimeClass) -> Errors:
    yield from _errors(new)
    if new.handler != old.handler:
        yield invalid("handler", new.handler, "field is immutable")


RUNTIME_CLASSES: Final = Strategy(
    struct=RuntimeClass,
    defaults=_defaults,
    validate_create=_errors,
    validate_update=_update_errors,
    create_on_update=True,
    unconditional_update=False,
)
