"""Parse the ports to forward, and list those that a pod declares. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from podtui.api.pods import all_containers
from podtui.api.v1 import Pod
from podtui.errors import UsageError

LARGEST = 65535


@dataclass(frozen=True, slots=True)
class Ports:
    """A pair of ports; ``local`` 0 means any free port."""

    local: int
    remote: int


def offered(pod: Pod) -> list[tuple[str, int]]:
    """Return name (may be empty) and number of the TCP ports declared by a pod's containers."""
    return [
        (port.name, port.containerPort)
        for _, container in all_containers(pod)
        for port in container.ports
        if (port.protocol or "TCP") == "TCP"
    ]


def parse_ports(text: str, pod: Pod) -> Ports:
    """Parse ``REMOTE``, ``LOCAL:REMOTE`` or ``:REMOTE`` as kubectl does; a remote port may be a
    port name. Raises `UsageError`.
    """
    first, colon, second = text.strip().partition(":")
    remote = _remote(second if colon else first, pod)
    if not colon:
        return Ports(remote, remote)
    return Ports(_number(first, "local") if first else 0, remote)


def ports_problem(text: str, pod: Pod) -> str:
    """Return why the text is invalid; empty if it is valid."""
    try:
        parse_ports(text, pod)
    except UsageError as error:
        return str(error)
    return ""


def _remote(text: str, pod: Pod) -> int:
    named = dict(offered(pod))
    if text in named and text:
        return named[text]
    if text and not text.isdecimal():
        known = ", ".join(name for name in named if name)
        raise UsageError(f"the pod has no port {text!r}" + (f"; it has {known}" if known else ""))
    return _number(text, "remote")


def _number(text: str, which: str) -> int:
    # Python refuses to parse numbers with thousands of digits.
    few = text.lstrip("0")[: len(str(LARGEST)) + 1]
    if not text.isdecimal() or not text.isascii() or not 0 < int(few or "0") <= LARGEST:
        raise UsageError(f"a {which} port is a number from 1 to {LARGEST}")
    return int(few)
