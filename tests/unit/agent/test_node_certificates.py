"""The certificates of a node of a cluster, with an API server that signs requests."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from signing_server import BOOTSTRAP_USER, SigningServer, signing_server
from virtual_time import VirtualClock

from podtui.agent.node_certificates import NodeCertificates
from podtui.agent.signed_certificate import APPROVAL_SECONDS, REFUSED_SECONDS
from podtui.api.v1 import NodeAddress
from podtui.client.cluster import ClusterClient
from podtui.errors import ApiError, PodtuiError
from podtui.kubeconfig import choose, load
from podtui.pki.certificates import names_of
from podtui.pki.node_certificates import CLIENT_SIGNER, SERVING_SIGNER, read_pair
from podtui.server.transport.tls import tls_context
from podtui.settings import Settings

pytestmark = pytest.mark.virtual_time
NODE_USER = "system:node:node-1"


class Jumps(VirtualClock):
    """A clock that a test can set forward."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


@dataclass
class World:
    server: SigningServer
    clock: Jumps
    folder: Path
    addresses: list[NodeAddress] = field(
        default_factory=lambda: [NodeAddress(type="InternalIP", address="192.0.2.7")]
    )

    def settings(self, **more: Any) -> Settings:
        root = self.folder / "root"
        root.mkdir(exist_ok=True)
        return Settings(rootDir=root, staticPodPath=self.folder / "pods", nodeName="node-1", **more)

    async def later(self, **duration: float) -> None:
        """Set the clock forward, and let everything check it."""
        self.clock.ahead += timedelta(**duration)
        await asyncio.sleep(90)

    @property
    def current(self) -> Path:
        return self.folder / "root/pki/kubelet-client-current.pem"

    @property
    def node_kubeconfig(self) -> Path:
        return self.folder / "node-kubeconfig"

    async def open(self, kubeconfig: Path | None = None, **settings: Any) -> NodeCertificates:
        path = kubeconfig or self.node_kubeconfig
        return await NodeCertificates.open(
            self.settings(nodeKubeconfig=path, **settings), path, lambda: self.addresses, self.clock
        )

    async def bootstrapped(self, **settings: Any) -> NodeCertificates:
        bootstrap = self.server.bootstrap_kubeconfig()
        return await self.open(bootstrapKubeconfig=bootstrap, **settings)

    def node_config(self, name: str = NODE_USER, **issued: Any) -> Path:
        """Write a kubeconfig with a client certificate of the node."""
        certificate, key = self.server.authority.issue(name, groups=["system:nodes"], **issued)
        (self.folder / "client.crt").write_bytes(certificate)
        (self.folder / "client.key").write_bytes(key)
        return self.server.kubeconfig(
            {"client-certificate": "client.crt", "client-key": "client.key"}, "node"
        )

    @property
    def only(self) -> str:
        """The name of the only request."""
        (name,) = self.server.requests
        return name

    def serial(self) -> int:
        return read_pair(self.current.read_bytes()).certificate.serial_number


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock = Jumps(datetime.now(UTC).replace(microsecond=0))
    async with signing_server(tmp_path, clock) as server:
        yield World(server, clock, tmp_path)


@asynccontextmanager
async def running(*certificates: NodeCertificates) -> AsyncGenerator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(until_cancelled(job), name=name)
            for item in certificates
            for name, job in item.jobs().items()
        ]
        yield
        for task in tasks:
            task.cancel()


async def until_cancelled(job: Callable[[], Awaitable[object]]) -> None:
    await job()
    raise AssertionError("it ended")


async def until(condition: Callable[[], object], seconds: float = 1200.0) -> None:
    for _ in range(int(seconds * 2)):
        if condition():
            return
        await asyncio.sleep(0.5)
    raise TimeoutError


