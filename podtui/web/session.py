"""One tab: a WebSocket connected to a program on a terminal, until either side ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from aiohttp import ClientConnectionResetError, WSMsgType, web

from podtui.errors import PodtuiError
from podtui.web.terminal import Terminal

# --- messages of the page and the server, besides the bytes of the terminal

LONGEST_MESSAGE: Final = 64 * 1024
"""Maximum bytes of one message from the page, which splits pasted text."""
Cells = Annotated[int, msgspec.Meta(ge=1, le=2000)]


class BadMessage(PodtuiError):
    """Raised for a message that violates the protocol."""


class Size(msgspec.Struct, frozen=True, tag_field="kind", tag="size", forbid_unknown_fields=True):
    """The page's terminal size in cells."""

    columns: Cells
    rows: Cells


class Taken(msgspec.Struct, frozen=True, tag_field="kind", tag="taken", forbid_unknown_fields=True):
    """The total number of bytes that the page has drawn in this session."""

    bytes: Annotated[int, msgspec.Meta(ge=0)]


class Ended(msgspec.Struct, frozen=True, tag_field="kind", tag="ended"):
    """The program has exited; ``text`` is for the user."""

    text: str


class StartRefused(msgspec.Struct, frozen=True, tag_field="kind", tag="refused"):
    """No program was started; ``text`` has the reason."""

    text: str


_decoder = msgspec.json.Decoder(Size | Taken)


def decode(text: str) -> Size | Taken:
    """Decode a message from the page. Raises `BadMessage`."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise BadMessage(str(error)) from error


def encode(message: Ended | StartRefused) -> str:
    return msgspec.json.encode(message).decode()


# --- the session

WINDOW: Final = 64 * 1024
"""The maximum number of bytes in transit. A full screen with colours has about 20 KiB, and all
bytes in transit when a key is pressed are drawn before the response to the key."""
SIZE_SECONDS: Final = 10.0
SEND_SECONDS: Final = 30.0
MOST_TYPED: Final = 16 * 1024 * 1024
"""Limit of buffered input for the program, far beyond any intended paste."""
LAST_SECONDS: Final = 1.0
"""How long to wait for the program's last output if another process holds its terminal open."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program of each tab: a command, run without a shell."""

    command: Sequence[str]
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
            program.command, columns=first.columns, rows=first.rows, environment=program.environment
        )
    except OSError as error:
        await _send_message(socket, StartRefused(f"podtui cannot be started: {error.strerror}"))
        return
    window = OutputWindow()
    try:
        ended = await _join(socket, terminal, window, stop)
    finally:
        status = await terminal.end()
    if ended:
        await _send_message(socket, Ended(_words(status)))


class OutputWindow:
    """Flow control for output: counts bytes sent and bytes drawn. A slow page makes the program
    wait, instead of filling memory."""

    def __init__(self, size: int = WINDOW) -> None:
        self._size = size
        self._sent = 0
        self._taken = 0
        self._room = asyncio.Event()
        self._room.set()

    def sent(self, count: int) -> None:
        self._sent += count
        self._update_room()

    def taken(self, total: int) -> None:
        """Record that the page has drawn ``total`` bytes; limited to the number of bytes sent."""
        self._taken = max(self._taken, min(total, self._sent))
        self._update_room()

    async def room(self) -> None:
        """Wait until more may be sent. There is no timeout, because a background tab may draw only
        once a minute."""
        await self._room.wait()

    def _update_room(self) -> None:
        if self._sent - self._taken < self._size:
            self._room.set()
        else:
            self._room.clear()


class InputQueue:
    """Input that the program has not read yet, with its total size.

    It is separate from the socket: a long paste may be followed by messages that let the program
    continue to write, and a program that is blocked in a write may not read either.
    """

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._some = asyncio.Event()
        self.waiting = 0
        """Bytes that are still in the queue."""

    def put(self, data: bytes) -> None:
        self._pieces.append(data)
        self.waiting += len(data)
        self._some.set()

    async def get(self) -> bytes:
        """Wait for the next piece, and return it."""
        while not self._pieces:
            self._some.clear()
            await self._some.wait()
        data = self._pieces.popleft()
        self.waiting -= len(data)
        return data


async def _join(
    socket: web.WebSocketResponse, terminal: Terminal, window: OutputWindow, stop: asyncio.Event
) -> bool:
    """Forward bytes in both directions until one side ends; True if the program ended."""
    async with asyncio.TaskGroup() as tasks:
        shows = tasks.create_task(_show(socket, terminal, window), name="web show")
        typed = InputQueue()
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


async def _show(socket: web.WebSocketResponse, terminal: Terminal, window: OutputWindow) -> bool:
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
    socket: web.WebSocketResponse, terminal: Terminal, window: OutputWindow, typed: InputQueue
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


async def _type(typed: InputQueue, terminal: Terminal) -> None:
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


async def _send_message(socket: web.WebSocketResponse, message: Ended | StartRefused) -> None:
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await socket.send_str(encode(message))
    except (ClientConnectionResetError, TimeoutError):
        # The page has disconnected.
        return


def _words(status: int) -> str:
    how = "" if status == 0 else f" with status {status}"
    return f"podtui has ended{how}. Enter starts it again."
