"""The shipped knowledge about fields: hand-written texts, and facts gathered by a script."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from podtui.explain.places import PodField, pod_field_of

_HERE: Final = Path(__file__).parent
LIKE_PLAIN: Final = ("spec.initContainers", "spec.ephemeralContainers")
"""Containers with the shape of regular ones, whose facts they share."""
_ALONE: Final = (
    *LIKE_PLAIN,
    "spec.volumes.ephemeral.volumeClaimTemplate",
    "spec.containers.livenessProbe.successThreshold",
    "spec.containers.startupProbe.successThreshold",
    "spec.containers.readinessProbe.terminationGracePeriodSeconds",
)
"""Rules for these fields do not apply to other fields of the same type and name."""


class Example(msgspec.Struct, frozen=True):
    """``line`` counts from 1; ``text`` has no indentation."""

    file: str
    line: int
    text: str


class _Facts(msgspec.Struct, frozen=True):
    support: dict[str, str]
    rules: dict[str, list[str]]
    values: dict[str, list[str]]
    required: frozenset[str]
    defaults: dict[str, Any]
    departures: dict[str, str]
    examples: dict[str, Example]


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts by type and field: the purpose, the default in words, the numbers of departures."""

    fields: Mapping[str, str]
    defaults: Mapping[str, str]
    departures: Mapping[str, list[int]]


@cache
def texts() -> Texts:
    """Load `texts.toml`."""
    data: dict[str, Any] = tomllib.loads((_HERE / "texts.toml").read_text("utf-8"))
    defaults, departures = data.pop("defaults"), data.pop("departures")
    texts = {
        f"{owner}.{name}": text for owner, group in data.items() for name, text in group.items()
    }
    return Texts(texts, defaults, departures)


@cache
def _facts() -> _Facts:
    return msgspec.json.decode((_HERE / "facts.json").read_bytes(), type=_Facts)


def description(pod_field: PodField) -> str:
    """Return the purpose of a field; empty if it is not documented."""
    return next(_known(texts().fields, pod_field), "")


def support(pod_field: PodField) -> str:
    """Return ``honoured``, ``no-effect`` or ``refused``; ``mixed`` for an object whose fields
    differ; empty for a field that a manifest does not set."""
    table = _facts().support
    for path in _like_plain(pod_field):
        steps = path.split(".")
        for end in range(len(steps), 0, -1):
            if (level := table.get(".".join(steps[:end]))) is not None:
                return level
        if any(key.startswith(path + ".") for key in table):
            return "mixed"
    return ""


def rules(pod_field: PodField) -> tuple[str, ...]:
    """Return the rules of the field, in the words of the validation."""
    rule_texts = [*_facts().rules.get(pod_field.text, ())]
    for path in _like_plain(pod_field)[1:]:
        rule_texts += _facts().rules.get(path, ())
    if not pod_field.text.startswith(_ALONE):
        rule_texts += _by_name(_rules_by_name(), pod_field)
    return tuple(dict.fromkeys(rule_texts))


def required(pod_field: PodField) -> bool:
    """Return whether ``podtui check`` reports an error if the field is missing."""
    return any(path in _facts().required for path in _like_plain(pod_field))


def values(pod_field: PodField) -> tuple[str, ...]:
    """Return the valid values; empty if any value is valid."""
    for path in _like_plain(pod_field):
        if path in _facts().values:
            return tuple(_facts().values[path])
    named = _values_by_name().get(pod_field.known_as, ())
    return named[0] if len(named) == 1 else ()


def default(pod_field: PodField) -> str:
    """Return the default of the field; empty if it has none."""
    default = next(_known(texts().defaults, pod_field), "")
    if default:
        return default
    value = _facts().defaults.get(pod_field.known_as)
    if value is None:
        return ""
    if pod_field.path[-1] == "defaultMode":
        return f"0{value:o}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def departures(pod_field: PodField) -> tuple[str, ...]:
    """Return the documented departures from the kubelet that affect this field."""
    for numbers in _known(texts().departures, pod_field):
        return tuple(_facts().departures[str(number)] for number in numbers)
    return ()


def example(pod_field: PodField) -> Example | None:
    """Return an example in a shipped manifest: of the field itself, or else of one with the same
    type and name."""
    examples = _facts().examples
    for path in _like_plain(pod_field):
        if path in examples:
            return examples[path]
    similar = _examples_by_name().get(pod_field.known_as)
    return examples[similar] if similar is not None else None


def _like_plain(pod_field: PodField) -> tuple[str, ...]:
    """Return the path, and that of the same field in a regular container."""
    for prefix in LIKE_PLAIN:
        if pod_field.text == prefix or pod_field.text.startswith(prefix + "."):
            return pod_field.text, "spec.containers" + pod_field.text.removeprefix(prefix)
    return (pod_field.text,)


def _known(table: Mapping[str, Any], pod_field: PodField) -> Iterator[Any]:
    for name in (pod_field.text, pod_field.known_as, _plain(pod_field.known_as)):
        if name in table:
            yield table[name]


def _plain(name: str) -> str:
    owner, _, field = name.partition(".")
    return f"Container.{field}" if owner == "EphemeralContainer" else name


def _by_name(table: Mapping[str, list[str]], pod_field: PodField) -> list[str]:
    return table.get(_plain(pod_field.known_as), [])


@cache
def _rules_by_name() -> dict[str, list[str]]:
    by_name: dict[str, list[str]] = {}
    for path, default in _facts().rules.items():
        pod_field = pod_field_of(path)
        if pod_field is not None and not path.startswith(_ALONE):
            by_name.setdefault(pod_field.known_as, []).extend(default)
    return by_name


@cache
def _values_by_name() -> dict[str, list[tuple[str, ...]]]:
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for path, choices in _facts().values.items():
        pod_field = pod_field_of(path)
        if pod_field is not None and tuple(choices) not in by_name.setdefault(
            pod_field.known_as, []
        ):
            by_name[pod_field.known_as].append(tuple(choices))
    return by_name


@cache
def _examples_by_name() -> dict[str, str]:
    by_name: dict[str, str] = {}
    for path in _facts().examples:
        pod_field = pod_field_of(path)
        if pod_field is not None:
            by_name.setdefault(pod_field.known_as, path)
    return by_name
