"""Types for the parts of the SDK's low-level client used here: the SDK is mostly untyped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from docker.api.client import APIClient
from docker.tls import TLSConfig
from requests.adapters import HTTPAdapter

from podtui.runtime.docker.errors import understood
from podtui.runtime.docker.locate import Endpoint, TlsFiles

Json = dict[str, Any]
Filters = Mapping[str, str | Sequence[str]]


class Client(Protocol):
    """Blocking. Raises the exceptions that `podtui.runtime.docker.errors.translated` translates."""

    timeout: float
    """Timeout in seconds for each response."""

    def close(self) -> None: ...
    def containers(self, *, all: bool = False, filters: Filters) -> list[Json]: ...
    def create_container_from_config(self, config: Json, name: str) -> Json: ...
    def inspect_container(self, container: str) -> Json: ...
    def start(self, container: str) -> None: ...
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


def new_client(endpoint: Endpoint, version: str) -> Client:
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
    return cast(Client, client)


class _TlsAdapter(HTTPAdapter):
    """Uses the TLS rules of `TlsFiles.context`, like podtui's other engine client."""

    def __init__(self, tls: TlsFiles) -> None:
        self._tls = tls
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=self._tls.context())


@understood("labels")
def labels_of(found: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of a container, volume or configuration. The field may be null."""
    return cast(Mapping[str, str] | None, found.get("Labels")) or {}


@understood("an object")
def mapping(found: Mapping[str, Any], key: str) -> Json:
    """Return a nested object; empty if it is missing or null."""
    return cast(Json | None, found.get(key)) or {}


def label_filter(wanted: Mapping[str, str]) -> list[str]:
    """Format a ``label`` filter. Check the result with `labelled`."""
    return [f"{key}={value}" for key, value in wanted.items()]


@understood("a list")
def labelled(found: Iterable[Json], wanted: Mapping[str, str]) -> list[Json]:
    """Keep entries with all the labels: Podman combines several label filters with OR."""
    return [entry for entry in found if wanted.items() <= labels_of(entry).items()]
