"""Errors that cross room boundaries.

Expected outcomes (a pull that backs off, a probe that fails) are values, not exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence


class PodtuiError(Exception):
    """Root of every error that podtui raises on purpose; its text is fit for a user."""


class UsageError(PodtuiError):
    """Raised when a command line or a setting cannot be used as given (exit status 2)."""


class SettingsError(UsageError):
    """Raised for a setting that cannot be used; the text names file, line, column and key."""


class EngineError(PodtuiError):
    """Raised when the container engine refuses or fails a call."""


class EngineUnavailable(EngineError):
    """Raised when the engine does not answer: no socket, no permission, connection lost."""


class EngineNotFound(EngineError):
    """Raised when the engine does not know the container, sandbox, image or volume."""


class EngineConflict(EngineError):
    """Raised when the engine refuses for the state things are in (name in use, still running)."""


class ImagePullError(EngineError):
    """Raised when an image cannot be pulled; the text is the engine's."""


class ContainerCreateError(EngineError):
    """Raised when a container cannot be created."""


class SubPathError(ContainerCreateError):
    """Raised when the sub-path of a mount leads out of its volume; ``container_path`` is where the
    mount was to be."""

    def __init__(self, message: str, container_path: str) -> None:
        super().__init__(message)
        self.container_path = container_path


class ContainerStartError(EngineError):
    """Raised when a created container cannot be started (no such command, bad mount)."""


class ExecTimeout(EngineError):
    """Raised when a command in a container outlives its time-out."""


class AgentUnavailable(PodtuiError):
    """Raised by clients when no agent answers on the socket."""


class ApiError(PodtuiError):
    """Raised by clients for a ``Status`` other than success.

    ``code`` is the HTTP status (410 for a watch that is too old), ``reason`` Kubernetes' word;
    ``retry_after`` are the seconds that the server wants to be left alone, None where it says none.
    """

    def __init__(
        self, code: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class LogError(PodtuiError):
    """Raised when a container has no log to give; ``code`` 400 or 404 (reference §16)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class SessionError(PodtuiError):
    """Raised when nobody can talk with a container or a pod; ``code`` is the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class InvalidUpdate(PodtuiError):
    """Raised for a request that would make an object invalid.

    ``causes`` are what is wrong: (reason, field, message), as an API server's ``Status`` has them.
    """

    def __init__(self, causes: Sequence[tuple[str, str, str]]) -> None:
        texts = [f"{field}: {message}" for _, field, message in causes]
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        self.causes = tuple(causes)


class RestartRefused(PodtuiError):
    """Raised for a container that would not come back once it has ended."""


class StoreGone(PodtuiError):
    """Raised when a watch asks for a resourceVersion that is no longer kept, or falls behind."""
