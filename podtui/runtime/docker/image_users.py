"""The user of a container's first process, from the accounts of its image.

The engine resolves names with the image's ``/etc/passwd`` and ``/etc/group``; this module does the
same. The files are read once for each image and cached.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podtui.runtime.docker.answers import mapping
from podtui.runtime.docker.archives import read_head
from podtui.runtime.docker.errors import Refused
from podtui.runtime.docker.helper_container import HelperContainers
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.paths import open_below

User = tuple[int, int, tuple[int, ...]]
"""Uid, gid, and supplementary groups, beginning with the gid."""
_KEPT: Final = 256
_LONGEST: Final = 1 << 20
_FILES: Final = ("etc/passwd", "etc/group")


class ImageAccounts:
    """A cache of ``/etc/passwd`` and ``/etc/group`` of images."""

    def __init__(self, connection: Connection, helpers: HelperContainers) -> None:
        self._connection = connection
        self._helpers = helpers
        self._known: OrderedDict[str, Accounts | None] = OrderedDict()
        """By image id, oldest entry first."""
        self._reading = asyncio.Lock()

    async def user_of(self, inspection: Mapping[str, Any]) -> User | None:
        """Return the user of an inspected container's first process; None if it is not certain.
        Raises `EngineUnavailable`."""
        spec = str(inspection["Config"].get("User") or "")
        accounts = None
        if needs_accounts(spec):
            accounts = await self._of_image(inspection)
        return process_user(spec, mapping(inspection, "HostConfig").get("GroupAdd") or (), accounts)

    async def _of_image(self, inspection: Mapping[str, Any]) -> Accounts | None:
        image = str(inspection["Image"])
        if image not in self._known:
            async with self._reading:
                if image not in self._known:
                    self._known[image] = await self._read(inspection, image)
                    if len(self._known) > _KEPT:
                        self._known.popitem(last=False)
        return self._known.get(image)

    async def _read(self, inspection: Mapping[str, Any], image: str) -> Accounts | None:
        link = self._connection.link
        if link.info.local:
            near = await asyncio.to_thread(local_accounts, mapping(inspection, "GraphDriver"))
            if near is not None:
                return near
        try:
            # Read from a new container, because a running one may have changed its files.
            async with self._helpers.create(image=image) as helper:
                files = [await read_head(link, helper, f"/{name}", _LONGEST) for name in _FILES]
        except Refused:
            # The image has been removed.
            return None
        return read_accounts(*(content or b"" for content in files))


def local_accounts(driver: Mapping[str, Any]) -> Accounts | None:
    """Read the image layers of a container if they are on this machine; else return None."""
    reported = str(mapping(driver, "Data").get("LowerDir") or "")
    if driver.get("Name") != "overlay2" or not reported:
        return None
    try:
        return read_accounts(*(_topmost(reported.split(":"), name) for name in _FILES))
    except OSError:
        return None


def _topmost(layers: list[str], name: str) -> bytes:
    """Read a file from the first layer that has it; empty if none has it. Raises OSError, also if a
    layer marks the file as deleted by a device node, as overlay file systems do."""
    for layer in layers:
        os.stat(layer)
        try:
            with open_below(layer, name) as file:
                return file.read(_LONGEST)
        except FileNotFoundError:
            continue
    return b""


# --- resolve users


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
        group_ids = (g[1] for g in accounts.groups if group in (g[0], str(g[1])))
        group_id = next(group_ids, int(group) if group.isdecimal() else None)
        if group_id is None:
            return None
        gid = group_id
    elif name:
        of_image = [g[1] for g in accounts.groups if name in g[2]]
    more = [int(group_text) for group_text in added if group_text.isdecimal()]
    return uid, gid, tuple(dict.fromkeys((gid, *of_image, *more)))


def _lines(content: bytes, least: int) -> list[list[str]]:
    rows = [line.strip().split(":") for line in content.decode("utf-8", "replace").splitlines()]
    return [row for row in rows if len(row) >= least and not row[0].startswith("#")]
