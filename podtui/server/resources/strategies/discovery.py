"""The kinds of the group discovery.k8s.io."""

from __future__ import annotations

from typing import Final

from podtui.api.discovery import EndpointSlice
from podtui.server.resources.strategies.strategy import Strategy

ENDPOINT_SLICES: Final = Strategy(struct=EndpointSlice)
