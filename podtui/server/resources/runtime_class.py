"""The admission plugin RuntimeClass: add the fields of its class to a pod that is created."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.v1 import Pod, RuntimeClass, Toleration
from podtui.server.status import StatusError, forbidden, submitted_name
from podtui.store.protocol import Records


async def runtime_class_of(pod: Pod, records: Records) -> RuntimeClass | None:
    """Return the class that the pod names, None if it names none. Raises `StatusError` 403."""
    name = pod.spec.runtimeClassName
    if not name:
        return None
    runtime_class = await records.get("runtimeclasses", "", name)
    if not isinstance(runtime_class, RuntimeClass):
        raise _rejected(pod, f'RuntimeClass "{name}" not found')
    return runtime_class


def with_runtime_class(pod: Pod, runtime_class: RuntimeClass | None) -> Pod:
    """Return the pod with the overhead, the node selector and the tolerations of its class. Raises
    `StatusError` 403."""
    spec = pod.spec
    fixed = None
    if runtime_class is not None and runtime_class.overhead is not None:
        fixed = runtime_class.overhead.podFixed
    if fixed is None and spec.overhead:
        raise _rejected(pod, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if fixed is not None:
        if spec.overhead and _amounts(spec.overhead) != _amounts(fixed):
            raise _rejected(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec = structs.replace(spec, overhead=fixed)
    scheduling = None if runtime_class is None else runtime_class.scheduling
    if scheduling is not None:
        selector = dict(spec.nodeSelector)
        for key, value in sorted(scheduling.nodeSelector.items()):
            own = selector.setdefault(key, value)
            if own != value:
                why = (
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value};"
                    f" pod.spec.nodeSelector[{key}] = {own}"
                )
                raise forbidden("pods", pod.metadata.name, why)
        spec = structs.replace(
            spec,
            nodeSelector=selector,
            tolerations=merged_tolerations(spec.tolerations, scheduling.tolerations),
        )
    return structs.replace(pod, spec=spec)


def merged_tolerations(
    first: tuple[Toleration, ...], second: tuple[Toleration, ...]
) -> tuple[Toleration, ...]:
    """Return all tolerations in order, without those that another one includes."""
    every = (*first, *second)
    merged: list[Toleration] = []
    for index, toleration in enumerate(every):
        later = (other for other in every[index + 1 :] if other != toleration)
        if not any(_includes(other, toleration) for other in (*merged, *later)):
            merged.append(toleration)
    return tuple(merged)


def _includes(wide: Toleration, narrow: Toleration) -> bool:
    """Return whether ``wide`` tolerates every taint that ``narrow`` does, at least as long."""
    if wide == narrow:
        return True
    if wide.key != narrow.key and (wide.key or wide.operator != "Exists"):
        return False
    if wide.effect not in ("", narrow.effect):
        return False
    if wide.effect == "NoExecute" and wide.tolerationSeconds is not None:
        seconds = narrow.tolerationSeconds
        if seconds is None or seconds > wide.tolerationSeconds:
            return False
    if wide.operator in ("", "Equal"):
        return narrow.operator == "Equal" and narrow.value == wide.value
    return wide.operator == "Exists"


def _amounts(entries: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in entries.items()}


def _rejected(pod: Pod, why: str) -> StatusError:
    return forbidden("pods", submitted_name(pod.metadata), f"pod rejected: {why}")
