"""HTTP to a cluster's API server: TLS, credentials, proxies and back-off."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, cast
from urllib.parse import urlsplit

import aiohttp

from podtui.client.connection import READ_BUFFER, HttpConnection, Request
from podtui.client.credentials import Credentials, Identity
from podtui.client.proxies import proxy_for
from podtui.clock import Clock
from podtui.errors import AgentUnavailable, ApiError, PodtuiError, without_group
from podtui.kubeconfig.types import Cluster

ANSWER_SECONDS: Final = 32.0
"""client-go's timeout for discovery. A page of 500 pods from a distant server can take seconds."""
CONNECT_SECONDS: Final = 15.0
"""Clusters are far away: a lost first packet costs one second, a lost second packet three."""
PING_SECONDS: Final = 20.0
"""Proxies and load balancers close idle sessions, many after a minute. Pongs are not awaited,
because a session whose output is not read does not receive them."""
TRIES: Final = 5
LONGEST_WAIT: Final = 10.0
"""The longest accepted Retry-After. A longer one is reported as an error."""
NO_UPGRADE: Final = (400, 405, 406, 426, 501, 502)
"""Status codes of servers and proxies that do not support these WebSockets."""
UPGRADE_WORDS: Final = (
    "; exec and attach require Kubernetes 1.30 or newer, port-forward 1.31, and no proxy that"
    " blocks WebSockets"
)


