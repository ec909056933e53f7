"""Runs what ``syntax`` read, as a program of steps: sleeps become pauses, output becomes lines.

The shell is process 1 of its container: a trap on TERM runs between commands, or at once where the
script waits for something in the background. Without a trap the stop signal ends it, which a real
process 1 would ignore: simulated pods are quick to stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from podtui.runtime.memory.behaviour import (
    KILLED,
    TERMINATED,
    Endless,
    Exit,
    Pause,
    Program,
    Say,
    Step,
)
from podtui.runtime.memory.commands import INSTANT, Call, integer, seconds_of
from podtui.runtime.memory.endless import is_endless
from podtui.runtime.memory.files import ContainerFiles
from podtui.runtime.memory.syntax import (
    Arithmetic,
    Background,
    Chain,
    Command,
    For,
    Group,
    If,
    Loop,
    Parameter,
    Pipe,
    Redirect,
    Script,
    ShellSyntaxError,
    Simple,
    Substitution,
    Text,
    Word,
    parse,
)

KNOWN: Final = frozenset(
    {*INSTANT, "sh", "ash", "sleep", "exec", "exit", "stress", "stress-ng", "tini"}
)
"""The commands that are understood; others only say that they ran."""
Run: TypeAlias = Generator[Step, None, int]
_DEPTH: Final = 40
_TAIL_PERIOD: Final = 1.0


class _Leave(Exception):
    """``exit``: unwinds the script."""

    def __init__(self, code: int, *, oom: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.oom = oom


class _Break(Exception):
    """``break``."""


class _Continue(Exception):
    """``continue``."""


@dataclass(frozen=True, slots=True)
class _Io:
    """Where output goes: a list collects it, a path is a file, None is the container's log."""

    out: list[str] | str | None = None
    err: list[str] | str | None = None
    stdin: str = ""
    waited: bool = False
    """Whether a signal may cut the pauses: the shell waits for a background job."""


