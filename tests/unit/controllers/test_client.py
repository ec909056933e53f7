"""The answers of writes go to the cache of the controllers."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest
from controller_objects import cache_of, pod
from msgspec import structs

from podtui.api.v1 import Pod
from podtui.client.api_client import ApiClient
from podtui.controllers.client import ControllerClient
from podtui.errors import ApiError


class Answer:
    """An API that answers each deletion with ``body``."""

    def __init__(self, body: object) -> None:
        self.body = body

    async def delete(self, *where: object, uid: str, policy: str) -> bytes:
        if isinstance(self.body, ApiError):
            raise self.body
        return msgspec.json.encode(self.body)


def deleted(seconds: int, *finalizers: str) -> Pod:
    item = pod("a", 1 if not seconds and not finalizers else 2)
    meta = structs.replace(
        item.metadata,
        deletionTimestamp="2026-01-02T00:00:00Z",
        deletionGracePeriodSeconds=seconds,
        finalizers=finalizers,
    )
    return structs.replace(item, metadata=meta)


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (deleted(30), ["2026-01-02T00:00:00Z"]),
        (deleted(0, "own"), ["2026-01-02T00:00:00Z"]),
        (deleted(0), []),
        ({"kind": "Status"}, []),
        (ApiError(404, "NotFound", "gone"), []),
    ],
)
async def test_a_deletion_is_in_the_cache_at_once(answer: object, left: list[str]) -> None:
    cache = cache_of(pod("a", 1))
    client = ControllerClient(cast("ApiClient", Answer(answer)), cache)
    await client.delete(Pod, pod("a", 1))
    assert [item.metadata.deletionTimestamp for item in cache.list(Pod)] == left


async def test_a_refused_deletion_changes_nothing() -> None:
    cache = cache_of(pod("a", 1))
    answer = Answer(ApiError(409, "Conflict", "the UID differs"))
    client = ControllerClient(cast("ApiClient", answer), cache)
    with pytest.raises(ApiError):
        await client.delete(Pod, pod("a", 1))
    assert len(cache.list(Pod)) == 1
