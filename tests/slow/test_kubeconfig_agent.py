"""The API over TCP of an agent in its own process, at the address from ``podtui kubeconfig``."""

from __future__ import annotations

import json
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_home import set_home

from podtui.cli import main
from podtui.kubeconfig import Target, choose, load
from podtui.pki.access_point import listen, remembered_access_point


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return set_home(tmp_path, monkeypatch)


@pytest.fixture
def agent(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A simulated agent that answers on its unix socket, started with a umask of 0."""
    with (root.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "podtui", "agent", "--engine", "memory"],
            stdin=subprocess.DEVNULL, stderr=log, umask=0,
        )  # fmt: skip
    deadline = time.monotonic() + 120
    try:
        while not (root / "podtui.sock").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def target(root: Path) -> Target:
    return choose(load(root / "kubeconfig", {}), None)


def answer(
    where: Target, path: str, *, token: str | None = None, data: bytes | None = None
) -> tuple[int, bytes]:
    """Send a request with the kubeconfig's credentials; retry until the server listens."""
    context = ssl.create_default_context(cadata=where.cluster.ca_data.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    headers = {"Authorization": f"Bearer {where.user.token if token is None else token}"}
    deadline = time.monotonic() + 120
    while True:
        try:
            url = f"{where.cluster.server}{path}"
            request = urllib.request.Request(url, data=data, headers=headers)
            request.add_header("Content-Type", "application/json")
            with urllib.request.urlopen(request, context=context, timeout=120) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except urllib.error.URLError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_agent_serves_at_the_address_of_the_kubeconfig(
    root: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """The file that is written before the agent's start is correct, also after a restart."""
    assert main(["kubeconfig"]) == 0
    text = (root / "kubeconfig").read_text()
    process = request.getfixturevalue("agent")
    where = target(root)
    assert answer(where, "/api/v1/pods")[0] == 200
    assert answer(where, "/api/v1/pods", token="wrong")[0] == 401
    account = "/api/v1/namespaces/default/serviceaccounts/default/token"
    issued = json.loads(answer(where, account, data=b"{}")[1])["status"]["token"]
    assert answer(where, "/api", token=issued)[0] == 200
    assert answer(where, "/api/v1/pods", token=issued)[0] == 403
    capsys.readouterr()
    assert main(["kubeconfig"]) == 0
    assert capsys.readouterr() == (f"{root / 'kubeconfig'}\n", "")
    assert (root / "kubeconfig").read_text() == text
    secret = where.user.token.encode()
    assert secret in (root / "kubeconfig").read_bytes()
    shown = [
        Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")
    ] + [
        path.read_bytes()
        for path in [root.parent / "log", *root.rglob("*")]
        if path.is_file() and path.name not in ("kubeconfig", "token")
    ]
    assert not [one for one in shown if secret in one or issued.encode() in one]
    secrets = [root / "kubeconfig", root / "api.json", *(root / "pki").iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    assert stat.S_IMODE((root / "pki").stat().st_mode) == 0o700


def test_a_port_in_use_is_reported(
    root: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """Pods run anyway, and the API is served when the port is free again."""
    assert main(["kubeconfig"]) == 0
    point = remembered_access_point(root)
    assert point is not None
    with listen("127.0.0.1", point.port):
        request.getfixturevalue("agent")
        assert main(["status"]) == 0
        deadline = time.monotonic() + 120
        while b"the port is in use" not in (root.parent / "log").read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    capsys.readouterr()
    assert main(["kubeconfig"]) == 0
    assert f"the agent does not listen on {point.url}" in capsys.readouterr().err
    assert answer(target(root), "/api")[0] == 200
