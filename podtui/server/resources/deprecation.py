"""The warning in every response about a deprecated resource, also in errors and watches."""

from __future__ import annotations

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from podtui.manifest.validation.errors import printed

_TEXT: Final = web.RequestKey("deprecation", str)


def with_warning(route: web.RouteDef, text: str) -> web.RouteDef:
    """Return the route with a warning in its responses; as it is if the text is empty."""
    if not text:
        return route
    handle: Handler = route.handler

    async def handler(request: web.Request) -> web.StreamResponse:
        request[_TEXT] = text
        return await handle(request)

    return web.RouteDef(route.method, route.path, handler, route.kwargs)


async def add_warning(request: web.Request, response: web.StreamResponse) -> None:
    """Add the warning of the route to a response that is about to be sent."""
    text = request.get(_TEXT)
    if text is not None:
        response.headers.add("Warning", f"299 - {printed(text)}")