class Shell:
    """One process that understands commands; an `Actor` once it was told what to run."""

    def __init__(
        self,
        files: ContainerFiles,
        env: dict[str, str],
        now: Callable[[], datetime],
        *,
        memory_limit: int = 0,
        lives_on: bool = True,
    ) -> None:
        self.files = files
        self.env = env
        self._now = now
        self._started: datetime | None = None
        self._slept = 0.0
        self._memory_limit = memory_limit
        self._lives_on = lives_on
        """Whether an unknown command runs on (a container) or ends at once (an exec)."""
        self.asked_for_a_shell = False
        """Whether a shell without a script was started: what comes next is typed."""
        self._status = 0
        self._substituted = 0
        self._errexit = False
        self._trap: str | None = None
        self._jobs: list[tuple[Command, _Io]] = []
        self._unfinished = {"stdout": "", "stderr": ""}
        self._depth = 0

    # --- running things

    def program(self, command: Sequence[str], stdin: str = "") -> Program:
        """Run an argv to its end, as a container's process does."""
        self._started = self._now()
        try:
            code = yield from self._argv(list(command), _Io(stdin=stdin))
            how = Exit(code)
        except _Leave as left:
            how = Exit(left.code, left.oom)
        except (_Break, _Continue):
            how = Exit(0)
        yield from self._flush()
        return how

    def terminate(self) -> Program | Exit | None:
        """What SIGTERM does, by the trap that is set."""
        if self._trap is None:
            return Exit(TERMINATED)
        return self._handler(self._trap) if self._trap else None

    def _handler(self, script: str) -> Program:
        try:
            yield from self._script(parse(script), _Io())
        except _Leave as left:
            yield from self._flush()
            return Exit(left.code, left.oom)
        except ShellSyntaxError:
            return Exit(TERMINATED)
        yield from self._flush()
        return None

    def _script(self, script: Script, io: _Io) -> Run:
        for command in script:
            self._status = yield from self._command(command, io)
            if self._errexit and self._status and isinstance(command, (Simple, Pipe, Group)):
                raise _Leave(self._status)
        return self._status if script else 0

    def _quietly(self, script: Script, io: _Io) -> Run:
        """A condition: ``set -e`` does not apply."""
        strict, self._errexit = self._errexit, False
        try:
            return (yield from self._script(script, io))
        finally:
            self._errexit = strict

    def _command(self, command: Command, io: _Io) -> Run:
        match command:
            case Simple():
                return (yield from self._simple(command, io))
            case Chain(first, rest):
                status = yield from self._quietly((first,), io)
                for operator, following in rest:
                    if (status == 0) == (operator == "&&"):
                        status = yield from self._command(following, io)
                return status
            case Pipe(parts, negated):
                status = yield from self._pipe(parts, io)
                return int(status == 0) if negated else status
            case Background(inner):
                self._jobs.append((inner, io))
                return 0
            case Group(body, redirects, subshell):
                redirected = yield from self._redirect(redirects, io)
                if redirected is None:
                    return 1
                run = self._subshell if subshell else self._script
                return (yield from run(body, redirected))
            case If(branches, otherwise):
                for condition, body in branches:
                    if (yield from self._quietly(condition, io)) == 0:
                        return (yield from self._script(body, io))
                return 0 if otherwise is None else (yield from self._script(otherwise, io))
            case For(name, words, body):
                for value in (yield from self._words(words, io)):
                    self.env[name] = value
                    if not (yield from self._round(body, io)):
                        break
                return self._status
            case Loop():
                return (yield from self._loop(command, io))

    def _loop(self, loop: Loop, io: _Io) -> Run:
        if not self._errexit and is_endless(loop):
            yield Endless()
        while ((yield from self._quietly(loop.condition, io)) == 0) != loop.until:
            before = self._slept
            if not (yield from self._round(loop.body, io)):
                break
            if self._slept == before:
                # A loop that never sleeps would spin; a real one takes its time, too.
                yield from self._sleep(0.01, io)
        return 0

    def _round(self, body: Script, io: _Io) -> Generator[Step, None, bool]:
        """One round of a loop; False when it broke out."""
        try:
            yield from self._script(body, io)
        except _Continue:
            return True
        except _Break:
            return False
        return True

    def _pipe(self, parts: Sequence[Command], io: _Io) -> Run:
        status, text = 0, io.stdin
        for part in parts[:-1]:
            collected: list[str] = []
            yield from self._command(part, replace(io, out=collected, stdin=text))
            text = "".join(collected)
        status = yield from self._command(parts[-1], replace(io, stdin=text))
        return status

    def _simple(self, command: Simple, io: _Io) -> Run:
        self._substituted = 0
        for name, word in command.assignments:
            self.env[name] = "".join((yield from self._expand(word, io)))
        words = yield from self._words(command.words, io)
        redirected = yield from self._redirect(command.redirects, io)
        if redirected is None:
            return 1
        if not words:
            return self._substituted
        return (yield from self._argv(words, redirected))

    # --- words

    def _words(self, words: Sequence[Word], io: _Io) -> Generator[Step, None, list[str]]:
        found: list[str] = []
        for word in words:
            found.extend((yield from self._expand(word, io, split=True)))
        return found

    def _expand(
        self, word: Word, io: _Io, *, split: bool = False
    ) -> Generator[Step, None, list[str]]:
        """The fields of a word: one, unless unquoted parameters fall apart or vanish."""
        fields, real = [""], False
        for part in word:
            quoted = True
            match part:
                case Text(text):
                    real = real or part.quoted
                case Parameter():
                    text, quoted = self._parameter(part), part.quoted
                case Arithmetic(source):
                    text = str(self._arithmetic(source))
                case Substitution(script):
                    collected: list[str] = []
                    inner = replace(io, out=collected)
                    self._substituted = yield from self._script(script, inner)
                    text, quoted = "".join(collected).rstrip("\n"), part.quoted
            if quoted or not split:
                fields[-1] += text
                continue
            pieces = text.split()
            if text[:1].isspace() and fields[-1]:
                fields.append("")
            if pieces:
                fields[-1] += pieces[0]
                fields.extend(pieces[1:])
                if text[-1:].isspace():
                    fields.append("")
        if not split:
            return fields
        kept = [field for field in fields if field]
        return kept or ([""] if real else [])

    def _parameter(self, parameter: Parameter) -> str:
        special = {"?": str(self._status), "$": "1", "!": "2", "#": "0", "0": "sh"}
        value = special.get(parameter.name, self.env.get(parameter.name, ""))
        if parameter.name == "RANDOM" and "RANDOM" not in self.env:
            value = str(int(self._slept * 7919) % 32768)
        value = value or parameter.default
        return str(len(value)) if parameter.length else value

    def _arithmetic(self, source: str) -> int:
        try:
            return integer(source, self.env)
        except ValueError as error:
            raise _Leave(2) from error

    # --- output

    def _redirect(
        self, redirects: Sequence[Redirect], io: _Io
    ) -> Generator[Step, None, _Io | None]:
        """None, after a complaint, when a target can't be opened."""
        for redirect in redirects:
            target = "".join((yield from self._expand(redirect.target, io)))
            if redirect.kind == "&":
                if redirect.descriptor == 1 and target == "2":
                    io = replace(io, out=io.err if io.err is not None else "/dev/stderr")
                elif redirect.descriptor == 2 and target == "1":
                    io = replace(io, err=io.out if io.out is not None else "/dev/stdout")
            elif redirect.kind == "<":
                content = self.files.read(target)
                if content is None:
                    yield from self._emit(f"sh: can't open {target}: no such file\n", io, "stderr")
                    return None
                io = replace(io, stdin=content.decode(errors="replace"))
            else:
                if not target.startswith("/dev/std") and target != "/dev/null":
                    append = redirect.kind == ">>"
                    if not self.files.write(target, b"", append=append):
                        text = f"sh: can't create {target}: Read-only file system\n"
                        yield from self._emit(text, io, "stderr")
                        return None
                io = (
                    replace(io, out=target) if redirect.descriptor == 1 else replace(io, err=target)
                )
        return io

    def _emit(self, text: str, io: _Io, stream: str) -> Generator[Step, None, None]:
        target = io.out if stream == "stdout" else io.err
        if target == "/dev/null" or not text:
            return
        if isinstance(target, list):
            target.append(text)
            return
        if target is not None and not target.startswith("/dev/std"):
            self.files.write(target, text.encode(), append=True)
            return
        if target is not None:
            stream = "stderr" if target == "/dev/stderr" else "stdout"
        *lines, self._unfinished[stream] = (self._unfinished[stream] + text).split("\n")
        for line in lines:
            yield Say(line, "stderr" if stream == "stderr" else "stdout")

    def _flush(self) -> Generator[Step, None, None]:
        if self._unfinished["stdout"]:
            yield Say(self._unfinished["stdout"])
        if self._unfinished["stderr"]:
            yield Say(self._unfinished["stderr"], "stderr")
        self._unfinished = {"stdout": "", "stderr": ""}

    def _sleep(self, seconds: float, io: _Io) -> Run:
        self._slept += seconds if math.isfinite(seconds) else 0.0
        yield Pause(seconds, interruptible=io.waited)
        return 0

    # --- commands

    def _argv(self, words: list[str], io: _Io) -> Run:
        name, arguments = words[0].rsplit("/", 1)[-1], words[1:]
        self._depth += 1
        try:
            if self._depth > _DEPTH:
                raise _Leave(2)
            match name:
                case "sh" | "ash" | "bash" | "dash":
                    return (yield from self._inner_shell(arguments, io))
                case "exit" | "return":
                    raise _Leave(int(arguments[0]) & 255 if arguments else self._status)
                case "break":
                    raise _Break
                case "continue":
                    raise _Continue
                case "command" if arguments[:1] in (["-v"], ["-V"]):
                    return (yield from self._where(arguments[1:], io))
                case "exec" | "nohup" | "eval" | "command" | "tini" | "dumb-init":
                    rest = [a for a in arguments if a != "--"]
                    status = (yield from self._argv(rest, io)) if rest else 0
                    if name == "exec" and rest:
                        raise _Leave(status)
                    return status
                case "sleep":
                    return (yield from self._sleep(seconds_of(arguments), io))
                case "wait":
                    return (yield from self._wait_for_jobs())
                case "trap":
                    self._set_trap(arguments)
                    return 0
                case "set":
                    self._errexit = self._errexit or any("e" in a for a in arguments if a[0] == "-")
                    return 0
                case "cd":
                    self.env["PWD"] = arguments[0] if arguments else "/"
                    return 0
                case "export" | "readonly" | "local":
                    for word in arguments:
                        key, equals, value = word.partition("=")
                        if equals:
                            self.env[key] = value
                    return 0
                case "unset":
                    for word in arguments:
                        self.env.pop(word, None)
                    return 0
                case "tail" if "/dev/zero" in arguments:
                    return (yield from self._eat_memory(io))
                case "stress" | "stress-ng" if any("vm" in a for a in arguments):
                    return (yield from self._eat_memory(io))
                case "tail" if any(a in ("-f", "-F", "--follow") for a in arguments):
                    return (yield from self._follow(arguments, io))
                case _:
                    return (yield from self._other(name, words, io))
        finally:
            self._depth -= 1

    def _where(self, names: list[str], io: _Io) -> Run:
        """``command -v``: the names that a shell would find."""
        found = [name for name in names if name.rsplit("/", 1)[-1] in KNOWN]
        yield from self._emit("".join(f"{name}\n" for name in found), io, "stdout")
        return 0 if found else 127

    def _inner_shell(self, arguments: list[str], io: _Io) -> Run:
        """``sh -c SCRIPT``; as the first thing of a container it is the process itself."""
        outermost = self._depth == 1
        flags = [a for a in arguments if a.startswith("-")]
        if not any("c" in flag for flag in flags):
            self.asked_for_a_shell = True
            return 0
        if any("e" in flag for flag in flags):
            self._errexit = True
        scripts = [a for a in arguments if not a.startswith("-")]
        try:
            script = parse(scripts[0] if scripts else "")
        except ShellSyntaxError as error:
            yield from self._emit(
                f"simulated: a script with what is not understood: {error}\n", io, "stdout"
            )
            return (yield from self._live_on(io))
        return (yield from (self._script if outermost else self._subshell)(script, io))

    def _subshell(self, script: Script, io: _Io) -> Run:
        """With an environment of its own, and an end of its own."""
        env, self.env = self.env, dict(self.env)
        try:
            return (yield from self._script(script, io))
        except _Leave as left:
            if left.oom:
                raise
            return left.code
        finally:
            self.env = env

    def _other(self, name: str, words: list[str], io: _Io) -> Run:
        instant = INSTANT.get(name)
        if instant is not None:
            moment = (self._started or self._now()) + timedelta(seconds=self._slept)
            result = instant(Call(words[1:], io.stdin, self.env, self.files, moment))
            yield from self._emit(result.err, io, "stderr")
            yield from self._emit(result.out, io, "stdout")
            return result.status
        if "nosuch" in name.replace("-", ""):
            yield from self._emit(f"sh: {name}: not found\n", io, "stderr")
            return 127
        yield from self._emit(f"simulated: {' '.join(words)[:200]}\n", io, "stdout")
        return (yield from self._live_on(io))

    def _live_on(self, io: _Io) -> Run:
        if not self._lives_on:
            return 0
        yield from self._flush()
        yield Endless()
        return (yield from self._sleep(math.inf, io))

    def _wait_for_jobs(self) -> Run:
        jobs, self._jobs = self._jobs, []
        status = 0
        for command, io in jobs:
            try:
                status = yield from self._command(command, replace(io, waited=True))
            except _Leave as left:
                status = left.code
        return status

    def _set_trap(self, arguments: Sequence[str]) -> None:
        action, signals = (arguments[0], arguments[1:]) if arguments else ("-", ())
        if any(signal in ("TERM", "SIGTERM", "15") for signal in signals):
            self._trap = None if action == "-" else action

    def _follow(self, arguments: Sequence[str], io: _Io) -> Run:
        """``tail -f``: what is there, then what is added, for ever."""
        paths = [a for a in arguments if not a.startswith(("-", "+")) and not a.isdigit()]
        seen = 0
        yield Endless()
        while True:
            content = (self.files.read(paths[0]) if paths else None) or b""
            if len(content) > seen:
                yield from self._emit(content[seen:].decode(errors="replace"), io, "stdout")
            seen = len(content)
            yield from self._sleep(_TAIL_PERIOD, io)

    def _eat_memory(self, io: _Io) -> Run:
        if not self._memory_limit:
            return (yield from self._live_on(io))
        yield from self._sleep(0.5, io)
        raise _Leave(KILLED, oom=True)
