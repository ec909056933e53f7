"""Rules for security contexts of containers and pods: users, sysctls, seccomp and AppArmor."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import (
    AppArmorProfile,
    Pod,
    PodSecurityContext,
    PodSpec,
    SeccompProfile,
    SecurityContext,
)
from podtui.manifest.validation import formats, windows
from podtui.manifest.validation.context import containers_with_paths
from podtui.manifest.validation.errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    quoted,
    reported_at,
    required,
    too_long,
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
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR_CONTAINER: Final = "container.apparmor.security.beta.kubernetes.io/"
PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_LOCALHOST: Final = "localhost/"
_PATH_MAX: Final = 4095


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
    yield from seccomp(context.seccompProfile, f"{path}.seccompProfile")
    if context.allowPrivilegeEscalation is False:
        yield from _escalation(context, path)
    yield from windows.options(context.windowsOptions, f"{path}.windowsOptions")
    yield from apparmor(context.appArmorProfile, f"{path}.appArmorProfile")


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
    yield from seccomp(context.seccompProfile, f"{path}.seccompProfile")
    yield from windows.options(context.windowsOptions, f"{path}.windowsOptions")
    yield from apparmor(context.appArmorProfile, f"{path}.appArmorProfile")
    for name, choices in POLICIES:
        policy: str = getattr(context, name)
        if policy and policy not in choices:
            yield not_supported(f"{path}.{name}", policy, choices)


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


_SECCOMP_NAMES: Final = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default", "docker/default"),
}
_APPARMOR_NAMES: Final = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}


def seccomp(profile: SeccompProfile | None, path: str) -> Errors:
    if profile is None:
        return
    if not profile.type:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    elif profile.type not in PROFILE_TYPES:
        yield not_supported(f"{path}.type", profile.type, PROFILE_TYPES)
    here = f"{path}.localhostProfile"
    if profile.type != "Localhost":
        if profile.localhostProfile:
            yield invalid(here, profile, "can only be set when seccomp type is Localhost")
    elif profile.localhostProfile:
        yield from formats.descending(profile.localhostProfile, here)
    else:
        yield required(here, "must be set when seccomp type is Localhost")


def apparmor(profile: AppArmorProfile | None, path: str) -> Errors:
    if profile is None:
        return
    here, name = f"{path}.localhostProfile", profile.localhostProfile
    if profile.type == "Localhost":
        if name != name.strip():
            yield invalid(here, name, "must not be padded with whitespace")
        elif not name:
            yield required(here, "must be set when AppArmor type is Localhost")
        if formats.size(name) > _PATH_MAX:
            yield too_long(here, _PATH_MAX)
    elif profile.type in PROFILE_TYPES:
        if name:
            yield invalid(here, name, "can only be set when AppArmor type is Localhost")
    elif not profile.type:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    else:
        yield not_supported(f"{path}.type", profile.type, PROFILE_TYPES)


def apparmor_of_annotation(name: str) -> AppArmorProfile | None:
    """Return the profile that the value of an AppArmor annotation names; None if it is invalid."""
    for kind, names in _APPARMOR_NAMES.items():
        if name in names:
            return AppArmorProfile(type=kind)
    if not name.startswith(_LOCALHOST):
        return None
    profile = AppArmorProfile(type="Localhost", localhostProfile=name.removeprefix(_LOCALHOST))
    return None if any(apparmor(profile, "")) else profile


def profile_annotations(pod: Pod, path: str) -> Errors:
    """Check the deprecated annotations by themselves."""
    names = {container.name for _, container in containers_with_paths(pod.spec)}
    for key, value in pod.metadata.annotations.items():
        entry = f"{path}[{key}]"
        if key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
            yield from reported_at(_seccomp_name(value, entry), entry, f"{path}.{key}")
        elif key.startswith(APPARMOR_CONTAINER):
            name = key.removeprefix(APPARMOR_CONTAINER)
            if name not in names:
                yield invalid(entry, name, "container not found")
            is_supported = value in ("", "runtime/default", "unconfined")
            if not is_supported and not value.startswith(_LOCALHOST):
                yield invalid(entry, value, f"invalid AppArmor profile name: {quoted(value)}")


def _seccomp_name(name: str, path: str) -> Errors:
    if name.startswith(_LOCALHOST):
        yield from formats.descending(name.removeprefix(_LOCALHOST), path)
    elif name not in ("runtime/default", "docker/default", "unconfined"):
        yield invalid(path, name, "must be a valid seccomp profile")


def profile_agreement(pod: Pod) -> Errors:
    """Check that an annotation and its field, if both are set, have the same meaning."""
    notes, pod_context = pod.metadata.annotations, pod.spec.securityContext
    if pod_context is not None and pod_context.seccompProfile is not None and SECCOMP_POD in notes:
        path = "spec.securityContext.seccompProfile"
        yield from _same("seccomp", notes[SECCOMP_POD], pod_context.seccompProfile, path)
    for path, container in containers_with_paths(pod.spec):
        context, key = container.securityContext, SECCOMP_CONTAINER + container.name
        if context is not None and context.seccompProfile is not None and key in notes:
            here = f"{path}.securityContext.seccompProfile"
            yield from _same("seccomp", notes[key], context.seccompProfile, here)
    if pod.spec.os is not None and pod.spec.os.name == "windows":
        return
    for path, container in containers_with_paths(pod.spec):
        context, key = container.securityContext, APPARMOR_CONTAINER + container.name
        profile = pod_context.appArmorProfile if pod_context is not None else None
        if context is not None and context.appArmorProfile is not None:
            profile = context.appArmorProfile
        if profile is not None and key in notes:
            here = f"{path}.securityContext.appArmorProfile"
            yield from _same("apparmor", notes[key], profile, here)


def _same(kind: str, note: str, profile: SeccompProfile | AppArmorProfile, path: str) -> Errors:
    names = _SECCOMP_NAMES if kind == "seccomp" else _APPARMOR_NAMES
    if profile.type == "Localhost":
        agree = note.startswith(_LOCALHOST)
        if agree and note.removeprefix(_LOCALHOST) != profile.localhostProfile:
            yield forbidden(
                f"{path}.localhostProfile", f"{kind} profile in annotation and field must match"
            )
    else:
        agree = note in names.get(profile.type, (note,))
    if not agree:
        yield forbidden(f"{path}.type", f"{kind} type in annotation and field must match")
