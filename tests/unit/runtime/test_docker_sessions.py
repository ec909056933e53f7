"""Output of commands through a Docker engine, which reports refusals as output."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from podtui.errors import ExecStartError
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


async def output(*pieces: bytes, code: int | None, tty: bool = False) -> list[Output]:
    """Return the output of a command, or for ``code`` None of a container's main process."""

    async def exit_code() -> int:
        assert code is not None
        return code

    session = DockerSession(
        cast(Link, LINK),
        RecordedChannel(*pieces),
        tty=tty,
        resize_path="",
        code=None if code is None else exit_code,
    )
    return [piece async for piece in session.output()]


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


@pytest.mark.parametrize(
    ("code", "reason"),
    [(126, "the command cannot be executed"), (127, "the command was not found")],
)
async def test_podman_loses_the_reason(code: int, reason: str) -> None:
    lost = b"Error: read unixpacket @->/proc/self/fd/13/attach: read: connection reset by peer\n"
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
