"""An agent that is its own cluster: its records take the place of an API server, and it runs the
scheduler and the controllers of a control plane."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial

from aiohttp.typedefs import Middleware

from podtui.agent.folder_objects import FolderObjects
from podtui.agent.home import HomeObjects, HomeTokens, home_ports
from podtui.agent.kubelet_server import NodeKubelet
from podtui.agent.node_lifecycle import NodeLifecycle
from podtui.agent.pod_collector import PodCollector
from podtui.agent.pod_networks import EngineNetworks
from podtui.agent.services import service_parts
from podtui.api.names import FOLDER_MANAGER
from podtui.client.protocol import Follower
from podtui.client.unix import UnixClient
from podtui.clock import Clock
from podtui.controllers.manager import AGENT, controller_jobs
from podtui.controllers.volumes import VolumeDirectories
from podtui.manifest.folder import ManifestFolder
from podtui.pki.access_point import AccessPoint
from podtui.pki.pki import Pki
from podtui.runtime.protocol import Runtime
from podtui.scheduler.api import SchedulerClient
from podtui.scheduler.scheduler import Scheduler
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.server.resources.address_care import AddressCare
from podtui.server.resources.cluster_role_aggregation import ClusterRoleAggregation
from podtui.server.resources.cluster_services import publish_dns_service
from podtui.server.resources.default_roles import DefaultRoles
from podtui.server.resources.garbage_collector import GarbageCollector
from podtui.server.resources.ingress_classes import publish_ingress_class
from podtui.server.resources.kubernetes_service import KubernetesService
from podtui.server.resources.namespace_care import NamespaceCare
from podtui.server.resources.priorities import publish_system_classes
from podtui.server.resources.storage_classes import publish_standard_class
from podtui.server.resources.taint_eviction import TaintEviction
from podtui.server.resources.token_secrets import TokenSecrets
from podtui.server.transport.pod_server import PodServers
from podtui.settings import Settings
from podtui.store import Store


class Standalone:
    """``ports`` and ``folders`` are for the kubelet."""

    middlewares: tuple[Middleware, ...] = ()

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        folder: ManifestFolder,
        runtime: Runtime,
        pki: Pki,
        tokens: TokenRegistry,
        point: AccessPoint,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._runtime = runtime
        self.endpoint_port = point.port if settings.enableServer else 0
        self._stack = AsyncExitStack()
        self._networks = EngineNetworks(runtime)
        self.folders = FolderObjects(folder, store, self._client(FOLDER_MANAGER), clock)
        self.ports = home_ports(
            store, clock, settings.nodeName, HomeTokens(store, tokens), self._networks
        )

        def authority() -> str:
            return pki.authority.decode()

        self._namespaces = NamespaceCare(store, clock, authority)
        self._secrets = TokenSecrets(store, tokens.issuer, clock, authority)
        self._aggregation = ClusterRoleAggregation(store, clock)
        self._addresses = AddressCare(store, clock)
        self._api_service = KubernetesService(
            store, point if settings.enableServer else None, clock
        )

    def _client(self, agent: str = "") -> UnixClient:
        path = self._settings.socket_path
        client = UnixClient(path, clock=self._clock, **({"agent": agent} if agent else {}))
        self._stack.push_async_callback(client.close)
        return client

    async def close(self) -> None:
        await self._stack.aclose()

    async def prepare(self) -> None:
        """Create the objects that every cluster has."""
        store, clock = self._store, self._clock
        await self._namespaces.prepare()
        await publish_system_classes(store, clock)
        await publish_standard_class(store, clock)
        if self._settings.ingressPort:
            await publish_ingress_class(store, clock)
        await DefaultRoles(store, clock).prepare()
        await self._aggregation.aggregate()
        await self._api_service.prepare()
        await publish_dns_service(store, clock)
        await self._addresses.prepare()

    async def publish_authority(self) -> None:
        """Publish the certificate of the authority again, because it is new."""
        await self._namespaces.update_root_ca()
        await self._secrets.update()

    def jobs(
        self, servers: PodServers | None, kubelet: NodeKubelet, config: bytes
    ) -> Mapping[str, Callable[[], Awaitable[object]]]:
        """Return the long-running calls, by name. Pods reach the API if there are ``servers`` for
        it."""
        store, clock, settings = self._store, self._clock, self._settings
        jobs: dict[str, Callable[[], Awaitable[object]]] = {
            "namespaces": self._namespaces.run,
            "token secrets": self._secrets.run,
            "cluster role aggregation": self._aggregation.run,
            "node lifecycle": NodeLifecycle(store, clock, settings.nodeName).run,
            "garbage collector": GarbageCollector(store, clock).run,
            "taint eviction": TaintEviction(store, clock).run,
            "pod garbage collector": PodCollector(store, clock, settings.nodeName).run,
            "objects of the folder": self.folders.run,
            "service of the API": self._api_service.run,
            "addresses of Services": self._addresses.run,
        }
        objects = HomeObjects(store)
        if settings.enableScheduler:
            jobs["scheduler"] = partial(self._schedule, self._client(), objects)
        if settings.enableControllers:
            directories = volume_directories(self._runtime, settings)
            jobs |= controller_jobs(self._client(AGENT), objects, clock, directories)
        return jobs | service_parts(
            self._stack, self._runtime, self._networks, objects, settings, clock, servers
        )

    async def _schedule(self, client: UnixClient, objects: Follower) -> None:
        """Run a new scheduler, with the API's current state."""
        api = SchedulerClient(client, objects)
        await Scheduler(api, self._clock, host=self._settings.nodeName).run()


def volume_directories(runtime: Runtime, settings: Settings) -> VolumeDirectories:
    """Return where the controllers create the volumes of claims."""

    async def create(path: str) -> None:
        await runtime.host_path(path, create="Directory", shared=True)

    return VolumeDirectories(
        path=str(settings.volumes_path), create=create, remove=runtime.remove_host_directory
    )
