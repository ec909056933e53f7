"""Background tasks that are restarted after unexpected errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from podtui.clock import Clock

_LOG = logging.getLogger(__name__)
PAUSE: Final = 1.0


async def keep_running(name: str, task: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run ``task`` until it returns; after an exception, restart it a second later."""
    while True:
        try:
            await task()
            return
        except Exception:  # noqa: BLE001 - one loop's mistake must not end the kubelet; it is logged
            _LOG.exception("%s failed and will be begun again", name)
        await clock.sleep(PAUSE)
