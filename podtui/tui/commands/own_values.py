"""The targets of a custom command: the values of its ``$(NAME)`` from the current selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from podtui.api.expansion import expand
from podtui.api.pods import all_containers, container_names, container_statuses
from podtui.api.v1 import Pod
from podtui.errors import PodtuiError
from podtui.tui.commands.custom_commands import OwnCommand
from podtui.tui.views.events import pod_key, pod_label
from podtui.tui.views.logs.target import default_container
from podtui.tui.widgets.sanitize import clean

_ABSENT: Final = {
    "NODE": "the node is not known yet",
    "ROOT_DIR": "a cluster has no root directory",
    "SOCKET": "a cluster has no socket",
    "CONTEXT": "this is no context of a kubeconfig",
    "LINE": "no line of a log is chosen: go to the log first",
    "IP": "{what} has no IP yet",
    "MANIFEST": "no file of the folder is known for {what}",
    "UID": "{what} has no UID",
    "CONTAINER_ID": "{what} has not been started",
    "IMAGE": "{what} names no image",
}


class NotOffered(PodtuiError):
    """Raised if a command cannot run on the current selection; the text says why."""


@dataclass(frozen=True, slots=True)
class Aim:
    """One target of a command. ``label`` is its display name. An empty value is absent."""

    label: str
    values: Mapping[str, str]
    pod: str = ""
    """The pod's name, for the journal."""
    likely: bool = False
    """True if this target is preselected when the user chooses."""

    def words(self, command: OwnCommand) -> list[str]:
        """Return the command line with all values expanded."""
        return [expand(word, self.values) for word in command.command]

    def environment(self) -> dict[str, str]:
        """Return the environment variables ``PODTUI_POD_NAME`` and so on."""
        return {f"PODTUI_{name}": value for name, value in self.values.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """The current selection.

    ``manifests`` are paths; ``manifest_of`` maps pod keys to paths. ``container`` is the container
    of the focused log; ``common`` has the values available on every screen.
    """

    pods: tuple[Pod, ...] = ()
    manifests: tuple[str, ...] = ()
    manifest_of: Mapping[str, str] = field(default_factory=dict[str, str])
    image: str = ""
    container: str = ""
    common: Mapping[str, str] = field(default_factory=dict[str, str])


def aims(command: OwnCommand, here: Here) -> tuple[tuple[Aim, ...], ...]:
    """Return the possible targets for each selected object. An object has more than one if the user
    must choose a container; they are in the order of the manifest. Raises `NotOffered`.
    """
    if command.subject in ("always", "node"):
        label = here.common.get("NODE", "") if command.subject == "node" else ""
        found = ((Aim(clean(label), here.common),),)
    elif command.subject == "manifest":
        found = _of_manifests(here)
    elif command.subject == "image" and here.image:
        found = ((Aim(clean(here.image), {**here.common, "IMAGE": here.image}),),)
    else:
        found = tuple(_of_pod(command, pod, here) for pod in here.pods)
    if not found:
        what = "image" if command.subject == "image" else "pod"
        raise NotOffered(f"no {what} is chosen here")
    if command.subject == "node" and not here.common.get("NODE"):
        raise NotOffered(_ABSENT["NODE"])
    return tuple(_complete(command, ways) for ways in found)


def _complete(command: OwnCommand, ways: tuple[Aim, ...]) -> tuple[Aim, ...]:
    """Return the targets that have all required values. Raises `NotOffered` if there are none."""
    whole = tuple(way for way in ways if all(way.values.get(name) for name in command.needed))
    if whole:
        return whole
    missing = next(n for n in sorted(command.needed) if not ways[0].values.get(n))
    said = _ABSENT.get(missing, "{what} has no " + missing)
    raise NotOffered(said.format(what=ways[0].label or "it"))


def _of_manifests(here: Here) -> tuple[tuple[Aim, ...], ...]:
    if not here.manifests and here.pods:
        label = pod_label(here.pods[0])
        raise NotOffered(_ABSENT["MANIFEST"].format(what=label))
    if not here.manifests:
        raise NotOffered("no manifest is chosen here")
    return tuple(
        (Aim(clean(path.rpartition("/")[2]), {**here.common, "MANIFEST": path}),)
        for path in here.manifests
    )


def _of_pod(command: OwnCommand, pod: Pod, here: Here) -> tuple[Aim, ...]:
    meta = pod.metadata
    values = {
        **here.common,
        "POD_NAME": meta.name,
        "NAMESPACE": meta.namespace,
        "UID": meta.uid,
        "IP": pod.status.podIP,
        "NODE": pod.spec.nodeName or here.common.get("NODE", ""),
        "MANIFEST": here.manifest_of.get(pod_key(pod), ""),
    }
    if command.subject == "pod":
        return (Aim(pod_label(pod), values, meta.name),)
    names = container_names(pod)
    likely = here.container or default_container(pod)
    if here.container or len(here.pods) > 1:
        names = [name for name in names if name == likely] or names[:1]
    ways = [_of_container(pod, name, values, likely=name == likely) for name in names]
    if command.subject == "image":
        # List each image once, independent of the containers that use it.
        ways = list({way.values["IMAGE"]: way for way in reversed(ways)}.values())[::-1]
        ways = [replace(way, label=clean(way.values["IMAGE"])) for way in ways]
    if not ways:
        raise NotOffered(f"{pod_label(pod)} has no container")
    return tuple(ways)


def _of_container(pod: Pod, name: str, values: Mapping[str, str], *, likely: bool) -> Aim:
    image = next((one.image for _, one in all_containers(pod) if one.name == name), "")
    status = next((one for one in container_statuses(pod) if one.name == name), None)
    identity = status.containerID if status is not None else ""
    more = {
        "CONTAINER": name,
        "CONTAINER_ID": (identity or "").rpartition("//")[2],
        "IMAGE": image,
    }
    label = f"{clean(name)} of {pod_label(pod)}"
    return Aim(label, {**values, **more}, pod.metadata.name, likely)
