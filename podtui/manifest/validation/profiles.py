"""Rules for seccomp and AppArmor: the fields, the deprecated annotations, and their agreement."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import AppArmorProfile, Pod, SeccompProfile
from podtui.manifest.validation import formats
from podtui.manifest.validation.context import containers_with_paths
from podtui.manifest.validation.errors import (
    Errors,
    forbidden,
    invalid,
    not_supported,
    quoted,
    reported_at,
    required,
    too_long,
)

SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR_CONTAINER: Final = "container.apparmor.security.beta.kubernetes.io/"
PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_LOCALHOST: Final = "localhost/"
_SECCOMP_NAMES: Final = {
    "Unconfined": ("unconfined",),
    "RuntimeDefault": ("runtime/default", "docker/default"),
}
_APPARMOR_NAMES: Final = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}
_PATH_MAX: Final = 4095


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
            known = value in ("", "runtime/default", "unconfined")
            if not known and not value.startswith(_LOCALHOST):
                yield invalid(entry, value, f"invalid AppArmor profile name: {quoted(value)}")


def _seccomp_name(name: str, path: str) -> Errors:
    if name.startswith(_LOCALHOST):
        yield from formats.descending(name.removeprefix(_LOCALHOST), path)
    elif name not in ("runtime/default", "docker/default", "unconfined"):
        yield invalid(path, name, "must be a valid seccomp profile")


def agreement(pod: Pod) -> Errors:
    """Check that an annotation and its field, if both are set, have the same meaning."""
    notes, own = pod.metadata.annotations, pod.spec.securityContext
    if own is not None and own.seccompProfile is not None and SECCOMP_POD in notes:
        path = "spec.securityContext.seccompProfile"
        yield from _same("seccomp", notes[SECCOMP_POD], own.seccompProfile, path)
    for path, container in containers_with_paths(pod.spec):
        context, key = container.securityContext, SECCOMP_CONTAINER + container.name
        if context is not None and context.seccompProfile is not None and key in notes:
            here = f"{path}.securityContext.seccompProfile"
            yield from _same("seccomp", notes[key], context.seccompProfile, here)
    if pod.spec.os is not None and pod.spec.os.name == "windows":
        return
    for path, container in containers_with_paths(pod.spec):
        context, key = container.securityContext, APPARMOR_CONTAINER + container.name
        profile = own.appArmorProfile if own is not None else None
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
