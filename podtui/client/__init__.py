"""A client for the Kubernetes API: typed lists, watches and streams. Independent of the kubelet.

Importing this package is cheap: `UnixClient` and aiohttp are loaded on first use. For a single
request, use `podtui.client.simple`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podtui.client.unix import UnixClient

__all__ = ["UnixClient"]


def __getattr__(name: str) -> Any:
    if name == "UnixClient":
        from podtui.client.unix import UnixClient

        return UnixClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
