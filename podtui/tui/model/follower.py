"""Follow the API: fold the deltas of the watches and the measured usage into the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from podtui.api.local import Manifest
from podtui.api.v1 import Event, Node, Pod
from podtui.client.protocol import Client, Lost, Synced
from podtui.errors import AgentUnavailable, ApiError, PodtuiError
from podtui.tui.model.model import LinkState, Model

RETRY_SECONDS: Final = 1.0
CHECK_SECONDS: Final = 0.25
"""Seconds between checks whether the agent is connected, before its usage is read."""


class ApiFollower:
    """Keeps a model up to date. ``on_change`` is called after each change of the model, ``clock``
    returns the time of a contact.
    """

    def __init__(
        self,
        client: Client,
        model: Model,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self._client = client
        self._model = model
        self._clock = clock
        self._on_change = on_change
        self._manifests_listed = asyncio.Event()

    async def run(self) -> None:
        """Follow all kinds of objects that the server has, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            kinds = (Node, Pod, Event, Manifest)
            for kind in kinds if self._model.server.capabilities.manifests else kinds[:-1]:
                tasks.create_task(self._follow(kind), name=f"follow {kind.__name__}")
            tasks.create_task(self._measure(), name="measure")
            tasks.create_task(self._discover(), name="discover")

    async def _follow(self, kind: Any) -> None:
        model = self._model
        waits = kind is Pod and model.server.capabilities.manifests
        while True:
            try:
                async for delta in self._client.follow(kind):
                    if waits and isinstance(delta, Synced):
                        # Whoever sees a pod can act on its file.
                        await self._manifests_listed.wait()
                    if model.server.is_cluster:
                        model.namespace = self._client.namespace
                    model.fold(kind, delta)
                    if model.is_synced(Manifest):
                        self._manifests_listed.set()
                    if not isinstance(delta, Lost):
                        model.contact_at = self._clock()
                    self._on_change()
            except PodtuiError as error:
                model.fold(kind, Lost(str(error)))
                self._on_change()
            await asyncio.sleep(RETRY_SECONDS)

    async def _discover(self) -> None:
        """Read the kinds that the server has, once it is connected."""
        model = self._model
        while True:
            if model.link is LinkState.CONNECTED:
                try:
                    model.kinds = await self._client.kinds()
                    return
                except ApiError as error:
                    if error.code < 429:
                        return  # the user may not read them: their lists are not available
                except AgentUnavailable:
                    pass  # the watches report it
            await asyncio.sleep(CHECK_SECONDS)

    async def _measure(self) -> None:
        model, capabilities = self._model, self._model.server.capabilities
        while True:
            if model.link is not LinkState.CONNECTED:
                await asyncio.sleep(CHECK_SECONDS)
                continue
            try:
                pods = await self._client.pod_metrics()
                several = capabilities.several_nodes
                nodes = await self._client.nodes_metrics() if several else ()
                node = None if several else await self._client.node_metrics()
            except PodtuiError:
                # The watches report a lost agent; keep the last usage.
                pass
            else:
                model.contact_at = self._clock()
                model.set_usage(pods, node)
                model.set_node_usages(nodes)
                self._on_change()
            await asyncio.sleep(capabilities.usage_seconds)