class ClusterConnection(HttpConnection):
    """A connection to one cluster. The session is recreated when the client certificate changes.
    ``limit`` is awaited before each request that is no session with a pod."""

    peer = "the API server"
    answer_seconds = ANSWER_SECONDS
    connect_seconds = CONNECT_SECONDS

    def __init__(
        self,
        cluster: Cluster,
        credentials: Credentials,
        clock: Clock,
        *,
        agent: str = "podtui",
        limit: Callable[[Request], Awaitable[None]] | None = None,
    ) -> None:
        parts = urlsplit(cluster.server)
        super().__init__(f"{parts.scheme}://{parts.netloc}", aiohttp.TCPConnector)
        self._cluster = cluster
        self._agent = agent
        self._limit = limit
        self._where = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._credentials = credentials
        self._clock = clock
        self._lock = asyncio.Lock()
        self._presented: tuple[bytes, bytes] | None = None
        self._number = 0
        self._proxy = proxy_for(cluster.server, cluster.proxy_url, os.environ)

    async def _ready(self, identity: Identity) -> aiohttp.ClientSession:
        presented = (identity.certificate, identity.key)
        async with self._lock:
            newer = identity.number > self._number
            if self._session is not None and newer and self._presented != presented:
                await self.reset()
            tls: Any = True
            if self._session is None and self._cluster.is_secure:
                tls = await asyncio.to_thread(tls_context, self._cluster, identity)
            # Check this last: `close` may run meanwhile, and would not close a new session.
            if self.closed:
                raise AgentUnavailable("the client is closed")
            if self._session is None:
                # Do not limit the pool: a screen may hold any number of streams open.
                connector = aiohttp.TCPConnector(ssl=tls, limit=0, socket_factory=_keepalive_socket)
                self._session = aiohttp.ClientSession(
                    self._base_url,
                    connector=connector,
                    headers={"Accept": "application/json", "User-Agent": self._agent},
                    cookie_jar=aiohttp.DummyCookieJar(),
                    read_bufsize=READ_BUFFER,
                    max_line_size=64 * 1024,
                    max_field_size=64 * 1024,
                )
                self._presented, self._number = presented, identity.number
            return self._session

    @property
    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self._cluster.tls_server_name:
            options["server_hostname"] = self._cluster.tls_server_name
        if self._proxy:
            options["proxy"] = self._proxy
        return options

    async def _answer(self, stack: AsyncExitStack, request: Request) -> aiohttp.ClientResponse:
        identity = await self._credentials.identity()
        renewed = False
        for attempt in range(1, TRIES + 1):
            if self._limit is not None:
                await self._limit(request)
            try:
                return await self._sent(stack, identity, request)
            except ApiError as error:
                again = not isinstance(request.body, AsyncIterable)
                if error.code == 401 and again and not renewed:
                    renewed = True
                    fresh = await self._credentials.renew(identity)
                    if fresh is None:
                        raise
                    identity = fresh
                    continue
                if not again or attempt == TRIES or not _may_retry(error):
                    raise
                await self._clock.sleep(error.retry_after or 1.0)
        raise AssertionError("the last try returns or raises")

    async def _sent(
        self, stack: AsyncExitStack, identity: Identity, request: Request
    ) -> aiohttp.ClientResponse:
        session = await self._ready(identity)
        prefixed = _with_prefix(request, self._prefix)
        async with AsyncExitStack() as trying:
            response = await self._send(
                trying, session, prefixed, identity.headers, **self._options
            )
            stack.push_async_exit(trying.pop_all())
            return response

    async def _upgrade(
        self, path: str, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        identity = await self._credentials.identity()
        for last in (False, True):
            session = await self._ready(identity)
            try:
                upgraded = await _connect(
                    session,
                    self._prefix + path,
                    params=params,
                    protocols=protocols,
                    # A kubelet responds with 406 to clients that accept only JSON.
                    headers=(*identity.headers, ("Accept", "*/*")),
                    **self._options,
                )
            except aiohttp.WSServerHandshakeError as error:
                fresh = await self._credentials.renew(identity) if error.status == 401 else None
                if fresh is None or last:
                    raise
                identity = fresh
                continue
            if upgraded.protocol is None:
                await upgraded.close()
                raise ApiError(
                    400, "BadRequest", f"{self.peer} supports none of the protocols{UPGRADE_WORDS}"
                )
            return upgraded
        raise AssertionError("the last try returns or raises")

    async def _refused(self, path: str, params: Sequence[tuple[str, str]]) -> None:
        try:
            await super()._refused(path, params)
        except ApiError as error:
            if error.code not in NO_UPGRADE:
                raise
            raise ApiError(error.code, error.reason, f"{error}{UPGRADE_WORDS}") from error

    @asynccontextmanager
    async def _keep_alive(self, socket: aiohttp.ClientWebSocketResponse) -> AsyncGenerator[None]:
        # The pings raise nothing, so the error is the session's own.
        with without_group():
            async with asyncio.TaskGroup() as group:
                pings = group.create_task(self._ping(socket), name="pings")
                yield
                pings.cancel()

    async def _ping(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        with suppress(ConnectionError):
            while not socket.closed:
                await self._clock.sleep(PING_SECONDS)
                await socket.ping()

    def _words(self, error: Exception) -> str:
        return connection_problem(error, self._where)


def _may_retry(error: ApiError) -> bool:
    """client-go's rule: retry on 429 or 5xx with an acceptable Retry-After."""
    busy = error.code == 429 or error.code >= 500
    return busy and error.retry_after is not None and error.retry_after <= LONGEST_WAIT


def _with_prefix(request: Request, prefix: str) -> Request:
    if not prefix:
        return request
    return Request(
        method=request.method,
        path=prefix + request.path,
        params=request.params,
        body=request.body,
        headers=request.headers,
        head=request.head,
        total=request.total,
        silence=request.silence,
    )


def _keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """Enable TCP keepalive: a watch may be idle for minutes, and the kernel detects a dead peer."""
    family, kind, protocol = address[:3]
    tcp_socket = socket.socket(family, kind, protocol)
    tcp_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    tcp_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    tcp_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    tcp_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return tcp_socket


def connection_problem(error: Exception, where: str) -> str:
    """Describe a failed connection to ``where`` for users, without internal names."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or "it cannot be verified"
        return f"{where}: its certificate is not trusted: {reason}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"{where}: the proxy refused: {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"{where}: its proxy cannot be reached"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        tls = cast("ssl.SSLError", cast("Any", error).os_error)
        return f"{where}: TLS failed: {tls.reason or tls.strerror}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"{where}: no such host"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ConnectionRefusedError):
        return f"{where}: connection refused"
    if isinstance(cause, TimeoutError):
        return f"{where} does not answer"
    if isinstance(
        cause, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | ConnectionError
    ):
        return f"{where} closed the connection"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{where}: {cause.strerror}"
    return f"{where}: {cause or type(cause).__name__}"


def tls_context(cluster: Cluster, identity: Identity) -> ssl.SSLContext:
    """Return a TLS context that trusts only the cluster's CA if it is set, else the system's CAs.
    Raises `PodtuiError` for unreadable certificates and keys."""
    if cluster.insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif cluster.ca_data or cluster.ca_file is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, cluster)
        # As in Go, trust the given certificates even if they are not roots.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        context = ssl.create_default_context()
        # Like kubectl, accept certificates without the extensions that RFC 5280 requires: Python
        # 3.13 and later reject them by default.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if identity.certificate:
        _present(context, identity)
    return context


def _trust(context: ssl.SSLContext, cluster: Cluster) -> None:
    where = cluster.ca_file or "certificate-authority-data"
    try:
        pem = cluster.ca_data or (cluster.ca_file.read_bytes() if cluster.ca_file else b"")
        # The text around the certificates may have any encoding.
        context.load_verify_locations(cadata=pem.decode("ascii", errors="ignore"))
    except ssl.SSLError:
        # A malformed certificate among others is ignored. If none is left, the check below fails.
        pass
    except OSError as error:
        raise PodtuiError(f"cluster {cluster.name!r}: {where}: {error.strerror}") from error
    if not context.cert_store_stats()["x509"]:
        raise PodtuiError(f"cluster {cluster.name!r}: {where}: holds no certificate")


def _present(context: ssl.SSLContext, identity: Identity) -> None:
    """Use memory files: the library only reads files, and the key must not be written to a disk."""
    opened: list[int] = []
    try:
        for name, pem in (("certificate", identity.certificate), ("key", identity.key)):
            opened.append(os.memfd_create(name, os.MFD_CLOEXEC))
            with open(opened[-1], "wb", closefd=False) as file:
                file.write(pem)
        certificate, key = (f"/proc/self/fd/{descriptor}" for descriptor in opened)
        # With an empty password, the library does not prompt for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else ""
        problem = "do not match" if "MISMATCH" in (reason or "") else "cannot be read"
        raise PodtuiError(f"the client certificate and its key {problem}") from None
    finally:
        for descriptor in opened:
            os.close(descriptor)


async def _connect(
    session: aiohttp.ClientSession, path: str, **options: Any
) -> aiohttp.ClientWebSocketResponse:
    return cast("aiohttp.ClientWebSocketResponse", await session.ws_connect(path, **options))
