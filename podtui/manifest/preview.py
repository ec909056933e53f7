"""Reads an unsaved text as if it were a file of the folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from podtui.manifest.diagnose import read_manifest
from podtui.manifest.document import Path, Position, UnreadableText
from podtui.manifest.folder_state import Folder
from podtui.manifest.listing import ignore_reason, read_file, shown_path
from podtui.manifest.reader import read_document, read_documents, split_documents
from podtui.manifest.result import ReadResult

Places = Mapping[Path, Position]


@dataclass(frozen=True, slots=True)
class Preview:
    """The folder before and after a change of the file ``name``. ``old`` and ``new`` are the
    positions of the pod's fields in both texts, of keys rather than values."""

    name: str
    before: Folder
    after: Folder
    old: Places
    new: Places


@dataclass(frozen=True, slots=True)
class PreviewReading:
    """``result`` is None if the file is to be deleted."""

    result: ReadResult | None
    old: Places = field(default_factory=dict[Path, Position])
    new: Places = field(default_factory=dict[Path, Position])


def why_no_manifest(name: str, *, strict: bool) -> str:
    """Return why a file of this name is not read; empty if it is."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        return "it is not the name of a file"
    return ignore_reason(name, strict=strict)


def read_preview(path: str, data: bytes | None, *, node_name: str, strict: bool) -> PreviewReading:
    """Read a text as if it were the file at ``path``, and locate the fields of its current content.
    Blocks."""
    try:
        before = read_file(path).data
    except OSError:
        # A file that is new or unreadable has no old positions.
        before = b""
    old = field_places(before, strict=strict)
    if data is None:
        return PreviewReading(None, old)
    result = read_manifest(shown_path(os.path.abspath(path)), data, node_name=node_name,
                           strict=strict)  # fmt: skip
    return PreviewReading(result, old, field_places(data, strict=strict))


def field_places(data: bytes, *, strict: bool) -> Places:
    """Return the positions of the fields of a manifest's first pod; empty if the text has no
    pod."""
    try:
        pods = [read_document(data)] if strict else split_documents(read_documents(data)).pods
    except UnreadableText:
        return {}
    return {**pods[0].values, **pods[0].keys} if pods else {}
