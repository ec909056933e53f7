"""The commands that end at once, as far as manifests use them: words in, text and status out."""

from __future__ import annotations

import ast
import math
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from podtui.runtime.memory.files import ContainerFiles


@dataclass(frozen=True, slots=True)
class Call:
    """One command: its arguments (without its name) and what it may look at."""

    arguments: Sequence[str]
    stdin: str
    env: Mapping[str, str]
    files: ContainerFiles
    now: datetime


@dataclass(frozen=True, slots=True)
class Result:
    status: int = 0
    out: str = ""
    err: str = ""


_ESCAPES: Final = re.compile(r"\\(n|t|r|\\|0[0-7]{1,3}|e)")
_DIRECTIVE: Final = re.compile(r"%(-?0?[0-9]*)([sd%c])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER: Final = re.compile(r"-?[0-9]+")


def _unescape(text: str) -> str:
    plain = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "e": "\x1b"}
    return _ESCAPES.sub(lambda m: plain.get(m[1]) or chr(int(m[1], 8)), text)


def _echo(call: Call) -> Result:
    words = list(call.arguments)
    end, escapes = "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags = words.pop(0)
        end = "" if "n" in flags else end
        escapes = escapes or "e" in flags
    text = " ".join(words)
    return Result(out=(_unescape(text) if escapes else text) + end)


def _printf(call: Call) -> Result:
    if not call.arguments:
        return Result(1, err="printf: missing operand\n")
    form, values = _unescape(call.arguments[0]), list(call.arguments[1:])

    def fill(match: re.Match[str]) -> str:
        if match[2] == "%":
            return "%"
        value = values.pop(0) if values else ""
        if match[2] == "d":
            number = int(value) if _NUMBER.fullmatch(value) else 0
            return f"%{match[1]}d" % number
        return f"%{match[1]}s" % value

    out = _DIRECTIVE.sub(fill, form)
    while values and _DIRECTIVE.search(form):
        out += _DIRECTIVE.sub(fill, form)
    return Result(out=out)


def _read_all(call: Call, name: str, paths: Sequence[str]) -> tuple[str, Result]:
    if not paths:
        return call.stdin, Result()
    text, err = "", ""
    for path in paths:
        content = call.stdin.encode() if path == "-" else call.files.read(path)
        if content is None:
            err += f"{name}: can't open '{path}': No such file or directory\n"
        else:
            text += content.decode(errors="replace")
    return text, Result(1 if err else 0, err=err)


def _cat(call: Call) -> Result:
    text, result = _read_all(call, "cat", call.arguments)
    return Result(result.status, text, result.err)


def _cut(call: Call, name: str) -> Result:
    """``head`` and ``tail``, which ends: ``-n N``, ``-N``, ``-c N``."""
    count, by_bytes, paths = 10, False, list[str]()
    words = list(call.arguments)
    while words:
        word = words.pop(0)
        if word in ("-n", "-c") and words:
            by_bytes, word = word == "-c", words.pop(0)
            count = int(word.lstrip("+")) if _NUMBER.fullmatch(word.lstrip("+")) else 10
        elif re.fullmatch(r"-[0-9]+", word):
            count = int(word[1:])
        elif not word.startswith("-"):
            paths.append(word)
    text, result = _read_all(call, name, paths)
    pieces = list(text) if by_bytes else text.splitlines(keepends=True)
    kept = pieces[:count] if name == "head" else pieces[max(0, len(pieces) - count) :]
    return Result(result.status, "".join(kept), result.err)


def _grep(call: Call) -> Result:
    flags = "".join(a[1:] for a in call.arguments if a.startswith("-"))
    rest = [a for a in call.arguments if not a.startswith("-")]
    if not rest:
        return Result(2, err="grep: no pattern\n")
    text, result = _read_all(call, "grep", rest[1:])
    wanted = rest[0].casefold() if "i" in flags else rest[0]
    found = [
        line
        for line in text.splitlines()
        if (wanted in (line.casefold() if "i" in flags else line)) != ("v" in flags)
    ]
    if "c" in flags:
        return Result(0 if found else 1, f"{len(found)}\n", result.err)
    out = "" if "q" in flags else "".join(f"{line}\n" for line in found)
    return Result(0 if found else 1, out, result.err)


