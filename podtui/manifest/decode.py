"""Decodes a document's tree into the API's types; collects all errors and drops the bad values.

As in the API, null counts as absent, and an integer is a valid quantity. Enums and all other rules
about values belong to validation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Container, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, cast

from podtui.api import v1
from podtui.api.local import Severity
from podtui.api.places import field_path
from podtui.api.quantity import SYNTAX, canonical
from podtui.api.shape import (
    LIST_STEP,
    Form,
    Shape,
    empty,
    fields,
    places_of_names,
    required_names,
    shape_at,
)
from podtui.manifest.document import Document, MapKey, Path, Problem, path_text, printable, quoted
from podtui.manifest.foreign import (
    foreign_list,
    foreign_object,
    is_foreign,
    kind_advice,
    known_kind,
    plain_text,
)
from podtui.manifest.kinds import TEMPLATES
from podtui.manifest.scalars import number_text
from podtui.text.nearest import SURE, closest, meant, suggestion

_ONE_OF: Final = frozenset(
    {v1.Volume, v1.VolumeProjection, v1.EnvVarSource, v1.Probe, v1.LifecycleHandler}
)
"""Types of which an object may set one member only: a source, or a handler."""


def _common(schema_path: tuple[str, ...], path: Path) -> int:
    count = 0
    for step, here in zip(schema_path, path, strict=False):
        if step != here and not (step == LIST_STEP and isinstance(here, int)):
            break
        count += 1
    return count


def belongs_at(name: str, path: Path, written: Container[Path] = ()) -> tuple[str, ...]:
    """Return where in a Pod a field of this name belongs, relative to ``path``: one place, or
    several that are equally likely; none if it is unknown.

    Preferred are, in this order: a place in an object around ``path``, one in an object that is
    ``written``, the one that shares most steps with ``path``, the one nearest to the root. Its
    indexes are taken from ``path`` as far as both agree. A field of one volume source is not one of
    another source.
    """

    def rank(schema_path: tuple[str, ...]) -> tuple[bool, bool, int, int]:
        common = _common(schema_path, path)
        parent = (*path[:common], *schema_path[common:-1])
        return common == len(schema_path) - 1, parent in written, common, -len(schema_path)

    places = [
        schema_path
        for schema_path in places_of_names().get(name, ())
        if rank(schema_path)[1] or not _is_alternative(schema_path, path)
    ]
    best = max(map(rank, places), default=None)
    texts = [_place_text(schema_path, path) for schema_path in places if rank(schema_path) == best]
    # Where an item is missing, the position is only an example.
    return tuple(texts[:1] if texts and LIST_STEP in texts[0] else texts)


def _is_alternative(schema_path: tuple[str, ...], path: Path) -> bool:
    """Return whether the two paths are in two members of which an object has only one."""
    common = _common(schema_path, path)
    shape = (
        shape_at(v1.Pod, path[:common]) if common < min(len(path), len(schema_path) - 1) else None
    )
    return shape is not None and shape.struct in _ONE_OF


def _place_text(schema_path: tuple[str, ...], path: Path) -> str:
    shared = _common(schema_path, path)
    text = path_text((*path[:shared],))
    for step in schema_path[shared:]:
        text += step if step == LIST_STEP else (f".{step}" if text else step)
    return text


def unknown_field(
    name: str,
    path: Path,
    names: Iterable[str],
    *,
    written: Container[Path] = (),
    pod: Path | None = (),
    beside: Collection[str] = (),
) -> Problem:
    """Return the problem for the field ``name`` of the object at ``path``. ``written`` are the
    paths that the document has, ``pod`` is the path of the Pod in it, or of the template of one,
    ``beside`` the fields of the object."""
    siblings = tuple(names)
    free = tuple(sibling for sibling in siblings if sibling not in beside)
    message, fix, path_meant = f"unknown field {quoted(name)}", "", ()
    sibling, other = closest(name, free, SURE), closest(name, siblings, SURE)
    if other and other in beside:
        fix = f'"{other}" is set as well: keep one of the two'
    elif not sibling and (places := _belongs_below(pod, name, path, written)):
        message += f"; it belongs at {' or '.join(places)}"
        fix = f"move it to {' or '.join(places)}"
        path_meant = field_path(places[0])
    else:
        fix = suggestion(name, free)
        sibling = sibling or closest(name, free)
    return Problem(
        code="UnknownField",
        message=message,
        path=(*path, name),
        fix=fix,
        at_key=True,
        stands_for=path_meant or (*path, sibling),
    )


def _belongs_below(
    pod: Path | None, name: str, path: Path, written: Container[Path]
) -> tuple[str, ...]:
    """Return where in the Pod at ``pod`` the field belongs, as `belongs_at` does for a Pod."""
    if not pod:
        return belongs_at(name, path, written) if pod is not None else ()
    if path[: len(pod)] != pod:
        return ()
    root = path_text(pod)
    return tuple(f"{root}.{text}" for text in belongs_at(name, path[len(pod) :]))


_TIME: Final = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)T(?P<hour>\d\d?):(?P<rest>\d\d:\d\d)(?:[.,]\d+)?"
    r"(?P<zone>Z|[+-](?:[01]\d|2[0-4]):[0-5]\d)",
    re.ASCII,
)
_DIGIT: Final = re.compile("[0-9]")
_INT32: Final = 2**31
_INT64: Final = 2**63
_LONG: Final = frozenset(
    """activeDeadlineSeconds terminationGracePeriodSeconds runAsUser runAsGroup fsGroup
    supplementalGroups tolerationSeconds seconds expirationSeconds deletionGracePeriodSeconds
    generation observedGeneration uid gid""".split()
)
_NOTHING: Final = object()
_CONTROL: Final = re.compile("[\x00-\x1f]")
_READ: Final = ("Pod", "ConfigMap", "Secret", "List")


def _time(text: str) -> str | None:
    """Return the moment as the API writes it; None for a text that is no RFC 3339 time to Go."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    zone = "+00:00" if match["zone"] == "Z" else match["zone"]
    minutes = 60 * int(zone[1:3]) + int(zone[4:])
    try:
        moment = datetime.fromisoformat(f"{match['day']}T{match['hour']:0>2}:{match['rest']}")
        moment -= timedelta(minutes=-minutes if zone[0] == "-" else minutes)
    except (ValueError, OverflowError):
        return None
    return f"{moment.isoformat()}Z"


