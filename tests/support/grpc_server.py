"""A controllable gRPC server of the health protocol on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded

Headers = list[tuple[str, str]]
GRPC: Headers = [(":status", "200"), ("content-type", "application/grpc")]


def message(status: int) -> bytes:
    """Return a framed ``HealthCheckResponse``."""
    body = bytes((0x08, status)) if status else b""
    return b"\x00" + len(body).to_bytes(4, "big") + body


@dataclass
class GrpcServer:
    headers: Headers = field(default_factory=lambda: list(GRPC))
    body: bytes = message(1)
    trailers: Headers = field(default_factory=lambda: [("grpc-status", "0")])
    """If empty, the reply consists of its first block of headers."""
    silent: bool = False
    """Accept the call and never answer."""
    mute: bool = False
    """Accept the connection and never send settings."""
    hang_up: bool = False
    """Close the connection on a call."""
    reset: ErrorCodes | None = None
    port: int = 0
    calls: list[tuple[dict[str, str], bytes]] = field(
        default_factory=list[tuple[dict[str, str], bytes]]
    )
    """Headers and body of each call."""
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.mute:
            await reader.read()
            writer.close()
            return
        http2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        http2.initiate_connection()
        headers: dict[str, str] = {}
        body = b""
        writer.write(http2.data_to_send())
        while data := await reader.read(65536):
            for event in http2.receive_data(data):
                if isinstance(event, RequestReceived):
                    headers = {str(name): str(value) for name, value in event.headers}
                elif isinstance(event, DataReceived):
                    body += event.data or b""
                elif isinstance(event, StreamEnded):
                    self.calls.append((headers, body))
                    self._answer(http2, event.stream_id or 0)
            writer.write(http2.data_to_send())
            if self.hang_up and self.calls:
                break
        writer.close()

    def _answer(self, http2: H2Connection, stream: int) -> None:
        if self.silent or self.hang_up:
            return
        if self.reset is not None:
            http2.reset_stream(stream, self.reset)
            return
        http2.send_headers(stream, self.headers, end_stream=not self.trailers)
        if self.trailers:
            http2.send_data(stream, self.body)
            http2.send_headers(stream, self.trailers, end_stream=True)


@contextlib.asynccontextmanager
async def grpc_server(server: GrpcServer | None = None, port: int = 0) -> AsyncIterator[GrpcServer]:
    server = server or GrpcServer()
    tasks: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        with contextlib.suppress(OSError):
            await server.serve(reader, writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", port)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await asyncio.gather(*[task for task in tasks if task is not None])
        await listening.wait_closed()
