"""The user and the privileges of a container (kubelet.md §12)."""

from __future__ import annotations

from typing import Final

from podtui.api.pods import pod_ref
from podtui.api.v1 import (
    AppArmorProfile,
    Container,
    Pod,
    PodSecurityContext,
    SeccompProfile,
)
from podtui.api.v1 import SecurityContext as ContainerSecurity
from podtui.kubelet.types import ConfigError
from podtui.runtime.protocol import SecurityContext

UNCONFINED: Final = "unconfined"
RUNTIME_DEFAULT: Final = "runtime/default"
MAX_USER_ID: Final = 2**31 - 1
APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
"""Prefix of the legacy annotation, before a container's name, for its AppArmor profile."""
_NOTHING: Final = ContainerSecurity()
_NO_POD: Final = PodSecurityContext()


def _image_user(user: str) -> tuple[int | None, str]:
    """Return the uid or the name of an image's User, the other one unset; uid 0 without a User."""
    name = user.partition(":")[0]
    if not name:
        return 0, ""
    return (int(name), "") if name.isdecimal() else (None, name)


def _profile(profile: SeccompProfile | AppArmorProfile) -> str:
    if profile.type == "Localhost":
        return f"localhost/{profile.localhostProfile}"
    return RUNTIME_DEFAULT if profile.type == "RuntimeDefault" else UNCONFINED


def check_non_root(pod: Pod, container: Container, image_user: str) -> None:
    """Raise `ConfigError` if ``runAsNonRoot`` is set and root would run, or could."""
    context = container.securityContext or _NOTHING
    pod_context = pod.spec.securityContext or _NO_POD
    non_root = pod_context.runAsNonRoot if context.runAsNonRoot is None else context.runAsNonRoot
    if not non_root:
        return
    where = f'(pod: "{pod_ref(pod)}", container: {container.name})'
    user = pod_context.runAsUser if context.runAsUser is None else context.runAsUser
    if user is not None:
        if user == 0:
            raise ConfigError(f"container's runAsUser breaks non-root policy {where}")
        return
    uid, name = _image_user(image_user)
    if uid is None:
        raise ConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({name}),"
            f" cannot verify user is non-root {where}"
        )
    if uid == 0:
        raise ConfigError(f"container has runAsNonRoot and image will run as root {where}")
    if uid > MAX_USER_ID:
        raise ConfigError(
            f"container has runAsNonRoot and image has an invalid user id ({uid})."
            f" (Must be 1-({MAX_USER_ID})): must be between 0 and {MAX_USER_ID}, inclusive {where}"
        )


def _user(context: ContainerSecurity, pod_context: PodSecurityContext, image_user: str) -> str:
    """Return the user for the engine; empty if the image's own value has the same effect.

    The group in an image's User is ignored: its ``/etc/passwd`` decides (kubelet.md §12).
    """
    user = pod_context.runAsUser if context.runAsUser is None else context.runAsUser
    group = pod_context.runAsGroup if context.runAsGroup is None else context.runAsGroup
    if user is None and group is None and ":" not in image_user:
        return ""
    if user is None:
        uid, name = _image_user(image_user)
        text = name if uid is None else str(uid)
    else:
        text = str(user)
    return text if group is None else f"{text}:{group}"


def _apparmor(pod: Pod, container: Container) -> str:
    """Return the container's profile, else the one of its legacy annotation, else the pod's."""
    profile = (container.securityContext or _NOTHING).appArmorProfile
    if profile is not None:
        return _profile(profile)
    legacy = pod.metadata.annotations.get(APPARMOR_ANNOTATION + container.name, "")
    if legacy in (RUNTIME_DEFAULT, UNCONFINED) or legacy.startswith("localhost/"):
        return legacy
    shared = (pod.spec.securityContext or _NO_POD).appArmorProfile
    return "" if shared is None else _profile(shared)


def wants_apparmor(pod: Pod) -> bool:
    """Return True if the pod has a profile that a host without AppArmor cannot enforce."""
    holders = (
        pod.spec.securityContext,
        *(
            container.securityContext
            for container in (*pod.spec.initContainers, *pod.spec.containers)
        ),
    )
    profiles = (holder.appArmorProfile for holder in holders if holder is not None)
    if any(profile is not None and profile.type != "Unconfined" for profile in profiles):
        return True
    notes = pod.metadata.annotations.items()
    return any(k.startswith(APPARMOR_ANNOTATION) and value != UNCONFINED for k, value in notes)


def _selinux(context: ContainerSecurity, pod_context: PodSecurityContext) -> tuple[str, ...]:
    """Return the given parts of an SELinux label, as ``part:value``."""
    selected = context.seLinuxOptions or pod_context.seLinuxOptions
    if selected is None:
        return ()
    parts = ("user", "role", "type", "level")
    return tuple(f"{part}:{value}" for part in parts if (value := getattr(selected, part)))


def supplementary_groups(pod: Pod) -> tuple[int, ...]:
    """Return ``fsGroup`` and ``supplementalGroups``, in this order, without duplicates."""
    shared = pod.spec.securityContext or _NO_POD
    first = () if shared.fsGroup is None else (shared.fsGroup,)
    return tuple(dict.fromkeys((*first, *shared.supplementalGroups)))


def is_privileged(container: Container) -> bool:
    return bool((container.securityContext or _NOTHING).privileged)


def security_context(
    pod: Pod, container: Container, *, image_user: str, seccomp_default: bool = False
) -> SecurityContext:
    """Merge the security contexts field by field: the container's value, else the pod's.

    Without ``seccomp_default``, a container without a profile runs unconfined. Raises
    `ConfigError`.
    """
    check_non_root(pod, container, image_user)
    context = container.securityContext or _NOTHING
    pod_context = pod.spec.securityContext or _NO_POD
    privileged = bool(context.privileged)
    seccomp = context.seccompProfile or pod_context.seccompProfile
    default = RUNTIME_DEFAULT if seccomp_default else UNCONFINED
    capabilities = context.capabilities
    return SecurityContext(
        user=_user(context, pod_context, image_user),
        groups=supplementary_groups(pod),
        privileged=privileged,
        add_capabilities=() if capabilities is None else capabilities.add,
        drop_capabilities=() if capabilities is None else capabilities.drop,
        read_only_rootfs=bool(context.readOnlyRootFilesystem),
        no_new_privileges=context.allowPrivilegeEscalation is False,
        seccomp=UNCONFINED if privileged else (_profile(seccomp) if seccomp else default),
        apparmor="" if privileged else _apparmor(pod, container),
        selinux=() if privileged else _selinux(context, pod_context),
        unmasked_proc=context.procMount == "Unmasked",
    )
