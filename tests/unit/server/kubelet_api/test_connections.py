"""Connections from inside a pod, requested over the agent's socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from served import FakeKubelet

from podtui.api.insight import ConnectionAttempt, ConnectionCheck, Outcome
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import ApiError, EngineConflict, EngineError
from podtui.server import build_app, serve_unix
from podtui.server.auth.attributes import parse_attributes
from podtui.server.kubelet_api.connections import ConnectionRoutes, is_host
from podtui.store import open_store

pytestmark = pytest.mark.virtual_time
ATTEMPT = ConnectionAttempt(address="10.0.0.1", outcome=Outcome.REFUSED, seconds=0.25)


class FakeChecks:
    async def check(self, namespace: str, name: str, host: str, port: int) -> ConnectionCheck:
        match name:
            case "gone":
                raise LookupError(f'pods "{name}" not found')
            case "waits":
                raise EngineConflict("the pod has no running sandbox")
            case "remote":
                raise EngineError("failed to enter the network")
            case _:
                return ConnectionCheck(
                    host=host, port=port, name=f"{host}.{namespace}", attempts=(ATTEMPT,)
                )


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[UnixClient]:
    store = open_store(None, clock=SystemClock())
    app = build_app(
        store, FakeKubelet(), version="0", extra_routes=ConnectionRoutes(FakeChecks()).routes()
    )
    async with serve_unix(app, tmp_path / "s.sock"):
        it = UnixClient(tmp_path / "s.sock")
        yield it
        await it.close()
    await store.close()


async def test_a_check_is_returned_unchanged(client: UnixClient) -> None:
    assert await client.check_connection("shop", "web", "db", 5432) == ConnectionCheck(
        host="db", port=5432, name="db.shop", attempts=(ATTEMPT,)
    )
    assert (await client.check_connection("shop", "web", "::1")).host == "::1"


@pytest.mark.parametrize(("pod", "code"), [("gone", 404), ("waits", 409), ("remote", 500)])
async def test_a_pod_that_cannot_be_asked(client: UnixClient, pod: str, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        await client.check_connection("shop", pod, "db")
    assert refused.value.code == code
    assert "Internal error" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "port"), [("", 1), ("a b", 1), ("a..b", 1), ("x" * 64, 1), ("db", 65536), ("db", -1)]
)
async def test_invalid_hosts_and_ports_are_refused(
    client: UnixClient, host: str, port: int
) -> None:
    with pytest.raises(ApiError, match="invalid") as refused:
        await client.check_connection("shop", "web", host, port)
    assert refused.value.code == 400


def test_hosts() -> None:
    good = ("db", "db.shop.svc.cluster.local.", "_http._tcp.web", "10.0.0.1", "fd00::1", "A-1")
    assert all(map(is_host, good))
    bad = (".", "-db", "db/x", "db:80", "db\n", "ä", "fe80::1%eth0", ".".join(["a" * 50] * 6))
    assert not any(map(is_host, bad))


def test_only_who_may_create_it_may_ask() -> None:
    path = "/apis/podtui.dev/v1alpha1/namespaces/shop/pods/web/connections"
    wanted = parse_attributes("POST", path, {})
    assert (wanted.verb, wanted.group, wanted.resource, wanted.subresource) == (
        "create", "podtui.dev", "pods", "connections",
    )  # fmt: skip
