"""The rules of the ``ephemeralcontainers`` subresource of a pod (reference §1.4)."""

from __future__ import annotations

from podtui.api.v1 import Pod
from podtui.manifest.validation.errors import Errors, FieldError, forbidden
from podtui.manifest.validation.pod import spec_errors

_PATH = "spec.ephemeralContainers"


def validate_ephemeral_update(old: Pod, new: Pod) -> list[FieldError]:
    """Every rule that a pod breaks by what it becomes. Both are decoded and defaulted, and differ
    in nothing but their ephemeral containers."""
    return list(_update(old, new))


def refused_for_static_pods() -> FieldError:
    """What an API server says of every mirror pod."""
    return forbidden("[]", "static pods do not support ephemeral containers")


def _update(old: Pod, new: Pod) -> Errors:
    for error in spec_errors(new):
        # What is wrong beside them was so before, and is not this request's doing.
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
