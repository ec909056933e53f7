"""The web application with all API routes, independent of the transport."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web
from aiohttp.typedefs import Middleware

from podtui.clock import Clock, SystemClock
from podtui.server.audit import AuditLog
from podtui.server.auth.access import Access
from podtui.server.auth.attributes import parse_attributes
from podtui.server.auth.rbac import AUTHORIZER, Authorizer
from podtui.server.encoding.media_types import compressed_responses, yaml_responses
from podtui.server.kubelet_api.files import FileRoutes
from podtui.server.kubelet_api.kubelet import KubeletRoutes
from podtui.server.kubelet_api.locations import PodLocations
from podtui.server.kubelet_api.logs import LogRoutes
from podtui.server.kubelet_api.pod_proxy import ProxyRoutes
from podtui.server.kubelet_api.port_forward import PortForwardRoutes
from podtui.server.kubelet_api.remote_command import RemoteCommandRoutes
from podtui.server.limits import LARGEST_BODY, Limits, RequestLimits
from podtui.server.protocol import KubeletEndpoints
from podtui.server.resources.definitions import ALL, SERVED_HINT, sources
from podtui.server.resources.deprecation import add_warning, with_warning
from podtui.server.resources.pod_routes import PodRequestRoutes
from podtui.server.resources.quotas import QuotaAdmission
from podtui.server.resources.read_routes import ResourceRoutes
from podtui.server.resources.scale_routes import SCALE, ScaleRoutes
from podtui.server.resources.write_routes import WriteRoutes
from podtui.server.schema import discovery
from podtui.server.schema.openapi_routes import OpenApiRoutes
from podtui.server.status import UNSERVED, errors_as_status
from podtui.server.transport.sockets import Sockets
from podtui.server.transport.streams import STREAMS, Streams
from podtui.store.protocol import Records

BOOKMARK_SECONDS = 45.0


def build_app(
    records: Records,
    kubelet: KubeletEndpoints,
    *,
    version: str,
    clock: Clock | None = None,
    bookmark_seconds: float = BOOKMARK_SECONDS,
    extra_routes: Iterable[web.AbstractRouteDef] = (),
    middlewares: Iterable[Middleware] = (),
    access: Access | None = None,
    limits: Limits | None = None,
    audit: AuditLog | None = None,
) -> web.Application:
    """Build the API over ``records`` and ``kubelet``; ``version`` is podtui's version.

    Without ``access``, only requests on the unix socket are authenticated. ``middlewares`` run
    inside those for access and limits. All streams end when the app shuts down. Run the app with
    ``handler_cancellation``, so that a disconnected client of an idle watch is detected before the
    next bookmark.
    """
    clock = clock or SystemClock()
    limits = limits or Limits()
    streams, sockets = Streams(limits.stalled_seconds), Sockets(clock)
    request_limits = RequestLimits(limits)
    access = access or Access()
    locations = PodLocations(records, kubelet.node_name)
    app = web.Application(
        middlewares=[
            request_limits.send,
            compressed_responses,
            yaml_responses,
            *([] if audit is None else [audit.middleware]),
            errors_as_status,
            access.middleware,
            request_limits.middleware,
            locations.own_node,
            *middlewares,
        ],
        # One more, because aiohttp refuses a body of exactly this size.
        client_max_size=LARGEST_BODY + 1,
    )
    app[STREAMS] = streams
    app[AUTHORIZER] = Authorizer(records)
    if audit is not None:
        app.on_response_prepare.append(audit.on_response)
    app.on_response_prepare.append(add_warning)
    app[UNSERVED] = _unserved

    async def end_streams(app: web.Application) -> None:
        streams.close()
        sockets.close()

    app.on_shutdown.append(end_streams)
    app.add_routes(discovery.routes(version))
    app.add_routes(OpenApiRoutes(version).routes())
    quotas = QuotaAdmission(records, clock)
    for resource, source in sources(records, kubelet):
        reading = ResourceRoutes(
            resource, source, clock=clock, streams=streams, bookmark_seconds=bookmark_seconds
        )
        routes = reading.routes()
        if resource.strategy is not None:
            writing = WriteRoutes(resource, records, kubelet, clock, quotas)
            routes += writing.routes()
            if SCALE in resource.subresources:
                routes += ScaleRoutes(resource, writing, clock).routes()
        app.add_routes(with_warning(route, resource.warning) for route in routes)
    app.add_routes(PodRequestRoutes(records, clock).routes())
    health = KubeletRoutes(kubelet)
    app.add_routes([*health.kubelet_routes(), *health.api_routes()])
    for part in (
        LogRoutes(kubelet, clock=clock, streams=streams),
        RemoteCommandRoutes(kubelet.sessions, sockets),
        PortForwardRoutes(kubelet.sessions, sockets),
    ):
        app.add_routes([*part.kubelet_routes(), *part.api_routes(locations)])
    app.add_routes(ProxyRoutes(kubelet.sessions, sockets, streams, locations).routes())
    app.add_routes(FileRoutes(kubelet.sessions, sockets).routes())
    app.add_routes(extra_routes)
    return app


def _unserved(path: str) -> str:
    """Return how to list what is served, if a path is that of an unknown resource; else nothing."""
    attributes = parse_attributes("GET", path, {})
    group, version = attributes.group, attributes.version
    requested = (f"{group}/{version}" if group else version, attributes.resource)
    served = {(resource.api_version, resource.plural) for resource in ALL}
    if not attributes.resource or requested in served:
        return ""
    return SERVED_HINT
