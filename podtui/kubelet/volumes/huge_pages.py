"""Choose the page size of a huge pages volume (reference §10.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.quantity import Format, Quantity, parse_quantity
from podtui.api.v1 import Pod, ResourceRequirements
from podtui.kubelet.base.config_error import ConfigError
from podtui.kubelet.base.types import NodeView

MEDIUM: Final = "HugePages"
RESOURCE: Final = "hugepages-"


def page_size(pod: Pod, medium: str, node: NodeView) -> int:
    """Return the page size in bytes for the emptyDir ``medium``; 0 if it is not a huge pages
    medium.

    ``HugePages`` without a size means the only size that the pod requests. Raises `ConfigError` if
    the pod requests none or several sizes, or if the node does not have the size.
    """
    if not medium.startswith(MEDIUM):
        return 0
    sizes = set(_asked(pod))
    exact = medium.removeprefix(MEDIUM).removeprefix("-")
    if exact:
        sizes &= {parse_quantity(exact).value()}
    if len(sizes) > 1:
        raise ConfigError(
            f"medium: {medium} can't be used if container requests multiple huge page sizes"
        )
    if not sizes:
        raise ConfigError(
            f"medium {medium}: hugePages storage requested, but there is no resource request for"
            " huge pages"
        )
    (size,) = sizes
    capacity = node.resources.capacity
    if size not in {_size_of(name) for name in capacity if name.startswith(RESOURCE)}:
        raise ConfigError(f"the node has no huge pages of {Quantity.of(size, Format.BINARY_SI)}")
    return size


def _asked(pod: Pod) -> Iterator[int]:
    spec = pod.spec
    everyone = [one.resources for one in (*spec.containers, *spec.initContainers)]
    for resources in (*everyone, spec.resources or ResourceRequirements()):
        for name in resources.requests:
            if name.startswith(RESOURCE):
                yield _size_of(name)


def _size_of(resource: str) -> int:
    return parse_quantity(resource.removeprefix(RESOURCE)).value()
