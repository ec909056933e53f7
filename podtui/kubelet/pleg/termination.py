"""Termination messages (reference §7.7)."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import Pod
from podtui.runtime.protocol import START_ERROR

FILE_LIMIT: Final = 4096
"""Maximum number of bytes read from the end of the termination message file."""
LOG_BYTES: Final = 2048
LOG_LINES: Final = 80
POD_LIMIT: Final = 12 * 1024
"""Bytes shared by all messages of one pod."""
FALLBACK: Final = "FallbackToLogsOnError"


def needs_logs(policy: str, content: bytes, exit_code: int, reason: str) -> bool:
    """Return True if the end of the log replaces an empty or missing message file."""
    return policy == FALLBACK and not content and exit_code != 0 and reason != START_ERROR


def log_tail(log: bytes) -> bytes:
    """Return the last 80 lines of a log, at most its last 2048 bytes."""
    lines = log[-LOG_BYTES:].splitlines(keepends=True)
    return b"".join(lines[-LOG_LINES:])


def termination_message(
    *,
    content: bytes,
    log: bytes = b"",
    policy: str = "File",
    exit_code: int = 0,
    reason: str = "",
    runtime_message: str = "",
) -> str:
    """Return an instance's message: the runtime's own, then its file or the end of its log.

    ``content`` is the file's; ``log`` is used only if `needs_logs` holds.
    """
    text = content[-FILE_LIMIT:]
    if needs_logs(policy, content, exit_code, reason):
        text = log_tail(log)
    words = text.decode("utf-8", "replace")
    if runtime_message and words:
        return f"{runtime_message}: {words}"
    return runtime_message or words


def message_limit(pod: Pod) -> int:
    """Return the maximum number of bytes of each container's message."""
    spec = pod.spec
    count = len(spec.initContainers) + len(spec.containers) + len(spec.ephemeralContainers)
    return POD_LIMIT // max(count, 1)


def cut(message: str, limit: int) -> str:
    """Cut a message to at most ``limit`` bytes of UTF-8, never within a character."""
    data = message.encode("utf-8", "replace")
    return message if len(data) <= limit else data[:limit].decode("utf-8", "ignore")
