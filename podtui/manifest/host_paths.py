"""Relative paths in ``hostPath`` volumes. A kubelet passes them on, and an engine takes them as the
names of its own volumes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from podtui.api.v1 import PodSpec
from podtui.manifest.document import Path, Problem, quoted

_LONGEST: Final = 200


def relative_host_paths(
    spec: PodSpec, manifest: str, prefix: Path = ("spec",)
) -> Iterator[Problem]:
    """Yield an error for each relative path. ``manifest`` is the path of the file; its fix resolves
    the path against the file's folder, or ``~`` against the home directory."""
    for index, volume in enumerate(spec.volumes):
        if volume.hostPath is None or volume.hostPath.path.startswith("/"):
            continue
        path = volume.hostPath.path
        if not path:
            continue
        absolute = absolute_host_path(path, manifest)
        shown = quoted(absolute, _LONGEST)
        # A fix writes what it shows, so that nothing may be cut off or escaped.
        exact = absolute and shown == f'"{absolute}"'
        advice = f"did you mean {shown}?" if exact else "write the whole path, from / on"
        yield Problem(
            code="FieldValueInvalid",
            message=f"Invalid value: {quoted(path, _LONGEST)}: must be an absolute path",
            path=(*prefix, "volumes", index, "hostPath", "path"),
            fix=advice,
        )


def absolute_host_path(path: str, manifest: str) -> str:
    """Return the absolute form of a relative path; empty if it is not known."""
    if path == "~" or path.startswith("~/"):
        home = os.path.expanduser("~")
        return os.path.normpath(home + path[1:]) if home.startswith("/") else ""
    if path.startswith("~") or not manifest.startswith("/"):
        return ""
    return os.path.normpath(os.path.join(os.path.dirname(manifest), path))
