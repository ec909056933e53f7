"""What to say of a field that its object does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from podtui.manifest.document import Path, Problem, parse_path, path_text, quoted
from podtui.manifest.shape import LIST_STEP, places_of_names

_SURE = 0.85
_MAYBE = 0.6
_LONGEST = 64


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()


def closest(name: str, known: Iterable[str], cutoff: float = _MAYBE) -> str:
    """The known name most like this one, empty when none is."""
    if len(name) > _LONGEST:
        return ""
    names = {_folded(candidate): candidate for candidate in known}
    folded = _folded(name)
    if folded in names:
        return names[folded]
    found = difflib.get_close_matches(folded, names, n=1, cutoff=cutoff)
    return names[found[0]] if found else ""


def _common(place: tuple[str, ...], path: Path) -> int:
    count = 0
    for step, here in zip(place, path, strict=False):
        if step != here and not (step == LIST_STEP and isinstance(here, int)):
            break
        count += 1
    return count


def belongs_at(name: str, path: Path) -> str:
    """Where in a Pod a field of this name belongs, seen from the object at ``path``; or empty.

    The place that shares most with ``path`` wins, then the one nearest to the root; its indexes are
    those of ``path`` as far as the two go together.
    """
    places = places_of_names().get(name, ())
    if not places:
        return ""
    best = max(places, key=lambda place: (_common(place, path), -len(place)))
    shared = _common(best, path)
    text = path_text((*path[:shared],))
    for step in best[shared:]:
        text += step if step == LIST_STEP else (f".{step}" if text else step)
    return text


def unknown_field(name: str, path: Path, known: Iterable[str], *, in_pod: bool = True) -> Problem:
    """The problem for the field ``name`` of the object at ``path``."""
    siblings = tuple(known)
    message, fix = f"unknown field {quoted(name)}", ""
    sibling = closest(name, siblings, _SURE)
    place = "" if sibling or not in_pod else belongs_at(name, path)
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
        stands_for=parse_path(place) if place else (*path, sibling),
    )
