"""The client of an agent on this machine, over its unix socket."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp

from podtui.api.insight import (
    AT_ONCE,
    ConnectionCheck,
    InsightQuery,
    NodeInsight,
    PodInsight,
    ProbeRun,
)
from podtui.api.local import (
    EngineCall,
    EngineCallList,
    NodeImage,
    NodeImageList,
    Plan,
    PrunedImages,
    PullStep,
    WhatIf,
)
from podtui.api.names import GROUP_VERSION
from podtui.client.api_client import ApiClient
from podtui.client.connection import ANSWER_SECONDS, HttpConnection
from podtui.client.decoding import LineSplitter, decode_response
from podtui.clock import Clock
from podtui.errors import AgentUnavailable, ApiError

REMOVAL_SECONDS: Final = 300.0
"""For requests that delete files, which can take a disk long."""
PULL_SILENCE: Final = 180.0
"""Longer than the agent waits for a stalled engine before it cancels the pull."""
_LONGEST_STEP: Final = 64 * 1024


class UnixClient(ApiClient):
    """A `podtui.client.protocol.Client` over the agent's unix socket. Belongs to one event loop.

    ``agent`` is the name of the program that the API sees, for instance as the manager of fields.
    """

    def __init__(
        self, socket_path: Path | str, *, clock: Clock | None = None, agent: str = ""
    ) -> None:
        # Do not limit the pool: a screen may hold any number of streams open.
        connector = functools.partial(aiohttp.UnixConnector, str(socket_path), limit=0)
        headers = {"User-Agent": agent} if agent else None
        connection = HttpConnection("http://podtui", connector, headers)
        super().__init__(f"unix:{socket_path}", connection, clock)

    async def insight(
        self, namespace: str, pod: str, query: InsightQuery = AT_ONCE
    ) -> PodInsight | None:
        """See `Client.insight`."""
        path = f"{_pod_path(namespace, pod)}/insight"
        body = await self._long_poll(path, query)
        return decode_response(path, body, PodInsight) if body else None

    async def node_insight(self, query: InsightQuery = AT_ONCE) -> NodeInsight | None:
        """See `Client.node_insight`."""
        path = f"/apis/{GROUP_VERSION}/nodeinsight"
        body = await self._long_poll(path, query)
        return decode_response(path, body, NodeInsight) if body else None

    async def _long_poll(self, path: str, query: InsightQuery) -> bytes:
        """Return the response; empty if there was nothing new."""
        params = {
            "part": query.part.value,
            "span": f"{query.span:g}",
            "seen": query.seen,
            "wait": f"{query.wait:g}",
        }
        total = query.wait + ANSWER_SECONDS
        async with self._connection.stream("GET", path, params, total=total) as response:
            return await response.read()

    async def run_probe(self, namespace: str, pod: str, container: str, probe: str) -> ProbeRun:
        query = urlencode({"container": container, "probe": probe})
        path = f"{_pod_path(namespace, pod)}/probe"
        return decode_response(path, await self._connection.post(f"{path}?{query}"), ProbeRun)

    async def check_connection(
        self, namespace: str, pod: str, host: str, port: int = 0
    ) -> ConnectionCheck:
        """See `Client.check_connection`."""
        query = urlencode({"host": host, "port": port})
        path = f"{_pod_path(namespace, pod)}/connections"
        body = await self._connection.post(f"{path}?{query}")
        return decode_response(path, body, ConnectionCheck)

    async def retry(self, namespace: str, pod: str) -> None:
        """See `Client.retry`."""
        await self._connection.post(f"{_pod_path(namespace, pod)}/retry")

    async def restart(self, namespace: str, pod: str, container: str = "") -> None:
        """See `Client.restart`."""
        params = {"container": container} if container else None
        await self._connection.post(f"{_pod_path(namespace, pod)}/restart", params)

    async def plan(self, name: str, text: bytes | None) -> Plan:
        """See `Client.plan`."""
        path = f"/apis/{GROUP_VERSION}/manifests/{quote(name, safe='')}/plan"
        params = {"remove": "true"} if text is None else None
        body = await self._connection.post(path, params, body=text or b"")
        return decode_response(path, body, Plan)

    async def what_if(self, manifest: bytes) -> WhatIf:
        """See `Client.what_if`."""
        path = f"/apis/{GROUP_VERSION}/whatifs"
        return decode_response(path, await self._connection.post(path, body=manifest), WhatIf)

    async def images(self) -> tuple[NodeImage, ...]:
        """See `Client.images`."""
        path = f"/apis/{GROUP_VERSION}/images"
        return decode_response(path, await self._connection.get(path), NodeImageList).items

    async def remove_image(self, image_id: str) -> None:
        """See `Client.remove_image`."""
        path = f"/apis/{GROUP_VERSION}/images/{quote(image_id, safe='')}"
        async with self._connection.stream("DELETE", path, total=REMOVAL_SECONDS) as response:
            await response.read()

    async def prune_images(self, ids: Sequence[str]) -> PrunedImages:
        """See `Client.prune_images`."""
        query = urlencode({"id": ids}, doseq=True)
        path = f"/apis/{GROUP_VERSION}/images/prune?{query}"
        async with self._connection.stream("POST", path, total=REMOVAL_SECONDS) as response:
            return decode_response(path, await response.read(), PrunedImages)

    async def pull_image(self, image: str) -> AsyncGenerator[PullStep]:
        """See `Client.pull_image`."""
        splitter = LineSplitter(_LONGEST_STEP)
        path = f"/apis/{GROUP_VERSION}/images/pull"
        async with self._connection.stream(
            "POST", path, {"image": image}, silence=PULL_SILENCE
        ) as response:
            async for chunk in response.content.iter_any():
                for line in splitter.feed(chunk):
                    step = decode_response(path, line, PullStep)
                    if step.error:
                        raise ApiError(500, "ErrImagePull", step.error)
                    yield step
                    if step.image is not None:
                        return
        raise AgentUnavailable("the agent closed the connection before the image was pulled")

    async def engine_calls(self, uid: str = "") -> tuple[EngineCall, ...]:
        """See `Client.engine_calls`."""
        params = {"uid": uid} if uid else None
        path = f"/apis/{GROUP_VERSION}/enginecalls"
        return decode_response(path, await self._connection.get(path, params), EngineCallList).items


def _pod_path(namespace: str, pod: str) -> str:
    where = quote(namespace, safe="")
    return f"/apis/{GROUP_VERSION}/namespaces/{where}/pods/{quote(pod, safe='')}"
