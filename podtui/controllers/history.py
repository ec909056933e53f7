"""The history of a StatefulSet or DaemonSet: a ControllerRevision for each template that it had.

A revision keeps the template as a patch that replaces it, so that ``kubectl rollout undo`` can send
the patch as it is. Its name ends with a hash of this patch. The current revision always has the
highest number: the revision of a template that returns gets the next number, not a copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from podtui.api.apps import ControllerRevision, DaemonSet, StatefulSet
from podtui.api.lenient import lenient_convert
from podtui.api.v1 import ObjectMeta, PodTemplateSpec
from podtui.client.cache import Cache
from podtui.controllers.client import Writer
from podtui.controllers.pods import apply_claim, claim, owner_reference
from podtui.errors import ApiError, PodtuiError

REVISION_LABEL: Final = "controller-revision-hash"
"""The label of pods, and of the revisions of a DaemonSet."""
HASH_LABEL: Final = "controller.kubernetes.io/hash"
"""The label of the revisions of a StatefulSet."""
_MAX_PREFIX: Final = 223
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_FNV_START: Final = 2166136261
_FNV_PRIME: Final = 16777619
Owner = StatefulSet | DaemonSet


def revision_data(template: PodTemplateSpec) -> dict[str, Any]:
    """Return the patch that restores a template, with sorted keys: Go clients compare its bytes."""
    # Through JSON, so that it equals the data that the API returns, which has lists for tuples.
    fields = msgspec.json.decode(msgspec.json.encode(template, order="sorted"))
    return {"spec": {"template": {"$patch": "replace", **fields}}}


def revision_hash(data: dict[str, Any], collisions: int | None) -> str:
    """Return the hash of a revision: FNV-1 of its JSON as Go writes it, in letters that make no
    words."""
    encoded = msgspec.json.encode(data, order="sorted")
    for letter, escaped in ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026")):
        encoded = encoded.replace(letter, escaped)
    if collisions is not None:
        encoded += str(collisions).encode()
    value = _FNV_START
    for byte in encoded:
        value = (value * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    return safe_text(str(value))


def safe_text(text: str) -> str:
    """Return the text in letters and digits that make no words."""
    return "".join(_ALPHABET[ord(letter) % len(_ALPHABET)] for letter in text)


def new_revision(
    owner: Owner, number: int, collisions: int | None, hash_label: str
) -> ControllerRevision:
    """Return the revision of the owner's template. ``collisions`` is the number of other templates
    that had the same hash; ``hash_label`` is the label that gets the hash."""
    meta, template = owner.metadata, owner.spec.template
    data = revision_data(template)
    value = revision_hash(data, collisions)
    return ControllerRevision(
        metadata=ObjectMeta(
            name=f"{meta.name[:_MAX_PREFIX]}-{value}",
            namespace=meta.namespace,
            labels={**template.metadata.labels, hash_label: value},
            annotations=meta.annotations,
            ownerReferences=(owner_reference(owner),),
        ),
        data=data,
        revision=number,
    )


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """Return the template that a revision restores. Raises `PodtuiError` if it has none."""
    try:
        fields = (revision.data or {})["spec"]["template"]
        return lenient_convert(fields, PodTemplateSpec)
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise PodtuiError(
            f"the controller revision {revision.metadata.name} has no valid template: {error}"
        ) from error


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """Sort revisions by number; equal numbers by age, then by name."""
    return sorted(
        revisions,
        key=lambda item: (item.revision, item.metadata.creationTimestamp or "", item.metadata.name),
    )


def next_number(revisions: Iterable[ControllerRevision]) -> int:
    return max((revision.revision for revision in revisions), default=0) + 1


def equal_revisions(
    revisions: Iterable[ControllerRevision], template: PodTemplateSpec
) -> list[ControllerRevision]:
    """Return the revisions that keep exactly this template, in the given order."""
    data = revision_data(template)
    return [revision for revision in revisions if revision.data == data]


def superfluous(
    old: Sequence[ControllerRevision], live: Collection[str], limit: int
) -> list[ControllerRevision]:
    """Return the revisions to delete, oldest first, so that ``limit`` of ``old`` remain.

    ``old`` has no current revisions; those named in ``live`` stay as well."""
    unused = [revision for revision in old if revision.metadata.name not in live]
    return unused[: max(0, len(unused) - limit)] if limit >= 0 else []


class RevisionControl:
    """Reads and writes the revisions of an owner."""

    def __init__(self, cache: Cache, writer: Writer) -> None:
        self._cache = cache
        self._writer = writer

    async def claimed(self, owner: Owner) -> list[ControllerRevision]:
        """Adopt and release revisions; return those of the owner in order."""
        revisions = self._cache.claimable(ControllerRevision, owner)
        claimed = claim(owner, owner.spec.selector, revisions)
        return in_order(await apply_claim(self._writer, ControllerRevision, owner, claimed))

    async def create(
        self, owner: Owner, number: int, collisions: int | None, hash_label: str
    ) -> tuple[ControllerRevision, int | None]:
        """Create the revision of the owner's template. If its name is taken by another template,
        count a collision and try the next name. Return the revision and the collisions."""
        while True:
            revision = new_revision(owner, number, collisions, hash_label)
            meta = revision.metadata
            try:
                return await self._writer.create(ControllerRevision, revision), collisions
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
            existing = await self._writer.get(ControllerRevision, meta.namespace, meta.name)
            if existing.data == revision.data:
                return existing, collisions
            collisions = (collisions or 0) + 1

    async def renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        if revision.revision == number:
            return revision
        changed = structs.replace(revision, revision=number)
        return await self._writer.update(ControllerRevision, changed)

    async def delete(self, revisions: Iterable[ControllerRevision]) -> None:
        for revision in revisions:
            await self._writer.delete(ControllerRevision, revision)
