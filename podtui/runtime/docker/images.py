"""Images on the engine: look up, pull, list and remove."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from podtui.errors import EngineConflict, ImagePullError
from podtui.runtime.docker.errors import Refused, engine_error, parsing, translate_errors
from podtui.runtime.docker.identity import instant
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.pause import PAUSE_REPOSITORY
from podtui.runtime.docker.sdk import DockerClient, Missing, docker_login
from podtui.runtime.docker.wire import objects
from podtui.runtime.protocol import ImageRecord, PullProgress, RegistryAuth

_ID: Final = re.compile(r"(sha256:)?[0-9a-f]{64}")
_GATEWAY_ERRORS: Final = (502, 503, 504)
_DOCKER_IO: Final = ("docker.io", "index.docker.io", "registry-1.docker.io")
_log = logging.getLogger(__name__)
_STALLED_SECONDS: Final = 120.0
_INDEX: Final = "https://index.docker.io/v1/"


class Images:
    """The engine's images, without the built-in sandbox image."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def status(self, image: str) -> ImageRecord | None:
        # Use the full name, because the engine takes a bare hexadecimal name for an id prefix.
        name = image if is_id(image) else str(ImageName.parse(image))
        try:
            inspection: dict[str, Any] = await self._connection.link.calls.run(
                lambda client: client.inspect_image(name)
            )
        except Refused as error:
            if error.status == 404:
                return None
            raise engine_error(error) from error
        return image_record(inspection)

    async def list(self) -> tuple[ImageRecord, ...]:
        with translate_errors():
            entries: list[dict[str, Any]] = await self._connection.link.calls.run(
                lambda client: client.images()
            )
        with parsing("the list of images"):
            records = (image_record(entry) for entry in entries)
            return tuple(record for record in records if not _is_pause(record))

    async def remove(self, image_id: str) -> None:
        """Remove all tags, then the image. A missing image is no error."""
        link = self._connection.link
        record = await self.status(image_id)
        if record is None:
            return

        def remove(client: DockerClient) -> bool:
            users = client.containers(all=True, filters={"ancestor": record.id})
            if any(user.get("ImageID", record.id) == record.id for user in users):
                return False
            for name in record.tags or (record.id,):
                try:
                    client.remove_image(name)
                except Missing:
                    continue
            return True

        with translate_errors():
            if not await link.calls.run(remove):
                raise EngineConflict(f"image {image_id} is in use by a container")

    async def pull(
        self,
        image: str,
        auth: RegistryAuth | None,
        on_progress: Callable[[PullProgress], None] | None,
    ) -> ImageRecord:
        link = self._connection.link
        name = ImageName.parse(image)
        headers = await self._auth_header(name, auth)
        query = {"fromImage": name.name, "tag": name.digest or name.tag}
        progress = Progress()
        try:
            async with link.wire.open(
                "POST", "/images/create", query=query, headers=headers, idle=_STALLED_SECONDS
            ) as response:
                async for message in objects(response):
                    if "error" in message:
                        raise ImagePullError(pull_problem(message))
                    now = progress.add(message)
                    if on_progress is not None:
                        on_progress(now)
        except Refused as error:
            raise ImagePullError(error.text) from error
        record = await self.status(image)
        if record is None:
            raise ImagePullError(f"{image}: not found after the pull")
        return record

    async def _auth_header(self, name: ImageName, auth: RegistryAuth | None) -> dict[str, str]:
        """Return the given credentials for the registry, else those of ``docker login``."""
        if auth is not None:
            credentials: dict[str, Any] | None = {
                "username": auth.username,
                "password": auth.password,
                "serveraddress": auth.server or name.registry,
            }
        else:
            registry = _INDEX if name.registry == "docker.io" else name.registry
            credentials = await self._connection.link.calls.run(lambda _: docker_login(registry))
        if not credentials:
            return {}
        encoded = base64.urlsafe_b64encode(json.dumps(credentials).encode()).decode()
        return {"X-Registry-Auth": encoded}


