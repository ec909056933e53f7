"""Formats of names, keys, numbers, paths and file modes. Each check returns its problems
as messages.

Lengths are counted in bytes. The messages are the API server's, so that users can search for
them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from podtui.manifest.validation.errors import Errors, invalid, invalid_each, required

INT31: Final = 2**31 - 1
Check = Callable[[str], list[str]]
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LOOSE_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SYSCTL: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_EDGES: Final = "must start and end with an alphanumeric character"


def size(text: str) -> int:
    """Return the length of the text in UTF-8 bytes, including lone surrogates."""
    return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A pattern, the message for a text that does not match, and the maximum length."""

    pattern: str
    message: str
    examples: tuple[str, ...]
    limit: int = 0
    unit: str = "characters"
    compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(self.pattern))

    def matches(self, text: str) -> bool:
        return self.compiled.fullmatch(text) is not None

    def mismatch(self) -> str:
        examples = " or ".join(f"'{example}', " for example in self.examples)
        return f"{self.message} (e.g. {examples}regex used for validation is '{self.pattern}')"

    def length_problems(self, text: str) -> list[str]:
        if self.limit and size(text) > self.limit:
            return [f"must be no more than {self.limit} {self.unit}"]
        return []

    def problems(self, text: str) -> list[str]:
        problems = self.length_problems(text)
        if not self.matches(text):
            problems.append(self.mismatch())
        return problems


LABEL_NAME: Final = TextFormat(
    _LABEL,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    + _EDGES,
    ("my-name", "123-abc"),
    63,
)
SUBDOMAIN: Final = TextFormat(
    rf"{_LABEL}(\.{_LABEL})*",
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
    f" '-' or '.', and {_EDGES}",
    ("example.com",),
    253,
)
KEY_PREFIX: Final = replace(SUBDOMAIN, unit="bytes")
SEARCH_DOMAIN: Final = TextFormat(
    rf"{_LOOSE_LABEL}(\.{_LOOSE_LABEL})*",
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
    f" '_', '-' or '.', and {_EDGES}",
    ("example.com",),
    253,
)
KEY_NAME: Final = TextFormat(
    _KEY,
    f"must consist of alphanumeric characters, '-', '_' or '.', and {_EDGES}",
    ("MyName", "my.name", "123-abc"),
    63,
    "bytes",
)
LABEL_VALUE: Final = TextFormat(
    f"({_KEY})?",
    "a valid label must be an empty string or consist of alphanumeric characters,"
    f" '-', '_' or '.', and {_EDGES}",
    ("MyValue", "my_value", "12345"),
    63,
    "bytes",
)
CONFIG_KEY: Final = TextFormat(
    "[-._a-zA-Z0-9]+",
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    ("key.name", "KEY_NAME", "key-name"),
    253,
)
HEADER_NAME: Final = TextFormat(
    "[-A-Za-z0-9]+",
    "a valid HTTP header must consist of alphanumeric characters or '-'",
    ("X-Header-Name",),
)
WILDCARD: Final = TextFormat(
    rf"\*\.{_LABEL}(\.{_LABEL})*",
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which"
    " must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric"
    " character",
    ("*.example.com",),
    253,
)
PERCENT: Final = TextFormat(
    "[0-9]+%",
    "a valid percent string must be a numeric string followed by an ending '%'",
    ("1%", "93%"),
)
CONDITION_REASON: Final = TextFormat(
    "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
    "a condition reason must start with alphabetic character, optionally followed by a string of"
    " alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
    ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"),
)
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_SYSCTL_NAME: Final = re.compile(rf"({_SYSCTL}[\./])*{_SYSCTL}")
SYSCTL_WORDS: Final = (
    rf"must have at most 253 characters and match regex ^({_SYSCTL}[\./])*{_SYSCTL}$"
)


