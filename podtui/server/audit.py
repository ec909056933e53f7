"""The audit log: who changed what, and who opened sessions with pods.

A line of the file is an event of Kubernetes' ``audit.k8s.io/v1`` at level Metadata: the request,
its user and the status of the response, without bodies, headers and messages. Requests without
credentials that are refused are not recorded: anyone could send them until older events are gone.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
from aiohttp import web

from podtui.api.names import GROUP
from podtui.api.times import rfc3339_micros
from podtui.clock import Clock
from podtui.private_files import open_private
from podtui.server.auth.access import ATTRIBUTES, REQUESTER, USER
from podtui.server.auth.attributes import Attributes
from podtui.server.auth.users import ANONYMOUS, User
from podtui.server.status import Handler, JsonResponse
from podtui.server.transport.pod_server import SOURCE_POD, SourcePod
from podtui.server.transport.unix import is_local

log = logging.getLogger(__name__)

MAX_BYTES: Final = 10 * 1024 * 1024
"""The size at which a new file begins."""
MAX_FILES: Final = 5
_READING: Final = frozenset({"get", "list", "watch", "head", "options"})
_SESSIONS: Final = frozenset({"exec", "attach", "portforward", "proxy"})
_SESSION_PATHS: Final = ("/exec/", "/attach/", "/portForward/")
"""The beginnings of the kubelet's own paths for sessions."""
_DECISION: Final = "authorization.k8s.io/decision"
_POD: Final = f"{GROUP}/source-pod"
"""The annotation of a request that came from the network of a pod."""
_EVENT: Final = web.RequestKey("audit event", dict[str, Any])
_SESSION: Final = web.RequestKey("session", web.StreamResponse)


class AuditFile:
    """A file of lines that only its owner may read, and its predecessors ``PATH.1``, ``PATH.2`` …

    All methods block. Raises OSError, also for a link in place of the file.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files

    def append(self, line: bytes) -> None:
        """Append a whole line or nothing."""
        if self._is_full(len(line)):
            self._rotate()
        descriptor = open_private(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.fchmod(descriptor, 0o600)
            size = os.fstat(descriptor).st_size
            if os.write(descriptor, line) < len(line):
                os.ftruncate(descriptor, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)

    def _is_full(self, added: int) -> bool:
        try:
            size = os.lstat(self._path).st_size
        except FileNotFoundError:
            return False
        return size > 0 and size + added > self._max_bytes

    def _rotate(self) -> None:
        files = [self._path, *(Path(f"{self._path}.{n}") for n in range(1, self._max_files))]
        for older, newer in zip(reversed(files[1:]), reversed(files[:-1]), strict=True):
            with suppress(FileNotFoundError):
                os.replace(newer, older)


class AuditLog:
    """Records requests of an application. A file that cannot be written is reported once, and the
    requests are served."""

    def __init__(self, file: AuditFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        # One thread keeps the order, and does not wait for calls of the engine.
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="audit")
        self._failed = False

    def close(self) -> None:
        """Wait until all events are written."""
        self._writer.shutdown()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Runs around those that return errors as a ``Status`` and that authorize."""
        received = rfc3339_micros(self._clock.now())
        request[_EVENT] = {"auditID": str(uuid4()), "requestReceivedTimestamp": received}
        source = request.get(SOURCE_POD, SourcePod())
        if (ip := source.ip or request.remote) and not is_local(request):
            request[_EVENT]["sourceIPs"] = [ip]
        response = None
        try:
            response = await handler(request)
            return response
        finally:
            # The client of a session may leave before its handler returns.
            response = response or request.get(_SESSION)
            await self._record(request, response, "ResponseComplete")

    async def on_response(self, request: web.Request, response: web.StreamResponse) -> None:
        """Record that a session begins."""
        if response.status == 101:
            request[_SESSION] = response
            await self._record(request, response, "ResponseStarted")

    async def _record(
        self, request: web.Request, response: web.StreamResponse | None, stage: str
    ) -> None:
        user, attributes = request.get(USER), request.get(ATTRIBUTES)
        if user is None or attributes is None or not is_audited(attributes):
            return
        if user is ANONYMOUS and (response is None or response.status in (401, 403)):
            return
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            **request[_EVENT],
            **_request_fields(request, attributes),
            **_response_fields(request, response),
            "stage": stage,
            "stageTimestamp": rfc3339_micros(self._clock.now()),
        }
        if response is not None and response.status == 201 and "objectRef" in event:
            event["objectRef"] = {**event["objectRef"], **_created_name(response)}
        line = msgspec.json.encode(event) + b"\n"
        loop = asyncio.get_running_loop()
        # The request of a client that leaves is cancelled; its event must not be.
        await asyncio.shield(loop.run_in_executor(self._writer, self._append, line))

    def _append(self, line: bytes) -> None:
        try:
            self._file.append(line)
        except OSError as error:
            if not self._failed:
                log.error("cannot write the audit log: %s", error)
            self._failed = True
        else:
            self._failed = False


def is_audited(attributes: Attributes) -> bool:
    """Return whether a request writes, or opens a session with a pod."""
    if attributes.verb not in _READING:
        return True
    if not attributes.resource:
        return attributes.path.startswith(_SESSION_PATHS)
    if attributes.group == GROUP:
        return attributes.subresource == "files"
    return attributes.resource == "pods" and attributes.subresource in _SESSIONS


def _request_fields(request: web.Request, attributes: Attributes) -> dict[str, Any]:
    user, requester = request[USER], request.get(REQUESTER)
    fields: dict[str, Any] = {
        "requestURI": request.raw_path,
        "verb": attributes.verb,
        "user": _user_fields(requester or user),
    }
    if requester is not None and requester is not user:
        fields["impersonatedUser"] = _user_fields(user)
    if agent := request.headers.get("User-Agent"):
        fields["userAgent"] = agent
    if attributes.resource:
        names = {
            "resource": attributes.resource,
            "namespace": attributes.namespace,
            "name": attributes.name,
            "apiGroup": attributes.group,
            "apiVersion": attributes.version,
            "subresource": attributes.subresource,
        }
        fields["objectRef"] = {name: value for name, value in names.items() if value}
    return fields


def _user_fields(user: User) -> dict[str, Any]:
    fields: Mapping[str, Any] = {
        "username": user.name,
        "uid": user.uid,
        "groups": user.groups,
        "extra": user.extra,
    }
    return {name: value for name, value in fields.items() if value}


def _response_fields(request: web.Request, response: web.StreamResponse | None) -> dict[str, Any]:
    """A client that left before the response has no status."""
    pod = request.get(SOURCE_POD, SourcePod()).name
    annotations = {_POD: pod} if pod else {}
    if response is None:
        return {"annotations": annotations} if pod else {}
    annotations[_DECISION] = "forbid" if response.status == 403 else "allow"
    return {
        "responseStatus": {"metadata": {}, "code": response.status},
        "annotations": annotations,
    }


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


def _created_name(response: web.StreamResponse) -> dict[str, str]:
    """Return name and UID of a created object, which the request need not have."""
    if not isinstance(response, JsonResponse) or not isinstance(response.body, bytes):
        return {}
    try:
        meta = msgspec.json.decode(response.body, type=_Named).metadata
    except msgspec.ValidationError:
        return {}
    return {name: value for name, value in (("name", meta.name), ("uid", meta.uid)) if value}
