"""A full description of a pod as lines, like ``kubectl describe``, with the state first."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from podtui.api.events import event_count, event_order, last_seen
from podtui.api.local import Manifest
from podtui.api.names import MIRROR_PROBLEM
from podtui.api.pods import container_statuses, is_mirror, is_sidecar
from podtui.api.printing import ending
from podtui.api.times import epoch, short_duration
from podtui.api.v1 import (
    Container,
    ContainerStatus,
    EnvVar,
    EphemeralContainer,
    Event,
    Pod,
    Probe,
    SecurityContext,
    Volume,
    VolumeMount,
)
from podtui.text.terminal_text import plural
from podtui.tui.model.usage import Usage
from podtui.tui.views.labels import manifest_message, place_of, pod_label
from podtui.tui.views.pod_status import GLYPHS, Family, pod_status_line
from podtui.tui.views.pods.drift import drift_lines, drifts
from podtui.tui.views.pulls import Pull, pull_line
from podtui.tui.views.why import titled_explanation
from podtui.tui.views.yaml_text import yaml_text
from podtui.tui.widgets.cells import Line, Span, line_width, sized, wrap
from podtui.tui.widgets.format import ago, mebibytes, millicores
from podtui.tui.widgets.sanitize import clean
from podtui.why import Facts

KEY = 12

_INDENT = "  "


def pair(key: str, *spans: Span, indent: str = "") -> Line:
    """Return a line with a key and its value in separate columns."""
    return (Span(f"{indent}{key:<{KEY}} ", "key"), *spans)


def container_lines(
    pod: Pod, containers: Sequence[Container | EphemeralContainer], now: float
) -> list[Line]:
    """Return a block of lines for each of ``containers``, separated by blank lines."""
    statuses = {status.name: status for status in container_statuses(pod)}
    lines: list[Line] = []
    for container in containers:
        if lines:
            lines.append(())
        lines += _container(container, statuses.get(container.name), now)
    return lines


def _container(
    container: Container | EphemeralContainer, status: ContainerStatus | None, now: float
) -> list[Line]:
    family, text = _state(status, now)
    if isinstance(container, EphemeralContainer):
        target = container.targetContainerName
        side = f" · targets {clean(target)}" if target else ""
    else:
        side = " · sidecar" if is_sidecar(container) else ""
    lines: list[Line] = [
        (
            Span(f"{_INDENT}{GLYPHS[family]} ", family.value),
            Span(sized(clean(container.name), KEY) + " ", "name"),
            Span(text, family.value),
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
        add("message_text", ended.message.strip() if ended is not None else "", "warning")
        add("last state", _last(status, now), "warning")
    add("command", command_text((*container.command, *container.args)), "soft")
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
        began = epoch(state.running.startedAt)
        time = f" for {short_duration(now - began)}" if began is not None else ""
        ready = "ready" if status.ready else "not ready"
        family = Family.RUNNING if status.ready else Family.UNREADY
        return family, f"running{time} · {ready}{again}"
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
    texts = {"Always": "always pulled", "Never": "never pulled"}
    return f" · {texts[policy]}" if policy in texts else ""


def command_text(tokens: Sequence[str]) -> str:
    """Return a command as a shell command on one line, with ``⏎`` for each line break: a blank in
    its place would be another command."""
    return shlex.join(tokens).replace("\n", "⏎")


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
    parts = [f"{variable.name}{_source(variable)}" for variable in container.env]
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
        what = f"exec {command_text(probe.exec.command)}"
    elif probe.httpGet is not None:
        get = probe.httpGet
        what = f"{(get.scheme or 'http').lower()} :{get.port}{get.path or '/'}"
    elif probe.tcpSocket is not None:
        what = f"tcp :{probe.tcpSocket.port}"
    elif probe.grpc is not None:
        what = f"grpc :{probe.grpc.port}"
    delay = f"after {probe.initialDelaySeconds}s, " if probe.initialDelaySeconds else ""
    return (
        f"{what}, {delay}every {probe.periodSeconds or 10}s, timeout {probe.timeoutSeconds or 1}s,"
        f" failure threshold {probe.failureThreshold or 3}"
    )


_TWO_COLUMNS = 150
"""From this width on, containers are beside the rest."""
_GAP = 3


def describe_pod(
    pod: Pod,
    *,
    events: Iterable[Event],
    manifest: Manifest | None,
    usage: Usage | None,
    now: float,
    width: int,
    pull: Pull | None = None,
    in_cluster: bool = False,
) -> list[Line]:
    """Return lines of at most ``width`` cells; ``pull`` is the pull that the pod waits for.
    ``in_cluster`` means that the agent's node belongs to a cluster."""
    events = tuple(events)
    facts = Facts(pod=pod, now=now, events=events, manifest=manifest)
    summary = _section("", _summary(facts, usage, pull, in_cluster=in_cluster), width)
    spec = pod.spec
    containers = (
        ("Init containers", container_lines(pod, spec.initContainers, now)),
        ("Containers", container_lines(pod, spec.containers, now)),
        ("Ephemeral containers", container_lines(pod, spec.ephemeralContainers, now)),
    )
    rest = (
        ("Conditions", _conditions(pod, now)),
        ("Volumes", _volumes(pod.spec.volumes)),
        ("Labels and annotations", _labels(pod)),
    )
    happened = _section("Events", _events(events, now), width)
    if width < _TWO_COLUMNS:
        return [*summary, *_sections((*containers, *rest), width), *happened]
    left = (width - _GAP) * 11 // 20
    both = _beside(_sections(containers, left), _sections(rest, width - _GAP - left), left)
    return [*summary, *both, *happened]


