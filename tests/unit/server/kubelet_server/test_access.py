"""Who may use the kubelet server, over real TLS; the texts are those of a kubelet v1.36."""

from __future__ import annotations

import hashlib
import logging
import ssl
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from cluster_server import Authority
from kubelet_server_world import (
    ROBOT,
    FakeReviewer,
    KubeletServerWorld,
    ask,
    kubelet_server_world,
    write_certificate,
)
from tls_world import ShiftedClock

from podtui.server.auth.attributes import Attributes
from podtui.server.auth.users import User
from podtui.server.kubelet_server import access
from podtui.server.kubelet_server.access import AccessRules, certificate_user

UNAUTHORIZED = (401, "Unauthorized")
CONNECTION_ERRORS = (aiohttp.ClientError, ssl.SSLError, ConnectionError)


async def test_what_each_path_asks_the_api_server(tmp_path: Path) -> None:
    needed = {
        "GET /healthz": "healthz proxy",
        "GET /healthz/syncloop": "healthz proxy",
        "GET /pods": "pods proxy",
        "GET /runningpods/": "pods proxy",
        "GET /configz": "configz proxy",
        "GET /stats/summary": "stats",
        "GET /metrics": "metrics",
        "GET /metrics/cadvisor": "metrics",
        "GET /metrics/probes": "metrics",
        "GET /metrics/resource": "metrics",
        "GET /metrics/slis": "metrics",
        "GET /logs/": "log",
        "POST /checkpoint/default/web/c": "checkpoint",
        "GET /containerLogs/default/web/c": "proxy",
        "GET /exec/default/web/c": "proxy",
        "POST /exec/default/web/c": "proxy",
        "POST /exec/default/web/uid-web/c": "proxy",
        "GET /attach/default/web/c": "proxy",
        "POST /run/default/web/c": "proxy",
        "GET /portForward/default/web": "proxy",
        "POST /portForward/default/web/uid-web": "proxy",
        "DELETE /debug/flags/v": "proxy",
        "GET /nowhere": "proxy",
    }
    verbs = {"GET": "get", "POST": "create", "DELETE": "delete"}
    reviewer = FakeReviewer(refused=set(" ".join(needed.values()).split()))
    async with kubelet_server_world(tmp_path, reviewer) as world, world.robot() as client:
        for request, subresources in needed.items():
            method, _, path = request.partition(" ")
            text = (
                f"Forbidden (user=robot, verb={verbs[method]}, resource=nodes,"
                f" subresource(s)=[{subresources}])\n"
            )
            assert await ask(client, path, method) == (403, text), request
    assert reviewer.decisions[:2] == [
        (
            User(ROBOT.name, (*ROBOT.groups, "system:authenticated"), ROBOT.uid, ROBOT.extra),
            Attributes(
                verb="get", version="v1", resource="nodes", subresource=subresource, name="node"
            ),
        )
        for subresource in ("healthz", "proxy")
    ]


async def test_one_of_two_subresources_is_enough(tmp_path: Path) -> None:
    reviewer = FakeReviewer(refused={"pods"})
    async with kubelet_server_world(tmp_path, reviewer) as world, world.robot() as client:
        assert (await ask(client, "/pods"))[0] == 200
        assert [wanted.subresource for _, wanted in reviewer.decisions] == ["pods", "proxy"]
        assert (await ask(client, "/metrics"))[0] == 200
        assert [wanted.subresource for _, wanted in reviewer.decisions][2:] == ["metrics"]


async def test_a_client_certificate_names_user_and_groups(tmp_path: Path) -> None:
    reviewer = FakeReviewer()
    async with kubelet_server_world(tmp_path, reviewer) as world:
        pair = world.clients.issue("apiserver", groups=("kubeadm:admins", "b"))
        async with world.client("robot-token", pair) as client:
            assert await ask(client, "/metrics") == (200, "metrics")
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pair[0].decode())).hexdigest()
    [(user, _)] = reviewer.decisions
    assert user == User(
        "apiserver",
        ("kubeadm:admins", "b", "system:authenticated"),
        extra={"authentication.kubernetes.io/credential-id": (f"X509SHA256={digest}",)},
    )
    # The certificate comes before the token.
    assert not reviewer.tokens


