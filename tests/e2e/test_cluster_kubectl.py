"""The real kubectl reads the same kubeconfig files with the same result."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from cluster_server import FakeCluster, cluster
from real_kubectl import kubectl
from served import pod

from podtui.api.v1 import Pod
from podtui.client.cluster import ClusterClient
from podtui.errors import PodtuiError
from podtui.kubeconfig import choose, load

PLUGIN = """\
#!{python}
print('{{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",'
      ' "status": {{"token": "sesame"}}}}')
"""


@pytest.fixture
async def fake_cluster(tmp_path: Path) -> AsyncIterator[FakeCluster]:
    async with cluster(tmp_path) as it:
        await it.served.store.put("pods", pod("web"))
        yield it


async def kubectl_result(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        kubectl(), "--request-timeout=20s", f"--cache-dir={folder / 'cache'}", *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "HOME": str(folder), **environment},
    )  # fmt: skip
    async with asyncio.timeout(120):
        out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def podtui_result(path: Path, name: str | None = None) -> str:
    client = ClusterClient(choose(load(path, {}), name))
    try:
        return (await client.get(Pod, "default", "web")).metadata.name
    finally:
        await client.close()


def a_certificate(fake_cluster: FakeCluster) -> dict[str, Any]:
    return fake_cluster.certificate("anne")


def certificate_files(fake_cluster: FakeCluster) -> dict[str, Any]:
    (fake_cluster.folder / "keys").mkdir()
    for name, pem in zip(("a.crt", "a.key"), fake_cluster.authority.issue("anne"), strict=True):
        (fake_cluster.folder / "keys" / name).write_bytes(pem)
    return {"client-certificate": "keys/a.crt", "client-key": "keys/a.key"}


def a_token_file(fake_cluster: FakeCluster) -> dict[str, Any]:
    (fake_cluster.folder / "token").write_text("sesame\n")
    return {"tokenFile": "token"}


def a_plugin(fake_cluster: FakeCluster) -> dict[str, Any]:
    path = fake_cluster.folder / "plugin"
    path.write_text(PLUGIN.format(python=sys.executable))
    path.chmod(0o700)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": "./plugin", "interactiveMode": "Never"}}


@pytest.mark.parametrize(
    "user",
    [
        a_certificate,
        certificate_files,
        a_token_file,
        a_plugin,
        lambda fake_cluster: {"token": "sesame"},
        lambda fake_cluster: {"username": "bob", "password": "secret"},
        lambda fake_cluster: {"token": "sesame", "as": "eve", "as-groups": ["x", "y"]},
        lambda fake_cluster: {"token": "sesame", **a_plugin(fake_cluster)},
        lambda fake_cluster: {"token": "other", **a_token_file(fake_cluster)},
        lambda fake_cluster: {"token": "sesame", "tokenFile": "gone"},
        lambda fake_cluster: {**a_certificate(fake_cluster), **a_plugin(fake_cluster)},
        lambda fake_cluster: {**a_certificate(fake_cluster), "token": "sesame"},
        lambda fake_cluster: {
            "username": "bob",
            "password": "secret",
            **a_plugin(fake_cluster),
        },
    ],
)
async def test_whoami(
    fake_cluster: FakeCluster, user: Callable[[FakeCluster], dict[str, Any]]
) -> None:
    path = fake_cluster.kubeconfig(user(fake_cluster))
    code, output = await kubectl_result(
        fake_cluster.folder, "--kubeconfig", str(path), "get", "pod", "web", "-o", "name"
    )
    assert (code, output) == (0, "pod/web\n")
    kubectl_request = (
        fake_cluster.rules.requests[-1][2],
        fake_cluster.rules.heads[-1].getall("Impersonate-Group", []),
    )
    assert await podtui_result(path) == "web"
    assert kubectl_request == (
        fake_cluster.rules.requests[-1][2],
        fake_cluster.rules.heads[-1].getall("Impersonate-Group", []),
    )


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"token": "sesame", "username": "bob"}, {}),
        ({"token": "sesame"}, {"insecure-skip-tls-verify": True}),
        ({"token": "sesame"}, {"certificate-authority-data": None}),
        ({"token": 12345}, {}),
        ({"client-certificate-data": "eA=="}, {}),
        ({"tokenFile": "gone"}, {}),
        ({"token": "sesame"}, {"server": "https://[one"}),
        ({"token": "sesame"}, {"server": "https://127.0.0.1:65536"}),
        ({"token": "sesame"}, {"proxy-url": "http://["}),
        ({"token": "sesame", "as-groups": ["x"]}, {}),
        ({"exec": {"command": "true", "apiVersion": "client.authentication.k8s.io/v1"}}, {}),
    ],
)
async def test_both_reject_invalid_files(
    fake_cluster: FakeCluster, user: dict[str, Any], cluster: dict[str, Any]
) -> None:
    path = fake_cluster.kubeconfig(user, **cluster)
    code, _ = await kubectl_result(
        fake_cluster.folder, "--kubeconfig", str(path), "get", "pod", "web"
    )
    assert code != 0
    with pytest.raises(PodtuiError):
        await podtui_result(path)


async def test_several_files_are_merged_like_kubectl(fake_cluster: FakeCluster) -> None:
    first = fake_cluster.kubeconfig({"token": "other"}, "first")
    second = fake_cluster.kubeconfig({"token": "sesame"}, "second")
    text = second.read_text().replace('"me"', '"you"').replace('"test"', '"second"')
    second.write_text(text)
    for order in ((first, second), (second, first)):
        listed = ":".join(map(str, (fake_cluster.folder / "gone", *order)))
        config = load(None, {"KUBECONFIG": listed})
        for arguments, value in (
            (("current-context",), config.current),
            (("get-contexts", "-o", "name"), "\n".join(sorted(config.contexts))),
            (("get-users",), "NAME\n" + "\n".join(sorted(config.users))),
            (
                ("view", "--raw", "-o", "jsonpath={.users[?(@.name=='you')].user.token}"),
                config.users["you"].token,
            ),
        ):
            code, output = await kubectl_result(
                fake_cluster.folder, "config", *arguments, KUBECONFIG=listed
            )
            assert (code, output.strip()) == (0, value)
