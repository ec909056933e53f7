"""Parsers of setting values: from text (flags, the environment) or from YAML's plain values.

Each raises ValueError with a text that says what is accepted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

from podtui.api.quantity import parse_quantity

_DURATION_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "m": 60,
    "h": 3600,
}
_DURATION: Final = re.compile(r"([0-9]*\.?[0-9]+)(ns|us|µs|ms|s|m|h)")
TRUE: Final = frozenset({"1", "true", "yes", "on"})
FALSE: Final = frozenset({"0", "false", "no", "off"})


def parse_duration(text: str) -> float:
    """Parse a Go duration (``1m30s``) to seconds. Raises ValueError."""
    if text == "0":
        return 0.0
    matches = list(_DURATION.finditer(text))
    if not matches or "".join(m.group(0) for m in matches) != text:
        raise ValueError(f"{text!r} is not a duration such as 20s or 1m30s")
    return float(sum(float(m.group(1)) * _DURATION_UNITS[m.group(2)] for m in matches))


def duration(value: object) -> float:
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError("must be a duration such as 20s or 1m30s")


def duration_or(default: float) -> Callable[[object], float]:
    """Return a parser for a duration whose zero means the default, as in the files that kubeadm
    writes; the parser raises ValueError."""
    return lambda value: duration(value) or default


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in TRUE | FALSE:
        return value.lower() in TRUE
    raise ValueError("must be true or false")


def positive(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if isinstance(number, int) and not isinstance(number, bool) and number > 0:
        return number
    raise ValueError("must be an integer above 0")


def text(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("must be a non-empty string")


def any_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("must be a string")


def path(value: object) -> Path:
    given = text(value)
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"is in the home directory of an unknown user: {given}") from error


def optional_path(value: object) -> Path | None:
    return None if value == "" else path(value)


def node_name(value: object) -> str:
    name = text(value)
    if len(name) > 253 or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name):
        raise ValueError("must be a host name: letters, digits, '-' and '.'")
    return name


def address(value: object) -> str:
    try:
        return str(ipaddress.ip_address(text(value)))
    except ValueError as error:
        raise ValueError("must be an IP address such as 127.0.0.1") from error


def texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part for part in value.split(",") if part)
    if isinstance(value, list) and all(isinstance(v, str) for v in cast(list[object], value)):
        return tuple(cast(list[str], value))
    raise ValueError("must be a list of strings")


def text_map(value: object) -> Mapping[str, str]:
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part]
        if all(sep for _, sep, _ in pairs):
            return {key.strip(): val.strip() for key, _, val in pairs}
    if isinstance(value, dict):
        items = cast(dict[object, object], value)
        return {str(key): str(val) for key, val in items.items()}
    raise ValueError("must be a map such as {cpu: 100m}")


def simulated_engine(value: object) -> Mapping[str, str]:
    """Parse the machine of the simulated engine, and whether its containers complete."""
    given = dict(text_map(value))
    for key, amount in given.items():
        try:
            match key:
                case "cpu":
                    positive(amount)
                case "memory":
                    size(amount)
                case "completion":
                    given[key] = "true" if boolean(amount) else "false"
                case "user":
                    if not amount.isdecimal():
                        raise ValueError("must be a UID")
                case _:
                    raise ValueError("is unknown: there are cpu, memory, user and completion")
        except ValueError as error:
            raise ValueError(f"{key} {error}") from error
    return given


def percent(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= 100:
        return number
    raise ValueError("must be an integer from 0 to 100")


def integer(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("must be an integer")


def size(value: object) -> int:
    try:
        size = parse_quantity(str(value)).value()
    except ValueError as error:
        raise ValueError("must be an amount such as 10Mi") from error
    if size > 0:
        return size
    raise ValueError("must be an amount above 0")


def gates(value: object) -> Mapping[str, bool]:
    return {name: boolean(on) for name, on in text_map(value).items()}


def durations(value: object) -> Mapping[str, float]:
    return {name: duration(given) for name, given in text_map(value).items()}


def shutdown_steps(value: object) -> tuple[tuple[int, int], ...]:
    """Parse a list of maps to (priority, seconds) pairs."""
    if isinstance(value, list):
        steps: list[tuple[int, int]] = []
        for item in cast(list[object], value):
            if not isinstance(item, dict):
                break
            pair = cast(dict[str, object], item)
            if pair.keys() != {"priority", "shutdownGracePeriodSeconds"}:
                break
            seconds = integer(pair["shutdownGracePeriodSeconds"])
            steps.append((integer(pair["priority"]), seconds))
        else:
            return tuple(sorted(steps))
    raise ValueError("must be a list of {priority: 0, shutdownGracePeriodSeconds: 20}")


_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def taints(value: object) -> tuple[tuple[str, str, str], ...]:
    """Parse taints: ``KEY=VALUE:EFFECT`` with commas, or the list of a ``KubeletConfiguration``.
    Return key, value and effect of each."""
    items: list[tuple[str, str, str]] = []
    if isinstance(value, str):
        for part in value.split(",") if value else ():
            pair, _, effect = part.rpartition(":")
            key, _, text = pair.partition("=")
            items.append((key, text, effect))
    elif isinstance(value, list):
        for entry in cast("list[object]", value):
            fields = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
            key, text, effect = (str(fields.get(name, "")) for name in ("key", "value", "effect"))
            items.append((key, text, effect))
    else:
        raise ValueError("must be a list of taints")
    if any(not key or effect not in _EFFECTS for key, _, effect in items):
        raise ValueError(f"must be taints such as dedicated=web:NoSchedule ({', '.join(_EFFECTS)})")
    return tuple(items)


def cpu_set(value: object) -> str:
    """Parse a cpuset such as ``0-3,8`` and return it as given."""
    text = str(value).strip()
    if text and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
        raise ValueError("must be a set of CPUs such as 0-3,8")
    return text


def reserved_memory(value: object) -> tuple[tuple[int, Mapping[str, str]], ...]:
    """Parse a list of maps to (NUMA node, quantities by resource) pairs."""
    if isinstance(value, list):
        reservations: list[tuple[int, Mapping[str, str]]] = []
        for item in cast(list[object], value):
            if not isinstance(item, dict):
                break
            pair = cast(dict[str, object], item)
            if pair.keys() != {"numaNode", "limits"}:
                break
            reservations.append((integer(pair["numaNode"]), text_map(pair["limits"])))
        else:
            return tuple(reservations)
    raise ValueError("must be a list of {numaNode: 0, limits: {memory: 1Gi}}")


def one_of(*choices: str) -> Callable[[object], str]:
    """Return a parser for one of several names; the parser raises ValueError."""

    def parse(value: object) -> str:
        if value in choices:
            return str(value)
        raise ValueError(f"must be one of {', '.join(choices)}")

    return parse


# --- the screen's settings


def keys_by_binding(value: object) -> Mapping[str, str]:
    """Parse comma-separated keys by binding id: ``{app.quit: Q, app.help: [f1, "?"]}``. Raises
    ValueError. The ids and keys themselves are checked where the bindings are known."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(";") if part.strip()]
        if all(sep for _, sep, _ in pairs):
            return {name.strip(): keys.strip() for name, _, keys in pairs}
    if isinstance(value, dict):
        items = cast(dict[object, object], value)
        return {str(name): _keys(keys) for name, keys in items.items()}
    raise ValueError("must be a map of keys by binding, such as {app.quit: Q}")


