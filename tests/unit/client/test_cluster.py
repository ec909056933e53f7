"""The client of a cluster against an API server over TLS."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cluster_server import Authority, FakeCluster, cluster, server_context
from repository import GOLDEN
from runtime_bench import until
from served import line, node, pod, put_records

from podtui.api.v1 import Event, Node, Pod
from podtui.client import cluster_connection
from podtui.client.cluster import ClusterClient
from podtui.client.cluster_connection import ClusterConnection, tls_context
from podtui.client.credentials import Credentials, Identity
from podtui.client.decoding import kind_of
from podtui.client.following import REFUSED_DELAY, wait_after
from podtui.client.protocol import Changed, LogQuery, Lost, Removed, Synced
from podtui.clock import SystemClock
from podtui.errors import AgentUnavailable, ApiError, PodtuiError
from podtui.kubeconfig import choose, load

Make = Callable[..., ClusterClient]


@pytest.fixture
async def fake_cluster(tmp_path: Path) -> AsyncIterator[FakeCluster]:
    async with cluster(tmp_path) as it:
        await put_records(it.served.store)
        yield it


@pytest.fixture
async def make(fake_cluster: FakeCluster) -> AsyncIterator[Make]:
    """Return a client for a user of the kubeconfig; ``cluster`` changes the file's cluster."""
    made: list[ClusterClient] = []

    def one(user: dict[str, Any], cluster: dict[str, Any] | None = None, **rest: Any) -> Any:
        path = fake_cluster.kubeconfig(user, **(cluster or {}))
        made.append(ClusterClient(choose(load(path, {})), **rest))
        return made[-1]

    yield one
    for client in made:
        await client.close()


TOKEN = {"token": "sesame"}
METRICS = "/apis/metrics.k8s.io/v1beta1"


async def names(client: ClusterClient, kind: Any = Pod) -> list[str]:
    async with aclosing(client.follow(kind)) as deltas:
        async with asyncio.timeout(120):
            first = await anext(deltas)
    assert isinstance(first, Synced), first
    return [item.metadata.name for item in first.items]


# --- credentials


async def test_a_token(make: Make, fake_cluster: FakeCluster) -> None:
    assert sorted(await names(make(TOKEN))) == ["db", "far", "web"]
    assert {who for _, _, who in fake_cluster.rules.requests} == {"tina"}


async def test_a_client_certificate_in_the_file(make: Make, fake_cluster: FakeCluster) -> None:
    assert "web" in await names(make(fake_cluster.certificate("anne")))
    assert {who for _, _, who in fake_cluster.rules.requests} == {"anne"}


async def test_certificate_files_beside_the_kubeconfig(
    make: Make, fake_cluster: FakeCluster
) -> None:
    cert, key = fake_cluster.authority.issue("carl")
    (fake_cluster.folder / "carl.crt").write_bytes(cert)
    (fake_cluster.folder / "carl.key").write_bytes(key)
    (fake_cluster.folder / "ca.crt").write_bytes(fake_cluster.authority.pem)
    client = make(
        {"client-certificate": "carl.crt", "client-key": "carl.key"},
        {"certificate-authority-data": None, "certificate-authority": "ca.crt"},
    )
    assert "web" in await names(client)
    assert {who for _, _, who in fake_cluster.rules.requests} == {"carl"}


async def test_a_password(make: Make, fake_cluster: FakeCluster) -> None:
    assert "web" in await names(make({"username": "bob", "password": "secret"}))
    assert {who for _, _, who in fake_cluster.rules.requests} == {"bob"}


async def test_a_token_file_is_reread_after_a_refusal(
    make: Make, fake_cluster: FakeCluster
) -> None:
    file = fake_cluster.folder / "token"
    file.write_text("sesame\n")
    client = make({"tokenFile": "token"})
    assert await client.version() == "v1.36.0+podtui-0.0.test"
    fake_cluster.rules.tokens = {"simsim": "tina"}
    with pytest.raises(ApiError) as caught:
        await client.version()
    assert caught.value.code == 401
    file.write_text("simsim\n")
    assert await client.version() == "v1.36.0+podtui-0.0.test"


