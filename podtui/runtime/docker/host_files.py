"""Making a file on the engine's host, which is not ours to write to: through a carrier container.

A container that is made and never started binds the file's directory; the file is put there through
it. The directory has to exist (hostPath ``FileOrCreate`` makes no parents, reference §10.2).
"""

from __future__ import annotations

import posixpath
import secrets
from typing import Any

from podtui.api import names
from podtui.runtime.docker.client import Client
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.paths import stat_path
from podtui.runtime.docker.pause import POD_DIRECTORY
from podtui.runtime.docker.removal import remove_container
from podtui.runtime.docker.sandboxes import upload
from podtui.runtime.docker.storage import Entry

_MODE = 0o644


async def make_host_file(link: Link, path: str, root: str) -> None:
    """Make ``path`` an empty file unless something is there. Raises `Refused`."""
    folder, name = posixpath.split(path)
    payload: dict[str, Any] = {
        "Image": link.pause_id,
        "Labels": {names.ROOT_LABEL: root, names.DOCKER_TYPE: "carrier"},
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "Mounts": [{"Type": "bind", "Source": folder, "Target": POD_DIRECTORY}],
        },
    }
    carrier = f"podtui-carrier-{secrets.token_hex(8)}"

    def create(client: Client) -> None:
        client.create_container_from_config(payload, carrier)

    try:
        await link.calls.run(create)
        if await stat_path(link, carrier, posixpath.join(POD_DIRECTORY, name)) is None:
            await upload(link, carrier, [Entry(name, _MODE, content=b"")])
    finally:
        await remove_container(link, carrier)
