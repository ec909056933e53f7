"""Pod templates in writes of the kinds that have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec import structs

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.batch import Job
from podtui.api.v1 import PodTemplateSpec, ReplicationController
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.pods import without_stop_signals
from podtui.manifest.validation.errors import Errors
from podtui.manifest.validation.pod_template import template_tree_errors
from podtui.manifest.warnings import owner_name_warnings, template_warnings

_TEMPLATE: Final = "spec.template"
Workload = TypeVar(
    "Workload", DaemonSet, Deployment, Job, ReplicaSet, StatefulSet, ReplicationController
)


def template_tree(tree: Tree) -> Errors:
    """Check the empty values in the template of a decoded object."""
    template = tree["spec"].get("template")
    if template is not None:
        yield from template_tree_errors(template, _TEMPLATE)


def prepared(new: Workload, old: Workload | None = None) -> Workload:
    """Drop the fields of the template that an API server does not support."""
    template = new.spec.template
    if template is None or (old is not None and template is old.spec.template):
        return new
    template = supported(template)
    return structs.replace(new, spec=structs.replace(new.spec, template=template))


def supported(template: PodTemplateSpec) -> PodTemplateSpec:
    """Return the template without the fields that an API server does not support."""
    return structs.replace(template, spec=without_stop_signals(template.spec))


def written_warnings(
    new: Workload,
    old: Workload | None,
    template: PodTemplateSpec | None,
    *,
    names_pods: bool = True,
) -> Iterable[str]:
    """Yield the warnings about a new object, or about one whose generation changes. ``names_pods``
    is true if the API server warns of its name, with which the names of its pods begin."""
    if old is None and names_pods:
        yield from owner_name_warnings(new.metadata.name)
    is_same = old is not None and new.metadata.generation == old.metadata.generation
    if template is not None and not is_same:
        yield from template_warnings(template, _TEMPLATE)
