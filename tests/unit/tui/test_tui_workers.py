from __future__ import annotations

import ast
from pathlib import Path

import pytest

import podtui.tui

SOURCES = sorted(Path(podtui.tui.__file__).parent.rglob("*.py"))


def coroutines_given(tree: ast.AST) -> list[int]:
    """Lines that hand ``run_worker`` a coroutine that is made already."""
    given: list[int] = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr != "run_worker" or not node.args:
            continue
        work = node.args[0]
        if isinstance(work, ast.Call) and ast.unparse(work.func) != "partial":
            given.append(node.lineno)
    return given


def test_a_coroutine_that_is_made_already_is_seen() -> None:
    assert coroutines_given(ast.parse("self.run_worker(self.run(), name='x')")) == [1]
    assert coroutines_given(ast.parse("self.run_worker(partial(self.run, 1))")) == []
    assert coroutines_given(ast.parse("self.run_worker(self.run)")) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_workers_make_their_coroutine_themselves(source: Path) -> None:
    """A worker that is cancelled before it begins leaves such a coroutine unawaited."""
    assert coroutines_given(ast.parse(source.read_text("utf-8"))) == []
