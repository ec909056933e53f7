"""A kubeconfig as plain data. What is secret is left out of every ``repr``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podtui.errors import UsageError


class KubeconfigError(UsageError):
    """Raised for a kubeconfig that cannot be used; the text names file, line and field, and nothing
    that is secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """``server`` is a URL. ``ca_data`` (PEM) goes before ``ca_file``; with neither of them the
    machine's own authorities count. ``exec_config`` is handed to exec plugins that ask for it."""

    name: str
    server: str = ""
    ca_file: Path | None = None
    ca_data: bytes = b""
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    exec_config: Any = None
    place: str = ""
    """File, line and column, for errors."""

    @property
    def is_secure(self) -> bool:
        return self.server.lower().startswith("https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A command that says who one is. ``env`` is added to the environment."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """Who to be instead, where one may."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Certificates and keys are PEM; data goes before files. ``auth_provider`` names one that
    is asked for and that nobody has any more."""

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
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``namespace`` empty means ``default``."""

    name: str
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """Several files as one; ``files`` are those that were there."""

    files: tuple[Path, ...] = ()
    current: str = ""
    clusters: Mapping[str, Cluster] = field(default_factory=dict[str, Cluster])
    users: Mapping[str, User] = field(default_factory=dict[str, User])
    contexts: Mapping[str, Context] = field(default_factory=dict[str, Context])


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One context with all that belongs to it."""

    context: Context
    cluster: Cluster
    user: User

    @property
    def namespace(self) -> str:
        return self.context.namespace or "default"
