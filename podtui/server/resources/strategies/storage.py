"""The kinds of the group storage.k8s.io."""

from __future__ import annotations

from typing import Final

from podtui.api.storage import StorageClass
from podtui.server.resources.strategies.strategy import Strategy

STORAGE_CLASSES: Final = Strategy(struct=StorageClass)
