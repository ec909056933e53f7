"""Parse label and field selectors into predicates."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from podtui.server.status import bad_request

LabelTest = Callable[[Mapping[str, str]], bool]
FieldTest = Callable[[Callable[[str], str]], bool]
"""Takes a function that reads a field, and returns whether the object is selected."""

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?{_NAME}"
_VALUE = rf"(?:{_NAME})?"
_REQUIREMENT = re.compile(
    rf"""\s*(?:
        !\s*(?P<absent>{_KEY})
      | (?P<key>{_KEY})\s*(?:
            (?P<equality>==|=|!=)\s*(?P<value>{_VALUE})
          | (?P<order>[<>])\s*(?P<number>-?\d+)
          | \s(?P<membership>in|notin)\s*\((?P<values>[^()]*)\)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


def parse_labels(text: str) -> LabelTest:
    """Parse a selector such as ``a=b,c!=d,e in (f,g),h,!i``. Raises `StatusError` 400."""
    tests: list[LabelTest] = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None or (match.end() == len(text) and text.rstrip().endswith(",")):
            raise bad_request(f"unable to parse requirement: {text[position:]!r} in {text!r}")
        tests.append(_label_test(match))
        position = match.end()
    return lambda labels: all(test(labels) for test in tests)


def _label_test(match: re.Match[str]) -> LabelTest:
    if absent := match["absent"]:
        return lambda labels: absent not in labels
    key = match["key"]
    if match["equality"]:
        value, negated = match["value"], match["equality"] == "!="
        return lambda labels: (labels.get(key) == value) is not negated
    if match["membership"]:
        values = frozenset(part.strip() for part in match["values"].split(","))
        negated = match["membership"] == "notin"
        return lambda labels: (labels.get(key) in values) is not negated
    if match["order"]:
        number, greater = int(match["number"]), match["order"] == ">"
        return lambda labels: _ordered(labels.get(key), number, greater)
    return lambda labels: key in labels


def _ordered(value: str | None, number: int, greater: bool) -> bool:
    if value is None or not re.fullmatch(r"-?\d+", value):
        return False
    return int(value) > number if greater else int(value) < number


def parse_fields(text: str, known: Collection[str]) -> FieldTest:
    r"""Parse ``a=b,c!=d``, where ``\`` escapes ``\``, ``,`` and ``=``. Raises `StatusError` 400 for
    a field that is not ``known``."""
    terms: list[tuple[str, str, bool]] = []
    for term in re.findall(r"(?:\\.|[^,\\])+", text):
        match = re.fullmatch(r"([^=!\\]+)(!=|==|=)((?:\\.|[^=\\])*)", term.strip())
        if match is None:
            raise bad_request(f"invalid field selector {text!r}: can't understand {term!r}")
        field, operator, value = match.groups()
        if field not in known:
            raise bad_request(f"field label not supported: {field}")
        terms.append((field, re.sub(r"\\(.)", r"\1", value), operator == "!="))
    return lambda read: all(
        (read(field) == value) is not negated for field, value, negated in terms
    )
