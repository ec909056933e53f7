from __future__ import annotations

import asyncio
import os
import resource
import socket
import stat
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from served import serving

from podtui.errors import PodtuiError
from podtui.server import serve_unix
from podtui.server.transport.unix import bind


async def ask(path: Path) -> int:
    connector = aiohttp.UnixConnector(str(path))
    async with (
        aiohttp.ClientSession("http://x", connector=connector) as http,
        http.get("/version") as response,
    ):
        return response.status


async def test_socket_is_private_and_removed_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    async with serving(path):
        mode = os.stat(path).st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert os.listdir(tmp_path) == ["s.sock"]
        assert await ask(path) == 200
    assert os.listdir(tmp_path) == []


def test_the_socket_never_has_a_wider_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode is correct from the moment the name appears, for any umask."""
    seen: list[int] = []
    real = os.rename

    def rename(source: str, target: Path) -> None:
        seen.append(stat.S_IMODE(os.stat(source).st_mode))
        seen.append(stat.S_IMODE(os.stat(os.path.dirname(source)).st_mode))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    before = os.umask(0)
    try:
        bind(tmp_path / "s").close()
    finally:
        os.umask(before)
    assert seen == [0o600, 0o700]


async def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    async with serving(path):
        assert await ask(path) == 200


async def test_listening_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(path):
        with pytest.raises(PodtuiError, match="another server is already listening"):
            async with serve_unix(web.Application(), path):
                pass
        assert await ask(path) == 200


async def test_other_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(PodtuiError, match="not a socket"):
        async with serve_unix(web.Application(), path):
            pass
    assert path.read_text() == "precious"


async def test_a_successors_socket_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(path):
        os.unlink(path)
        successor = bind(path)
    assert path.is_socket()
    successor.close()


@pytest.mark.parametrize("name", ["x" * 120, "missing/s"])
async def test_invalid_socket_paths(name: str, tmp_path: Path) -> None:
    with pytest.raises(PodtuiError, match="cannot listen"):
        async with serve_unix(web.Application(), tmp_path / name):
            pass
    assert os.listdir(tmp_path) == []


@pytest.mark.virtual_time
async def test_running_out_of_descriptors_is_logged_once_a_second(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "s"
    clients = [socket.socket(socket.AF_UNIX) for _ in range(40)]
    async with serving(path):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
        spare: list[int] = []
        try:
            with suppress(OSError):
                while True:
                    spare.append(os.dup(0))
            for client in clients:
                client.setblocking(False)
                client.connect(str(path))
            await asyncio.sleep(0.5)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for descriptor in spare:
                os.close(descriptor)
        errors = [one for one in caplog.records if "out of system resource" in one.getMessage()]
        # Each of the connections that wait would be an error of its own, again and again.
        assert 1 <= len(errors) <= 3
        assert await ask(path) == 200
    for client in clients:
        client.close()
