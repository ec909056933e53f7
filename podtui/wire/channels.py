"""Channel numbers and protocol names of exec, attach and port-forward."""

from __future__ import annotations

from typing import Final

V5: Final = "v5.channel.k8s.io"
"""Like `V4`, plus the `CLOSE` message that ends one channel."""
V4: Final = "v4.channel.k8s.io"
V3: Final = "v3.channel.k8s.io"
"""Only over SPDY, like `V2`. The error stream has a text without an exit code."""
V2: Final = "v2.channel.k8s.io"
"""Without sizes of a terminal."""
V1: Final = "channel.k8s.io"
BASE64_V4: Final = "v4.base64.channel.k8s.io"
"""Only over WebSockets. A message is text: the channel as a digit, then the data in base64."""
BASE64_V1: Final = "base64.channel.k8s.io"
BINARY: Final = "binary.k8s.io"
"""Only for logs: the bytes of one stream, without channels."""
BASE64_BINARY: Final = "base64.binary.k8s.io"
NONE: Final = ""
"""A client that names no protocol gets `V1`, `V4` for port-forward, and `BINARY` for logs."""
SPDY_PORT_FORWARD: Final = "portforward.k8s.io"
PORT_FORWARD: Final = f"SPDY/3.1+{SPDY_PORT_FORWARD}"
"""SPDY frames inside binary messages."""

# The first byte of every message.
STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
ERROR: Final = 3
"""Carries a single ``Status``, as the last message."""
RESIZE: Final = 4
"""Carries JSON: ``{"Width": COLUMNS, "Height": ROWS}``."""
CLOSE: Final = 255
"""Carries the number of the channel to end."""

EXIT_CODE: Final = "ExitCode"
"""The type of the cause, in the final ``Status``, whose message is the exit code."""
NON_ZERO: Final = "NonZeroExitCode"
"""The reason of a final ``Status`` with a non-zero exit code."""

# Headers of the data stream and the error stream, which every forwarded connection has.
STREAM_TYPE: Final = "streamtype"
PORT: Final = "port"
REQUEST: Final = "requestid"
DATA_STREAM: Final = "data"
ERROR_STREAM: Final = "error"
