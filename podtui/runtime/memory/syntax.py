"""Reads the part of the shell's language that manifests use in ``sh -c``.

Lists, ``&&``, ``||``, ``!``, pipes, background, redirections, loops, ``if``, groups, quoting,
parameters, arithmetic and command substitution. No functions, ``case`` or here documents: those
raise `ShellSyntaxError`, and the caller falls back to something simpler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias


class ShellSyntaxError(ValueError):
    """Raised for a script that is wrong, or beyond what is understood here."""


# --- the tree


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    default: str = ""
    length: bool = False
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    source: str


@dataclass(frozen=True, slots=True)
class Substitution:
    script: Script
    quoted: bool = False


Word: TypeAlias = "tuple[Text | Parameter | Arithmetic | Substitution, ...]"


@dataclass(frozen=True, slots=True)
class Redirect:
    descriptor: int
    kind: Literal[">", ">>", "<", "&"]
    target: Word


@dataclass(frozen=True, slots=True)
class Simple:
    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    condition: Script
    body: Script
    until: bool = False


@dataclass(frozen=True, slots=True)
class For:
    name: str
    words: tuple[Word, ...]
    body: Script


@dataclass(frozen=True, slots=True)
class If:
    branches: tuple[tuple[Script, Script], ...]
    otherwise: Script | None


@dataclass(frozen=True, slots=True)
class Group:
    body: Script
    redirects: tuple[Redirect, ...] = ()
    subshell: bool = False


@dataclass(frozen=True, slots=True)
class Pipe:
    parts: tuple[Command, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """``first && second || third``; the operator stands before its command."""

    first: Command
    rest: tuple[tuple[str, Command], ...]


@dataclass(frozen=True, slots=True)
class Background:
    command: Command


Command: TypeAlias = "Simple | Loop | For | If | Group | Pipe | Chain | Background"
Script: TypeAlias = "tuple[Command, ...]"

# --- tokens

_OPERATORS: Final = ("&&", "||", ";;", ";", "&", "|", "(", ")", "\n")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!]")
_BRACED: Final = re.compile(r"(#?)([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!])(?::?-(.*))?", re.DOTALL)
_REDIRECT: Final = re.compile(r"([0-9]?)(>>|>&|<&|>|<)")
_ENDINGS: Final = frozenset({"do", "done", "then", "elif", "else", "fi", "}"})


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["word", "operator", "redirect"]
    text: str
    """An operator, a redirection's kind, or a word that is plain text."""
    word: Word = ()
    descriptor: int = 1


def _closing(text: str, start: int, opening: str, closing: str) -> int:
    """Where the bracket that was opened before ``start`` closes, quotes aside."""
    depth, at = 1, start
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "'":
            at = text.find("'", at + 1)
            if at < 0:
                break
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise ShellSyntaxError(f"missing {closing}")


def _dollar(text: str, at: int, quoted: bool) -> tuple[Word, int]:
    """What begins with the ``$`` at ``at``, and where it ends."""
    if text.startswith("$((", at):
        end = _closing(text, at + 3, "(", ")")
        if not text.startswith("))", end):
            raise ShellSyntaxError("missing ))")
        return (Arithmetic(text[at + 3 : end]),), end + 2
    if text.startswith("$(", at):
        end = _closing(text, at + 2, "(", ")")
        return (Substitution(parse(text[at + 2 : end]), quoted),), end + 1
    if text.startswith("${", at):
        end = _closing(text, at + 2, "{", "}")
        match = _BRACED.fullmatch(text[at + 2 : end])
        if match is None:
            raise ShellSyntaxError(f"bad substitution {text[at : end + 1]}")
        parameter = Parameter(match[2], match[3] or "", bool(match[1]), quoted)
        return (parameter,), end + 1
    match = _PARAMETER.match(text, at + 1)
    if match is None:
        return (Text("$", quoted),), at + 1
    return (Parameter(match[0], quoted=quoted),), match.end()


