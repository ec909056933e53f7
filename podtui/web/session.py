"""One tab: a WebSocket connected to a program on a terminal, until either side ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import ClientConnectionResetError, WSMsgType, web

from podtui.web.terminal import Terminal
from podtui.web.typed import Typed
from podtui.web.window import Window
from podtui.web.wire import BadMessage, Ended, Refused, Size, Taken, decode, encode

SIZE_SECONDS: Final = 10.0
SEND_SECONDS: Final = 30.0
MOST_TYPED: Final = 16 * 1024 * 1024
"""Limit of buffered input for the program, far beyond any intended paste."""
LAST_SECONDS: Final = 1.0
"""How long to wait for the program's last output if another process holds its terminal open."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program of each tab: words of a command line, run without a shell."""

    words: Sequence[str]
    environment: Mapping[str, str]


async def run_session(socket: web.WebSocketResponse, program: Program, stop: asyncio.Event) -> None:
    """Run ``program`` for the connected page until it exits, the page disconnects, the page
    violates the protocol, or ``stop`` is set. No process is left afterwards."""
    try:
        async with asyncio.timeout(SIZE_SECONDS):
            first = await _message(socket)
    except TimeoutError:
        return
    if not isinstance(first, Size):
        return
    try:
        terminal = await Terminal.start(
            program.words, columns=first.columns, rows=first.rows, environment=program.environment
        )
    except OSError as error:
        await _say(socket, Refused(f"podtui cannot be started: {error.strerror}"))
        return
    window = Window()
    try:
        ended = await _join(socket, terminal, window, stop)
    finally:
        status = await terminal.end()
    if ended:
        await _say(socket, Ended(_words(status)))


async def _join(
    socket: web.WebSocketResponse, terminal: Terminal, window: Window, stop: asyncio.Event
) -> bool:
    """Forward bytes in both directions until one side ends; True if the program ended."""
    async with asyncio.TaskGroup() as tasks:
        shows = tasks.create_task(_show(socket, terminal, window), name="web show")
        typed = Typed()
        takes = tasks.create_task(_take(socket, terminal, window, typed), name="web take")
        types = tasks.create_task(_type(typed, terminal), name="web type")
        ends = tasks.create_task(terminal.wait(), name="web program")
        stops = tasks.create_task(stop.wait(), name="web stop")
        jobs = (shows, takes, types, ends, stops)
        await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        if ends.done() and not shows.done():
            await asyncio.wait([shows], timeout=LAST_SECONDS)
        for job in jobs:
            job.cancel()
    if ends.done() and not ends.cancelled():
        return True
    return shows.done() and not shows.cancelled() and shows.result()


async def _show(socket: web.WebSocketResponse, terminal: Terminal, window: Window) -> bool:
    """Send the program's output to the page. True at the program's end, False if the page has
    disconnected."""
    while data := await terminal.read():
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await socket.send_bytes(data)
        except (ClientConnectionResetError, TimeoutError):
            return False
        window.sent(len(data))
        await window.room()
    return True


async def _take(
    socket: web.WebSocketResponse, terminal: Terminal, window: Window, typed: Typed
) -> None:
    """Handle the page's messages until it disconnects, violates the protocol or sends too much
    input."""
    while (message := await _message(socket)) is not None:
        match message:
            case bytes():
                typed.put(message)
                if typed.waiting > MOST_TYPED:
                    return
            case Size():
                terminal.resize(message.columns, message.rows)
            case Taken():
                window.taken(message.bytes)


async def _type(typed: Typed, terminal: Terminal) -> None:
    """Write the input to the program until it stops reading."""
    with contextlib.suppress(TimeoutError, OSError):
        while True:
            await terminal.write(await typed.get())


async def _message(socket: web.WebSocketResponse) -> bytes | Size | Taken | None:
    """Return the next message of the page; None if it disconnected or violates the protocol."""
    message = await socket.receive()
    if message.type is WSMsgType.BINARY:
        return message.data
    if message.type is WSMsgType.TEXT:
        try:
            return decode(message.data)
        except BadMessage:
            return None
    return None


async def _say(socket: web.WebSocketResponse, message: Ended | Refused) -> None:
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await socket.send_str(encode(message))
    except (ClientConnectionResetError, TimeoutError):
        # The page has disconnected.
        return


def _words(status: int) -> str:
    how = "" if status == 0 else f" with status {status}"
    return f"podtui has ended{how}. Enter starts it again."
