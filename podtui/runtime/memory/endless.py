"""Foresees whether a loop can end by itself; if not, it only matters to who reads its output."""

from __future__ import annotations

from podtui.runtime.memory.syntax import (
    Background,
    Chain,
    Command,
    For,
    Group,
    If,
    Loop,
    Pipe,
    Script,
    Simple,
    Text,
    Word,
)


def is_endless(loop: Loop) -> bool:
    """Whether nothing in a loop can end it, so that it only matters to who reads its output."""
    match loop.condition:
        case (Simple(assignments=(), words=(word,)),):
            constant = _plain(word) in ("false",) if loop.until else _plain(word) in (":", "true")
        case _:
            constant = False
    return constant and not _may_leave(loop.body)


def _plain(word: Word) -> str:
    return "".join(part.text for part in word if isinstance(part, Text))


def _may_leave(script: Script) -> bool:
    return any(_leaves(command) for command in script)


def _leaves(command: Command) -> bool:
    match command:
        case Simple(words=words):
            first = _plain(words[0]) if words else ""
            told = any(isinstance(part, Text) and "exit" in part.text for w in words for part in w)
            return first in ("exit", "break", "return", "exec", "tail", "stress") or told
        case Chain(first, rest):
            return _leaves(first) or any(_leaves(following) for _, following in rest)
        case Pipe(parts):
            return any(_leaves(part) for part in parts)
        case Background(inner):
            return _leaves(inner)
        case Group(body) | For(body=body):
            return _may_leave(body)
        case Loop(condition, body):
            return _may_leave(condition) or _may_leave(body)
        case If(branches, otherwise):
            nested = any(_may_leave(c) or _may_leave(b) for c, b in branches)
            return nested or (otherwise is not None and _may_leave(otherwise))