def found_text(value: object, *, discreet: bool = False) -> str:
    """Describe a value for a message; with ``discreet``, only its type, since it may be secret."""
    if isinstance(value, str):
        return "a string" if discreet else f"the string {quoted(value, 60)}"
    if isinstance(value, bool):
        return "a boolean" if discreet else quoted(value)
    if isinstance(value, int | float):
        # A float with an integral value is shown with its decimal point, which only JSON preserves.
        whole = math.isfinite(value) and value == int(value)
        text = str(value) if whole else number_text(value)
        return "a number" if discreet else f"the number {printable(text, 40)}"
    if isinstance(value, list):
        return "a list"
    return "a map" if isinstance(value, dict) else "nothing"


class _Walker:
    def __init__(self, document: Document, struct: type[v1.Struct], *, strict: bool) -> None:
        self.document = document
        self.strict = strict
        self.pod = () if struct is v1.Pod else TEMPLATES.get(struct.__name__)
        self.discreet = struct is v1.Secret
        self.problems: list[Problem] = []

    def wrong_type(self, value: object, form: Form, path: Path) -> object:
        shown = found_text(value, discreet=self.discreet)
        fix = ""
        raw = None if self.discreet else self.document.raw.get(path)
        if self.discreet:
            fix = "write it in quotes" if form is Form.TEXT else ""
        elif form is Form.TEXT and isinstance(value, bool | int | float):
            fix = f'write it in quotes: "{printable(raw or quoted(value), 60)}"'
        elif form in {Form.INTEGER, Form.BOOLEAN} and isinstance(value, str):
            if re.fullmatch(r"[+-]?\d{1,18}|true|false", value, re.ASCII):
                fix = f"write it without quotes: {value}"
        elif form is Form.LIST:
            fix = "begin each item with '- '"
            if isinstance(value, str):
                fix = f"write a list: [{quoted(value, 60)}]"
        elif form in {Form.OBJECT, Form.MAP} and isinstance(value, list):
            fix = "write 'key: value' pairs here, without '- '"
        if isinstance(value, bool) and raw is not None and raw != shown:
            shown += f" (which is what {printable(raw, 20)} means in YAML)"
        self.problems.append(
            Problem(
                code="FieldValueTypeInvalid",
                message=f"found {shown}, but {form.value} is expected",
                path=path,
                fix=fix,
            )
        )
        return _NOTHING

    def value(self, value: Any, shape: Shape, path: Path) -> Any:
        form = shape.form
        if isinstance(value, dict):
            pairs = cast("dict[str, Any]", value)
            if form is Form.OBJECT and shape.struct is not None:
                return self.object_value(pairs, shape.struct, path)
            if form is Form.MAP and shape.item is not None:
                return self.map_value(pairs, shape.item, path)
        elif isinstance(value, list) and form is Form.LIST and shape.item is not None:
            return self.list_value(cast("list[Any]", value), shape.item, path)
        return self.scalar(cast(object, value), form, path)

    def scalar(self, value: object, form: Form, path: Path) -> object:
        match form:
            case Form.TEXT if isinstance(value, str):
                return value
            case Form.BOOLEAN if isinstance(value, bool):
                return value
            case Form.INTEGER | Form.PORT if isinstance(value, int) and not isinstance(value, bool):
                return self.integer(value, form, path)
            case Form.PORT if isinstance(value, str):
                return value
            case Form.QUANTITY if isinstance(value, str | int | float):
                if not isinstance(value, bool):
                    return self.quantity(value, path)
            case Form.TIME if isinstance(value, str):
                moment = _time(value)
                if moment is not None:
                    return moment
            case Form.ANY:
                return value
            case _:
                pass
        return self.wrong_type(value, form, path)

    def integer(self, value: int, form: Form, path: Path) -> Any:
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        bound, bits = (_INT64, 64) if name in _LONG else (_INT32, 32)
        if -bound <= value < bound:
            return value
        self.problems.append(
            Problem(
                code="FieldValueTypeInvalid",
                message=f"found {found_text(value)}, which does not fit into {bits} bits",
                path=path,
            )
        )
        return _NOTHING

    def quantity(self, value: str | int | float, path: Path) -> Any:
        if isinstance(value, str):
            # Go trims the text before it resolves the escapes, so that escaped control characters
            # stay.
            text = value if _CONTROL.search(value) else value.strip()
        else:
            text = self.document.raw.get(path, "") if self.document.is_json else ""
            text = text or number_text(value)
        try:
            if not self.strict and not _DIGIT.search(text):
                raise ValueError(SYNTAX)
            return canonical(text)
        except ValueError as error:
            self.problems.append(
                Problem(
                    code="FieldValueInvalid",
                    message=f"Invalid value: {quoted(text)}: {error}",
                    path=path,
                    fix="write an amount such as 250m, 0.5, 64Mi or 1Gi",
                )
            )
            return _NOTHING

    def list_value(self, value: list[Any], item: Shape, path: Path) -> list[Any]:
        items: list[Any] = []
        for index, element in enumerate(value):
            here = (*path, index)
            if element is None:
                clean = self.value({}, item, here) if item.form is Form.OBJECT else empty(item)
            else:
                clean = self.value(element, item, here)
            # A bad item is replaced, not dropped, so that later items keep their index in messages.
            items.append(empty(item) if clean is _NOTHING else clean)
        return items

    def map_value(self, value: dict[str, Any], item: Shape, path: Path) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        for key, element in value.items():
            clean = (
                empty(item) if element is None else self.value(element, item, (*path, MapKey(key)))
            )
            if clean is not _NOTHING:
                pairs[key] = clean
        return pairs

    def object_value(
        self, value: dict[str, Any], struct: type[v1.Struct], path: Path
    ) -> dict[str, Any]:
        members = fields(struct)
        clean: dict[str, Any] = {}
        for key, element in value.items():
            field = members.get(key)
            if field is None:
                written = self.document.values
                self.problems.append(
                    unknown_field(
                        key, path, members, written=written, pod=self.pod, beside=value.keys()
                    )
                )
            elif element is not None:
                decoded = self.value(element, field.shape, (*path, key))
                if decoded is not _NOTHING:
                    clean[key] = decoded
        for name in sorted(required_names(struct) - clean.keys()):
            if members[name].required and value.get(name) is None:
                self.problems.append(
                    Problem(code="FieldValueRequired", message="Required value", path=(*path, name))
                )
            clean[name] = empty(members[name].shape)
        return clean


