"""Engine discovery: places, order, and reasons of failure."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podtui.runtime.docker import locate
from podtui.runtime.docker.locate import Endpoint, find_engine


@contextmanager
def answering(path: Path, status: str = "200 OK") -> Iterator[str]:
    """Answer one request on a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            thread.join(5)


def home(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"DOCKER_CONFIG": str(tmp_path / "docker"), "XDG_RUNTIME_DIR": str(tmp_path), **more}


def test_a_named_engine_is_the_only_one_tried(tmp_path: Path) -> None:
    with answering(tmp_path / "e.sock") as url:
        found = find_engine(url, environ=home(tmp_path, DOCKER_HOST="unix:///nowhere")).endpoint
    assert found is not None
    assert (found.url, found.source) == (url, "as requested")


def test_an_engine_of_the_environment_is_the_only_one_tried(tmp_path: Path) -> None:
    search = find_engine(None, environ=home(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/no.sock"))
    assert search.endpoint is None
    assert [(t.endpoint.source, t.problem) for t in search.tried] == [
        ("DOCKER_HOST", "no such socket")
    ]


def test_a_context_is_tried_first_then_the_usual_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "docker"
    key = hashlib.sha256(b"work").hexdigest()
    meta = config / "contexts" / "meta" / key
    meta.mkdir(parents=True)
    (config / "config.json").write_text('{"currentContext": "work"}')
    (meta / "meta.json").write_text(
        json.dumps({"Endpoints": {"docker": {"Host": f"unix://{tmp_path}/gone.sock"}}})
    )
    monkeypatch.setattr(locate, "DEFAULT_SOCKET", f"{tmp_path}/usual.sock")
    (tmp_path / "podman").mkdir()
    with answering(tmp_path / "podman" / "podman.sock"):
        search = find_engine(None, environ=home(tmp_path))
    assert [t.endpoint.source for t in search.tried] == [
        "docker context work",
        "the default location",
        "rootless Docker",
    ]
    assert search.endpoint is not None
    assert search.endpoint.source == "rootless Podman"


def test_an_invalid_context_is_reported(tmp_path: Path) -> None:
    search = find_engine(None, environ=home(tmp_path, DOCKER_CONTEXT="lost"))
    assert search.tried[0].endpoint.url == "context lost"
    assert "not a valid engine address" in search.tried[0].problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open any socket")
def test_a_socket_of_another_user(tmp_path: Path) -> None:
    path = tmp_path / "closed.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0)
        assert "group" in find_engine(f"unix://{path}").tried[0].problem


def test_reasons(tmp_path: Path) -> None:
    def problem(url: str) -> str:
        return find_engine(url).tried[0].problem

    dead = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    assert "connection refused; start the engine" in problem(f"unix://{dead}")
    assert "ssh -L" in problem("ssh://host")
    assert "not a valid engine address" in problem("carrier-pigeon")
    with answering(tmp_path / "web.sock", "404 Not Found") as url:
        assert "404" in problem(url)
    search = find_engine(f"unix://{dead}")
    assert search.explain().splitlines()[0] == "no container engine answers; tried:"
    assert f"unix://{dead} (as requested): connection refused; start the engine" in search.explain()


def test_tls_files_of_the_environment(tmp_path: Path) -> None:
    for name in ("cert", "key"):
        (tmp_path / f"{name}.pem").write_text("not a certificate")
    environ = home(tmp_path, DOCKER_CERT_PATH=str(tmp_path), DOCKER_HOST="tcp://127.0.0.1:1")
    (tried,) = find_engine(None, environ=environ).tried
    assert tried.endpoint.tls is not None
    assert tried.endpoint.tls.verify is False
    assert tried.problem


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("unix:///x", "http://engine"),
        ("tcp://h", "http://h:2375"),
        ("tcp://h:99", "http://h:99"),
        ("tcp://[::1]:99", "http://[::1]:99"),
    ],
)
def test_where_requests_go(url: str, base: str) -> None:
    assert Endpoint(url=url, source="").http_url == base