async def test_a_replaced_client_certificate_is_presented(
    make: Make, fake_cluster: FakeCluster
) -> None:
    class Later(SystemClock):
        ahead = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.ahead

    clock, file = Later(), fake_cluster.folder / "client.pem"

    def replace(name: str) -> None:
        file.write_bytes(b"".join(fake_cluster.authority.issue(name)))

    replace("anne")
    given = {"client-certificate": "client.pem", "client-key": "client.pem"}
    client = make(given, clock=clock)
    await client.version()
    replace("bert")
    await client.version()
    clock.ahead += 100.0
    await client.version()
    assert [user for _, _, user in fake_cluster.rules.requests] == ["anne", "anne", "bert"]
    file.unlink()
    clock.ahead += 100.0
    await client.version()
    # A refused certificate is read again at once.
    replace("carl")
    fake_cluster.rules.refusals = [(401, None)]
    await client.version()
    assert [user for _, _, user in fake_cluster.rules.requests][3:] == ["bert", "bert", "carl"]
    fake_cluster.rules.refusals = [(401, None)]
    with pytest.raises(ApiError):
        await client.version()
    assert len(fake_cluster.rules.requests) == 7


async def test_watches_are_renewed_with_a_replaced_certificate(
    make: Make, fake_cluster: FakeCluster
) -> None:
    class Later(SystemClock):
        ahead = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.ahead

    clock, file = Later(), fake_cluster.folder / "client.pem"
    file.write_bytes(b"".join(fake_cluster.authority.issue("anne")))
    given = {"client-certificate": "client.pem", "client-key": "client.pem"}
    client = make(given, clock=clock)

    async def replace() -> None:
        await until_watched(fake_cluster)
        file.write_bytes(b"".join(fake_cluster.authority.issue("bert")))
        clock.ahead += 100.0
        await client.version()

    async with asyncio.timeout(60), aclosing(client.follow(Pod)) as deltas:
        assert isinstance(await anext(deltas), Synced)
        async with asyncio.TaskGroup() as group:
            group.create_task(replace())
            assert isinstance(await anext(deltas), Lost)
        assert isinstance(await anext(deltas), Synced)
    assert fake_cluster.rules.requests[-1][2] == "bert"


async def until_watched(fake_cluster: FakeCluster) -> None:
    async def watched() -> bool:
        return any("watch" in path for path in fake_cluster.rules.paths())

    await until(watched)


async def test_a_temporarily_missing_token_file_keeps_the_connection(
    make: Make, fake_cluster: FakeCluster
) -> None:
    class Later(SystemClock):
        ahead = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.ahead

    clock, file = Later(), fake_cluster.folder / "token"
    file.write_text("sesame\n")
    client = make({"tokenFile": "token"}, clock=clock)
    assert await client.version()
    for broken in (lambda: file.write_text(" "), file.unlink):
        broken()
        clock.ahead += 100.0
        assert await client.version()
    fresh = make({"tokenFile": "token"})
    with pytest.raises(PodtuiError, match=r"tokenFile: .*/token: No such file"):
        await fresh.version()


async def test_impersonation(make: Make, fake_cluster: FakeCluster) -> None:
    user = {
        "as": "eve",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"Reason/x": ["a", "b"]},
    }
    await make(TOKEN | user).version()
    heads = fake_cluster.rules.heads[-1]
    assert heads.getall("Impersonate-Group") == ["dev", "ops"]
    assert heads["Impersonate-User"] == "eve"
    assert heads["Impersonate-Uid"] == "7"
    assert heads.getall("Impersonate-Extra-Reason%2Fx") == ["a", "b"]


async def test_an_unauthorized_user_is_reported(make: Make) -> None:
    with pytest.raises(ApiError) as caught:
        await make({"token": "open"}).version()
    assert (caught.value.code, str(caught.value)) == (401, "Unauthorized")


