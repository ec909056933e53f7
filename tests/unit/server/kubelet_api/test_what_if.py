"""Checking whether a pod would be admitted, with a manifest that is not kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from served import serving

from podtui.api.local import Lack, PodToRemove, PortHolder, WhatIf
from podtui.api.v1 import ObjectMeta, Pod
from podtui.manifest.diagnose import read_manifest
from podtui.server.kubelet_api.what_if import WhatIfRoutes

ASK = "/apis/podtui.dev/v1alpha1/whatifs"
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: "busybox:1"}]}
"""


class ScriptedSimulator:
    """Returns the same answer for every pod."""

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self.answer: dict[str, Any] = {"admitted": True}

    async def __call__(self, pod: Pod) -> WhatIf:
        self.pods.append(pod)
        meta = ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace)
        return WhatIf(metadata=meta, **self.answer)


@pytest.fixture
def simulator() -> ScriptedSimulator:
    return ScriptedSimulator()


@pytest.fixture
async def http(
    simulator: ScriptedSimulator, tmp_path: Path
) -> AsyncIterator[aiohttp.ClientSession]:
    routes = WhatIfRoutes(
        simulator, partial(read_manifest, "/m/what-if.yaml", node_name="n1")
    ).routes()
    connector = aiohttp.UnixConnector(str(tmp_path / "s.sock"))
    async with (
        serving(tmp_path / "s.sock", extra_routes=routes),
        aiohttp.ClientSession("http://podtui", connector=connector) as session,
    ):
        yield session


async def post(http: aiohttp.ClientSession, path: str, body: str, code: int) -> Any:
    async with http.post(path, data=body.encode()) as response:
        answer = await response.read()
        assert response.status == code, answer
        return json.loads(answer)


async def test_json_is_read_as_well(http: aiohttp.ClientSession) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}  # fmt: skip
    assert (await post(http, ASK, json.dumps(body), 200))["admitted"] is True


async def test_a_rejection_has_its_reasons(
    http: aiohttp.ClientSession, simulator: ScriptedSimulator
) -> None:
    simulator.answer = {
        "admitted": False,
        "reason": "NodePorts",
        "message": "Predicate NodePorts failed",
        "lacks": (Lack(resource="cpu", requested=2, used=3, capacity=4),),
        "holders": (
            PortHolder(port=80, protocol="TCP", namespace="default", pod="b-n1"),
            PortHolder(port=81, protocol="TCP", process="nginx", pid=12),
        ),
        "leave": (PodToRemove(namespace="default", name="b-n1", uid="b"),),
        "remarks": ("No.",),
    }
    whole = await post(http, ASK, MANIFEST, 200)
    assert (whole["kind"], whole["reason"]) == ("WhatIf", "NodePorts")
    assert simulator.pods[0].metadata.name == "web-n1"
    assert whole["holders"][1] == {"port": 81, "protocol": "TCP", "process": "nginx", "pid": 12}


@pytest.mark.parametrize(
    ("path", "body", "code", "words"),
    [
        (ASK, MANIFEST.replace("image", "imago"), 422, 'line 4: unknown field "imago" (spec.'),
        (ASK, "a: [", 422, "line"),
        (ASK, "", 422, "does not define a valid pod"),
        (ASK, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", 422, "no Pod"),
    ],
)  # fmt: skip
async def test_invalid_what_if_requests(
    http: aiohttp.ClientSession,
    simulator: ScriptedSimulator,
    path: str,
    body: str,
    code: int,
    words: str,
) -> None:
    answer = await post(http, path, body, code)
    assert words in answer["message"]
    assert simulator.pods == []


async def test_missing_config_maps_are_ignored(
    http: aiohttp.ClientSession, simulator: ScriptedSimulator
) -> None:
    body = MANIFEST.replace('"busybox:1"', '"busybox:1", envFrom: [{configMapRef: {name: a}}]')
    await post(http, ASK, body, 200)
    assert simulator.pods
