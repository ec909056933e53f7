"""The DNS resolvers of pods: read the node's, build each pod's, record problems (kubelet.md §11.3).

The files of the node are those of this machine, so they describe the node only if the engine is
local.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from podtui.api.pods import pod_ref
from podtui.api.v1 import Pod, PodDNSConfig
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.hosts import read_node_file
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.types import ConfigError
from podtui.runtime.protocol import DnsConfig, EngineInfo

SERVICE_DNS: Final = "10.96.0.10"
"""The address of the Service ``kube-system/kube-dns``."""
MAX_SERVERS: Final = 3
MAX_SEARCHES: Final = 32
MAX_SEARCH_LENGTH: Final = 2048
MAX_DOMAIN_LENGTH: Final = 253
CLUSTER_OPTIONS: Final = ("ndots:5",)
MISSING_CLUSTER_DNS: Final = (
    "kubelet does not have ClusterDNS IP configured and cannot create Pod using"
    ' "ClusterFirst" policy. Falling back to "Default" policy.'
)
_SERVERS_CUT: Final = (
    "Nameserver limits were exceeded, some nameservers have been omitted,"
    " the applied nameserver line is: "
)
_SEARCHES_CUT: Final = (
    "Search Line limits were exceeded, some search paths have been omitted,"
    " the applied search line is: "
)
RESOLVED_CONF: Final = "/run/systemd/resolve/resolv.conf"
"""File in which systemd-resolved lists the upstream servers behind its loopback address."""
_MISSING = "MissingClusterDNS"


class Resolvers:
    """Reads the node's resolver file again for each pod, as it may change while the agent runs.

    ``node_ips`` returns the node's addresses, primary first. With ``services``, pods whose networks
    have rules find the cluster's own name server.
    """

    def __init__(
        self,
        config: KubeletConfig,
        events: EventRecorder,
        node_ips: Callable[[], tuple[str, ...]],
        *,
        services: bool = False,
    ) -> None:
        self._config = config
        self._services = services
        self._events = events
        self._node_ips = node_ips
        self._checked = False
        self._node_reported = False

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
        servers = self._servers(pod, engine)
        dns = pod_dns(
            pod,
            cluster_dns=servers,
            cluster_domain=self._config.cluster_domain,
            host=await self._host(pod, engine, clustered=bool(servers)),
        )
        if dns.missing_cluster_dns:
            self.report_missing(pod)
        for text in dns.cuts:
            self._events.pod(pod, WARNING, "DNSConfigForming", text)
        return dns.config

    def _servers(self, pod: Pod, engine: EngineInfo) -> tuple[str, ...]:
        """Return the cluster's name servers that the pod can reach."""
        if self._config.cluster_dns or self._config.strict or not self._services:
            return self._config.cluster_dns
        # Only root sets rules in the host's network.
        reachable = engine.pod_rules and not (pod.spec.hostNetwork and engine.rootless)
        return (SERVICE_DNS,) if reachable else ()

    def report_missing(self, pod: Pod) -> None:
        """Record that the pod asks for a cluster's resolver and there is none. The node event is
        recorded once, the pod event only for pods with ``ClusterFirstWithHostNet``; under
        ``strict`` both are recorded each time."""
        strict = self._config.strict
        if strict or not self._node_reported:
            self._node_reported = True
            self._events.node(WARNING, _MISSING, MISSING_CLUSTER_DNS)
        if strict or pod.spec.dnsPolicy == "ClusterFirstWithHostNet":
            text = f'pod: "{pod_ref(pod)}". {MISSING_CLUSTER_DNS}'
            self._events.pod(pod, WARNING, _MISSING, text)

    async def _host(self, pod: Pod, engine: EngineInfo, *, clustered: bool) -> DnsConfig | None:
        """Return the node's resolver for a pod. With ``clustered``, the cluster has name servers:
        of the node, a pod that uses them has only the search list."""
        if not engine.local:
            return None
        path = self._config.resolv_conf
        if not path:
            if not self._config.strict:
                return None
            if clustered and wants_cluster_dns(pod):
                return DnsConfig()
            return no_resolver(self._node_ips())
        searches_only = clustered and wants_cluster_dns(pod)
        if not (self._config.strict or pod.spec.hostNetwork or searches_only):
            return await asyncio.to_thread(read_reachable_resolver, path)
        try:
            return await asyncio.to_thread(read_resolver, path)
        except ConfigError:
            if self._config.strict:
                raise
            return None


def read_resolver(path: str) -> DnsConfig:
    """Parse a resolver file. Raises `ConfigError`. Blocks."""
    try:
        return parse_resolv_conf(read_node_file(path).decode("utf-8", "replace"))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def read_reachable_resolver(path: str, resolved: str = RESOLVED_CONF) -> DnsConfig | None:
    """Return the node's resolver for a pod with its own network: loopback servers are replaced by
    the upstream servers of systemd-resolved, or dropped. Return None if no server remains or the
    file cannot be read. Blocks."""
    try:
        node = read_resolver(path)
    except ConfigError:
        return None
    beyond = beyond_loopback(node)
    if not beyond.servers and node.servers:
        try:
            behind = beyond_loopback(read_resolver(resolved))
        except ConfigError:
            return None
        beyond = DnsConfig(servers=behind.servers, searches=node.searches, options=node.options)
    return beyond if beyond.servers else None


# --- pure functions


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDns:
    """``config`` is None for the engine's default resolver. ``missing_cluster_dns``: the pod asks
    for the cluster's resolver and there is none. ``cuts`` are the messages of the
    ``DNSConfigForming`` events."""

    config: DnsConfig | None
    missing_cluster_dns: bool = False
    cuts: tuple[str, ...] = ()


def _option_name(option: str) -> str:
    return option.partition(":")[0]


