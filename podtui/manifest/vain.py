"""Fields that are taken and come to nothing: on Linux, for a pod that no API server keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.local import Severity
from podtui.api.v1 import Pod
from podtui.manifest.document import Path, Problem

_KEPT_BY_A_SERVER: Final = (
    "generateName",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "selfLink",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_NO_SERVER: Final = "has no effect: a static pod has no object on an API server"
_NO_TOKENS: Final = "has no effect: there is no API server to give tokens"
_NO_RELABELLING: Final = "has no effect: volumes are not given SELinux labels here"
_NO_WINDOWS: Final = "has no effect: containers run on Linux here"


def vain_fields(pod: Pod) -> list[Problem]:
    """A warning for each such field that the pod sets."""
    return [
        Problem(code="NoEffect", message=message, path=path, severity=Severity.WARNING, at_key=True)
        for path, message in _found(pod)
    ]


def _found(pod: Pod) -> Iterator[tuple[Path, str]]:
    meta, spec = pod.metadata, pod.spec
    for name in _KEPT_BY_A_SERVER:
        if getattr(meta, name):
            yield ("metadata", name), _NO_SERVER
    if spec.automountServiceAccountToken:
        yield ("spec", "automountServiceAccountToken"), _NO_TOKENS
    if spec.os is not None and spec.os.name == "windows":
        return
    shared = spec.securityContext
    if shared is not None and shared.seLinuxChangePolicy:
        yield ("spec", "securityContext", "seLinuxChangePolicy"), _NO_RELABELLING
    if shared is not None and shared.windowsOptions is not None:
        yield ("spec", "securityContext", "windowsOptions"), _NO_WINDOWS
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(getattr(spec, kind)):
            own = container.securityContext
            if own is not None and own.windowsOptions is not None:
                yield ("spec", kind, index, "securityContext", "windowsOptions"), _NO_WINDOWS