def _keys(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(part) for part in cast(list[object], value)) or "none"
    if isinstance(value, dict):
        raise ValueError("must be a key, or a list of keys, for each binding")
    return str(value) or "none"


def some_of(choices: tuple[str, ...]) -> Callable[[object], tuple[str, ...]]:
    """Return a parser for lists of these names; the parser raises ValueError."""

    def parse(value: object) -> tuple[str, ...]:
        items: object = value.split(",") if isinstance(value, str) else value
        if isinstance(items, list):
            names = [str(item).strip() for item in cast(list[object], items) if str(item).strip()]
            if all(name in choices for name in names):
                return tuple(dict.fromkeys(names))
        raise ValueError(f"must be a list of {', '.join(choices)}")

    return parse


def command(value: object) -> tuple[str, ...]:
    """Parse a program and its arguments; a string is a program alone. They are never passed to a
    shell. Raises ValueError."""
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, list):
        return tuple(str(item) for item in cast(list[object], value))
    raise ValueError("must be a list such as [notify-send, podtui]")


def commands(value: object) -> tuple[object, ...]:
    """Parse the user's custom commands, unchecked, with scalars as strings. Raises ValueError. They
    are checked where the bindings are known, so that an invalid one does not affect the others."""
    if isinstance(value, list):
        return tuple(cast(list[object], value))
    raise ValueError("must be a list of commands, each a map with name and command")


def lines_by_key(value: object) -> Mapping[str, str]:
    """Parse ``:`` command lines by key: ``{ctrl+o: sort restarts}``. Raises ValueError."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(";") if part.strip()]
        if all(sep for _, sep, _ in pairs):
            return {key.strip(): line.strip() for key, _, line in pairs}
    if isinstance(value, dict):
        items = cast(dict[object, object], value).items()
        if not any(isinstance(line, (dict, list)) for _, line in items):
            return {str(key): str(line) for key, line in items}
    raise ValueError("must be a map of command lines by key, such as {ctrl+o: sort restarts}")
