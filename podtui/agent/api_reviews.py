"""Reviews of users by the API server of the cluster, for the kubelet server."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from podtui.api.lenient import lenient_convert
from podtui.client.any_kind import ServedKind
from podtui.client.api_client import ApiClient
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

_TOKENS: Final = ServedKind(
    api_version=AUTHENTICATION, kind="TokenReview", plural="tokenreviews", namespaced=False
)
_ACCESS: Final = ServedKind(
    api_version=AUTHORIZATION,
    kind="SubjectAccessReview",
    plural="subjectaccessreviews",
    namespaced=False,
)
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
    """Implements `podtui.server.kubelet_server.access.Reviewer` by the API of a client."""

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def token(self, text: str) -> User | None:
        answer = await self._review(_TOKENS, TokenReviewSpec(token=text), _TokenReview)
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
        answer = await self._review(_ACCESS, spec, _AccessReview)
        return answer.status.allowed and not answer.status.denied

    async def _review(self, kind: ServedKind, spec: Struct, answer: type[T]) -> T:
        """Raises `PodtuiError`."""
        content = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        wait = _FIRST_WAIT
        for attempt in range(1, _TRIES + 1):
            try:
                review = await self._client.create_object(kind, "", content)
                return lenient_convert(review.content, answer)
            except ApiError as error:
                if error.code not in _PASSING or attempt == _TRIES:
                    raise
            except msgspec.ValidationError as error:
                raise PodtuiError(f"the answer is not a {kind.kind}: {error}") from error
            await self._clock.sleep(wait)
            wait *= _FACTOR
        raise AssertionError("the last try returns or raises")