async def test_a_bootstrap_token_gives_the_node_its_certificate(world: World) -> None:
    certificates = await world.bootstrapped()
    assert not certificates.authenticated.is_set()
    async with running(certificates):
        await until(lambda: world.server.requests)
        request = world.server.requests[world.only]
        assert world.only.startswith("node-csr-")
        assert request["spec"]["signerName"] == CLIENT_SIGNER
        assert request["spec"]["username"] == BOOTSTRAP_USER
        await asyncio.sleep(600)
        assert not certificates.authenticated.is_set()
        world.server.approve(world.only)
        await asyncio.sleep(60)
        assert not world.current.exists()
        world.server.sign(world.only)
        await until(certificates.authenticated.is_set)
    assert list(world.server.requests) == [world.only]
    pki = world.folder / "root/pki"
    assert stat.S_IMODE(world.current.stat().st_mode) == 0o600
    assert not world.current.is_symlink()
    assert {path.name for path in pki.iterdir()} == {"kubelet-client-current.pem", "kubelet.pem"}

    # The kubeconfig suffices from now on, for the agent and for others.
    target = choose(load(world.node_kubeconfig, {}))
    assert target.user.cert_file == target.user.key_file == world.current
    world.server.users.clear()
    client = ClusterClient(target, namespace="", clock=world.clock)
    with pytest.raises(ApiError) as caught:
        await client.version()
    assert caught.value.code == 404
    await client.close()
    assert world.server.users == [NODE_USER]
    again = await world.open(bootstrapKubeconfig=world.folder / "missing")
    assert again.authenticated.is_set()
    assert again.target.user.cert_file == world.current


async def test_a_restarted_agent_finds_its_own_request(world: World) -> None:
    async with running(await world.bootstrapped()):
        await until(lambda: world.server.requests)
        await asyncio.sleep(100)
    key = world.folder / "root/pki/kubelet-client.key.tmp"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    world.server.sign(world.only)
    certificates = await world.bootstrapped()
    async with running(certificates):
        await until(certificates.authenticated.is_set)
    assert len(world.server.requests) == 1
    assert not key.exists()