def _wc(call: Call) -> Result:
    paths = [a for a in call.arguments if not a.startswith("-")]
    text, result = _read_all(call, "wc", paths)
    counts = {"-l": text.count("\n"), "-w": len(text.split()), "-c": len(text.encode())}
    asked = [counts[a] for a in call.arguments if a in counts] or list(counts.values())
    return Result(result.status, " ".join(map(str, [*asked, *paths])) + "\n", result.err)


def _test(call: Call) -> Result:
    words = [w for w in call.arguments if w != "]"]
    negated = bool(words) and words[0] == "!"
    return Result(int(_holds(words[1:] if negated else words, call.files) == negated))


def _holds(words: Sequence[str], files: ContainerFiles) -> bool:
    match words:
        case []:
            return False
        case [text]:
            return bool(text)
        case ["-z", text]:
            return not text
        case ["-n", text]:
            return bool(text)
        case ["-e", path]:
            return files.exists(path)
        case ["-f" | "-r" | "-x" | "-w", path]:
            return files.read(path) is not None
        case ["-s", path]:
            return bool(files.read(path))
        case ["-d", path]:
            return files.is_directory(path)
        case [left, "=" | "==", right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, operator, right] if _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right):
            order = (int(left) > int(right)) - (int(left) < int(right))
            return {
                "-eq": order == 0,
                "-ne": order != 0,
                "-lt": order < 0,
                "-le": order <= 0,
                "-gt": order > 0,
                "-ge": order >= 0,
            }.get(operator, False)
        case _:
            return False


def _seq(call: Call) -> Result:
    numbers = [int(a) for a in call.arguments if _NUMBER.fullmatch(a)]
    first, step, last = 1, 1, 1
    match numbers:
        case [last]:
            pass
        case [first, last]:
            pass
        case [first, step, last] if step:
            pass
        case _:
            return Result(1, err="seq: wrong operands\n")
    end = last + (1 if step > 0 else -1)
    return Result(out="".join(f"{n}\n" for n in range(first, end, step)[:10_000]))


def _date(call: Call) -> Result:
    form = next((a[1:] for a in call.arguments if a.startswith("+")), "%a %b %d %H:%M:%S UTC %Y")
    form = form.replace("%s", str(int(call.now.timestamp()))).replace("%N", "000000000")
    return Result(out=call.now.strftime(form) + "\n")


def _env(call: Call) -> Result:
    if call.arguments:
        value = call.env.get(call.arguments[0])
        return Result(1) if value is None else Result(out=f"{value}\n")
    return Result(out="".join(f"{k}={v}\n" for k, v in call.env.items()))


def _touch(call: Call) -> Result:
    for path in (a for a in call.arguments if not a.startswith("-")):
        if not call.files.write(path, b"", append=True):
            return Result(1, err=f"touch: {path}: Read-only file system\n")
    return Result()


def _rm(call: Call) -> Result:
    forced = any(a.startswith("-") and "f" in a for a in call.arguments)
    err = ""
    for path in (a for a in call.arguments if not a.startswith("-")):
        if not call.files.remove(path) and not forced:
            err += f"rm: can't remove '{path}': No such file or directory\n"
    return Result(1 if err else 0, err=err)


def _copy(call: Call) -> Result:
    paths = [a for a in call.arguments if not a.startswith("-")]
    content = call.files.read(paths[0]) if len(paths) == 2 else None
    if content is None:
        return Result(1, err=f"cp: can't stat '{paths[0] if paths else ''}'\n")
    target = paths[1]
    if call.files.is_directory(target):
        target = posixpath.join(target, posixpath.basename(paths[0]))
    return Result(0 if call.files.write(target, content) else 1)


def _ls(call: Call) -> Result:
    paths = [a for a in call.arguments if not a.startswith("-")] or ["."]
    out, err = "", ""
    for path in paths:
        if call.files.read(path) is not None:
            out += f"{path}\n"
        elif call.files.exists(path):
            out += "".join(f"{name}\n" for name in call.files.names(path))
        else:
            err += f"ls: {path}: No such file or directory\n"
    return Result(1 if err else 0, out, err)


