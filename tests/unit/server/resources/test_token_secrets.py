"""Secrets that a controller fills with tokens of service accounts."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from podtui.api.v1 import ObjectMeta, Secret, ServiceAccount
from podtui.clock import SystemClock
from podtui.pki.certificates import make_key
from podtui.pki.tokens import InvalidToken, Reference, TokenIssuer
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.server.resources.token_secrets import TOKEN_TYPE, TokenSecrets
from podtui.store import Store, open_store

CLOCK = SystemClock()
ISSUER = TokenIssuer(make_key())
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"
ROBOT = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default"))


@pytest.fixture
def store() -> Store:
    return open_store(None, clock=CLOCK)


@pytest.fixture
def tokens(store: Store) -> TokenRegistry:
    return TokenRegistry(store, ISSUER, CLOCK)


@asynccontextmanager
async def filling(store: Store) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(TokenSecrets(store, ISSUER, CLOCK, lambda: "PEM").run())
        yield
        task.cancel()


def secret(name: str = "s", **annotations: str) -> Secret:
    meta = ObjectMeta(name=name, namespace="default", annotations=annotations)
    return Secret(metadata=meta, type=TOKEN_TYPE)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(10_000):
        if await condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def stored(store: Store, name: str = "s") -> Secret | None:
    found = await store.get("secrets", "default", name)
    assert found is None or isinstance(found, Secret)
    return found


def plain(found: Secret, key: str) -> str:
    return base64.b64decode(found.data[key]).decode()


async def filled(store: Store) -> Secret:
    async def has_token() -> bool:
        found = await stored(store)
        return found is not None and "token" in found.data

    await until(has_token)
    found = await stored(store)
    assert found is not None
    return found


async def test_a_secret_gets_a_token_for_its_account(store: Store, tokens: TokenRegistry) -> None:
    account = await store.create("serviceaccounts", ROBOT)
    async with filling(store):
        await store.create("secrets", secret(**{NAME: "robot"}))
        found = await filled(store)
    assert (plain(found, "ca.crt"), plain(found, "namespace")) == ("PEM", "default")
    assert found.metadata.annotations == {NAME: "robot", UID: account.metadata.uid}
    user, audiences = await tokens.review(plain(found, "token"), (ISSUER.audience, "other"))
    assert user.name == "system:serviceaccount:default:robot"
    assert user.uid == account.metadata.uid
    assert audiences == (ISSUER.audience,)
    with pytest.raises(InvalidToken, match="audiences"):
        await tokens.review(plain(found, "token"), ("other",))


async def test_a_token_is_valid_as_long_as_its_secret_has_it(
    store: Store, tokens: TokenRegistry
) -> None:
    await store.create("serviceaccounts", ROBOT)
    async with filling(store):
        await store.create("secrets", secret(**{NAME: "robot"}))
        found = await filled(store)
        token = plain(found, "token")
        assert await tokens.verify(token) is not None
        # A removed token is replaced; the old one is not valid any more.
        await store.put("secrets", structs.replace(found, data={}))
        second = await filled(store)
        assert plain(second, "token") != token
        assert await tokens.verify(token) is None
        assert await tokens.verify(plain(second, "token")) is not None
        await store.delete("secrets", "default", "s")
        assert await tokens.verify(plain(second, "token")) is None


async def test_a_secret_ends_with_its_account(store: Store, tokens: TokenRegistry) -> None:
    await store.create("serviceaccounts", ROBOT)
    async with filling(store):
        await store.create("secrets", secret(**{NAME: "robot"}))
        token = plain(await filled(store), "token")
        await store.delete("serviceaccounts", "default", "robot")
        assert await tokens.verify(token) is None

        async def gone() -> bool:
            return await stored(store) is None

        await until(gone)
        # So does one for an account that never existed, and one for an earlier account.
        await store.create("secrets", secret(**{NAME: "nobody"}))
        await until(gone)
        await store.create("serviceaccounts", ROBOT)
        await store.create("secrets", secret(**{NAME: "robot", UID: "another"}))
        await until(gone)


async def test_other_secrets_and_tokens_stay(store: Store) -> None:
    await store.create("serviceaccounts", ROBOT)
    other = structs.replace(secret("other", **{NAME: "robot"}), type="Opaque")
    await store.create("secrets", other)
    given = structs.replace(secret(**{NAME: "robot"}), data={"token": "YQ=="})
    async with filling(store):
        await store.create("secrets", given)

        async def has_ca() -> bool:
            found = await stored(store)
            return found is not None and "ca.crt" in found.data

        await until(has_ca)
    found = await stored(store)
    assert found is not None
    assert found.data["token"] == "YQ=="
    unchanged = await stored(store, "other")
    assert unchanged is not None
    assert unchanged.data == {}


async def test_a_forged_token_is_refused(store: Store, tokens: TokenRegistry) -> None:
    account = await store.create("serviceaccounts", ROBOT)
    async with filling(store):
        await store.create("secrets", secret(**{NAME: "robot"}))
        await filled(store)
    forger = TokenIssuer(make_key())
    found = await stored(store)
    assert found is not None
    token = forger.issue_legacy("default", Reference("robot", account.metadata.uid), "s")
    data = {**found.data, "token": base64.b64encode(token.encode()).decode()}
    await store.put("secrets", structs.replace(found, data=data))
    assert await tokens.verify(token) is None


async def test_a_new_authority_replaces_the_certificate_and_keeps_the_token(store: Store) -> None:
    await store.create("serviceaccounts", ROBOT)
    await store.create("secrets", secret(**{NAME: "robot"}))
    authority = "first"
    secrets = TokenSecrets(store, ISSUER, CLOCK, lambda: authority)
    await secrets.update()
    before = await stored(store)
    authority = "second"
    await secrets.update()
    after = await stored(store)
    assert before is not None
    assert after is not None
    assert (plain(before, "ca.crt"), plain(after, "ca.crt")) == ("first", "second")
    assert plain(before, "token") == plain(after, "token")
