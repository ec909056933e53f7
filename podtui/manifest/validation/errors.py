"""One broken rule at one field, worded as the API server words it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from podtui.api import v1

REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
FORBIDDEN: Final = "FieldValueForbidden"
DUPLICATE: Final = "FieldValueDuplicate"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"
NOT_FOUND: Final = "FieldValueNotFound"
TYPE_INVALID: Final = "FieldValueTypeInvalid"

_TITLES: Final = {
    REQUIRED: "Required value",
    INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    FORBIDDEN: "Forbidden",
    DUPLICATE: "Duplicate value",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    NOT_FOUND: "Not found",
    TYPE_INVALID: "Invalid value",
}
_WITHOUT_VALUE: Final = frozenset({REQUIRED, FORBIDDEN, TOO_LONG})
_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
# What JSON need not escape, and Go does.
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_GO_FIELDS: Final[Mapping[type[v1.Struct], str]] = {
    v1.SecurityContext: "Capabilities* Privileged* SELinuxOptions* WindowsOptions* RunAsUser*"
    " RunAsGroup* RunAsNonRoot* ReadOnlyRootFilesystem* AllowPrivilegeEscalation* ProcMount*"
    " SeccompProfile* AppArmorProfile*",
    v1.Capabilities: "Add* Drop*",
    v1.SELinuxOptions: "User Role Type Level",
    v1.WindowsSecurityContextOptions: "GMSACredentialSpecName* GMSACredentialSpec* RunAsUserName*"
    " HostProcess*",
    v1.SeccompProfile: "Type LocalhostProfile*",
    v1.AppArmorProfile: "Type LocalhostProfile*",
    v1.PodResourceClaim: "Name ResourceClaimName* ResourceClaimTemplateName*",
    v1.ClusterTrustBundleProjection: "Name* SignerName* LabelSelector* Optional* Path",
    v1.LabelSelector: "matchLabels matchExpressions",
    v1.LabelSelectorRequirement: "key! operator! values",
    v1.OwnerReference: "apiVersion! kind! name! uid! controller blockOwnerDeletion",
}
"""The fields of objects as Go prints them, in their order.

An object of the API server's internal types shows all of its fields under their names in Go, with
null for a pointer or list (``*``) that is not set; others show those that are set, and a few
always (``!``).
"""


class GoText(str):
    """A text of a type of its own in Go (an enum), which messages show as JSON."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FieldError:
    """A rule that a pod breaks.

    ``path`` is the field as the API server names it: ``spec.containers[0].image``, map entries as
    ``resources.limits[cpu]``. Where the API server is vague or mistaken about the place, ``at``
    is the exact path; see `location`. ``value`` is what was found there, None for nothing.
    """

    path: str
    type: str
    detail: str
    value: object | None = None
    at: str = ""
    known: tuple[str, ...] | None = None
    """Of a reference to nothing: the names that it could have had."""

    @property
    def location(self) -> str:
        """The path of the offending field (or of what should hold it) in the manifest."""
        return self.at or self.path

    def body(self) -> str:
        """The message without the path."""
        text = _TITLES.get(self.type, self.type)
        if self.type not in _WITHOUT_VALUE:
            text += f": {printed(self.value)}"
        return f"{text}: {shown(self.detail)}" if self.detail else text

    def message(self) -> str:
        """The whole message, for instance ``spec.containers[0].image: Required value``.

        Fit for a terminal: what a manifest smuggles in unprintably comes out escaped.
        """
        return f"{shown(self.path)}: {self.body()}"


Errors = Iterator[FieldError]


def shown(text: str) -> str:
    """The text with everything that does not print escaped."""
    return text if text.isprintable() else "".join(map(_printing, text))


def quoted(text: str) -> str:
    """The text in double quotes, with quotes and everything that does not print escaped."""
    return '"' + shown(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _printing(char: str) -> str:
    code = ord(char)
    if char.isprintable():
        return char
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printed(value: object) -> str:
    """A value as it stands in a message: texts quoted, all else as Go's JSON."""
    if isinstance(value, str) and not isinstance(value, GoText):
        return quoted(value)
    return shown(_json(value))


def _json(value: object) -> str:
    if isinstance(value, v1.Struct):
        pairs = _go_pairs(value)
        return "{" + ",".join(f"{_json(name)}:{_json(item)}" for name, item in pairs) + "}"
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return "{" + ",".join(f"{_json(key)}:{_json(item)}" for key, item in entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_json(item) for item in cast("list[Any]", value)) + "]"
    return json.dumps(value, ensure_ascii=False).translate(_HTML)


def _go_pairs(value: v1.Struct) -> Iterator[tuple[str, object]]:
    by_name = {name.lower(): name for name in value.__struct_fields__}
    for field in _GO_FIELDS.get(type(value), " ".join(value.__struct_fields__)).split():
        name = field.rstrip("*!")
        found: object = getattr(value, by_name[name.lower()])
        if isinstance(found, dict):
            found = dict(sorted(cast("dict[str, Any]", found).items()))
        unset = found is None or found in ("", (), {})
        if field.endswith("*"):
            yield name, None if unset else found
        elif name[0].isupper() or field.endswith("!") or not unset:
            yield name, found


def required(path: str, detail: str = "", *, at: str = "") -> FieldError:
    return FieldError(path, REQUIRED, detail, None, at)


def invalid(path: str, value: object, detail: str, *, at: str = "") -> FieldError:
    return FieldError(path, INVALID, detail, value, at)


def not_supported(
    path: str, value: object, known: Sequence[str], *, at: str = "", plain: bool = False
) -> FieldError:
    """``known`` is listed in the order given. ``plain``: the field is no enum to Go."""
    if isinstance(value, str) and not plain:
        value = GoText(value)
    detail = "supported values: " + ", ".join(quoted(text) for text in known)
    return FieldError(path, NOT_SUPPORTED, detail, value, at)


def forbidden(path: str, detail: str, *, at: str = "") -> FieldError:
    return FieldError(path, FORBIDDEN, detail, None, at)


def duplicate(path: str, value: object, *, at: str = "") -> FieldError:
    return FieldError(path, DUPLICATE, "", value, at)


def not_found(
    path: str, value: object, known: Iterable[str], detail: str = "", *, at: str = ""
) -> FieldError:
    """``known`` are the names that would be found."""
    return FieldError(path, NOT_FOUND, detail, value, at, tuple(known))


def too_long(path: str, limit: int, *, at: str = "") -> FieldError:
    """``limit`` is in bytes."""
    return FieldError(path, TOO_LONG, f"may not be more than {limit} bytes", None, at)


def too_many(path: str, count: int, limit: int, *, at: str = "") -> FieldError:
    return FieldError(path, TOO_MANY, f"must have at most {limit} items", count, at)


def type_invalid(path: str, value: object, detail: str, *, at: str = "") -> FieldError:
    return FieldError(path, TYPE_INVALID, detail, value, at)


def invalid_each(path: str, value: object, problems: Iterable[str], *, at: str = "") -> Errors:
    """One error for every problem that a format found with the value."""
    for problem in problems:
        yield invalid(path, value, problem, at=at)


def said_at(errors: Iterable[FieldError], real: str, said: str) -> Errors:
    """The errors under ``real``, reported under ``said`` as the API server does."""
    for error in errors:
        if real != said and error.path.startswith(real):
            path = said + error.path[len(real) :]
            yield replace(error, path=path, at=error.location)
        else:
            yield error