async def test_errors_show_no_secrets(make: Make, fake_cluster: FakeCluster) -> None:
    user = {**fake_cluster.certificate(), "token": "hush-token"}
    path = fake_cluster.kubeconfig(user)
    target = choose(load(path, {}))
    client = ClusterClient(target)
    await client.credentials.identity()
    shown = repr(target) + repr(vars(client)) + repr(await client.credentials.identity())
    assert "hush-token" not in shown
    assert "PRIVATE KEY" not in shown
    await client.close()


# --- the server's identity


async def test_another_certificate_authority_is_not_trusted(make: Make) -> None:
    import base64

    other = base64.b64encode(Authority("other").pem).decode()
    with pytest.raises(AgentUnavailable, match=r"127\.0\.0\.1:\d+: its certificate is not trusted"):
        await make(TOKEN, {"certificate-authority-data": other}).version()


async def test_without_an_authority_the_system_certificates_are_used(make: Make) -> None:
    with pytest.raises(AgentUnavailable, match="its certificate is not trusted"):
        await make(TOKEN, {"certificate-authority-data": None}).version()


async def test_text_around_a_certificate_may_have_any_encoding(
    make: Make, fake_cluster: FakeCluster
) -> None:
    (fake_cluster.folder / "ca.crt").write_bytes(
        "# Aussteller: Österreich\n".encode() + fake_cluster.authority.pem
    )
    file = {"certificate-authority-data": None, "certificate-authority": "ca.crt"}
    assert await make(TOKEN, file).version()


async def test_insecure_skips_verification(make: Make) -> None:
    given = {"certificate-authority-data": None, "insecure-skip-tls-verify": True}
    assert await make(TOKEN, given).version()


async def test_tls_server_name(tmp_path: Path) -> None:
    async with cluster(tmp_path, "api.example") as fake_cluster:
        for name, trusted in (("api.example", True), (None, False), ("www.example", False)):
            path = fake_cluster.kubeconfig(TOKEN, **{"tls-server-name": name})
            client = ClusterClient(choose(load(path, {})))
            try:
                if trusted:
                    assert await client.version()
                else:
                    with pytest.raises(AgentUnavailable, match="is not trusted"):
                        await client.version()
            finally:
                await client.close()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("client-certificate-data", "bm90IHBlbQ==", "cannot be read"),
        ("client-key-data", None, "do not match"),
    ],
)
async def test_an_invalid_certificate_is_reported(
    make: Make, fake_cluster: FakeCluster, name: str, value: str | None, words: str
) -> None:
    other = fake_cluster.certificate("other")
    user = {**fake_cluster.certificate(), name: value or other[name]}
    with pytest.raises(PodtuiError, match=f"the client certificate and its key {words}"):
        await make(user).version()


async def test_an_authority_without_a_certificate_is_reported(make: Make) -> None:
    with pytest.raises(PodtuiError, match="'eu-1': certificate-authority-data: holds no cert"):
        await make(TOKEN, {"certificate-authority-data": "bm90IHBlbQ=="}).version()


async def test_no_secret_is_sent_without_tls(fake_cluster: FakeCluster) -> None:
    from aiohttp import web

    site = web.TCPSite(fake_cluster.served.runner, "127.0.0.1", 0)
    await site.start()
    port = fake_cluster.served.runner.addresses[-1][1]
    path = fake_cluster.kubeconfig(
        TOKEN, server=f"http://127.0.0.1:{port}", **{"certificate-authority-data": None}
    )
    client = ClusterClient(choose(load(path, {})))
    with pytest.raises(ApiError):
        await client.version()
    await client.close()
    assert "Authorization" not in fake_cluster.rules.heads[-1]


async def test_an_unreachable_server_is_named(fake_cluster: FakeCluster, make: Make) -> None:
    with pytest.raises(AgentUnavailable, match=r"127\.0\.0\.1:1: connection refused"):
        await make(TOKEN, {"server": "https://127.0.0.1:1"}).version()