def _sections(parts: Iterable[tuple[str, list[Line]]], width: int) -> list[Line]:
    return [line for title, part in parts for line in _section(title, part, width)]


def _section(title: str, part: list[Line], width: int) -> list[Line]:
    """Return the wrapped lines below their title; empty if there are no lines."""
    if not part:
        return []
    head: list[Line] = [(), (Span(title, "heading"),)] if title else []
    return head + [row for line in part for row in wrap(line, width, indent=_indent_of(line))]


def _beside(left: list[Line], right: list[Line], width: int) -> list[Line]:
    return [
        (*line, Span(" " * (width + _GAP - line_width(line))), *other) if other else line
        for line, other in zip_longest(left, right, fillvalue=())
    ]


def _indent_of(line: Line) -> int:
    """Return the column of the value, where continuation lines start."""
    return len(line[0].text) if line and len(line) > 1 else 4


def _summary(
    facts: Facts, usage: Usage | None, pull: Pull | None, *, in_cluster: bool
) -> list[Line]:
    pod, manifest, now = facts.pod, facts.manifest, facts.now
    line = pod_status_line(pod, now)
    state = Span(f"{GLYPHS[line.family]} {clean(line.word)}", line.family.value)
    parts = [f"{line.ready}/{line.wanted} ready"]
    if line.restarts:
        parts.append(plural(line.restarts, "restart"))
    if pod.metadata.creationTimestamp:
        parts.append(f"created {ago(pod.metadata.creationTimestamp, now)}")
    title, explanation = titled_explanation(facts)
    lines = [
        pair("Status", state, Span(" · " + " · ".join(parts))),
        pair(title, *explanation),
        pair("Address", Span(clean(pod.status.podIP) or "-"),
              Span(f" on {clean(pod.spec.nodeName) or 'no node'}", "soft"),
              Span(f" {clean(pod.status.hostIP)}", "muted")),
        pair("Class", Span(clean(pod.status.qosClass) or "-"),
              Span(f" · restarts {clean(pod.spec.restartPolicy) or 'Always'}", "soft")),
    ]  # fmt: skip
    if pull is not None:
        lines.insert(1, pair("Image", *pull_line(pull)))
    for number, differs in enumerate(drift_lines(drifts(pod, manifest), now)):
        lines.append(pair("" if number else "Differs", *differs))
    if usage is not None:
        text = f"cpu {millicores(usage.cpu)} · memory {mebibytes(usage.memory)}"
        lines.append(pair("Uses", Span(text)))
    if manifest is not None:
        lines.append(pair("Manifest", Span(clean(manifest.spec.path), "soft")))
        if manifest.status.diagnostics:
            lines.append(
                pair(
                    "",
                    Span(f"▲ {place_of(manifest)} ", "warning"),
                    Span(manifest_message(manifest)),
                )
            )
    problem = pod.metadata.annotations.get(MIRROR_PROBLEM, "")
    if problem:
        lines.append(pair("Mirror pod", Span(clean(problem), "warning")))
    elif in_cluster and is_mirror(pod):
        lines.append(pair("Mirror pod", Span("in the cluster", "soft")))
    lines.append(pair("UID", Span(clean(pod.metadata.uid), "muted")))
    return lines


