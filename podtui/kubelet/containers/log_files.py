"""The log files of pods: ``logs/pods/NS_NAME_UID/CONTAINER/N.log`` (kubelet.md §16, 6.5).

The engine writes the logs. The kubelet's files are links to the engine's, or empty if the engine
has no file on this machine. N is the restart count, which thus survives even if no container is
left. Plain functions compute the wanted files; `LogFiles` creates them in threads.
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

from podtui.kubelet.types import ObservedPod
from podtui.private_files import make_directory, open_private

_LOG = logging.getLogger(__name__)
LOGS: Final = "logs"
"""Name of the directory below the root directory."""
_NUMBERED: Final = re.compile(r"(\d+)\.log(\..*)?")
_LONGEST_NAME: Final = 255
_SUFFIX: Final = ".log"


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log file of one instance.

    ``link`` is its name in the directory of all containers' logs; ``target`` is the engine's file,
    empty for none.
    """

    container: str
    number: int
    link: str
    target: str = ""

    @property
    def path(self) -> Path:
        """Path below the pod's directory."""
        return Path(self.container, f"{self.number}{_SUFFIX}")


def pod_directory(namespace: str, name: str, uid: str) -> str:
    """Return ``NS_NAME_UID``, empty if a part is not allowed in a file name."""
    directory = f"{namespace}_{name}_{uid}"
    return "" if "/" in directory or "\0" in directory else directory


def possible_uids(directory: str) -> tuple[str, ...]:
    """Return the UIDs that such a directory may belong to: a UID may contain underscores."""
    pieces = directory.split("_")
    return tuple("_".join(pieces[index:]) for index in range(2, len(pieces)))


def number_of(file_name: str) -> int | None:
    """Return the restart count of a log file, rotated or not; None for any other file."""
    match = _NUMBERED.fullmatch(file_name)
    return None if match is None else int(match[1])


def next_count(file_names: Iterable[str]) -> int:
    """Return the restart count after the highest of these log files; 0 without any."""
    numbers = [number for name in file_names if (number := number_of(name)) is not None]
    return max(numbers, default=-1) + 1


def log_files(observed: ObservedPod, *, local: bool) -> tuple[LogFile, ...]:
    """Return the log files of existing instances. ``local``: the engine's files are here."""
    return tuple(
        LogFile(
            container=container.name,
            number=container.restart_count,
            link=_link_name(observed, container.name, container.id),
            target=container.log_path if local else "",
        )
        for container in observed.containers
    )


def outdated(file_names: Iterable[str], lowest: int) -> tuple[str, ...]:
    """Return the log files of instances older than the oldest that is left (``lowest``)."""
    return tuple(
        name for name in file_names if (number := number_of(name)) is not None and number < lowest
    )


def _link_name(observed: ObservedPod, container: str, container_id: str) -> str:
    name = f"{observed.name}_{observed.namespace}_{container}-{container_id}"
    return name[: _LONGEST_NAME - len(_SUFFIX)] + _SUFFIX


class LogFiles:
    """Creates and removes log files below the kubelet's ``root_dir``; empty for no files at all.

    ``local`` returns True if the engine's files are on this machine. Failures are only logged,
    because no container depends on these files.
    """

    def __init__(self, root_dir: str, local: Callable[[], bool]) -> None:
        self._pods = Path(root_dir, LOGS, "pods") if root_dir else None
        self._links = Path(root_dir, LOGS, "containers")
        self._local = local
        self._recorded: dict[str, tuple[LogFile, ...]] = {}

    async def record(self, observed: ObservedPod) -> None:
        """Create the log files of existing instances and remove those of earlier ones."""
        directory = self._directory(observed.namespace, observed.name, observed.uid)
        files = log_files(observed, local=self._local())
        if directory is None or self._recorded.get(observed.uid) == files:
            return
        if await self._run_logged(partial(self._write, directory, files)):
            self._recorded[observed.uid] = files

    async def next_count(self, namespace: str, name: str, uid: str, container: str) -> int:
        """Return the restart count after the highest of the container's log files."""
        directory = self._directory(namespace, name, uid)
        if directory is None:
            return 0
        return next_count(await asyncio.to_thread(_names, directory / container))

    async def remove(self, namespace: str, name: str, uid: str) -> None:
        """Remove the log files of a pod that is gone."""
        self._recorded.pop(uid, None)
        directory = self._directory(namespace, name, uid)
        if directory is not None:
            await self._run_logged(partial(_remove_tree, directory))

    async def collect(self, is_known: Callable[[str], bool]) -> None:
        """Remove dead links, and the directories of pods whose UID is not known."""
        if self._pods is None:
            return
        for name in await asyncio.to_thread(_names, self._pods):
            uids = possible_uids(name)
            if uids and not any(is_known(uid) for uid in uids):
                await self._run_logged(partial(_remove_tree, self._pods / name))
        await self._run_logged(partial(_remove_dead_links, self._links))

    def _directory(self, namespace: str, name: str, uid: str) -> Path | None:
        directory = pod_directory(namespace, name, uid)
        return self._pods / directory if self._pods is not None and directory else None

    def _write(self, directory: Path, files: tuple[LogFile, ...]) -> None:
        lowest: dict[str, int] = {}
        for each in (directory.parent.parent, directory.parent, directory, self._links):
            make_directory(each)
        for file in files:
            make_directory(directory / file.container)
            lowest[file.container] = min(lowest.get(file.container, file.number), file.number)
            _put(directory / file.path, file.target)
            if file.target:
                _put(self._links / file.link, str(directory / file.path))
        for container, number in lowest.items():
            for name in outdated(_names(directory / container), number):
                (directory / container / name).unlink(missing_ok=True)

    async def _run_logged(self, work: Callable[[], object]) -> bool:
        try:
            await asyncio.to_thread(work)
        except OSError as error:
            _LOG.warning("log files: %s", error)
            return False
        return True


def _put(path: Path, target: str) -> None:
    """Link to ``target`` or, without one, create an empty file unless the path exists."""
    if target and path.is_symlink() and os.readlink(path) == target:
        return
    if not target:
        if not path.is_symlink():
            os.close(open_private(path, os.O_WRONLY | os.O_CREAT))
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
        if (directory / name).is_symlink() and _is_dangling(directory / name):
            (directory / name).unlink(missing_ok=True)


def _is_dangling(link: Path) -> bool:
    try:
        link.stat()
    except FileNotFoundError:
        return True
    except OSError:
        # The engine's directory may not be readable for us.
        return False
    return False
