"""Hosts and ports that a text names, such as the value of an environment variable.

Only well-formed names are returned. A name that is no URL, and is not written like the name of a
Service (``web.shop.svc``), is a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

MAX_TEXT: Final = 16 * 1024
"""A longer text is read up to here."""
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME: Final = rf"{_LABEL}(?:\.{_LABEL}){{0,9}}"
_URL: Final = re.compile(
    rf"\b[a-z][a-z0-9+-]{{1,20}}://(?:[^\s/@'\"]{{0,200}}@)?"
    rf"(?P<hosts>{_NAME}\.?(?::\d{{1,5}})?(?:,{_NAME}(?::\d{{1,5}})?){{0,9}})(?![^\s/?#'\",;)\]}}>|&])",
    re.IGNORECASE,
)
_HOST_PORT: Final = re.compile(rf"(?P<host>{_NAME})\.?:(?P<port>\d{{1,5}})(?:/\S*)?", re.IGNORECASE)
_BARE: Final = re.compile(rf"({_NAME})\.?", re.IGNORECASE)
_CLUSTER: Final = re.compile(rf"{_NAME}\.svc(?:\.{_NAME})?\.?", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_DIALLED: Final = re.compile(
    rf"\b(?:nc|ncat|telnet)\s+(?:-\S+\s+(?:\d+\s+)?){{0,6}}(?P<host>{_NAME})\s+(?P<port>\d{{1,5}})\b"
)
_ASKED: Final = re.compile(
    rf"\b(?:nslookup|dig|ping|getent\s+hosts)\s+(?:-\S+\s+(?:\d+\s+)?){{0,6}}(?P<host>{_NAME})"
    r"(?![\w.:])"
)
_ENVIRONMENT: Final = re.compile(r"\b([A-Z][A-Z0-9_]*)_SERVICE_(?:HOST|PORT)\b")
_TOKENS: Final = re.compile(r"[^\s,;'\"=|&()<>]+")
_LOCAL: Final = frozenset({"localhost", "localhost.localdomain"})
_MEANT: Final = re.compile(
    r"(?:^|[_.-])(?:host|hosts|hostname|addr|address|server|servers|url|uri|endpoint|broker|brokers"
    r"|upstream|backend|dsn|peer|peers|bootstrap)(?:$|[_.-])"
)
_LARGEST: Final = 65535


@dataclass(frozen=True, slots=True)
class Host:
    """A host that a text names. ``port`` is 0 if the text does not tell it. Not ``sure``: the text
    may mean something else, even if the name of its variable announces a host."""

    name: str
    port: int = 0
    sure: bool = False
    announced: bool = False


def names_host(name: str) -> bool:
    """Return whether the name of a variable, a key or an option announces a host: ``DB_HOST``,
    ``redis.address``, ``--server``."""
    return _MEANT.search(name.lower().strip("-")) is not None


def hosts_of(text: str, name: str = "") -> list[Host]:
    """Return the hosts that a value names, once each; ``name`` is that of its variable."""
    text = text[:MAX_TEXT]
    return _unique((*_urls(text), *_dialled(text), *_tokens(text, announced=names_host(name))))


def option_hosts(argument: str) -> list[Host]:
    """Return the hosts of one argument: ``--db-host=db`` announces its value."""
    option, equals, value = argument.partition("=")
    if equals and option.startswith("-") and not any(char.isspace() for char in option):
        return hosts_of(value, option)
    return hosts_of(argument)


def environment_prefixes(text: str) -> list[str]:
    """Return the prefixes of the Service variables that a text uses: ``DB`` of
    ``$(DB_SERVICE_HOST)``."""
    return list(dict.fromkeys(_ENVIRONMENT.findall(text[:MAX_TEXT])))


def environment_prefix(service: str) -> str:
    """Return the prefix of the variables about a Service."""
    return service.upper().replace("-", "_")


def is_address(name: str) -> bool:
    return _ADDRESS.fullmatch(name) is not None


def _urls(text: str) -> Iterator[Host]:
    for match in _URL.finditer(text):
        for part in match["hosts"].split(","):
            host, _, port = part.partition(":")
            yield Host(host, _port(port), sure=True)


def _dialled(text: str) -> Iterator[Host]:
    for match in _DIALLED.finditer(text):
        yield Host(match["host"], _port(match["port"]), sure=True)
    for match in _ASKED.finditer(text):
        yield Host(match["host"], sure=True)


def _tokens(text: str, *, announced: bool) -> Iterator[Host]:
    items = [item.strip() for item in text.split(",")]
    if all(_BARE.fullmatch(item) or _HOST_PORT.fullmatch(item) for item in items):
        for item in items:
            host, colon, port = item.partition(":")
            number = _port(port.partition("/")[0])
            sure = bool(_CLUSTER.fullmatch(host)) or (announced and bool(colon))
            yield Host(host, number, sure=sure, announced=announced)
        return
    for token in _TOKENS.findall(text):
        if match := _HOST_PORT.fullmatch(token):
            yield Host(match["host"], _port(match["port"]))
        elif _CLUSTER.fullmatch(token):
            yield Host(token, sure=True)


def _port(text: str) -> int:
    number = int(text) if text else 0
    return number if number <= _LARGEST else 0


def _unique(hosts: Iterable[Host]) -> list[Host]:
    """Merge hosts of the same name and port; a port is better than none."""
    result: dict[tuple[str, int], Host] = {}
    for host in hosts:
        name = host.name.lower().rstrip(".")
        if name in _LOCAL or name.isdecimal() or name.startswith("127."):
            continue
        key = (name, host.port)
        old = result.get(key)
        if old is None or host.sure > old.sure:
            result[key] = replace(host, name=name)
    return [
        host
        for (name, port), host in result.items()
        if port or not any(other == name and number for other, number in result)
    ]
