"""Calls people who look elsewhere: by the bell, the terminal's own notifications, a program."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Final

from podtui.tui.looks.alerts import Alert
from podtui.tui.widgets.sanitize import clean

COMMAND_SECONDS: Final = 10.0
LONGEST: Final = 200
"""Characters of one notification."""
_ENVIRONMENT: Final = ("KIND", "NAME", "NAMESPACE", "REASON", "TEXT")


def osc9(text: str, environ: Mapping[str, str]) -> str:
    """The sequence by which a terminal shows a notification, through tmux where that is between us
    and the terminal (its option ``allow-passthrough`` must be on)."""
    # Some terminals read a number and a semicolon as an order: a progress bar, even a program.
    sequence = f"\x1b]9;{clean(text)[:LONGEST].replace(';', ',')}\x07"
    if environ.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    return sequence


def alert_environment(alert: Alert) -> dict[str, str]:
    """What a program is told: ``PODTUI_ALERT_KIND`` and its like."""
    values = (alert.kind, alert.name, alert.namespace, alert.word, alert.text)
    return {
        f"PODTUI_ALERT_{name}": clean(value)
        for name, value in zip(_ENVIRONMENT, values, strict=True)
    }


async def run_command(
    command: Sequence[str], alert: Alert, seconds: float = COMMAND_SECONDS
) -> str:
    """Run the user's program without a shell, its last argument the text; what went wrong, else
    empty."""
    text = clean(alert.text)[:LONGEST]
    try:
        process = await asyncio.create_subprocess_exec(
            *command, text,
            env={**os.environ, **alert_environment(alert)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return f"{command[0]}: {error}"
    try:
        async with asyncio.timeout(seconds):
            status = await process.wait()
    except TimeoutError:
        return f"{command[0]}: not done within {seconds:.0f} s, and killed"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return f"{command[0]}: exit status {status}" if status else ""


def terminal_text(alert: Alert, by: Sequence[str], environ: Mapping[str, str]) -> str:
    """What is to be written to the terminal for an alert."""
    return ("\x07" if "bell" in by else "") + (
        osc9(f"podtui: {alert.text}", environ) if "osc9" in by else ""
    )
