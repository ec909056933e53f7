"""The sandbox image: a static program of a few hundred bytes, and the files of a pod's volume.

The program holds the pod's namespaces. Run a second time in the sandbox with arguments, it renames
and removes files atomically, which uploads can't do (see its source).

The engine copies an image's files at a volume's mount point into a new, empty volume. The image
therefore contains spare directories and termination files with the modes that pods need, so that
most pods need no upload (``docs/decisions/0003-sandbox-start-cost.md``).
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Final

from podtui.errors import EngineError

PAUSE_REPOSITORY: Final = "podtui/pause"
PAUSE_VERSION: Final = "2"
PAUSE_IMAGE: Final = f"{PAUSE_REPOSITORY}:{PAUSE_VERSION}"
POD_DIRECTORY: Final = "/podtui"
"""The mount point of a pod's volume in its sandbox."""
SPARE_DIRECTORIES: Final = tuple(f"v/{number:02}" for number in range(16))
"""Mode 0777, owned by root: the default of an emptyDir."""
SPARE_FILES: Final = tuple(f"t/{number:02}" for number in range(16))
"""Empty, mode 0666, as required for termination messages."""
PAUSE_PROGRAM: Final = "/pause"
PAUSE_LABEL: Final = "podtui.dev/pause"
"""A label of the image, inherited by every sandbox: the version of its pause program."""
CHANGES: Final = [f'ENTRYPOINT ["{PAUSE_PROGRAM}"]', f"LABEL {PAUSE_LABEL}={PAUSE_VERSION}"]

_FOLDER = Path(__file__).parent
_ARCHITECTURES: Final = {
    "amd64": "amd64",
    "x86_64": "amd64",
    "arm64": "arm64",
    "aarch64": "arm64",
}


def pause_program(architecture: str) -> bytes:
    """Return the program for an engine's architecture. Raises `EngineError` if there is none."""
    suffix = _ARCHITECTURES.get(architecture)
    if suffix is None:
        raise EngineError(f"podtui has no pause program for {architecture} (amd64 and arm64 only)")
    return (_FOLDER / f"pause_{suffix}").read_bytes()


def pause_tar(architecture: str) -> bytes:
    """Return the image's root file system as a tar for import. Raises `EngineError`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:

        def add(name: str, mode: int, content: bytes | None = None) -> None:
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            entry.size = len(content or b"")
            tar.addfile(entry, io.BytesIO(content or b""))

        add("pause", 0o755, pause_program(architecture))
        top = POD_DIRECTORY.removeprefix("/")
        for name in (top, f"{top}/v", f"{top}/t", f"{top}/volumes"):
            add(name, 0o755)
        for name in SPARE_DIRECTORIES:
            add(f"{top}/{name}", 0o777)
        for name in SPARE_FILES:
            add(f"{top}/{name}", 0o666, b"")
    return buffer.getvalue()
