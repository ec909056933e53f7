"""Bytes that are not UTF-8 and lone surrogates, in every part of a request: no answer is a 500."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from served import Served, pod, put_records, serving

from podtui.api.v1 import Pod
from podtui.errors import SessionError
from podtui.server.auth.access import Access

PODS = "/api/v1/namespaces/default/pods"
HEADERS = """
    Accept Accept-Encoding Authorization Connection Content-Encoding Content-Type Cookie Expect
    If-Match If-Modified-Since If-None-Match Impersonate-Extra-Scope Impersonate-Group
    Impersonate-Uid Impersonate-User Origin Range Sec-WebSocket-Key Sec-WebSocket-Protocol
    Sec-WebSocket-Version Upgrade User-Agent X-Forwarded-For X-Stream-Protocol-Version
""".split()
QUERIES = """
    command container continue dryRun fieldManager fieldSelector includeObject labelSelector limit
    path ports propagationPolicy resourceVersion resourceVersionMatch sinceTime stdout
    timeoutSeconds watch
""".split()
PATHS = (
    PODS, f"{PODS}/web", f"{PODS}?watch=1&timeoutSeconds=1", "/api/v1/nowhere", "/healthz", "/apis",
    f"{PODS}/web/log", f"{PODS}/web/exec?command=x&stdout=1", f"{PODS}/web/portforward",
)  # fmt: skip
UPGRADES = (
    "",
    "Connection: Upgrade\r\nUpgrade: websocket\r\n",
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n",
)
SURROGATE = "\ud800"


class NoSessions:
    """The sessions of a kubelet that runs no pod."""

    def find(self, namespace: str, pod: str) -> Pod:
        raise SessionError(404, f'pod "{pod}" does not exist')

    async def container(self, pod: Pod, name: str) -> str:
        raise SessionError(400, f"container {name} is not valid")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "s.sock", access=Access("t" * 40), sessions=NoSessions()) as it:
        await put_records(it.store)
        yield it


async def ask(
    served: Served, head: bytes, body: bytes = b"", *, whole: bool = True
) -> tuple[int, bytes]:
    """Return the status and, if the server closes the connection, the body of an answer."""
    reader, writer = await asyncio.open_unix_connection(str(served.socket))
    try:
        writer.write(head + b"\r\n" + body)
        async with asyncio.timeout(120):
            answer = await reader.readuntil(b"\r\n\r\n")
            rest = await reader.read() if whole else b""
    finally:
        writer.close()
    return int(answer.split(b" ", 2)[1]), rest


def lines(method: str, path: str, *more: str) -> str:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *more, ""])


@pytest.mark.parametrize("upgrade", UPGRADES, ids=["none", "websocket", "spdy"])
async def test_headers(served: Served, upgrade: str, caplog: pytest.LogCaptureFixture) -> None:
    failed: list[tuple[str, str, int]] = []
    for path in PATHS:
        for name in HEADERS:
            for value in (b"x\xff", b"Bearer \xff", b"\xed\xa0\x80", b"\xc3"):
                head = (lines("GET", path) + upgrade).encode() + name.encode()
                code, _ = await ask(served, head + b": " + value + b"\r\n", whole=False)
                if code >= 500:
                    failed.append((path, name, code))
    assert failed == []
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


async def test_a_user_whose_name_is_not_utf8_is_refused_by_name(served: Served) -> None:
    head = lines("GET", PODS, "Connection: close").encode() + b"Impersonate-User: x\xff\r\n"
    code, body = await ask(served, head)
    assert code == 403
    assert json.loads(body)["message"].startswith('pods is forbidden: User "x\ufffd" cannot list')


@pytest.mark.virtual_time
async def test_paths_and_queries(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    hostile = ("\xff", "%FF", "%ED%A0%80", "%00", "%C3", quote("\ufffd"))
    targets = [f"/api/v1/namespaces/{text}/pods/{text}" for text in hostile]
    targets += [f"{PODS}/{text}/{text}" for text in hostile]
    targets += [f"/apis/{text}/v1/{text}" for text in hostile]
    for path in PATHS:
        if "watch" not in path:
            start = f"{path}{'&' if '?' in path else '?'}"
            targets += [f"{start}{name}={text}" for name in QUERIES for text in hostile]
    # Any text is a true value of ``watch``.
    targets = [f"{one}&timeoutSeconds=1" if "watch=" in one else one for one in targets]
    codes: dict[str, int] = {}

    async def get(target: str) -> None:
        head = lines("GET", target, "Connection: close").encode("latin-1")
        codes[target], _ = await ask(served, head)

    for first in range(0, len(targets), 30):
        await asyncio.gather(*map(get, targets[first : first + 30]))
    # An API server answers 500 to an invalid version of a single object.
    versions = f"{PODS}/web?resourceVersion="
    failed = {target: code for target, code in codes.items() if code >= 500}
    assert {target for target in failed if not target.startswith(versions)} == set()
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def strings(tree: Any) -> int:
    """Return the number of strings and keys in a document."""
    if isinstance(tree, dict):
        return sum(1 + strings(item) for item in tree.values())
    if isinstance(tree, list):
        return sum(map(strings, tree))
    return isinstance(tree, str)


def poisoned(tree: Any, number: int) -> Any:
    """Return a document with a surrogate in the string or key of that number."""
    left = [number]

    def visit(value: Any) -> Any:
        if isinstance(value, dict):
            return {visit(key): visit(item) for key, item in value.items()}
        if isinstance(value, list):
            return [visit(item) for item in value]
        if isinstance(value, str):
            left[0] -= 1
            return value + SURROGATE if left[0] == -1 else value
        return value

    return visit(tree)


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "labels": {"a": "b"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": '{"apiVersion":"v1","kind":"Pod",'
            '"metadata":{"name":"p","labels":{"a\\ud800":"b\\ud800"}},"spec":{}}'
        },
        "finalizers": ["example.org/f"],
        "managedFields": [
            {
                "manager": "m",
                "operation": "Update",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {"f:finalizers": {'v:"example.org/f\\ud800"': {}}},
                    "f:spec": {"f:containers": {'k:{"name":"c\\ud800"}': {"f:image": {}}}},
                },
            }
        ],
    },
    "spec": {
        "nodeSelector": {"a": "b"},
        "containers": [
            {
                "name": "c",
                "image": "busybox:1",
                "command": ["sh"],
                "env": [{"name": "A", "value": "B"}],
                "resources": {"limits": {"cpu": "1"}},
            }
        ],
    },
}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "m"},
    "data": {"k": "v"},
    "binaryData": {"b": "AAAA"},
}
REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {
        "user": "u",
        "groups": ["g"],
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "n", "name": "x"},
    },
}
TOKEN = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenReview",
    "spec": {"token": "a.b.c"},
}
OPTIONS = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    "propagationPolicy": "Orphan",
    "dryRun": ["All"],
}
JSON_PATCH = [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]
BODIES = [
    ("POST", PODS, "application/json", POD),
    ("POST", PODS, "application/yaml", POD),
    ("PUT", f"{PODS}/web", "application/json", POD),
    ("POST", "/api/v1/namespaces/default/configmaps", "application/json", CONFIG),
    ("PATCH", f"{PODS}/web", "application/merge-patch+json", POD),
    ("PATCH", f"{PODS}/web", "application/strategic-merge-patch+json", POD),
    ("PATCH", f"{PODS}/web?fieldManager=me&force=true", "application/apply-patch+yaml", POD),
    ("PATCH", f"{PODS}/p?fieldManager=me", "application/apply-patch+yaml", POD),
    ("PATCH", f"{PODS}/web", "application/json-patch+json", JSON_PATCH),
    ("DELETE", f"{PODS}/web", "application/json", OPTIONS),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json", REVIEW),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", "application/json", TOKEN),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "media", "tree"), BODIES, ids=[f"{one[0]} {one[2]}" for one in BODIES]
)
async def test_strings_of_bodies(
    served: Served,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    media: str,
    tree: Any,
) -> None:
    failed: list[tuple[int, bytes]] = []
    for number in range(-1, strings(tree)):
        await served.store.put("pods", pod("web", app="web"))
        text = json.dumps(poisoned(tree, number)).encode()
        for body in (
            text,
            text.replace(rb"\ud800", b"\xff"),
            text.replace(rb"\ud800", b"\xed\xa0\x80"),
        ):
            head = lines(method, path, "Connection: close", f"Content-Type: {media}")
            code, answer = await ask(
                served, f"{head}Content-Length: {len(body)}\r\n".encode(), body
            )
            if code >= 500:
                failed.append((code, answer))
        for read in (PODS, "/api/v1/configmaps"):
            code, answer = await ask(served, lines("GET", read, "Connection: close").encode())
            assert code == 200, answer
    assert failed == []
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


async def test_a_lone_surrogate_is_stored_as_the_replacement_character(served: Served) -> None:
    body = rb'{"metadata": {"name": "m"}, "data": {"k": "a\ud800", "l": "b' + b'\xff"}}'
    path = "/api/v1/namespaces/default/configmaps"
    head = lines("POST", path, "Connection: close", f"Content-Length: {len(body)}").encode()
    code, answer = await ask(served, head, body)
    assert (code, json.loads(answer)["data"]) == (201, {"k": "a\ufffd", "l": "b\ufffd"})


async def test_no_response_names_the_software_of_the_server(served: Served) -> None:
    requests = (
        lines("GET", "/version", "Connection: close"),
        lines("GET", "/nowhere", "Connection: close"),
        lines("GET", "/version", "Expect: x", "Connection: close"),
        "GET / HTTP/9\r\n",
        "\xff\r\n",
    )
    for text in requests:
        reader, writer = await asyncio.open_unix_connection(str(served.socket))
        writer.write(text.encode("latin-1") + b"\r\n")
        async with asyncio.timeout(120):
            answer = (await reader.read()).lower()
        writer.close()
        assert answer.startswith(b"http/1."), text
        assert b"server:" not in answer
        assert b"aiohttp" not in answer