def _conditions(pod: Pod, now: float) -> list[Line]:
    lines: list[Line] = []
    for condition in pod.status.conditions:
        good = condition.status == "True"
        text = clean(" ".join(part for part in (condition.reason, condition.message) if part))
        when = ago(condition.lastTransitionTime, now)
        lines.append(
            (
                Span(f"{_INDENT}{'✔' if good else '✖'} ", "good" if good else "warning"),
                Span(f"{clean(condition.type):<26} "),
                Span(f"{clean(condition.status):<6}", "soft" if good else "warning"),
                Span(f" {when:<9}", "muted"),
                Span(f" {text}", "soft"),
            )
        )
    return lines


def _volumes(volumes: Sequence[Volume]) -> list[Line]:
    lines: list[Line] = []
    for volume in volumes:
        kind = next(
            (
                field
                for field in volume.__struct_fields__
                if field != "name" and getattr(volume, field) not in (None, "", ())
            ),
            "emptyDir",
        )
        where = f" {clean(volume.hostPath.path)}" if volume.hostPath is not None else ""
        lines.append(pair(clean(volume.name), Span(f"{kind}{where}", "soft"), indent=_INDENT))
    return lines


def _labels(pod: Pod) -> list[Line]:
    pairs = [*sorted(pod.metadata.labels.items()), *sorted(pod.metadata.annotations.items())]
    return [
        (Span(f"{_INDENT}{clean(key)}", "key"), Span("=", "muted"), Span(clean(value), "soft"))
        for key, value in pairs
    ]


def _events(events: Iterable[Event], now: float) -> list[Line]:
    lines: list[Line] = []
    for event in sorted(events, key=event_order, reverse=True)[:40]:
        warning = event.type == "Warning"
        count = event_count(event)
        age = short_duration(now - (epoch(last_seen(event)) or 0.0))
        lines.append(
            (
                Span(f"{_INDENT}{age:>6} ", "muted"),
                Span(f"{f'×{count}' if count > 1 else '':<5}", "muted"),
                Span(f"{'▲' if warning else '·'} {clean(event.reason)} ",
                     "warning" if warning else "reason"),
                Span(clean(event.message.strip()), "" if warning else "soft"),
            )
        )  # fmt: skip
    return lines


def title_of(pod: Pod, now: float) -> Line:
    """Return name and state, for the header of a screen."""
    line = pod_status_line(pod, now)
    return (
        Span(f"{pod_label(pod)}  ", "name"),
        Span(f"{GLYPHS[line.family]} {clean(line.word)}", line.family.value),
        Span(f"  {line.ready}/{line.wanted} ready", "soft"),
    )


def pod_yaml(pod: Pod, *, managed: bool = False) -> str:
    """Return the pod as YAML, without ``managedFields`` unless ``managed`` is set."""
    fields: dict[str, Any] = msgspec.to_builtins(pod)
    if not managed:
        fields.get("metadata", {}).pop("managedFields", None)
    return yaml_text({"apiVersion": "v1", "kind": "Pod", **fields})
