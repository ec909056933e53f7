"""The engine's abilities: detected from its ``/info`` and ``/version``, or found missing later.

An engine inside a container often lacks CAP_SYS_RESOURCE. It can neither lower an OOM score nor
grant all capabilities. This shows only when a container starts. The container is then created again
without the feature (`Fallback`), and each affected container gets a warning.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podtui.runtime.docker.answers import Json
from podtui.runtime.docker.errors import parsing
from podtui.runtime.docker.locate import Endpoint
from podtui.runtime.protocol import EngineInfo

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}
_CONTROLLERS: Final = {
    "memory": "memory",
    "swap": "memory",
    "shares": "cpu",
    "quota": "cpu",
    "cpuset": "cpuset",
    "pids": "pids",
}
_PODMAN_RESIZES: Final = (5, 1)
_RECURSIVE_READ_ONLY_API: Final = (1, 44)
_SUB_PATHS_API: Final = (1, 45)
_ANNOTATIONS_API: Final = (1, 43)
_CDI_API: Final = (1, 44)
_RECURSIVE_READ_ONLY_KERNEL: Final = (5, 12)
_PROGRAMS: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UNAVAILABLE: Final = "SYS_RESOURCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    memory_limit: bool = True
    swap_limit: bool = True
    cpu_shares: bool = True
    cpuset: bool = True
    cpu_quota: bool = True
    pids_limit: bool = True
    lower_oom_score: bool = True
    all_capabilities: bool = True
    seccomp: bool = True
    apparmor: bool = True
    selinux: bool = True
    recursive_read_only: bool = False
    """Since API 1.44. From then on, a read-only mount is recursive unless it says otherwise."""
    volume_sub_paths: bool = False
    """The engine can mount a directory of a volume, since API 1.45."""
    annotations: bool = False
    """Annotations reach the OCI runtime, since API 1.43."""
    cdi: bool = False
    """Devices of the Container Device Interface, since API 1.44; the engine may have turned them
    off, and then refuses them."""
    usage: bool = True
    """The engine counts the usage of each container. A rootless engine on cgroup v1 has no cgroups,
    and returns zeros (Docker) or the machine's values (Podman)."""
    resize: bool = True
    """The limits of a running container can be changed: in Podman since 5.1."""
    keeps_stdin: bool = True
    """Stdin stays open when a client detaches. Podman's monitor closes it."""
    reports_oom: bool = True
    """Podman's monitor misses OOM kills on cgroup v1."""
    memory_files: bool = True
    """A tmpfs keeps its files while a container uses it. Docker with live-restore mounts a new one
    when it restarts, beside the one that its running containers see."""
    cpus: int = 0
    """The number of CPUs, for the per-CPU paths hidden from containers."""


@parsing("its version")
def engine_name(version: Mapping[str, Any]) -> str:
    components: list[Mapping[str, Any]] = version.get("Components") or []
    named = any("podman" in str(part.get("Name", "")).lower() for part in components)
    return "podman" if named else "docker"


@parsing("its abilities")
def is_local(endpoint: Endpoint, info: Mapping[str, Any]) -> bool:
    """Return whether the engine shares this machine's files and processes. A socket is not enough,
    because it may lead into a virtual machine, or out of a container."""
    return (
        endpoint.socket_path is not None
        and info.get("KernelVersion") == platform.release()
        and os.path.isdir(str(info.get("DockerRootDir") or "/nowhere"))
    )


def network_problem(info: Mapping[str, Any], *, local: bool) -> str:
    """Return why rules cannot be set in the networks of pods; empty if nothing speaks against
    it."""
    if not local:
        return "the engine does not run on this machine"
    if os.geteuid() != 0 and not is_rootless(info):
        return "only root can enter the networks of this engine's pods"
    if shutil.which("nft", path=_PROGRAMS) is None:
        return "nft is not installed on this machine (package nftables)"
    return ""


def has_security_option(info: Mapping[str, Any], name: str) -> bool:
    """Return whether a security option is on: engines write ``name`` or ``name=NAME,…``."""
    options = (str(option).partition(",")[0] for option in info.get("SecurityOptions") or ())
    return any(option in (name, f"name={name}") for option in options)


def is_rootless(info: Mapping[str, Any]) -> bool:
    """Docker lists it as a security option; Podman has a separate field."""
    return has_security_option(info, "rootless") or info.get("Rootless") is True


def cgroup_version(info: Mapping[str, Any]) -> int:
    return 2 if str(info.get("CgroupVersion", "1")).strip("v") == "2" else 1


