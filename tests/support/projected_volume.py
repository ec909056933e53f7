"""A projected volume."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from podtui.runtime.protocol import PodVolume, VolumeFile


def projected(texts: Mapping[str, str], **changes: object) -> PodVolume:
    """Write a volume as the kubelet does: a directory for the version, and links to it."""
    version = ".." + hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    files = [VolumeFile(path=f"{version}/{p}", content=t.encode()) for p, t in texts.items()]
    files.append(VolumeFile(path="..data", target=version))
    tops = dict.fromkeys(path.partition("/")[0] for path in texts)
    files += [VolumeFile(path=top, target=f"..data/{top}") for top in tops]
    values: dict[str, object] = {"name": "v", "files": tuple(files)}
    return PodVolume(**(values | changes))  # type: ignore[arg-type]