async def test_a_silent_server_times_out(
    fake_cluster: FakeCluster, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    context = server_context(fake_cluster.authority, fake_cluster.folder, "127.0.0.1")
    server = await asyncio.start_server(never_answer, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    client = make(TOKEN, {"server": f"https://127.0.0.1:{port}"})
    monkeypatch.setattr(ClusterConnection, "answer_seconds", 0.05)
    with pytest.raises(AgentUnavailable, match="does not answer"):
        await client.version()
    await client.close()
    server.close()
    await server.wait_closed()


async def test_a_silent_tls_handshake_times_out(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    client = make(TOKEN, {"server": f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"})
    monkeypatch.setattr(ClusterConnection, "connect_seconds", 0.05)
    async with asyncio.timeout(120), server, aclosing(client.follow(Pod)) as deltas:
        lost = await anext(deltas)
        assert isinstance(lost, Lost)
        assert "does not answer" in lost.reason


async def test_a_request_with_an_older_certificate_keeps_newer_connections(
    make: Make, fake_cluster: FakeCluster
) -> None:
    (a, a_key), (b, b_key) = fake_cluster.authority.issue("a"), fake_cluster.authority.issue("b")
    old, new = Identity(1, (), a, a_key), Identity(2, (), b, b_key)

    class Renewed(Credentials):
        identities = iter((old, new, old, new))

        async def identity(self) -> Identity:
            return next(self.identities)

    target = choose(load(fake_cluster.kubeconfig({}), {}))
    clock = SystemClock()
    connection = ClusterConnection(target.cluster, Renewed(target, clock), clock)
    for _ in range(4):
        await connection.get("/version")
    assert [user for _, _, user in fake_cluster.rules.requests] == ["a", "b", "b", "b"]
    assert len(set(fake_cluster.rules.addresses)) == 2
    server = fake_cluster.served.runner.server
    assert server is not None

    async def one_is_left() -> bool:
        return len(server.connections) == 1

    await until(one_is_left)
    await connection.close()


async def test_closing_during_setup_leaves_no_connection_open(
    make: Make, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(*given: Any) -> ssl.SSLContext:
        loop.call_soon_threadsafe(began.set)
        assert go_on.wait(20)
        return tls_context(*given)

    monkeypatch.setattr(cluster_connection, "tls_context", slow)
    client = make(TOKEN)

    async def ask() -> None:
        with pytest.raises(AgentUnavailable, match="the client is closed"):
            await client.version()

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        group.create_task(ask())
        await began.wait()
        await client.close()
        go_on.set()
    assert not fake_cluster.rules.paths()


async def test_the_path_of_the_server_url_prefixes_all_requests(
    make: Make, fake_cluster: FakeCluster
) -> None:
    with pytest.raises(ApiError):
        await make(TOKEN, {"server": f"{fake_cluster.server}/k8s/clusters/c-1/"}).version()
    assert fake_cluster.rules.paths()[-1] == "/k8s/clusters/c-1/version"


# --- lists and watches


async def test_lists_are_paged(make: Make, fake_cluster: FakeCluster) -> None:
    for number in range(10):
        await fake_cluster.served.store.put("pods", pod(f"p{number}"))
    client = make(TOKEN)
    client.page = 4
    found = await names(client)
    assert len(found) == len(set(found)) == 13
    lists = [path for path in fake_cluster.rules.paths() if "limit=4" in path]
    assert [("continue" in path) for path in lists] == [False, True, True, True]


async def test_expired_pages_restart_the_list_immediately(
    make: Make, fake_cluster: FakeCluster
) -> None:
    fake_cluster.rules.expire_pages = True
    client = make(TOKEN)
    client.page = 2
    assert sorted(await names(client)) == ["db", "far", "web"]


async def test_managed_fields_and_unknown_ones_are_left_out(
    make: Make, fake_cluster: FakeCluster
) -> None:
    fake_cluster.rules.managed = True
    client = make(TOKEN)
    async with aclosing(client.follow(Pod)) as deltas:
        first = await anext(deltas)
    assert isinstance(first, Synced)
    assert len(first.items) == 3
    assert all(not item.metadata.managedFields for item in first.items)


async def test_a_watch_is_resumed(make: Make, fake_cluster: FakeCluster) -> None:
    store = fake_cluster.served.store
    async with asyncio.timeout(120), aclosing(make(TOKEN).follow(Pod)) as deltas:
        assert isinstance(await anext(deltas), Synced)
        await store.put("pods", pod("new"))
        changed = await anext(deltas)
        assert isinstance(changed, Changed)
        assert changed.items[0].metadata.name == "new"
        await store.delete("pods", "default", "new")
        assert isinstance(await anext(deltas), Removed)
    assert "timeoutSeconds=" in fake_cluster.rules.paths()[-1]


async def test_a_forbidden_kind_is_reported_without_affecting_others(
    make: Make, fake_cluster: FakeCluster
) -> None:
    fake_cluster.rules.forbidden["/api/v1/nodes"] = 'nodes is forbidden: User "tina" cannot list'
    client = make(TOKEN)
    async with asyncio.timeout(120), aclosing(client.follow(Node)) as deltas:
        assert await anext(deltas) == Lost('nodes is forbidden: User "tina" cannot list', True)
    assert "web" in await names(client)
    assert await names(client, Event) == ["web.1"]


def test_a_forbidden_kind_is_retried_with_back_off() -> None:
    assert wait_after(ApiError(403, "Forbidden", ""), 0.2) == REFUSED_DELAY
    assert wait_after(ApiError(401, "Unauthorized", ""), 0.2) == REFUSED_DELAY
    assert wait_after(ApiError(429, "", "", 12.0), 0.2) == 12.0
    assert wait_after(ApiError(429, "", "", 1.0), 5.0) == 5.0
    assert wait_after(AgentUnavailable(""), 0.4) == 0.4


class NoWaitClock(SystemClock):
    """Records sleeps without sleeping."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


async def test_retry_after_is_respected(make: Make, fake_cluster: FakeCluster) -> None:
    clock = NoWaitClock()
    client = make(TOKEN, clock=clock)
    fake_cluster.rules.refusals = [(429, "3"), (503, "2")]
    assert await client.version()
    assert clock.slept == [3.0, 2.0]
    fake_cluster.rules.refusals = [(500, None)]
    with pytest.raises(ApiError):
        await client.version()
    fake_cluster.rules.refusals = [(429, "1")] * 9
    with pytest.raises(ApiError) as caught:
        await client.version()
    assert caught.value.code == 429
    assert len(fake_cluster.rules.refusals) == 4


# --- which namespaces


async def test_without_access_to_all_namespaces_the_contexts_is_shown(
    make: Make, fake_cluster: FakeCluster
) -> None:
    fake_cluster.rules.forbidden["/api/v1/pods"] = "pods is forbidden at the cluster scope"
    client = make(TOKEN)
    assert sorted(await names(client)) == ["db", "web"]
    assert client.namespace == "default"


async def test_a_single_namespace(make: Make, fake_cluster: FakeCluster) -> None:
    client = make(TOKEN, namespace="other")
    assert await names(client) == ["far"]
    assert await names(client, Node) == ["node"]
    assert not any(path.startswith("/api/v1/pods") for path in fake_cluster.rules.paths())


async def test_all_namespaces_on_request(make: Make, fake_cluster: FakeCluster) -> None:
    fake_cluster.rules.forbidden["/api/v1/pods"] = "pods is forbidden at the cluster scope"
    client = make(TOKEN, namespace="")
    async with asyncio.timeout(120), aclosing(client.follow(Pod)) as deltas:
        assert await anext(deltas) == Lost("pods is forbidden at the cluster scope", True)


# --- the rest


async def test_logs(make: Make, fake_cluster: FakeCluster) -> None:
    fake_cluster.served.kubelet.lines = [line(b"one"), line(b"two")]
    query = LogQuery(container="c", follow=False, previous=True, tail=2)
    found = [text async for batch in make(TOKEN).logs("default", "web", query) for text in batch]
    assert [text.split(b" ")[1] for text in found] == [b"one", b"two"]
    assert fake_cluster.served.kubelet.log_requests[-1][3] is True


async def test_metrics_if_available(make: Make, fake_cluster: FakeCluster) -> None:
    client = make(TOKEN)
    assert [one.metadata.name for one in await client.pod_metrics()] == ["web"]
    assert [one.metadata.name for one in await client.nodes_metrics()] == ["node"]
    fake_cluster.rules.forbidden["/apis/metrics.k8s.io"] = "no"
    assert await client.pod_metrics() == ()
    assert await client.nodes_metrics() == ()


async def test_one_null_does_not_hide_the_others(make: Make, fake_cluster: FakeCluster) -> None:
    def written(item: Any) -> Any:
        return json.loads(msgspec.json.encode(item))

    odd = written(node("odd"))
    odd["status"]["images"] = [{"names": None, "sizeBytes": 1}]
    fake_cluster.rules.answers["/api/v1/nodes"] = {
        "metadata": {"resourceVersion": "1"},
        "items": [written(node("even")), odd],
    }
    fake_cluster.rules.answers["/api/v1/nodes/odd"] = odd
    client = make(TOKEN)
    assert await names(client, Node) == ["even", "odd"]
    assert (await client.get(Node, "", "odd")).status.images[0].names == ()


@pytest.mark.parametrize(
    ("path", "answer", "call"),
    [
        ("/version", "<html>", lambda client: client.version()),
        ("/api/v1/nodes/n", {"metadata": 7}, lambda client: client.get(Node, "", "n")),
        (f"{METRICS}/nodes", {}, lambda client: client.nodes_metrics()),
        (f"{METRICS}/pods", {"items": [{}]}, lambda client: client.pod_metrics()),
    ],
)
async def test_an_invalid_response_is_reported(
    make: Make, fake_cluster: FakeCluster, path: str, answer: Any, call: Callable[[Any], Any]
) -> None:
    fake_cluster.rules.answers[path] = answer
    with pytest.raises(ApiError, match=f"{path}: cannot be read: "):
        await call(make(TOKEN))


async def test_metrics_without_a_list_are_none(make: Make, fake_cluster: FakeCluster) -> None:
    fake_cluster.rules.answers[f"{METRICS}/nodes"] = {"items": None}
    assert await make(TOKEN).nodes_metrics() == ()


async def test_delete_has_a_uid_precondition(make: Make, fake_cluster: FakeCluster) -> None:
    await make(TOKEN).delete_pod(pod("web"))
    ((path, options),) = fake_cluster.rules.deleted
    assert path == "/api/v1/namespaces/default/pods/web"
    assert options["preconditions"] == {"uid": "uid-web"}


async def test_agent_only_requests_are_refused(make: Make, fake_cluster: FakeCluster) -> None:
    with pytest.raises(ApiError, match="a cluster does not support manifest files"):
        await make(TOKEN).plan("x.yaml", b"")
    assert fake_cluster.rules.requests == []


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self/fd").exists(), reason="no /proc")
async def test_private_key_files_are_closed(make: Make, fake_cluster: FakeCluster) -> None:
    await make(fake_cluster.certificate()).version()
    links = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if _there(n)]
    assert not any("memfd" in link for link in links)


def _there(number: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{number}")


def test_pods_of_a_real_server_are_read() -> None:
    documents = [json.loads(path.read_text()) for path in GOLDEN.glob("*/pod.json")]
    # The record is an empty list if there was no pod.
    pods = [pod for one in documents for pod in (one if isinstance(one, list) else [one])]
    assert len(pods) > 30
    for item in pods:
        item["metadata"]["managedFields"] = [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]
        item["spec"]["unheardOf"] = [{"x": None}]
        found = kind_of(Pod).decode(json.dumps(item).encode())
        assert found.metadata.name == item["metadata"]["name"]
        assert found.metadata.managedFields == ()