def subject(*attributes: tuple[str, str]) -> User | None:
    return certificate_user({"subject": tuple((attribute,) for attribute in attributes)}, b"")


def test_the_subject_of_a_certificate() -> None:
    uid = "1.3.6.1.4.1.57683.2"
    user = subject(("organizationName", "a"), ("commonName", "x"), ("commonName", "y"), (uid, "u"))
    assert user is not None
    assert (user.name, user.groups, user.uid) == ("y", ("a",), "u")
    assert subject(("organizationName", "system:masters")) is None
    assert subject(("commonName", "")) is None
    assert subject(("commonName", "x"), (uid, "u"), (uid, "v")) is None
    assert subject(("commonName", "x"), (uid, "")) is None


async def test_requests_without_valid_credentials(tmp_path: Path) -> None:
    reviewer = FakeReviewer()
    async with kubelet_server_world(tmp_path, reviewer) as world:
        for path in ("/healthz", "/pods", "/exec/default/web/c", "/nowhere"):
            async with world.client() as client:
                assert await ask(client, path) == UNAUTHORIZED, path
        for header in ("Basic cm9ib3Q=", "robot-token", "Bearer", "Bearer other"):
            async with world.client(Authorization=header) as client:
                assert await ask(client, "/pods") == UNAUTHORIZED, header
        async with world.client(Authorization=" bEaReR robot-token ") as client:
            assert (await ask(client, "/pods"))[0] == 200
    assert reviewer.tokens == ["other", "robot-token"]


async def test_a_certificate_that_the_client_authority_did_not_sign(tmp_path: Path) -> None:
    async with kubelet_server_world(tmp_path, FakeReviewer()) as world:
        for pair in (
            Authority("clients").issue("apiserver", groups=("system:masters",)),
            world.authority.issue("apiserver"),
            # Not for clients.
            world.clients.issue("apiserver", "localhost"),
        ):
            async with world.client("robot-token", pair) as client:
                with pytest.raises(CONNECTION_ERRORS):
                    await ask(client, "/pods")


async def test_a_certificate_that_expires_during_a_connection(tmp_path: Path) -> None:
    clock, reviewer = ShiftedClock(), FakeReviewer()
    async with kubelet_server_world(tmp_path, reviewer, clock=clock) as world:
        pair = world.clients.issue("apiserver")
        async with world.client(pair=pair) as client:
            assert (await ask(client, "/pods"))[0] == 200
            for days in (2, -2):
                clock.ahead = timedelta(days=days)
                assert await ask(client, "/pods") == UNAUTHORIZED


async def test_the_user_of_a_token_is_remembered(tmp_path: Path) -> None:
    clock, reviewer = ShiftedClock(), FakeReviewer()
    async with (
        kubelet_server_world(tmp_path, reviewer, clock=clock) as world,
        world.robot() as client,
        world.client("other") as stranger,
    ):
        for later, reviews in ((0, 1), (119, 1), (121, 2)):
            clock.later = later
            assert (await ask(client, "/pods"))[0] == 200
            assert reviewer.tokens.count("robot-token") == reviews
            # A refusal is not remembered: the token may become valid.
            assert await ask(stranger, "/pods") == UNAUTHORIZED
    assert reviewer.tokens.count("other") == 3


async def test_decisions_are_remembered(tmp_path: Path) -> None:
    clock, reviewer = ShiftedClock(), FakeReviewer(refused={"stats"})
    async with kubelet_server_world(tmp_path, reviewer, clock=clock) as world:
        async with world.robot() as client:
            for later, allowed, refused in ((0, 1, 1), (29, 1, 1), (31, 1, 2), (301, 2, 3)):
                clock.later = later
                assert (await ask(client, "/metrics"))[0] == 200
                assert (await ask(client, "/metrics/cadvisor"))[0] == 200
                assert (await ask(client, "/stats/summary"))[0] == 403
                asked = [wanted.subresource for _, wanted in reviewer.decisions]
                assert (asked.count("metrics"), asked.count("stats")) == (allowed, refused), later
        # Another user is another decision.
        async with world.client(pair=world.clients.issue("anne")) as client:
            assert (await ask(client, "/metrics"))[0] == 200
    assert [user.name for user, _ in reviewer.decisions][-1] == "anne"


