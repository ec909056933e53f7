"""Build the engine's API payloads for sandboxes and containers. Pure functions.

kubelet.md §10.3 (mounts), §10.5 (command, args), §11 (network), §12 (security), §13.1
(resources), App. C.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from podtui.runtime.docker.abilities import FALLBACKS, Abilities
from podtui.runtime.docker.answers import Json
from podtui.runtime.docker.pause import POD_DIRECTORY
from podtui.runtime.protocol import (
    ContainerConfig,
    Mount,
    NamespaceMode,
    NfsShare,
    Resources,
    SandboxConfig,
    SecurityContext,
)

_MASKED: Final = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_NFS_VERSION: Final = "nfsvers=4"
_HOSTS: Final = "/etc/hosts"
_DNS_OPTIONS: Final = ("Dns", "DnsSearch", "DnsOptions")
_CPU_PERIOD: Final = 100_000
"""In microseconds; the kernel's default."""
NO_MEMORY_LIMIT: Final = (1 << 63) - 4096
"""Removes a memory limit: the engine rejects -1, and this is the maximum of the kernel's
counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSource:
    """The source of a mount: an engine volume, or a path on the engine's host.

    With ``must_exist``, a missing path is an error; otherwise the engine creates it.
    """

    volume: str = ""
    path: str = ""
    must_exist: bool = False


def volume_mount(name: str, target: str, *, read_only: bool = False) -> Json:
    """Mount an existing engine volume."""
    # NoCopy: into an empty volume, the engine would copy what the image has at this path. In
    # Kubernetes, a volume hides it.
    return {
        "Type": "volume",
        "Source": name,
        "Target": target,
        "ReadOnly": read_only,
        "VolumeOptions": {"NoCopy": True},
    }


def nfs_mount(share: NfsShare, target: str, *, read_only: bool = False, sub_path: str = "") -> Json:
    """Mount a directory of an NFS server, as an unnamed volume that goes with its container."""
    options = [f"addr={share.server}", *share.options]
    if not any(option.startswith(("vers=", "nfsvers=")) for option in options):
        # Without a helper program that negotiates, the kernel would use version 3.
        options.append(_NFS_VERSION)
    driver = {"type": "nfs", "device": f":{share.path}", "o": ",".join(options)}
    volume: Json = {"NoCopy": True, "DriverConfig": {"Name": "local", "Options": driver}}
    if sub_path:
        volume["Subpath"] = sub_path
    return {"Type": "volume", "Target": target, "ReadOnly": read_only, "VolumeOptions": volume}


def add_mounts(
    host: Json,
    config: ContainerConfig,
    sources: Mapping[Mount, MountSource],
    files: Mapping[str, str],
    abilities: Abilities,
) -> None:
    """Add a container's mounts to its host configuration.

    ``files`` maps paths in the container to the engine's paths of the files created for it.
    """
    mounts: list[Json] = []
    binds: list[str] = []
    for mount in config.mounts:
        if mount.nfs is not None:
            path, read_only = mount.container_path, mount.read_only
            mounts.append(nfs_mount(mount.nfs, path, read_only=read_only, sub_path=mount.sub_path))
            continue
        source = sources[mount]
        # Only the newer API (Mounts) can limit how deep read-only applies.
        graded = mount.read_only and abilities.recursive_read_only
        if source.volume:
            mounts.append(
                volume_mount(source.volume, mount.container_path, read_only=mount.read_only)
            )
        # A bind is one text with colons between its parts: it cannot express a path with a colon.
        elif graded or source.must_exist or ":" in source.path + mount.container_path:
            mounts.append(_bind(source, mount, graded=graded))
        else:
            # Only the older API (Binds) makes every engine create a missing path.
            options = ["ro"] if mount.read_only else ["rw"]
            if mount.propagation != "private":
                options.append(mount.propagation)
            binds.append(f"{source.path}:{mount.container_path}:{','.join(options)}")
    mounts += [
        {"Type": "bind", "Source": source, "Target": target}
        for target, source in files.items()
        if source
    ]
    if mounts:
        host["Mounts"] = mounts
    if binds:
        host["Binds"] = binds


def _bind(source: MountSource, mount: Mount, *, graded: bool) -> Json:
    bind: Json = {
        "Type": "bind",
        "Source": source.path,
        "Target": mount.container_path,
        "ReadOnly": mount.read_only,
    }
    options: Json = {}
    if mount.propagation != "private":
        # Private is the default. Set explicitly, the engine refuses paths below its own root.
        options["Propagation"] = mount.propagation
    if graded:
        recursive = mount.recursive_read_only
        options["ReadOnlyForceRecursive" if recursive else "ReadOnlyNonRecursive"] = True
        if not source.must_exist:
            options["CreateMountpoint"] = True
    if options:
        bind["BindOptions"] = options
    return bind


def host_path_source(mount: Mount) -> MountSource:
    """Return the source of a hostPath mount. Raises ValueError if the sub-path leaves it."""
    path = posixpath.normpath(mount.host_path)
    if mount.sub_path:
        sub = posixpath.normpath("/" + mount.sub_path)
        if ".." in mount.sub_path.split("/"):
            raise ValueError(f"{mount.sub_path} is outside of its volume")
        path = posixpath.join(path, sub.lstrip("/"))
    return MountSource(path=path, must_exist=mount.host_path_create == "File")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """The limits of a container's log (kubelet.md §16): at most ``files`` files of about ``size``
    bytes each, including the current one."""

    size: int = 10 * 1024 * 1024
    files: int = 5

    def options(self) -> dict[str, str]:
        """Return the options of the log driver, which compresses all but the current file."""
        options = {"max-size": str(self.size), "max-file": str(self.files)}
        return options | {"compress": "true"} if self.files > 1 else options


def sandbox_payload(
    config: SandboxConfig,
    *,
    image: str,
    labels: Mapping[str, str],
    volume: str,
    memory: Mapping[str, str],
) -> Json:
    """``memory`` maps a tmpfs volume's name to the name of its engine volume.

    The payload has no user namespace settings. An engine that remaps users gives every container a
    user namespace, as its administrator configured it. ``host_users`` does not override this: the
    files in volumes belong to the remapped users, and pods that share the host's namespaces are
    refused with the engine's message. Other engines have no user namespaces.
    """
    # The kubelet decides about restarts: an engine that restarts containers by itself would
    # interfere. IPC is shareable, because the containers of the pod join it.
    host: Json = {
        "NetworkMode": "host" if config.network is NamespaceMode.NODE else "bridge",
        "IpcMode": "host" if config.ipc is NamespaceMode.NODE else "shareable",
        "PidMode": "host" if config.pid is NamespaceMode.NODE else "",
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": {}},
        "Mounts": [
            {"Type": "volume", "Source": volume, "Target": POD_DIRECTORY},
            *(volume_mount(name, f"{POD_DIRECTORY}/volumes/{key}") for key, name in memory.items()),
        ],
    }
    if config.runtime_handler:
        host["Runtime"] = config.runtime_handler
    # Ignore ``config.privileged``: it changes nothing for the pause program.
    if config.dns is not None:
        host["Dns"] = list(config.dns.servers)
        # A single dot means no search list; an empty list would mean the engine's default.
        host["DnsSearch"] = list(config.dns.searches) or ["."]
        # Likewise, an empty option means no options.
        host["DnsOptions"] = list(config.dns.options) or [""]
    if config.extra_hosts:
        host["ExtraHosts"] = [f"{name}:{ip}" for name, ip in config.extra_hosts]
    if config.sysctls:
        host["Sysctls"] = dict(config.sysctls)
    payload: Json = {"Image": image, "Labels": dict(labels), "HostConfig": host}
    if config.network is not NamespaceMode.NODE:
        if config.hostname:
            payload["Hostname"] = config.hostname
        _publish(config, payload, host)
    return payload


def holder_payload(*, image: str, labels: Mapping[str, str], volumes: Mapping[str, str]) -> Json:
    """``volumes`` maps the names of a pod's memory volumes to their engine volumes."""
    mounts = [volume_mount(name, f"{POD_DIRECTORY}/{key}") for key, name in volumes.items()]
    return {
        "Image": image,
        "Labels": dict(labels),
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "RestartPolicy": {"Name": "no"},
            "LogConfig": {"Type": "json-file", "Config": {}},
            "Mounts": mounts,
        },
    }


