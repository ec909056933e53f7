"""Container logs over HTTP: the pod's ``log`` subresource and the kubelet's own path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from aiohttp import web

from podtui.api.names import LOG_GAP, LOG_GAPS
from podtui.api.times import parse_time
from podtui.clock import Clock
from podtui.manifest.validation.errors import Errors, forbidden, invalid
from podtui.runtime.protocol import LogLines, LogOptions
from podtui.server.kubelet_api.kubelet import NODE_PROXY
from podtui.server.kubelet_api.locations import PodLocations, check_container
from podtui.server.protocol import KubeletEndpoints, LogError
from podtui.server.resources.query import flag, integer
from podtui.server.status import StatusError, bad_request, invalid_fields
from podtui.server.transport.socket_streams import accept_log
from podtui.server.transport.streams import Outflow, Streams, closed_after
from podtui.server.transport.websocket_headers import is_websocket

_PATH: Final = "/containerLogs/{namespace}/{pod}/{container}"
_POSITIVE: Final = "must be greater than 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """``limit`` is the maximum number of bytes in the response, None for no limit."""

    namespace: str
    pod: str
    container: str
    previous: bool
    timestamps: bool
    limit: int | None
    options: LogOptions


class LogRoutes:
    def __init__(self, kubelet: KubeletEndpoints, *, clock: Clock, streams: Streams) -> None:
        self._kubelet = kubelet
        self._clock = clock
        self._streams = streams

    def kubelet_routes(self) -> list[web.RouteDef]:
        return [web.get(_PATH, self.of_kubelet)]

    def api_routes(self, locations: PodLocations) -> list[web.RouteDef]:
        of_api = partial(self.of_api, locations)
        return [
            web.get("/api/v1/namespaces/{namespace}/pods/{pod}/log", of_api),
            web.get(f"{NODE_PROXY}{_PATH}", self.of_kubelet),
        ]

    async def of_api(self, locations: PodLocations, request: web.Request) -> web.StreamResponse:
        pod = await locations.pod(request)
        check_container(pod, request.query.get("container", ""))
        if not pod.spec.nodeName:
            # An unscheduled pod has no log yet.
            return web.Response(status=204)
        locations.check_node(pod)
        return await self._answer(request, websocket=is_websocket(request.headers))

    async def of_kubelet(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request)

    async def _answer(self, request: web.Request, *, websocket: bool = False) -> web.StreamResponse:
        requested = parse_log_request(request, self._clock)
        try:
            batches = await self._kubelet.container_logs(
                requested.namespace,
                requested.pod,
                requested.container,
                previous=requested.previous,
                options=requested.options,
            )
        except LogError as error:
            raise StatusError(error.code, str(error)) from error

        async def produce(outflow: Outflow) -> None:
            try:
                async with closed_after(batches):
                    await copy(
                        batches,
                        outflow,
                        timestamps=requested.timestamps,
                        limit=requested.limit,
                        gaps=requested.options.gaps,
                    )
            except LogError as error:
                # The status 200 is sent: only a broken connection still tells of the error.
                raise ConnectionAbortedError(str(error)) from error

        if websocket:
            response = await accept_log(request)
        else:
            response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        return await self._streams.run(request, response, produce)


def parse_log_request(request: web.Request, clock: Clock) -> LogRequest:
    """Parse the parameters of a log request. Raises `StatusError` 400 or 422."""
    match, query = request.match_info, request.query
    pod = match["pod"]

    tail = integer(request, "tailLines")
    if tail is None and query.get("tail", "all") != "all":
        tail = integer(request, "tail")
    limit, seconds = integer(request, "limitBytes"), integer(request, "sinceSeconds")
    moment = query.get("sinceTime", "")
    since = parse_time(moment)
    if moment and since is None:
        layout = "2006-01-02T15:04:05Z07:00"
        problem = f'cannot parse "{moment}" as "2006"'
        raise bad_request(f'parsing time "{moment}" as "{layout}": {problem}')
    errors = list(_option_errors(tail, limit, seconds, since))
    if "stream" in query:
        # The feature gate PodLogsQuerySplitStreams is off.
        errors.append(forbidden("stream", "may not be specified"))
    if errors:
        raise invalid_fields("PodLogOptions", pod, errors)
    if seconds is not None:
        since = _ago(clock, seconds)
    timestamps = flag(request, "timestamps")
    gaps = timestamps and flag(request, LOG_GAPS)
    return LogRequest(
        namespace=match["namespace"],
        pod=pod,
        container=match.get("container") or query.get("container", ""),
        previous=flag(request, "previous"),
        timestamps=timestamps,
        limit=limit,
        options=LogOptions(follow=flag(request, "follow"), tail=tail, since=since, gaps=gaps),
    )


def _option_errors(
    tail: int | None, limit: int | None, seconds: int | None, since: datetime | None
) -> Errors:
    if tail is not None and tail < 0:
        yield invalid("tailLines", tail, "must be greater than or equal to 0")
    if limit is not None and limit < 1:
        yield invalid("limitBytes", limit, _POSITIVE)
    if seconds is not None and since is not None:
        # The API server names this field by an empty path, which it prints like this.
        yield forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")
    elif seconds is not None and seconds < 1:
        yield invalid("sinceSeconds", seconds, _POSITIVE)


def _ago(clock: Clock, seconds: int) -> datetime | None:
    """Return None if the time is before the earliest date, which means the whole log."""
    try:
        return clock.now() - timedelta(seconds=seconds)
    except OverflowError:
        return None


async def copy(
    batches: AsyncIterator[LogLines],
    outflow: Outflow,
    *,
    timestamps: bool,
    limit: int | None,
    gaps: bool,
) -> None:
    """Write log lines to the client as they arrive. The parts of a line split by the engine are
    joined: a part ends without a line feed, and only the first part has the time stamp. Gaps are
    written as separate lines if requested."""
    whole = True
    async for lines in batches:
        data = bytearray()
        for line in lines:
            if gaps and line.gap:
                data += (b"" if whole else b"\n") + f"{LOG_GAP}{line.gap}\n".encode()
                whole = True
            if timestamps and whole:
                data += line.timestamp.encode() + b" "
            data += line.content if line.partial else line.content + b"\n"
            whole = not line.partial
        if limit is not None:
            data = data[:limit]
            limit -= len(data)
        room = outflow.add(bytes(data))
        if limit == 0:
            break
        if not room:
            await outflow.room()
    outflow.end()
