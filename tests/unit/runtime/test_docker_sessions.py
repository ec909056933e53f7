"""Output of commands through a Docker engine, which reports refusals as output."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from podtui.errors import EngineError, ExecStartError
from podtui.runtime.docker.dialing import CommandChannel
from podtui.runtime.docker.hijack import Channel
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.sessions import DockerSession
from podtui.runtime.protocol import Output

REFUSAL = b'OCI runtime exec failed: exec: "x": executable file not found in $PATH\r\n'
PODMAN_REFUSAL = (
    b"Error: crun: executable file `x` not found in $PATH: No such file or directory:"
    b" OCI runtime attempted to invoke a command that was not found\n"
)
LINK: Any = SimpleNamespace(endpoint=SimpleNamespace(url="unix:///engine.sock"))


class RecordedChannel(Channel):
    """Reads recorded pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    async def _receive(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None: ...

    def shut(self) -> None: ...


def frame(data: bytes, stream: int = 1) -> bytes:
    return struct.pack(">BxxxL", stream, len(data)) + data


def session(*pieces: bytes, code: int | None, tty: bool = False) -> DockerSession:
    """Return the session of a command, or for ``code`` None of a container's main process."""

    async def exit_code() -> int:
        assert code is not None
        return code

    return DockerSession(
        cast(Link, LINK),
        RecordedChannel(*pieces),
        tty=tty,
        resize_path="",
        code=None if code is None else exit_code,
    )


async def output(*pieces: bytes, code: int | None, tty: bool = False) -> list[Output]:
    return [piece async for piece in session(*pieces, code=code, tty=tty).output()]


@pytest.mark.parametrize("code", [126, 127])
@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("refusal", [REFUSAL, PODMAN_REFUSAL])
async def test_a_command_that_cannot_start_is_an_error(
    refusal: bytes, code: int, tty: bool
) -> None:
    with pytest.raises(ExecStartError) as caught:
        await output(refusal if tty else frame(refusal), code=code, tty=tty)
    text = refusal.decode().strip()
    assert str(caught.value) == f"failed to exec in container: failed to start exec: {text}"


@pytest.mark.parametrize("cause", ["read: connection reset by peer", "write: broken pipe"])
@pytest.mark.parametrize(
    ("code", "reason"),
    [(126, "the command cannot be executed"), (127, "the command was not found")],
)
async def test_podman_loses_the_reason(code: int, reason: str, cause: str) -> None:
    call = cause.partition(":")[0]
    lost = f"Error: {call} unixpacket @->/proc/self/fd/13/attach: {cause}\n".encode()
    with pytest.raises(ExecStartError, match=f"failed to start exec: {reason}$"):
        await output(frame(lost), code=code)
    with pytest.raises(ExecStartError, match="attempted to invoke a command"):
        await output(frame(PODMAN_REFUSAL), frame(lost), code=code)
    assert await output(frame(b"done"), frame(lost), code=code) == [
        ("stdout", b"done"),
        ("stdout", lost),
    ]
    assert await output(frame(lost), code=0) == [("stdout", lost)]


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ((REFUSAL,), 0),
        ((REFUSAL,), 1),
        ((REFUSAL,), None),
        ((REFUSAL, b"more"), 127),
        ((b"first", REFUSAL), 127),
        ((b"sh: x: not found",), 127),
    ],
)
async def test_other_output_may_resemble_a_refusal(
    pieces: tuple[bytes, ...], code: int | None
) -> None:
    found = await output(*map(frame, pieces), code=code)
    assert found == [("stdout", piece) for piece in pieces]


@pytest.mark.parametrize(
    ("complaint", "reason"),
    [
        (b"nc: can't connect: Connection refused\n", "nc: can't connect: Connection refused"),
        (b"", "nc ended with 1"),
        (b"Error: write unixpacket @->/proc/self/fd/13/attach: broken pipe\n", "nc ended with 1"),
    ],
)
async def test_a_port_that_nc_cannot_reach(complaint: bytes, reason: str) -> None:
    channel = CommandChannel(session(frame(complaint, 2), code=1), 8081)
    with pytest.raises(EngineError, match=f"failed to connect to port 8081 of the pod: {reason}$"):
        await channel.read()
