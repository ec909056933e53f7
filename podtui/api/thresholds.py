"""Eviction thresholds in the notation of a kubelet configuration (kubelet.md §14.2)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from podtui.api.quantity import parse_quantity

MEMORY: Final = "memory.available"
ALLOCATABLE_MEMORY: Final = "allocatableMemory.available"
NODEFS: Final = "nodefs.available"
NODEFS_INODES: Final = "nodefs.inodesFree"
IMAGEFS: Final = "imagefs.available"
IMAGEFS_INODES: Final = "imagefs.inodesFree"
PIDS: Final = "pid.available"
# Derived from nodefs or imagefs; a configured value has no effect.
DERIVED: Final = ("containerfs.available", "containerfs.inodesFree")
SIGNALS: Final = (
    MEMORY,
    ALLOCATABLE_MEMORY,
    NODEFS,
    NODEFS_INODES,
    IMAGEFS,
    IMAGEFS_INODES,
    PIDS,
    *DERIVED,
)


class ThresholdError(ValueError):
    """Raised for an invalid threshold; ``setting`` is the name of the setting that contains it."""

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message)
        self.setting = setting


class Threshold(Struct, frozen=True, kw_only=True):
    """``value`` is the minimum that must remain available. ``reclaim`` is how much more must be
    available before the threshold counts as no longer exceeded. Each is an amount (``100Mi``) or a
    share of the capacity (``10%``).

    ``grace`` is in seconds; 0 makes it a hard threshold.
    """

    signal: str
    value: str
    grace: float = 0.0
    reclaim: str = ""


def _single(number: float) -> float:
    """Round to single precision, in which the kubelet stores percentages."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def threshold_amount(text: str, capacity: int) -> int:
    """Return an eviction threshold, ``100Mi`` or ``10%``, as an amount in units of the capacity.

    Raises ValueError for any other text.
    """
    if text.endswith("%"):
        share = _single(_single(float(text[:-1])) / 100)
        return int(capacity * share)
    return parse_quantity(text).value()


def eviction_thresholds(
    *,
    hard: Mapping[str, str],
    soft: Mapping[str, str],
    soft_grace: Mapping[str, float],
    minimum_reclaim: Mapping[str, str],
) -> tuple[Threshold, ...]:
    """Return the thresholds to watch, including the pods' memory. Raises `ThresholdError`."""
    for signal in soft_grace:
        _known("evictionSoftGracePeriod", signal)
    for signal, text in minimum_reclaim.items():
        _check_reclaim(signal, text)
    thresholds = [
        Threshold(signal=signal, value=text, reclaim=minimum_reclaim.get(signal, ""))
        for signal, text in _given("evictionHard", hard)
    ]
    for signal, text in _given("evictionSoft", soft):
        if signal not in soft_grace:
            raise ThresholdError(
                "evictionSoft",
                f"grace period must be specified for the soft eviction threshold {signal}",
            )
        thresholds.append(
            Threshold(
                signal=signal,
                value=text,
                grace=soft_grace[signal],
                reclaim=minimum_reclaim.get(signal, ""),
            )
        )
    pods = [
        Threshold(signal=ALLOCATABLE_MEMORY, value=threshold.value, reclaim=threshold.reclaim)
        for threshold in thresholds
        if threshold.signal == MEMORY and threshold.grace == 0
    ]
    return tuple(threshold for threshold in (*thresholds, *pods) if threshold.signal not in DERIVED)


def _known(setting: str, signal: str) -> None:
    if signal not in SIGNALS:
        raise ThresholdError(setting, f"unsupported eviction signal {signal}")


def _given(setting: str, statements: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the thresholds that are enabled: 0% and 100% disable a threshold."""
    for signal, text in statements.items():
        _known(setting, signal)
        if text in ("0%", "100%"):
            continue
        amount = _amount(setting, signal, text)
        if text.endswith("%"):
            if not 0 <= amount <= 100:
                bound = ">= 0%" if amount < 0 else "<= 100%"
                raise ThresholdError(
                    setting, f"eviction percentage threshold {signal} must be {bound}: {text}"
                )
        elif amount <= 0:
            raise ThresholdError(setting, f"eviction threshold {signal} must be positive: {text}")
        yield signal, text


def _check_reclaim(signal: str, text: str) -> None:
    setting = "evictionMinimumReclaim"
    _known(setting, signal)
    amount = _amount(setting, signal, text)
    if text.endswith("%") and amount <= 0:
        raise ThresholdError(
            setting, f"eviction percentage minimum reclaim {signal} must be positive: {text}"
        )
    if amount < 0:
        raise ThresholdError(setting, f"negative eviction minimum reclaim specified for {signal}")


def _amount(setting: str, signal: str, text: str) -> float:
    """Return the number in a threshold, in percent or units."""
    try:
        amount = float(text[:-1]) if text.endswith("%") else parse_quantity(text).value()
    except ValueError as error:
        raise ThresholdError(
            setting, f"{signal}: must be an amount such as 100Mi or 10%, not {text!r}"
        ) from error
    if amount != amount or abs(amount) == float("inf"):
        raise ThresholdError(setting, f"{signal}: {text!r} is not a number")
    return amount
