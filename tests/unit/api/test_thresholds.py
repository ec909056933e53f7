"""Eviction thresholds, read from a configuration."""

from __future__ import annotations

import pytest

from podtui.api.thresholds import (
    Threshold,
    ThresholdError,
    eviction_thresholds,
    threshold_amount,
)

MI = 1 << 20


def thresholds(**settings: dict[str, object]) -> tuple[Threshold, ...]:
    given: dict[str, dict[str, object]] = {
        "hard": {},
        "soft": {},
        "soft_grace": {},
        "minimum_reclaim": {},
    }
    return eviction_thresholds(**{**given, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "capacity", "expected"),
    [("100Mi", 1, 100 * MI), ("10%", 1000, 100), ("0%", 1000, 0), ("5%", 10**6, 50000)],
)
def test_amounts(text: str, capacity: int, expected: int) -> None:
    assert abs(threshold_amount(text, capacity) - expected) <= 1


@pytest.mark.parametrize("text", ["much", "%", "x%"])
def test_invalid_amounts(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        threshold_amount(text, 1)


def test_the_pods_memory_has_the_hard_threshold_of_the_nodes() -> None:
    found = thresholds(
        hard={"memory.available": "100Mi", "nodefs.available": "10%"},
        soft={"memory.available": "1Gi"},
        soft_grace={"memory.available": 90.0},
        minimum_reclaim={"memory.available": "50Mi"},
    )
    assert found == (
        Threshold(signal="memory.available", value="100Mi", reclaim="50Mi"),
        Threshold(signal="nodefs.available", value="10%"),
        Threshold(signal="memory.available", value="1Gi", grace=90.0, reclaim="50Mi"),
        Threshold(signal="allocatableMemory.available", value="100Mi", reclaim="50Mi"),
    )


@pytest.mark.parametrize("text", ["0%", "100%"])
def test_a_threshold_can_be_switched_off(text: str) -> None:
    assert thresholds(hard={"nodefs.available": text}) == ()


def test_the_containers_disk_follows_the_other_two() -> None:
    assert thresholds(hard={"containerfs.available": "10%"}) == ()


@pytest.mark.parametrize(
    ("settings", "setting", "words"),
    [
        ({"hard": {"disk": "1Gi"}}, "evictionHard", "unsupported eviction signal disk"),
        (
            {"hard": {"pid.available": "-1%"}},
            "evictionHard",
            "eviction percentage threshold pid.available must be >= 0%: -1%",
        ),
        (
            {"hard": {"pid.available": "101%"}},
            "evictionHard",
            "eviction percentage threshold pid.available must be <= 100%: 101%",
        ),
        (
            {"hard": {"memory.available": "0"}},
            "evictionHard",
            "eviction threshold memory.available must be positive: 0",
        ),
        ({"hard": {"memory.available": "much"}}, "evictionHard", "must be an amount such as 100Mi"),
        ({"hard": {"memory.available": "nan%"}}, "evictionHard", "is not a number"),
        (
            {"soft": {"memory.available": "1Gi"}},
            "evictionSoft",
            "grace period must be specified for the soft eviction threshold memory.available",
        ),
        ({"soft_grace": {"x": 1.0}}, "evictionSoftGracePeriod", "unsupported eviction signal x"),
        ({"minimum_reclaim": {"x": "1"}}, "evictionMinimumReclaim", "unsupported"),
        (
            {"minimum_reclaim": {"nodefs.available": "0%"}},
            "evictionMinimumReclaim",
            "eviction percentage minimum reclaim nodefs.available must be positive: 0%",
        ),
        (
            {"minimum_reclaim": {"nodefs.available": "-1Gi"}},
            "evictionMinimumReclaim",
            "negative eviction minimum reclaim specified for nodefs.available",
        ),
    ],
)
def test_invalid_thresholds(settings: dict[str, dict], setting: str, words: str) -> None:
    with pytest.raises(ThresholdError) as caught:
        thresholds(**settings)
    assert caught.value.setting == setting
    assert words in str(caught.value)