def _kind_problems(tree: dict[str, Any], kind: str, version: str, *, strict: bool) -> list[Problem]:
    written_kind: object = tree.get("kind")
    problems: list[Problem] = []
    if written_kind is not None and written_kind != kind:
        problems.append(_wrong_kind(written_kind, (kind,) if strict or kind != "Pod" else _READ))
        if strict or known_kind(str(written_kind)) != kind:
            return problems
        # A misspelt kind does not hide the other findings.
        written_kind = kind
    if strict and tree.get("apiVersion") == f"/{version}":
        tree = {**tree, "apiVersion": version}
    for name, got, want in (
        ("kind", written_kind, kind),
        ("apiVersion", tree.get("apiVersion"), version),
    ):
        if got == want:
            continue
        if got is None:
            guess = meant(name, (k for k in tree if k not in fields(v1.Pod)))
            fix = f'"{printable(guess)}" should be "{name}"' if guess else f"add {name}: {want}"
            if name == "kind" and not guess and not _is_pod_without_kind(tree):
                fix = f"add kind: {want}, if it is one"
            problems.append(
                Problem(code="FieldValueRequired", message="Required value", path=(name,), fix=fix)
            )
        else:
            # Another group has other kinds: this may not be the object that it seems to be.
            foreign = isinstance(got, str) and is_foreign(got)
            fix = f"a {kind} has {name}: {want}" if foreign else f"write {name}: {want}"
            problems.append(_unsupported(name, got, (want,), fix))
    return problems


