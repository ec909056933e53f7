"""Requests that were sent to a real API server (v1.36.2), and its answers.

The recording has one request in each line, in order. Parts that differ between two runs (UIDs,
times, versions) are replaced by a mark. The response to a line without a code is not compared. If
the real server answers 500 to a bad request, podtui answers 400 with the same text.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from served import Served

from podtui.clock import SystemClock
from podtui.server.resources.namespace_care import NamespaceCare
from podtui.server.resources.priorities import publish_system_classes

NAMESPACE = "recorded"
RECORDING = Path(__file__).with_name("recorded_writes.jsonl")
REQUESTS = [
    json.loads(line.replace("{ns}", NAMESPACE)) for line in RECORDING.read_text().splitlines()
]
CHANGING = (
    "creationTimestamp",
    "resourceVersion",
    "uid",
    "managedFields",
    "lastTransitionTime",
    "deletionTimestamp",
)
MARKS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"kube-api-access-\w{5}", "kube-api-access-xxxxx"),
    (r"\b(gen-)\w{5}", r"\1xxxxx"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"@@ -\d+,\d+ \+\d+,", "@@ -N,n +N,"),
    (r"in record \(\d+\)", "in record (N)"),
    (r"(resourceVersion\\*\":\\*\")\d+", r"\1N"),
)


def marked(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        if key == "items":
            value = {
                name: part for name, part in value.items() if name not in ("kind", "apiVersion")
            }
        return {
            name: "<set>" if name in CHANGING and part else marked(part, name)
            for name, part in value.items()
            if name != "time" and (part or name not in CHANGING)
        }
    if isinstance(value, list):
        parts = [marked(part, key if key == "items" else "") for part in value]
        if key == "conditions":
            # A scheduler wrote some of them.
            return [
                one for one in parts if (one["type"], one["status"]) != ("PodScheduled", "False")
            ]
        return parts
    if isinstance(value, str):
        for pattern, mark in MARKS:
            value = re.sub(pattern, mark, value)
        return "<token>" if key == "continue" else value
    return value


@pytest.fixture
async def cared(served: Served) -> AsyncIterator[Served]:
    """Serve the API with the system's priority classes, and service accounts in new namespaces."""
    await publish_system_classes(served.store, SystemClock())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(NamespaceCare(served.store, SystemClock()).run())
        yield served
        task.cancel()


@pytest.mark.parametrize("part", sorted({request["set"] for request in REQUESTS}))
async def test_responses_match_a_real_server(
    part: int, cared: Served, http: aiohttp.ClientSession
) -> None:
    differing: list[str] = []
    for request in (one for one in REQUESTS if one["set"] == part):
        body = request.get("body")
        data = None if body is None else (body if isinstance(body, str) else json.dumps(body))
        headers = {"User-Agent": "compare/1"}
        if data is not None:
            headers["Content-Type"] = request.get("type", "application/json")
        async with http.request(
            request["method"], request["path"].replace("+", "%20"), data=data, headers=headers
        ) as response:
            answer = (
                response.status,
                sorted(response.headers.getall("Warning", [])),
                marked(json.loads(await response.read())),
            )
        if "code" in request:
            code, recorded = request["code"], request["answer"]
            if code == 500:
                code, recorded = 400, recorded | {"code": 400, "reason": "BadRequest"}
            expected = (code, request.get("warnings", []), marked(recorded))
            if answer != expected:
                differing.append(f"{request['name']}: {expected}\n    but: {answer}")
    assert not differing, "\n".join(differing)
