"""The parts of a write that depend on the resource, and those that are common to all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, cast

from msgspec import structs

from podtui.api.objects import Object, T
from podtui.manifest.defaults import Tree
from podtui.manifest.validation.errors import Errors, FieldError


def unchanged(new: T, old: T | None = None) -> T:
    return new


def valid(*items: object) -> Iterator[FieldError]:
    return iter(())


def no_defaults(tree: Tree) -> None:
    pass


def no_warnings(new: object, old: object) -> Iterable[str]:
    return ()


def at_once(item: object, seconds: int | None) -> None:
    """Delete without a grace period."""
    return


def has_finalizers(item: Object) -> bool:
    return bool(item.metadata.finalizers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(Generic[T]):
    """The rules for writing objects of a resource, or of one of its subresources.

    ``defaults`` fills a decoded tree in place, and ``tree_errors`` checks what the types cannot
    express when an object is created. ``prepare_create`` and ``prepare_update`` (new, old) set what
    clients may not; the validations yield an error for each broken rule. ``grace`` returns the
    seconds of a graceful deletion, or None to delete at once; ``held`` whether an object must stay
    although it is deleted, and ``terminate`` marks one that does. ``warnings`` gets the new object
    and the old one, or None.
    """

    struct: type[T]
    defaults: Callable[[Tree], None] = no_defaults
    tree_errors: Callable[[Tree], Iterable[FieldError]] = valid
    prepare_create: Callable[[T], T] = unchanged
    prepare_update: Callable[[T, T], T] = unchanged
    validate_create: Callable[[T], Errors] = valid
    validate_update: Callable[[T, T], Errors] = valid
    warnings: Callable[[T, T | None], Iterable[str]] = no_warnings
    grace: Callable[[T, int | None], int | None] = at_once
    held: Callable[[T], bool] = has_finalizers
    terminate: Callable[[T], T] = unchanged
    owns: bool = True
    """True if deletions accept a propagation policy for the garbage collector."""
    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    """True if a deletion responds with the object instead of a ``Status``."""
    orphans: bool = False
    """True if a deletion without a propagation policy orphans the dependents."""
    serial: bool = False
    """True if writes have to wait for each other, because each depends on all objects."""


def without_status(item: T) -> T:
    """Return a new object without the status, which its controller writes."""
    new = structs.replace(item, status=type(cast("Any", item).status)())
    return with_meta(new, generation=1)


def with_old_status(new: T, old: T) -> T:
    """Keep the status in an update of the spec, and count the generations of the spec."""
    changed = cast("Any", new).spec != cast("Any", old).spec
    generation = (old.metadata.generation or 0) + int(changed)
    return with_meta(structs.replace(new, status=cast("Any", old).status), generation=generation)


def counted(new: T, old: T) -> T:
    """Count the generations of the spec of an object without a status."""
    changed = cast("Any", new).spec != cast("Any", old).spec
    return with_meta(new, generation=(old.metadata.generation or 0) + int(changed))


def with_old_spec(new: T, old: T) -> T:
    """Keep the spec in an update of the status."""
    return structs.replace(new, spec=cast("Any", old).spec)


def with_meta(item: T, **changes: object) -> T:
    """Return the object with changed fields of its metadata."""
    return structs.replace(item, metadata=structs.replace(item.metadata, **changes))


def with_meta_of(item: T, other: T) -> T:
    """Return the object with the metadata of another one."""
    return structs.replace(item, metadata=other.metadata)


def keep_system_fields(new: T, old: T) -> T:
    """Set the fields of the metadata that no update changes."""
    before, after = old.metadata, new.metadata
    seconds = after.deletionGracePeriodSeconds
    return with_meta(
        new,
        uid=after.uid or before.uid,
        creationTimestamp=before.creationTimestamp,
        deletionTimestamp=before.deletionTimestamp or after.deletionTimestamp,
        deletionGracePeriodSeconds=before.deletionGracePeriodSeconds
        if seconds is None
        else seconds,
    )
