"""The content of the records of pods, as API clients see them: mirrors of static pods (kubelet.md
§2), and merged statuses of API pods (§7.8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from podtui.api.names import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    KILLS,
    LACKS,
    PULL_PROGRESS,
    WOULD_FIT,
)
from podtui.api.v1 import OwnerReference, Pod, PodCondition, PodStatus
from podtui.kubelet.status.conditions import DISRUPTION_TARGET, OWNED, RESIZE
from podtui.kubelet.status.phase import TERMINAL

_OWN: Final = frozenset({KILLS, LACKS, PULL_PROGRESS, WOULD_FIT})
"""Annotations of the record that do not come from the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A static pod and what its record adds to it."""

    pod: Pod
    status: PodStatus
    annotations: Mapping[str, str]
    created: str
    deleted_at: str | None
    grace: int | None
    node_name: str
    node_uid: str


def mirror_hash(pod: Pod) -> str:
    """Return the value that ties a mirror record to this version of the static pod."""
    return pod.metadata.annotations.get(CONFIG_HASH, pod.metadata.uid)


def mirror_pod(mirror: Mirror, *, uid: str | None = None) -> Pod:
    """Return a new record, by default with the UID of the static pod."""
    meta = mirror.pod.metadata
    owner = OwnerReference(
        apiVersion="v1",
        kind="Node",
        name=mirror.node_name,
        uid=mirror.node_uid,
        controller=True,
    )
    return structs.replace(
        mirror.pod,
        apiVersion="v1",
        kind="Pod",
        metadata=structs.replace(
            meta,
            uid=meta.uid if uid is None else uid,
            annotations={
                **meta.annotations,
                CONFIG_MIRROR: mirror_hash(mirror.pod),
                **mirror.annotations,
            },
            ownerReferences=(owner,),
            creationTimestamp=mirror.created if uid != "" else None,
            deletionTimestamp=mirror.deleted_at,
            deletionGracePeriodSeconds=mirror.grace,
        ),
        status=mirror.status,
    )


def renewed_mirror(record: Pod, mirror: Mirror) -> Pod:
    """Return an existing record with the present state of the static pod.

    Labels and annotations that API clients added are kept; the rest follows the manifest.
    """
    fresh = mirror_pod(mirror)
    known, meta = record.metadata, fresh.metadata
    kept = {name: value for name, value in known.annotations.items() if name not in _OWN}
    return structs.replace(
        fresh,
        metadata=structs.replace(
            known,
            labels={**known.labels, **meta.labels},
            annotations={**kept, **meta.annotations},
            ownerReferences=meta.ownerReferences,
            deletionTimestamp=meta.deletionTimestamp,
            deletionGracePeriodSeconds=meta.deletionGracePeriodSeconds,
        ),
    )


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
        conditions=_merged_conditions(old.conditions, new.conditions, ended=ending and not may_run),
        nominatedNodeName=old.nominatedNodeName,
        resourceClaimStatuses=old.resourceClaimStatuses,
        extendedResourceClaimStatus=old.extendedResourceClaimStatus,
        nodeAllocatableResourceClaimStatuses=old.nodeAllocatableResourceClaimStatuses,
    )


def _merged_conditions(
    old: tuple[PodCondition, ...], new: tuple[PodCondition, ...], *, ended: bool
) -> tuple[PodCondition, ...]:
    """Keep the conditions of others, and add DisruptionTarget once the pod has ended."""
    disruption = [one for one in new if one.type == DISRUPTION_TARGET and ended]
    kept = [one for one in old if one.type not in (*OWNED, *RESIZE)]
    if disruption:
        kept = [one for one in kept if one.type != DISRUPTION_TARGET]
    return (*kept, *disruption, *(one for one in new if one.type in (*OWNED, *RESIZE)))
