"""The application of the kubelet server: the kubelet's own paths, and no objects of the API."""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from podtui.api.pods import container_names
from podtui.clock import Clock
from podtui.errors import SessionError
from podtui.server.encoding.media_types import compressed_responses
from podtui.server.kubelet_api.kubelet import FigureRoutes, KubeletFigures, KubeletRoutes
from podtui.server.kubelet_api.logs import LogRoutes
from podtui.server.kubelet_api.port_forward import PortForwardRoutes
from podtui.server.kubelet_api.remote_command import KUBELET_TARGETS, RemoteCommandRoutes
from podtui.server.kubelet_server.access import KubeletAccess
from podtui.server.limits import LARGEST_BODY, Limits, RequestLimits
from podtui.server.protocol import KubeletEndpoints, SessionEndpoints
from podtui.server.status import StatusError, errors_as_text
from podtui.server.transport.sockets import Sockets
from podtui.server.transport.streams import STREAMS, Streams

_DISABLED: Final = {
    "/logs/{path:.*}": "logs endpoint is disabled.",
    "/debug/pprof/{path:.*}": "profiling endpoint is disabled.",
    "/debug/flags/v": "flags endpoint is disabled.",
}
LIMITS: Final = Limits(most_long_each=Limits().most_long, reserved=0)
"""All sessions of a cluster's users come from one client, the API server."""
_NO_CHECKPOINTS: Final = (
    "rpc error: code = Unimplemented desc = method CheckpointContainer not implemented"
)
"""The error of a CRI runtime without checkpoints."""


def build_kubelet_app(
    kubelet: KubeletEndpoints,
    figures: KubeletFigures,
    access: KubeletAccess,
    *,
    config: bytes,
    clock: Clock,
    limits: Limits = LIMITS,
) -> web.Application:
    """Build the application. ``config`` is the body of ``/configz``. All streams end when the
    application shuts down.

    A kubelet answers 404 to unknown paths before it asks for credentials; here, all paths need
    them.
    """
    streams, sockets = Streams(limits.stalled_seconds), Sockets(clock)
    request_limits = RequestLimits(limits)
    app = web.Application(
        middlewares=[
            request_limits.send,
            compressed_responses,
            errors_as_text,
            access.middleware,
            request_limits.middleware,
        ],
        # One more, because aiohttp refuses a body of exactly this size.
        client_max_size=LARGEST_BODY + 1,
    )
    app[STREAMS] = streams

    async def end_streams(app: web.Application) -> None:
        streams.close()
        sockets.close()

    app.on_shutdown.append(end_streams)
    commands = RemoteCommandRoutes(kubelet.sessions, sockets)
    for part in (
        KubeletRoutes(kubelet),
        FigureRoutes(figures, config),
        LogRoutes(kubelet, clock=clock, streams=streams),
        commands,
        PortForwardRoutes(kubelet.sessions, sockets),
    ):
        app.add_routes(part.kubelet_routes())
    app.add_routes([web.post(f"/run/{target}", commands.run) for target in KUBELET_TARGETS])
    checkpoint = partial(_checkpoint, kubelet.sessions)
    app.add_routes([web.post("/checkpoint/{namespace}/{pod}/{container}", checkpoint)])
    app.add_routes(
        web.route("*", path, partial(_disabled, text)) for path, text in _DISABLED.items()
    )
    return app


async def _checkpoint(sessions: SessionEndpoints, request: web.Request) -> web.Response:
    namespace, name, container = (
        request.match_info[part] for part in ("namespace", "pod", "container")
    )
    try:
        pod = sessions.find(namespace, name)
    except SessionError as error:
        raise StatusError(error.code, "pod does not exist") from error
    if container not in container_names(pod):
        raise StatusError(404, f"container {container} does not exist")
    raise StatusError(
        500, f"checkpointing of {namespace}/{name}/{container} failed ({_NO_CHECKPOINTS})"
    )


async def _disabled(text: str, request: web.Request) -> web.Response:
    raise StatusError(405, f"{text}\n")
