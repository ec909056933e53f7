"""Show runtime calls as equivalent docker command lines. Pure functions.

The lines let users repeat a call by hand; a driver may perform it in other steps. The values of
environment variables never appear in them, even where a command was expanded with them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from podtui.runtime.protocol import (
    ContainerConfig,
    Mount,
    NamespaceMode,
    PodVolume,
    PortMapping,
    Resources,
    SandboxConfig,
)

HIDDEN: Final = "***"
SHORT: Final = 12
"""Number of characters of a shortened id."""
_SECRET_LENGTH: Final = 4
"""Shorter values are too common to be distinguished from ordinary text."""
_LONGEST: Final = 4000


def short(engine_id: str) -> str:
    return engine_id.removeprefix("sha256:")[:SHORT]


def line(tokens: Iterable[str]) -> str:
    """Quote tokens as one shell line."""
    text = shlex.join(tokens)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def run_sandbox(config: SandboxConfig) -> str:
    tokens = ["docker", "run", "--detach", "--name", f"{config.name}_{config.namespace}"]
    tokens += ["--label", f"io.kubernetes.pod.uid={config.uid}"]
    if config.network is NamespaceMode.NODE:
        tokens += ["--network", "host"]
    elif config.hostname:
        tokens += ["--hostname", config.hostname]
    if config.ipc is NamespaceMode.NODE:
        tokens += ["--ipc", "host"]
    if config.pid is NamespaceMode.NODE:
        tokens += ["--pid", "host"]
    if config.dns is not None:
        tokens += _each("--dns", config.dns.servers)
        tokens += _each("--dns-search", config.dns.searches)
        tokens += _each("--dns-option", config.dns.options)
    tokens += _each("--add-host", (f"{name}:{ip}" for name, ip in config.extra_hosts))
    tokens += _each("--sysctl", (f"{name}={value}" for name, value in config.sysctls.items()))
    tokens += _each("--publish", map(_published, config.ports))
    tokens += _each("--volume", (f"{volume.name}:/{volume.name}" for volume in config.volumes))
    if config.privileged:
        tokens.append("--privileged")
    if config.runtime_handler:
        tokens += ["--runtime", config.runtime_handler]
    return line([*tokens, "pause"])


def create_container(sandbox_id: str, config: ContainerConfig) -> str:
    sandbox = f"container:{short(sandbox_id)}"
    name = f"{config.pod_name}_{config.pod_namespace}_{config.name}_{config.attempt}"
    tokens = ["docker", "create", "--name", name, "--network", sandbox, "--ipc", sandbox]
    if config.pid is NamespaceMode.POD:
        tokens += ["--pid", sandbox]
    elif config.pid is NamespaceMode.NODE:
        tokens += ["--pid", "host"]
    elif config.target_container_id:
        tokens += ["--pid", f"container:{short(config.target_container_id)}"]
    tokens += _each("--env", (f"{name}={HIDDEN}" for name, _ in config.env))
    tokens += _each("--volume", map(_mounted, config.mounts))
    tokens += _limits(config.resources)
    tokens += _security(config)
    if config.working_dir:
        tokens += ["--workdir", config.working_dir]
    if config.stop_signal:
        tokens += ["--stop-signal", config.stop_signal]
    tokens += ["--interactive"] * config.stdin + ["--tty"] * config.tty
    command = list(_masked(config.command or (), config.env))
    arguments = _masked(config.args or (), config.env)
    if command:
        tokens += ["--entrypoint", command[0]]
    return line([*tokens, config.image, *command[1:], *arguments])


def update_container(container_id: str, resources: Resources) -> str:
    return line(["docker", "update", *_limits(resources), short(container_id)])


def start(engine_id: str) -> str:
    return line(["docker", "start", short(engine_id)])


def stop(engine_id: str, grace: float | None = None) -> str:
    time = [] if grace is None else ["--time", str(round(grace))]
    return line(["docker", "stop", *time, short(engine_id)])


def remove(engine_id: str) -> str:
    return line(["docker", "rm", "--force", "--volumes", short(engine_id)])


def remove_pod_data(uid: str) -> str:
    label = shlex.quote(f"label=io.kubernetes.pod.uid={uid}")
    return f"docker volume rm $(docker volume ls --quiet --filter {label})"


def remove_host_directory(path: str) -> str:
    return line(["rm", "-r", path])


def write_volume(sandbox_id: str, volume: PodVolume) -> str:
    return line(["docker", "cp", f"./{volume.name}/.", f"{short(sandbox_id)}:/{volume.name}"])


def fill_volume(sandbox_id: str, volume: str, image_id: str) -> str:
    target = shlex.quote(f"{short(sandbox_id)}:/{volume}")
    return f"docker cp $(docker create {short(image_id)} none):/. - | docker cp - {target}"


def pull(image: str) -> str:
    return line(["docker", "pull", image])


def remove_image(image_id: str) -> str:
    return line(["docker", "rmi", short(image_id)])


def execute(container_id: str, command: Sequence[str], *, stdin: bool, tty: bool) -> str:
    flags = ["--interactive"] * stdin + ["--tty"] * tty
    return line(["docker", "exec", *flags, short(container_id), *command])


def attach(container_id: str, *, stdin: bool) -> str:
    return line(["docker", "attach", *["--no-stdin"] * (not stdin), short(container_id)])


def copy_out(container_id: str, path: str) -> str:
    return line(["docker", "cp", f"{short(container_id)}:{path}", "."])


def copy_in(container_id: str, directory: str) -> str:
    return line(["docker", "cp", "-", f"{short(container_id)}:{directory}"])


def _each(option: str, values: Iterable[str]) -> Iterator[str]:
    for value in values:
        yield from (option, value)


def _published(port: PortMapping) -> str:
    host = f"{port.host_ip}:" if port.host_ip else ""
    return f"{host}{port.host_port}:{port.container_port}/{port.protocol.lower()}"


def _mounted(mount: Mount) -> str:
    nfs = f"{mount.nfs.server}:{mount.nfs.path}" if mount.nfs is not None else ""
    source = nfs or mount.host_path or mount.volume
    if mount.sub_path:
        source = f"{source}/{mount.sub_path}"
    return f"{source}:{mount.container_path}{':ro' if mount.read_only else ''}"


def _limits(resources: Resources) -> Iterator[str]:
    for option, value in (
        ("--cpu-shares", resources.cpu_shares),
        ("--cpu-quota", resources.cpu_quota),
        ("--cpu-period", resources.cpu_period),
        ("--memory", resources.memory),
        ("--pids-limit", resources.pids),
    ):
        if value:
            yield from (option, str(value))


def _security(config: ContainerConfig) -> Iterator[str]:
    security = config.security
    if security.user:
        yield from ("--user", security.user)
    yield from _each("--group-add", map(str, security.groups))
    yield from _each("--cap-add", security.add_capabilities)
    yield from _each("--cap-drop", security.drop_capabilities)
    if security.privileged:
        yield "--privileged"
    if security.read_only_rootfs:
        yield "--read-only"
    if security.no_new_privileges:
        yield from ("--security-opt", "no-new-privileges")


def _masked(tokens: Iterable[str], env: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Replace the values that ``$(NAME)`` may have inserted into the tokens."""
    values = sorted({v for _, v in env if len(v) >= _SECRET_LENGTH}, key=len, reverse=True)
    for token in tokens:
        for value in values:
            token = token.replace(value, HIDDEN)
        yield token
