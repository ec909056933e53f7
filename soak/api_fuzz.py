"""An agent on the simulated engine that gets generated requests, and the invariants to check.

No request hangs, gets a status of 500 or more that a real API server would not send, or gets an
answer that the OpenAPI document does not describe. A restarted agent has the same records. When
they are deleted, no task, file descriptor or record is left. No log has a secret in it, not even
the audit log, and no record but Secrets.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import logging
import os
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import aiohttp
import yaml
from yarl import URL

from podtui.agent.control import prepare_root
from podtui.agent.run import serve
from podtui.server.auth.attributes import parse_attributes
from podtui.settings import Settings, resolve
from soak.api_requests import Request, Requests

NODE: Final = "n1"
SECRET: Final = "canary-5f1d"
_PATIENCE: Final = 20.0
"""The timeout of a request in seconds: much longer than any takes, even on a busy machine."""
_STREAM_SECONDS: Final = 0.02
"""Seconds for which a watch is read before its client disconnects."""
_CORE: Final = "http://podtui/api/v1"
_DELETED: Final = (
    "pods", "configmaps", "secrets", "leases", "events", "serviceaccounts", "ingresses",
)  # fmt: skip
_GROUPS: Final = {
    "ingresses": "apis/networking.k8s.io/v1",
    "leases": "apis/coordination.k8s.io/v1",
}
_KEPT: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_SECRET: Final = {"metadata": {"name": "canary"}, "stringData": {"k": SECRET}}
_FINALIZERS: Final = {"finalizers": ["kubernetes"]}
"""The finalizers that namespaces have without clients."""
_READERS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "application/json": json.loads,
    "application/yaml": yaml.safe_load,
}
_SERVER_ERRORS: Final = (
    # Without a ServiceCIDR that is ready, as after its deletion.
    "Internal error occurred: failed to allocate a serviceIP for Service ",
    "resourceVersion: Invalid value: ",
    "error trying to reach service: ",
    "invalid upgrade response: ",
    "no endpoints available for service ",
    "no service port ",
)
"""The beginnings of messages that a real API server sends with 500 and 503, too."""
_USER: Final = {
    "metadata": {"name": "uses-secret"},
    "spec": {
        "nodeName": NODE,
        "containers": [
            {
                "name": "c",
                "image": "busybox:1.36",
                "env": [
                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "canary", "key": "k"}}}
                ],
            }
        ],
    },
}  # fmt: skip


class Defect(AssertionError):
    """Raised with a description of the error of the API."""


class _Logs(logging.Handler):
    """Collects logged failures, and log records that contain a secret."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.secrets = [SECRET, base64.b64encode(SECRET.encode()).decode()]
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += f": {record.exc_info[1]!r}"
        if record.levelno >= logging.ERROR or any(secret in text for secret in self.secrets):
            self.found.append(f"{record.name} {record.levelname}: {text}")


@dataclass
class World:
    """A running agent, its socket, and a client."""

    socket: str
    session: aiohttp.ClientSession
    logs: _Logs

    async def ask(self, method: str, url: str, body: Any = None) -> Any:
        """Send a request of the test itself, and return the answer. Raises `Defect`."""
        async with self.session.request(method, url, json=body) as response:
            answer = await response.json()
        if response.status >= 500:
            raise Defect(f"{method} {url}: {answer}")
        return answer

    async def unfinalize(self, url: str) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        patch = b'{"metadata": {"finalizers": null}}'
        async with self.session.patch(url, data=patch, headers=headers) as response:
            await response.read()

    async def send(self, requests: Requests, request: Request) -> int:
        """Send a generated request, check the answer and return its status. Raises `Defect`."""
        shown = f"{request.method} {request.target} {dict(request.headers)} {request.body!r:.3000}"
        url = URL(f"http://podtui{request.target}", encoded=True)
        streams = parse_attributes(request.method, url.path, dict(url.query)).long_running
        streams = streams or "watch" in url.query or "follow" in url.query
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await _exchange(self.socket, request, streams=streams)
        except (TimeoutError, OSError, EOFError, HTTPException) as error:
            raise Defect(f"no answer ({error!r}) to {shown}") from error
        if request.method != "HEAD" and (problem := _problem(requests, request, answer)):
            raise Defect(f"{answer.status}, {problem}: {answer.body!r:.500} to {shown}")
        if self.logs.found:
            raise Defect(f"logged: {self.logs.found[0]} after {shown}")
        return answer.status


@dataclass(frozen=True, slots=True)
class _Answer:
    """``ended`` is False for a stream that was left while it was open."""

    status: int
    media: str = ""
    body: bytes = b""
    ended: bool = True


