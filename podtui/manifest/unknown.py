"""Problems about unknown fields, with suggestions."""

from __future__ import annotations

from collections.abc import Container, Iterable

from podtui.api.nearest import closest
from podtui.api.places import field_path
from podtui.api.shape import LIST_STEP, places_of_names
from podtui.manifest.document import Path, Problem, path_text, quoted

_SURE = 0.85


def _common(place: tuple[str, ...], path: Path) -> int:
    count = 0
    for step, here in zip(place, path, strict=False):
        if step != here and not (step == LIST_STEP and isinstance(here, int)):
            break
        count += 1
    return count


def belongs_at(name: str, path: Path, written: Container[Path] = ()) -> str:
    """Return where in a Pod a field of this name belongs, relative to ``path``; empty if unknown.

    Preferred are, in this order: a place in an object around ``path``, one in an object that is
    ``written``, the one that shares most steps with ``path``, the one nearest to the root. Its
    indexes are taken from ``path`` as far as both agree.
    """
    places = places_of_names().get(name, ())
    if not places:
        return ""

    def rank(place: tuple[str, ...]) -> tuple[bool, bool, int, int]:
        common = _common(place, path)
        parent = (*path[:common], *place[common:-1])
        return common == len(place) - 1, parent in written, common, -len(place)

    best = max(places, key=rank)
    shared = _common(best, path)
    text = path_text((*path[:shared],))
    for step in best[shared:]:
        text += step if step == LIST_STEP else (f".{step}" if text else step)
    return text


def unknown_field(
    name: str,
    path: Path,
    known: Iterable[str],
    *,
    written: Container[Path] = (),
    in_pod: bool = True,
) -> Problem:
    """Return the problem for the field ``name`` of the object at ``path``. ``written`` are the
    paths that the document has."""
    siblings = tuple(known)
    message, fix = f"unknown field {quoted(name)}", ""
    sibling = closest(name, siblings, _SURE)
    place = "" if sibling or not in_pod else belongs_at(name, path, written)
    if place:
        message += f"; it belongs at {place}"
        fix = f"move it to {place}"
    else:
        sibling = sibling or closest(name, siblings)
        if sibling:
            fix = f'did you mean "{sibling}"?'
    return Problem(
        code="UnknownField",
        message=message,
        path=(*path, name),
        fix=fix,
        at_key=True,
        stands_for=field_path(place) if place else (*path, sibling),
    )
