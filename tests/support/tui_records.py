"""Records that tests of views and of screens share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs
from tui_scene import ended, gallery, manifest, node, pod, status, waiting

from podtui.api.local import Manifest, ManifestState
from podtui.api.places import FieldPlace, write_places
from podtui.api.v1 import Container, EphemeralContainer, Node, Pod, ResourceRequirements
from podtui.manifest.diagnose import read_manifest
from podtui.tui.widgets.cells import Line

HUNGRY = """\
apiVersion: v1
kind: Pod
metadata:
  name: hungry
spec:
  containers:
  - name: app
    image: busybox:1.36
    resources:
      limits:
        memory: 16Mi  # tight
"""


def oom_killed_manifest(
    path: str = "/m/hungry.yaml", text: str = HUNGRY, uid: str = "uid-hungry"
) -> Manifest:
    places = read_manifest(path, text.encode(), node_name="n1").places
    made = manifest("hungry.yaml", text=text, pod_name="hungry")
    state = structs.replace(
        made.status,
        state=ManifestState.ACCEPTED, podNamespace="default", podName="hungry-n1", podUID=uid,
        places=places, diagnostics=(),
    )  # fmt: skip
    return structs.replace(made, spec=structs.replace(made.spec, path=path), status=state)


def line_text(line: Line) -> str:
    return "".join(span.text for span in line)


def text_of(lines: Iterable[Line]) -> str:
    return "\n".join(map(line_text, lines))


def texts(lines: list[Line]) -> list[str]:
    return [line_text(line).rstrip() for line in lines]


def placed(pod: Pod, node: str, **meta: Any) -> Pod:
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, **meta),
        spec=structs.replace(pod.spec, nodeName=node),
    )


def node_named(name: str) -> Node:
    made = node()
    return structs.replace(made, metadata=structs.replace(made.metadata, name=name))


def pods_on_two_nodes() -> list[Pod]:
    return [placed(pod, f"n{number % 2}") for number, pod in enumerate(gallery())]


def ordered_pod() -> Pod:
    """Return a pod whose statuses are sorted by name, as a kubelet reports them, unlike its
    manifest.
    """
    base = pod("web", status("api"), status("zeta"), containers=("zeta", "api"),
               init=(status("setup", ended(0)), status("mesh")))  # fmt: skip
    setup, mesh = base.spec.initContainers
    debugger = EphemeralContainer(name="debugger-1", image="busybox:1.36")
    spec = structs.replace(
        base.spec,
        initContainers=(setup, structs.replace(mesh, restartPolicy="Always")),
        ephemeralContainers=(debugger,),
    )
    pod_status = structs.replace(
        base.status,
        initContainerStatuses=base.status.initContainerStatuses[::-1],
        ephemeralContainerStatuses=(status("debugger-1"),),
    )
    return structs.replace(base, spec=spec, status=pod_status)


def pulling(name: str, text: str, image: str = "big:1") -> Pod:
    """Return a pod whose record contains ``text`` for the pull of its container's image."""
    made = pod(name, phase="Pending")
    notes = {**made.metadata.annotations, "podtui.dev/pull-progress": text}
    (first,) = made.spec.containers
    return structs.replace(
        made,
        metadata=structs.replace(made.metadata, annotations=notes),
        spec=structs.replace(made.spec, containers=(structs.replace(first, image=image),)),
    )


THREE_DOCUMENTS = """\
kind: ConfigMap
---
kind: Pod
metadata:
  labels: {app: web}
spec:
  containers:
  - name: web
    image: nginx:1

    args: ["a"]
---
kind: ConfigMap
"""


def with_places(name: str = "web.yaml", pod_name: str = "web-n1") -> Manifest:
    """Return a manifest whose pod is the second of three documents."""
    found: dict[tuple[str | int, ...], FieldPlace] = {
        ("kind",): FieldPlace((3, 1), (3, 7)),
        ("metadata",): FieldPlace((4, 1), (5, 3)),
        ("metadata", "labels"): FieldPlace((5, 3), (5, 11)),
        ("metadata", "labels", "app"): FieldPlace((5, 12), (5, 17)),
        ("spec",): FieldPlace((6, 1), (7, 3)),
        ("spec", "containers"): FieldPlace((7, 3), (8, 3)),
        ("spec", "containers", 0): FieldPlace(None, (8, 5)),
        ("spec", "containers", 0, "name"): FieldPlace((8, 5), (8, 11)),
        ("spec", "containers", 0, "image"): FieldPlace((9, 5), (9, 12)),
        ("spec", "containers", 0, "args"): FieldPlace((11, 5), (11, 11)),
    }
    keys = {path: place.key for path, place in found.items() if place.key is not None}
    places = write_places(keys, {path: place.value for path, place in found.items()})
    one = manifest(name, text=THREE_DOCUMENTS, pod_name=pod_name)
    return structs.replace(one, status=structs.replace(one.status, places=places))


def oom_killed_pod(uid: str = "uid-hungry", limit: str = "16Mi", *, well: bool = False) -> Pod:
    """Return the pod of `oom_killed_manifest`."""
    state = status("app") if well else status(
        "app", waiting("CrashLoopBackOff", "back-off"), restarts=2, last=ended(137, "OOMKilled")
    )  # fmt: skip
    made = pod("hungry", state, uid=uid)
    container = Container(
        name="app", image="busybox:1.36", resources=ResourceRequirements(limits={"memory": limit})
    )
    return structs.replace(made, spec=structs.replace(made.spec, containers=(container,)))
