"""Requests of the client to the node, against a server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from served import serving

from podtui.api.local import Lack, NodeImage, NodeImageList, PrunedImages, PullStep, WhatIf
from podtui.api.v1 import ObjectMeta, Pod
from podtui.client.unix import UnixClient
from podtui.errors import ApiError
from podtui.manifest.diagnose import read_manifest
from podtui.server.kubelet_api.images import ImageRoutes
from podtui.server.kubelet_api.what_if import WhatIfRoutes

MANIFEST = b'{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}, "spec": %s}'
IMAGE = NodeImage(id="sha256:a", names=("a:1",), sizeBytes=5)
LACK = Lack(resource="cpu", requested=3, used=2, capacity=4)


async def rejected(pod: Pod) -> WhatIf:
    return WhatIf(
        metadata=ObjectMeta(name=pod.metadata.name), admitted=False, reason="R", lacks=(LACK,)
    )


class Images:
    """The images of the node: only one."""

    async def list(self) -> NodeImageList:
        return NodeImageList(items=(IMAGE,))

    async def remove(self, image_id: str) -> None:
        raise AssertionError(image_id)

    async def prune(self) -> PrunedImages:
        raise AssertionError

    async def pull(self, image: str, on_step: Callable[[PullStep], None]) -> NodeImage:
        raise AssertionError(image)


async def test_requests_go_to_the_node(tmp_path: Path) -> None:
    reader = partial(read_manifest, "/m/x.yaml", node_name="n1")
    routes = [*WhatIfRoutes(rejected, reader).routes(), *ImageRoutes(Images()).routes()]
    async with serving(tmp_path / "s.sock", extra_routes=routes):
        client = UnixClient(tmp_path / "s.sock")
        try:
            assert await client.images() == (IMAGE,)
            whole = MANIFEST % b'{"containers": [{"name": "c", "image": "a:1"}]}'
            answer = await client.what_if(whole)
            assert (answer.metadata.name, answer.admitted) == ("web-n1", False)
            assert answer.lacks == (LACK,)
            with pytest.raises(ApiError, match="does not define a valid pod") as caught:
                await client.what_if(MANIFEST % b"{}")
            assert caught.value.code == 422
        finally:
            await client.close()
