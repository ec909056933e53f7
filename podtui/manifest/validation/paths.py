"""Rules for paths: relative ones stay inside, and none climbs; file modes."""

from __future__ import annotations

from podtui.manifest.validation.errors import Errors, invalid


def no_backsteps(target: str, path: str) -> Errors:
    """No ``..`` among the elements."""
    if ".." in target.split("/"):
        yield invalid(path, target, "must not contain '..'")


def descending(target: str, path: str) -> Errors:
    """Relative, and without ``..``."""
    if target.startswith("/"):
        yield invalid(path, target, "must be a relative path")
    yield from no_backsteps(target, path)


def inside_volume(target: str, path: str) -> Errors:
    """Descending, and not a name that the volume's own writer keeps (``..data``)."""
    yield from descending(target, path)
    if target.startswith("..") and not target.startswith("../"):
        yield invalid(path, target, "must not start with '..'")


def file_mode(mode: int | None, path: str) -> Errors:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")
