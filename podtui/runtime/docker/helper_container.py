"""Helper containers, to access files over the engine's API. Most are created but never started.

They have our root label and their own kind label, so that no list takes them for pod containers.
Helpers left behind by a killed agent are removed at the next `connect`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from podtui.api import names
from podtui.errors import EngineError
from podtui.runtime.docker.answers import label_filter, labelled
from podtui.runtime.docker.errors import translate_errors
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.removal import remove_container
from podtui.runtime.docker.sdk import DockerClient

_KIND: Final = "carrier"
_NO_COMMAND: Final = ("/",)
"""Never run, but required if the image has no command."""
_RUN_SECONDS: Final = 60.0


class HelperContainers:
    """``root`` is the value of our root label."""

    def __init__(self, connection: Connection, root: str) -> None:
        self._connection = connection
        self._labels = {names.ROOT_LABEL: root, names.DOCKER_TYPE: _KIND}
        self._in_use: set[str] = set()

    @asynccontextmanager
    async def create(
        self,
        *,
        image: str = "",
        command: Sequence[str] = _NO_COMMAND,
        mounts: Sequence[dict[str, Any]] = (),
    ) -> AsyncGenerator[str]:
        """Create a helper for the duration of the block, and return its name. ``image`` defaults
        to the sandbox image; ``mounts`` are in the API's format. Raises `Refused`."""
        link = self._connection.link
        name = f"podtui-carrier-{secrets.token_hex(8)}"
        payload: dict[str, Any] = {
            "Image": image or link.pause_id,
            "Cmd": [*command],
            "Labels": self._labels,
            "NetworkDisabled": True,
            "HostConfig": {"NetworkMode": "none", "Mounts": list(mounts)},
        }

        def create(client: DockerClient) -> None:
            client.create_container_from_config(payload, name)

        self._in_use.add(name)
        try:
            await link.calls.run(create)
            yield name
        finally:
            try:
                await remove_container(link, name)
            finally:
                self._in_use.discard(name)

    async def run(self, command: Sequence[str], mounts: Sequence[dict[str, Any]]) -> None:
        """Run the program of the sandbox image with arguments, until it ends. Raises `Refused`, and
        `EngineError` if it fails."""
        link = self._connection.link
        program, *arguments = command

        def run(client: DockerClient) -> int:
            client.start(name)
            return int(client.wait(name)["StatusCode"])

        async with self.create(command=arguments, mounts=mounts) as name:
            code = await link.calls.run(run, timeout=_RUN_SECONDS)
        if code != 0:
            raise EngineError(f"{program} {arguments[0]} failed in a helper container: {code}")

    async def clear(self) -> None:
        """Remove helpers that are no longer in use."""
        link = self._connection.link

        def find(client: DockerClient) -> list[str]:
            entries = client.containers(all=True, filters={"label": label_filter(self._labels)})
            return [
                str(entry["Id"])
                for entry in labelled(entries, self._labels)
                if not self._in_use & {name.lstrip("/") for name in entry.get("Names") or ()}
            ]

        with translate_errors():
            left = await link.calls.run(find)
        for identity in left:
            await remove_container(link, identity)