def host_dns(host: Mapping[str, Any]) -> Json | None:
    """Return the DNS options of a host-network sandbox; None for other sandboxes."""
    if host.get("NetworkMode") != "host":
        return None
    return {option: host[option] for option in _DNS_OPTIONS if host.get(option)}


def _publish(config: SandboxConfig, payload: Json, host: Json) -> None:
    bindings: dict[str, list[Json]] = {}
    for port in config.ports:
        if not port.host_port:
            continue
        key = f"{port.container_port}/{port.protocol.lower()}"
        bindings.setdefault(key, []).append(
            {"HostIp": port.host_ip, "HostPort": str(port.host_port)}
        )
    if bindings:
        payload["ExposedPorts"] = {key: {} for key in bindings}
        host["PortBindings"] = bindings


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSandbox:
    """The sandbox that a container joins, as this engine needs it in the container's payload."""

    id: str
    host_ipc: bool = False
    runtime: str = ""
    """The OCI runtime of the sandbox, empty for the engine's default."""
    hostname: str = ""
    """Set for engines where joining the sandbox's network does not set it."""
    host_dns: Mapping[str, Any] | None = None
    """Set for engines that cannot join the network of a host-network sandbox: the container then
    uses the host network directly, with these DNS options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFiles:
    """The engine's volumes and paths that a container mounts. Empty paths stand for no file."""

    sources: Mapping[Mount, MountSource]
    termination: str = ""
    hosts: str = ""


