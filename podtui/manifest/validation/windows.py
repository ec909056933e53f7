"""Rules for spec.os, for fields that an operating system does not support, and for the Windows
options."""

from __future__ import annotations

import re
from typing import Final

from podtui.api.v1 import PodSpec, WindowsSecurityContextOptions
from podtui.manifest.validation import formats
from podtui.manifest.validation.context import containers_with_paths
from podtui.manifest.validation.errors import (
    Errors,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)

_NOT_FOR_WINDOWS: Final = "cannot be set for a windows pod"
_POD_CONTEXT: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_CONTAINER_CONTEXT: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_CREDENTIAL_KIB: Final = 64
_DOMAIN_LIMIT: Final = 256
_USER_LIMIT: Final = 104
_DNS_PART: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN: Final = re.compile(rf"{_DNS_PART}(?:\.{_DNS_PART})*")
_NETBIOS_DOMAIN: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')


def operating_system(spec: PodSpec) -> Errors:
    if spec.os is None:
        return
    if not spec.os.name:
        yield required("spec.os.name")
    elif spec.os.name == "linux":
        yield from _linux(spec)
    elif spec.os.name == "windows":
        yield from _windows(spec)
    else:
        yield not_supported("spec.os", spec.os.name, ("linux", "windows"), at="spec.os.name")


def _linux(spec: PodSpec) -> Errors:
    why = "windows options cannot be set for a linux pod"
    if spec.securityContext is not None and spec.securityContext.windowsOptions is not None:
        yield forbidden("spec.securityContext.windowsOptions", why)
    for path, container in containers_with_paths(spec):
        context = container.securityContext
        if context is not None and context.windowsOptions is not None:
            yield forbidden(f"{path}.securityContext.windowsOptions", why)


def _is_set(holder: object, name: str) -> bool:
    """Return whether a field is set: False counts as set, an empty string or list does not."""
    value: object = getattr(holder, name)
    return value is not None and value not in ("", ())


def _windows(spec: PodSpec) -> Errors:
    for name in _POD_CONTEXT:
        if spec.securityContext is not None and _is_set(spec.securityContext, name):
            yield forbidden(f"spec.securityContext.{name}", _NOT_FOR_WINDOWS)
    for name, broken in (
        ("hostUsers", spec.hostUsers is not None),
        ("hostPID", bool(spec.hostPID)),
        ("hostIPC", bool(spec.hostIPC)),
        ("shareProcessNamespace", spec.shareProcessNamespace is not None),
    ):
        if broken:
            yield forbidden(f"spec.{name}", _NOT_FOR_WINDOWS)
    for path, container in containers_with_paths(spec):
        for name in _CONTAINER_CONTEXT:
            if container.securityContext is not None and _is_set(container.securityContext, name):
                yield forbidden(f"{path}.securityContext.{name}", _NOT_FOR_WINDOWS)


def options(selected: WindowsSecurityContextOptions | None, path: str) -> Errors:
    if selected is None:
        return
    if selected.gmsaCredentialSpecName:
        name = selected.gmsaCredentialSpecName
        problems = formats.dns_subdomain(name)
        yield from invalid_each(f"{path}.gmsaCredentialSpecName", name, problems)
    if formats.size(selected.gmsaCredentialSpec) > _CREDENTIAL_KIB * 1024:
        yield invalid(
            f"{path}.gmsaCredentialSpec",
            selected.gmsaCredentialSpec,
            f"gmsaCredentialSpec size must be under {_CREDENTIAL_KIB} KiB",
        )
    if selected.runAsUserName:
        name = selected.runAsUserName
        yield from invalid_each(f"{path}.runAsUserName", name, _user_problems(name))


def _user_problems(name: str) -> list[str]:
    """Return the problems of ``USER`` or ``DOMAIN\\USER``."""
    if any(char < " " or char == "\x7f" for char in name):
        return ["runAsUserName cannot contain control characters"]
    if name.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, slash, user = name.rpartition("\\")
    well_formed = _NETBIOS_DOMAIN.fullmatch(domain) or _DNS_DOMAIN.fullmatch(domain)
    rules = (
        (
            formats.size(domain) >= _DOMAIN_LIMIT,
            f"runAsUserName's Domain length must be under {_DOMAIN_LIMIT} characters",
        ),
        (
            bool(slash) and not well_formed,
            "runAsUserName's Domain doesn't match the NetBios nor the DNS format",
        ),
        (not user, "runAsUserName's User cannot be empty"),
        (
            formats.size(user) > _USER_LIMIT,
            f"runAsUserName's User length must not be longer than {_USER_LIMIT} characters",
        ),
        (
            bool(user) and not user.strip(". "),
            "runAsUserName's User cannot contain only periods or spaces",
        ),
        (
            any(char in '"/\\:;|=,+*?<>@[]' for char in user),
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
        ),
    )
    return [message for broken, message in rules if broken]


def host_process(spec: PodSpec) -> Errors:
    """Check HostProcess: all or no containers of a pod must use it, and it requires the host's
    network."""
    pod_options = spec.securityContext.windowsOptions if spec.securityContext is not None else None
    pod_choice = pod_options.hostProcess if pod_options is not None else None
    effective: list[bool] = []
    for path, container in containers_with_paths(spec):
        context = container.securityContext
        selected = context.windowsOptions if context is not None else None
        choice = selected.hostProcess if selected is not None else None
        if pod_choice is not None and choice is not None and pod_choice != choice:
            other = str(pod_choice).lower()
            yield invalid(
                f"{path}.securityContext.windowsOptions.hostProcess",
                choice,
                f"pod hostProcess value must be identical if both are specified, was {other}",
            )
        effective.append(bool(pod_choice if choice is None else choice))
    if not any(effective):
        return
    if not all(effective):
        yield invalid(
            "spec",
            "",
            "If pod contains any hostProcess containers then all containers must be"
            " HostProcess containers",
        )
    if not spec.hostNetwork:
        yield invalid(
            "spec.hostNetwork",
            False,
            "hostNetwork must be true if pod contains any hostProcess containers",
        )
