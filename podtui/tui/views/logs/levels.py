"""Detect the severity level of a log line from the formats that programs use."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from podtui.text.terminal_text import after_return


class Level(IntEnum):
    """A severity; lines of level UNKNOWN are shown whenever INFO lines are."""

    UNKNOWN = 0
    TRACE = 1
    DEBUG = 2
    INFO = 3
    WARN = 4
    ERROR = 5
    FATAL = 6

    @property
    def rank(self) -> int:
        """The value for comparisons: UNKNOWN counts as INFO."""
        return int(self) or int(Level.INFO)


MINIMA: Final = (Level.UNKNOWN, Level.DEBUG, Level.INFO, Level.WARN, Level.ERROR)
"""The minimum levels that a key cycles through; UNKNOWN shows all lines."""
LETTERS: Final = {
    Level.UNKNOWN: " ", Level.TRACE: "T", Level.DEBUG: "D", Level.INFO: "I", Level.WARN: "W",
    Level.ERROR: "E", Level.FATAL: "F",
}  # fmt: skip

_NAMES: Final = {
    b"trace": Level.TRACE, b"trc": Level.TRACE, b"finest": Level.TRACE, b"verbose": Level.TRACE,
    b"silly": Level.TRACE,
    b"debug": Level.DEBUG, b"dbg": Level.DEBUG, b"fine": Level.DEBUG,
    b"info": Level.INFO, b"inf": Level.INFO, b"notice": Level.INFO, b"information": Level.INFO,
    b"log": Level.INFO, b"informational": Level.INFO,
    b"warn": Level.WARN, b"warning": Level.WARN, b"wrn": Level.WARN,
    b"error": Level.ERROR, b"err": Level.ERROR, b"severe": Level.ERROR, b"eror": Level.ERROR,
    b"fatal": Level.FATAL, b"ftl": Level.FATAL, b"critical": Level.FATAL, b"crit": Level.FATAL,
    b"panic": Level.FATAL, b"pnc": Level.FATAL, b"emerg": Level.FATAL, b"emergency": Level.FATAL,
    b"alert": Level.FATAL, b"dpanic": Level.FATAL,
}  # fmt: skip
_SHORT: Final = {
    b"T": Level.TRACE, b"V": Level.TRACE, b"D": Level.DEBUG, b"I": Level.INFO, b"N": Level.INFO,
    b"W": Level.WARN, b"E": Level.ERROR, b"F": Level.FATAL, b"C": Level.FATAL,
}  # fmt: skip
_SYSLOG: Final = (
    Level.FATAL, Level.FATAL, Level.FATAL, Level.ERROR, Level.WARN, Level.INFO, Level.INFO,
    Level.DEBUG,
)  # fmt: skip
HEAD: Final = 160
"""Bytes of a line searched for a bare level word: later words are part of a sentence."""
FIELDS: Final = 4096
"""Bytes of a line searched for a named field."""

_SGR: Final = re.compile(rb"\x1b\[[0-9;:]*m")
_WORDS: Final = b"|".join(sorted(_NAMES, key=len, reverse=True))
_JSON: Final = re.compile(
    rb'"(?:level|severity|lvl|levelname|log\.level|loglevel|log_level|@l|@level|SeverityText)"'
    rb'\s*:\s*(?:"([A-Za-z]+)"|(\d{1,3}))',
    re.IGNORECASE,
)
_LOGFMT: Final = re.compile(
    rb"(?:^|[\s,])(?:level|lvl|severity|loglevel|log\.level)[=:]\s?[\"']?([A-Za-z]+)", re.IGNORECASE
)
_KLOG: Final = re.compile(rb"([IWEF])\d{4} \d\d:\d\d:\d\d")
_PRIORITY: Final = re.compile(rb"<(\d{1,3})>")
_BRACKET: Final = re.compile(
    rb"[\[<(|]\s*(?:[a-z_.-]+[.:])?(" + _WORDS + rb")\s*[\]>)|]", re.IGNORECASE
)
_LETTER: Final = re.compile(rb"(?:^|\s)[\[(]?([TVDINWEFC])(?:\]|\)|/\w+\s*[:(]|, \[)")
_BARE: Final = re.compile(
    rb"(?:^|[\s:;,|=*-])(" + _WORDS.upper() + rb"|Error|Warning|Fatal|Critical)(?=[\s:;,|*-]|$)"
)
_LEADING: Final = re.compile(
    rb"(?:[\w./-]+: )?(" + _WORDS.replace(b"|log", b"") + rb")(?:\[[^\]]*\])?:", re.IGNORECASE
)
_PINO: Final = ((60, Level.FATAL), (50, Level.ERROR), (40, Level.WARN), (30, Level.INFO),
                (20, Level.DEBUG), (10, Level.TRACE))  # fmt: skip


def level_of(line: bytes) -> Level:
    """Return the level stated in a line, or UNKNOWN."""
    line = after_return(line)[:FIELDS]
    if b"\x1b" in line:
        line = _SGR.sub(b"", line)
    if line[:1] == b"{":
        return _of_json(line)
    if (match := _KLOG.match(line)) is not None:
        return _SHORT[match[1]]
    if (match := _PRIORITY.match(line)) is not None and int(match[1]) < 192:
        return _SYSLOG[int(match[1]) & 7]
    for match in _LOGFMT.finditer(line):
        level = _NAMES.get(match[1].lower())
        if level is not None:
            return level
    return _level_word(line[:HEAD])


def _of_json(line: bytes) -> Level:
    match = _JSON.search(line)
    if match is None:
        return Level.UNKNOWN
    if match[2] is None:
        return _NAMES.get(match[1].lower(), Level.UNKNOWN)
    number = int(match[2])
    if number < 8:
        return _SYSLOG[number]
    return next((level for least, level in _PINO if number >= least), Level.UNKNOWN)


def _level_word(head: bytes) -> Level:
    matches = [m for m in (_BRACKET.search(head), _BARE.search(head)) if m is not None]
    if matches:
        return _NAMES[min(matches, key=lambda m: m.start(1))[1].lower()]
    if (match := _LEADING.match(head)) is not None:
        return _NAMES[match[1].lower()]
    if (match := _LETTER.search(head[:64])) is not None:
        return _SHORT[match[1]]
    return Level.UNKNOWN


def continues(line: bytes) -> bool:
    """Return True if a line without a level continues the line above, as in a stack trace."""
    line = after_return(line)
    return line[:1] in (b" ", b"\t") or line.startswith((b"Caused by:", b"Traceback ", b"}"))
