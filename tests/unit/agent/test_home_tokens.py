"""The tokens that the agent issues to its own kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from fixed_clock import FixedClock
from kubelet_world import api_pod, pod

from podtui.agent.home import HomeTokens
from podtui.api.v1 import ObjectMeta, Pod, ServiceAccount
from podtui.errors import PodtuiError
from podtui.kubelet.ports import TokenRequest
from podtui.pki.certificates import make_key
from podtui.pki.tokens import TokenIssuer
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.store import Store, open_store

ROBOT = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default"))


@asynccontextmanager
async def opened(clock: FixedClock) -> AsyncGenerator[Store]:
    store = open_store(None, clock=clock)
    try:
        yield store
    finally:
        await store.close()


def request(made: Pod) -> TokenRequest:
    return TokenRequest(pod=made, service_account="robot", audience="", seconds=600)


async def test_a_token_is_bound_to_a_pod_of_the_api_and_to_the_account_of_a_static_pod() -> None:
    clock = FixedClock()
    async with opened(clock) as store:
        registry = TokenRegistry(store, TokenIssuer(make_key()), clock)
        tokens = HomeTokens(store, registry)
        of_api = api_pod("web", serviceAccountName="robot")
        static = pod("static-n1", serviceAccountName="robot")
        with pytest.raises(PodtuiError, match=r'^serviceaccounts "robot" not found$'):
            await tokens.token(request(static))
        await store.create("serviceaccounts", ROBOT)
        await store.create("pods", of_api)
        first = await tokens.token(request(of_api))
        # Its mirror pod may not exist yet, and may get another UID.
        second = await tokens.token(request(static))
        for token in (first, second):
            user = await registry.verify(token.text)
            assert user is not None
            assert user.name == "system:serviceaccount:default:robot"
        await store.delete("pods", "default", "web", lambda _: None)
        assert await registry.verify(first.text) is None
        assert await registry.verify(second.text) is not None
        await store.delete("serviceaccounts", "default", "robot", lambda _: None)
        assert await registry.verify(second.text) is None


async def test_changes_of_accounts() -> None:
    clock = FixedClock()
    async with opened(clock) as store:
        tokens = HomeTokens(store, TokenRegistry(store, TokenIssuer(make_key()), clock))
        seen: list[tuple[str, str]] = []

        async def follow() -> None:
            async for account in tokens.changes():
                seen.append(account)
                return

        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            group.create_task(follow())
            await asyncio.sleep(0)
            await store.create("serviceaccounts", ROBOT)
        assert seen == [("default", "robot")]
