"""Find all screens and all callers of dialogs, so that new ones are not missed."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from textual.screen import Screen

import podtui.tui
from podtui.tui.widgets import dialogs

ASKING = ("TextDialog", "Dialog", "Picker", "confirmation")


def modules() -> Iterator[ModuleType]:
    """Import and return every module of the screen."""
    for found in pkgutil.walk_packages(podtui.tui.__path__, "podtui.tui."):
        yield importlib.import_module(found.name)


def screen_classes() -> set[type[Screen[Any]]]:
    """Return every screen that is not a base class of another."""
    for _ in modules():
        pass
    found: set[type[Screen[Any]]] = set()
    todo: list[type[Any]] = [Screen]
    while todo:
        kind = todo.pop()
        below = [one for one in kind.__subclasses__() if one.__module__.startswith("podtui.")]
        is_ours = kind.__module__.startswith("podtui.")
        if is_ours and not below:
            found.add(kind)
        todo += kind.__subclasses__()
    return found


def dialog_functions() -> set[str]:
    """Return every function that creates a dialog, as ``module.function``, except generic ones."""
    found: set[str] = set()
    for module in modules():
        assert module.__file__ is not None
        with open(module.__file__, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _creates_dialog(
                node, module
            ):
                found.add(f"{module.__name__.rpartition('.')[2]}.{node.name}")
    return found - {"dialogs.confirmation"}


def _creates_dialog(function: ast.AST, module: ModuleType) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            maker = getattr(dialogs, name, None)
            # Names that are imported within a function are not attributes of its module.
            if name in ASKING and getattr(module, name, maker) is maker:
                return True
    return False
