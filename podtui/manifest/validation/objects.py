"""The API server's rules for creating a ConfigMap or a Secret (departure 7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from podtui.api.v1 import ConfigMap, Secret
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import Errors, invalid, invalid_each, required, too_long
from podtui.manifest.validation.metadata import object_meta

MAX_BYTES: Final = 1024 * 1024
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_DOCKER_KEYS: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_REDACTED: Final = "<secret contents redacted>"

Content = Mapping[str, bytes]


def validate_config_map(item: ConfigMap, binary: Content) -> Errors:
    """``binary`` is the decoded ``binaryData``."""
    yield from object_meta(item.metadata, "metadata")
    for key in item.data:
        yield from _key(key, "data", "data")
        if key in binary:
            path = f"data[{key}]"
            yield invalid(path, key, "duplicate of key present in binaryData")
    for key in binary:
        yield from _key(key, "binaryData", "binaryData")
    if sum(map(formats.size, item.data.values())) + sum(map(len, binary.values())) > MAX_BYTES:
        # An empty field path, as the API server writes it.
        yield too_long("[]", MAX_BYTES, at="data")


def validate_secret(item: Secret, content: Content) -> Errors:
    """``content`` is ``data`` and ``stringData`` together. Its values never appear in a message."""
    yield from object_meta(item.metadata, "metadata")
    for key in content:
        yield from _key(key, "data", "stringData" if key in item.stringData else "data")
    if sum(map(len, content.values())) > MAX_BYTES:
        yield too_long("data", MAX_BYTES)
    yield from _of_its_type(item, content)


def _key(key: str, shown_as: str, real: str) -> Errors:
    problems = formats.config_key(key)
    yield from invalid_each(f"{shown_as}[{key}]", key, problems, at=f"{real}[{key}]")


def _of_its_type(item: Secret, content: Content) -> Errors:
    match item.type:
        case "kubernetes.io/service-account-token":
            if not item.metadata.annotations.get(ACCOUNT_NAME):
                yield required(f"metadata.annotations[{ACCOUNT_NAME}]")
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson":
            yield from _docker_config(_DOCKER_KEYS[item.type], item, content)
        case "kubernetes.io/basic-auth":
            if content.keys().isdisjoint({"username", "password"}):
                yield required("data[username]")
                yield required("data[password]")
        case "kubernetes.io/ssh-auth":
            if not content.get("ssh-privatekey"):
                yield required("data[ssh-privatekey]")
        case "kubernetes.io/tls":
            for key in ("tls.crt", "tls.key"):
                if key not in content:
                    yield required(f"data[{key}]")
        case _:
            pass


def _docker_config(key: str, item: Secret, content: Content) -> Errors:
    path = f"data[{key}]"
    if key not in content:
        yield required(path)
        return
    try:
        valid = isinstance(json.loads(content[key]), dict | None)
    except ValueError:
        valid = False
    if not valid:
        at = f"stringData[{key}]" if key in item.stringData else path
        yield invalid(path, _REDACTED, "not a JSON object", at=at)
