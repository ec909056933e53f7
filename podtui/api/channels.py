"""The numbered channels that exec and attach have inside a WebSocket, and the protocols' names."""

from __future__ import annotations

from typing import Final

V5: Final = "v5.channel.k8s.io"
"""Like `V4`, and `CLOSE` ends a channel."""
V4: Final = "v4.channel.k8s.io"
PORT_FORWARD: Final = "SPDY/3.1+portforward.k8s.io"
"""SPDY frames inside binary messages."""

# The first byte of every message.
STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
ERROR: Final = 3
"""Carries one ``Status``, at the end."""
RESIZE: Final = 4
"""Carries JSON: ``{"Width": COLUMNS, "Height": ROWS}``."""
CLOSE: Final = 255
"""Carries the number of the channel that ends."""

EXIT_CODE: Final = "ExitCode"
"""The cause in a ``Status`` whose message is the exit code."""
NON_ZERO: Final = "NonZeroExitCode"
"""The reason of that ``Status``."""

# Headers of the two streams that each forwarded connection has.
STREAM_TYPE: Final = "streamtype"
PORT: Final = "port"
REQUEST: Final = "requestid"
DATA_STREAM: Final = "data"
ERROR_STREAM: Final = "error"
