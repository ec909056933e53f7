"""Exec plugins: their input, their valid answers, and when they run again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cluster_server import FakeCluster, cluster
from runtime_bench import until
from time_jump import jump_time

from podtui.api.v1 import Node
from podtui.client import exec_plugin
from podtui.client.cluster import ClusterClient
from podtui.client.exec_plugin import PluginError, read_answer
from podtui.client.protocol import Lost, Synced
from podtui.clock import SystemClock
from podtui.errors import ApiError
from podtui.kubeconfig import ExecPlugin, choose, load

V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"
PLUGIN = """\
#!{python}
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
with open(folder + "/runs", "a") as runs:
    info = os.environ.get("KUBERNETES_EXEC_INFO")
    runs.write(json.dumps([sys.argv[1:], info, os.environ.get("EXTRA")]) + "\\n")
sys.stdout.write(open(folder + "/answer").read())
{more}
"""

Make = Callable[..., ClusterClient]


class Plugin:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write()
        self.answer(token="sesame")

    def write(self, more: str = "") -> None:
        path = self.folder / "plugin"
        path.write_text(PLUGIN.format(python=sys.executable, more=more))
        path.chmod(0o700)

    def answer(self, version: str = V1, **status: Any) -> None:
        document = {"kind": "ExecCredential", "apiVersion": version, "status": status}
        (self.folder / "answer").write_text(json.dumps(document))

    def pids(self) -> list[int]:
        """Return the content of the file ``pids``, written by the program."""
        file = self.folder / "pids"
        return [int(pid) for pid in file.read_text().split()] if file.exists() else []

    def user(self, **more: Any) -> dict[str, Any]:
        given = {"apiVersion": V1, "command": "./plugin", "interactiveMode": "Never"}
        return {"exec": given | more}

    @property
    def runs(self) -> list[Any]:
        path = self.folder / "runs"
        return [json.loads(row) for row in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
async def fake_cluster(tmp_path: Path) -> AsyncIterator[FakeCluster]:
    async with cluster(tmp_path) as it:
        yield it


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


@pytest.fixture
async def make(fake_cluster: FakeCluster) -> AsyncIterator[Make]:
    made: list[ClusterClient] = []

    def one(user: dict[str, Any], clock: Any = None, **cluster: Any) -> ClusterClient:
        target = choose(load(fake_cluster.kubeconfig(user, **cluster), {}))
        made.append(ClusterClient(target, clock=clock))
        return made[-1]

    yield one
    for client in made:
        await client.close()


async def test_the_plugin_runs_once_with_its_arguments_and_variables(
    make: Make, plugin: Plugin
) -> None:
    args = ["get-token", "$(touch x); `id` *"]
    user = plugin.user(args=args, env=[{"name": "EXTRA", "value": "more"}])
    client = make(user)
    await asyncio.gather(client.version(), client.version(), client.version())
    ((seen, info, extra),) = plugin.runs
    assert (seen, extra) == (args, "more")
    assert json.loads(info) == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {"interactive": False},
    }


async def test_the_plugin_gets_the_cluster_if_requested(
    make: Make, plugin: Plugin, fake_cluster: FakeCluster
) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": 7}}
    client = make(plugin.user(provideClusterInfo=True), extensions=[extension])
    assert await client.version()
    sent = json.loads(plugin.runs[0][1])["spec"]["cluster"]
    assert sent["server"] == fake_cluster.server
    assert sent["config"] == {"audience": 7}
    assert sent["certificate-authority-data"]


async def test_version_v1beta1(make: Make, plugin: Plugin) -> None:
    plugin.answer(BETA, token="sesame")
    given = plugin.user(apiVersion=BETA)
    del given["exec"]["interactiveMode"]
    assert await make(given).version()


async def test_the_plugin_provides_a_certificate(
    make: Make, plugin: Plugin, fake_cluster: FakeCluster
) -> None:
    cert, key = fake_cluster.authority.issue("paul")
    plugin.answer(clientCertificateData=cert.decode(), clientKeyData=key.decode())
    assert await make(plugin.user()).version()
    assert fake_cluster.rules.requests[-1][2] == "paul"


class AheadClock(SystemClock):
    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_expired_credentials_are_renewed(make: Make, plugin: Plugin) -> None:
    clock = AheadClock()
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    plugin.answer(token="sesame", expirationTimestamp=until)
    client = make(plugin.user(), clock)
    await client.version()
    await client.version()
    assert len(plugin.runs) == 1
    clock.ahead = timedelta(hours=2)
    await client.version()
    assert len(plugin.runs) == 2


async def test_refused_credentials_are_renewed_once(
    make: Make, plugin: Plugin, fake_cluster: FakeCluster
) -> None:
    client = make(plugin.user())
    await client.version()
    fake_cluster.rules.tokens = {"simsim": "tina"}
    plugin.answer(token="simsim")
    await asyncio.gather(client.version(), client.version())
    assert len(plugin.runs) == 2
    fake_cluster.rules.tokens = {}
    plugin.answer(token="again")
    before = len(fake_cluster.rules.requests)
    with pytest.raises(ApiError) as caught:
        await client.version()
    assert caught.value.code == 401
    assert len(plugin.runs) == 3
    assert len(fake_cluster.rules.requests) == before + 2


async def test_a_new_certificate_opens_new_connections(
    make: Make, plugin: Plugin, fake_cluster: FakeCluster
) -> None:
    clock = AheadClock()
    for number, name in enumerate(("paul", "mary")):
        cert, key = fake_cluster.authority.issue(name)
        until = (datetime.now(UTC) + timedelta(hours=1 + 9 * number)).isoformat()
        plugin.answer(
            clientCertificateData=cert.decode(),
            clientKeyData=key.decode(),
            expirationTimestamp=until,
        )
        if not number:
            client = make(plugin.user(), clock)
        assert await client.version()
        assert fake_cluster.rules.requests[-1][2] == name
        clock.ahead = timedelta(hours=2)


async def test_a_token_takes_precedence_over_the_plugin(make: Make, plugin: Plugin) -> None:
    assert await make({**plugin.user(), "token": "sesame"}).version()
    assert plugin.runs == []


async def test_a_certificate_of_the_kubeconfig_takes_precedence(
    make: Make, plugin: Plugin, fake_cluster: FakeCluster
) -> None:
    assert await make(plugin.user() | fake_cluster.certificate("anne")).version()
    assert plugin.runs == []
    assert fake_cluster.rules.requests[-1][2] == "anne"


async def test_a_follow_survives_a_failing_plugin(make: Make, plugin: Plugin) -> None:
    plugin.write("print('log in first', file=sys.stderr); sys.exit(3)")
    async with aclosing(make(plugin.user()).follow(Node)) as deltas:
        async with asyncio.timeout(120):
            lost = await anext(deltas)
            assert isinstance(lost, Lost)
            assert "log in first" in lost.reason
            plugin.write()
            assert isinstance(await anext(deltas), Synced)


async def test_a_failing_plugin_is_reported_without_secrets(make: Make, plugin: Plugin) -> None:
    plugin.answer(token="hush-hush")
    plugin.write("print('log in first', file=sys.stderr); sys.exit(3)")
    with pytest.raises(PluginError) as caught:
        await make(plugin.user()).version()
    assert str(caught.value).endswith("plugin ended with status 3; log in first")
    assert "hush" not in str(caught.value)


async def test_a_missing_plugin_shows_its_install_hint(make: Make, plugin: Plugin) -> None:
    user = plugin.user(command="no-such-plugin", installHint="get it at\nexample")
    with pytest.raises(PluginError) as caught:
        await make(user).version()
    assert str(caught.value) == (
        "cannot run no-such-plugin: No such file or directory; get it at example"
    )


async def test_a_hanging_plugin_is_killed_with_its_children(make: Make, plugin: Plugin) -> None:
    child = "import subprocess, time; p = subprocess.Popen(['sleep', '300']);"
    child += "open(folder + '/pids', 'w').write(f'{os.getpid()} {p.pid}'); time.sleep(300)"
    plugin.write(child)
    async with jump_time(exec_plugin.PLUGIN_SECONDS, once=plugin.pids):
        with pytest.raises(PluginError, match="took too long and was killed"):
            await make(plugin.user()).version()
    pids = plugin.pids()
    assert len(pids) == 2
    await until(lambda: _are_gone(pids))


async def test_leftover_children_of_a_plugin_are_killed(make: Make, plugin: Plugin) -> None:
    child = "import subprocess; p = subprocess.Popen(['sleep', '300']);"
    plugin.write(child + "open(folder + '/pids', 'w').write(str(p.pid))")
    async with jump_time(exec_plugin.PLUGIN_SECONDS, once=plugin.pids):
        with pytest.raises(PluginError, match="took too long and was killed"):
            await make(plugin.user()).version()
    pids = plugin.pids()
    await until(lambda: _are_gone(pids))


async def _are_gone(pids: list[int]) -> bool:
    return not any(map(_runs, pids))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def test_an_interactive_plugin_requires_a_terminal(make: Make, plugin: Plugin) -> None:
    with pytest.raises(PluginError, match="needs input from the terminal"):
        await make(plugin.user(interactiveMode="Always")).version()
    assert plugin.runs == []


GOOD = {"kind": "ExecCredential", "apiVersion": V1, "status": {"token": "hush"}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("hush", "no ExecCredential"),
        (json.dumps(GOOD | {"status": {"token": ["hush"]}}), "no ExecCredential"),
        (json.dumps(GOOD | {"apiVersion": BETA}), f"answered with ExecCredential of {BETA}"),
        (json.dumps(GOOD | {"kind": "Secret"}), "answered with Secret of"),
        (json.dumps(GOOD | {"status": None}), "returned no status"),
        (json.dumps(GOOD | {"status": {}}), "neither a token nor a certificate"),
        (json.dumps(GOOD | {"status": {"clientKeyData": "hush"}}), "but not both"),
        (
            json.dumps(
                GOOD | {"status": {"token": "hush", "expirationTimestamp": "2026-01-01T00:00:00"}}
            ),
            "without a time zone",
        ),
    ],
)
def test_invalid_plugin_output(answer: str, words: str) -> None:
    plugin = ExecPlugin(command="p", api_version=V1)
    with pytest.raises(PluginError) as caught:
        read_answer(answer.encode(), plugin)
    assert words in str(caught.value)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_null_means_absent() -> None:
    status = {"token": "t", "clientCertificateData": None, "expirationTimestamp": None}
    answer = json.dumps(GOOD | {"spec": None, "status": status}).encode()
    assert read_answer(answer, ExecPlugin(command="p", api_version=V1)).token == "t"


async def test_plugin_output_is_limited(
    make: Make, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.write("sys.stdout.write(' ' * 3_000_000)")
    with pytest.raises(PluginError, match="more than 1 MiB"):
        await make(plugin.user()).version()


async def test_control_characters_in_a_token_are_refused(make: Make, plugin: Plugin) -> None:
    from podtui.errors import PodtuiError

    plugin.answer(token="a\r\nX-Evil: 1")
    with pytest.raises(PodtuiError, match="control characters"):
        await make(plugin.user()).version()
    assert os.environ.get("KUBERNETES_EXEC_INFO") is None