@parsing("its abilities")
def abilities(
    info: Mapping[str, Any],
    *,
    podman: bool = False,
    api: tuple[int, ...] = (),
    version: tuple[int, ...] = (),
    controllers: Collection[str] | None = None,
) -> Abilities:
    """``api`` is the negotiated API version, ``version`` the engine's version. ``controllers`` are
    the cgroup controllers available to Podman, None if it does not report them."""
    without_cgroups = is_rootless(info) and cgroup_version(info) == 1
    limits = {
        "memory": _flag(info, "MemoryLimit"),
        "swap": _flag(info, "SwapLimit"),
        "shares": _flag(info, "CPUShares"),
        "quota": _flag(info, "CpuCfsQuota") and _flag(info, "CPUCfsQuota"),
        "cpuset": _flag(info, "CPUSet"),
        "pids": _flag(info, "PidsLimit"),
    }
    if podman:
        limits = _podman_limits(limits, cgroup_version(info), controllers)
    if without_cgroups:
        limits = dict.fromkeys(limits, False)
    return Abilities(
        memory_limit=limits["memory"],
        swap_limit=limits["swap"],
        cpu_shares=limits["shares"],
        cpu_quota=limits["quota"],
        cpuset=limits["cpuset"],
        pids_limit=limits["pids"],
        usage=not without_cgroups,
        resize=not without_cgroups and (not podman or version >= _PODMAN_RESIZES),
        keeps_stdin=not podman,
        reports_oom=limits["memory"] and not (podman and cgroup_version(info) == 1),
        seccomp=has_security_option(info, "seccomp"),
        apparmor=has_security_option(info, "apparmor"),
        selinux=has_security_option(info, "selinux"),
        recursive_read_only=(
            not podman
            and api >= _RECURSIVE_READ_ONLY_API
            and _kernel(info) >= _RECURSIVE_READ_ONLY_KERNEL
        ),
        volume_sub_paths=not podman and api >= _SUB_PATHS_API,
        annotations=not podman and api >= _ANNOTATIONS_API,
        cdi=not podman and api >= _CDI_API,
        memory_files=not info.get("LiveRestoreEnabled"),
        cpus=int(info.get("NCPU") or 0),
    )


def _flag(info: Mapping[str, Any], name: str) -> bool:
    return bool(info.get(name, True))


def _podman_limits(
    declared: Mapping[str, bool], cgroup_version: int, controllers: Collection[str] | None
) -> dict[str, bool]:
    """On cgroup v2 Podman reads its flags from the root cgroup, which lacks these files, and
    reports False for limits that it enforces. Only the list of controllers is reliable there."""
    limits = dict.fromkeys(declared, True) if cgroup_version == 2 else dict(declared)
    if controllers is None:
        return limits
    return {name: on and _CONTROLLERS[name] in controllers for name, on in limits.items()}


def _kernel(info: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(info.get("KernelVersion", "")))[:2])


@parsing("its abilities")
def engine_info(
    info: Mapping[str, Any],
    version: Mapping[str, Any],
    *,
    api_version: str,
    able: Abilities,
    local: bool,
    network_problem: str = "",
) -> EngineInfo:
    """``network_problem`` is the reason why the networks of pods cannot be entered."""
    name = engine_name(version)
    rootless = is_rootless(info)
    architecture = str(version.get("Arch") or info.get("Architecture") or "")
    routable = local and not rootless
    lacking = [
        text
        for lost, text in (
            (not able.memory_limit, "memory limits"),
            (not able.swap_limit, "swap limits: a container may swap beyond its memory limit"),
            (not able.cpu_quota, "CPU limits"),
            (not able.cpu_shares, "CPU requests (shares)"),
            (not able.cpuset, "exclusive CPUs (cpusets)"),
            (not able.pids_limit, "process limits"),
            (not able.cdi, "CDI devices of device plugins: Docker has them since version 25"),
            (not able.seccomp, "seccomp profiles"),
            (not able.usage, "usage of containers"),
            (not able.resize, "changed limits of a running container"),
            (not able.keeps_stdin, "stdin that stays open when a client detaches"),
            (not able.reports_oom, "reports of containers that ran out of memory (OOMKilled)"),
            (not able.memory_files, "files of Secrets in memory: with live-restore, on the disk"),
            *((not getattr(able, fallback.ability), fallback.text) for fallback in FALLBACKS),
            (not local, "a route to the addresses of pods"),
            (bool(network_problem), f"Services in pods: {network_problem}"),
        )
        if lost
    ]
    return EngineInfo(
        name=name,
        version=str(version.get("Version", "")),
        api_version=api_version,
        os=str(version.get("Os") or info.get("OSType") or "linux"),
        architecture=_ARCHITECTURES.get(architecture, architecture),
        kernel=str(info.get("KernelVersion", "")),
        cgroup_version=cgroup_version(info),
        cgroup_driver=str(info.get("CgroupDriver", "")),
        rootless=rootless,
        local=local,
        pod_rules=not network_problem,
        cpus=int(info.get("NCPU") or 1),
        memory=int(info.get("MemTotal") or 0),
        root_dir=str(info.get("DockerRootDir", "")),
        operating_system=str(info.get("OperatingSystem", "")),
        supports_memory_limit=able.memory_limit,
        supports_lower_oom_score=able.lower_oom_score,
        routable_pods=routable,
        local_host_network=local and (name == "podman" or not rootless),
        counts_usage=able.usage,
        supports_resize=able.resize,
        keeps_stdin=able.keeps_stdin,
        reports_oom=able.reports_oom,
        apparmor=able.apparmor,
        user_namespaces=has_security_option(info, "userns"),
        recursive_read_only=able.recursive_read_only,
        runtimes=oci_runtimes(info, podman=name == "podman"),
        lacking=tuple(lacking),
    )


