"""The API server's rules for a NetworkPolicy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.networking import (
    IPBlock,
    NetworkPolicy,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.addresses import address_range, parse_range, range_warnings
from podtui.manifest.validation.errors import (
    Errors,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)
from podtui.manifest.validation.metadata import label_selector, object_meta

PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TYPES: Final = ("Ingress", "Egress")


def validate_network_policy(item: NetworkPolicy) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from network_policy_spec(item.spec)


def network_policy_spec(spec: NetworkPolicySpec) -> Errors:
    yield from label_selector(spec.podSelector, "spec.podSelector")
    for direction, index, ports, peers, name in _rules(spec):
        path = f"spec.{direction}[{index}]"
        for position, port in enumerate(ports):
            yield from _port(port, f"{path}.ports[{position}]")
        for position, peer in enumerate(peers):
            yield from _peer(peer, f"{path}.{name}[{position}]")
    types = spec.policyTypes
    if len(types) > len(_TYPES):
        yield invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, policy_type in enumerate(types):
        if policy_type not in _TYPES:
            yield not_supported(f"spec.policyTypes[{index}]", policy_type, _TYPES)


def network_policy_warnings(item: NetworkPolicy) -> Iterator[str]:
    """Warn about address ranges in an unusual form."""
    for direction, index, _, peers, name in _rules(item.spec):
        for position, peer in enumerate(peers):
            path = f"spec.{direction}[{index}].{name}[{position}].ipBlock"
            if peer.ipBlock is not None:
                yield from range_warnings(peer.ipBlock.cidr, f"{path}.cidr")
                for number, text in enumerate(peer.ipBlock.except_):
                    yield from range_warnings(text, f"{path}.except[{number}]")


def _rules(
    spec: NetworkPolicySpec,
) -> Iterator[tuple[str, int, tuple[NetworkPolicyPort, ...], tuple[NetworkPolicyPeer, ...], str]]:
    """Yield each rule: its direction, index, ports and peers, and the name of the peers' field."""
    for index, rule in enumerate(spec.ingress):
        yield "ingress", index, rule.ports, rule.from_, "from"
    for index, rule in enumerate(spec.egress):
        yield "egress", index, rule.ports, rule.to, "to"


def _port(item: NetworkPolicyPort, path: str) -> Errors:
    if item.protocol and item.protocol not in PROTOCOLS:
        yield not_supported(f"{path}.protocol", item.protocol, PROTOCOLS)
    port, end = item.port, item.endPort
    if isinstance(port, int):
        yield from invalid_each(f"{path}.port", port, formats.port_number(port))
        if end is not None:
            if end < port:
                why = "must be greater than or equal to `port`"
                yield invalid(f"{path}.endPort", port, why)
            yield from invalid_each(f"{path}.endPort", end, formats.port_number(end))
    elif port is not None:
        if end is not None:
            why = "may not be specified when `port` is non-numeric"
            yield invalid(f"{path}.endPort", end, why)
        yield from invalid_each(f"{path}.port", port, formats.port_name(port))
    elif end is not None:
        yield invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified")


def _peer(peer: NetworkPolicyPeer, path: str) -> Errors:
    yield from label_selector(peer.podSelector, f"{path}.podSelector")
    yield from label_selector(peer.namespaceSelector, f"{path}.namespaceSelector")
    if peer.ipBlock is not None:
        yield from _ip_block(peer.ipBlock, f"{path}.ipBlock")
    selects = peer.podSelector is not None or peer.namespaceSelector is not None
    if not selects and peer.ipBlock is None:
        yield required(path, "must specify a peer")
    elif selects and peer.ipBlock is not None:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _ip_block(block: IPBlock, path: str) -> Errors:
    if not block.cidr:
        yield required(f"{path}.cidr")
        return
    yield from address_range(block.cidr, f"{path}.cidr")
    outer = parse_range(block.cidr)
    if outer is None:
        return
    for index, text in enumerate(block.except_):
        here = f"{path}.except[{index}]"
        yield from address_range(text, here)
        inner = parse_range(text)
        if inner is None:
            continue
        network = inner.network
        if network.network_address not in outer.network or outer.length >= inner.length:
            yield invalid(here, text, "must be a strict subset of `cidr`")
