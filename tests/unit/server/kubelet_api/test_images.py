"""The engine's images over the API, directly and with the typed client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from served import serving

from podtui.api.local import NodeImage, NodeImageList, PrunedImages, PullStep
from podtui.client.unix import UnixClient
from podtui.errors import (
    AgentUnavailable,
    ApiError,
    EngineConflict,
    EngineUnavailable,
    ImagePullError,
)
from podtui.server.kubelet_api.images import ImageRoutes

PATH = "/apis/podtui.dev/v1alpha1/images"
IMAGE = NodeImage(id="sha256:a", names=("a:1",), sizeBytes=5)


@dataclass
class Images:
    """Returns scripted results; ``problem`` is raised by every call."""

    problem: Exception | None = None
    removed: list[str] = field(default_factory=list[str])
    pulled: list[str] = field(default_factory=list[str])
    steps: tuple[PullStep, ...] = (
        PullStep(status="Downloading", current=1, total=4),
        PullStep(status="Downloading", current=4, total=4),
    )
    endless: bool = False
    given_up: asyncio.Event = field(default_factory=asyncio.Event)

    def _check(self) -> None:
        if self.problem is not None:
            raise self.problem

    async def list(self) -> NodeImageList:
        self._check()
        return NodeImageList(items=(IMAGE,))

    async def remove(self, image_id: str) -> None:
        self._check()
        self.removed.append(image_id)

    async def prune(self, ids: Collection[str]) -> PrunedImages:
        self._check()
        self.pruned = list(ids)
        return PrunedImages(removed=("a:1",), sizeBytes=5, kept=("b:1: in use",))

    async def pull(self, image: str, on_step: Callable[[PullStep], None]) -> NodeImage:
        self.pulled.append(image)
        for step in self.steps:
            on_step(step)
        self._check()
        if self.endless:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.set()
        return IMAGE


@asynccontextmanager
async def client_of(tmp_path: Path, images: Images) -> AsyncGenerator[UnixClient]:
    async with serving(tmp_path / "s.sock", extra_routes=ImageRoutes(images).routes()):
        client = UnixClient(tmp_path / "s.sock")
        try:
            yield client
        finally:
            await client.close()


@pytest.mark.parametrize("engine", ["up", "down"])
async def test_images_are_listed_while_an_engine_is_available(tmp_path: Path, engine: str) -> None:
    images = Images(EngineUnavailable("no engine") if engine == "down" else None)
    connector = aiohttp.UnixConnector(str(tmp_path / "s.sock"))
    async with (
        serving(tmp_path / "s.sock", extra_routes=ImageRoutes(images).routes()),
        aiohttp.ClientSession("http://podtui", connector=connector) as http,
        http.get(PATH) as response,
    ):
        answer = await response.json()
    if engine == "down":
        assert (response.status, answer["message"]) == (503, "no engine")
        return
    assert (answer["kind"], answer["apiVersion"]) == ("NodeImageList", "podtui.dev/v1alpha1")
    assert answer["items"] == [{"id": "sha256:a", "names": ["a:1"], "sizeBytes": 5}]


async def test_an_image_is_removed_by_its_id(tmp_path: Path) -> None:
    images = Images()
    async with client_of(tmp_path, images) as client:
        await client.remove_image("sha256:a")
    assert images.removed == ["sha256:a"]


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (LookupError("no such image"), 404),
        (EngineConflict("a:1 is used by default/web"), 409),
        (EngineUnavailable("no engine"), 503),
    ],
)
async def test_a_refused_removal_has_a_reason(
    tmp_path: Path, problem: Exception, code: int
) -> None:
    async with client_of(tmp_path, Images(problem)) as client:
        with pytest.raises(ApiError, match=str(problem)) as caught:
            await client.remove_image("sha256:a")
    assert caught.value.code == code


async def test_prune_lists_removed_and_kept_images(tmp_path: Path) -> None:
    images = Images()
    async with client_of(tmp_path, images) as client:
        pruned = await client.prune_images(["sha256:a", "sha256:b"])
    assert images.pruned == ["sha256:a", "sha256:b"]
    assert pruned == PrunedImages(removed=("a:1",), sizeBytes=5, kept=("b:1: in use",))


async def test_a_pull_streams_its_steps_and_then_its_image(tmp_path: Path) -> None:
    images = Images()
    async with client_of(tmp_path, images) as client:
        steps = [step async for step in client.pull_image("localhost:5000/a/b:1")]
    assert images.pulled == ["localhost:5000/a/b:1"]
    assert [(step.current, step.total) for step in steps] == [(1, 4), (4, 4), (0, 0)]
    assert [step.image for step in steps] == [None, None, IMAGE]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (ImagePullError("manifest unknown"), "manifest unknown"),
        (EngineUnavailable("no engine"), "the engine does not answer: no engine"),
    ],
)
async def test_a_failed_pull_has_a_reason(tmp_path: Path, problem: Exception, words: str) -> None:
    async with client_of(tmp_path, Images(problem)) as client:
        with pytest.raises(ApiError, match=words):
            async for _ in client.pull_image("a:1"):
                pass


async def test_an_invalid_name_is_refused_before_the_pull(tmp_path: Path) -> None:
    images = Images()
    async with client_of(tmp_path, images) as client:
        with pytest.raises(ApiError, match="not a valid image name") as caught:
            async for _ in client.pull_image("Not An Image"):
                pass
    assert (caught.value.code, images.pulled) == (400, [])


async def test_a_disconnecting_client_cancels_the_pull(tmp_path: Path) -> None:
    images = Images(endless=True)
    async with client_of(tmp_path, images) as client:
        steps = client.pull_image("a:1")
        assert (await anext(steps)).current == 1
        await steps.aclose()
        async with asyncio.timeout(120):
            await images.given_up.wait()


async def test_an_interrupted_pull_stream_is_an_error(tmp_path: Path) -> None:
    images = Images(endless=True)
    client = UnixClient(tmp_path / "s.sock")
    try:
        async with serving(tmp_path / "s.sock", extra_routes=ImageRoutes(images).routes()):
            steps = client.pull_image("a:1")
            assert (await anext(steps)).current == 1
        with pytest.raises(AgentUnavailable):
            async for _ in steps:
                pass
    finally:
        await client.close()
