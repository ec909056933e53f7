"""The user accounts of images, read once for each image and cached."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from podtui.runtime.docker.archives import read_head
from podtui.runtime.docker.carriers import Carriers
from podtui.runtime.docker.client import mapping
from podtui.runtime.docker.errors import Refused
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.local_files import open_below
from podtui.runtime.docker.users import Accounts, User, needs_accounts, process_user, read_accounts

_KEPT: Final = 256
_LONGEST: Final = 1 << 20
_FILES: Final = ("etc/passwd", "etc/group")


class ImageAccounts:
    """A cache of ``/etc/passwd`` and ``/etc/group`` of images."""

    def __init__(self, connection: Connection, carriers: Carriers) -> None:
        self._connection = connection
        self._carriers = carriers
        self._known: OrderedDict[str, Accounts | None] = OrderedDict()
        """By image id, oldest entry first."""
        self._reading = asyncio.Lock()

    async def user_of(self, found: Mapping[str, Any]) -> User | None:
        """Return the user of an inspected container's first process; None if it is not certain.
        Raises `EngineUnavailable`."""
        spec = str(found["Config"].get("User") or "")
        accounts = None
        if needs_accounts(spec):
            accounts = await self._of_image(found)
        return process_user(spec, mapping(found, "HostConfig").get("GroupAdd") or (), accounts)

    async def _of_image(self, found: Mapping[str, Any]) -> Accounts | None:
        image = str(found["Image"])
        if image not in self._known:
            async with self._reading:
                if image not in self._known:
                    self._known[image] = await self._read(found, image)
                    if len(self._known) > _KEPT:
                        self._known.popitem(last=False)
        return self._known.get(image)

    async def _read(self, found: Mapping[str, Any], image: str) -> Accounts | None:
        link = self._connection.link
        if link.info.local:
            near = await asyncio.to_thread(local_accounts, mapping(found, "GraphDriver"))
            if near is not None:
                return near
        try:
            # Read from a new container, because a running one may have changed its files.
            async with self._carriers.carrier(image=image) as carrier:
                files = [await read_head(link, carrier, f"/{name}", _LONGEST) for name in _FILES]
        except Refused:
            # The image has been removed.
            return None
        return read_accounts(*(content or b"" for content in files))


def local_accounts(driver: Mapping[str, Any]) -> Accounts | None:
    """Read the image layers of a container if they are on this machine; else return None."""
    told = str(mapping(driver, "Data").get("LowerDir") or "")
    if driver.get("Name") != "overlay2" or not told:
        return None
    try:
        return read_accounts(*(_topmost(told.split(":"), name) for name in _FILES))
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
