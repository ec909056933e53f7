"""The images of the engine and the pods that use them.

Types of ``podtui.dev/v1alpha1``. A Node's status lists at most 50 images, and not their age.
"""

from __future__ import annotations

from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import Struct, Time


class NodeImage(Struct, frozen=True, kw_only=True):
    """One image. ``names`` are its tags, or its digests if it has no tags; ``created`` is the build
    time. ``usedBy`` lists the pods (``namespace/name``) that have a container of this image,
    including stopped ones. ``collectable`` is set if image garbage collection may delete it once no
    container uses it."""

    id: str
    names: tuple[str, ...] = ()
    sizeBytes: int = 0
    created: Time | None = None
    usedBy: tuple[str, ...] = ()
    collectable: bool = False


class NodeImageList(Struct, frozen=True, kw_only=True):
    items: tuple[NodeImage, ...] = ()
    apiVersion: str = GROUP_VERSION
    kind: str = "NodeImageList"


class PrunedImages(Struct, frozen=True, kw_only=True):
    """The result of a prune: the removed images by their first name, and the sum of their sizes (a
    shared layer counts once per image). ``kept`` lists the images that the engine refused to
    remove, with its reason."""

    removed: tuple[str, ...] = ()
    sizeBytes: int = 0
    kept: tuple[str, ...] = ()


class PullStep(Struct, frozen=True, kw_only=True):
    """One message of a pull's response stream: progress in bytes of the layers known so far. The
    last message has ``image``, or ``error`` with the reason for the failure."""

    status: str = ""
    current: int = 0
    total: int = 0
    image: NodeImage | None = None
    error: str = ""
