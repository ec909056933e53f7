"""The rules of a pod's ``ephemeralcontainers`` subresource (reference §1.4)."""

from __future__ import annotations

from podtui.api.v1 import Pod
from podtui.manifest.validation.errors import Errors, FieldError, forbidden
from podtui.manifest.validation.pod import spec_errors

_PATH = "spec.ephemeralContainers"


def validate_ephemeral_update(old: Pod, new: Pod) -> list[FieldError]:
    """Return all rules that an update breaks. Both pods are decoded and defaulted, and differ only
    in their ephemeral containers."""
    return list(_update(old, new))


def refused_for_static_pods() -> FieldError:
    """Return the error with which an API server refuses this for every mirror pod."""
    return forbidden("[]", "static pods do not support ephemeral containers")


def _update(old: Pod, new: Pod) -> Errors:
    for error in spec_errors(new):
        # Other errors existed before and are not caused by this request.
        if error.path.startswith(_PATH):
            yield error
    now = {one.name: one for one in new.spec.ephemeralContainers}
    for container in old.spec.ephemeralContainers:
        if container.name not in now:
            words = "may not be removed"
        elif now[container.name] != container:
            words = "may not be changed"
        else:
            continue
        yield forbidden(_PATH, f'existing ephemeral containers "{container.name}" {words}')
