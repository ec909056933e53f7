"""Authenticate and authorize every request, before its handler and before its body is read.

On the unix socket the file's mode replaces credentials: only the owner can connect. Over TCP a
request needs a bearer token, and its ``Host`` must be a name of this server: a page of another site
whose name resolves to this address (DNS rebinding) is refused.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from aiohttp import web
from multidict import MultiMapping

from podtui.api.v1 import StatusDetails
from podtui.server.auth.attributes import Attributes, parse_attributes
from podtui.server.auth.users import (
    ADMIN,
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    User,
    may,
    refusal,
    service_account,
    service_account_of,
)
from podtui.server.status import Handler, StatusError
from podtui.server.transport.unix import is_local

log = logging.getLogger(__name__)

Verifier = Callable[[str], Awaitable[User | None]]
"""Returns the user of a service-account token; None if the token is not valid."""
USER: Final = web.RequestKey("user", User)
REQUESTER: Final = web.RequestKey("requester", User)
"""The user whose credentials the request has; it may impersonate another one."""
ATTRIBUTES: Final = web.RequestKey("attributes", Attributes)
_SCHEME: Final = "bearer"
_EXTRA: Final = "impersonate-extra-"


class Access:
    """The middleware. Without a token, requests over TCP are anonymous.

    ``names`` are the host names and addresses of the server over TCP; with ``any_address`` every
    address is accepted, for a server that listens on all of them.
    """

    def __init__(
        self,
        token: str = "",
        *,
        names: Collection[str] = (),
        any_address: bool = False,
        verify: Verifier | None = None,
    ) -> None:
        self._token = token
        self._names = frozenset(names)
        self._any_address = any_address
        self._verify = verify

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Set ``request[USER]``, ``request[REQUESTER]`` and ``request[ATTRIBUTES]``. Raises
        `StatusError` 401 and 403."""
        attributes = parse_attributes(request.method, request.path, request.query)
        if is_local(request):
            user = ADMIN
        else:
            host = request.headers.getall("Host", [])
            if len(host) != 1 or not self._is_known_host(host_name(host[0])):
                raise StatusError(403, "the Host header does not name this server")
            user = await self._authenticate(request)
        request[REQUESTER] = request[USER] = user
        request[ATTRIBUTES] = attributes
        request[USER] = user = impersonated(user, request.headers)
        if not may(user, attributes):
            raise self._refused(user, attributes)
        return await handler(request)

    def _is_known_host(self, host: str) -> bool:
        return host in self._names or (self._any_address and _is_address(host))

    async def _authenticate(self, request: web.Request) -> User:
        given = request.headers.getall("Authorization", [])
        if not given:
            return ANONYMOUS
        scheme, _, token = given[0].partition(" ")
        if len(given) == 1 and scheme.lower() == _SCHEME:
            token = token.strip()
            if self._token and hmac.compare_digest(token.encode(), self._token.encode()):
                return ADMIN
            user = await self._verify(token) if self._verify is not None else None
            if user is not None:
                return user
        log.debug("%s %s: the credentials are not valid", request.method, request.path)
        raise StatusError(401, "Unauthorized")

    def _refused(self, user: User, attributes: Attributes) -> StatusError:
        if user is ANONYMOUS:
            return StatusError(401, "Unauthorized")
        details = StatusDetails(
            name=attributes.name, group=attributes.group, kind=attributes.resource
        )
        return StatusError(403, refusal(user, attributes), details=details)


def impersonated(user: User, headers: MultiMapping[str]) -> User:
    """Return the user that the ``Impersonate-…`` headers name (``kubectl --as``), else ``user``.

    Raises `StatusError` 403 for a user that may not impersonate, and 400 for groups, a UID or extra
    values without a user.
    """
    name = headers.get("Impersonate-User", "")
    groups = tuple(headers.getall("Impersonate-Group", []))
    uid = headers.get("Impersonate-Uid", "")
    extra = {
        key[len(_EXTRA) :].lower(): tuple(headers.getall(key))
        for key in headers
        if key.lower().startswith(_EXTRA)
    }
    if not name:
        if groups or uid or extra:
            raise StatusError(400, "requested groups, uid or extra without impersonating a user")
        return user
    if MASTERS not in user.groups:
        raise StatusError(
            403,
            f'users "{name}" is forbidden: User "{user.name}" cannot impersonate resource "users"'
            ' in API group "" at the cluster scope',
        )
    if not groups and (account := service_account_of(name)) is not None:
        groups = service_account(*account, uid, extra).groups
    if name != ANONYMOUS.name and AUTHENTICATED not in groups:
        groups += (AUTHENTICATED,)
    return User(name, groups, uid, extra)


def host_name(host: str) -> str:
    """Return the name or address in a ``Host`` header, without the port; empty if it has none."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        return name.lower() if bracket and (not port or port.startswith(":")) else ""
    return host.partition(":")[0].lower()


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
