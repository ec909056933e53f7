"""Where a pod's logs lie: ``logs/pods/NS_NAME_UID/CONTAINER/N.log`` (reference §16, 6.5).

The engine writes the logs; a kubelet's places are links to its files, or empty where the engine has
no file here. N is the restart count, so that it survives though no container is left to tell it.
Plain functions say what is to be there, `LogFiles` sees to it in threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from podtui.kubelet.base.types import ObservedPod

_LOG = logging.getLogger(__name__)
LOGS: Final = "logs"
"""Below the root directory."""
_NUMBERED: Final = re.compile(r"(\d+)\.log(\..*)?")
_LONGEST_NAME: Final = 255
_SUFFIX: Final = ".log"


@dataclass(frozen=True, slots=True)
class LogFile:
    """One instance's place. ``link`` is its name among all containers' logs; ``target`` the
    engine's file, empty for none."""

    container: str
    number: int
    link: str
    target: str = ""

    @property
    def path(self) -> Path:
        """Below the pod's directory."""
        return Path(self.container, f"{self.number}{_SUFFIX}")


def pod_directory(namespace: str, name: str, uid: str) -> str:
    """``NS_NAME_UID``; empty where a part cannot be in a file's name."""
    found = f"{namespace}_{name}_{uid}"
    return "" if "/" in found or "\0" in found else found


def possible_uids(directory: str) -> tuple[str, ...]:
    """The UIDs that such a directory may be of: one may have underscores of its own."""
    pieces = directory.split("_")
    return tuple("_".join(pieces[index:]) for index in range(2, len(pieces)))


def number_of(file_name: str) -> int | None:
    """The restart count of a log file, rotated ones included; None for any other file."""
    found = _NUMBERED.fullmatch(file_name)
    return None if found is None else int(found[1])


def next_count(file_names: Iterable[str]) -> int:
    """The restart count that follows those of a container's log files; 0 where there are none."""
    numbers = [number for name in file_names if (number := number_of(name)) is not None]
    return max(numbers, default=-1) + 1


def log_files(observed: ObservedPod, *, local: bool) -> tuple[LogFile, ...]:
    """What is to be there for the instances that exist. ``local``: the engine's files are here."""
    return tuple(
        LogFile(
            container=one.name,
            number=one.restart_count,
            link=_link_name(observed, one.name, one.id),
            target=one.log_path if local else "",
        )
        for one in observed.containers
    )


def outdated(file_names: Iterable[str], lowest: int) -> tuple[str, ...]:
    """Which log files belong to instances older than the oldest that is left (``lowest``)."""
    return tuple(
        name for name in file_names if (number := number_of(name)) is not None and number < lowest
    )


def _link_name(observed: ObservedPod, container: str, container_id: str) -> str:
    name = f"{observed.name}_{observed.namespace}_{container}-{container_id}"
    return name[: _LONGEST_NAME - len(_SUFFIX)] + _SUFFIX


class LogFiles:
    """``root_dir`` is the kubelet's, empty for no files at all; ``local`` says whether the engine's
    files are this machine's. A failure is logged: nothing that runs depends on these files."""

    def __init__(self, root_dir: str, local: Callable[[], bool]) -> None:
        self._pods = Path(root_dir, LOGS, "pods") if root_dir else None
        self._links = Path(root_dir, LOGS, "containers")
        self._local = local
        self._recorded: dict[str, tuple[LogFile, ...]] = {}

    async def record(self, observed: ObservedPod) -> None:
        """Have the places of the instances that exist, and none of those before them."""
        directory = self._directory(observed.namespace, observed.name, observed.uid)
        files = log_files(observed, local=self._local())
        if directory is None or self._recorded.get(observed.uid) == files:
            return
        if await self._quietly(partial(self._write, directory, files)):
            self._recorded[observed.uid] = files

    async def next_count(self, namespace: str, name: str, uid: str, container: str) -> int:
        """The restart count that follows the container's log files."""
        directory = self._directory(namespace, name, uid)
        if directory is None:
            return 0
        return next_count(await asyncio.to_thread(_names, directory / container))

    async def remove(self, namespace: str, name: str, uid: str) -> None:
        """Nothing of the pod is left."""
        self._recorded.pop(uid, None)
        directory = self._directory(namespace, name, uid)
        if directory is not None:
            await self._quietly(partial(_remove_tree, directory))

    async def collect(self, known: Callable[[str], bool]) -> None:
        """Remove the directories of pods that ``known`` denies, by UID, and links to nothing."""
        if self._pods is None:
            return
        for name in await asyncio.to_thread(_names, self._pods):
            uids = possible_uids(name)
            if uids and not any(known(uid) for uid in uids):
                await self._quietly(partial(_remove_tree, self._pods / name))
        await self._quietly(partial(_remove_dead_links, self._links))

    def _directory(self, namespace: str, name: str, uid: str) -> Path | None:
        directory = pod_directory(namespace, name, uid)
        return self._pods / directory if self._pods is not None and directory else None

    def _write(self, directory: Path, files: tuple[LogFile, ...]) -> None:
        lowest: dict[str, int] = {}
        for file in files:
            known = lowest.get(file.container, file.number)
            lowest[file.container] = min(known, file.number)
            _put(directory / file.path, file.target)
            if file.target:
                _put(self._links / file.link, str(directory / file.path))
        for container, number in lowest.items():
            for name in outdated(_names(directory / container), number):
                (directory / container / name).unlink(missing_ok=True)

    async def _quietly(self, work: Callable[[], object]) -> bool:
        try:
            await asyncio.to_thread(work)
        except OSError as error:
            _LOG.warning("log files: %s", error)
            return False
        return True


def _put(path: Path, target: str) -> None:
    """Make a link to ``target``, or for none an empty file that leaves what is there alone."""
    if target and path.is_symlink() and os.readlink(path) == target:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if not target:
        if not path.is_symlink():
            path.touch()
        return
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove_tree(directory: Path) -> None:
    if directory.is_symlink() or not directory.is_dir():
        directory.unlink(missing_ok=True)
    else:
        shutil.rmtree(directory)


def _remove_dead_links(directory: Path) -> None:
    for name in _names(directory):
        if (directory / name).is_symlink() and _leads_nowhere(directory / name):
            (directory / name).unlink(missing_ok=True)


def _leads_nowhere(link: Path) -> bool:
    try:
        link.stat()
    except FileNotFoundError:
        return True
    except OSError:
        # The engine's directory is not ours to look into.
        return False
    return False
