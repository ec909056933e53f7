"""The command line on a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from cluster_server import FakeCluster, cluster
from served import node, put_records

from podtui.cli import main
from podtui.cli.sessions import FoundPod, find_pod
from podtui.client.cluster import ClusterClient
from podtui.errors import ApiError
from podtui.kubeconfig import choose, load


@pytest.fixture
async def fake_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FakeCluster]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    async with cluster(tmp_path) as it:
        await put_records(it.served.store)
        yield it


async def run(*arguments: str) -> int:
    return await asyncio.to_thread(main, list(arguments))


async def test_status_of_all_namespaces(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(fake_cluster.kubeconfig({"token": "sesame"}))
    assert await run("status", "--kubeconfig", config) == 0
    nodes, pods = capsys.readouterr().out.split("\n\n")
    assert nodes.split()[:1] == ["NAME"]
    rows = [row.split()[:2] for row in pods.splitlines()]
    assert rows == [["NAMESPACE", "NAME"], ["default", "db"], ["default", "web"], ["other", "far"]]


async def test_the_default_kubeconfig_and_the_options_before_the_command(
    fake_cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".kube").mkdir()
    fake_cluster.kubeconfig({"token": "sesame"}, ".kube/config")
    assert await run("--context", "test", "-n", "other", "status", "-o", "json") == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [(item["kind"], item["metadata"]["name"]) for item in items] == [
        ("Node", "node"),
        ("Pod", "far"),
    ]


async def test_json_names_the_kinds_that_a_real_server_leaves_out(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(fake_cluster.kubeconfig({"token": "sesame"}))
    for kind in ("Node", "Pod"):
        fake_cluster.rules.answers[f"/api/v1/{kind.lower()}s"] = {
            "kind": f"{kind}List",
            "apiVersion": "v1",
            "items": [{"metadata": {"name": f"a-{kind}"}}],
        }
    assert await run("status", "--kubeconfig", config, "-o", "json") == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [(item["kind"], item["apiVersion"], item["metadata"]["name"]) for item in items] == [
        ("Node", "v1", "a-Node"),
        ("Pod", "v1", "a-Pod"),
    ]


async def test_forbidden_resources_do_not_hide_others(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_cluster.rules.forbidden |= {
        "/api/v1/nodes": "nodes is forbidden",
        "/api/v1/pods": "not all",
    }
    config = str(fake_cluster.kubeconfig({"token": "sesame"}))
    assert await run("status", "--kubeconfig", config) == 0
    printed = capsys.readouterr()
    assert printed.err == "podtui: nodes is forbidden\n"
    assert [row.split()[0] for row in printed.out.splitlines()] == ["NAME", "db", "web"]
    assert await run("status", "--kubeconfig", config, "-A") == 1
    assert capsys.readouterr().err.endswith("podtui: not all\n")


async def test_nulls_of_a_real_server_are_read(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(fake_cluster.kubeconfig({"token": "sesame"}))
    odd = json.loads(msgspec.json.encode(node()))
    odd["status"]["images"] = [{"names": None}]
    fake_cluster.rules.answers["/api/v1/nodes"] = {"items": [odd]}
    assert await run("why", "--kubeconfig", config, "web") == 0
    assert "web" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["status", "why"])
async def test_an_invalid_response_is_reported(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    config = str(fake_cluster.kubeconfig({"token": "sesame"}))
    fake_cluster.rules.answers |= dict.fromkeys(("/api/v1/nodes", "/api/v1/pods"), "please log in")
    assert await run(command, "--kubeconfig", config) == 1
    error = capsys.readouterr().err
    assert error.startswith("podtui: ")
    assert "cannot be read" in error


@pytest.mark.parametrize("plural", ["pods", "pods/web"])
async def test_a_list_of_pods_that_cannot_be_read_is_an_error(
    fake_cluster: FakeCluster, plural: str
) -> None:
    fake_cluster.rules.answers[f"/api/v1/namespaces/default/{plural}"] = "please log in"
    client = ClusterClient(choose(load(fake_cluster.kubeconfig({"token": "sesame"}), {})))
    with pytest.raises(ApiError, match="cannot be read"):
        await find_pod(client, "default", "web" if "web" in plural else "nosuch")
    await client.close()


async def test_pods_that_may_not_be_read_are_taken_by_name(fake_cluster: FakeCluster) -> None:
    fake_cluster.rules.forbidden["/api/v1/namespaces/default/pods/web"] = "pods is forbidden"
    client = ClusterClient(choose(load(fake_cluster.kubeconfig({"token": "sesame"}), {})))
    assert await find_pod(client, "default", "web") == FoundPod("web")
    await client.close()


async def test_why(fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(fake_cluster.kubeconfig({"token": "sesame"}))
    fake_cluster.rules.forbidden["/api/v1/nodes"] = "nodes is forbidden"
    assert await run("why", "--kubeconfig", config, "web", "-o", "json") == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["cause"] == "Healthy"
    assert await run("why", "--kubeconfig", config, "-n", "other", "web") == 2
    assert "there is no pod" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kubeconfig", "K", "stop"), "'podtui stop' does not support clusters"),
        (("status", "-n", "x"), "--namespace is for clusters: add --context or --kubeconfig"),
        (("why", "-A"), "--all-namespaces is for clusters"),
        (("status", "--kubeconfig", "K", "-A", "-n", "x"), "are mutually exclusive"),
        (("status", "--kubeconfig", "/no/such"), "/no/such: no such file"),
        (("status", "--kubeconfig", "K", "--context", "z"), "context 'z' does not exist"),
        (("exec", "--kubeconfig", "K", "web"), "a command is missing"),
        (("status", "--context", "z"), "no kubeconfig found"),
    ],
)
async def test_contradictory_options_are_refused(
    fake_cluster: FakeCluster,
    arguments: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = str(fake_cluster.kubeconfig({"token": "sesame"}))
    assert await run(*(config if word == "K" else word for word in arguments)) == 2
    assert words in capsys.readouterr().err


async def test_an_unreachable_server_exits_with_3(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(fake_cluster.kubeconfig({"token": "sesame"}, server="https://127.0.0.1:1"))
    assert await run("status", "--kubeconfig", config) == 3
    assert "127.0.0.1:1: connection refused" in capsys.readouterr().err
