"""Transcripts of kubectl in ``tests/e2e/transcripts/``: commands and their complete output.

A line that begins with ``$`` is a command without the word kubectl; the lines after it are its
standard output, its standard error, and its exit code in brackets if it is not 0. What differs from
run to run (ages, addresses, ids, times, widths of columns) is masked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator
from difflib import unified_diff
from typing import Final

from kubectl import NEWEST
from kubectl_agent import KubectlAgent
from repository import ROOT

TRANSCRIPTS: Final = ROOT / "tests" / "e2e" / "transcripts"
_MASKS: Final = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"\x1b\[[\d;]*m", ""),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.]*(Z| \+0000)", "TIME"),
        (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} \+\d{4}", "TIME"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r"https://127\.0\.0\.1:\d+", "SERVER"),
        (r"\b\d+\.\d+\.\d+\.\d+\b", "ADDRESS"),
        (r"\b\d+/TCP\b", "PORT/TCP"),
        (r"\b(\d+[dhms])+\b( \(x\d+ over (\d+[dhms])+\))?", "AGE"),
        (r"^[EIW]\d{4} [\d:.]+ +\d+ ", "LOG "),
        (r"(LIVE|MERGED)-\d+", r"\1"),
        (r"(kube-api-access|debugger(-n1)?|fail|two|ix-\d)-[a-z0-9]{5}\b", r"\1-X"),
        (r'resourceVersion: "\d+"', "VERSION"),
        (r"@@ .* @@", "@@"),
        (r"\s+", " "),
    )
)


def masked(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines():
        for pattern, put in _MASKS:
            line = pattern.sub(put, line)
        lines.append(line.strip())
    return [line for line in lines if line]


def steps(transcript: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each command with the lines that are expected."""
    for part in transcript.strip().split("\n$ "):
        command, *expected = part.removeprefix("$ ").splitlines()
        yield shlex.split(command), [line.strip() for line in expected if line.strip()]


def differences(
    agent: KubectlAgent,
    transcript: str,
    *,
    version: str = NEWEST,
    editor: str = "false",
    without: Collection[str] = (),
) -> str:
    """Run the commands of a transcript, except ``without``; return the lines that differ, with
    their commands."""
    differing: list[str] = []
    for command, expected in steps((TRANSCRIPTS / f"{transcript}.txt").read_text()):
        if shlex.join(command) in without:
            continue
        done = agent.run(*command, version=version, KUBE_EDITOR=editor)
        lines = [*masked(done.stdout), *masked(done.stderr)]
        if "--attach" in command:
            # A short container may end before kubectl attaches; kubectl then prints its log.
            lines = [line for line in lines if not line.startswith("warning: couldn't attach")]
        if command[:2] == ["logs", "-l"] and len(command) == 3:
            # kubectl orders pods that ended in the same second at random.
            lines.sort()
        if "--prefix" in command:
            # kubectl reads the logs of several containers in random order.
            lines.sort(key=lambda line: line.partition("] ")[0])
        if done.returncode:
            lines.append(f"[{done.returncode}]")
        if lines != expected:
            changes = [*unified_diff(expected, lines, lineterm="", n=0)][2:]
            differing += [f"$ {shlex.join(command)}", *changes]
    return "\n".join(differing)
