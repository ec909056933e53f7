"""An agent whose node belongs to a cluster: its kubelet's API is that of a real API server."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from aiohttp import web
from aiohttp.typedefs import Middleware

from podtui.agent.cluster_ports import ClusterApi, cluster_ports
from podtui.agent.kubelet_server import NodeKubelet, kubelet_server
from podtui.agent.node_certificates import NodeCertificates
from podtui.agent.request_limits import RequestLimits
from podtui.agent.signed_certificate import CHECK_SECONDS
from podtui.api.names import GROUP
from podtui.api.v1 import Node, NodeAddress
from podtui.client.cluster import ClusterClient
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubeconfig import Target
from podtui.manifest.folder import ManifestFolder
from podtui.server.auth.access import ATTRIBUTES
from podtui.server.auth.attributes import Attributes
from podtui.server.status import Handler, StatusError
from podtui.server.transport.pod_server import PodServers
from podtui.settings import Settings
from podtui.store import Store

Jobs = Mapping[str, Callable[[], Awaitable[object]]]
_LOG = logging.getLogger(__name__)
KUBELET: Final = "kubelet"
"""The User-Agent of a kubelet: the API server records it as the manager of the fields."""
REFUSED_SECONDS: Final = 5.0
"""An API server that has just started refuses nodes until it knows their rights and pods."""
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_SESSIONS: Final = frozenset({"attach", "exec", "portforward", "proxy"})
_READS: Final = frozenset({"get", "list", "watch"})
_COPIED: Final = frozenset({"pods", "nodes", "events"})
"""The resources of which the agent has a copy."""
_OWN_GROUPS: Final = frozenset({GROUP, "metrics.k8s.io"})
_REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


class ClusterMember:
    """``ports`` and ``folders`` are for the kubelet."""

    def __init__(
        self,
        settings: Settings,
        certificates: NodeCertificates,
        api: ClusterApi,
        client: ClusterClient,
        folder: ManifestFolder,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._certificates = certificates
        self._client = client
        self._clock = clock
        self._state = api.state
        member = cluster_ports(api)
        self.ports = member.ports
        self.folders = folder
        self.middlewares: tuple[Middleware, ...] = (self._refuse,)
        self._jobs = member.jobs
        self.endpoint_port = settings.kubeletPort

    @classmethod
    async def open(
        cls,
        settings: Settings,
        kubeconfig: Path,
        store: Store,
        clock: Clock,
        folder: ManifestFolder,
    ) -> ClusterMember:
        """Raises `PodtuiError` if the node has no credentials."""

        def addresses() -> Sequence[NodeAddress]:
            node = api.cache.get(Node, "", settings.nodeName)
            return () if node is None else node.status.addresses

        certificates = await NodeCertificates.open(settings, kubeconfig, addresses, clock)
        target = certificates.target
        client = node_client(target, settings, clock)
        api = ClusterApi(
            client,
            store,
            clock,
            settings.nodeName,
            certificates.authenticated,
            registers=settings.registerNode,
        )
        await api.restore()
        _LOG.info("node %s of the cluster at %s", settings.nodeName, client.target)
        return cls(settings, certificates, api, client, folder, clock)

    async def close(self) -> None:
        await self._client.close()

    async def prepare(self) -> None:
        """Make sure that the kubelet server has a certificate. Raises `PodtuiError`."""
        await self._certificates.prepare()

    async def publish_authority(self) -> None:
        """Nothing: the pods' certificate authority is the cluster's."""

    def jobs(self, servers: PodServers | None, kubelet: NodeKubelet, config: bytes) -> Jobs:
        """Return the long-running calls, by name. Pods reach the cluster's API, not this one."""
        server = kubelet_server(
            self._settings,
            kubelet,
            self._client,
            lambda: self._certificates.serving.path,
            config=config,
            clock=self._clock,
        )
        return {
            **self._jobs,
            **self._certificates.jobs(),
            "state of the client certificate": self._report_certificate,
            "kubelet server": server.run,
        }

    async def _report_certificate(self) -> NoReturn:
        """Report the state of the client certificate. Runs forever."""
        while True:
            presented = b""
            # An error of the credentials is that of each request, too.
            with suppress(PodtuiError):
                presented = (await self._client.credentials.identity()).certificate
            condition = self._certificates.condition(presented)
            if condition is not None:
                self._state.report(condition)
            await self._clock.sleep(CHECK_SECONDS)

    @web.middleware
    async def _refuse(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Raises `StatusError`: 405 for a change of an object, of which there is only a copy here,
        and 404 for objects of which there is none."""
        cluster = f"this node belongs to the cluster at {self._client.target}"
        attributes = request[ATTRIBUTES]
        if is_write(attributes):
            raise StatusError(405, f"{cluster}: its objects are copies here; change them there")
        if is_read_elsewhere(attributes):
            raise StatusError(404, f"{cluster}: its {attributes.resource} are there, not here")
        return await handler(request)


def node_client(target: Target, settings: Settings, clock: Clock) -> ClusterClient:
    """Return a client with the limits of a kubelet."""
    limits = RequestLimits(settings, clock)
    client = ClusterClient(target, namespace="", agent=KUBELET, clock=clock, limit=limits.wait)
    client.refused_delay = REFUSED_SECONDS
    return client


def is_write(wanted: Attributes) -> bool:
    """Return whether a request changes an API object; podtui's own requests change none."""
    return (
        bool(wanted.resource)
        and wanted.verb in _WRITES
        and wanted.subresource not in _SESSIONS
        and wanted.group not in (GROUP, *_REVIEWS)
    )


def is_read_elsewhere(wanted: Attributes) -> bool:
    """Return whether a request reads objects of the cluster that are not copied here: an empty
    list would say that the cluster has none."""
    return (
        bool(wanted.resource)
        and wanted.verb in _READS
        and wanted.group not in _OWN_GROUPS
        and wanted.resource not in _COPIED
    )
