"""The engine's images, over the API."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from served import serving

from podtui.api.images import NodeImage, NodeImageList
from podtui.errors import EngineUnavailable
from podtui.server.images import Images

PATH = "/apis/podtui.dev/v1alpha1/images"


@pytest.mark.parametrize("engine", ["up", "down"])
async def test_images_are_told_while_there_is_an_engine(tmp_path: Path, engine: str) -> None:
    async def read() -> NodeImageList:
        if engine == "down":
            raise EngineUnavailable("no engine")
        return NodeImageList(items=(NodeImage(id="sha256:a", names=("a:1",), sizeBytes=5),))

    connector = aiohttp.UnixConnector(str(tmp_path / "s.sock"))
    async with (
        serving(tmp_path / "s.sock", extra_routes=Images(read).routes()),
        aiohttp.ClientSession("http://podtui", connector=connector) as http,
        http.get(PATH) as response,
    ):
        answer = await response.json()
    if engine == "down":
        assert (response.status, answer["message"]) == (503, "no engine")
        return
    assert (answer["kind"], answer["apiVersion"]) == ("NodeImageList", "podtui.dev/v1alpha1")
    assert answer["items"] == [{"id": "sha256:a", "names": ["a:1"], "sizeBytes": 5}]
