"""A pod told in full, as lines: what ``kubectl describe`` says, the state of things first."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from podtui.api.local import Manifest
from podtui.api.pods import is_sidecar
from podtui.api.printing import ending
from podtui.api.times import short_duration
from podtui.api.v1 import Container, ContainerStatus, Event, Pod, Probe, Volume
from podtui.tui.cells import Line, Span, sized, wrap
from podtui.tui.format import epoch, mebibytes, millicores, plural
from podtui.tui.pod_status import GLYPHS, Family, pod_status_line
from podtui.tui.rows import event_count, last_seen, manifest_message, place_of, pod_label
from podtui.tui.sanitize import clean
from podtui.tui.usage import Usage
from podtui.tui.why import explain_pod

KEY = 12
_INDENT = "  "


def describe_pod(
    pod: Pod,
    *,
    events: Iterable[Event],
    manifest: Manifest | None,
    usage: Usage | None,
    now: float,
    width: int,
) -> list[Line]:
    """Lines of at most ``width`` cells."""
    lines: list[Line] = []
    for title, part in (
        ("", _summary(pod, manifest, usage, now)),
        ("Init containers", _containers(pod, pod.spec.initContainers, now)),
        ("Containers", _containers(pod, pod.spec.containers, now)),
        ("Conditions", _conditions(pod, now)),
        ("Volumes", _volumes(pod.spec.volumes)),
        ("Labels and annotations", _labels(pod)),
        ("Events", _events(events, now)),
    ):
        if not part:
            continue
        if title:
            lines += [(), (Span(title, "heading"),)]
        for line in part:
            lines += wrap(line, width, indent=_indent_of(line))
    return lines


def _indent_of(line: Line) -> int:
    """Where the value begins: what is wrapped goes on below it."""
    return len(line[0].text) if line and len(line) > 1 else 4


def _pair(key: str, *spans: Span, indent: str = "") -> Line:
    return (Span(f"{indent}{key:<{KEY}} ", "key"), *spans)


def _when(moment: str | None, now: float) -> str:
    seconds = epoch(moment)
    return "" if seconds is None else f"{short_duration(now - seconds)} ago"


def _summary(pod: Pod, manifest: Manifest | None, usage: Usage | None, now: float) -> list[Line]:
    line = pod_status_line(pod)
    state = Span(f"{GLYPHS[line.family]} {clean(line.word)}", line.family.value)
    parts = [f"{line.ready}/{line.wanted} ready"]
    if line.restarts:
        parts.append(plural(line.restarts, "restart"))
    if pod.metadata.creationTimestamp:
        parts.append(f"created {_when(pod.metadata.creationTimestamp, now)}")
    lines = [
        _pair("Status", state, Span(" · " + " · ".join(parts))),
        _pair("Why", *explain_pod(pod, manifest, now)),
        _pair("Address", Span(clean(pod.status.podIP) or "-"),
              Span(f" on {clean(pod.spec.nodeName) or 'no node'}", "soft"),
              Span(f" {clean(pod.status.hostIP)}", "muted")),
        _pair("Class", Span(clean(pod.status.qosClass) or "-"),
              Span(f" · restarts {clean(pod.spec.restartPolicy) or 'Always'}", "soft")),
    ]  # fmt: skip
    if usage is not None:
        text = f"cpu {millicores(usage.cpu)} · memory {mebibytes(usage.memory)}"
        lines.append(_pair("Uses", Span(text)))
    if manifest is not None:
        lines.append(_pair("Manifest", Span(clean(manifest.spec.path), "soft")))
        if manifest.status.diagnostics:
            lines.append(
                _pair(
                    "",
                    Span(f"▲ {place_of(manifest)} ", "warning"),
                    Span(manifest_message(manifest)),
                )
            )
    lines.append(_pair("UID", Span(clean(pod.metadata.uid), "muted")))
    return lines


def _containers(pod: Pod, containers: Sequence[Container], now: float) -> list[Line]:
    statuses = {
        s.name: s for s in (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    }
    lines: list[Line] = []
    for container in containers:
        if lines:
            lines.append(())
        lines += _container(container, statuses.get(container.name), now)
    return lines


def _container(container: Container, status: ContainerStatus | None, now: float) -> list[Line]:
    family, words = _state(status, now)
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
            lines.append(_pair(key, Span(clean(text), tone), indent=_INDENT * 2))

    add("image", container.image)
    if status is not None and status.containerID:
        add("id", status.containerID[:28], "muted")
    if status is not None:
        waiting = status.state.waiting
        add("waits", waiting.message if waiting is not None else "", "warning")
        ended = status.state.terminated
        add("said", ended.message.strip() if ended is not None else "", "warning")
        add("last time", _last(status, now), "warning")
    add("command", shlex.join((*container.command, *container.args)), "soft")
    add("ports", ", ".join(_port(p.containerPort, p.protocol, p.hostPort) for p in container.ports))
    add("requests", _resources(container.resources.requests))
    add("limits", _resources(container.resources.limits))
    add("liveness", probe_text(container.livenessProbe), "soft")
    add("readiness", probe_text(container.readinessProbe), "soft")
    add("startup", probe_text(container.startupProbe), "soft")
    add("mounts", ", ".join(f"{m.mountPath} ← {m.name}" for m in container.volumeMounts), "soft")
    add("env", ", ".join(e.name for e in container.env), "muted")
    return lines


def _state(status: ContainerStatus | None, now: float) -> tuple[Family, str]:
    if status is None:
        return Family.PENDING, "not created"
    again = f" · {plural(status.restartCount, 'restart')}" if status.restartCount else ""
    state = status.state
    if state.running is not None:
        since = _when(state.running.startedAt, now)
        ready = "ready" if status.ready else "not ready"
        family = Family.RUNNING if status.ready else Family.UNREADY
        return family, f"running{f' since {since}' if since else ''} · {ready}{again}"
    if state.terminated is not None:
        ended = state.terminated
        family = Family.COMPLETED if ended.exitCode == 0 else Family.ERROR
        word = clean(ending(ended))
        return family, f"{word}, exit code {ended.exitCode} {_when(ended.finishedAt, now)}{again}"
    reason = clean(state.waiting.reason) if state.waiting is not None else ""
    fine = reason in ("", "ContainerCreating", "PodInitializing")
    return (Family.PENDING if fine else Family.ERROR), (reason or "waiting") + again


def _last(status: ContainerStatus, now: float) -> str:
    ended = status.lastState.terminated
    if ended is None:
        return ""
    message = f": {ended.message.strip()}" if ended.message.strip() else ""
    return f"{ending(ended)}, exit code {ended.exitCode} {_when(ended.finishedAt, now)}{message}"


def _port(port: int, protocol: str, host: int | None) -> str:
    outside = f" ← host {host}" if host else ""
    return f"{port}/{protocol or 'TCP'}{outside}"


def _resources(amounts: dict[str, str]) -> str:
    return " · ".join(f"{name} {amount}" for name, amount in sorted(amounts.items()))


def probe_text(probe: Probe | None) -> str:
    """What is asked, how often, and after how many failures it counts."""
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


def _conditions(pod: Pod, now: float) -> list[Line]:
    lines: list[Line] = []
    for condition in pod.status.conditions:
        good = condition.status == "True"
        text = clean(" ".join(part for part in (condition.reason, condition.message) if part))
        when = _when(condition.lastTransitionTime, now)
        lines.append(
            (
                Span(f"{_INDENT}{'✔' if good else '✖'} ", "good" if good else "warning"),
                Span(f"{clean(condition.type):<26} "),
                Span(f"{condition.status:<6}", "soft" if good else "warning"),
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
        lines.append(_pair(clean(volume.name), Span(f"{kind}{where}", "soft"), indent=_INDENT))
    return lines


def _labels(pod: Pod) -> list[Line]:
    pairs = [*sorted(pod.metadata.labels.items()), *sorted(pod.metadata.annotations.items())]
    return [
        (Span(f"{_INDENT}{clean(key)}", "key"), Span("=", "muted"), Span(clean(value), "soft"))
        for key, value in pairs
    ]


def _events(events: Iterable[Event], now: float) -> list[Line]:
    lines: list[Line] = []
    for event in sorted(events, key=last_seen, reverse=True)[:40]:
        warning = event.type == "Warning"
        count = event_count(event)
        lines.append(
            (
                Span(f"{_INDENT}{short_duration(now - last_seen(event)):>6} ", "muted"),
                Span(f"{f'×{count}' if count > 1 else '':<5}", "muted"),
                Span(f"{'▲' if warning else '·'} {clean(event.reason)} ",
                     "warning" if warning else "reason"),
                Span(clean(event.message.strip()), "" if warning else "soft"),
            )
        )  # fmt: skip
    return lines


def title_of(pod: Pod) -> Line:
    """Name and state, for the head of a screen."""
    line = pod_status_line(pod)
    return (
        Span(f"{pod_label(pod)}  ", "name"),
        Span(f"{GLYPHS[line.family]} {clean(line.word)}", line.family.value),
        Span(f"  {line.ready}/{line.wanted} ready", "soft"),
    )
