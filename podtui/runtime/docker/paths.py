"""Paths inside a container or sandbox, looked at through the engine: what is there, and sub-paths.

A sub-path is resolved here, link by link, because the engine follows the links of a bind's source
out of the volume. Between this look and the engine's mount a container that shares the volume could
still swap a directory for a link: the API has no way to mount what was looked at.
"""

from __future__ import annotations

import base64
import json
import posixpath
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from podtui.runtime.docker.errors import Refused
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.storage import Entry

_LINK: Final = 1 << 27
_DIRECTORY: Final = 1 << 31
_MOST_LINKS: Final = 40
_STAT_SECONDS: Final = 30.0
STAT_HEADER: Final = "X-Docker-Container-Path-Stat"


@dataclass(frozen=True, slots=True)
class PathStat:
    mode: int
    """Permission bits alone."""
    directory: bool
    target: str
    """Of a symlink, empty for anything else."""


def read_stat(header: str | None) -> PathStat | None:
    if not header:
        return None
    found: dict[str, Any] = json.loads(base64.b64decode(header))
    mode = int(found["mode"])
    return PathStat(
        mode & 0o777, bool(mode & _DIRECTORY), str(found["linkTarget"]) if mode & _LINK else ""
    )


async def stat_path(link: Link, container_id: str, path: str) -> PathStat | None:
    """What is at ``path``, links not followed at its end; None for nothing. Raises `Refused`."""
    try:
        async with link.wire.open(
            "HEAD",
            f"/containers/{quote(container_id, safe='')}/archive",
            query={"path": path},
            total=_STAT_SECONDS,
        ) as response:
            return read_stat(response.headers.get(STAT_HEADER))
    except Refused as error:
        if error.status != 404:
            raise
        return None


class Escapes(ValueError):
    """A sub-path leads out of its volume."""


async def resolve(
    link: Link, container_id: str, base: str, sub_path: str
) -> tuple[str, tuple[Entry, ...]]:
    """Where ``sub_path`` of the directory ``base`` leads: a path relative to ``base`` without
    links, and the directories to make for it (relative to the root of the container's paths),
    with the mode of ``base``. Raises `Escapes`, `Refused`."""
    top = await stat_path(link, container_id, base)
    mode = top.mode if top else 0o755
    waiting = [part for part in sub_path.split("/") if part not in ("", ".")][::-1]
    done: list[str] = []
    missing: list[Entry] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            if not done:
                raise Escapes(sub_path)
            done.pop()
            continue
        here = posixpath.join(base, *done, part)
        found = None if missing else await stat_path(link, container_id, here)
        if found is None:
            missing.append(Entry(here, mode))
        elif found.target:
            links += 1
            target = _relative(base, posixpath.join(base, *done), found.target)
            if target is None or links > _MOST_LINKS:
                raise Escapes(sub_path)
            waiting += [p for p in target.split("/") if p not in ("", ".")][::-1]
            continue
        done.append(part)
    return "/".join(done), tuple(missing)


def _relative(base: str, folder: str, target: str) -> str | None:
    """A link's target as seen from ``folder``; engines may give it absolute, as resolved."""
    if not target.startswith("/"):
        return target
    if target == base or target.startswith(base + "/"):
        return posixpath.relpath(target, folder)
    return None
