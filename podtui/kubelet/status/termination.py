"""Termination messages (reference §7.7)."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import Pod
from podtui.runtime.protocol import START_ERROR

FILE_LIMIT: Final = 4096
"""Bytes read of the termination message file, its last ones."""
LOG_BYTES: Final = 2048
LOG_LINES: Final = 80
POD_LIMIT: Final = 12 * 1024
"""Bytes that all messages of one pod share."""
FALLBACK: Final = "FallbackToLogsOnError"


def needs_logs(policy: str, content: bytes, exit_code: int, reason: str) -> bool:
    """Whether the end of the log is to be read in place of an empty or missing file."""
    return policy == FALLBACK and not content and exit_code != 0 and reason != START_ERROR


def log_tail(log: bytes) -> bytes:
    """The last 80 lines of a log, or the last 2048 bytes of them where that is less."""
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
    """One instance's message, from its file, else its log, behind what the runtime itself said.

    ``content`` is the file's; ``log`` is looked at only where `needs_logs` holds.
    """
    text = content[-FILE_LIMIT:]
    if needs_logs(policy, content, exit_code, reason):
        text = log_tail(log)
    words = text.decode("utf-8", "replace")
    if runtime_message and words:
        return f"{runtime_message}: {words}"
    return runtime_message or words


def message_limit(pod: Pod) -> int:
    """Bytes that each container's message may have."""
    spec = pod.spec
    count = len(spec.initContainers) + len(spec.containers) + len(spec.ephemeralContainers)
    return POD_LIMIT // max(count, 1)


def cut(message: str, limit: int) -> str:
    """The start of a message, at most ``limit`` bytes of UTF-8, never half a character."""
    data = message.encode("utf-8", "replace")
    return message if len(data) <= limit else data[:limit].decode("utf-8", "ignore")
