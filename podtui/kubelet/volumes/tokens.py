"""Service-account tokens of projected volumes (kubelet.md §10.6): requested, kept and refreshed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from podtui.api.pods import pod_ref
from podtui.api.v1 import Pod, ServiceAccountTokenProjection
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.ports import ServiceAccountTokens, Token, TokenRequest
from podtui.kubelet.volumes.pod_volumes import used_volumes

_LOG = logging.getLogger(__name__)
DEFAULT_SECONDS: Final = 3600
LONGEST_USE: Final = timedelta(hours=24)
JITTER: Final = timedelta(seconds=10)
Tokens = Mapping[ServiceAccountTokenProjection, "str | TokenError"]
"""The token of each projection, or why there is none."""


class TokenError(PodtuiError):
    """Raised if a token could not be requested; the text is the kubelet's message."""


@dataclass(frozen=True, slots=True)
class _Held:
    """``refresh_by`` is the monotonic time of the refresh: the wall clock may be set back."""

    token: Token
    refresh_at: datetime
    refresh_by: float


class PodTokens:
    """Keeps the tokens of each pod until they are due for a refresh: at 80 % of their life, and
    after 24 hours at the latest. An old token stays in use while a refresh fails.

    ``jitter`` returns numbers in [0, 1); a refresh is up to ten seconds early.
    """

    def __init__(
        self, source: ServiceAccountTokens | None, clock: Clock, jitter: Callable[[], float]
    ) -> None:
        self._source = source
        self._clock = clock
        self._jitter = jitter
        self._held: dict[str, dict[ServiceAccountTokenProjection, _Held]] = {}

    async def of(self, pod: Pod) -> Tokens:
        """Return the tokens for the volumes that containers of the pod mount."""
        tokens: dict[ServiceAccountTokenProjection, str | TokenError] = {}
        for projection in token_projections(pod):
            try:
                tokens[projection] = (await self._current(pod, projection)).text
            except TokenError as error:
                tokens[projection] = error
        return tokens

    def forget(self, uid: str) -> None:
        self._held.pop(uid, None)

    async def _current(self, pod: Pod, projection: ServiceAccountTokenProjection) -> Token:
        held = self._held.setdefault(pod.metadata.uid, {})
        previous, now = held.get(projection), self._clock.now()
        monotonic = self._clock.monotonic()
        if previous is not None and now < previous.refresh_at and monotonic < previous.refresh_by:
            return previous.token
        try:
            token = await self._request(pod, projection)
        except TokenError as error:
            if previous is None or now >= previous.token.expires:
                raise
            _LOG.warning("%s: the token is not refreshed: %s", pod_ref(pod), error)
            return previous.token
        refresh_at = refresh_time(now, token.expires) - JITTER * self._jitter()
        wait = (refresh_at - now).total_seconds()
        held[projection] = _Held(token, refresh_at, monotonic + wait)
        return token

    async def _request(self, pod: Pod, projection: ServiceAccountTokenProjection) -> Token:
        if self._source is None:
            text = "cannot use TokenManager when kubelet is in standalone mode"
            raise TokenError(f"failed to fetch token: {text}")
        request = TokenRequest(
            pod=pod,
            service_account=pod.spec.serviceAccountName or "default",
            audience=projection.audience,
            seconds=projection.expirationSeconds or DEFAULT_SECONDS,
        )
        try:
            return await self._source.token(request)
        except PodtuiError as error:
            raise TokenError(f"failed to fetch token: {error}") from error


def refresh_time(issued: datetime, expires: datetime) -> datetime:
    """Return when a token is replaced."""
    return min(issued + (expires - issued) * 0.8, issued + LONGEST_USE)


def token_projections(pod: Pod) -> Iterator[ServiceAccountTokenProjection]:
    """Yield the token sources of the volumes that containers mount."""
    for volume in used_volumes(pod):
        for source in volume.projected.sources if volume.projected is not None else ():
            if source.serviceAccountToken is not None:
                yield source.serviceAccountToken
