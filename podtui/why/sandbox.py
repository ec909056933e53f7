"""Causes of a missing sandbox: volumes, ports and runtimes (kubelet.md §6.4, §10.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from podtui.api.events import last_seen
from podtui.api.places import Path
from podtui.api.pods import is_finished, run_began
from podtui.api.times import epoch
from podtui.api.v1 import Event
from podtui.editing.source import Source
from podtui.why.admission import move_port
from podtui.why.cases import condition, newest, pod_events
from podtui.why.container_config import denied_advice, denied_values, missing_document
from podtui.why.starting import PORT_TEXTS, port_values, taken_port
from podtui.why.types import Facts, Fix, Match, Rule

_DOCS = "https://kubernetes.io/docs/"
_VOLUME = re.compile(r'for volume "([^"]+)" : (.*)', re.DOTALL)
_TYPE = re.compile(r"hostPath type check failed: (.+) is not (a .+)$")
_DOCUMENT = re.compile(r'(configmap|secret) "?([^"\s]+)"? not found')
_FAILED = re.compile(r"failed to process volumes=\[([^\s\]]+)")
_NO_CLASS = re.compile(r'runtimeclass\.node\.k8s\.io "([^"]+)" not found')
_NO_RUNTIME = re.compile(r'no runtime for "([^"]+)" is configured')
_RUNTIMES = re.compile(r"; runtimes of the engine: (.+)$")
_UNBOUND = re.compile(r"error processing PVC (?:([^/\s]+)/)?(\S+): PVC is not bound")
_NO_DRIVER = re.compile(r"driver name (\S+) not found in the list of registered CSI drivers")
_TOKEN = re.compile(r"failed to fetch token: (.+)", re.DOTALL)
_NO_ACCOUNT = re.compile(r'serviceaccounts? "([^"]+)" not found')
_CREATES = {"Directory": "DirectoryOrCreate", "File": "FileOrCreate"}
_FRESH_SECONDS = 450.0
"""A failed mount is retried after two minutes at the latest, and of events that repeat the kubelet
records one in five minutes; an older failure is resolved."""


# --- volumes


def _before_sandbox(facts: Facts, event: Event) -> bool:
    """Return whether the pod has had no sandbox since ``event``.

    Kubelets before 1.29 do not report the condition; then a container that started later, or that
    is running, proves that there was a sandbox.
    """
    ready = condition(facts, "PodReadyToStartContainers")
    if is_finished(facts.pod):
        return False
    if ready:
        return ready != "True"
    seen = epoch(last_seen(event))
    statuses = (*facts.pod.status.initContainerStatuses, *facts.pod.status.containerStatuses)
    for status in statuses:
        ended = status.state.terminated or status.lastState.terminated
        began = epoch(run_began(ended)) if ended is not None else None
        if status.state.running is not None or (began and (seen is None or began > seen)):
            return False
    return True


def _mount(facts: Facts) -> tuple[str, str, Path] | None:
    """Return the name of the volume that cannot be mounted, the error, and its path in the
    manifest."""
    event = newest(pod_events(facts, "FailedMount"))
    if event is None or not _before_sandbox(facts, event):
        return None
    seen = epoch(last_seen(event))
    later = newest(pod_events(facts, "FailedMount", "FailedCreatePodSandBox"))
    if later is not event or (seen is not None and facts.now - seen > _FRESH_SECONDS):
        return None
    match, foreign = _VOLUME.search(event.message), _FAILED.search(event.message)
    name = match[1] if match else foreign[1] if foreign else ""
    index = next((i for i, v in enumerate(facts.pod.spec.volumes) if v.name == name), None)
    path: Path = ("spec", "volumes") if index is None else ("spec", "volumes", index)
    return name, match[2] if match else event.message, path


def _within(volume: Path, *steps: str) -> Path:
    """Return the path of a field of a volume, or ``volume`` itself if the manifest does not have
    it."""
    return (*volume, *steps) if _is_volume_field(volume) else volume


def _is_volume_field(field: Path) -> bool:
    return field[:2] == ("spec", "volumes") and len(field) > 2


def _host_path(facts: Facts) -> Match | None:
    mount = _mount(facts)
    match = _TYPE.search(mount[1]) if mount is not None else None
    if mount is None or match is None:
        return None
    values = {"volume": mount[0], "path": match[1], "wanted": match[2]}
    return Match(values, _within(mount[2], "hostPath", "type"))


def _create_path(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    if match.field is None or not _is_volume_field(match.field):
        return
    volume = facts.pod.spec.volumes[int(match.field[2])]
    kind = volume.hostPath.type if volume.hostPath is not None else ""
    if kind in _CREATES:
        other = _CREATES[kind]
        note = "A missing path is created empty; an existing path of another type is kept."
        yield Fix(f"Create it: type {other}", source.set(match.field, other), note)
    edit = source.remove(match.field)
    if edit is not None:
        yield Fix("Remove the type: no check", (edit,), "The engine may create a directory there.")


def _volume_document(facts: Facts) -> Match | None:
    mount = _mount(facts)
    match = _DOCUMENT.search(mount[1]) if mount is not None else None
    if mount is None or match is None:
        return None
    kind = {"configmap": "ConfigMap", "secret": "Secret"}[match[1]]
    field = {"ConfigMap": ("configMap", "name"), "Secret": ("secret", "secretName")}[kind]
    name = match[2].rpartition("/")[2]
    values = {"name": name, "volume": mount[0], **missing_document(facts, kind)}
    return Match(values, _within(mount[2], *field))


def _start_without(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    if match.field is not None and _is_volume_field(match.field):
        path = (*match.field[:-1], "optional")
        edits = source.set(path, True, after=str(match.field[-1]))
        yield Fix("Start without it: optional true", edits, "The volume is then empty.")


def _no_driver(facts: Facts) -> Match | None:
    mount = _mount(facts)
    match = _NO_DRIVER.search(mount[1]) if mount is not None else None
    if mount is None or match is None:
        return None
    return Match({"volume": mount[0], "driver": match[1]}, mount[2])


def _token(facts: Facts) -> Match | None:
    """Match a service-account token that the API server does not issue."""
    mount = _mount(facts)
    match = _TOKEN.search(mount[1]) if mount is not None else None
    if match is None:
        return None
    text, meta = match[1].rstrip("."), facts.pod.metadata
    account = facts.pod.spec.serviceAccountName or "default"
    missing = _NO_ACCOUNT.search(text)
    advice = denied_advice(text) if " is forbidden: " in text else ""
    if missing is not None:
        advice = f"Create it: kubectl create serviceaccount {missing[1]} -n {meta.namespace}."
    return Match({"account": account, "text": text, "advice": advice})


def _denied(facts: Facts) -> Match | None:
    mount = _mount(facts)
    values = denied_values(mount[1]) if mount is not None else None
    if mount is None or values is None:
        return None
    return Match({"volume": mount[0], **values}, mount[2])


def _unbound(facts: Facts) -> Match | None:
    mount = _mount(facts)
    match = _UNBOUND.search(mount[1]) if mount is not None else None
    if mount is None or match is None:
        return None
    values = {"volume": mount[0], "claim": match[2], "namespace": facts.pod.metadata.namespace}
    return Match(values, _within(mount[2], "persistentVolumeClaim", "claimName"))


def _volume(facts: Facts) -> Match | None:
    mount = _mount(facts)
    if mount is None:
        return None
    return Match({"volume": mount[0], "text": mount[1].rstrip(".")}, mount[2])


# --- the sandbox


def _sandbox(facts: Facts) -> str:
    event = newest(pod_events(facts, "FailedCreatePodSandBox"))
    if event is None or not _before_sandbox(facts, event):
        return ""
    return event.message.removeprefix("Failed to create pod sandbox: ")


def _sandbox_port(facts: Facts) -> Match | None:
    text = _sandbox(facts)
    if not any(hint in text for hint in PORT_TEXTS):
        return None
    port = taken_port(facts, text)
    return Match(port_values(facts, port, text), port.path if port else None)


def _other_port(facts: Facts, match: Match, source: Source) -> Iterator[Fix | None]:
    port = taken_port(facts, match.values["text"])
    if port is not None:
        yield from move_port(facts, port, source)


def _devices(facts: Facts) -> Match | None:
    event = newest(pod_events(facts, "FailedPrepareDynamicResources"))
    if event is None or not _before_sandbox(facts, event):
        return None
    return Match({"text": event.message.removeprefix("Failed to prepare dynamic resources: ")})


def _no_class(facts: Facts) -> Match | None:
    return _no_handler(facts, _NO_CLASS)


def _no_runtime(facts: Facts) -> Match | None:
    return _no_handler(facts, _NO_RUNTIME)


def _no_handler(facts: Facts, pattern: re.Pattern[str]) -> Match | None:
    text = _sandbox(facts)
    name = pattern.search(text)
    if name is None:
        return None
    runtimes = _RUNTIMES.search(text)
    offer = f" The engine has the runtimes {runtimes[1]}." if runtimes else ""
    return Match({"name": name[1], "class": facts.pod.spec.runtimeClassName, "offer": offer})


def _no_sandbox(facts: Facts) -> Match | None:
    text = _sandbox(facts)
    return Match({"text": text}) if text else None


SANDBOX: tuple[Rule[Facts], ...] = (
    Rule(
        id="HostPathKind",
        match=_host_path,
        title="The volume {volume} needs {wanted} at {path} on this machine, and there is none.",
        brief="hostPath {path}: not {wanted}",
        sentences=("No container starts before all volumes are set up.",),
        advice="Create it, correct the path, or change the type.",
        events=("FailedMount",),
        fixes=_create_path,
        docs=_DOCS + "concepts/storage/volumes/#hostpath",
    ),
    Rule(
        id="VolumeDocumentMissing",
        match=_volume_document,
        title="The volume {volume} needs the {kind} {name}, which {lack}.",
        brief="no {kind} {name}",
        advice="{remedy}.",
        events=("FailedMount",),
        fixes=_start_without,
        docs=_DOCS + "tasks/configure-pod-container/configure-pod-configmap/",
    ),
    Rule(
        id="TokenRefused",
        match=_token,
        title="The API server issues no token for its service account {account}: {text}.",
        brief="no token: {text}",
        sentences=("No container starts before all volumes are set up.",),
        advice="{advice}",
        field=("spec", "serviceAccountName"),
        events=("FailedMount",),
        docs=_DOCS + "concepts/security/service-accounts/",
    ),
    Rule(
        id="VolumeForbidden",
        match=_denied,
        title="The cluster does not let its node read the {kind} {name} of the volume {volume}.",
        brief="node may not read {kind} {name}",
        sentences=("A node may read only what the pods that are bound to it name.",),
        advice="{advice}",
        events=("FailedMount",),
        docs=_DOCS + "reference/access-authn-authz/node/",
    ),
    Rule(
        id="ClaimUnbound",
        match=_unbound,
        title="The claim {claim} of the volume {volume} is not bound.",
        brief="claim {claim} is not bound",
        sentences=("No container starts before all volumes are set up.",),
        advice="See what the claim waits for: kubectl describe pvc {claim} -n {namespace}",
        events=("FailedMount",),
        docs=_DOCS + "concepts/storage/persistent-volumes/#binding",
    ),
    Rule(
        id="DriverMissing",
        match=_no_driver,
        title="The CSI driver {driver} of the volume {volume} is not registered on the node.",
        brief="no CSI driver {driver}",
        sentences=("No container starts before all volumes are set up.",),
        advice="Run the driver's node plugin on this machine. It registers at a socket in"
        " plugins_registry, below pluginDir.",
        events=("FailedMount",),
        docs=_DOCS + "concepts/storage/volumes/#csi",
    ),
    Rule(
        id="VolumeFailed",
        match=_volume,
        title="The volume {volume} cannot be set up: {text}.",
        brief="volume {volume}: {text}",
        sentences=("No container starts before all volumes are set up.",),
        events=("FailedMount",),
        docs=_DOCS + "concepts/storage/volumes/",
    ),
    Rule(
        id="SandboxPortInUse",
        match=_sandbox_port,
        title="Port {port} of this machine is in use by {holder}.",
        brief="port {port} in use by {holder}",
        sentences=("The pod's network cannot be created before the port is free.",),
        advice="Stop the program that uses the port, or choose another hostPort.",
        events=("FailedCreatePodSandBox",),
        fixes=_other_port,
        docs=_DOCS + "concepts/configuration/overview/",
    ),
    Rule(
        id="DevicesFailed",
        match=_devices,
        title="The devices of its resource claims cannot be prepared: {text}.",
        brief="no devices: {text}",
        sentences=("No container starts before the pod has its devices.",),
        field=("spec", "resourceClaims"),
        events=("FailedPrepareDynamicResources",),
        docs=_DOCS + "concepts/scheduling-eviction/dynamic-resource-allocation/",
    ),
    Rule(
        id="RuntimeClassMissing",
        match=_no_class,
        title="The RuntimeClass {name} does not exist.",
        brief="no RuntimeClass {name}",
        sentences=("It chooses the runtime that runs the pod's containers.",),
        advice="Create it (kubectl apply), or remove runtimeClassName.{offer}",
        field=("spec", "runtimeClassName"),
        events=("FailedCreatePodSandBox",),
        docs=_DOCS + "concepts/containers/runtime-class/",
    ),
    Rule(
        id="RuntimeMissing",
        match=_no_runtime,
        title="The engine has no runtime {name}, the handler of the RuntimeClass {class}.",
        brief="no runtime {name}",
        advice="Add the runtime to the engine's configuration, or use another class.{offer}",
        field=("spec", "runtimeClassName"),
        events=("FailedCreatePodSandBox",),
        docs=_DOCS + "concepts/containers/runtime-class/",
    ),
    Rule(
        id="SandboxFailed",
        match=_no_sandbox,
        title="The engine cannot create the pod sandbox: {text}",
        brief="no sandbox: {text}",
        sentences=("The sandbox holds the network and the namespaces that the containers share.",),
        field=("spec",),
        events=("FailedCreatePodSandBox", "FailedPodSandBoxStatus"),
    ),
)
