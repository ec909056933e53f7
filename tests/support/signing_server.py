"""A fake API server that has CertificateSigningRequests, and signs them as the test says."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cluster_server import Authority, server_context
from cryptography import x509

from podtui.clock import Clock

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
COLLECTION = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
BOOTSTRAP_TOKEN = "abcdef.0123456789abcdef"
BOOTSTRAP_USER = "system:bootstrap:abcdef"
_NO_CHECK_TIME = 0x200000
"""OpenSSL's ``X509_V_FLAG_NO_CHECK_TIME``: the server checks certificates by the test's clock."""


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


@dataclass
class SigningServer:
    """``answer`` is called with each new request, and may approve or deny it. ``refusals`` are the
    status codes of the next creations; ``users`` are those who sent requests."""

    authority: Authority
    clock: Clock
    folder: Path
    life: timedelta = timedelta(hours=10)
    answer: Callable[[str], None] = lambda name: None
    refusals: list[int] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    users: list[str] = field(default_factory=list)
    url: str = ""
    _version: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _removed: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    # --- what the test does

    def approve(self, name: str) -> None:
        self._set(name, {"conditions": [{"type": "Approved", "reason": "Test", "status": "True"}]})

    def sign(
        self, name: str, *, life: timedelta | None = None, lead: timedelta | None = None
    ) -> None:
        """Approve a request and issue a certificate that began ``lead`` ago."""
        spec = self.requests[name]["spec"]
        begin = self.clock.now() - (timedelta() if lead is None else lead)
        certificate = self.authority.sign(
            base64.b64decode(spec["request"]), begin, begin + (self.life if life is None else life)
        )
        self._set(
            name,
            {
                "conditions": [{"type": "Approved", "reason": "Test", "status": "True"}],
                "certificate": base64.b64encode(certificate).decode(),
            },
        )

    def end(self, name: str, kind: str, reason: str, message: str) -> None:
        """Deny a request, or let it fail."""
        condition = {"type": kind, "reason": reason, "message": message, "status": "True"}
        self._set(name, {"conditions": [condition]})

    def delete(self, name: str) -> None:
        removed = self.requests.pop(name)
        self._removed.append((self._next(), removed))

    def kubeconfig(self, user: dict[str, Any], name: str = "config") -> Path:
        ca = base64.b64encode(self.authority.pem).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "eu-1",
                    "cluster": {"server": self.url, "certificate-authority-data": ca},
                }
            ],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "eu-1", "user": "me"}}],
        }
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def bootstrap_kubeconfig(self, token: str = BOOTSTRAP_TOKEN) -> Path:
        return self.kubeconfig({"token": token}, "bootstrap")

    def certificate(self, name: str) -> x509.Certificate:
        data = base64.b64decode(self.requests[name]["status"]["certificate"])
        return x509.load_pem_x509_certificate(data)

    # --- the API

    def _next(self) -> int:
        self._version += 1
        before, self._changed = self._changed, asyncio.Event()
        before.set()
        return self._version

    def _set(self, name: str, status: dict[str, Any]) -> None:
        item = self.requests[name]
        metadata = item["metadata"] | {"resourceVersion": str(self._next())}
        self.requests[name] = item | {"metadata": metadata, "status": status}

    @web.middleware
    async def authenticate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        user = self._user(request)
        if user is None:
            return _status(401, "Unauthorized", "Unauthorized")
        self.users.append(user)
        return await handler(request)

    def _user(self, request: web.Request) -> str | None:
        """Return None for invalid credentials."""
        if request.headers.get("Authorization") == f"Bearer {BOOTSTRAP_TOKEN}":
            return BOOTSTRAP_USER
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert")
        if not shown:
            return None
        end = datetime.fromtimestamp(ssl.cert_time_to_seconds(shown["notAfter"]), UTC)
        if self.clock.now() > end:
            return None
        return dict(pair[0] for pair in shown["subject"])["commonName"]

    async def create(self, request: web.Request) -> web.StreamResponse:
        if self.refusals:
            code = self.refusals.pop(0)
            return _status(code, "Refused", f"refused with {code}")
        content = await request.json()
        metadata = content["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}{self._version:05d}"
        if name in self.requests:
            text = f'certificatesigningrequests.certificates.k8s.io "{name}" already exists'
            return _status(409, "AlreadyExists", text)
        version = str(self._next())
        self.requests[name] = content | {
            "metadata": {"name": name, "uid": f"uid-{version}", "resourceVersion": version},
            "spec": content["spec"] | {"username": self._user(request)},
            "status": {},
        }
        created = self.requests[name]
        self.answer(name)
        return web.json_response(created, status=201)

    async def get(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self.requests:
            return _status(404, "NotFound", f"{name} not found")
        return web.json_response(self.requests[name])

    async def list(self, request: web.Request) -> web.StreamResponse:
        user = self._user(request)
        if user in self.forbidden:
            return _status(403, "Forbidden", f"{user} cannot list requests")
        name = request.query["fieldSelector"].removeprefix("metadata.name=")
        if "watch" in request.query:
            return await self._watch(request, name)
        items = [self.requests[name]] if name in self.requests else []
        metadata = {"resourceVersion": str(self._version)}
        return web.json_response({"items": items, "metadata": metadata})

    async def _watch(self, request: web.Request, name: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        seen = int(request.query["resourceVersion"])
        try:
            async with asyncio.timeout(float(request.query["timeoutSeconds"])):
                while True:
                    changed = self._changed
                    for event in self._events(name, seen):
                        await response.write(json.dumps(event).encode() + b"\n")
                    seen = self._version
                    await changed.wait()
        except TimeoutError:
            return response

    def _events(self, name: str, seen: int) -> list[dict[str, Any]]:
        events = [
            {"type": "DELETED", "object": item}
            for version, item in self._removed
            if version > seen and item["metadata"]["name"] == name
        ]
        item = self.requests.get(name)
        if item is not None and int(item["metadata"]["resourceVersion"]) > seen:
            events.append({"type": "MODIFIED", "object": item})
        return events


@asynccontextmanager
async def signing_server(folder: Path, clock: Clock) -> AsyncIterator[SigningServer]:
    """The server knows `BOOTSTRAP_TOKEN` and clients with certificates that it has signed."""
    server = SigningServer(Authority(), clock, folder)
    app = web.Application(middlewares=[server.authenticate])
    app.router.add_post(COLLECTION, server.create)
    app.router.add_get(COLLECTION, server.list)
    app.router.add_get(COLLECTION + "/{name}", server.get)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        context = server_context(server.authority, folder, "127.0.0.1")
        context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()
