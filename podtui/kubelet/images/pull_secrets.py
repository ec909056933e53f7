"""Registry credentials from a pod's pull secrets (kubelet.md §6.7)."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from podtui.api.v1 import Pod, Secret
from podtui.runtime.protocol import RegistryAuth

_CONFIG_KEYS: Final = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
_HUB: Final = ("docker.io", "index.docker.io", "registry-1.docker.io")
_Path = tuple[str, tuple[str, ...]]
"""Host with port, and the path segments after it."""


class BadPullSecret(ValueError):
    """Raised for a Secret without a usable registry configuration; the text never quotes the
    content."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: _Path
    auth: RegistryAuth


def missing_secrets(pod: Pod, secrets: Mapping[tuple[str, str], Secret]) -> tuple[str, ...]:
    """Return the names of the pod's pull secrets that do not exist."""
    namespace = pod.metadata.namespace
    return tuple(
        reference.name
        for reference in pod.spec.imagePullSecrets
        if reference.name and (namespace, reference.name) not in secrets
    )


def missing_text(names: Iterable[str]) -> str:
    """Return the event message for missing pull secrets."""
    return (
        f"Unable to retrieve some image pull secrets ({', '.join(names)}); "
        "attempting to pull the image may not succeed."
    )


def credentials(
    pod: Pod, image: str, secrets: Mapping[tuple[str, str], Secret]
) -> tuple[RegistryAuth, ...]:
    """Return the credentials that match the image's registry, the most specific first; try each in
    this order.

    Raises `BadPullSecret`.
    """
    entries: list[_Entry] = []
    for reference in pod.spec.imagePullSecrets:
        secret = secrets.get((pod.metadata.namespace, reference.name))
        if secret is not None:
            entries += _entries(reference.name, secret)
    wanted = _image_path(image)
    matching = [entry for entry in entries if _matches(entry.path, wanted)]
    # Sort longer paths first; the sort is stable, so equal ones keep the order of the pod's list.
    matching.sort(key=lambda entry: "/".join((entry.path[0], *entry.path[1])), reverse=True)
    return tuple(dict.fromkeys(entry.auth for entry in matching))


def _entries(name: str, secret: Secret) -> Iterator[_Entry]:
    key = _CONFIG_KEYS.get(secret.type)
    if key is None:
        return
    text = _value(secret, key)
    if text is None:
        return
    try:
        document: Any = json.loads(text)
        auths = document["auths"] if key == ".dockerconfigjson" else document
        entries = cast(Mapping[str, Mapping[str, Any]], auths)
        for registry, entry in entries.items():
            user, password = _login(entry)
            auth = RegistryAuth(username=user, password=password)
            yield _Entry(_registry_path(registry), auth)
    except (ValueError, KeyError, TypeError, AttributeError):
        # "from None": the parser's traceback would show the content of the Secret.
        raise BadPullSecret(f'secret "{name}": {key} is not a registry configuration') from None


def _value(secret: Secret, key: str) -> str | None:
    if key in secret.stringData:
        return secret.stringData[key]
    if key not in secret.data:
        return None
    try:
        return base64.b64decode(secret.data[key]).decode()
    except (binascii.Error, ValueError):
        raise BadPullSecret(f"{key} is not base64") from None


def _login(entry: Mapping[str, Any]) -> tuple[str, str]:
    user, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    encoded = str(entry.get("auth") or "")
    if encoded:
        user, colon, password = base64.b64decode(encoded).decode().partition(":")
        if not colon:
            raise ValueError
    return user, password


def _registry_path(registry: str) -> _Path:
    """Parse a registry key of a configuration, with or without a scheme and an API version."""
    bare = re.sub(r"^https?://", "", registry)
    bare = re.sub(r"/v[12](/|$)", r"\1", bare, count=1).strip("/")
    host, *path = bare.split("/")
    return ("docker.io" if host in _HUB else host, tuple(path))


def _image_path(image: str) -> _Path:
    """Return the host and path of an image name, without tag and digest."""
    name = image.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:
        name = head
    host, *path = name.split("/")
    if not path or not (host == "localhost" or "." in host or ":" in host):
        return "docker.io", tuple(name.split("/")) if path else ("library", host)
    return ("docker.io" if host in _HUB else host, tuple(path))


def _matches(path: _Path, image: _Path) -> bool:
    """Return whether the credentials apply to the image: the hosts match part by part (``*``
    matches within one part), the ports are equal, and the path is a prefix of the image's path."""
    (host, port), (image_host, image_port) = _split(path[0]), _split(image[0])
    parts, image_parts = host.split("."), image_host.split(".")
    if port != image_port or len(parts) != len(image_parts):
        return False
    if not all(fnmatchcase(name, part) for part, name in zip(parts, image_parts, strict=True)):
        return False
    return "/".join(image[1]).startswith("/".join(path[1]))


def _split(host: str) -> tuple[str, str]:
    name, _, port = host.partition(":")
    return name, port
