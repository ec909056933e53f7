"""A full description of containers: state, image, ports, mounts, probes, variables, permissions."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from podtui.api.pods import container_statuses, is_sidecar
from podtui.api.printing import ending
from podtui.api.v1 import (
    Container,
    ContainerStatus,
    EnvVar,
    EphemeralContainer,
    Pod,
    Probe,
    SecurityContext,
    VolumeMount,
)
from podtui.tui.views.pod_status import GLYPHS, Family
from podtui.tui.widgets.cells import Line, Span, sized
from podtui.tui.widgets.format import ago, plural
from podtui.tui.widgets.sanitize import clean

KEY = 12
_INDENT = "  "


def pair(key: str, *spans: Span, indent: str = "") -> Line:
    """Return a line with a key and its value in separate columns."""
    return (Span(f"{indent}{key:<{KEY}} ", "key"), *spans)


def container_lines(
    pod: Pod, containers: Sequence[Container | EphemeralContainer], now: float
) -> list[Line]:
    """Return a block of lines for each of ``containers``, separated by blank lines."""
    statuses = {one.name: one for one in container_statuses(pod)}
    lines: list[Line] = []
    for container in containers:
        if lines:
            lines.append(())
        lines += _container(container, statuses.get(container.name), now)
    return lines


def _container(
    container: Container | EphemeralContainer, status: ContainerStatus | None, now: float
) -> list[Line]:
    family, words = _state(status, now)
    if isinstance(container, EphemeralContainer):
        target = container.targetContainerName
        side = f" · beside {clean(target)}" if target else ""
    else:
        side = " · sidecar" if is_sidecar(container) else ""
    lines: list[Line] = [
        (
            Span(f"{_INDENT}{GLYPHS[family]} ", family.value),
            Span(sized(clean(container.name), KEY) + " ", "name"),
            Span(words, family.value),
            Span(side, "muted"),
        )
    ]

    def add(key: str, text: str, tone: str = "") -> None:
        if text:
            lines.append(pair(key, Span(clean(text), tone), indent=_INDENT * 2))

    add("image", f"{container.image}{_policy(container.imagePullPolicy)}")
    if status is not None:
        add("", short_id(status.imageID), "muted")
        add("id", short_id(status.containerID), "muted")
        waiting = status.state.waiting
        add("waits", waiting.message if waiting is not None else "", "warning")
        ended = status.state.terminated
        add("said", ended.message.strip() if ended is not None else "", "warning")
        add("last time", _last(status, now), "warning")
    add("command", shlex.join((*container.command, *container.args)), "soft")
    add("directory", container.workingDir, "soft")
    add("ports", ", ".join(_port(p.containerPort, p.protocol, p.hostPort, p.name)
                           for p in container.ports))  # fmt: skip
    add("requests", _resources(container.resources.requests))
    add("limits", _resources(container.resources.limits))
    add("startup", probe_text(container.startupProbe), "soft")
    add("readiness", probe_text(container.readinessProbe), "soft")
    add("liveness", probe_text(container.livenessProbe), "soft")
    add("mounts", ", ".join(map(mount_text, container.volumeMounts)), "soft")
    add("env", env_text(container), "soft")
    add("security", security_text(container.securityContext), "soft")
    return lines


def _state(status: ContainerStatus | None, now: float) -> tuple[Family, str]:
    if status is None:
        return Family.PENDING, "not created"
    again = f" · {plural(status.restartCount, 'restart')}" if status.restartCount else ""
    state = status.state
    if state.running is not None:
        since = ago(state.running.startedAt, now)
        ready = "ready" if status.ready else "not ready"
        family = Family.RUNNING if status.ready else Family.UNREADY
        return family, f"running{f' since {since}' if since else ''} · {ready}{again}"
    if state.terminated is not None:
        ended = state.terminated
        family = Family.COMPLETED if ended.exitCode == 0 else Family.ERROR
        word = clean(ending(ended))
        return family, f"{word}, exit code {ended.exitCode} {ago(ended.finishedAt, now)}{again}"
    reason = clean(state.waiting.reason) if state.waiting is not None else ""
    fine = reason in ("", "ContainerCreating", "PodInitializing")
    return (Family.PENDING if fine else Family.ERROR), (reason or "waiting") + again


def _last(status: ContainerStatus, now: float) -> str:
    ended = status.lastState.terminated
    if ended is None:
        return ""
    message = f": {ended.message.strip()}" if ended.message.strip() else ""
    return f"{ending(ended)}, exit code {ended.exitCode} {ago(ended.finishedAt, now)}{message}"


def _policy(policy: str) -> str:
    words = {"Always": "always pulled", "Never": "never pulled"}
    return f" · {words[policy]}" if policy in words else ""


def short_id(identity: str) -> str:
    """Return the ID cut to 12 digits, which engines accept, such as ``docker://0123456789ab``."""
    head, mark, tail = identity.rpartition("sha256:" if "sha256:" in identity else "://")
    return f"{head}{mark}{tail[:12]}"


