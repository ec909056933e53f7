"""How often something may happen: so many at once, then so many a second."""

from __future__ import annotations


class TokenBucket:
    """Without a clock: every call says what time it is, in seconds that never go back. A rate of 0
    is no limit."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled: float | None = None

    def take(self, now: float) -> bool:
        """Whether one more may happen now."""
        if self._rate == 0:
            return True
        elapsed = 0.0 if self._filled is None else max(now - self._filled, 0.0)
        self._filled = now
        self._tokens = min(self._tokens + elapsed * self._rate, self._burst)
        # A whole period must be one token in spite of rounding.
        if self._tokens < 1.0 - 1e-9:
            return False
        self._tokens = max(self._tokens - 1.0, 0.0)
        return True
