"""ConfigMaps and Secrets."""

from __future__ import annotations

import base64
from typing import Final

from msgspec import structs

from podtui.api.v1 import ConfigMap, Secret
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy
from podtui.manifest.validation.errors import Errors, forbidden, invalid
from podtui.manifest.validation.objects import validate_config_map, validate_secret

_FROZEN: Final = "field is immutable when `immutable` is set"


def _content(encoded: dict[str, str]) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in encoded.items()}


def _config_map_errors(item: ConfigMap) -> Errors:
    yield from validate_config_map(item, _content(item.binaryData))


def _config_map_update_errors(new: ConfigMap, old: ConfigMap) -> Errors:
    if old.immutable:
        if not new.immutable:
            yield forbidden("immutable", _FROZEN)
        for name in ("data", "binaryData"):
            if getattr(new, name) != getattr(old, name):
                yield forbidden(name, _FROZEN)
    yield from _config_map_errors(new)


def _secret_defaults(tree: Tree) -> None:
    """Merge ``stringData`` into ``data``, and set the type."""
    tree["type"] = tree.get("type") or "Opaque"
    plain: dict[str, str] = tree.pop("stringData", {})
    if plain:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
        tree["data"] = {**tree.get("data", {}), **encoded}


def _prepare_secret_update(new: Secret, old: Secret) -> Secret:
    return new if new.type else structs.replace(new, type=old.type)


def _secret_errors(item: Secret) -> Errors:
    yield from validate_secret(item, _content(item.data))


def _secret_update_errors(new: Secret, old: Secret) -> Errors:
    if new.type != old.type:
        yield invalid("type", new.type, "field is immutable")
    if old.immutable:
        if not new.immutable:
            yield forbidden("immutable", _FROZEN)
        if new.data != old.data:
            yield forbidden("data", _FROZEN)
    yield from _secret_errors(new)


CONFIG_MAPS: Final = Strategy(
    struct=ConfigMap,
    validate_create=_config_map_errors,
    validate_update=_config_map_update_errors,
)
SECRETS: Final = Strategy(
    struct=Secret,
    defaults=_secret_defaults,
    prepare_update=_prepare_secret_update,
    validate_create=_secret_errors,
    validate_update=_secret_update_errors,
)
