"""Warnings, once per pod, for requested features that this version does not support."""

from __future__ import annotations

from podtui.api.pods import all_containers
from podtui.api.v1 import Pod
from podtui.kubelet.base.config import STOP_SIGNALS
from podtui.kubelet.containers.container_config import stop_signal
from podtui.kubelet.containers.hooks import Hooks, NoHooks
from podtui.kubelet.prober.probing import NoProbes, Probes
from podtui.kubelet.volumes.pod_volumes import OWN_DIRECTORY, used_volumes, volume_type


def not_done(
    pod: Pod, *, probes: Probes, hooks: Hooks, stop_signals: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return (reason, message) of Warning events on the pod. ``stop_signals``: the gate is on."""
    found: list[tuple[str, str]] = []
    containers = [container for _, container in all_containers(pod)]
    if isinstance(probes, NoProbes) and any(
        container.startupProbe or container.livenessProbe or container.readinessProbe
        for container in containers
    ):
        found.append(("ProbesNotRun", "probes are not run by this version"))
    if isinstance(hooks, NoHooks) and any(
        container.lifecycle and (container.lifecycle.postStart or container.lifecycle.preStop)
        for container in containers
    ):
        found.append(("HooksNotRun", "postStart and preStop hooks are not run by this version"))
    if not stop_signals:
        for container in containers:
            if stop_signal(container):
                text = f"lifecycle.stopSignal of container {container.name} has no effect"
                text += f": the feature gate {STOP_SIGNALS} is off"
                found.append(("NotSupported", text))
    for volume in used_volumes(pod):
        kind = volume_type(volume)
        if kind != "hostPath" and kind not in OWN_DIRECTORY:
            text = f'volumes of type {kind} are not supported: the pod waits for "{volume.name}"'
            found.append(("NotSupported", text))
    return tuple(found)
