"""Errors that cross package boundaries.

Expected outcomes (a pull in back-off, a failing probe) are values, not exceptions.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import cast


def is_reported(count: int) -> bool:
    """Return whether the log has the repetition of this number: the 1st, 10th, 100th …."""
    return count == 10 ** (len(str(count)) - 1)


def first_error(error: Exception) -> Exception:
    """Return the first error of a group, also of a nested one, or the error itself.

    A `PodtuiError` comes after any other error, so that it hides no programming error.
    """
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        error = group.split(PodtuiError)[1] or group
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


@contextmanager
def without_group() -> Generator[None]:
    """Raise the first error of the block's task group instead of the group."""
    try:
        yield
    except ExceptionGroup as group:
        raise first_error(group) from group


class PodtuiError(Exception):
    """Base of all errors that podtui raises deliberately; the text is suitable for users."""


class UsageError(PodtuiError):
    """Raised when a command line or a setting cannot be used as given (exit status 2)."""


class SettingsError(UsageError):
    """Raised for an invalid setting; the text names file, line, column and key."""


class EngineError(PodtuiError):
    """Raised when the container engine refuses or fails a call."""


class EngineUnavailable(EngineError):
    """Raised when the engine does not answer: no socket, no permission, connection lost."""


class EngineTimeout(EngineUnavailable):
    """Raised when the engine accepted a call and did not answer it in time. It may still answer
    other calls."""


class EngineNotFound(EngineError):
    """Raised when the engine does not know the container, sandbox, image or volume."""


class EngineConflict(EngineError):
    """Raised when the engine refuses because of the current state (name in use, still running)."""


class NetworkUnavailable(EngineError):
    """Raised if the networks of pods cannot be used on this machine: no permission to enter them,
    or a missing program."""


class AgentClash(EngineError):
    """Raised if another agent's containers have the names that this agent's containers would
    get."""


class ImagePullError(EngineError):
    """Raised when an image cannot be pulled; the text is the engine's."""


class ContainerCreateError(EngineError):
    """Raised when a container cannot be created."""


class SubPathError(ContainerCreateError):
    """Raised when the subPath of a mount leaves its volume; ``container_path`` is the target of the
    mount."""

    def __init__(self, message: str, container_path: str) -> None:
        super().__init__(message)
        self.container_path = container_path


class ContainerStartError(EngineError):
    """Raised when a created container cannot be started (no such command, bad mount)."""


class ExecStartError(EngineError):
    """Raised when a command cannot be started in a container (no such command)."""


class ExecTimeout(EngineError):
    """Raised when a command in a container exceeds its timeout."""


class AgentUnavailable(PodtuiError):
    """Raised by clients when no agent answers on the socket."""


class ApiError(PodtuiError):
    """Raised by clients for a ``Status`` other than success.

    ``code`` is the HTTP status (410 for a watch that is too old), ``reason`` is Kubernetes' reason.
    ``retry_after`` is the delay in seconds that the server asks for, or None. ``causes`` are the
    field and the message of each broken rule.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        causes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after
        self.causes = causes


class LogError(PodtuiError):
    """Raised when a log is not available; ``code`` is 400, 404 or 503 (kubelet.md §16)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class SessionError(PodtuiError):
    """Raised when no session with a container or pod is possible; ``code`` is the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class InvalidUpdate(PodtuiError):
    """Raised for a request that would make an object invalid.

    ``causes`` are tuples of (reason, field, message), as in an API server's ``Status``.
    """

    def __init__(self, causes: Sequence[tuple[str, str, str]]) -> None:
        texts = [f"{field}: {message}" for _, field, message in causes]
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        self.causes = tuple(causes)


class RestartRefused(PodtuiError):
    """Raised for a container that would not be started again after it is stopped."""


class StoreGone(PodtuiError):
    """Raised when a watch requests a resourceVersion that is no longer kept, or falls behind."""


class NotFound(PodtuiError):
    """Raised for a change of a record that does not exist."""


class AlreadyExists(PodtuiError):
    """Raised for a record to create whose name is taken."""
