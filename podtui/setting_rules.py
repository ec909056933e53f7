"""Rules for settings that a single parser cannot check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from podtui.api.thresholds import ThresholdError, eviction_thresholds

if TYPE_CHECKING:
    from podtui.settings import Settings


def broken_rules(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (setting, problem) for each broken rule; a kubelet refuses the same configurations."""
    if not 1 <= settings.maxContainerRestartPeriod <= 300:
        yield "maxContainerRestartPeriod", "must be between 1s and 300s"
    if not 0.001 <= settings.cpuCFSQuotaPeriod <= 1:
        yield "cpuCFSQuotaPeriod", "must be between 1ms and 1s"
    if settings.containerLogMaxFiles < 2:
        yield "containerLogMaxFiles", "must be greater than 1"
    yield from _eviction(settings)
    yield from _images(settings)
    yield from _shutdown(settings)


def _eviction(settings: Settings) -> Iterator[tuple[str, str]]:
    try:
        eviction_thresholds(
            hard=settings.evictionHard,
            soft=settings.evictionSoft,
            soft_grace=settings.evictionSoftGracePeriod,
            minimum_reclaim=settings.evictionMinimumReclaim,
        )
    except ThresholdError as error:
        yield error.setting, str(error)
    if settings.evictionMaxPodGracePeriod < 0:
        yield "evictionMaxPodGracePeriod", "must not be negative"


def _images(settings: Settings) -> Iterator[tuple[str, str]]:
    low, high = settings.imageGCLowThresholdPercent, settings.imageGCHighThresholdPercent
    if low >= high:
        yield (
            "imageGCLowThresholdPercent",
            f"{low} must be less than imageGCHighThresholdPercent {high}",
        )
    if 0 < settings.imageMaximumGCAge <= settings.imageMinimumGCAge:
        yield "imageMaximumGCAge", "must be greater than imageMinimumGCAge"
    if settings.maxParallelImagePulls > 1 and settings.serializeImagePulls:
        yield (
            "maxParallelImagePulls",
            "cannot be larger than 1 unless serializeImagePulls is set to false",
        )
    for key in ("registryPullQPS", "registryBurst"):
        if getattr(settings, key) < 0:
            yield key, "must not be a negative number"


def _shutdown(settings: Settings) -> Iterator[tuple[str, str]]:
    whole = settings.shutdownGracePeriod
    critical = settings.shutdownGracePeriodCriticalPods
    for key, value in (
        ("shutdownGracePeriod", whole),
        ("shutdownGracePeriodCriticalPods", critical),
    ):
        if 0 < value < 1:
            yield key, "must be either zero or otherwise >= 1 sec"
    if critical > whole:
        yield "shutdownGracePeriodCriticalPods", "must be <= shutdownGracePeriod"
    steps = settings.shutdownGracePeriodByPodPriority
    if steps and (whole or critical):
        yield (
            "shutdownGracePeriodByPodPriority",
            "cannot be given beside shutdownGracePeriod or shutdownGracePeriodCriticalPods",
        )
    if any(seconds < 0 for _, seconds in steps):
        yield "shutdownGracePeriodByPodPriority", "wants no negative seconds"
    if len({priority for priority, _ in steps}) < len(steps):
        yield "shutdownGracePeriodByPodPriority", "names a priority twice"
