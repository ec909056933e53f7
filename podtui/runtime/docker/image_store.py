"""Images on the engine: look up, pull, list and remove."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from typing import Any, Final

import docker.auth
import docker.errors

from podtui.errors import EngineConflict, ImagePullError
from podtui.runtime.docker.client import Client
from podtui.runtime.docker.errors import Refused, meaning, meant, understood
from podtui.runtime.docker.images import ImageName, Progress, image_record, is_id, pull_problem
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.pause import PAUSE_REPOSITORY
from podtui.runtime.docker.wire import objects
from podtui.runtime.protocol import ImageRecord, PullProgress, RegistryAuth

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
            found: dict[str, Any] = await self._connection.link.calls.run(
                lambda client: client.inspect_image(name)
            )
        except Refused as error:
            if error.status == 404:
                return None
            raise meaning(error) from error
        return image_record(found)

    async def list(self) -> tuple[ImageRecord, ...]:
        with meant():
            found: list[dict[str, Any]] = await self._connection.link.calls.run(
                lambda client: client.images()
            )
        with understood("the list of images"):
            records = (image_record(entry) for entry in found)
            return tuple(record for record in records if not _is_pause(record))

    async def remove(self, image_id: str) -> None:
        """Remove all tags, then the image. A missing image is no error."""
        link = self._connection.link
        record = await self.status(image_id)
        if record is None:
            return

        def remove(client: Client) -> bool:
            users = client.containers(all=True, filters={"ancestor": record.id})
            if any(user.get("ImageID", record.id) == record.id for user in users):
                return False
            for name in record.tags or (record.id,):
                try:
                    client.remove_image(name)
                except docker.errors.ImageNotFound:
                    continue
            return True

        with meant():
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
            raise ImagePullError(f"{image}: pulled, yet not there")
        return record

    async def _auth_header(self, name: ImageName, auth: RegistryAuth | None) -> dict[str, str]:
        """Return the given credentials for the registry, else those of ``docker login``."""
        if auth is not None:
            found: dict[str, Any] | None = {
                "username": auth.username,
                "password": auth.password,
                "serveraddress": auth.server or name.registry,
            }
        else:
            registry = _INDEX if name.registry == "docker.io" else name.registry
            found = await self._connection.link.calls.run(lambda _: _of_docker_login(registry))
        if not found:
            return {}
        encoded = base64.urlsafe_b64encode(json.dumps(found).encode()).decode()
        return {"X-Registry-Auth": encoded}


def _of_docker_login(registry: str) -> dict[str, Any] | None:
    try:
        login: Any = docker.auth
        return login.load_config().resolve_authconfig(registry)
    except docker.errors.DockerException as error:
        # A credential helper failed. The pull may work without credentials.
        _log.warning("no credentials for %s: %s", registry, type(error).__name__)
        return None


def _is_pause(record: ImageRecord) -> bool:
    names = {ImageName.parse(tag).repository for tag in record.tags}
    return names == {PAUSE_REPOSITORY}
