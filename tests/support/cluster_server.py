"""A fake cluster: our API behind TLS, with authentication and the failures of a busy server."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from served import Served, serving

from podtui.client.cluster import ClusterClient
from podtui.kubeconfig import choose, load
from podtui.server.status import StatusError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Authority:
    """Issues EC certificates, by default valid from a day ago until tomorrow."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._cert = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self._cert.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def issue(
        self,
        name: str,
        *hosts: str,
        groups: Sequence[str] = (),
        begin: datetime | None = None,
        end: datetime | None = None,
    ) -> tuple[bytes, bytes]:
        """Return certificate and key as PEM: a server's for ``hosts``, a client's without hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = self._builder(_name(name, groups), key, begin, end).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if hosts:
            names = [_host(host) for host in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert = builder.sign(self._key, hashes.SHA256())
        return cert.public_bytes(serialization.Encoding.PEM), key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def sign(self, request: bytes, begin: datetime, end: datetime) -> bytes:
        """Return the certificate for a certificate signing request; both are PEM."""
        asked = x509.load_pem_x509_csr(request)
        builder = (
            x509.CertificateBuilder()
            .subject_name(asked.subject)
            .issuer_name(self._name)
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
        )
        for extension in asked.extensions:
            builder = builder.add_extension(extension.value, critical=extension.critical)
        cert = builder.sign(self._key, hashes.SHA256())
        return cert.public_bytes(serialization.Encoding.PEM)

    def _builder(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        begin: datetime | None = None,
        end: datetime | None = None,
    ) -> Any:
        now, day = datetime.now(UTC), timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin or now - day)
            .not_valid_after(end or now + day)
        )


def _name(name: str, groups: Sequence[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@dataclass
class FrontRules:
    """Hooks that the proxy runs before and after the server answers.

    ``forbidden`` maps prefixes of paths to messages; ``refusals`` are returned first, one for each
    request: (code, Retry-After or None). ``answers`` are documents by path, in place of our
    server's. ``requests`` are (method, path with query, user); ``addresses`` are those of
    their connections.
    """

    tokens: dict[str, str] = field(default_factory=dict)
    passwords: dict[str, str] = field(default_factory=dict)
    forbidden: dict[str, str] = field(default_factory=dict)
    refusals: list[tuple[int, str | None]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    expire_pages: bool = False
    managed: bool = False
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    heads: list[Any] = field(default_factory=list)
    addresses: list[Any] = field(default_factory=list)
    deleted: list[tuple[str, Any]] = field(default_factory=list)

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.requests]

    @web.middleware
    async def front(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        who = self._user_of(request)
        self.requests.append((request.method, request.path_qs, who or "anonymous"))
        self.heads.append(request.headers.copy())
        assert request.transport is not None
        self.addresses.append(request.transport.get_extra_info("peername"))
        if self.refusals:
            code, after = self.refusals.pop(0)
            return web.json_response(
                {"kind": "Status", "reason": "TooManyRequests", "message": "too many requests"},
                status=code,
                headers={"Retry-After": after} if after is not None else {},
            )
        if who is None:
            raise StatusError(401, "Unauthorized")
        for start, words in self.forbidden.items():
            if request.path.startswith(start):
                raise StatusError(403, words)
        if request.path in self.answers and "watch" not in request.query:
            return web.json_response(self.answers[request.path])
        if request.path.startswith("/apis/podtui.dev"):
            raise StatusError(404, "the server could not find the resource")
        if request.method == "DELETE":
            self.deleted.append((request.path, await request.json()))
            return web.json_response({"kind": "Status", "status": "Success"})
        return await self._answered(request, handler)

    def _user_of(self, request: web.Request) -> str | None:
        scheme, _, value = request.headers.get("Authorization", "").partition(" ")
        if scheme == "Bearer":
            return self.tokens.get(value)
        if scheme == "Basic":
            name, _, password = base64.b64decode(value).decode().partition(":")
            return name if self.passwords.get(name) == password else None
        transport = request.transport
        shown = transport.get_extra_info("peercert") if transport is not None else None
        if shown:
            return dict(pair[0] for pair in shown["subject"])["commonName"]
        return None

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if "continue" in request.query and self.expire_pages:
            raise StatusError(410, "the continue parameter is too old")
        response = await handler(request)
        if not (isinstance(response, web.Response) and response.body and response.status == 200):
            return response
        if "watch" in request.query or not self.managed:
            return response
        document = json.loads(bytes(response.body))
        for item in document.get("items", ()):
            item["metadata"]["managedFields"] = [
                {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:x": {}}}
            ]
            item["unheardOf"] = {"nested": [1, None]}
        return web.json_response(document)


@dataclass
class FakeCluster:
    """``server`` is its URL; ``kubeconfig`` writes a file with the given users."""

    server: str
    authority: Authority
    rules: FrontRules
    served: Served
    folder: Path

    def kubeconfig(self, user: dict[str, Any], name: str = "config", **cluster: Any) -> Path:
        """Write a file with one context ``test`` for ``user``."""
        ca = base64.b64encode(self.authority.pem).decode()
        found = {"server": self.server, "certificate-authority-data": ca} | cluster
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "eu-1", "cluster": _given(found)}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "eu-1", "user": "me"}}],
        }
        path = self.folder / name
        path.write_text(json.dumps(document, indent=1))
        return path

    def certificate(self, name: str = "anne") -> dict[str, str]:
        cert, key = self.authority.issue(name)
        return {
            "client-certificate-data": base64.b64encode(cert).decode(),
            "client-key-data": base64.b64encode(key).decode(),
        }


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@asynccontextmanager
async def cluster(folder: Path, *hosts: str, **options: Any) -> AsyncIterator[FakeCluster]:
    """The server knows the token ``sesame``, ``bob`` by password, and clients with its
    certificates.
    """
    authority, rules = (
        Authority(),
        FrontRules(tokens={"sesame": "tina"}, passwords={"bob": "secret"}),
    )
    async with serving(folder / "s.sock", middlewares=[rules.front], **options) as served:
        server = await listen_tls(served, authority, folder, *hosts)
        yield FakeCluster(server, authority, rules, served, folder)


def server_context(authority: Authority, folder: Path, *hosts: str) -> ssl.SSLContext:
    """Accepts clients with a certificate of ``authority`` and those without one.

    Like Go's servers, it does not ask for the key identifiers that Python 3.13 wants.
    """
    cert, key = authority.issue("server", *hosts)
    (folder / "server.pem").write_bytes(cert + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    context.load_verify_locations(cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def listen_tls(served: Served, authority: Authority, folder: Path, *hosts: str) -> str:
    """Start a TLS site of the app; return its URL."""
    context = server_context(authority, folder, *(hosts or ("127.0.0.1",)))
    site = web.TCPSite(served.runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    await asyncio.sleep(0)
    return f"https://127.0.0.1:{served.runner.addresses[-1][1]}"


async def cluster_client(served: Served, folder: Path) -> ClusterClient:
    """Return a client of a cluster whose API is ``served``."""
    authority = Authority()
    server = await listen_tls(served, authority, folder)
    cluster = FakeCluster(server, authority, FrontRules(), served, folder)
    return ClusterClient(choose(load(cluster.kubeconfig(cluster.certificate()), {})))
