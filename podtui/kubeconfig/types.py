"""A kubeconfig as plain data. Every ``repr`` omits secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podtui.errors import UsageError


class KubeconfigError(UsageError):
    """Raised for an unusable kubeconfig; the text names file, line and field, but no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """``server`` is a URL. ``ca_data`` (PEM) has precedence over ``ca_file``; without either, the
    system's certificate authorities are used. ``exec_config`` is passed to exec plugins that
    request it."""

    name: str
    server: str = ""
    ca_file: Path | None = None
    ca_data: bytes = b""
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    exec_config: Any = None
    position: str = ""
    """File, line and column, for error messages."""

    @property
    def is_secure(self) -> bool:
        return self.server.lower().startswith("https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A command that returns the user's credentials. ``env`` is added to the environment."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """The identity to impersonate, if the user is allowed to."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthInfo:
    """Certificates and keys are PEM; data has precedence over files. ``auth_provider`` is the name
    of a requested auth provider, a mechanism that Kubernetes has removed."""

    name: str
    cert_file: Path | None = None
    cert_data: bytes = field(default=b"", repr=False)
    key_file: Path | None = None
    key_data: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    exec: ExecPlugin | None = None
    auth_provider: str = ""
    impersonation: Impersonation = field(default_factory=Impersonation)
    position: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """An empty ``namespace`` means ``default``."""

    name: str
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    position: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """The merged content of several files; ``files`` are those that existed."""

    files: tuple[Path, ...] = ()
    current: str = ""
    clusters: Mapping[str, Cluster] = field(default_factory=dict[str, Cluster])
    users: Mapping[str, AuthInfo] = field(default_factory=dict[str, AuthInfo])
    contexts: Mapping[str, Context] = field(default_factory=dict[str, Context])


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A context with its cluster and its user."""

    context: Context
    cluster: Cluster
    user: AuthInfo

    @property
    def namespace(self) -> str:
        return self.context.namespace or "default"
