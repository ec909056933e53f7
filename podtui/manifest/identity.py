"""The identity of a static pod: its UID, its name on the node, and its source annotations
(kubelet.md §1.3).

The UID is a hash of the content of the manifest. Comments, blank lines, key order and YAML versus
JSON make no difference; every field, the node and the path do.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from podtui.api import names
from podtui.api.times import rfc3339_micros
from podtui.api.v1 import Pod, PodStatus, Toleration

_OF_RECORDS: Final = frozenset(
    {names.CONFIG_MIRROR, names.KILLS, names.PULL_PROGRESS, names.WOULD_FIT, names.LACKS}
)
"""Annotations that the kubelet adds to records."""
_FNV_OFFSET: Final = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME: Final = 0x0000000001000000000000000000013B
_FNV_MASK: Final = 2**128 - 1


def fnv1a_128(data: bytes) -> str:
    """Return the 128-bit FNV-1a hash as 32 hexadecimal digits."""
    state = _FNV_OFFSET
    for byte in data:
        state = ((state ^ byte) * _FNV_PRIME) & _FNV_MASK
    return f"{state:032x}"


def manifest_uid(pod: Pod, node_name: str, path: str) -> str:
    """Return the UID of a defaulted pod that sets none, before node-specific values are added."""
    content = msgspec.json.encode(pod, order="sorted")
    return fnv1a_128(content + f"host:{node_name}file:{path}".encode("utf-8", "surrogateescape"))


def identify(pod: Pod, *, node_name: str, path: str) -> Pod:
    """Return the pod as the kubelet knows it. If its name is empty, it stays empty."""
    meta = pod.metadata
    uid = meta.uid or manifest_uid(pod, node_name, path)
    annotations = {
        **meta.annotations,
        names.CONFIG_HASH: uid,
        names.CONFIG_SOURCE: "file",
        names.MANIFEST_PATH: path,
    }
    metadata = replace(
        meta,
        uid=uid,
        name=f"{meta.name}-{node_name.lower()}" if meta.name else "",
        namespace=meta.namespace or "default",
        annotations=annotations,
    )
    spec = replace(pod.spec, nodeName=node_name, tolerations=_with_no_execute(pod.spec.tolerations))
    return replace(
        pod,
        metadata=metadata,
        spec=spec,
        status=PodStatus(phase="Pending"),
    )


def _with_no_execute(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Add the toleration of every NoExecute taint. It replaces one that differs from it only in
    ``tolerationSeconds``."""
    added = Toleration(operator="Exists", effect="NoExecute")
    replaced = tuple(
        added if replace(t, tolerationSeconds=None) == added else t for t in tolerations
    )
    return replaced if added in replaced else (*replaced, added)


def seen_text(moment: datetime, nanoseconds: int = 0) -> str:
    """Format a time as ``config.seen`` does: RFC 3339 in UTC with nine fractional digits.

    ``nanoseconds`` are the three digits below the microsecond, which a datetime cannot hold.
    """
    return f"{rfc3339_micros(moment).removesuffix('Z')}{nanoseconds:03d}Z"


def with_seen(pod: Pod, seen: str) -> Pod:
    """Return the pod annotated with the time at which it was first seen."""
    annotations = {**pod.metadata.annotations, names.CONFIG_SEEN: seen}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def from_record(record: Pod) -> Pod:
    """Return the pod of a manifest from its record, without what only the record has."""
    meta = record.metadata
    annotations = {key: text for key, text in meta.annotations.items() if key not in _OF_RECORDS}
    return replace(
        record,
        metadata=replace(
            meta,
            annotations=annotations,
            ownerReferences=(),
            resourceVersion="",
            creationTimestamp=None,
            deletionTimestamp=None,
            deletionGracePeriodSeconds=None,
        ),
        status=PodStatus(phase="Pending"),
    )
