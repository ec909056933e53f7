"""Merge the kubelet's status of an API pod into the status of its record (kubelet.md §7.8)."""

from __future__ import annotations

from msgspec import structs

from podtui.api.v1 import PodCondition, PodStatus
from podtui.kubelet.status.conditions import DISRUPTION_TARGET, OWNED, RESIZE
from podtui.kubelet.status.phase import TERMINAL


def merged_status(old: PodStatus, new: PodStatus, *, may_run: bool) -> PodStatus:
    """Return the status to write; ``old`` is the record's.

    The conditions and fields of other components are kept. With ``may_run``, containers of the pod
    may still run: then its phase does not become Succeeded or Failed yet.
    """
    ending = old.phase not in TERMINAL and new.phase in TERMINAL
    delayed = ending and may_run
    return structs.replace(
        new,
        phase=old.phase if delayed else new.phase,
        reason=old.reason if delayed else new.reason,
        message=old.message if delayed else new.message,
        conditions=_merged(old.conditions, new.conditions, ended=ending and not may_run),
        nominatedNodeName=old.nominatedNodeName,
        resourceClaimStatuses=old.resourceClaimStatuses,
        extendedResourceClaimStatus=old.extendedResourceClaimStatus,
        nodeAllocatableResourceClaimStatuses=old.nodeAllocatableResourceClaimStatuses,
    )


def _merged(
    old: tuple[PodCondition, ...], new: tuple[PodCondition, ...], *, ended: bool
) -> tuple[PodCondition, ...]:
    """Keep the conditions of others, and add DisruptionTarget once the pod has ended."""
    disruption = [one for one in new if one.type == DISRUPTION_TARGET and ended]
    kept = [one for one in old if one.type not in (*OWNED, *RESIZE)]
    if disruption:
        kept = [one for one in kept if one.type != DISRUPTION_TARGET]
    return (*kept, *disruption, *(one for one in new if one.type in (*OWNED, *RESIZE)))