@parsing("its runtimes")
def oci_runtimes(info: Mapping[str, Any], *, podman: bool) -> tuple[str, ...]:
    """Return the OCI runtimes that a container can be created with.

    Podman lists all that it knows, but creates every container with its default one. Docker also
    lists the shims of its runtimes, whose names contain dots; no RuntimeClass can name those.
    """
    if podman:
        default = str(info.get("DefaultRuntime") or "")
        return (default,) if default else ()
    return tuple(sorted(name for name in info.get("Runtimes") or () if "." not in name))


# --- fallbacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """``without`` returns the host configuration without the feature, None if it is not requested.

    ``hints`` are parts of the engine's message for a start that failed because of this; a match is
    no proof. ``ability`` is the matching field of `Abilities`.
    """

    ability: str
    text: str
    hints: tuple[str, ...]
    without: Callable[[Json], Json | None]


def _without_low_oom_score(host: Json) -> Json | None:
    if host.get("OomScoreAdj", 0) >= 0:
        return None
    return {key: value for key, value in host.items() if key != "OomScoreAdj"}


def _without_all_capabilities(host: Json) -> Json | None:
    wanted = [str(name).removeprefix("CAP_") for name in host.get("CapAdd") or ()]
    dropped: list[str] = list(host.get("CapDrop") or ())
    if host.get("Privileged"):
        # Approximate privileged by separate options; only the device nodes are missing.
        options = [o for o in host.get("SecurityOpt") or () if not o.startswith("seccomp=")]
        return {
            **host,
            "Privileged": False,
            "CapAdd": ["ALL"],
            "CapDrop": [_UNAVAILABLE],
            "DeviceCgroupRules": ["a *:* rwm"],
            "MaskedPaths": [],
            "ReadonlyPaths": [],
            "SecurityOpt": [*options, "seccomp=unconfined"],
        }
    if "ALL" in wanted and _UNAVAILABLE not in dropped:
        return {**host, "CapDrop": [*dropped, _UNAVAILABLE]}
    if _UNAVAILABLE in wanted:
        return {**host, "CapAdd": [name for name in wanted if name != _UNAVAILABLE]}
    return None


LOW_OOM_SCORE: Final = Fallback(
    ability="lower_oom_score",
    text="the OOM score is not lowered: the engine lacks CAP_SYS_RESOURCE",
    # runc sets the score before it can report an error of its own.
    hints=("oom_score_adj", "can't get final child's PID from pipe"),
    without=_without_low_oom_score,
)
ALL_CAPABILITIES: Final = Fallback(
    ability="all_capabilities",
    text="the container runs without CAP_SYS_RESOURCE, and without the host's device nodes "
    "where it is privileged: the engine itself lacks that capability",
    hints=("unable to apply caps", "capability not supported", "capset"),
    without=_without_all_capabilities,
)
FALLBACKS: Final = (LOW_OOM_SCORE, ALL_CAPABILITIES)


def remedy(text: str, host: Json) -> tuple[Fallback, Json] | None:
    """Return the feature to give up after a start that failed with ``text``, and the reduced host
    configuration."""
    for fallback in FALLBACKS:
        if any(hint in text for hint in fallback.hints):
            reduced = fallback.without(host)
            if reduced is not None:
                return fallback, reduced
    return None
