"""Rules for paths, which must be relative and without ``..`` in most places, and for file modes."""

from __future__ import annotations

from podtui.manifest.validation.errors import Errors, invalid


def no_backsteps(target: str, path: str) -> Errors:
    """Check that no path element is ``..``."""
    if ".." in target.split("/"):
        yield invalid(path, target, "must not contain '..'")


def descending(target: str, path: str) -> Errors:
    """Check that the path is relative and has no ``..`` element."""
    if target.startswith("/"):
        yield invalid(path, target, "must be a relative path")
    yield from no_backsteps(target, path)


def inside_volume(target: str, path: str) -> Errors:
    """Check that the path stays inside the volume and is not reserved by its writer
    (``..data``)."""
    yield from descending(target, path)
    if target.startswith("..") and not target.startswith("../"):
        yield invalid(path, target, "must not start with '..'")


def file_mode(mode: int | None, path: str) -> Errors:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")
