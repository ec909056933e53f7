"""Authenticate and authorize requests to the kubelet server, as a kubelet does.

Users have a certificate of the client authority, or a token that the cluster's API server knows.
What they may do is asked of that API server, too. Both answers are remembered for some time.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import ssl
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Protocol, TypeVar

from aiohttp import web

from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.server.auth.access import ATTRIBUTES, USER
from podtui.server.auth.attributes import Attributes, kubelet_attributes
from podtui.server.auth.users import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from podtui.server.status import Handler, StatusError

log = logging.getLogger(__name__)

MOST_CACHED: Final = 4096
"""The largest number of users, and of decisions, that are remembered."""
CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
"""The extra value of a user that names the certificate."""
_UID: Final = "1.3.6.1.4.1.57683.2"
"""Kubernetes' object identifier of a user's UID in the subject of a certificate."""
_BEARER: Final = "bearer"
T = TypeVar("T")


class Reviewer(Protocol):
    """The reviews of an API server. Both raise `PodtuiError` if it does not answer."""

    async def token(self, text: str) -> User | None:
        """Return the user of a token; None if the token is not valid."""
        ...

    async def allows(self, user: User, wanted: Attributes) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """The rules of ``authentication`` and ``authorization`` of a ``KubeletConfiguration``.

    Without ``webhook``, tokens are not accepted; with ``always_allow``, each authenticated user may
    do everything. The seconds are how long answers are remembered.
    """

    anonymous: bool = False
    webhook: bool = True
    token_seconds: float = 120.0
    always_allow: bool = False
    allowed_seconds: float = 300.0
    refused_seconds: float = 30.0


class KubeletAccess:
    """The middleware. ``node`` is the name of the kubelet's node."""

    def __init__(
        self, reviewer: Reviewer, node: str, clock: Clock, rules: AccessRules | None = None
    ) -> None:
        self._reviewer = reviewer
        self._node = node
        self._clock = clock
        self._rules = rules or AccessRules()
        self._users: _Cache[User] = _Cache(clock)
        self._decisions: _Cache[bool] = _Cache(clock)
        self._key = secrets.token_bytes(32)
        self._reported: dict[str, str] = {}
        """The last problem of each kind of review, by its name."""

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Set ``request[USER]`` and ``request[ATTRIBUTES]``. Raises `StatusError` 401, 403 and
        500."""
        user = await self._authenticated(request)
        if user is None:
            raise StatusError(401, "Unauthorized")
        options = kubelet_attributes(request.method, request.path, self._node)
        request[USER] = user
        request[ATTRIBUTES] = options[0]
        if not self._rules.always_allow:
            await self._authorize(user, options)
        return await handler(request)

    async def _authenticated(self, request: web.Request) -> User | None:
        user = self._user_of_certificate(request)
        if user is None and self._rules.webhook and (token := _bearer_token(request)):
            user = await self._user_of_token(token)
            if user is None:
                return None
        if user is None:
            return ANONYMOUS if self._rules.anonymous else None
        if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
            return user
        return replace(user, groups=(*user.groups, AUTHENTICATED))

    def _user_of_certificate(self, request: web.Request) -> User | None:
        """Return None without a certificate, and for one that has expired since the handshake,
        which verified it."""
        tls: ssl.SSLObject | None = request.get_extra_info("ssl_object")
        encoded = None if tls is None else tls.getpeercert(binary_form=True)
        if tls is None or encoded is None:
            return None
        certificate: dict[str, Any] = tls.getpeercert() or {}
        user = certificate_user(certificate, encoded)
        begin, end = (
            ssl.cert_time_to_seconds(certificate[name]) for name in ("notBefore", "notAfter")
        )
        return user if begin <= self._clock.now().timestamp() <= end else None

    async def _user_of_token(self, token: str) -> User | None:
        # The key keeps tokens out of memory, and hash collisions out of reach.
        digest = hashlib.blake2b(token.encode(), key=self._key).digest()
        user = self._users.get(digest)
        if user is None:
            try:
                user = await self._reviewer.token(token)
            except PodtuiError as error:
                self._report("a token", error)
            if user is not None:
                self._users.put(digest, user, self._rules.token_seconds)
        return user

    async def _authorize(self, user: User, options: tuple[Attributes, ...]) -> None:
        for wanted in options:
            if await self._is_allowed(user, wanted):
                return
        wanted = options[0]
        subresources = " ".join(option.subresource for option in options)
        raise StatusError(
            403,
            f"Forbidden (user={user.name}, verb={wanted.verb}, resource={wanted.resource},"
            f" subresource(s)=[{subresources}])\n",
        )

    async def _is_allowed(self, user: User, wanted: Attributes) -> bool:
        key = (user.name, user.uid, user.groups, tuple(sorted(user.extra.items())), wanted)
        allowed = self._decisions.get(key)
        if allowed is None:
            try:
                allowed = await self._reviewer.allows(user, wanted)
            except PodtuiError as error:
                self._report("the access of a user", error)
                raise StatusError(
                    500,
                    f"Authorization error (user={user.name}, verb={wanted.verb},"
                    f" resource={wanted.resource}, subresource={wanted.subresource})",
                ) from error
            seconds = self._rules.allowed_seconds if allowed else self._rules.refused_seconds
            self._decisions.put(key, allowed, seconds)
            self._reported.clear()
        return allowed

    def _report(self, what: str, error: PodtuiError) -> None:
        """Log a problem once: clients repeat their requests."""
        if self._reported.get(what) != str(error):
            log.warning("cannot review %s: %s", what, error)
        self._reported[what] = str(error)


class _Cache(Generic[T]):
    """Values with an end of their validity. If there are too many, the oldest are dropped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: dict[Hashable, tuple[T, float]] = {}

    def get(self, key: Hashable) -> T | None:
        value, end = self._values.get(key, (None, 0.0))
        return value if self._clock.monotonic() < end else None

    def put(self, key: Hashable, value: T, seconds: float) -> None:
        self._values.pop(key, None)
        if len(self._values) >= MOST_CACHED:
            del self._values[next(iter(self._values))]
        self._values[key] = (value, self._clock.monotonic() + seconds)


def certificate_user(certificate: dict[str, Any], encoded: bytes) -> User | None:
    """Return the user that a certificate names: the common name, and the organizations as groups.
    ``certificate`` is in the form of `ssl.SSLSocket.getpeercert`. None without a name, or with a
    UID that is not valid."""
    subject = [attribute for part in certificate.get("subject", ()) for attribute in part]
    names = [value for name, value in subject if name == "commonName"]
    groups = tuple(value for name, value in subject if name == "organizationName")
    uids = [value for name, value in subject if name == _UID]
    if not names or not names[-1] or len(uids) > 1 or "" in uids:
        return None
    digest = hashlib.sha256(encoded).hexdigest()
    return User(names[-1], groups, "".join(uids), {CREDENTIAL: (f"X509SHA256={digest}",)})


def _bearer_token(request: web.Request) -> str:
    """Return the token of a request; empty if it has none."""
    parts = request.headers.get("Authorization", "").strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == _BEARER else ""
