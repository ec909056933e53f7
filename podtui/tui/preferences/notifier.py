"""Deliver notifications: by the bell, by the terminal's notifications, or by a program."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Final

from podtui.tui.preferences.alerts import Alert
from podtui.tui.widgets.sanitize import clean

COMMAND_SECONDS: Final = 10.0
LONGEST: Final = 200
"""Maximum number of characters of a notification."""
_ENVIRONMENT: Final = ("KIND", "NAME", "NAMESPACE", "REASON", "TEXT")


def osc9(text: str, environ: Mapping[str, str]) -> str:
    """Return the escape sequence by which a terminal shows a notification.

    Inside tmux, it is wrapped to be passed through (the option ``allow-passthrough`` must be on).
    """
    # Some terminals interpret a number and a semicolon as a command, for example a progress bar
    # or even the start of a program.
    sequence = f"\x1b]9;{clean(text)[:LONGEST].replace(';', ',')}\x07"
    if environ.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    return sequence


def alert_environment(alert: Alert) -> dict[str, str]:
    """Return the environment variables of an alert for a program: ``PODTUI_ALERT_KIND`` etc."""
    values = (alert.kind, alert.name, alert.namespace, alert.word, alert.text)
    return {
        f"PODTUI_ALERT_{name}": clean(value)
        for name, value in zip(_ENVIRONMENT, values, strict=True)
    }


async def run_command(
    command: Sequence[str], alert: Alert, seconds: float = COMMAND_SECONDS
) -> str:
    """Run the user's program without a shell, with the alert text as its last argument.

    Returns the error message, or an empty string.
    """
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
    """Return the text to write to the terminal for an alert."""
    return ("\x07" if "bell" in by else "") + (
        osc9(f"podtui: {alert.text}", environ) if "osc9" in by else ""
    )
