"""Find the engine, and explain for each candidate why it does not answer.

Blocking, and implemented without the SDK so that each failure keeps its own reason.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

DEFAULT_SOCKET: Final = "/var/run/docker.sock"
PROBE_SECONDS: Final = 5.0
_SECURE_PORT: Final = 2376
_PLAIN_PORT: Final = 2375


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Paths of the PEM files for a TLS engine; without ``ca``, the system's CAs are used."""

    ca: str | None
    certificate: str
    key: str
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """Return a TLS context for engine connections. Raises OSError if a file cannot be read."""
        context = ssl.create_default_context(cafile=self.ca)
        # Certificates created as in Docker's documentation lack extensions that RFC 5280 requires,
        # so Python 3.13 and later reject them by default.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.load_cert_chain(self.certificate, self.key)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A possible address of an engine. ``source`` describes where the address comes from."""

    url: str
    source: str
    tls: TlsFiles | None = None

    @property
    def socket_path(self) -> str | None:
        """The path of a unix socket, None for TCP."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else None

    @property
    def http_url(self) -> str:
        """The base URL for HTTP requests. For a unix socket the host is only a placeholder."""
        if self.socket_path is not None:
            return "http://engine"
        parts = urlsplit(self.url)
        scheme = "https" if self.tls else "http"
        port = parts.port or (_SECURE_PORT if self.tls else _PLAIN_PORT)
        host = parts.hostname or "127.0.0.1"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@dataclass(frozen=True, slots=True)
class TriedEndpoint:
    """A candidate without an engine, and the problem found."""

    endpoint: Endpoint
    problem: str


@dataclass(frozen=True, slots=True)
class EngineSearch:
    """``found`` is the first endpoint that answered; ``tried`` are the candidates before it."""

    endpoint: Endpoint | None
    tried: tuple[TriedEndpoint, ...]

    def explain(self) -> str:
        """List the tried candidates with their problems, one per line."""
        if self.endpoint is not None:
            return f"{self.endpoint.url} ({self.endpoint.source}) answers"
        lines = [f"  {t.endpoint.url} ({t.endpoint.source}): {t.problem}" for t in self.tried]
        return "\n".join(["no container engine answers; tried:", *lines])


def find_engine(
    url: str | None = None, *, environ: Mapping[str, str] | None = None
) -> EngineSearch:
    """Search for an engine at ``url``, or at the usual locations (None). Blocks for seconds."""
    environ = os.environ if environ is None else environ
    tried: list[TriedEndpoint] = []
    for endpoint in _candidates(url, environ):
        problem = _probe(endpoint)
        if not problem:
            return EngineSearch(endpoint, tuple(tried))
        tried.append(TriedEndpoint(endpoint, problem))
    return EngineSearch(None, tuple(tried))


def _candidates(url: str | None, environ: Mapping[str, str]) -> Iterator[Endpoint]:
    if url:
        yield Endpoint(url=url, source="as requested", tls=_tls_of_environment(url, environ))
        return
    if host := environ.get("DOCKER_HOST"):
        # An explicitly configured engine has no fallback.
        yield Endpoint(url=host, source="DOCKER_HOST", tls=_tls_of_environment(host, environ))
        return
    context = _context(environ)
    if context is not None:
        yield context
    seen = {context.url} if context else set[str]()
    for path, source in _default_sockets(environ):
        if (usual := f"unix://{path}") not in seen:
            seen.add(usual)
            yield Endpoint(url=usual, source=source)


def _default_sockets(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    yield DEFAULT_SOCKET, "the default location"
    yield f"{runtime}/docker.sock", "rootless Docker"
    yield f"{runtime}/podman/podman.sock", "rootless Podman"
    yield "/run/podman/podman.sock", "Podman"


def _tls_of_environment(url: str, environ: Mapping[str, str]) -> TlsFiles | None:
    verify = environ.get("DOCKER_TLS_VERIFY", "")
    folder = environ.get("DOCKER_CERT_PATH") or (_config_folder(environ) if verify else None)
    if url.startswith("unix://") or not folder:
        return None
    return _tls_files(Path(folder), verify=bool(verify))


def _tls_files(folder: Path, *, verify: bool) -> TlsFiles | None:
    certificate, key, ca = folder / "cert.pem", folder / "key.pem", folder / "ca.pem"
    if not (certificate.is_file() and key.is_file()):
        return None
    return TlsFiles(
        ca=str(ca) if ca.is_file() else None,
        certificate=str(certificate),
        key=str(key),
        verify=verify,
    )


def _config_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _context(environ: Mapping[str, str]) -> Endpoint | None:
    """Return the endpoint of the current docker context; None for the default or a broken file."""
    folder = _config_folder(environ)
    name = environ.get("DOCKER_CONTEXT") or _read(folder / "config.json").get("currentContext")
    if not isinstance(name, str) or name in ("", "default"):
        return None
    key = hashlib.sha256(name.encode()).hexdigest()
    try:
        engine = _read(folder / "contexts" / "meta" / key / "meta.json")["Endpoints"]["docker"]
        url = str(engine["Host"])
    except (KeyError, TypeError):
        return Endpoint(url=f"context {name}", source="docker context")
    tls = _tls_files(
        folder / "contexts" / "tls" / key / "docker", verify=not engine.get("SkipTLSVerify")
    )
    return Endpoint(url=url, source=f"docker context {name}", tls=tls)


def _read(path: Path) -> dict[str, Any]:
    try:
        content: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast(dict[str, Any], content) if isinstance(content, dict) else {}


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("engine", timeout=PROBE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PROBE_SECONDS)
        self.sock.connect(self._path)


def _connection(endpoint: Endpoint) -> http.client.HTTPConnection:
    if endpoint.socket_path is not None:
        return _UnixConnection(endpoint.socket_path)
    parts = urlsplit(endpoint.http_url)
    host, port = parts.hostname or "", parts.port
    if endpoint.tls is not None:
        context = endpoint.tls.context()
        return http.client.HTTPSConnection(host, port, timeout=PROBE_SECONDS, context=context)
    return http.client.HTTPConnection(host, port, timeout=PROBE_SECONDS)


def _probe(endpoint: Endpoint) -> str:
    """Return an empty string if an engine answers, else the problem and its fix."""
    scheme = endpoint.url.partition("://")[0]
    if scheme == "ssh":
        return "ssh is not supported; forward the socket: ssh -L /tmp/e.sock:/var/run/docker.sock"
    if scheme not in ("unix", "tcp", "http", "https"):
        return "not a valid engine address: use unix://PATH or tcp://HOST:PORT"
    try:
        connection = _connection(endpoint)
        try:
            connection.request("GET", "/_ping")
            status = connection.getresponse().status
        finally:
            connection.close()
    except FileNotFoundError:
        return "no such socket"
    except PermissionError:
        return "permission denied: the socket belongs to another user or group"
    except ConnectionRefusedError:
        return "connection refused; start the engine (systemctl start docker)"
    except TimeoutError:
        return f"no answer within {PROBE_SECONDS:g} s"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return (
        ""
        if status == 200
        else f"responds with HTTP status {status}; a container engine would respond with 200"
    )