def container_payload(
    config: ContainerConfig,
    sandbox: JoinedSandbox,
    files: ContainerFiles,
    *,
    labels: Mapping[str, str],
    abilities: Abilities,
    logs: LogLimits,
    seccomp_profile: str | None,
) -> tuple[Json, tuple[str, ...]]:
    """Return the payload, and warnings for requested features that the engine lacks.

    ``seccomp_profile`` is the content of the ``localhost/…`` profile.
    """
    warnings: list[str] = []
    joined = f"container:{sandbox.id}"
    network: Json = {"NetworkMode": joined}
    if sandbox.host_dns is not None:
        network = {"NetworkMode": "host", **sandbox.host_dns}
    pid = {NamespaceMode.POD: joined, NamespaceMode.NODE: "host"}.get(config.pid, "")
    if config.target_container_id:
        pid = f"container:{config.target_container_id}"
    host: Json = {
        **network,
        "IpcMode": "host" if sandbox.host_ipc else joined,
        "PidMode": pid,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": logs.options()},
    }
    if sandbox.runtime:
        host["Runtime"] = sandbox.runtime
    created = {config.termination_message_path: files.termination, _HOSTS: files.hosts}
    add_mounts(host, config, files.sources, created, abilities)
    _add_devices(host, config, abilities, warnings)
    _add_resources(host, config, abilities, warnings)
    _add_security(host, config.security, abilities, seccomp_profile, warnings)
    # What the engine cannot do is taken out, with a warning: the container runs with less instead
    # of not at all.
    for fallback in FALLBACKS:
        reduced = None if getattr(abilities, fallback.ability) else fallback.without(host)
        if reduced is not None:
            host = reduced
            warnings.append(fallback.text)
    payload: Json = {
        "Image": config.image_id,
        "Labels": dict(labels),
        "Env": [f"{name}={value}" for name, value in config.env],
        "OpenStdin": config.stdin,
        "StdinOnce": config.stdin_once,
        "Tty": config.tty,
        "HostConfig": host,
    }
    if sandbox.hostname:
        payload["Hostname"] = sandbox.hostname
    # An entrypoint without a command drops the image's command, as in Kubernetes. Absent fields
    # keep what the image has.
    if config.command:
        payload["Entrypoint"] = list(config.command)
    if config.args:
        payload["Cmd"] = list(config.args)
    if config.working_dir:
        payload["WorkingDir"] = config.working_dir
    if config.stop_signal:
        payload["StopSignal"] = config.stop_signal
    if config.security.user:
        payload["User"] = config.security.user
    return payload, tuple(warnings)


def update_payload(wanted: Resources, abilities: Abilities) -> Json:
    """Return the new limits of a running container: 0 keeps a value, -1 removes the limit."""
    body: Json = {}
    if wanted.cpu_shares and abilities.cpu_shares:
        body["CpuShares"] = wanted.cpu_shares
    if wanted.cpu_quota and abilities.cpu_quota:
        body["CpuQuota"] = wanted.cpu_quota
        body["CpuPeriod"] = wanted.cpu_period or _CPU_PERIOD
    if wanted.memory and abilities.memory_limit:
        memory = wanted.memory if wanted.memory > 0 else NO_MEMORY_LIMIT
        body["Memory"] = memory
        if abilities.swap_limit:
            body["MemorySwap"] = memory
    if abilities.cpuset:
        if wanted.cpuset_cpus:
            body["CpusetCpus"] = wanted.cpuset_cpus
        if wanted.cpuset_mems:
            body["CpusetMems"] = wanted.cpuset_mems
    return body


def enforced(resources: Resources, abilities: Abilities) -> Resources:
    """Clear the limits that the engine records but does not enforce."""
    return replace(
        resources,
        cpu_shares=resources.cpu_shares if abilities.cpu_shares else 0,
        cpu_quota=resources.cpu_quota if abilities.cpu_quota else 0,
        cpu_period=resources.cpu_period if abilities.cpu_quota else 0,
        memory=resources.memory if abilities.memory_limit else 0,
        pids=resources.pids if abilities.pids_limit else 0,
        cpuset_cpus=resources.cpuset_cpus if abilities.cpuset else "",
        cpuset_mems=resources.cpuset_mems if abilities.cpuset else "",
    )


