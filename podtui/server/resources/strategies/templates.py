"""Pod templates in writes of the kinds that have them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from podtui.api.v1 import PodTemplateSpec
from podtui.manifest.warnings import owner_name_warnings, template_warnings
from podtui.server.resources.strategies.pods import without_stop_signals
from podtui.store.resources import Object

TEMPLATE = "spec.template"


def prepared_template(template: PodTemplateSpec) -> PodTemplateSpec:
    """Drop the fields that an API server does not support."""
    spec = without_stop_signals(template.spec)
    return template if spec is template.spec else structs.replace(template, spec=spec)


def written_warnings(
    new: Object, old: Object | None, template: PodTemplateSpec | None, *, names_pods: bool = True
) -> Iterable[str]:
    """Yield the warnings about a new object, or about one whose generation changes. ``names_pods``
    is true if the API server warns of its name, which its pods' names begin with."""
    if old is None and names_pods:
        yield from owner_name_warnings(new.metadata.name)
    is_same = old is not None and new.metadata.generation == old.metadata.generation
    if template is not None and not is_same:
        yield from template_warnings(template, TEMPLATE)