def _double_quoted(text: str, at: int) -> tuple[Word, int]:
    parts: list[Text | Parameter | Arithmetic | Substitution] = [Text("", quoted=True)]
    plain = ""
    while at < len(text) and text[at] != '"':
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            following = text[at + 1]
            plain += (
                following if following in '"\\$`' else "" if following == "\n" else "\\" + following
            )
            at += 2
        elif char == "$":
            parts.append(Text(plain, quoted=True))
            plain = ""
            inner, at = _dollar(text, at, quoted=True)
            parts.extend(inner)
        else:
            plain += char
            at += 1
    if at >= len(text):
        raise ShellSyntaxError('missing "')
    parts.append(Text(plain, quoted=True))
    return tuple(parts), at + 1


def _word(text: str, at: int) -> tuple[_Token, int]:
    parts: list[Text | Parameter | Arithmetic | Substitution] = []
    start = at
    while at < len(text) and text[at] not in " \t\n;&|()<>":
        char = text[at]
        if char == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise ShellSyntaxError("missing '")
            parts.append(Text(text[at + 1 : end], quoted=True))
            at = end + 1
        elif char == '"':
            inner, at = _double_quoted(text, at + 1)
            parts.extend(inner)
        elif char == "$":
            inner, at = _dollar(text, at, quoted=False)
            parts.extend(inner)
        elif char == "`":
            end = text.find("`", at + 1)
            if end < 0:
                raise ShellSyntaxError("missing `")
            parts.append(Substitution(parse(text[at + 1 : end])))
            at = end + 1
        elif char == "\\" and at + 1 < len(text):
            if text[at + 1] != "\n":
                parts.append(Text(text[at + 1], quoted=True))
            at += 2
        else:
            parts.append(Text(char))
            at += 1
    plain = all(isinstance(part, Text) and not part.quoted for part in parts)
    return _Token("word", text[start:at] if plain else "", tuple(parts)), at


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        if text[at] in " \t\r" or text.startswith("\\\n", at):
            at += 2 if text[at] == "\\" else 1
            continue
        if text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        if text.startswith("<<", at):
            raise ShellSyntaxError("here documents are not understood")
        match = _REDIRECT.match(text, at)
        if match is not None:
            kind = "&" if match[2] in (">&", "<&") else match[2]
            descriptor = int(match[1] or ("0" if match[2].startswith("<") else "1"))
            tokens.append(_Token("redirect", kind, descriptor=descriptor))
            at = match.end()
            continue
        operator = next((o for o in _OPERATORS if text.startswith(o, at)), None)
        if operator is not None:
            tokens.append(_Token("operator", operator))
            at += len(operator)
            continue
        token, at = _word(text, at)
        tokens.append(token)
    return tokens


