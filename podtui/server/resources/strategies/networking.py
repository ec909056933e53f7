"""The kinds of the group networking.k8s.io."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from podtui.api.networking import Ingress, IngressClass, NetworkPolicy
from podtui.server.resources.strategies.strategy import (
    Strategy,
    with_old_spec,
    with_old_status,
    without_status,
)

INGRESSES: Final = Strategy(
    struct=Ingress,
    prepare_create=without_status,
    prepare_update=with_old_status,
)
INGRESS_STATUS: Final = replace(INGRESSES, prepare_update=with_old_spec)
INGRESS_CLASSES: Final = Strategy(struct=IngressClass)
NETWORK_POLICIES: Final = Strategy(struct=NetworkPolicy)
