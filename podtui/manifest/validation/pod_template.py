"""Rules of a pod template, which are those of a pod without a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from podtui.api.v1 import ObjectMeta, Pod, PodTemplateSpec
from podtui.manifest.validation import metadata, security
from podtui.manifest.validation.empty_strings import written_empties
from podtui.manifest.validation.errors import Errors, FieldError, forbidden, reported_at
from podtui.manifest.validation.pod import known_annotations, spec_errors


def pod_template_errors(template: PodTemplateSpec, path: str) -> Errors:
    """Check a decoded and defaulted pod template at ``path``, for instance ``spec.template``.

    The restart policy may be any that a pod may have; most kinds allow fewer.
    """
    yield from template_meta_errors(template, path)
    # The rules of a spec that depend on the metadata of its pod do not apply to a template.
    yield from _below(path, spec_errors(Pod(spec=template.spec), in_template=True))
    yield from _below(path, security.profile_agreement(as_pod(template)))
    if template.spec.ephemeralContainers:
        why = "ephemeral containers not allowed in pod template"
        yield forbidden(f"{path}.spec.ephemeralContainers", why)


def template_meta_errors(template: PodTemplateSpec, path: str) -> Errors:
    """Check labels and annotations. The API server's paths lack ``metadata``."""
    meta, here = template.metadata, f"{path}.metadata"
    problems = metadata.labels(meta.labels, f"{here}.labels")
    yield from reported_at(problems, here, path)
    problems = metadata.annotation_map(meta.annotations, f"{here}.annotations")
    yield from reported_at(problems, here, path)
    problems = known_annotations(as_pod(template), f"{here}.annotations")
    yield from reported_at(problems, here, path)


def template_tree_errors(tree: Mapping[str, Any], path: str) -> Errors:
    """Return the errors of the empty values in the decoded tree of a template."""
    yield from _below(path, written_empties(tree))


def as_pod(template: PodTemplateSpec) -> Pod:
    """Return a pod without a name that has the template's labels, annotations and spec."""
    meta = template.metadata
    kept = ObjectMeta(labels=meta.labels, annotations=meta.annotations)
    return Pod(metadata=kept, spec=template.spec)


def _below(path: str, errors: Iterable[FieldError]) -> Errors:
    """Return the errors of a pod as those of a template at ``path``."""
    for error in errors:
        at = f"{path}.{error.at}" if error.at else ""
        yield replace(error, path=f"{path}.{error.path}", at=at)
