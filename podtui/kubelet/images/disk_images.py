"""Build the user-facing list of the engine's images and the pods that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from podtui.api.images import NodeImage, NodeImageList
from podtui.kubelet.base.timestamps import optional_rfc3339
from podtui.kubelet.base.types import ObservedPod
from podtui.runtime.protocol import ImageRecord


def disk_images(
    images: Iterable[ImageRecord],
    pods: Iterable[ObservedPod],
    collectable: Callable[[ImageRecord], bool],
) -> NodeImageList:
    """Return the images with their users, largest first."""
    users: dict[str, set[str]] = {}
    for pod in pods:
        for container in pod.containers:
            users.setdefault(container.image_id, set()).add(f"{pod.namespace}/{pod.name}")
    found = [
        NodeImage(
            id=image.id,
            names=image.tags or image.digests,
            sizeBytes=image.size,
            created=optional_rfc3339(image.created_at),
            usedBy=tuple(sorted(users.get(image.id, ()))),
            collectable=collectable(image),
        )
        for image in images
    ]
    return NodeImageList(items=tuple(sorted(found, key=lambda one: (-one.sizeBytes, one.names))))
