"""Calls through the Docker SDK, in separate threads with a client each.

The SDK blocks, and its client is not safe to share between threads. It is mostly untyped;
`DockerClient` has the types of the calls used here. Streams go through
`podtui.runtime.docker.wire`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar, cast

import docker.auth
import docker.errors
from docker.api.client import APIClient
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.tls import TLSConfig
from docker.transport import UnixHTTPAdapter
from requests.adapters import HTTPAdapter

from podtui.errors import EngineUnavailable
from podtui.runtime.docker.answers import Json
from podtui.runtime.docker.errors import parsing, translate_transport_errors
from podtui.runtime.docker.locate import Endpoint, TlsFiles

Filters = Mapping[str, str | Sequence[str]]
T = TypeVar("T")
API_VERSION: Final = DEFAULT_DOCKER_API_VERSION
"""The newest version of the engine's API that the SDK supports."""
Missing = docker.errors.NotFound
_log = logging.getLogger(__name__)
THREADS: Final = 12
CALL_SECONDS: Final = 60.0
_CLOSED: Final = "the connection was closed"


class Calls:
    """Runs functions with a client on worker threads. ``version`` is the API version."""

    def __init__(self, endpoint: Endpoint, version: str) -> None:
        self._endpoint = endpoint
        self._version = version
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="engine")
        self._own = threading.local()
        self._clients: list[DockerClient] = []

    async def run(self, call: Callable[[DockerClient], T], *, timeout: float = CALL_SECONDS) -> T:
        """Return the result of ``call``. ``timeout`` applies to each response of the engine.

        If cancelled while the engine processes the call, wait for the response first, so that
        nothing changes after this method has returned. Raises `Refused`, `EngineUnavailable`.
        """
        try:
            future = self._pool.submit(self._call, call, timeout)
        except RuntimeError as error:
            raise EngineUnavailable(f"{self._endpoint.url}: {_CLOSED}") from error
        waiting = asyncio.wrap_future(future)
        try:
            await asyncio.wait({waiting})
        except asyncio.CancelledError:
            if not future.cancel():
                await asyncio.wait({waiting})
                waiting.exception()
            raise
        if future.cancelled():
            # `close` dropped the call before it started. The caller's task is not cancelled.
            raise EngineUnavailable(f"{self._endpoint.url}: {_CLOSED}")
        return waiting.result()

    def _call(self, call: Callable[[DockerClient], T], timeout: float) -> T:
        with translate_transport_errors(self._endpoint.url), parsing("a call"):
            client = self._client()
            client.timeout = timeout
            return call(client)

    def _client(self) -> DockerClient:
        client: DockerClient | None = getattr(self._own, "client", None)
        if client is None:
            client = new_client(self._endpoint, self._version)
            self._own.client = client
            self._clients.append(client)
        return client

    def close(self) -> None:
        """Wait for running calls, then close every connection. Blocks."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        while self._clients:
            self._clients.pop().close()


class DockerClient(Protocol):
    """Blocking. Raises the exceptions that `translate_transport_errors` handles."""

    timeout: float
    """Timeout in seconds for each response."""

    def close(self) -> None: ...
    def containers(self, *, all: bool = False, filters: Filters) -> list[Json]: ...
    def create_container_from_config(self, config: Json, name: str) -> Json: ...
    def inspect_container(self, container: str) -> Json: ...
    def start(self, container: str) -> None: ...
    def wait(self, container: str) -> Json: ...
    def remove_container(self, container: str, *, v: bool = False, force: bool = False) -> None: ...
    def put_archive(self, container: str, path: str, data: bytes) -> bool: ...
    def create_volume(
        self,
        name: str,
        driver: str,
        driver_opts: Mapping[str, str] | None,
        labels: Mapping[str, str],
    ) -> Json: ...
    def volumes(self, *, filters: Filters) -> Json: ...
    def inspect_volume(self, name: str) -> Json: ...
    def remove_volume(self, name: str) -> None: ...
    def images(self) -> list[Json]: ...
    def inspect_image(self, image: str) -> Json: ...
    def remove_image(self, image: str) -> None: ...
    def import_image_from_data(
        self, data: bytes, *, repository: str, changes: Sequence[str]
    ) -> str: ...


def new_client(endpoint: Endpoint, version: str) -> DockerClient:
    """Return a client with its own connections. Do not share it between threads."""
    tls = endpoint.tls
    config = tls and TLSConfig(
        client_cert=(tls.certificate, tls.key), ca_cert=tls.ca, verify=tls.verify
    )
    client = APIClient(base_url=endpoint.url, version=version, tls=config or False)
    if tls is not None:
        client.mount("https://", _TlsAdapter(tls))
    if endpoint.socket_path is not None:
        # Proxy and netrc settings do not apply to a socket, and reading them takes a quarter of a
        # call's CPU time.
        client.trust_env = False
        client.mount("http+docker://", _SocketAdapter(endpoint.socket_path))
    return cast(DockerClient, client)


class _SocketAdapter(UnixHTTPAdapter):
    """Keeps one connection for all calls. The SDK's own adapter opens one for each URL, and keeps
    25 of them."""

    def get_connection(self, url: bytes | str, proxies: Any = None) -> Any:
        return super().get_connection("http+docker://localhost", proxies)


class _TlsAdapter(HTTPAdapter):
    """Uses the TLS rules of `TlsFiles.context`, like podtui's other engine client."""

    def __init__(self, tls: TlsFiles) -> None:
        self._tls = tls
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=self._tls.context())


def docker_login(registry: str) -> dict[str, Any] | None:
    """Return the credentials that ``docker login`` stored for a registry."""
    try:
        login: Any = docker.auth
        return login.load_config().resolve_authconfig(registry)
    except docker.errors.DockerException as error:
        # A credential helper failed. The pull may work without credentials.
        _log.warning("no credentials for %s: %s", registry, type(error).__name__)
        return None
