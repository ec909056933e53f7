"""Speaks the API as typed lists, watches and streams. Knows no kubelet.

Importing this package is cheap; `UnixClient` is loaded, with aiohttp, when it is first asked for.
For one quick question there is `podtui.client.simple`.
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