def _is_pod_without_kind(tree: dict[str, Any]) -> bool:
    spec, version = tree.get("spec"), tree.get("apiVersion")
    foreign = isinstance(version, str) and is_foreign(version)
    return isinstance(spec, dict) and "containers" in spec and not foreign


def _undecodable(document: Document, value: object, path: Path) -> list[Problem]:
    """Return the errors that stop a kubelet from decoding a value, although it ignores that
    value."""
    shape = shape_at(v1.Pod, path)
    if value is None or shape is None:
        return []
    walker = _Walker(document, v1.Pod, strict=True)
    walker.value(value, shape, path)
    return [p for p in walker.problems if p.code in {"FieldValueTypeInvalid", "FieldValueInvalid"}]


def _is_about_kind(problem: Problem) -> bool:
    return problem.path == ("kind",) and problem.code == "FieldValueNotSupported"


def _wrong_kind(value: object, supported: tuple[str, ...]) -> Problem:
    fix = kind_advice(value, supported) if isinstance(value, str) else ""
    return _unsupported("kind", value, supported, fix)


def _unsupported(name: str, value: object, supported: tuple[str, ...], fix: str) -> Problem:
    values = ", ".join(quoted(text) for text in supported)
    return Problem(
        code="FieldValueNotSupported",
        message=f"Unsupported value: {quoted(value)}: supported values: {values}",
        path=(name,),
        fix=fix,
    )


def decode(
    document: Document,
    struct: type[v1.Struct] = v1.Pod,
    *,
    version: str = "v1",
    strict: bool = False,
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Return a tree ready for ``msgspec.convert`` to ``struct``, and all problems of the text.

    The tree is None if the document is not such an object at all; otherwise it is complete, with
    bad fields left out or empty. ``strict`` follows the kubelet: unknown fields are dropped with a
    warning, a quantity without digits counts as zero, and ``status`` must be a valid one.
    """
    name, tree = struct.__name__, document.value
    if tree is None:
        message = f"the file contains no object; a {name} is expected"
        return None, [Problem(code="EmptyManifest", message=message, position=(1, 1))]
    if not strict and struct is v1.Pod and isinstance(tree, list | str):
        items = cast("list[Any] | str", tree)
        return None, [plain_text() if isinstance(items, str) else foreign_list(items)]
    if not isinstance(tree, dict):
        message = f"found {found_text(tree)}, but a {name} is expected"
        return None, [Problem(code="NotAPod", message=message, position=document.position(()))]
    tree = cast("dict[str, Any]", tree)
    foreign = foreign_object(tree) if struct is v1.Pod and not strict else None
    if foreign is not None:
        position = document.position(foreign.path, at_key=True)
        return None, [replace(foreign, path=(), position=position)]
    problems = _kind_problems(tree, name, version, strict=strict)
    misspelt = not strict and known_kind(str(tree.get("kind"))) == name
    if not misspelt and any(map(_is_about_kind, problems)):
        return None, problems
    if struct is v1.Pod and (status := tree.get("status")):
        message = "the kubelet writes the status; the status in the file is ignored"
        problems.append(
            Problem(
                code="IgnoredField",
                message=message,
                path=("status",),
                fix="remove it" if isinstance(status, dict) else "",
                remove=(("status",),) if isinstance(status, dict) else (),
                severity=Severity.WARNING,
                at_key=True,
            )
        )
    walker = _Walker(document, struct, strict=strict)
    if struct is v1.Pod and strict:
        for path, value in ((("status",), tree.get("status")), *document.overwritten):
            problems += _undecodable(document, value, path)
    tree = {key: value for key, value in tree.items() if key != "status"}
    clean = walker.object_value(tree, struct, ())
    clean["kind"], clean["apiVersion"] = name, version
    faulty = {problem.path for problem in problems}
    similar = {problem.stands_for for problem in walker.problems if problem.stands_for}
    for problem in walker.problems:
        missing = problem.code == "FieldValueRequired"
        if problem.path in faulty or (missing and problem.path in similar):
            continue
        if strict and problem.code == "UnknownField":
            problem = replace(problem, severity=Severity.WARNING, stands_for=())
        problems.append(problem)
    return clean, problems
