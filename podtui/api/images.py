"""The images that the engine has, and who uses them.

Types of ``podtui.dev/v1alpha1``. A Node's status names at most 50 images, without their age.
"""

from __future__ import annotations

from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import Struct, Time


class NodeImage(Struct, frozen=True, kw_only=True):
    """One image. ``names`` are tags, digests where it has none; ``created`` is when it was built;
    ``usedBy`` are the pods whose containers, dead ones too, were made from it
    (``namespace/name``). ``collectable``: it may be deleted to free disk space while no container
    has it."""

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
    """What pruning removed: each image by its first name, and their sizes added up (layers that
    images share are counted with each). ``kept`` are those that the engine would not give up, with
    its reason."""

    removed: tuple[str, ...] = ()
    sizeBytes: int = 0
    kept: tuple[str, ...] = ()


class PullStep(Struct, frozen=True, kw_only=True):
    """A line of a pull's answer: how far it is, in bytes of the layers known so far. The last line
    has ``image``, or ``error`` and why there is none."""

    status: str = ""
    current: int = 0
    total: int = 0
    image: NodeImage | None = None
    error: str = ""
