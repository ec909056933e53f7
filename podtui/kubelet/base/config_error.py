"""The error for a container or sandbox that cannot be configured."""

from __future__ import annotations

from podtui.errors import PodtuiError


class ConfigError(PodtuiError):
    """Raised when a pod's spec cannot be turned into a runtime configuration.

    The text is the message of the container's ``CreateContainerConfigError``, or of the pod's
    ``FailedCreatePodSandBox`` event.
    """