def parse_resolv_conf(text: str) -> DnsConfig:
    """Parse a node's ``/etc/resolv.conf``: servers accumulate, the last ``search`` line wins,
    options are merged.

    Raises ValueError, with the kubelet's message, for a ``nameserver`` line without an address.
    """
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: dict[str, str] = {}
    for line in text.split("\n"):
        tokens = line.split()
        if not tokens or tokens[0].startswith("#"):
            continue
        match tokens[0]:
            case "nameserver":
                if len(tokens) < 2:
                    raise ValueError(
                        "Encountered error while parsing resolv conf file."
                        " Error: nameserver list is empty "
                    )
                servers.append(tokens[1])
            case "search":
                searches = tuple(token.removesuffix(".") for token in tokens[1:] if token != ".")
            case "options":
                options |= {_option_name(token): token for token in tokens[1:]}
            case _:
                pass
    return DnsConfig(servers=tuple(servers), searches=searches, options=tuple(options.values()))


def resolver_problem(path: str, node: DnsConfig, *, cluster_domain: str) -> str:
    """Return the message of a ``CheckLimitsForResolvConf`` event about the node's file; empty if
    there is no problem.

    A cluster domain takes three entries of a pod's search list.
    """
    places = MAX_SEARCHES - (3 if cluster_domain else 0)
    if len(node.searches) > places:
        return (
            f"Resolv.conf file '{path}' contains search line consisting of more than"
            f" {places} domains!"
        )
    if any(len(domain) > MAX_DOMAIN_LENGTH for domain in node.searches):
        return (
            f'Resolv.conf file "{path}" contains a search path which length is more than allowed'
            f" {MAX_DOMAIN_LENGTH} chars!"
        )
    if len(" ".join(node.searches)) > MAX_SEARCH_LENGTH:
        return (
            f"Resolv.conf file '{path}' contains search line which length is more than allowed"
            f" {MAX_SEARCH_LENGTH} chars!"
        )
    return ""


def no_resolver(node_ips: Iterable[str]) -> DnsConfig:
    """Return the resolver that a kubelet without a resolver file gives to pods: the loopback
    address."""
    servers = tuple("::1" if ":" in address else "127.0.0.1" for address in node_ips)
    return DnsConfig(servers=servers or ("127.0.0.1",), searches=(".",))


def _is_loopback(server: str) -> bool:
    try:
        return ipaddress.ip_address(server.partition("%")[0]).is_loopback
    except ValueError:
        return False


def beyond_loopback(node: DnsConfig) -> DnsConfig:
    """Return the node's resolver without loopback servers, which a pod's own network cannot
    reach."""
    return DnsConfig(
        servers=tuple(server for server in node.servers if not _is_loopback(server)),
        searches=node.searches,
        options=node.options,
    )


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _appended(base: DnsConfig, extra: PodDNSConfig) -> DnsConfig:
    options = {_option_name(option): option for option in base.options}
    for option in extra.options:
        options[option.name] = f"{option.name}:{option.value}" if option.value else option.name
    return DnsConfig(
        servers=_distinct((*base.servers, *extra.nameservers)),
        searches=_distinct((*base.searches, *extra.searches)),
        options=tuple(options.values()),
    )


def _limited(config: DnsConfig) -> tuple[DnsConfig, tuple[str, ...]]:
    cuts: list[str] = []
    servers = config.servers[:MAX_SERVERS]
    if len(servers) < len(config.servers):
        cuts.append(_SERVERS_CUT + " ".join(servers))
    searches = [
        domain for domain in config.searches[:MAX_SEARCHES] if len(domain) <= MAX_DOMAIN_LENGTH
    ]
    while len(" ".join(searches)) > MAX_SEARCH_LENGTH:
        searches.pop()
    if len(searches) < len(config.searches):
        cuts.append(_SEARCHES_CUT + " ".join(searches))
    kept = DnsConfig(servers=servers, searches=tuple(searches), options=config.options)
    return kept, tuple(cuts)


def wants_cluster_dns(pod: Pod) -> bool:
    """Return whether the pod's DNS policy asks for the cluster's resolver."""
    policy = pod.spec.dnsPolicy or "ClusterFirst"
    if policy == "ClusterFirst":
        return not pod.spec.hostNetwork
    return policy == "ClusterFirstWithHostNet"


def _cluster(pod: Pod, servers: tuple[str, ...], domain: str, host: DnsConfig | None) -> DnsConfig:
    cluster_searches: tuple[str, ...] = ()
    if domain:
        cluster_searches = (f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain)
    searches = () if host is None else host.searches
    return DnsConfig(
        servers=servers,
        searches=_distinct((*cluster_searches, *searches)) if cluster_searches else searches,
        options=CLUSTER_OPTIONS,
    )


def pod_dns(
    pod: Pod,
    *,
    cluster_dns: tuple[str, ...] = (),
    cluster_domain: str = "",
    host: DnsConfig | None = None,
) -> PodDns:
    """Build the DNS configuration of a pod.

    ``host`` is the node's own resolver; None leaves it to the engine. Without ``host``, the entries
    of the pod's ``dnsConfig`` replace the engine's resolver instead of extending it.
    """
    base, missing = host, False
    if pod.spec.dnsPolicy == "None":
        base = DnsConfig()
    elif wants_cluster_dns(pod):
        missing = not cluster_dns
        base = host if missing else _cluster(pod, cluster_dns, cluster_domain, host)
    if pod.spec.dnsConfig is not None:
        base = _appended(base or DnsConfig(), pod.spec.dnsConfig)
    if base is None:
        return PodDns(config=None, missing_cluster_dns=missing)
    config, cuts = _limited(base)
    return PodDns(config=config, missing_cluster_dns=missing, cuts=cuts)
