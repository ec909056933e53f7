"""Rules for containers of the three kinds: regular, init and ephemeral."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import (
    Container,
    ContainerPort,
    EphemeralContainer,
    PodSpec,
    ResourceRequirements,
)
from podtui.manifest.validation import (
    environment,
    formats,
    handlers,
    mounts,
    resources,
    restarts,
    security,
)
from podtui.manifest.validation.context import AnyContainer, PodContext
from podtui.manifest.validation.errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_found,
    not_supported,
    reported_at,
    required,
)

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_HOOKS_AND_PROBES: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NO_RESOURCES: Final = ResourceRequirements()
_NOT_EPHEMERAL: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")


def _common(container: AnyContainer, pod: PodContext, path: str) -> Errors:
    if container.name:
        problems = formats.dns_label(container.name)
        yield from invalid_each(f"{path}.name", container.name, problems)
    else:
        yield required(f"{path}.name")
    if not container.image:
        yield required(f"{path}.image")
    here, policy = f"{path}.terminationMessagePolicy", container.terminationMessagePolicy
    if not policy:
        yield required(here)
    elif policy not in MESSAGE_POLICIES:
        yield not_supported(here, policy, MESSAGE_POLICIES)
    yield from _ports(container.ports, f"{path}.ports")
    yield from environment.variables(container.env, f"{path}.env")
    yield from environment.sources(container.envFrom, f"{path}.envFrom")
    yield from mounts.mounts(container, pod.volumes, f"{path}.volumeMounts")
    yield from mounts.devices(container, pod.volumes, f"{path}.volumeDevices")
    yield from pull_policy(container.imagePullPolicy, f"{path}.imagePullPolicy")
    here = f"{path}.resources"
    yield from resources.requirements(container.resources, here, pod.claim_names)
    here = f"{path}.resizePolicy"
    yield from restarts.resize(container.resizePolicy, pod.restart_policy, here)
    yield from security.container_context(
        container.securityContext, f"{path}.securityContext", host_users=pod.host_users
    )


def _ports(ports: tuple[ContainerPort, ...], path: str) -> Errors:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        if port.name:
            problems = formats.port_name(port.name)
            yield from invalid_each(f"{here}.name", port.name, problems)
            if not problems and port.name in names:
                yield duplicate(f"{here}.name", port.name)
            names.add(port.name)
        if not port.containerPort:
            yield required(f"{here}.containerPort")
        else:
            problems = formats.port_number(port.containerPort)
            yield from invalid_each(f"{here}.containerPort", port.containerPort, problems)
        if port.hostPort:
            problems = formats.port_number(port.hostPort)
            yield from invalid_each(f"{here}.hostPort", port.hostPort, problems)
        if not port.protocol:
            yield required(f"{here}.protocol")
        elif port.protocol not in PROTOCOLS:
            yield not_supported(f"{here}.protocol", port.protocol, PROTOCOLS)


def _host_ports(container: AnyContainer, taken: set[str], path: str) -> Errors:
    """Adds the container's host ports to ``taken``."""
    for index, port in enumerate(container.ports):
        if not port.hostPort:
            continue
        key = f"{port.protocol}/{port.hostIP}/{port.hostPort}"
        if key in taken:
            yield duplicate(f"{path}.ports[{index}].hostPort", key)
        taken.add(key)


def _long_running(container: Container, pod: PodContext, path: str) -> Errors:
    """Check hooks and probes, which only regular containers and sidecars have."""
    if container.lifecycle is not None:
        yield from handlers.lifecycle(
            container.lifecycle, f"{path}.lifecycle", pod.grace_seconds, pod.os_name
        )
    yield from handlers.killing_probe(container.livenessProbe, f"{path}.livenessProbe")
    yield from handlers.readiness_probe(container.readinessProbe, f"{path}.readinessProbe")
    yield from handlers.killing_probe(container.startupProbe, f"{path}.startupProbe")


def regular(spec: PodSpec, pod: PodContext, path: str) -> Errors:
    if not spec.containers:
        yield required(path)
        return
    names: set[str] = set()
    for index, container in enumerate(spec.containers):
        here = f"{path}[{index}]"
        yield from _common(container, pod, here)
        if container.name in names:
            yield duplicate(f"{here}.name", container.name)
        names.add(container.name)
        yield from _long_running(container, pod, here)
        yield from restarts.container_policy(container, here, init=False)
    taken: set[str] = set()
    for index, container in enumerate(spec.containers):
        yield from _host_ports(container, taken, f"{path}[{index}]")


def init(spec: PodSpec, pod: PodContext, path: str) -> Errors:
    names = {container.name for container in spec.containers}
    for index, container in enumerate(spec.initContainers):
        here = f"{path}[{index}]"
        yield from _common(container, pod, here)
        yield from restarts.container_policy(container, here, init=True)
        if container.name in names:
            yield duplicate(f"{here}.name", container.name)
        elif container.name:
            names.add(container.name)
        # Init containers run one after the other, so only a container's own ports can collide;
        # the API server always names the first one.
        yield from reported_at(_host_ports(container, set(), here), here, f"{path}[0]")
        if container.restartPolicy == "Always":
            yield from _long_running(container, pod, here)
        else:
            yield from _run_once(container, here)
        yield from restarts.init_resize(container, here)


def _run_once(container: Container, path: str) -> Errors:
    for name in _HOOKS_AND_PROBES:
        if getattr(container, name) is not None:
            yield forbidden(
                f"{path}.{name}",
                "may not be set for init containers without restartPolicy=Always",
            )


def ephemeral(spec: PodSpec, pod: PodContext, path: str) -> Errors:
    others = [container.name for container in (*spec.containers, *spec.initContainers)]
    names = set(others)
    for index, container in enumerate(spec.ephemeralContainers):
        here = f"{path}[{index}]"
        yield from _common(container, pod, here)
        yield from unpadded(container.image, f"{here}.image")
        if container.name in names:
            yield duplicate(f"{here}.name", container.name)
        names.add(container.name)
        target = container.targetContainerName
        if target and target not in others:
            yield not_found(f"{here}.targetContainerName", target, others)
        yield from _ephemeral_container(container, here)


def _ephemeral_container(container: EphemeralContainer, path: str) -> Errors:
    why = "cannot be set for an Ephemeral Container"
    for name in _NOT_EPHEMERAL:
        value: object = getattr(container, name)
        # Empty resources are the decoded value of an absent field.
        unset = value is None or value in ("", ()) or value == _NO_RESOURCES
        if not unset:
            yield forbidden(f"{path}.{name}", why)
    for index, mount in enumerate(container.volumeMounts):
        here = f"{path}.volumeMounts[{index}]"
        if mount.subPath:
            yield forbidden(f"{here}.subPath", why)
        if mount.subPathExpr:
            yield forbidden(f"{here}.subPathExpr", why)


def pull_policy(policy: str, path: str) -> Errors:
    if not policy:
        yield required(path)
    elif policy not in PULL_POLICIES:
        yield not_supported(path, policy, PULL_POLICIES)


def unpadded(image: str, path: str) -> Errors:
    if image != image.strip():
        yield invalid(path, image, "must not have leading or trailing whitespace")