async def test_the_number_of_remembered_answers_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MOST_CACHED", 2)
    reviewer = FakeReviewer()
    async with kubelet_server_world(tmp_path, reviewer) as world, world.robot() as client:
        for path in ("/metrics", "/stats/summary", "/configz", "/configz", "/metrics"):
            assert (await ask(client, path))[0] == 200
    asked = [wanted.subresource for _, wanted in reviewer.decisions]
    assert asked == ["metrics", "stats", "configz", "metrics"]


async def test_the_api_server_is_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, reviewer = ShiftedClock(), FakeReviewer()
    error = "Authorization error (user=robot, verb=get, resource=nodes, subresource=stats)"
    async with (
        kubelet_server_world(tmp_path, reviewer, clock=clock) as world,
        world.robot() as client,
        world.client("other") as stranger,
    ):
        assert (await ask(client, "/metrics"))[0] == 200
        reviewer.away = True
        with caplog.at_level(logging.WARNING):
            # What is remembered still counts.
            assert (await ask(client, "/metrics"))[0] == 200
            for _ in range(2):
                assert await ask(client, "/stats/summary") == (500, error)
                assert await ask(stranger, "/metrics") == UNAUTHORIZED
        clock.later = 121
        assert await ask(client, "/metrics") == UNAUTHORIZED
        reviewer.away = False
        assert (await ask(client, "/stats/summary"))[0] == 200
    for text in ("cannot review the access of a user", "cannot review a token"):
        assert caplog.text.count(f"{text}: 10.0.0.1:6443: connection refused") == 1
    assert "other" not in caplog.text


async def test_other_rules(tmp_path: Path) -> None:
    reviewer = FakeReviewer(refused={"pods", "proxy"})
    for number, (rules, anonymous, robot) in enumerate(
        (
            (AccessRules(anonymous=True), 403, 403),
            (AccessRules(webhook=False), 401, 401),
            (AccessRules(always_allow=True), 401, 200),
            (AccessRules(anonymous=True, always_allow=True), 200, 200),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with kubelet_server_world(folder, reviewer, rules=rules) as world:
            async with world.client() as client:
                assert (await ask(client, "/pods"))[0] == anonymous, rules
            async with world.robot() as client:
                assert (await ask(client, "/pods"))[0] == robot, rules
            async with world.client("other") as client:
                assert await ask(client, "/pods") == UNAUTHORIZED, rules
    user, _ = reviewer.decisions[0]
    assert user == User("system:anonymous", ("system:unauthenticated",))


async def test_replaced_certificates_are_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with kubelet_server_world(tmp_path, FakeReviewer()) as world:
        former, world.authority = world.authority, Authority("next")
        write_certificate(tmp_path, world.authority)
        assert await reached(world)
        world.authority = former
        assert not await reached(world)
        # What cannot be loaded changes nothing.
        world.authority = Authority("third")
        (tmp_path / "server.key").write_bytes(world.authority.issue("kubelet", "localhost")[1])
        (tmp_path / "clients.crt").write_bytes(b"")
        with caplog.at_level(logging.WARNING):
            assert not await reached(world)
            assert not await reached(world)
        assert caplog.text.count("cannot load the certificate") == 1
        anne = world.clients.issue("anne")
        world.clients = Authority("next clients")
        (tmp_path / "clients.crt").write_bytes(world.clients.pem)
        write_certificate(tmp_path, world.authority)
        assert await reached(world)
        assert await reached(world, world.clients.issue("bob"))
        assert not await reached(world, anne)


async def reached(world: KubeletServerWorld, pair: tuple[bytes, bytes] | None = None) -> bool:
    try:
        async with world.client("" if pair else "robot-token", pair) as client:
            return (await ask(client, "/pods"))[0] == 200
    except CONNECTION_ERRORS:
        return False
