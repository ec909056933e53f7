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

pytestmark = pytest.mark.timeout(300)
PLUGIN = """\
#!{python}
print('{{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",'
      ' "status": {{"token": "sesame"}}}}')
"""


@pytest.fixture
async def straw(tmp_path: Path) -> AsyncIterator[FakeCluster]:
    async with cluster(tmp_path) as it:
        await it.served.store.put("pods", pod("web"))
        yield it


async def by_kubectl(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        kubectl(), "--request-timeout=20s", f"--cache-dir={folder / 'cache'}", *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "HOME": str(folder), **environment},
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def by_us(path: Path, name: str | None = None) -> str:
    client = ClusterClient(choose(load(path, {}), name))
    try:
        return (await client.get(Pod, "default", "web")).metadata.name
    finally:
        await client.close()


def a_certificate(straw: FakeCluster) -> dict[str, Any]:
    return straw.certificate("anne")


def certificate_files(straw: FakeCluster) -> dict[str, Any]:
    (straw.folder / "keys").mkdir()
    for name, pem in zip(("a.crt", "a.key"), straw.authority.issue("anne"), strict=True):
        (straw.folder / "keys" / name).write_bytes(pem)
    return {"client-certificate": "keys/a.crt", "client-key": "keys/a.key"}


def a_token_file(straw: FakeCluster) -> dict[str, Any]:
    (straw.folder / "token").write_text("sesame\n")
    return {"tokenFile": "token"}


def a_plugin(straw: FakeCluster) -> dict[str, Any]:
    path = straw.folder / "plugin"
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
        lambda straw: {"token": "sesame"},
        lambda straw: {"username": "bob", "password": "secret"},
        lambda straw: {"token": "sesame", "as": "eve", "as-groups": ["x", "y"]},
        lambda straw: {"token": "sesame", **a_plugin(straw)},
        lambda straw: {"token": "other", **a_token_file(straw)},
        lambda straw: {"token": "sesame", "tokenFile": "gone"},
        lambda straw: {**a_certificate(straw), **a_plugin(straw)},
        lambda straw: {**a_certificate(straw), "token": "sesame"},
        lambda straw: {"username": "bob", "password": "secret", **a_plugin(straw)},
    ],
)
async def test_whoami(straw: FakeCluster, user: Callable[[FakeCluster], dict[str, Any]]) -> None:
    path = straw.kubeconfig(user(straw))
    code, said = await by_kubectl(
        straw.folder, "--kubeconfig", str(path), "get", "pod", "web", "-o", "name"
    )
    assert (code, said) == (0, "pod/web\n")
    theirs = (straw.moods.asked[-1][2], straw.moods.heads[-1].getall("Impersonate-Group", []))
    assert await by_us(path) == "web"
    assert theirs == (
        straw.moods.asked[-1][2],
        straw.moods.heads[-1].getall("Impersonate-Group", []),
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
    straw: FakeCluster, user: dict[str, Any], cluster: dict[str, Any]
) -> None:
    path = straw.kubeconfig(user, **cluster)
    code, _ = await by_kubectl(straw.folder, "--kubeconfig", str(path), "get", "pod", "web")
    assert code != 0
    with pytest.raises(PodtuiError):
        await by_us(path)


async def test_several_files_are_merged_like_kubectl(straw: FakeCluster) -> None:
    first = straw.kubeconfig({"token": "other"}, "first")
    second = straw.kubeconfig({"token": "sesame"}, "second")
    text = second.read_text().replace('"me"', '"you"').replace('"test"', '"second"')
    second.write_text(text)
    for order in ((first, second), (second, first)):
        listed = ":".join(map(str, (straw.folder / "gone", *order)))
        config = load(None, {"KUBECONFIG": listed})
        for arguments, ours in (
            (("current-context",), config.current),
            (("get-contexts", "-o", "name"), "\n".join(sorted(config.contexts))),
            (("get-users",), "NAME\n" + "\n".join(sorted(config.users))),
            (
                ("view", "--raw", "-o", "jsonpath={.users[?(@.name=='you')].user.token}"),
                config.users["you"].token,
            ),
        ):
            code, said = await by_kubectl(straw.folder, "config", *arguments, KUBECONFIG=listed)
            assert (code, said.strip()) == (0, ours)
