"""Why a container or a sandbox cannot be described to the runtime."""

from __future__ import annotations

from podtui.errors import PodtuiError


class ConfigError(PodtuiError):
    """Raised when a pod's own words cannot become a configuration.

    The text is the message of the container's ``CreateContainerConfigError``, or of the pod's
    ``FailedCreatePodSandBox`` event.
    """