class _Received:
    """Bytes for `HTTPResponse`, which reads from a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


async def _exchange(path: str, request: Request, *, streams: bool) -> _Answer:
    """Send a request whose headers may have any bytes, which no library sends."""
    lines = [f"{request.method} {request.target} HTTP/1.1", "Host: podtui"]
    if "Connection" not in request.headers:
        lines.append("Connection: close")
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    lines += [f"Content-Length: {len(request.body)}", "", ""]
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write("\r\n".join(lines).encode(errors="surrogateescape") + request.body)
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status == 101 or (streams and status < 400):
            with suppress(TimeoutError):
                async with asyncio.timeout(_STREAM_SECONDS):
                    await reader.read()
            return _Answer(status, ended=False)
        head += b"" if request.method == "HEAD" else await _body(reader, head)
        response = HTTPResponse(cast("Any", _Received(head)), method=request.method)
        response.begin()
        return _Answer(status, response.headers.get_content_type(), response.read())
    finally:
        writer.close()


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """Read the body of a response as it is sent. The connection may stay open."""
    if length := re.search(rb"(?im)^content-length: *(\d+)", head):
        return await reader.readexactly(int(length[1]))
    body = b""
    while not body.endswith(b"0\r\n\r\n") and (piece := await reader.read(65536)):
        body += piece
    return body


def _problem(requests: Requests, request: Request, sent: _Answer) -> str:
    """Return the problem of an answer; empty if it has none."""
    read = _READERS.get(sent.media)
    if sent.status >= 500:
        message = str(read(sent.body).get("message")) if read and sent.ended else ""
        return "" if message.startswith(_SERVER_ERRORS) else "a server error"
    if not sent.ended:
        return ""
    if sent.status >= 400:
        return _status_problem(read(sent.body), sent.status) if read else "the error is no Status"
    documented = request.documented.get(str(sent.status), {}).get("schema")
    if documented is None:
        return "an undocumented status" if request.documented else ""
    if documented.get("type") == "string" or read is None:
        return ""
    answer = read(sent.body)
    kind = str(answer.get("kind"))
    if kind == "Table" or kind.startswith("PartialObjectMetadata"):
        return ""
    schema = requests.definition(str(answer.get("apiVersion")), kind)
    if schema is None:
        return f"{kind} is no documented kind"
    expected = requests.resolved(documented)
    if schema is not expected and "Status" not in (kind, requests.kind_of(expected)):
        return f"{kind} is not the documented kind"
    return requests.misfit(answer, schema)


def _status_problem(status: Mapping[str, Any], code: int) -> str:
    """Return why the body of an error is not a valid ``Status``; empty if it is one."""
    wanted = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    for name, value in wanted.items():
        if status.get(name) != value:
            return f"{name} is {status.get(name)!r}"
    if not isinstance(status.get("metadata"), dict) or not status.get("message"):
        return "the Status has no message or no metadata"
    return ""


@asynccontextmanager
async def world(folder: Path) -> AsyncGenerator[World]:
    """Run an agent; check its end. Raises `Defect`."""
    settings = _settings(folder)
    loop, logs = asyncio.get_running_loop(), _Logs()
    collection = gc.get_threshold()
    root_log = logging.getLogger()
    level = root_log.level
    root_log.addHandler(logs)
    root_log.setLevel(logging.DEBUG)
    loop.set_exception_handler(lambda _, context: logs.found.append(f"asyncio: {context}"))
    stopped = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            agent = group.create_task(serve(settings, stopped, asyncio.Event()), name="agent")
            await _until(settings.socket_path.exists, "the agent does not start")
            connector = aiohttp.UnixConnector(str(settings.socket_path), force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                logs.secrets.append((settings.pki_path / "token").read_text().strip())
                yield World(str(settings.socket_path), session, logs)
            stopped.set()
            async with asyncio.timeout(_PATIENCE):
                await agent
    finally:
        root_log.removeHandler(logs)
        root_log.setLevel(level)
        # The agent sets both for its own process.
        gc.set_threshold(*collection)
        gc.unfreeze()
    if logs.found:
        raise Defect(f"logged: {logs.found[0]}")


def _settings(folder: Path) -> Settings:
    (folder / "pods").mkdir(exist_ok=True)
    flags = {
        "rootDir": str(folder / "root"),
        "staticPodPath": str(folder / "pods"),
        "engine": "memory",
        "nodeName": NODE,
        "apiPort": "0",
        "auditLog": "true",
    }
    settings = resolve(flags, {"HOME": str(folder)}, working=folder).settings
    prepare_root(settings)
    return settings


async def fuzz(folder: Path, seed: bytes, count: int) -> Counter[int]:
    """Send ``count`` requests to a new agent, and restart it; return the number of answers by
    status. Raises `Defect`."""
    chance, statuses = Random(seed), Counter[int]()
    async with world(folder) as it:
        requests = Requests(await it.ask("GET", "http://podtui/openapi/v2"))
        await it.ask("POST", f"{_CORE}/namespaces/default/secrets", _SECRET)
        await it.ask("POST", f"{_CORE}/namespaces/default/pods", _USER)
        before = await _at_rest(it)
        start = chance.randrange(len(requests))
        for number in range(count):
            statuses[await it.send(requests, requests.request(start + number, chance))] += 1
        await _check_secrets(it)
        _check_audit(it, folder / "root" / "audit.log")
        kept = await _documents(it)
    async with world(folder) as it:
        if (found := await _documents(it)) != kept:
            raise Defect(f"records after a restart: {found}, before: {kept}")
        await _remove_all(it)
        await _until(lambda: not before.exceeded(), "a task or a file descriptor is left")
    return statuses


@dataclass(frozen=True, slots=True)
class _Resources:
    """The tasks of the event loop by their coroutine, and the number of open file descriptors."""

    tasks: Counter[str]
    files: int

    @classmethod
    def used(cls) -> _Resources:
        tasks = Counter(
            getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()
        )
        return cls(tasks, len(os.listdir("/proc/self/fd")))

    def exceeded(self) -> bool:
        """Return whether more resources are used now."""
        now = self.used()
        return bool(now.tasks - self.tasks) or now.files > self.files


async def _at_rest(it: World) -> _Resources:
    """Return the resources that are used once the first pod runs."""
    url = f"{_CORE}/namespaces/default/pods/uses-secret"

    async def running() -> bool:
        return (await it.ask("GET", url))["status"].get("phase") == "Running"

    await _until(running, "the first pod does not run")
    return _Resources.used()


async def _until(holds: Callable[[], bool | Awaitable[bool]], problem: str) -> None:
    """Wait until a condition holds. Raises `Defect`."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE
    while not (held if isinstance(held := holds(), bool) else await held):
        if asyncio.get_running_loop().time() > deadline:
            raise Defect(problem)
        await asyncio.sleep(0.02)


