"""The settings of a kubelet, resolved, and the times it keeps (reference §0, timers)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


def _no_map() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfig:
    """Durations are seconds, reservations are quantities by resource or signal.

    ``strict`` undoes the departures from the kubelet. ``simulated`` says that the runtime only
    pretends, which every view must show.
    """

    node_name: str
    max_pods: int = 110
    system_reserved: Mapping[str, str] = field(default_factory=_no_map)
    kube_reserved: Mapping[str, str] = field(default_factory=_no_map)
    eviction_hard: Mapping[str, str] = field(default_factory=_no_map)
    node_labels: Mapping[str, str] = field(default_factory=_no_map)
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    max_container_restart_period: float = 300.0
    serialize_image_pulls: bool = True
    max_parallel_image_pulls: int = 0
    """Counts where pulls are not serialized; 0 is without limit."""
    sync_frequency: float = 60.0
    strict: bool = False
    simulated: bool = False

    relist_period: float = 1.0
    relist_period_streaming: float = 5.0
    """Between relists while the runtime's event stream is healthy."""
    housekeeping_period: float = 2.0
    container_gc_period: float = 60.0
    error_backoff: float = 10.0
    ping_period: float = 5.0
    runtime_down_after: float = 30.0
    node_status_period: float = 10.0
    node_report_period: float = 300.0

    @property
    def pull_slots(self) -> int:
        """How many images may be pulled at once; 0 is without limit."""
        return 1 if self.serialize_image_pulls else self.max_parallel_image_pulls
