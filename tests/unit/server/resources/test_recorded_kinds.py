"""Requests about Services, network, batch, scheduling, policy and autoscaling kinds, and about
workloads, that were sent to a real API server (v1.36.2), and its answers.

A recording has one request in each line; the sets are independent of each other. Answers are in
the form that `comparable` gives them. The response to a line without a code is not compared.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from served import Served
from yarl import URL

from podtui.clock import SystemClock
from podtui.manifest.strategies.networking import NO_POLICY
from podtui.server.resources.namespace_care import NamespaceCare
from podtui.server.resources.priorities import publish_system_classes

NAMESPACE: Final = "recorded"
RECORDINGS = ("recorded_kinds.jsonl", "recorded_workloads.jsonl")
REQUESTS = [
    json.loads(line.replace("{ns}", NAMESPACE))
    for name in RECORDINGS
    for line in Path(__file__).with_name(name).read_text().splitlines()
]
NO_IPV6: Final = "podtui allocates IPv4 addresses only: fd00::/64 has no effect"
OWN_WARNINGS = tuple(f'299 - "{text}"' for text in (NO_POLICY, NO_IPV6))
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
CHANGING = ("creationTimestamp", "resourceVersion", "uid", "managedFields", "deletionTimestamp")
MARKS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    # Addresses and ports that no request chose.
    (r"10\.96\.[1-9]\d*\.\d+", "<address>"),
    (r":3\d{4}/", ":<port>/"),
    (r"^(\d+[smhdy])+$", "<age>"),
    (r"^(?!2026-01-01|2025-01-01)\d{4}-\d\d-\d\dT\S*Z$", "<time>"),
)
CHOSEN_PORTS = range(30000, 30086)


def comparable(answer: Any) -> Any:
    """Return an answer without the parts that differ between two runs, or that are podtui's own."""
    match answer.get("kind"):
        case "Table":
            names = ("name", "type", "format", "priority")
            columns = [[column[name] for name in names] for column in answer["columnDefinitions"]]
            return marked({"columns": columns, "rows": [row["cells"] for row in answer["rows"]]})
        case "Status" if answer["status"] == "Failure":
            details = answer.get("details", {})
            causes = [[each.get("reason"), each.get("field")] for each in details.get("causes", ())]
            unique = [each for index, each in enumerate(causes) if each not in causes[:index]]
            shown = marked({key: details[key] for key in details if key not in ("causes", "uid")})
            return [answer.get("reason"), marked(answer["message"]), shown, unique]
        case _:
            return marked(answer)


def marked(value: Any, key: str = "") -> Any:
    match value:
        case dict():
            return {
                name: "<set>" if name in CHANGING and part else marked(part, name)
                for name, part in sorted(value.items())
                if part or name not in CHANGING
            }
        case list():
            return [marked(part) for part in value]
        case str():
            for pattern, mark in MARKS:
                value = re.sub(pattern, mark, value)
            return value
        case int() if key in ("nodePort", "healthCheckNodePort") and value not in CHOSEN_PORTS:
            return "<port>"
        case _:
            return value


async def answer_to(http: aiohttp.ClientSession, request: dict[str, Any]) -> list[Any]:
    """Send a request. Return the code, warnings, the time to wait, and the answer."""
    body = request.get("body")
    data = None if body is None else json.dumps(body)
    headers = {"User-Agent": "compare/1"}
    if data is not None:
        headers["Content-Type"] = request.get("type", "application/json")
    if request.get("table"):
        headers["Accept"] = TABLE
    url = URL(request["path"], encoded=True)
    async with http.request(request["method"], url, data=data, headers=headers) as response:
        warnings = sorted(set(response.headers.getall("Warning", [])) - set(OWN_WARNINGS))
        answer = comparable(json.loads(await response.read()))
        return [response.status, warnings, response.headers.get("Retry-After"), answer]


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
    part: str, cared: Served, http: aiohttp.ClientSession
) -> None:
    differing: list[str] = []
    for request in (each for each in REQUESTS if each["set"] == part):
        answer = await answer_to(http, request)
        recorded = request.get("answer")
        if recorded is not None and answer != recorded:
            differing.append(f"{request['name']}: {recorded}\n    but: {answer}")
    assert not differing, "\n".join(differing)
