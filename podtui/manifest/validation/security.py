"""Rules for the security contexts of containers and pods."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import PodSecurityContext, PodSpec, SecurityContext
from podtui.manifest.validation import formats, profiles, windows
from podtui.manifest.validation.context import containers_with_paths
from podtui.manifest.validation.errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)

# The enum fields of the pod's context with their allowed values (kubelet.md §12).
POLICIES: Final = (
    ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    ("supplementalGroupsPolicy", ("Merge", "Strict")),
    # MountOption needs a feature gate that is off.
    ("seLinuxChangePolicy", ("Recursive",)),
)
PROC_MOUNTS: Final = ("Default", "Unmasked")
_IPC_SYSCTLS: Final = frozenset(
    f"kernel.{name}"
    for name in "sem shm shmall shmmax shmmni shm_rmid_forced msg msgmax msgmnb msgmni".split()
)


def container_context(context: SecurityContext | None, path: str, *, host_users: bool) -> Errors:
    if context is None:
        return
    yield from _owner(context.runAsUser, f"{path}.runAsUser")
    yield from _owner(context.runAsGroup, f"{path}.runAsGroup")
    if context.procMount:
        here = f"{path}.procMount"
        if context.procMount not in PROC_MOUNTS:
            yield not_supported(here, context.procMount, PROC_MOUNTS)
        if host_users and context.procMount == "Unmasked":
            yield invalid(here, context.procMount, "`hostUsers` must be false to use `Unmasked`")
    yield from profiles.seccomp(context.seccompProfile, f"{path}.seccompProfile")
    if context.allowPrivilegeEscalation is False:
        yield from _escalation(context, path)
    yield from windows.options(context.windowsOptions, f"{path}.windowsOptions")
    yield from profiles.apparmor(context.appArmorProfile, f"{path}.appArmorProfile")


def _escalation(context: SecurityContext, path: str) -> Errors:
    at = f"{path}.allowPrivilegeEscalation"
    if context.privileged:
        yield invalid(
            path,
            context,
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            at=at,
        )
    added = context.capabilities.add if context.capabilities is not None else ()
    for name in added:
        if name == "CAP_SYS_ADMIN":
            why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` " + name
            yield invalid(path, context, why, at=at)


def _owner(number: int | None, path: str) -> Errors:
    if number is not None:
        yield from invalid_each(path, number, formats.owner_id(number))


def pod_context(context: PodSecurityContext | None, spec: PodSpec, path: str) -> Errors:
    if spec.shareProcessNamespace and spec.hostPID:
        yield invalid(
            f"{path}.shareProcessNamespace",
            True,
            "ShareProcessNamespace and HostPID cannot both be enabled",
            at="spec.shareProcessNamespace",
        )
    if context is None:
        return
    yield from _owner(context.fsGroup, f"{path}.fsGroup")
    yield from _owner(context.runAsUser, f"{path}.runAsUser")
    yield from _owner(context.runAsGroup, f"{path}.runAsGroup")
    for index, group in enumerate(context.supplementalGroups):
        yield from _owner(group, f"{path}.supplementalGroups[{index}]")
    yield from _sysctls(context, spec, f"{path}.sysctls")
    yield from profiles.seccomp(context.seccompProfile, f"{path}.seccompProfile")
    yield from windows.options(context.windowsOptions, f"{path}.windowsOptions")
    yield from profiles.apparmor(context.appArmorProfile, f"{path}.appArmorProfile")
    for name, known in POLICIES:
        policy: str = getattr(context, name)
        if policy and policy not in known:
            yield not_supported(f"{path}.{name}", policy, known)


def _sysctls(context: PodSecurityContext, spec: PodSpec, path: str) -> Errors:
    seen: set[str] = set()
    for index, sysctl in enumerate(context.sysctls):
        here = f"{path}[{index}].name"
        if not sysctl.name:
            yield required(here)
        elif not formats.sysctl_name(sysctl.name):
            yield invalid(here, sysctl.name, formats.SYSCTL_WORDS)
        elif sysctl.name in seen:
            yield duplicate(here, sysctl.name)
        seen.add(sysctl.name)
        dotted = _dotted(sysctl.name).partition("*")[0]
        if spec.hostNetwork and dotted.startswith("net."):
            yield invalid(here, sysctl.name, "may not be specified when 'hostNetwork' is true")
        ipc = dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")
        if spec.hostIPC and ipc:
            yield invalid(here, sysctl.name, "may not be specified when 'hostIPC' is true")


def _dotted(name: str) -> str:
    """Return the name with dots as separators. If a slash comes first, slashes are the
    separators."""
    slash, dot = name.find("/"), name.find(".")
    if slash < 0 or 0 <= dot < slash:
        return name
    return name.translate(str.maketrans("/.", "./"))


def user_namespace(spec: PodSpec) -> Errors:
    """Check that a pod with its own user namespace shares no other namespace with the host."""
    if spec.hostUsers is not False:
        return
    why = "when `hostUsers` is false"
    if spec.hostNetwork:
        yield forbidden("spec.hostNetwork", why)
    if spec.hostPID:
        yield forbidden("spec.HostPID", why, at="spec.hostPID")
    if spec.hostIPC:
        yield forbidden("spec.HostIPC", why, at="spec.hostIPC")
    for path, container in containers_with_paths(spec):
        if container.volumeDevices:
            yield forbidden(f"{path}.volumeDevices", why)
