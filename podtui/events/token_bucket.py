"""A limit of the rate of actions."""

from __future__ import annotations


class TokenBucket:
    """A token bucket; a rate of 0 means no limit.

    There is no clock here: every call passes the current time in monotonic seconds.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled: float | None = None

    def take(self, now: float) -> bool:
        """Take a token; return False if none is left."""
        if self._rate == 0:
            return True
        elapsed = 0.0 if self._filled is None else max(now - self._filled, 0.0)
        self._filled = now
        self._tokens = min(self._tokens + elapsed * self._rate, self._burst)
        # Allow for rounding: a whole period must yield one token.
        if self._tokens < 1.0 - 1e-9:
            return False
        self._tokens = max(self._tokens - 1.0, 0.0)
        return True

    def charge(self, tokens: float) -> None:
        """Take tokens for an action that cost more than one; what is missing is taken later."""
        if self._rate:
            self._tokens -= tokens