async def _list(it: World, plural: str) -> list[dict[str, Any]]:
    return (await it.ask("GET", f"http://podtui/{_group(plural)}/{plural}"))["items"]


def _group(plural: str) -> str:
    return _GROUPS.get(plural, "api/v1")


async def _check_secrets(it: World) -> None:
    """Search for secrets in all records except Secrets. Raises `Defect`."""
    for plural in ("pods", "events", "configmaps", "nodes", "namespaces", "serviceaccounts"):
        text = json.dumps(await _list(it, plural))
        if any(secret in text for secret in it.logs.secrets):
            raise Defect(f"a secret is in {plural}")


def _check_audit(it: World, path: Path) -> None:
    """Check that the audit log has the writes, and no secret. Raises `Defect`."""
    text = path.read_text()
    if any(secret in text for secret in it.logs.secrets):
        raise Defect("a secret is in the audit log")
    events = [json.loads(line) for line in text.splitlines()]
    if not any(event["verb"] == "create" for event in events):
        raise Defect("the audit log has no creation")


async def _documents(it: World) -> dict[str, str]:
    """Return the resource versions of the records that only clients write."""
    return {
        f"{plural}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for plural in ("configmaps", "secrets")
        for one in await _list(it, plural)
        if one["metadata"]["namespace"] == "default"
    }


async def _remove_all(it: World) -> None:
    """Remove the finalizers of the clients' records, delete them, and wait until they are gone.
    Raises `Defect`."""
    left: list[str] = []

    async def removed() -> bool:
        left.clear()
        for plural in ("namespaces", *_DELETED):
            for item in await _list(it, plural):
                meta = item["metadata"]
                if not _is_made(plural, meta):
                    continue
                place = f"namespaces/{meta['namespace']}/" if "namespace" in meta else ""
                url = f"http://podtui/{_group(plural)}/{place}{plural}/{meta['name']}"
                if meta.get("finalizers"):
                    await it.unfinalize(url)
                if set(item.get("spec", {}).get("finalizers", ())) - {"kubernetes"}:
                    body = {"metadata": {"name": meta["name"]}, "spec": _FINALIZERS}
                    await it.ask("PUT", f"{url}/finalize", body)
                await it.ask("DELETE", f"{url}?gracePeriodSeconds=0")
                # The agent may write new events meanwhile.
                left.extend([f"{plural}/{meta['name']}"] if plural != "events" else [])
        return not left

    try:
        await _until(removed, "records are left")
    except Defect as error:
        raise Defect(f"{error}: {left}") from error


def _is_made(plural: str, meta: Mapping[str, Any]) -> bool:
    """Return whether a client created the record, not the agent."""
    made = {
        "namespaces": meta["name"] not in _KEPT,
        "configmaps": meta["name"] != "kube-root-ca.crt",
        "serviceaccounts": meta["name"] != "default",
        "leases": meta["name"] != NODE,
    }
    return made.get(plural, True)
