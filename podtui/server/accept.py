"""Content negotiation: plain objects, Tables and discovery documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podtui.server.status import StatusError


@dataclass(frozen=True, slots=True)
class MediaType:
    """``shape`` is the ``as`` parameter: ``Table``, ``APIGroupDiscoveryList`` or empty."""

    shape: str = ""
    version: str = ""


_PLAIN = frozenset({"application/json", "application/*", "*/*"})
_SHAPES = frozenset(
    {
        ("Table", "meta.k8s.io", "v1"),
        ("Table", "meta.k8s.io", "v1beta1"),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1"),
    }
)


def negotiate(header: str, shape: str) -> MediaType:
    """Return the first accepted media type that can be served as plain JSON or as ``shape``.

    Raises `StatusError` 406 if there is none.
    """
    for kind, parameters in _ranges(header):
        if kind not in _PLAIN:
            continue
        wish = parameters.get("as", "")
        if not wish:
            return MediaType()
        version = parameters.get("v", "")
        if wish == shape and (wish, parameters.get("g", ""), version) in _SHAPES:
            return MediaType(wish, version)
    raise StatusError(
        406, "only the following media types are accepted: application/json", reason="NotAcceptable"
    )


def _ranges(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    for item in (header or "*/*").split(","):
        kind, *rest = item.split(";")
        pairs = (part.partition("=") for part in rest)
        yield kind.strip().lower(), {key.strip(): value.strip() for key, _, value in pairs}
