"""One broken rule at one field, worded as the API server words it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

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
    """A value as it stands in a message: texts quoted, all else as JSON."""
    if isinstance(value, str):
        return quoted(value)
    try:
        return shown(msgspec.json.encode(value).decode())
    except UnicodeEncodeError:  # a lone surrogate, out of a YAML escape
        return quoted(str(value))


def required(path: str, detail: str = "", *, at: str = "") -> FieldError:
    return FieldError(path, REQUIRED, detail, None, at)


def invalid(path: str, value: object, detail: str, *, at: str = "") -> FieldError:
    return FieldError(path, INVALID, detail, value, at)


def not_supported(path: str, value: object, known: Sequence[str], *, at: str = "") -> FieldError:
    """``known`` is listed in the order given."""
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
