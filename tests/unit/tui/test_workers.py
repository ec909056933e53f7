from __future__ import annotations

import ast
from pathlib import Path

import podtui.tui

SOURCES = sorted(Path(podtui.tui.__file__).parent.rglob("*.py"))


def coroutines_given(tree: ast.AST) -> list[int]:
    """Return the lines that pass a created coroutine to ``run_worker``."""
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


def test_the_check_finds_created_coroutines() -> None:
    assert coroutines_given(ast.parse("self.run_worker(self.run(), name='x')")) == [1]
    assert coroutines_given(ast.parse("self.run_worker(partial(self.run, 1))")) == []
    assert coroutines_given(ast.parse("self.run_worker(self.run)")) == []


def test_workers_create_their_coroutines() -> None:
    """A worker cancelled before its start would leave such a coroutine unawaited."""
    texts = {source: source.read_text("utf-8") for source in SOURCES}
    found = {
        str(source): coroutines_given(ast.parse(text))
        for source, text in texts.items()
        if "run_worker" in text
    }
    assert len(found) > 5
    assert {source: lines for source, lines in found.items() if lines} == {}
