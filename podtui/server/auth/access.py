"""Authenticate and authorize every request, before its handler and before its body is read.

On the unix socket the file's mode replaces credentials: only the owner can connect. Over TCP, and
from the network of a pod, a request needs a bearer token, and its ``Host`` must be a name of this
server: a page of another site whose name resolves to this address (DNS rebinding) is refused.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Final

from aiohttp import web

from podtui.server.auth.attributes import Attributes, authorized_as, parse_attributes
from podtui.server.auth.impersonation import impersonated
from podtui.server.auth.rbac import AUTHORIZER, Policy
from podtui.server.auth.users import ADMIN, ANONYMOUS, User, refused
from podtui.server.status import Handler, StatusError, forbidden
from podtui.server.transport.pod_server import SOURCE_POD
from podtui.server.transport.unix import is_local

log = logging.getLogger(__name__)

Verifier = Callable[[str], Awaitable[User | None]]
"""Returns the user of a service-account token; None if the token is not valid."""
USER: Final = web.RequestKey("user", User)
REQUESTER: Final = web.RequestKey("requester", User)
"""The user whose credentials the request has; it may impersonate another one."""
ATTRIBUTES: Final = web.RequestKey("attributes", Attributes)
_SCHEME: Final = "bearer"
_SESSIONS: Final = frozenset({"attach", "exec", "portforward"})


class Access:
    """The middleware. Without a token, requests over TCP are anonymous.

    ``names`` are the host names and addresses of the server over TCP; with ``any_address`` every
    address is accepted, for a server that listens on all of them. ``cluster_names`` are those by
    which pods reach it, in their own networks.
    """

    def __init__(
        self,
        token: str = "",
        *,
        names: Collection[str] = (),
        any_address: bool = False,
        cluster_names: Collection[str] = (),
        verify: Verifier | None = None,
    ) -> None:
        self._token = token
        self._names = frozenset(names)
        self._any_address = any_address
        self._cluster_names = frozenset(cluster_names)
        self._verify = verify

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Set ``request[USER]``, ``request[REQUESTER]`` and ``request[ATTRIBUTES]``. Raises
        `StatusError` 401 and 403."""
        attributes = parse_attributes(request.method, request.path, request.query)
        if is_local(request):
            user = ADMIN
        else:
            if not self._names_this_server(request):
                raise StatusError(403, "the Host header does not name this server")
            user = await self._authenticate(request)
        request[REQUESTER] = request[USER] = user
        request[ATTRIBUTES] = attributes
        policy = await request.app[AUTHORIZER].policy()
        request[USER] = user = impersonated(user, request.headers, attributes, policy)
        _authorize(user, attributes, policy)
        return await handler(request)

    def _names_this_server(self, request: web.Request) -> bool:
        given = request.headers.getall("Host", [])
        if len(given) != 1:
            return False
        host = host_name(given[0])
        if SOURCE_POD in request:
            return host in self._cluster_names
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


def _authorize(user: User, wanted: Attributes, policy: Policy) -> None:
    """Raises `StatusError` 403."""
    options = authorized_as(wanted)
    decisions = [policy.decide(user, option) for option in options]
    if not any(decision.allowed for decision in decisions):
        raise refused(user, options[0], decisions[0].reason)
    if wanted.resource == "pods" and wanted.subresource in _SESSIONS and wanted.verb == "get":
        # WebSockets are GET requests: who may only read pods must not run commands in them.
        decision = policy.decide(user, replace(wanted, verb="create"))
        if not decision.allowed:
            raise forbidden(wanted.resource, wanted.name, decision.reason)


async def check_creation(request: web.Request) -> None:
    """Check that the user of an update or patch may also create the object. Raises `StatusError`
    403."""
    policy = await request.app[AUTHORIZER].policy()
    wanted = replace(request[ATTRIBUTES], verb="create")
    decision = policy.decide(request[USER], wanted)
    if not decision.allowed:
        raise refused(request[USER], wanted, decision.reason)


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
