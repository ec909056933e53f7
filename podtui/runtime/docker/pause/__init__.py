"""The sandbox image: a static program of a few hundred bytes, and the files of a pod's volume.

The program holds the pod's namespaces; run beside itself with arguments it renames and removes
files, in one step each, which uploads can't (see its source).

The engine copies what an image has at a volume's mount point into a new, empty volume. So the image
carries spare directories and termination files, with the modes that pods need, and most pods need
no upload (``docs/decisions/0003-sandbox-start-cost.md``).
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
"""Where a pod's volume is mounted in its sandbox."""
SPARE_DIRECTORIES: Final = tuple(f"v/{number:02}" for number in range(16))
"""Of mode 0777, root's: what an emptyDir without wishes is."""
SPARE_FILES: Final = tuple(f"t/{number:02}" for number in range(16))
"""Empty, of mode 0666: what a termination message needs."""
PAUSE_PROGRAM: Final = "/pause"
PAUSE_LABEL: Final = "podtui.dev/pause"
"""Of the image, and so of every sandbox: the version of the program in it."""
CHANGES: Final = [f'ENTRYPOINT ["{PAUSE_PROGRAM}"]', f"LABEL {PAUSE_LABEL}={PAUSE_VERSION}"]

_FOLDER = Path(__file__).parent
_ARCHITECTURES: Final = {
    "amd64": "amd64",
    "x86_64": "amd64",
    "arm64": "arm64",
    "aarch64": "arm64",
}


def pause_program(architecture: str) -> bytes:
    """The program for an engine's architecture. Raises `EngineError` where there is none."""
    known = _ARCHITECTURES.get(architecture)
    if known is None:
        raise EngineError(f"podtui has no pause program for {architecture} (amd64 and arm64 only)")
    return (_FOLDER / f"pause_{known}").read_bytes()


def pause_tar(architecture: str) -> bytes:
    """The image's root file system, to be imported. Raises `EngineError`."""
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