def _add_devices(
    host: Json, config: ContainerConfig, abilities: Abilities, warnings: list[str]
) -> None:
    if config.devices:
        host["Devices"] = [
            {
                "PathOnHost": device.host_path,
                "PathInContainer": device.container_path,
                "CgroupPermissions": device.permissions,
            }
            for device in config.devices
        ]
    if config.cdi_devices:
        host["DeviceRequests"] = [{"Driver": "cdi", "DeviceIDs": list(config.cdi_devices)}]
    if config.oci_annotations:
        if abilities.annotations:
            host["Annotations"] = dict(config.oci_annotations)
        else:
            names = ", ".join(config.oci_annotations)
            warnings.append(f"annotations of devices do not reach the OCI runtime: {names}")


def _add_resources(
    host: Json, config: ContainerConfig, abilities: Abilities, warnings: list[str]
) -> None:
    wanted = config.resources
    if wanted.cpu_shares and abilities.cpu_shares:
        host["CpuShares"] = wanted.cpu_shares
    if wanted.cpu_quota:
        if abilities.cpu_quota:
            host["CpuQuota"] = wanted.cpu_quota
            host["CpuPeriod"] = wanted.cpu_period or _CPU_PERIOD
        else:
            warnings.append("the CPU limit is not enforced: the engine can't limit CPU time")
    if wanted.memory:
        if abilities.memory_limit:
            host["Memory"] = wanted.memory
            # The limit of memory and swap together: no swap is left. Without it, an engine allows
            # as much swap as memory.
            if abilities.swap_limit:
                host["MemorySwap"] = wanted.memory
        else:
            warnings.append("the memory limit is not enforced: the engine can't limit memory")
    if wanted.pids > 0:
        if abilities.pids_limit:
            host["PidsLimit"] = wanted.pids
        else:
            warnings.append("the process limit is not enforced: the engine can't limit them")
    if wanted.cpuset_cpus or wanted.cpuset_mems:
        if abilities.cpuset:
            host["CpusetCpus"] = wanted.cpuset_cpus
            host["CpusetMems"] = wanted.cpuset_mems
        else:
            warnings.append("the CPUs are not assigned: the engine can't restrict CPUs")
    if wanted.oom_score_adj:
        host["OomScoreAdj"] = wanted.oom_score_adj


def _add_security(
    host: Json,
    wanted: SecurityContext,
    abilities: Abilities,
    seccomp_profile: str | None,
    warnings: list[str],
) -> None:
    options: list[str] = []
    if wanted.no_new_privileges:
        options.append("no-new-privileges")
    if abilities.seccomp:
        # Without an option, the engine applies its own profile: this is RuntimeDefault.
        if wanted.seccomp == "unconfined":
            options.append("seccomp=unconfined")
        elif seccomp_profile is not None:
            options.append(f"seccomp={seccomp_profile}")
    elif wanted.seccomp != "unconfined":
        warnings.append("the seccomp profile is not applied: the engine has no seccomp")
    if wanted.apparmor and wanted.apparmor != "runtime/default":
        if abilities.apparmor:
            options.append(f"apparmor={wanted.apparmor.removeprefix('localhost/')}")
        elif wanted.apparmor != "unconfined":
            warnings.append("the AppArmor profile is not applied: the engine has no AppArmor")
    if wanted.selinux:
        if abilities.selinux:
            options += [f"label={part}" for part in wanted.selinux]
        else:
            warnings.append("the SELinux label is not applied: the engine has no SELinux")
    if options:
        host["SecurityOpt"] = options
    if wanted.groups:
        host["GroupAdd"] = [str(group) for group in wanted.groups]
    if wanted.add_capabilities:
        host["CapAdd"] = list(wanted.add_capabilities)
    if wanted.drop_capabilities:
        host["CapDrop"] = list(wanted.drop_capabilities)
    if wanted.privileged:
        host["Privileged"] = True
    if wanted.read_only_rootfs:
        host["ReadonlyRootfs"] = True
    # An empty list masks nothing; without a list, the engine would mask its own default.
    if wanted.unmasked_proc:
        host["MaskedPaths"] = []
        host["ReadonlyPaths"] = []
    elif not wanted.privileged:
        host["MaskedPaths"] = masked_paths(abilities.cpus)


def masked_paths(cpus: int) -> list[str]:
    """Return the paths for an engine with that many CPUs. Engines ignore missing paths."""
    throttle_files = (
        f"/sys/devices/system/cpu/cpu{number}/thermal_throttle" for number in range(cpus)
    )
    return [*_MASKED, *throttle_files]