def _port(port: int, protocol: str, host: int | None, name: str) -> str:
    outside = f" ← host {host}" if host else ""
    return f"{f'{name} ' if name else ''}{port}/{protocol or 'TCP'}{outside}"


def mount_text(mount: VolumeMount) -> str:
    """Return a text such as ``/data ← data/sub (read-only)``."""
    sub = mount.subPath or mount.subPathExpr
    return f"{mount.mountPath} ← {mount.name}{f'/{sub}' if sub else ''}" + (
        " (read-only)" if mount.readOnly else ""
    )


def env_text(container: Container | EphemeralContainer) -> str:
    """Return the names of variables and the sources of their values. Values are never included,
    because they may be secret.
    """
    parts = [f"{one.name}{_source(one)}" for one in container.env]
    for source in container.envFrom:
        kind, ref = (
            ("secret", source.secretRef) if source.secretRef else ("configMap", source.configMapRef)
        )
        prefix = f"{source.prefix}*" if source.prefix else "all"
        parts.append(f"{prefix} ← {kind} {ref.name if ref is not None else ''}")
    return ", ".join(parts)


def _source(variable: EnvVar) -> str:
    source = variable.valueFrom
    if source is None:
        return ""
    if source.secretKeyRef is not None:
        return f" ← secret {source.secretKeyRef.name}/{source.secretKeyRef.key}"
    if source.configMapKeyRef is not None:
        return f" ← configMap {source.configMapKeyRef.name}/{source.configMapKeyRef.key}"
    if source.fieldRef is not None:
        return f" ← {source.fieldRef.fieldPath}"
    if source.resourceFieldRef is not None:
        return f" ← {source.resourceFieldRef.resource}"
    return " ← a file"


def security_text(context: SecurityContext | None) -> str:
    """Return the permissions that differ from those of an ordinary container."""
    if context is None:
        return ""
    capabilities = context.capabilities
    parts: Iterable[str] = (
        "privileged" if context.privileged else "",
        f"user {context.runAsUser}" if context.runAsUser is not None else "",
        f"group {context.runAsGroup}" if context.runAsGroup is not None else "",
        "not root" if context.runAsNonRoot else "",
        "read-only root" if context.readOnlyRootFilesystem else "",
        "no new privileges" if context.allowPrivilegeEscalation is False else "",
        *(f"+{name}" for name in (capabilities.add if capabilities else ())),
        *(f"-{name}" for name in (capabilities.drop if capabilities else ())),
        f"seccomp {context.seccompProfile.type}" if context.seccompProfile else "",
        f"apparmor {context.appArmorProfile.type}" if context.appArmorProfile else "",
    )
    return ", ".join(part for part in parts if part)


def _resources(amounts: dict[str, str]) -> str:
    return " · ".join(f"{name} {amount}" for name, amount in sorted(amounts.items()))


def probe_text(probe: Probe | None) -> str:
    """Return the check, its period, its timeout and its failure threshold."""
    if probe is None:
        return ""
    what = "probe"
    if probe.exec is not None:
        what = f"exec {shlex.join(probe.exec.command)}"
    elif probe.httpGet is not None:
        get = probe.httpGet
        what = f"{(get.scheme or 'http').lower()} :{get.port}{get.path or '/'}"
    elif probe.tcpSocket is not None:
        what = f"tcp :{probe.tcpSocket.port}"
    elif probe.grpc is not None:
        what = f"grpc :{probe.grpc.port}"
    delay = f"after {probe.initialDelaySeconds}s, " if probe.initialDelaySeconds else ""
    return (
        f"{what}, {delay}every {probe.periodSeconds or 10}s, time-out {probe.timeoutSeconds or 1}s,"
        f" fails at {probe.failureThreshold or 3}"
    )
