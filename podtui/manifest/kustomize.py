"""Kustomizations in the folder: which files they use, and their rendered output.

``kubectl kustomize`` or ``kustomize`` renders them. The functions block and are called in threads.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import msgspec

from podtui.api.local import Diagnostic, Severity
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.document import UnreadableText, printable
from podtui.manifest.listing import (
    KUSTOMIZATIONS,
    Listed,
    Listing,
    kustomization_in,
    read_file,
    shown_path,
)
from podtui.manifest.objects import ObjectKey
from podtui.manifest.reader import read_documents
from podtui.manifest.result import ReadResult, Spot

RENDER_SECONDS: Final = 30.0
_MAX_MESSAGE: Final = 500
_LOGGED: Final = re.compile(r'err="((?:[^"\\]|\\.)*)"')
"""The message in a line that kubectl logs."""
_PROGRAMS: Final = (("kustomize", ("build",)), ("kubectl", ("kustomize",)))
_LISTS: Final = ("resources", "bases", "components", "crds", "configurations", "transformers")
_PATCHES: Final = ("patchesStrategicMerge", "generators", "validators", "openapi")


class KustomizeError(Exception):
    """Raised if a kustomization cannot be rendered; ``fix`` says what to do, if that is known."""

    def __init__(self, code: str, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.fix = fix


def without_used(listing: Listing, used: Mapping[str, str]) -> Listing:
    """Return the listing in which files and subfolders that kustomizations use are ignored."""
    files = {
        name: Listed(
            name,
            ignored=f"used by the kustomization {shown_path(used[name])}",
            link=listed.link,
            folder=listed.folder,
        )
        if name in used and listed.stamp is not None
        else listed
        for name, listed in listing.files.items()
    }
    return replace(listing, files=files)


def used_names(folder: str) -> dict[str, str]:
    """Return the names in a folder that kustomizations use, each with the name of that which uses
    it: they are not read alone."""
    used: dict[str, str] = {}
    for user, directory in _kustomizations(folder):
        for path in _references(directory):
            relative = os.path.relpath(os.path.normpath(os.path.join(directory, path)), folder)
            name = relative.split(os.sep)[0]
            if name not in ("", ".", "..", user, os.path.basename(directory)):
                used.setdefault(name, user)
    return used


def _kustomizations(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the kustomizations of a folder, as names in it, with their directories."""
    name = kustomization_in(folder)
    if name:
        yield name, folder
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if (
            not entry.name.startswith(".")
            and os.path.isdir(entry.path)
            and kustomization_in(entry.path)
        ):
            yield entry.name, entry.path


def _references(directory: str) -> Iterator[str]:
    """Yield the paths that a kustomization names."""
    try:
        data = read_file(os.path.join(directory, kustomization_in(directory))).data
        [document, *_] = read_documents(data)
    except (OSError, UnreadableText):
        # Rendering it reports the error.
        return
    value: object = document.value
    tree = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    for name in (*_LISTS, *_PATCHES):
        yield from _texts(tree.get(name))
    for name in ("patches", "patchesJson6902", "replacements"):
        for item in _maps(tree.get(name)):
            yield from _texts([item.get("path")])
    for name in ("configMapGenerator", "secretGenerator"):
        for item in _maps(tree.get(name)):
            for part in ("files", "envs"):
                yield from (text.partition("=")[2] or text for text in _texts(item.get(part)))
            yield from _texts([item.get("env")])


def _maps(value: object) -> list[dict[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def _texts(value: object) -> list[str]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str) and "\n" not in item]


def is_kustomization(path: str) -> bool:
    """Return whether an entry of the folder is rendered: a subfolder with a kustomization, or the
    kustomization of the folder itself."""
    return os.path.basename(path) in KUSTOMIZATIONS or os.path.isdir(path)


def read_kustomization(path: str, *, node_name: str) -> ReadResult:
    """Read the rendered output of the kustomization at a path, which is a subfolder or a file."""
    directory = path if os.path.isdir(path) else os.path.dirname(path)
    shown = shown_path(path)
    try:
        data = render(directory)
    except KustomizeError as error:
        failed = Diagnostic(
            severity=Severity.ERROR,
            path=shown,
            code=error.code,
            message=str(error),
            fix=error.fix,
        )
        return ReadResult(diagnostics=(failed,))
    return _of_output(read_manifest(shown, data, node_name=node_name))


def render(directory: str) -> bytes:
    """Render a kustomization. Raises `KustomizeError`."""
    commands = ((shutil.which(name), arguments) for name, arguments in _PROGRAMS)
    program, arguments = next((pair for pair in commands if pair[0]), (None, ()))
    if program is None:
        raise KustomizeError(
            "KustomizeMissing",
            "this kustomization is not rendered: neither kubectl nor kustomize is installed",
            "install kubectl or kustomize, so that the agent finds it in its PATH",
        )
    try:
        done = subprocess.run(
            [program, *arguments, os.path.abspath(directory)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=RENDER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"rendering the kustomization took longer than {RENDER_SECONDS:.0f} s"
        raise KustomizeError("KustomizeFailed", message) from None
    except OSError as error:
        message = f"{program} cannot be started: {error.strerror or error}"
        raise KustomizeError("KustomizeFailed", message) from error
    if done.returncode != 0:
        text = " ".join(done.stderr.decode("utf-8", "replace").split())
        logged = _LOGGED.search(text)
        text = logged[1] if logged is not None else text.removeprefix("Error: ")
        raise KustomizeError(
            "KustomizeFailed",
            f"the kustomization cannot be rendered: {printable(text, _MAX_MESSAGE)}",
        )
    return done.stdout


def _of_output(result: ReadResult) -> ReadResult:
    """Return the result without positions: the lines are those of the output, not of a file."""
    diagnostics = tuple(
        msgspec.structs.replace(
            d,
            message=f"{d.message} (line {d.line} of the rendered output)",
            line=None,
            column=None,
        )
        if d.line is not None
        else d
        for d in result.diagnostics
    )
    items = tuple(msgspec.structs.replace(item, line=0, places="") for item in result.items)
    references: dict[Spot, ObjectKey] = {
        (None, None, field): key for (_, _, field), key in result.references.items()
    }
    return ReadResult(
        pods=result.pods,
        documents=result.documents,
        diagnostics=diagnostics,
        references=references,
        present=result.present,
        items=items,
    )
