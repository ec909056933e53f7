"""The controller of Ingresses: gives the server its routes and certificates, and writes the address
into the objects. The server listens while there is an Ingress that podtui serves."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from podtui.api.networking import (
    Ingress,
    IngressClass,
    IngressLoadBalancerIngress,
    IngressLoadBalancerStatus,
    IngressPortStatus,
)
from podtui.api.urls import host_port
from podtui.api.v1 import Secret, Service
from podtui.client.cache import Cache, Key, Kind
from podtui.services.backends import Backend, backends_of
from podtui.services.index import ServiceIndex
from podtui.services.ingress_rules import (
    Certificate,
    Target,
    class_of,
    foreign_controller,
    ignored_annotations,
    is_served,
    route_table,
)
from podtui.services.ingress_server import IngressServer, server_context
from podtui.services.protocol import EventSink, EventType
from podtui.services.proxies import listening_socket
from podtui.services.publishing import shown_address
from podtui.services.service_ports import Writer

PORTS: Final = 10
"""The number of ports that are tried."""
RETRY_SECONDS: Final = 5.0
_COMPONENT: Final = "podtui-ingress"
_KEY: Final[Key] = ("", "ingresses")
"""All Ingresses are one table."""


class Ingresses:
    name = _COMPONENT

    def __init__(
        self,
        cache: Cache,
        index: ServiceIndex,
        writer: Writer,
        events: EventSink,
        make_server: Callable[[Callable[[Target], tuple[Backend, ...]]], IngressServer],
        *,
        address: str,
        port: int,
    ) -> None:
        self._cache = cache
        self._index = index
        self._writer = writer
        self._events = events
        self._address = address
        self._first_port = port
        self._server = make_server(self._backends)
        self._task: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None
        self._port = 0
        """The port that the server listens on."""
        self._group: asyncio.TaskGroup | None = None
        self._reported: dict[str, tuple[str, ...]] = {}
        """The events of each Ingress, by UID."""
        self._contexts: dict[tuple[str, str], tuple[str, ssl.SSLContext]] = {}
        """The contexts of Secrets, with their versions."""

    @property
    def kinds(self) -> Mapping[Kind, Callable[[Any], Iterable[Key]]]:
        return {
            Ingress: _table_key,
            IngressClass: _table_key,
            Service: _table_key,
            Secret: self._secret_key,
        }

    async def run(self, follow: Callable[[], Awaitable[object]]) -> None:
        """Run with ``follow``, which calls `sync` after changes, until cancelled."""
        self._task, self._port, self._reported = None, 0, {}
        async with asyncio.TaskGroup() as group:
            self._group = group
            await follow()

    async def sync(self, key: Key) -> float | None:
        classes = {item.metadata.name: item for item in self._cache.list(IngressClass)}
        ingresses = self._cache.list(Ingress)
        served = [item for item in ingresses if is_served(item, classes)]
        table = route_table(served, self._service)
        self._server.table = table
        problems = self._update_certificates(table.certificates)
        problem = await self._listen(needed=bool(served))
        for item in ingresses:
            notes = self._notes(item, classes, problems, problem)
            self._report(item, notes)
            await self._write_status(item, is_served=item in served)
        uids = {item.metadata.uid for item in ingresses}
        self._reported = {uid: notes for uid, notes in self._reported.items() if uid in uids}
        return RETRY_SECONDS if problem else None

    # --- the server

    def _service(self, namespace: str, name: str) -> Service | None:
        return self._index.service((namespace, name))

    def _backends(self, target: Target) -> tuple[Backend, ...]:
        if target.port is None:
            return ()
        return backends_of(target.port, self._index.slices((target.namespace, target.service)))

    async def _listen(self, *, needed: bool) -> str:
        """Start or end the server. Return a problem."""
        assert self._group is not None
        if not needed:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
            if self._listener is not None:
                # A task that is cancelled before it begins closes nothing.
                self._listener.close()
            self._task, self._listener, self._port = None, None, 0
            return ""
        if self._task is not None:
            return ""
        problem = ""
        for port in range(self._first_port, self._first_port + PORTS):
            try:
                listener = listening_socket("TCP", self._address, port)
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                problem = f"cannot listen on {host_port(self._address, port)}: {reason}"
                continue
            self._port, self._listener = port, listener
            self._task = self._group.create_task(self._server.run(listener), name="Ingresses")
            return ""
        return problem

    def _update_certificates(self, certificates: Sequence[Certificate]) -> dict[Key, str]:
        """Return the problems of the Secrets."""
        contexts: dict[tuple[str, str], tuple[str, ssl.SSLContext]] = {}
        problems: dict[Key, str] = {}
        for key in {(item.namespace, item.secret) for item in certificates}:
            secret = self._cache.get(Secret, *key)
            if secret is None:
                problems[key] = f"Secret {key[1]} does not exist"
                continue
            version = secret.metadata.resourceVersion
            cached = self._contexts.get(key)
            if cached is not None and cached[0] == version:
                contexts[key] = cached
                continue
            try:
                contexts[key] = (version, _context_of(secret))
            except ValueError as error:
                problems[key] = f"Secret {key[1]}: {error}"
        self._contexts = contexts
        self._server.certificates.replace({key: item for key, (_, item) in contexts.items()})
        return problems

    # --- the objects

    def _notes(
        self,
        item: Ingress,
        classes: Mapping[str, IngressClass],
        problems: Mapping[Key, str],
        problem: str,
    ) -> list[tuple[EventType, str, str]]:
        """Return the events that an Ingress should have."""
        if controller := foreign_controller(item, classes):
            text = f"the class {class_of(item)} belongs to the controller {controller}"
            return [("Normal", "NotServed", text)]
        notes: list[tuple[EventType, str, str]] = []
        if problem:
            text = f"{problem}; podtui tries again every {RETRY_SECONDS:.0f} s"
            notes.append(("Warning", "PortUnavailable", text))
        name = class_of(item)
        if name and name not in classes:
            text = f"there is no IngressClass {name}; podtui serves the Ingress"
            notes.append(("Normal", "ClassNotFound", text))
        if ignored := ignored_annotations(item):
            text = f"annotations for another controller have no effect: {', '.join(ignored)}"
            notes.append(("Warning", "AnnotationsIgnored", text))
        namespace = item.metadata.namespace
        for secret in dict.fromkeys(entry.secretName for entry in item.spec.tls):
            if (namespace, secret) in problems:
                text = f"{problems[namespace, secret]}; a certificate of podtui is used"
                notes.append(("Warning", "CertificateUnavailable", text))
        return notes

    def _report(self, item: Ingress, notes: Iterable[tuple[EventType, str, str]]) -> None:
        """Record the events that are new."""
        uid = item.metadata.uid
        before = self._reported.get(uid, ())
        texts: list[str] = []
        for event_type, reason, text in notes:
            texts.append(text)
            if text not in before:
                self._events.record(_COMPONENT, item, event_type, reason, text)
        self._reported[uid] = tuple(texts)

    async def _write_status(self, item: Ingress, *, is_served: bool) -> None:
        status = item.status.loadBalancer
        ip = shown_address(self._address)
        if is_served and self._port:
            port = IngressPortStatus(port=self._port, protocol="TCP")
            entry = IngressLoadBalancerIngress(ip=ip, ports=(port,))
            wanted = IngressLoadBalancerStatus(ingress=(entry,))
        elif is_served or any(entry.ip == ip for entry in status.ingress):
            wanted = IngressLoadBalancerStatus()
        else:
            return  # The status of another controller.
        if wanted == status:
            return
        changed = structs.replace(item, status=structs.replace(item.status, loadBalancer=wanted))
        await self._writer.update(Ingress, changed, subresource="status")
        if wanted.ingress:
            text = f"served at {host_port(ip, self._port)}"
            self._events.record(_COMPONENT, item, "Normal", "Sync", text)

    def _secret_key(self, item: Secret) -> Iterable[Key]:
        key = (item.metadata.namespace, item.metadata.name)
        used = {
            (ingress.metadata.namespace, entry.secretName)
            for ingress in self._cache.list(Ingress, key[0])
            for entry in ingress.spec.tls
        }
        return (_KEY,) if key in used else ()


def _table_key(item: object) -> Iterable[Key]:
    return (_KEY,)


def _context_of(secret: Secret) -> ssl.SSLContext:
    """Raises ValueError; the text does not quote the Secret."""
    data: list[bytes] = []
    for name in ("tls.crt", "tls.key"):
        try:
            data.append(base64.b64decode(secret.data.get(name, ""), validate=True))
        except binascii.Error:
            raise ValueError(f"{name} is not base64") from None
        if not data[-1]:
            raise ValueError(f"there is no {name}")
    return server_context(*data)
