"""Requests about rights that were sent to a real API server (v1.36.2), and its answers.

The recording has one request in each line, in order; ``as`` and ``groups`` are the user of the
request. Parts that differ between two runs are replaced by a mark. If the real server answers 500
to a bad request, podtui answers 400 with the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from served import Served, serving

from podtui.clock import SystemClock
from podtui.pki.certificates import make_key
from podtui.pki.tokens import TokenIssuer
from podtui.server.auth.access import Access
from podtui.server.auth.reviews import ReviewRoutes
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.store import open_store

RECORDING = Path(__file__).with_name("recorded_rbac.jsonl")
REQUESTS = [json.loads(line) for line in RECORDING.read_text().splitlines()]
CHANGING = ("creationTimestamp", "resourceVersion", "uid", "managedFields")
MARKS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\b(gen-)\w{5}", r"\1xxxxx"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\b\d+s\b", "<time>"),
)


def marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "<set>" if name in CHANGING and part else marked(part)
            for name, part in value.items()
            if part or name not in CHANGING
        }
    if isinstance(value, list):
        return [marked(part) for part in value]
    if isinstance(value, str):
        for pattern, mark in MARKS:
            value = re.sub(pattern, mark, value)
    return value


def compared(answer: Any) -> Any:
    if answer.get("kind") != "Table":
        return marked(answer)
    columns = [
        {name: part for name, part in column.items() if name != "description"}
        for column in answer["columnDefinitions"]
    ]
    return columns, [marked(row["cells"]) for row in answer["rows"]]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    clock = SystemClock()
    store = open_store(None, clock=clock)
    tokens = TokenRegistry(store, TokenIssuer(make_key()), clock)
    options = {"access": Access(), "extra_routes": ReviewRoutes(tokens, clock).routes()}
    async with serving(tmp_path / "s.sock", store, **options) as it:
        yield it
    await store.close()


async def test_answers_are_those_of_a_real_server(http: aiohttp.ClientSession) -> None:
    differing: list[str] = []
    for request in REQUESTS:
        body = request.get("body")
        headers: CIMultiDict[str] = CIMultiDict({"User-Agent": "compare/1"})
        if body is not None:
            headers["Content-Type"] = request.get("type", "application/json")
        if "accept" in request:
            headers["Accept"] = request["accept"]
        if "as" in request:
            headers["Impersonate-User"] = request["as"]
        for group in request.get("groups", ()):
            headers.add("Impersonate-Group", group)
        data = None if body is None else json.dumps(body)
        async with http.request(
            request["method"], request["path"], data=data, headers=headers
        ) as response:
            answer = (response.status, compared(json.loads(await response.read())))
        code, recorded = request["code"], request["answer"]
        if code == 500:
            code, recorded = 400, recorded | {"code": 400, "reason": "BadRequest"}
        expected = (code, compared(recorded))
        if answer != expected:
            differing.append(f"{request['name']}: {expected}\n    but: {answer}")
    assert not differing, "\n".join(differing)
