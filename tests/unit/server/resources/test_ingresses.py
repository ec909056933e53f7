"""The class of Ingresses that podtui publishes, and the warnings about annotations."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from served import Served

from podtui.clock import SystemClock
from podtui.server.resources.ingress_classes import publish_ingress_class
from podtui.server.resources.namespace_care import NamespaceCare

GROUP = "/apis/networking.k8s.io/v1"
INGRESSES = f"{GROUP}/namespaces/default/ingresses"
CLASSES = f"{GROUP}/ingressclasses"


@pytest.fixture
async def api(served: Served, http: aiohttp.ClientSession) -> aiohttp.ClientSession:
    await NamespaceCare(served.store, SystemClock(), lambda: "ca").prepare()
    return http


def ingress(name: str, **annotations: str) -> dict[str, Any]:
    names = {key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    return {
        "metadata": {"name": name, "annotations": names},
        "spec": {"defaultBackend": backend},
    }


async def test_a_new_ingress_gets_the_published_class(
    api: aiohttp.ClientSession, served: Served
) -> None:
    await publish_ingress_class(served.store, SystemClock())
    async with api.get(CLASSES) as response:
        [item] = (await response.json())["items"]
    assert item["metadata"]["name"] == "podtui"
    assert item["spec"] == {"controller": "podtui.dev/ingress-controller"}
    async with api.post(INGRESSES, json=ingress("web")) as response:
        created = await response.json()
    assert created["spec"]["ingressClassName"] == "podtui"


async def test_a_deleted_class_stays_deleted(api: aiohttp.ClientSession, served: Served) -> None:
    await publish_ingress_class(served.store, SystemClock())
    async with api.delete(f"{CLASSES}/podtui") as response:
        assert response.status == 200
    await publish_ingress_class(served.store, SystemClock())
    async with api.get(CLASSES) as response:
        assert (await response.json())["items"] == []


async def test_annotations_for_other_controllers_cause_a_warning(
    api: aiohttp.ClientSession,
) -> None:
    async with api.post(INGRESSES, json=ingress("plain", example_com__team="shop")) as response:
        assert response.status == 201
        assert "Warning" not in response.headers
    other = ingress("other", nginx_ingress_kubernetes_io__ssl_redirect="false")
    async with api.post(INGRESSES, json=other) as response:
        assert response.status == 201
        assert response.headers["Warning"] == (
            '299 - "annotations for other Ingress controllers have no effect:'
            ' nginx.ingress.kubernetes.io/ssl.redirect"'
        )