# --- parsing


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def script(self, *, nested: bool = False) -> Script:
        commands: list[Command] = []
        while True:
            while self._operator() in ("\n", ";"):
                self._at += 1
            if self._done() or self._operator() == ")" or self._keyword() in _ENDINGS:
                break
            command = self._chain()
            following = self._operator()
            if following == "&":
                self._at += 1
                command = Background(command)
            elif following not in ("\n", ";", ")") and not self._done():
                raise ShellSyntaxError(f"unexpected {self._tokens[self._at].text or 'word'}")
            commands.append(command)
        if not nested and not self._done():
            raise ShellSyntaxError(f"unexpected {self._tokens[self._at].text}")
        return tuple(commands)

    def _done(self) -> bool:
        return self._at >= len(self._tokens)

    def _operator(self) -> str:
        if self._done() or self._tokens[self._at].kind != "operator":
            return ""
        return self._tokens[self._at].text

    def _keyword(self) -> str:
        if self._done() or self._tokens[self._at].kind != "word":
            return ""
        return self._tokens[self._at].text

    def _expect(self, *words: str) -> str:
        found = self._keyword()
        if found not in words:
            raise ShellSyntaxError(f"expected {' or '.join(words)}")
        self._at += 1
        return found

    def _newlines(self) -> None:
        while self._operator() == "\n":
            self._at += 1

    def _chain(self) -> Command:
        first = self._pipe()
        rest: list[tuple[str, Command]] = []
        while self._operator() in ("&&", "||"):
            operator = self._operator()
            self._at += 1
            self._newlines()
            rest.append((operator, self._pipe()))
        return Chain(first, tuple(rest)) if rest else first

    def _pipe(self) -> Command:
        negated = self._keyword() == "!"
        if negated:
            self._at += 1
        parts = [self._command()]
        while self._operator() == "|":
            self._at += 1
            self._newlines()
            parts.append(self._command())
        return Pipe(tuple(parts), negated) if negated or len(parts) > 1 else parts[0]

    def _command(self) -> Command:
        if self._operator() == "(":
            self._at += 1
            body = self.script(nested=True)
            if self._operator() != ")":
                raise ShellSyntaxError("missing )")
            self._at += 1
            return Group(body, self._redirects(), subshell=True)
        match self._keyword():
            case "{":
                self._at += 1
                body = self.script(nested=True)
                self._expect("}")
                return Group(body, self._redirects())
            case "while" | "until" as word:
                self._at += 1
                condition = self.script(nested=True)
                self._expect("do")
                loop = Loop(condition, self._body(), until=word == "until")
                return self._redirected(loop)
            case "for":
                return self._redirected(self._for())
            case "if":
                return self._redirected(self._if())
            case "case" | "function" as word:
                raise ShellSyntaxError(f"{word} is not understood")
            case _:
                return self._simple()

    def _redirected(self, command: Command) -> Command:
        redirects = self._redirects()
        return Group((command,), redirects) if redirects else command

    def _body(self) -> Script:
        body = self.script(nested=True)
        self._expect("done")
        return body

    def _for(self) -> For:
        self._at += 1
        name = self._keyword()
        self._at += 1
        self._expect("in")
        words: list[Word] = []
        while not self._done() and self._tokens[self._at].kind == "word":
            words.append(self._tokens[self._at].word)
            self._at += 1
        while self._operator() in ("\n", ";"):
            self._at += 1
        self._expect("do")
        return For(name, tuple(words), self._body())

    def _if(self) -> If:
        branches: list[tuple[Script, Script]] = []
        otherwise: Script | None = None
        word = self._expect("if")
        while word in ("if", "elif"):
            condition = self.script(nested=True)
            self._expect("then")
            branches.append((condition, self.script(nested=True)))
            word = self._expect("elif", "else", "fi")
        if word == "else":
            otherwise = self.script(nested=True)
            self._expect("fi")
        return If(tuple(branches), otherwise)

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while not self._done() and self._tokens[self._at].kind == "redirect":
            found.append(self._redirect())
        return tuple(found)

    def _redirect(self) -> Redirect:
        token = self._tokens[self._at]
        self._at += 1
        if self._done() or self._tokens[self._at].kind != "word":
            raise ShellSyntaxError("a redirection needs a target")
        target = self._tokens[self._at].word
        self._at += 1
        kind: Literal[">", ">>", "<", "&"]
        kind = ">>" if token.text == ">>" else "<" if token.text == "<" else ">"
        return Redirect(token.descriptor, "&" if token.text == "&" else kind, target)

    def _simple(self) -> Simple:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while not self._done():
            token = self._tokens[self._at]
            if token.kind == "redirect":
                redirects.append(self._redirect())
                continue
            if token.kind != "word":
                break
            self._at += 1
            assigned = None if words else _assignment(token.word)
            if assigned is not None:
                assignments.append(assigned)
            else:
                words.append(token.word)
        if not (assignments or words or redirects):
            raise ShellSyntaxError(f"unexpected {self._operator() or 'end'}")
        if words and self._operator() == "(":
            raise ShellSyntaxError("functions are not understood")
        return Simple(tuple(assignments), tuple(words), tuple(redirects))


def _assignment(word: Word) -> tuple[str, Word] | None:
    """``NAME`` and what it gets, when a word is ``NAME=...``."""
    head = ""
    for index, part in enumerate(word):
        if not isinstance(part, Text) or part.quoted:
            return None
        before, equals, after = part.text.partition("=")
        head += before
        if equals:
            rest = (Text(after), *word[index + 1 :])
            return (head, rest) if _NAME.fullmatch(head) else None
    return None


@lru_cache(maxsize=512)
def parse(text: str) -> Script:
    """Raises `ShellSyntaxError`."""
    return _Parser(_tokens(text)).script()
