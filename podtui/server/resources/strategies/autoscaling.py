"""The kinds of the group autoscaling."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.server.resources.strategies.strategy import (
    Strategy,
    with_old_spec,
    with_old_status,
    without_status,
)

AUTOSCALERS: Final = Strategy(
    struct=HorizontalPodAutoscaler,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
AUTOSCALER_STATUS: Final = replace(AUTOSCALERS, prepare_update=with_old_spec)
