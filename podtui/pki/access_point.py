"""The address of the API over TCP, and the kubeconfig for its clients.

The port must survive restarts, because kubeconfig files name it. A port that was chosen freely is
remembered in the root directory.
"""

from __future__ import annotations

import base64
import errno
import ipaddress
import random
import socket
from pathlib import Path
from typing import Final

import msgspec
import yaml
from msgspec import Struct

from podtui.errors import PodtuiError
from podtui.private_files import read_private, write_private

NAME: Final = "podtui"
"""The name of cluster, user and context in the kubeconfig."""
_FREE_PORTS: Final = range(20000, 30000)
"""Below Linux's range for outgoing connections, which could take the port before a restart."""
_TRIES: Final = 50


class AccessPoint(Struct, frozen=True):
    """The address that the agent listens on."""

    address: str
    port: int

    @property
    def reached_at(self) -> str:
        """The address for clients on this machine."""
        address = ipaddress.ip_address(self.address)
        if address.is_unspecified:
            return "127.0.0.1" if address.version == 4 else "::1"
        return self.address

    @property
    def url(self) -> str:
        host = self.reached_at
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"


def choose_access_point(root: Path, address: str, port: int) -> AccessPoint:
    """Return the access point of a root directory, and remember it. Port 0 means the remembered
    one, else any free port. Raises `PodtuiError`."""
    path = root / "api.json"
    try:
        remembered = _remembered(path)
        if port == 0:
            port = _free_port(address) if remembered is None else remembered.port
        selected = AccessPoint(address, port)
        if selected != remembered:
            write_private(path, msgspec.json.encode(selected))
    except OSError as error:
        raise PodtuiError(f"cannot choose a port on {address}: {error}") from error
    return selected


def remembered_access_point(root: Path) -> AccessPoint | None:
    """Return the access point of the last agent. Raises OSError."""
    return _remembered(root / "api.json")


def _remembered(path: Path) -> AccessPoint | None:
    data = read_private(path)
    if data is None:
        return None
    try:
        access_point = msgspec.json.decode(data, type=AccessPoint)
        ipaddress.ip_address(access_point.address)
    except ValueError:
        return None
    return access_point if 0 < access_point.port < 65536 else None


def _free_port(address: str) -> int:
    """Return a port that is not in use; any, if the address is not there yet."""
    chooser = random.SystemRandom()
    for _ in range(_TRIES):
        port = chooser.choice(_FREE_PORTS)
        try:
            listen(address, port).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
        return port
    raise OSError(errno.EADDRINUSE, "no port is free")


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(128)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def kubeconfig(point: AccessPoint, authority: bytes, token: str) -> bytes:
    """Return the kubeconfig of the root directory's owner. ``authority`` is PEM."""
    cluster = {
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "server": point.url,
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def write_kubeconfig(path: Path, point: AccessPoint, authority: bytes, token: str) -> None:
    """Write the kubeconfig if it differs. Raises `PodtuiError`."""
    text = kubeconfig(point, authority, token)
    try:
        if not path.is_file() or read_private(path) != text:
            write_private(path, text)
    except OSError as error:
        raise PodtuiError(f"cannot write {path}: {error}") from error
