"""A loopback server that answers every connection with the same bytes, and records the requests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TLS_GREETING = b"\x16"
TURNS = 10
"""Turns of the loop in which a connection that the kernel has accepted reaches the server."""


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class Listener:
    port: int = 0
    answers: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """By path; "" is for all others."""
    requests: list[str] = field(default_factory=list[str])
    stall: bool = False
    """Keep the connection open after the response."""

    def paths(self) -> list[str]:
        return [one.split(" ")[1] for one in self.requests]

    def headers(self) -> dict[str, str]:
        """Return the headers of the last request by lower-case name; repeated ones are joined
        with a bar.
        """
        found: dict[str, str] = {}
        for line in self.requests[-1].split("\r\n")[1:]:
            name, colon, value = line.partition(": ")
            if colon:
                known = found.get(name.lower())
                found[name.lower()] = value if known is None else f"{known}|{value}"
        return found


@contextlib.asynccontextmanager
async def listening(
    *answers: bytes, tls: ssl.SSLContext | None = None, stall: bool = False
) -> AsyncIterator[Listener]:
    listener = Listener(stall=stall, answers={"": answers[0] if answers else b""})
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            first = await reader.readexactly(1)
            if first == TLS_GREETING:
                writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\nno TLS here")
                await writer.drain()
                raise ConnectionResetError
            request = (first + await reader.readuntil(b"\r\n\r\n")).decode()
            listener.requests.append(request)
            path = request.split(" ")[1]
            writer.write(listener.answers.get(path, listener.answers[""]))
            await writer.drain()
            if listener.stall:
                await over.wait()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async with asyncio.TaskGroup() as group:

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            group.create_task(serve(reader, writer))

        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
        listener.port = server.sockets[0].getsockname()[1]
        try:
            yield listener
        finally:
            over.set()
            server.close()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            await server.wait_closed()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_tls(folder: Path) -> ssl.SSLContext:
    """Return a server's context with a self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now - timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
