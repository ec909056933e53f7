"""The resolver of a pod (reference §11.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from podtui.api.pods import pod_ref
from podtui.api.v1 import Pod, PodDNSConfig
from podtui.runtime.protocol import DnsConfig

MAX_SERVERS: Final = 3
MAX_SEARCHES: Final = 32
MAX_SEARCH_LENGTH: Final = 2048
SERVERS_CUT: Final = (
    "Nameserver limits were exceeded, some nameservers have been omitted,"
    " the applied nameserver line is: "
)
SEARCHES_CUT: Final = (
    "Search Line limits were exceeded, some search paths have been omitted,"
    " the applied search line is: "
)
MISSING: Final = (
    "kubelet does not have ClusterDNS IP configured and cannot create Pod using"
    ' "{policy}" policy. Falling back to "Default" policy.'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDns:
    """``config`` is None for the engine's own resolver. ``warnings`` are (reason, message) of the
    Warning events to record on the pod."""

    config: DnsConfig | None
    warnings: tuple[tuple[str, str], ...] = ()


def parse_resolv_conf(text: str) -> DnsConfig:
    """A node's ``/etc/resolv.conf``: servers add up, the last ``search`` counts."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if not words or words[0].startswith(";"):
            continue
        match words[0]:
            case "nameserver" if len(words) > 1:
                servers.append(words[1])
            case "search":
                cleaned = (word.removesuffix(".") for word in words[1:])
                searches = tuple(word for word in cleaned if word)
            case "options":
                options |= {word.partition(":")[0]: word for word in words[1:]}
            case _:
                pass
    return DnsConfig(servers=tuple(servers), searches=searches, options=tuple(options.values()))


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _appended(base: DnsConfig, extra: PodDNSConfig) -> DnsConfig:
    options = {option.partition(":")[0]: option for option in base.options}
    for option in extra.options:
        options[option.name] = f"{option.name}:{option.value}" if option.value else option.name
    return DnsConfig(
        servers=_distinct((*base.servers, *extra.nameservers)),
        searches=_distinct((*base.searches, *extra.searches)),
        options=tuple(options.values()),
    )


def _limited(config: DnsConfig) -> tuple[DnsConfig, list[tuple[str, str]]]:
    cuts: list[str] = []
    servers = config.servers[:MAX_SERVERS]
    if len(servers) < len(config.servers):
        cuts.append(SERVERS_CUT + " ".join(servers))
    searches = [one for one in config.searches if len(one) <= 253][:MAX_SEARCHES]
    while len(" ".join(searches)) > MAX_SEARCH_LENGTH:
        searches.pop()
    if len(searches) < len(config.searches):
        cuts.append(SEARCHES_CUT + " ".join(searches))
    kept = DnsConfig(servers=servers, searches=tuple(searches), options=config.options)
    return kept, [("DNSConfigForming", text) for text in cuts]


def pod_dns(
    pod: Pod,
    *,
    cluster_dns: tuple[str, ...] = (),
    cluster_domain: str = "",
    host: DnsConfig | None = None,
) -> PodDns:
    """Where the pod's names are looked up.

    ``host`` is the node's own resolver, None where it is left to the engine; what the pod appends
    to it then stands in its place.
    """
    spec = pod.spec
    policy = spec.dnsPolicy or "ClusterFirst"
    warnings: list[tuple[str, str]] = []
    base = host
    if policy == "None":
        base = DnsConfig()
    elif policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.hostNetwork):
        if cluster_dns:
            space = pod.metadata.namespace
            zone = f"svc.{cluster_domain}" if cluster_domain else "svc"
            own = (f"{space}.{zone}", zone, cluster_domain) if cluster_domain else ()
            base = DnsConfig(
                servers=cluster_dns,
                searches=_distinct((*own, *(host.searches if host else ()))),
                options=("ndots:5",),
            )
        else:
            text = MISSING.format(policy=policy)
            warnings.append(("MissingClusterDNS", f'pod: "{pod_ref(pod)}". {text}'))
    if spec.dnsConfig is not None:
        base = _appended(base or DnsConfig(), spec.dnsConfig)
    if base is None:
        return PodDns(config=None, warnings=tuple(warnings))
    config, cuts = _limited(base)
    return PodDns(config=config, warnings=(*warnings, *cuts))
