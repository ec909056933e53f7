"""Reviews of users by the API server of the cluster, for the kubelet server."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from podtui.client.connection import HttpConnection
from podtui.clock import Clock
from podtui.errors import ApiError, PodtuiError
from podtui.server.auth.attributes import Attributes
from podtui.server.auth.reviews import (
    AUTHENTICATION,
    AUTHORIZATION,
    AccessSpec,
    ResourceAttributes,
    TokenReviewSpec,
)
from podtui.server.auth.users import User

_TRIES: Final = 5
_FIRST_WAIT: Final = 0.5
_FACTOR: Final = 1.5
_PASSING: Final = (429, 500, 504)
"""The status codes after which a review is tried again, as in a kubelet."""
T = TypeVar("T", bound=Struct)


class _UserInfo(Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: _UserInfo = _UserInfo()


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class ApiReviewer:
    """Implements `podtui.server.kubelet_server.access.Reviewer` by the API of a connection."""

    def __init__(self, connection: HttpConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def token(self, text: str) -> User | None:
        spec = TokenReviewSpec(token=text)
        answer = await self._review(AUTHENTICATION, "TokenReview", spec, _TokenReview)
        user = answer.status.user
        if not answer.status.authenticated or not user.username:
            return None
        return User(user.username, user.groups, user.uid, user.extra)

    async def allows(self, user: User, wanted: Attributes) -> bool:
        spec = AccessSpec(
            user=user.name,
            uid=user.uid,
            groups=user.groups,
            extra=dict(user.extra),
            resourceAttributes=ResourceAttributes(
                verb=wanted.verb,
                version=wanted.version,
                resource=wanted.resource,
                subresource=wanted.subresource,
                name=wanted.name,
            ),
        )
        answer = await self._review(AUTHORIZATION, "SubjectAccessReview", spec, _AccessReview)
        return answer.status.allowed and not answer.status.denied

    async def _review(self, api_version: str, kind: str, spec: Struct, answer: type[T]) -> T:
        """Raises `PodtuiError`."""
        body = msgspec.json.encode({"apiVersion": api_version, "kind": kind, "spec": spec})
        data = await self._post(f"/apis/{api_version}/{kind.lower()}s", body)
        try:
            return msgspec.json.decode(data, type=answer)
        except msgspec.DecodeError as error:
            raise PodtuiError(f"the answer is not a {kind}: {error}") from error

    async def _post(self, path: str, body: bytes) -> bytes:
        wait = _FIRST_WAIT
        for _ in range(_TRIES - 1):
            try:
                return await self._connection.post(path, body=body, content_type="application/json")
            except ApiError as error:
                if error.code not in _PASSING:
                    raise
            await self._clock.sleep(wait)
            wait *= _FACTOR
        return await self._connection.post(path, body=body, content_type="application/json")
