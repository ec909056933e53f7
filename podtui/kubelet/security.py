"""Who a container runs as and what it may do (reference §12)."""

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
from podtui.kubelet.config_error import ConfigError
from podtui.runtime.protocol import SecurityContext

UNCONFINED: Final = "unconfined"
RUNTIME_DEFAULT: Final = "runtime/default"
_NOTHING: Final = ContainerSecurity()
_NO_POD: Final = PodSecurityContext()


def _image_user(user: str) -> tuple[int | None, str]:
    """Uid and name of an image's User, of which one is meant; root where it has none."""
    name = user.partition(":")[0]
    if not name:
        return 0, ""
    return (int(name), "") if name.isdecimal() else (None, name)


def _profile(profile: SeccompProfile | AppArmorProfile) -> str:
    if profile.type == "Localhost":
        return f"localhost/{profile.localhostProfile}"
    return RUNTIME_DEFAULT if profile.type == "RuntimeDefault" else UNCONFINED


def check_non_root(pod: Pod, container: Container, image_user: str) -> None:
    """Raises `ConfigError` where ``runAsNonRoot`` is asked for and root would run."""
    own = container.securityContext or _NOTHING
    shared = pod.spec.securityContext or _NO_POD
    non_root = shared.runAsNonRoot if own.runAsNonRoot is None else own.runAsNonRoot
    if not non_root:
        return
    where = f'(pod: "{pod_ref(pod)}", container: {container.name})'
    user = shared.runAsUser if own.runAsUser is None else own.runAsUser
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


def _user(own: ContainerSecurity, shared: PodSecurityContext, image_user: str) -> str:
    user = shared.runAsUser if own.runAsUser is None else own.runAsUser
    group = shared.runAsGroup if own.runAsGroup is None else own.runAsGroup
    if user is None and group is None:
        return ""
    if user is None:
        uid, name = _image_user(image_user)
        text = name if uid is None else str(uid)
    else:
        text = str(user)
    return text if group is None else f"{text}:{group}"


def supplementary_groups(pod: Pod) -> tuple[int, ...]:
    """``fsGroup``, then ``supplementalGroups``, none twice."""
    shared = pod.spec.securityContext or _NO_POD
    first = () if shared.fsGroup is None else (shared.fsGroup,)
    return tuple(dict.fromkeys((*first, *shared.supplementalGroups)))


def is_privileged(container: Container) -> bool:
    return bool((container.securityContext or _NOTHING).privileged)


def security_context(
    pod: Pod, container: Container, *, image_user: str, seccomp_default: bool = False
) -> SecurityContext:
    """The container's fields over the pod's, one by one. Raises `ConfigError`.

    Without ``seccomp_default`` a container that names no profile runs unconfined.
    """
    check_non_root(pod, container, image_user)
    own = container.securityContext or _NOTHING
    shared = pod.spec.securityContext or _NO_POD
    privileged = bool(own.privileged)
    seccomp = own.seccompProfile or shared.seccompProfile
    apparmor = own.appArmorProfile or shared.appArmorProfile
    default = RUNTIME_DEFAULT if seccomp_default else UNCONFINED
    capabilities = own.capabilities
    return SecurityContext(
        user=_user(own, shared, image_user),
        groups=supplementary_groups(pod),
        privileged=privileged,
        add_capabilities=() if capabilities is None else capabilities.add,
        drop_capabilities=() if capabilities is None else capabilities.drop,
        read_only_rootfs=bool(own.readOnlyRootFilesystem),
        no_new_privileges=own.allowPrivilegeEscalation is False,
        seccomp=UNCONFINED if privileged else (_profile(seccomp) if seccomp else default),
        apparmor="" if privileged or apparmor is None else _profile(apparmor),
        unmasked_proc=own.procMount == "Unmasked",
    )
