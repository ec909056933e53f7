"""Choose the DNS resolver of each pod and record the related events (reference §11.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from podtui.api.pods import pod_ref
from podtui.api.v1 import Pod
from podtui.kubelet.base.config import KubeletConfig
from podtui.kubelet.base.config_error import ConfigError
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.sandbox.dns import (
    MISSING_CLUSTER_DNS,
    no_resolver,
    pod_dns,
    resolver_problem,
    wants_cluster_dns,
)
from podtui.kubelet.sandbox.node_files import read_reachable_resolver, read_resolver
from podtui.runtime.protocol import DnsConfig, EngineInfo

_MISSING = "MissingClusterDNS"


class Resolvers:
    """Reads the node's resolver file again for each pod, as it may change while the agent runs.

    ``node_ips`` returns the node's addresses, primary first.
    """

    def __init__(
        self, config: KubeletConfig, events: EventRecorder, node_ips: Callable[[], tuple[str, ...]]
    ) -> None:
        self._config = config
        self._events = events
        self._node_ips = node_ips
        self._checked = False
        self._told_node = False

    async def check(self, engine: EngineInfo) -> None:
        """Record a node event about a problem of the node's resolver file; checks only once."""
        path = self._config.resolv_conf
        if self._checked or not path or not engine.local:
            return
        self._checked = True
        try:
            node = await asyncio.to_thread(read_resolver, path)
            problem = resolver_problem(path, node, cluster_domain=self._config.cluster_domain)
        except ConfigError as error:
            problem = str(error)
        if problem:
            self._events.node(WARNING, "CheckLimitsForResolvConf", problem)

    async def resolver_of(self, pod: Pod, engine: EngineInfo) -> DnsConfig | None:
        """Return the pod's resolver; None for the engine's default. Raises `ConfigError` if the
        node's file cannot be read under `KubeletConfig.strict`."""
        found = pod_dns(
            pod,
            cluster_dns=self._config.cluster_dns,
            cluster_domain=self._config.cluster_domain,
            host=await self._host(pod, engine),
        )
        if found.missing_cluster_dns:
            self.tell_missing(pod)
        for text in found.cuts:
            self._events.pod(pod, WARNING, "DNSConfigForming", text)
        return found.config

    def tell_missing(self, pod: Pod) -> None:
        """Record that the pod asks for a cluster's resolver and there is none. The node event is
        recorded once, the pod event only for pods with ``ClusterFirstWithHostNet``; under
        ``strict`` both are recorded each time."""
        strict = self._config.strict
        if strict or not self._told_node:
            self._told_node = True
            self._events.node(WARNING, _MISSING, MISSING_CLUSTER_DNS)
        if strict or pod.spec.dnsPolicy == "ClusterFirstWithHostNet":
            text = f'pod: "{pod_ref(pod)}". {MISSING_CLUSTER_DNS}'
            self._events.pod(pod, WARNING, _MISSING, text)

    async def _host(self, pod: Pod, engine: EngineInfo) -> DnsConfig | None:
        if not engine.local:
            return None
        path = self._config.resolv_conf
        if not path:
            if not self._config.strict:
                return None
            if self._config.cluster_dns and wants_cluster_dns(pod):
                return DnsConfig()
            return no_resolver(self._node_ips())
        if not (self._config.strict or pod.spec.hostNetwork):
            return await asyncio.to_thread(read_reachable_resolver, path)
        try:
            return await asyncio.to_thread(read_resolver, path)
        except ConfigError:
            if self._config.strict:
                raise
            return None
