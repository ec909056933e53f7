"""Lookup of the fields of a Pod or of another kind in the schema, by paths as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, get_args

from podtui.api import v1
from podtui.api.objects import Object
from podtui.api.shape import LIST_STEP, Form, Shape, StructField, fields, places_of_names
from podtui.errors import UsageError
from podtui.text.nearest import closest

_MOST_NAMED: Final = 12
_KIND: Final = frozenset({"pod", "pods", "po"})
_LONG: Final = frozenset({"managedFields", "ephemeral", "affinity", "windowsOptions"})
"""Fields with many nested fields that are rarely typed; these are not completed."""
_INDEX: Final = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class PodField:
    """``path`` has no indexes. ``owner`` is the type that has the field; it is None for the Pod
    itself, which is not a field. ``struct`` is the type of the object, or of the objects in a list
    or map."""

    path: tuple[str, ...]
    owner: type[v1.Struct] | None
    field: StructField | None
    struct: type[v1.Struct] | None
    kind: str = "Pod"

    @property
    def text(self) -> str:
        """The path; with the kind in front if it is not the Pod."""
        return ".".join(self.path if self.kind == "Pod" else (self.kind.lower(), *self.path))

    @property
    def known_as(self) -> str:
        """The type and the field: ``Probe.periodSeconds``; ``Pod`` for the Pod itself."""
        if self.owner is None or self.field is None:
            return self.kind
        return f"{self.owner.__name__}.{self.field.name}"

    @property
    def children(self) -> tuple[PodField, ...]:
        """The fields of the object, in schema order."""
        if self.struct is None:
            return ()
        return tuple(
            PodField((*self.path, name), self.struct, field, struct_of(field), self.kind)
            for name, field in fields(self.struct).items()
        )


POD: Final = PodField((), None, None, v1.Pod)


def struct_of(field: StructField) -> type[v1.Struct] | None:
    """Return the type of an object, or of the objects in a list or map."""
    shape: Shape | None = field.shape
    while shape is not None and shape.struct is None:
        shape = shape.item
    return shape.struct if shape is not None else None


def type_text(field: StructField) -> str:
    """Return the type as kubectl names it: ``[]Object``, ``integer`` …"""
    return _type(field.shape)


_NAMES: Final = {
    Form.TEXT: "string",
    Form.INTEGER: "integer",
    Form.BOOLEAN: "boolean",
    Form.QUANTITY: "Quantity",
    Form.TIME: "Time",
    Form.PORT: "IntOrString",
    Form.ANY: "any",
    Form.OBJECT: "Object",
    Form.LIST: "[]",
    Form.MAP: "map",
}


def _type(shape: Shape) -> str:
    if shape.item is None:
        return _NAMES[shape.form]
    if shape.form is Form.LIST:
        return f"[]{_type(shape.item)}"
    if shape.form is Form.MAP:
        return f"map[string]{_type(shape.item)}"
    return _NAMES[shape.form]


def pod_field_of(path: str) -> PodField | None:
    """Return the field at a path without indexes; None if it does not exist."""
    here = POD
    for step in filter(None, path.split(".")):
        child = next((child for child in here.children if child.path[-1] == step), None)
        if child is None:
            return None
        here = child
    return here


@cache
def field_paths() -> tuple[str, ...]:
    """Return the paths offered by completion, shortest first."""
    paths: list[str] = []
    level = [child for child in POD.children if child.path[-1] in ("metadata", "spec")]
    while level:
        paths += (pod_field.text for pod_field in level)
        level = [
            child
            for pod_field in level
            if pod_field.path[-1] not in _LONG
            for child in pod_field.children
        ]
    return tuple(paths)


def find_pod_field(text: str) -> PodField:
    """Find a field by a path such as ``pod.spec.containers[0].image``; the kind and the indexes are
    optional. A field name alone finds the occurrence nearest to the root of a Pod. Raises
    `UsageError` with suggestions."""
    steps = [step for step in _INDEX.sub("", text.strip()).split(".") if step]
    if steps and steps[0].lower() in _KIND:
        steps = steps[1:]
    here = POD
    for number, step in enumerate(steps):
        if here.field is not None and here.field.shape.form is Form.MAP and here.struct is None:
            # A map may have any keys.
            return here
        by_name = {child.path[-1]: child for child in here.children}
        child = by_name.get(step)
        if child is None and number == 0:
            child = _anywhere(step)
        if child is None:
            raise UsageError(_unknown(here, step, tuple(by_name)))
        here = child
    return here


@cache
def _kinds() -> dict[str, type[v1.Struct]]:
    """Return the other kinds that the API serves, by their names in lower case."""
    structs: tuple[type[v1.Struct], ...] = get_args(Object)
    names: dict[str, type[v1.Struct]] = {}
    for struct in structs:
        name = struct.__name__.lower()
        if struct is v1.Pod:
            continue
        names |= dict.fromkeys((name, _plural(name)), struct)
    return names


def _plural(name: str) -> str:
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return name if name.endswith("points") else f"{name}{'es' if name.endswith('s') else 's'}"


def find_field(text: str) -> PodField:
    """Find a field of any served kind by a path such as ``deployment.spec.replicas``; without a
    kind, a field of a Pod. A word that is a kind and also a field of a Pod (``secret``) means the
    field; its plural or a capital letter means the kind. Raises `UsageError` with suggestions."""
    steps = [step for step in _INDEX.sub("", text.strip()).split(".") if step]
    struct = _kinds().get(steps[0].lower()) if steps else None
    if struct is None or (len(steps) == 1 and steps[0] in places_of_names()):
        return find_pod_field(text)
    return _find_below(struct, steps[1:])


def _find_below(struct: type[v1.Struct], steps: Iterable[str]) -> PodField:
    here = PodField((), None, None, struct, struct.__name__)
    for step in steps:
        if here.field is not None and here.field.shape.form is Form.MAP and here.struct is None:
            return here
        by_name = {child.path[-1]: child for child in here.children}
        if step not in by_name:
            raise UsageError(_unknown_child(here, step, tuple(by_name)))
        here = by_name[step]
    return here


def paths_of_kinds(prefix: str) -> list[str]:
    """Return the kinds, or after a kind the fields of the object that ``prefix`` names."""
    above, dot, _ = prefix.rpartition(".")
    if not dot:
        return [struct.__name__.lower() for struct in dict.fromkeys(_kinds().values())]
    kind, *steps = above.split(".")
    struct = _kinds().get(kind.lower())
    if struct is None:
        return []
    try:
        return [f"{above}.{child.path[-1]}" for child in _find_below(struct, steps).children]
    except UsageError:
        return []


def _unknown_child(above: PodField, name: str, children: tuple[str, ...]) -> str:
    if not children:
        return f"{above.text} has no fields"
    near = closest(name, children)
    if near:
        return f"{above.text} has no field {name!r}; did you mean {above.text}.{near}?"
    rest = ", …" if len(children) > _MOST_NAMED else ""
    return f"{above.text} has no field {name!r}; it has {', '.join(children[:_MOST_NAMED])}{rest}"


def _anywhere(name: str) -> PodField | None:
    """Return the field of this name that is nearest to the root."""
    for path in places_of_names().get(name, ())[:1]:
        return pod_field_of(".".join(step for step in path if step != LIST_STEP))
    return None


def _unknown(above: PodField, name: str, children: tuple[str, ...]) -> str:
    where = f"{above.text} has" if above.path else "a Pod has"
    if not children:
        return f"{above.text} has no fields"
    near = closest(name, children, 0.8)
    if not near and (same := _anywhere(name)) is not None:
        return f"{where} no field {name!r}; did you mean {same.text}?"
    near = near or _beginning_with(name, children) or closest(name, children)
    if near:
        full = ".".join((*above.path, near))
        return f"{where} no field {name!r}; did you mean {full}?"
    names = places_of_names()
    elsewhere = _anywhere(closest(name, names, 0.8) or _beginning_with(name, names))
    if elsewhere is not None:
        return f"{where} no field {name!r}; did you mean {elsewhere.text}?"
    rest = ", …" if len(children) > _MOST_NAMED else ""
    return f"{where} no field {name!r}; it has {', '.join(children[:_MOST_NAMED])}{rest}"


def _beginning_with(text: str, names: Iterable[str]) -> str:
    """Return the first name that begins with the text, in any case; empty without one."""
    if len(text) < 3:
        return ""
    return next((name for name in names if name.lower().startswith(text.lower())), "")
