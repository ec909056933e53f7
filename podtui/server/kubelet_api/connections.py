"""Names and connections as programs in a pod see them."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, Protocol

import msgspec
from aiohttp import web

from podtui.api.insight import ConnectionCheck
from podtui.api.names import GROUP_VERSION
from podtui.errors import EngineConflict, EngineError, EngineUnavailable
from podtui.server.status import StatusError, json_response

_MAX_HOST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE | re.ASCII)


class ConnectionChecks(Protocol):
    async def check(self, namespace: str, name: str, host: str, port: int) -> ConnectionCheck:
        """Look up a host from inside a pod, and connect to the port unless it is 0. Takes a few
        seconds at most. Raises `LookupError`, with a text for the user, if there is no such pod,
        `EngineConflict` if it has no network now, and `EngineError` if it cannot be entered."""
        ...


class ConnectionRoutes:
    """``POST …/pods/NAME/connections?host=db&port=5432``. Without a port, the host is only looked
    up."""

    def __init__(self, checks: ConnectionChecks) -> None:
        self._checks = checks

    def routes(self) -> list[web.RouteDef]:
        path = f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/pods/{{pod}}/connections"
        return [web.post(path, self.check)]

    async def check(self, request: web.Request) -> web.Response:
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        host, port = request.query.get("host", ""), request.query.get("port", "0")
        if not is_host(host):
            raise StatusError(400, f"invalid host {host[:_MAX_HOST]!r}")
        if not (port.isascii() and port.isdecimal() and len(port) < 6 and int(port) < 65536):
            raise StatusError(400, f"invalid port {port[:20]!r}")
        try:
            answer = await self._checks.check(namespace, pod, host, int(port))
        except LookupError as error:
            raise StatusError(404, str(error.args[0])) from error
        except EngineUnavailable:
            raise
        except EngineError as error:
            code = 409 if isinstance(error, EngineConflict) else 500
            raise StatusError(code, str(error)) from error
        return json_response(msgspec.json.encode(answer))


def is_host(text: str) -> bool:
    """Return whether a text is an IP address or the name of a host."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        name = text.removesuffix(".")
        return len(name) <= _MAX_HOST and all(map(_LABEL.fullmatch, name.split(".")))
    return "%" not in text