def _is_pause(record: ImageRecord) -> bool:
    names = {ImageName.parse(tag).repository for tag in record.tags}
    return names == {PAUSE_REPOSITORY}


# --- names, records and progress


def is_id(image: str) -> bool:
    return _ID.fullmatch(image) is not None


@dataclass(frozen=True, slots=True)
class ImageName:
    """A fully qualified reference: ``busybox`` is docker.io, library/busybox, latest."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, image: str) -> ImageName:
        """Parse a reference. As in the engines, a digest takes precedence over a tag."""
        rest, _, digest = image.partition("@")
        first, slash, path = rest.partition("/")
        if slash and (first == "localhost" or "." in first or ":" in first):
            registry, rest = first, path
        else:
            registry = "docker.io"
        if registry in _DOCKER_IO:
            registry = "docker.io"
            if "/" not in rest:
                rest = f"library/{rest}"
        head, colon, tag = rest.rpartition(":")
        repository, tag = (head, tag) if colon and "/" not in tag else (rest, "")
        return cls(registry, repository, "" if digest else tag or "latest", digest)

    @property
    def name(self) -> str:
        """The name without tag and digest, in the engine's short form for docker.io."""
        if self.registry != "docker.io":
            return f"{self.registry}/{self.repository}"
        return self.repository.removeprefix("library/")

    def __str__(self) -> str:
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"


@parsing("an image")
def image_record(entry: Mapping[str, Any]) -> ImageRecord:
    """Convert an inspection or a list entry. A list entry has no user."""
    config: Mapping[str, Any] = entry.get("Config") or entry.get("ContainerConfig") or {}
    created: object = entry.get("Created")
    return ImageRecord(
        id=_prefixed(str(entry["Id"])),
        tags=tuple(t for t in entry.get("RepoTags") or () if t != "<none>:<none>"),
        digests=tuple(d for d in entry.get("RepoDigests") or () if d != "<none>@<none>"),
        size=int(entry.get("Size") or 0),
        user=str(config.get("User") or ""),
        created_at=_parse_created(created),
    )


def _parse_created(created: object) -> datetime | None:
    """Parse a creation time. Lists have seconds since 1970, inspections have a time string."""
    if isinstance(created, int):
        return datetime.fromtimestamp(created, UTC) if created > 0 else None
    return instant(created)


def _prefixed(identity: str) -> str:
    return identity if ":" in identity else f"sha256:{identity}"


@parsing("the progress of a pull")
def pull_problem(message: Mapping[str, Any]) -> str:
    """Return the error text in a pull stream. An error of a gateway in front of the registry gets
    the prefix ``RegistryUnavailable``, which the kubelet knows (kubelet.md §6.7)."""
    text = str(message.get("error", ""))
    detail: Mapping[str, Any] = message.get("errorDetail") or {}
    return f"RegistryUnavailable: {text}" if detail.get("code") in _GATEWAY_ERRORS else text


@dataclass(slots=True)
class Progress:
    """Sums the progress of all layers."""

    _current: dict[str, int] = field(default_factory=dict[str, int])
    _total: dict[str, int] = field(default_factory=dict[str, int])

    @parsing("the progress of a pull")
    def add(self, message: Mapping[str, Any]) -> PullProgress:
        layer = str(message.get("id") or "")
        status = str(message.get("status") or "")
        detail: Mapping[str, Any] = message.get("progressDetail") or {}
        if status == "Downloading" and layer:
            self._current[layer] = int(detail.get("current") or 0)
            self._total[layer] = max(int(detail.get("total") or 0), self._total.get(layer, 0))
        elif status in ("Download complete", "Pull complete") and layer in self._total:
            self._current[layer] = self._total[layer]
        return PullProgress(
            status=f"{layer}: {status}" if layer else status,
            current=sum(self._current.values()),
            total=sum(self._total.values()),
        )