async def test_a_denied_request_is_reported_and_repeated_with_another_key(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = await world.bootstrapped()
    async with running(certificates):
        await until(lambda: world.server.requests)
        first = world.only
        world.server.end(first, "Denied", "Stranger", "not in the inventory")
        await asyncio.sleep(REFUSED_SECONDS - 20)
        assert len(world.server.requests) == 1
        await until(lambda: len(world.server.requests) == 2)
        _, second = world.server.requests
        assert "is denied, reason: Stranger, message: not in the inventory" in caplog.text
        world.server.end(second, "Failed", "SignerValidationFailure", "")
        await until(lambda: len(world.server.requests) == 3)
        third = list(world.server.requests)[2]
        world.server.delete(third)
        await until(lambda: len(world.server.requests) == 3)
        fourth = list(world.server.requests)[2]
        assert len({first, second, third, fourth}) == 4
        world.server.sign(fourth)
        await until(certificates.authenticated.is_set)


async def test_a_request_that_is_not_signed_is_reported_and_kept(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = await world.bootstrapped()
    async with running(certificates):
        await asyncio.sleep(APPROVAL_SECONDS + 30)
        text = f"approve it with 'kubectl certificate approve {world.only}'"
        assert text in caplog.text
        await asyncio.sleep(APPROVAL_SECONDS)
        world.server.sign(world.only)
        await until(certificates.authenticated.is_set)
    assert len(world.server.requests) == 1


async def test_a_certificate_that_is_not_valid_yet_is_used(world: World) -> None:
    # The clock of the node is an hour behind.
    world.server.answer = lambda name: world.server.sign(name, lead=-timedelta(hours=1))
    certificates = await world.bootstrapped()
    async with running(certificates):
        await until(certificates.authenticated.is_set)
        await asyncio.sleep(3600)
    assert len(world.server.requests) == 1
    condition = certificates.condition(world.current.read_bytes())
    assert condition is not None
    assert condition.status == "False"


async def test_the_request_is_retried_with_back_off(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.answer = world.server.sign
    world.server.refusals = [401, 403, 500, 503, 403]
    certificates = await world.bootstrapped()
    began = world.clock.monotonic()
    async with running(certificates):
        await until(certificates.authenticated.is_set)
    # 2 + 4 + 8 + 16 + 32 seconds, and up to a tenth more.
    assert 62 <= world.clock.monotonic() - began <= 75
    assert "cannot get the client certificate of the node (attempt 2): refused" in caplog.text


async def test_an_unknown_token_and_a_missing_server_are_reported(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap = world.server.bootstrap_kubeconfig("wrong.token")
    async with running(await world.open(bootstrapKubeconfig=bootstrap)):
        await asyncio.sleep(60)
    text = "the API server does not accept the bootstrap kubeconfig, whose token may have expired"
    assert f"cannot get the client certificate of the node (attempt 1): {text}" in caplog.text
    caplog.clear()
    world.server.url = "https://127.0.0.1:1"
    certificates = await world.bootstrapped()
    async with running(certificates):
        await asyncio.sleep(60)
        assert "127.0.0.1:1: connection refused" in caplog.text
    assert not world.server.requests


async def test_without_the_right_to_watch_the_error_is_clear(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.forbidden = {BOOTSTRAP_USER}
    async with running(await world.bootstrapped()):
        await until(lambda: "cannot list requests" in caplog.text)


async def test_a_useless_certificate_is_not_stored(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def expired(name: str) -> None:
        world.server.sign(name, life=timedelta(hours=1), lead=timedelta(hours=2))

    world.server.answer = expired
    async with running(await world.bootstrapped()):
        await until(lambda: "check the clocks of both machines" in caplog.text)
    assert not world.current.exists()


async def test_the_certificate_is_renewed_with_itself_before_it_expires(world: World) -> None:
    world.server.answer = world.server.sign
    certificates = await world.bootstrapped()
    async with running(certificates):
        await until(certificates.authenticated.is_set)
        first = world.serial()
        client = ClusterClient(certificates.target, namespace="", clock=world.clock)
        with pytest.raises(ApiError, match="404"):
            await client.ask("/version")
        await world.later(hours=6.9)
        assert world.serial() == first
        await world.later(hours=2.2)
        assert world.serial() != first
        assert len(world.server.requests) == 2
        renewal = world.server.requests[list(world.server.requests)[1]]
        assert renewal["metadata"]["name"].startswith("csr-")
        assert renewal["spec"]["username"] == NODE_USER
        # Three certificates later, the same client still has access.
        for _ in range(30):
            await world.later(hours=0.9)
        assert 4 <= len(world.server.requests) <= 7
        with pytest.raises(ApiError, match="404"):
            await client.ask("/version")
        await client.close()


async def test_a_certificate_that_is_not_rotated_expires(world: World) -> None:
    world.server.answer = world.server.sign
    certificates = await world.bootstrapped(rotateCertificates=False)
    async with running(certificates):
        await until(certificates.authenticated.is_set)
        await world.later(hours=9.9)
        assert len(world.server.requests) == 1
        # Then the bootstrap token helps once more.
        await world.later(hours=1)
        assert [item["spec"]["username"] for item in world.server.requests.values()] == [
            BOOTSTRAP_USER,
            BOOTSTRAP_USER,
        ]


async def test_an_expired_certificate_without_bootstrap_is_an_error_that_says_what_to_do(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    now = world.clock.now()
    path = world.node_config(begin=now - timedelta(hours=2), end=now - timedelta(hours=1))
    with pytest.raises(
        PodtuiError, match=r"node: the client certificate expired at .*Z\. Get a new"
    ):
        await world.open(path)
    with pytest.raises(PodtuiError, match=r"node-kubeconfig: no such file\. .*--bootstrap-kubec"):
        await world.open()
    world.server.answer = world.server.sign
    certificates = await world.open(path, bootstrapKubeconfig=world.server.bootstrap_kubeconfig())
    async with running(certificates):
        await until(certificates.authenticated.is_set)
    assert choose(load(path, {})).user.cert_file == world.current


async def test_a_certificate_that_expires_while_the_server_is_away(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    now = world.clock.now()
    path = world.node_config(begin=now, end=now + timedelta(hours=10))
    world.server.refusals = [503] * 10_000
    certificates = await world.open(path)
    async with running(certificates):
        await world.later(hours=9.5)
        soon = certificates.condition(world.current.read_bytes())
        assert soon is not None
        assert (soon.status, soon.reason) == ("True", "CertificateExpiresSoon")
        assert "; " in soon.message
        await world.later(hours=1)
        expired = certificates.condition(world.current.read_bytes())
        assert expired is not None
        assert (expired.status, expired.reason) == ("True", "CertificateExpired")
        assert expired.message.endswith("there is no bootstrap kubeconfig to request another one")
        assert "a successor of the client certificate of the node, which expires at" in caplog.text
        errors = [item for item in caplog.records if item.levelno == logging.ERROR]
        assert len(errors) == 1
        assert "has expired, and there is no bootstrap kubeconfig" in errors[0].getMessage()
        # The user replaces the file.
        world.server.refusals.clear()
        world.server.answer = world.server.sign
        now = world.clock.now()
        pair = world.server.authority.issue(
            NODE_USER, groups=["system:nodes"], begin=now, end=now + timedelta(hours=10)
        )
        world.current.write_bytes(b"".join(pair))
        await world.later(hours=9.5)
        assert len(world.server.requests) == 1


async def test_the_certificate_of_a_kubeconfig_is_rotated(world: World) -> None:
    world.server.answer = world.server.sign
    now = world.clock.now()
    path = world.node_config(begin=now - timedelta(hours=8), end=now + timedelta(hours=2))
    text = path.read_bytes()
    certificates = await world.open(path)
    assert certificates.authenticated.is_set()
    assert certificates.target.user.cert_file == world.current
    async with running(certificates):
        await world.later(hours=1.5)
    assert len(world.server.requests) == 1
    assert path.read_bytes() == text
    # The next start uses the newer certificate, until the kubeconfig has one that is newer still.
    serial = world.serial()
    await world.open(path)
    assert world.serial() == serial
    now = world.clock.now()
    path = world.node_config(begin=now, end=now + timedelta(hours=100))
    await world.open(path)
    assert world.serial() != serial


@pytest.mark.parametrize("rotate", [True, False])
async def test_other_credentials_are_used_as_they_are(world: World, rotate: bool) -> None:
    given = [
        world.server.kubeconfig({"token": "t"}, "token"),
        world.server.kubeconfig({"tokenFile": "t"}, "token-file"),
        world.node_config("kubernetes-admin"),
        *([] if rotate else [world.node_config()]),
    ]
    for path in given:
        certificates = await world.open(path, rotateCertificates=rotate)
        assert certificates.authenticated.is_set()
        assert certificates.target == choose(load(path, {}))
        assert list(certificates.jobs()) == ["serving certificate"]
    assert not world.current.exists()


async def test_damaged_files_lead_to_another_bootstrap(world: World) -> None:
    world.server.answer = world.server.sign
    path = world.node_config()
    (world.folder / "client.crt").write_text("not PEM")
    with pytest.raises(PodtuiError, match="client certificate and key cannot be read"):
        await world.open(path)
    for damage in (b"{", b"", path.read_bytes()):
        path.write_bytes(damage)
        certificates = await world.open(
            path, bootstrapKubeconfig=world.server.bootstrap_kubeconfig()
        )
        async with running(certificates):
            await until(certificates.authenticated.is_set)
        assert choose(load(path, {})).user.cert_file == world.current


async def test_a_kubeconfig_that_cannot_be_written_is_only_a_warning(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.answer = world.server.sign
    bootstrap = world.server.bootstrap_kubeconfig()
    path = world.folder / "missing-directory/kubeconfig"
    certificates = await world.open(path, bootstrapKubeconfig=bootstrap)
    async with running(certificates):
        await until(certificates.authenticated.is_set)
    assert "so that the next start needs the bootstrap kubeconfig" in caplog.text


# --- the serving certificate


def presented(certificates: NodeCertificates) -> x509.Certificate:
    """Return the certificate that a server presents, if it reads the file now."""
    return read_pair(certificates.serving.path.read_bytes()).certificate


async def test_the_serving_certificate_is_self_signed_by_default(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    path = world.server.kubeconfig({"token": "t"}, "token")
    certificates = await world.open(path)
    await certificates.prepare()
    first = presented(certificates)
    assert {"node-1", "192.0.2.7", "localhost"} <= names_of(first)
    assert "self-signed certificate, which no client trusts: serverTLSBootstrap is false" in (
        caplog.text
    )
    assert stat.S_IMODE(certificates.serving.path.stat().st_mode) == 0o600
    async with running(certificates):
        await world.later(hours=24)
        assert presented(certificates) == first
        world.addresses.append(NodeAddress(type="InternalIP", address="192.0.2.8"))
        await world.later()
        second = presented(certificates)
        assert "192.0.2.8" in names_of(second)
        await world.later(days=61)
        third = presented(certificates)
        assert third != second
    again = await world.open(path)
    await again.prepare()
    assert presented(again) == third
    assert len([item for item in caplog.records if "self-signed" in item.getMessage()]) == 2


async def test_the_self_signed_certificate_is_accepted_by_a_server(world: World) -> None:
    certificates = await world.open(world.server.kubeconfig({"token": "t"}, "token"))
    await certificates.prepare()
    tls_context(certificates.serving.path)


async def test_the_serving_certificate_is_signed_by_the_cluster(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    now = world.clock.now()
    path = world.node_config(begin=now, end=now + timedelta(days=3650))
    certificates = await world.open(path, serverTLSBootstrap=True)
    async with running(certificates):
        await until(lambda: world.server.requests)
        assert "the cluster has not signed another one" in caplog.text
        assert certificates.serving.path.name == "kubelet.pem"
        request = world.server.requests[world.only]
        assert request["spec"]["signerName"] == SERVING_SIGNER
        assert request["spec"]["username"] == NODE_USER
        world.server.sign(world.only)
        issued = world.server.certificate(world.only)
        await until(lambda: certificates.serving.path.name == "kubelet-server-current.pem")
        assert presented(certificates) == issued
        assert names_of(issued) == {"192.0.2.7"}
        tls_context(certificates.serving.path)

        # Other addresses need another certificate; the former one is presented until then.
        world.addresses.append(NodeAddress(type="Hostname", address="node-1"))
        await until(lambda: len(world.server.requests) == 2)
        # The addresses change once more while the request waits.
        world.addresses.append(NodeAddress(type="InternalIP", address="192.0.2.9"))
        await until(lambda: len(world.server.requests) == 3)
        third = list(world.server.requests)[2]
        await world.later()
        assert presented(certificates) == issued
        world.server.sign(third)
        await world.later()
        assert names_of(presented(certificates)) == {"192.0.2.7", "192.0.2.9", "node-1"}
        assert len(world.server.requests) == 3

        world.server.answer = world.server.sign
        await world.later(hours=9.1)
        assert len(world.server.requests) == 4
        last = world.server.certificate(list(world.server.requests)[3])
        assert presented(certificates) == last
    again = await world.open(path, serverTLSBootstrap=True)
    await again.prepare()
    assert presented(again) == last


async def test_an_expired_serving_certificate_is_not_presented(world: World) -> None:
    now = world.clock.now()
    path = world.node_config(begin=now, end=now + timedelta(days=3650))
    certificates = await world.open(path, serverTLSBootstrap=True)
    async with running(certificates):
        await until(lambda: world.server.requests)
        world.server.sign(world.only)
        await world.later()
        assert certificates.serving.path.name == "kubelet-server-current.pem"
        await world.later(hours=11)
        assert certificates.serving.path.name == "kubelet.pem"
        assert presented(certificates).not_valid_after_utc > world.clock.now()


async def test_a_certificate_of_the_user_replaces_the_serving_certificate(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = await world.open(
        world.node_config(), serverTLSBootstrap=True, tlsCertFile=world.folder / "mine.crt"
    )
    await certificates.prepare()
    assert list(certificates.jobs()) == ["client certificate"]
    assert not caplog.text
    assert not certificates.serving.path.exists()


async def test_a_node_without_addresses_waits_for_them(world: World) -> None:
    world.addresses.clear()
    certificates = await world.open(world.node_config(), serverTLSBootstrap=True)
    async with running(certificates):
        await world.later(hours=1)
        assert not world.server.requests
        world.addresses.append(NodeAddress(type="InternalIP", address="192.0.2.7"))
        await until(lambda: world.server.requests)