def _fetch(call: Call) -> Result:
    """``wget`` and ``curl``: every address answers."""
    address = next((a for a in reversed(call.arguments) if "/" in a or ":" in a), "")
    return Result(out=f"simulated answer from {address}\n")


def integer(source: str, env: Mapping[str, str]) -> int:
    """The value of ``$((source))``. Raises `ValueError` for what is no integer arithmetic."""
    try:
        tree = ast.parse(source.replace("$", "").strip() or "0", mode="eval")
    except SyntaxError as error:
        raise ValueError(f"arithmetic syntax error: {source}") from error
    return _value(tree.body, env, 0)


def _value(node: ast.expr, env: Mapping[str, str], depth: int) -> int:
    if depth > 50:
        raise ValueError("arithmetic: too deep")
    match node:
        case ast.Constant(value=int(number)):
            return int(number)
        case ast.Name(id=name):
            text = env.get(name, "") or "0"
            return int(text) if _NUMBER.fullmatch(text) else 0
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, env, depth + 1)
        case ast.BinOp(left=left, op=operator, right=right):
            return _apply(operator, _value(left, env, depth + 1), _value(right, env, depth + 1))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            order = _value(left, env, depth + 1) - _value(right, env, depth + 1)
            return int(_compare(operator, order))
        case _:
            raise ValueError("arithmetic that is not understood")


def _apply(operator: ast.operator, left: int, right: int) -> int:
    match operator:
        case ast.Add():
            value = left + right
        case ast.Sub():
            value = left - right
        case ast.Mult():
            value = left * right
        case ast.Div() if right:
            value = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        case ast.Mod() if right:
            value = abs(left) % abs(right) * (-1 if left < 0 else 1)
        case _:
            raise ValueError("divide by zero, or an operator that is not understood")
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _compare(operator: ast.cmpop, order: int) -> bool:
    match operator:
        case ast.Lt():
            return order < 0
        case ast.LtE():
            return order <= 0
        case ast.Gt():
            return order > 0
        case ast.GtE():
            return order >= 0
        case ast.Eq():
            return order == 0
        case ast.NotEq():
            return order != 0
        case _:
            raise ValueError("a comparison that is not understood")


def seconds_of(arguments: Sequence[str]) -> float:
    """What ``sleep`` takes: numbers with a unit, added up."""
    total = 0.0
    for word in arguments:
        number, unit = (word[:-1], word[-1]) if word[-1:] in _UNITS else (word, "s")
        if number in ("inf", "infinity", "infinit"):
            return math.inf
        try:
            total += float(number) * _UNITS[unit]
        except ValueError:
            return 0.0
    return total


def _nothing(call: Call) -> Result:
    return Result()


INSTANT: Final[Mapping[str, Callable[[Call], Result]]] = {
    ":": _nothing,
    "[": _test,
    "cat": _cat,
    "cp": _copy,
    "curl": _fetch,
    "date": _date,
    "echo": _echo,
    "env": _env,
    "false": lambda _: Result(1),
    "grep": _grep,
    "head": lambda call: _cut(call, "head"),
    "hostname": lambda call: Result(out=call.env.get("HOSTNAME", "localhost") + "\n"),
    "id": lambda call: Result(out="0\n" if call.arguments else "uid=0(root) gid=0(root)\n"),
    "ls": _ls,
    "nproc": lambda _: Result(out="8\n"),
    "printenv": _env,
    "printf": _printf,
    "pwd": lambda call: Result(out=call.env.get("PWD", "/") + "\n"),
    "read": lambda _: Result(1),
    "rm": _rm,
    "seq": _seq,
    "tail": lambda call: _cut(call, "tail"),
    "test": _test,
    "touch": _touch,
    "true": _nothing,
    "uname": lambda _: Result(out="Linux\n"),
    "wc": _wc,
    "wget": _fetch,
    "whoami": lambda _: Result(out="root\n"),
    **dict.fromkeys(
        ("chgrp", "chmod", "chown", "kill", "ln", "mkdir", "nc", "sync", "ulimit", "umask"),
        _nothing,
    ),
}