def between(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def in_range(number: int, low: int, high: int) -> list[str]:
    return [] if low <= number <= high else [between(low, high)]


def dns_label(text: str) -> list[str]:
    if LABEL_NAME.matches(text) or not SUBDOMAIN.matches(text):
        return LABEL_NAME.problems(text)
    return [*LABEL_NAME.length_problems(text), "must not contain dots"]


def dns_subdomain(text: str) -> list[str]:
    return SUBDOMAIN.problems(text)


def name_prefix(text: str) -> list[str]:
    """A subdomain that may end in a dash, because a suffix will be appended."""
    if len(text) > 1 and text.endswith("-"):
        text = text[:-2] + "a"
    return SUBDOMAIN.problems(text)


def path_segment(text: str) -> list[str]:
    """Check that a name can be a segment of a path, as every object's name must."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]


def qualified_name(text: str) -> list[str]:
    """A label key: an optional ``DOMAIN/`` and a name."""
    parts = text.split("/")
    if len(parts) > 2:
        hint = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {KEY_NAME.mismatch()}{hint}"]
    problems: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in KEY_PREFIX.problems(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    problems += [f"name part {problem}" for problem in KEY_NAME.problems(name)]
    return problems


def domain_prefixed_path(text: str, path: str) -> Errors:
    """A name such as ``example.com/controller``."""
    host, _, rest = text.partition("/")
    if not text:
        yield required(path)
    elif not host or not rest:
        yield invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from invalid_each(path, host, dns_subdomain(host))
        if re.fullmatch(_HTTP_PATH, rest) is None:
            yield invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH}')")


def label_value(text: str) -> list[str]:
    return LABEL_VALUE.problems(text)


def config_key(text: str) -> list[str]:
    """A key of a ConfigMap or a Secret, which is used as a file name."""
    problems = CONFIG_KEY.problems(text)
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def env_name(text: str) -> list[str]:
    if not text:
        return ["environment variable name must be non-empty"]
    if all(" " <= char <= "~" and char != "=" for char in text):
        return []
    why = "a valid environment variable name must consist only of printable ASCII characters"
    return [f"{why} other than '='"]


def port_number(port: int) -> list[str]:
    return in_range(port, 1, 65535)


def port_name(text: str) -> list[str]:
    """An IANA service name."""
    rules = (
        (size(text) > 15, "must be no more than 15 characters"),
        (
            re.fullmatch("[-a-z0-9]+", text) is None,
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (re.search("[a-z]", text) is None, "must contain at least one letter (a-z)"),
        ("--" in text, "must not contain consecutive hyphens"),
        (text[:1] == "-" or text[-1:] == "-", "must not begin or end with a hyphen"),
    )
    return [message for broken, message in rules if broken]


def sysctl_name(text: str) -> bool:
    return size(text) <= 253 and _SYSCTL_NAME.fullmatch(text) is not None


def owner_id(number: int) -> list[str]:
    """A user id or group id."""
    return in_range(number, 0, INT31)


def ip_address(text: str) -> list[str]:
    """An IPv4 or IPv6 address, without zone, leading zeros or a mapped IPv4 address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", text) and all(
            int(part[-4:]) < 256 and not part[:-4].strip("0") for part in text.split(".")
        ):
            return ["must not have leading 0s"]
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if "%" in text:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return []


def nonnegative(number: int | None, path: str) -> Errors:
    if number is not None and number < 0:
        yield invalid(path, number, "must be greater than or equal to 0")


def no_backsteps(target: str, path: str) -> Errors:
    """Check that no path element is ``..``."""
    if ".." in target.split("/"):
        yield invalid(path, target, "must not contain '..'")


def descending(target: str, path: str) -> Errors:
    """Check that the path is relative and has no ``..`` element."""
    if target.startswith("/"):
        yield invalid(path, target, "must be a relative path")
    yield from no_backsteps(target, path)


def inside_volume(target: str, path: str) -> Errors:
    """Check that the path stays inside the volume and is not reserved by its writer
    (``..data``)."""
    yield from descending(target, path)
    if target.startswith("..") and not target.startswith("../"):
        yield invalid(path, target, "must not start with '..'")


def file_mode(mode: int | None, path: str) -> Errors:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")
