"""The SDK's low-level client as this driver uses it: the SDK itself is hardly typed."""

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
    """Blocking; raises what `podtui.runtime.docker.errors.translated` translates."""

    timeout: float
    """Seconds for each answer."""

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
    """A client with connections of its own; not to be shared between threads."""
    tls = endpoint.tls
    config = tls and TLSConfig(
        client_cert=(tls.certificate, tls.key), ca_cert=tls.ca, verify=tls.verify
    )
    client = APIClient(base_url=endpoint.url, version=version, tls=config or False)
    if tls is not None:
        client.mount("https://", _TlsAdapter(tls))
    if endpoint.socket_path is not None:
        # No proxy or netrc of the environment applies to a socket; reading them takes a quarter of
        # a call's CPU.
        client.trust_env = False
    return cast(Client, client)


class _TlsAdapter(HTTPAdapter):
    """Connects with the rules of `TlsFiles.context`, as podtui's other client of the engine."""

    def __init__(self, tls: TlsFiles) -> None:
        self._tls = tls
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=self._tls.context())


@understood("labels")
def labels_of(found: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels of a container, volume or configuration, which may be null."""
    return cast(Mapping[str, str] | None, found.get("Labels")) or {}


@understood("an object")
def mapping(found: Mapping[str, Any], key: str) -> Json:
    """An object inside an object, empty where it is missing or null."""
    return cast(Json | None, found.get(key)) or {}


def label_filter(wanted: Mapping[str, str]) -> list[str]:
    """As a ``label`` filter; to be seconded by `labelled`."""
    return [f"{key}={value}" for key, value in wanted.items()]


@understood("a list")
def labelled(found: Iterable[Json], wanted: Mapping[str, str]) -> list[Json]:
    """Those with all the labels: Podman takes several labels of a filter for alternatives."""
    return [entry for entry in found if wanted.items() <= labels_of(entry).items()]
