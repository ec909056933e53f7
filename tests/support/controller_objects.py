"""Pods and caches for tests of controllers."""

from __future__ import annotations

from podtui.api.objects import Object
from podtui.api.v1 import ObjectMeta, OwnerReference, Pod, PodSpec
from podtui.client.cache import Cache

SPEC = PodSpec(containers=())


def owner_of(uid: str) -> OwnerReference:
    return OwnerReference(
        apiVersion="apps/v1", kind="ReplicaSet", name="r", uid=uid, controller=True
    )


def pod(name: str, version: int, *, owner: str = "", uid: str = "") -> Pod:
    """Return a pod in ``ns``. ``owner`` is the UID of its controller."""
    meta = ObjectMeta(
        name=name,
        namespace="ns",
        uid=uid or name,
        resourceVersion=str(version),
        ownerReferences=(owner_of(owner),) if owner else (),
    )
    return Pod(metadata=meta, spec=SPEC)


def cache_of(*items: Object) -> Cache:
    """Return a cache of pods that has been listed."""
    cache = Cache()
    cache.add_kind(Pod)
    cache.replace(Pod, items)
    return cache
