"""Rules for names and addresses: DNS, host names, host aliases, host network ports."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import HostAlias, PodSpec
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
    too_long,
)

DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
MAX_NAMESERVERS: Final = 3
MAX_SEARCHES: Final = 32
MAX_SEARCH_CHARS: Final = 2048


def dns_policy(policy: str, path: str) -> Errors:
    if not policy:
        yield required(path)
    elif policy not in DNS_POLICIES:
        yield not_supported(path, policy, DNS_POLICIES)


def dns_config(spec: PodSpec, path: str) -> Errors:
    config = spec.dnsConfig
    if config is None:
        if spec.dnsPolicy == "None":
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        return
    servers, searches = config.nameservers, config.searches
    if spec.dnsPolicy == "None" and not servers:
        yield required(
            f"{path}.nameservers",
            "must provide at least one DNS nameserver when `dnsPolicy` is None",
        )
        return
    if len(servers) > MAX_NAMESERVERS:
        why = f"must not have more than {MAX_NAMESERVERS} nameservers"
        yield invalid(f"{path}.nameservers", servers, why)
    for index, server in enumerate(servers):
        here = f"{path}.nameservers[{index}]"
        yield from invalid_each(here, server, formats.ip_address(server))
    if len(searches) > MAX_SEARCHES:
        why = f"must not have more than {MAX_SEARCHES} search paths"
        yield invalid(f"{path}.searches", searches, why)
    if formats.size(" ".join(searches)) > MAX_SEARCH_CHARS:
        yield invalid(
            f"{path}.searches",
            searches,
            f"must not have more than {MAX_SEARCH_CHARS} characters (including spaces)"
            " in the search list",
        )
    for index, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != ".":
            problems = formats.SEARCH_DOMAIN.problems(domain)
            yield from invalid_each(f"{path}.searches[{index}]", domain, problems)
    for index, option in enumerate(config.options):
        if not option.name:
            here = f"{path}.options[{index}]"
            yield required(here, "must not be empty", at=f"{here}.name")


def host_aliases(aliases: tuple[HostAlias, ...], path: str) -> Errors:
    for index, alias in enumerate(aliases):
        here = f"{path}[{index}]"
        yield from invalid_each(f"{here}.ip", alias.ip, formats.ip_address(alias.ip))
        for position, name in enumerate(alias.hostnames):
            problems = formats.dns_subdomain(name)
            yield from invalid_each(f"{here}.hostnames[{position}]", name, problems)


def hostnames(spec: PodSpec) -> Errors:
    for field, name in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if name:
            yield from invalid_each(f"spec.{field}", name, formats.dns_label(name))
    if not spec.hostnameOverride:
        return
    path = "spec.hostnameOverride"
    if spec.setHostnameAsFQDN:
        yield forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.hostNetwork:
        yield forbidden(path, "may not be specified when hostNetwork is true")
    if formats.size(spec.hostnameOverride) > 64:
        yield too_long(path, 64)
    problems = formats.dns_subdomain(spec.hostnameOverride)
    yield from invalid_each(path, spec.hostnameOverride, problems)


def host_network_ports(spec: PodSpec, *, in_template: bool) -> Errors:
    """Check that each host port equals the container port, as it must in the host's network. A
    template may leave it out: each of its pods gets the default."""
    if not spec.hostNetwork:
        return
    for index, container in enumerate(spec.containers):
        for position, port in enumerate(container.ports):
            if in_template and not port.hostPort:
                continue
            if (port.hostPort or 0) != port.containerPort:
                yield invalid(
                    f"spec.containers[{index}].ports[{position}].hostPort",
                    port.hostPort or 0,
                    "must match `containerPort` when `hostNetwork` is true",
                )
