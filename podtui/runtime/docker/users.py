"""Find the user of a container's first process. Pure functions.

The engine resolves names with the image's ``/etc/passwd`` and ``/etc/group``; this module does the
same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

User = tuple[int, int, tuple[int, ...]]
"""Uid, gid, and supplementary groups, beginning with the gid."""


@dataclass(frozen=True, slots=True)
class Accounts:
    """``users`` are (name, uid, gid), ``groups`` are (name, gid, members), in the files' order."""

    users: tuple[tuple[str, int, int], ...] = ()
    groups: tuple[tuple[str, int, tuple[str, ...]], ...] = ()


def read_accounts(passwd: bytes, group: bytes) -> Accounts:
    """Parse the two files; malformed lines are skipped."""
    users = [
        (fields[0], int(fields[2]), int(fields[3]))
        for fields in _lines(passwd, 4)
        if fields[2].isdecimal() and fields[3].isdecimal()
    ]
    groups = [
        (fields[0], int(fields[2]), tuple(fields[3].split(",")) if fields[3:] else ())
        for fields in _lines(group, 3)
        if fields[2].isdecimal()
    ]
    return Accounts(tuple(users), tuple(groups))


def needs_accounts(spec: str) -> bool:
    """Return whether a ``User`` is anything other than ``uid:gid``."""
    uid, _, gid = spec.partition(":")
    return not (uid.isdecimal() and gid.isdecimal())


def process_user(spec: str, added: Iterable[str], accounts: Accounts | None) -> User | None:
    """Resolve the ``User`` of a container, with its additional groups. None if it cannot be
    resolved: it needs ``accounts`` that are unknown, or a name is not in them."""
    if accounts is None:
        if needs_accounts(spec):
            return None
        accounts = Accounts()
    wanted, _, group = spec.partition(":")
    named = wanted or "0"
    entry = next((u for u in accounts.users if named in (u[0], str(u[1]))), None)
    if entry is None:
        if not named.isdecimal():
            return None
        entry = ("", int(named), 0)
    name, uid, gid = entry
    of_image: list[int] = []
    if group:
        known = (g[1] for g in accounts.groups if group in (g[0], str(g[1])))
        own = next(known, int(group) if group.isdecimal() else None)
        if own is None:
            return None
        gid = own
    elif name:
        of_image = [g[1] for g in accounts.groups if name in g[2]]
    more = [int(one) for one in added if one.isdecimal()]
    return uid, gid, tuple(dict.fromkeys((gid, *of_image, *more)))


def _lines(content: bytes, least: int) -> list[list[str]]:
    rows = [line.strip().split(":") for line in content.decode("utf-8", "replace").splitlines()]
    return [row for row in rows if len(row) >= least and not row[0].startswith("#")]
