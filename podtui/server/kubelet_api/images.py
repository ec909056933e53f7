"""The engine's images, for which the Kubernetes API has no resource."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

import msgspec
from aiohttp import web

from podtui.api.image_reference import parse_image_reference
from podtui.api.local import NodeImage, NodeImageList, PrunedImages, PullStep
from podtui.api.names import GROUP_VERSION
from podtui.errors import EngineConflict, EngineError, EngineUnavailable
from podtui.server.status import StatusError, bad_request, json_response, success
from podtui.server.transport.streams import STREAMS, Outflow

_PATH = f"/apis/{GROUP_VERSION}/images"


class ImageService(Protocol):
    """All methods raise `EngineUnavailable` if no engine answers, and `EngineError`."""

    async def list(self) -> NodeImageList: ...

    async def remove(self, image_id: str) -> None:
        """Raises `LookupError` for an unknown id and `EngineConflict` for an image in use, both
        with a text for the user."""
        ...

    async def prune(self, ids: Collection[str]) -> PrunedImages: ...

    async def pull(self, image: str, on_step: Callable[[PullStep], None]) -> NodeImage: ...


class ImageRoutes:
    """``GET …/images``; ``DELETE …/images/ID``; ``POST …/images/prune?id=ID&id=…``; ``POST
    …/images/pull?image=NAME``, which streams one ``PullStep`` per line until the pull ends. A pull
    is cancelled when its client disconnects."""

    def __init__(self, images: ImageService) -> None:
        self._images = images

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(_PATH, self.list),
            web.delete(f"{_PATH}/{{id}}", self.remove),
            web.post(f"{_PATH}/prune", self.prune),
            web.post(f"{_PATH}/pull", self.pull),
        ]

    async def list(self, request: web.Request) -> web.Response:
        answer = await self._images.list()
        head = b'{"kind":"%s","apiVersion":"%s",' % (answer.kind.encode(), GROUP_VERSION.encode())
        items = msgspec.json.encode(answer.items)
        return json_response(head + b'"items":%s}' % items)

    async def remove(self, request: web.Request) -> web.Response:
        try:
            await self._images.remove(request.match_info["id"])
        except LookupError as error:
            raise StatusError(404, str(error.args[0])) from error
        except EngineConflict as error:
            raise StatusError(409, str(error)) from error
        return success()

    async def prune(self, request: web.Request) -> web.Response:
        ids = request.query.getall("id", [])
        return json_response(msgspec.json.encode(await self._images.prune(ids)))

    async def pull(self, request: web.Request) -> web.StreamResponse:
        image = request.query.get("image", "")
        if parse_image_reference(image) is None:
            raise bad_request(f'image: Invalid value: "{image}": not a valid image name')

        async def produce(outflow: Outflow) -> None:
            def report(step: PullStep) -> None:
                outflow.add(msgspec.json.encode(step) + b"\n")

            try:
                report(PullStep(image=await self._images.pull(image, report)))
            except EngineUnavailable as error:
                report(PullStep(error=f"the engine does not answer: {error}"))
            except EngineError as error:
                report(PullStep(error=str(error) or "the engine reported no reason"))
            outflow.end()

        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        return await request.app[STREAMS].run(request, response, produce)
