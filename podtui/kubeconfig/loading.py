"""Finds the kubeconfig files, merges them, and resolves a context.

The rules are kubectl's (client-go, ``clientcmd``): if ``--kubeconfig`` is given, it is the only
file and must exist; otherwise the list in ``KUBECONFIG`` is used, and missing files are skipped;
otherwise ``~/.kube/config``. Of two entries with the same name, the one in the first file is used
as a whole; the same holds for ``current-context``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from podtui.kubeconfig.reader import read
from podtui.kubeconfig.types import AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError, Target

EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
_MOST_NAMED: Final = 20


def paths(explicit: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files to read, in order of precedence."""
    if explicit is not None:
        return (explicit,)
    listed = environ.get("KUBECONFIG", "")
    if listed:
        return tuple(Path(text) for text in dict.fromkeys(listed.split(os.pathsep)) if text)
    return (Path(environ.get("HOME") or Path.home()) / ".kube" / "config",)


def load(explicit: Path | None, environ: Mapping[str, str]) -> Kubeconfig:
    """Load all files and merge them. Raises `KubeconfigError` if one is invalid or none exists."""
    wanted = paths(explicit, environ)
    configs: list[Kubeconfig] = []
    for path in wanted:
        try:
            configs.append(read(path))
        except FileNotFoundError:
            if explicit is not None:
                raise KubeconfigError(f"{path}: no such file") from None
    if not configs:
        names = ", ".join(map(str, wanted)) or "KUBECONFIG contains no file"
        raise KubeconfigError(f"no kubeconfig found: {names}")
    return merge(configs)


def merge(configs: Sequence[Kubeconfig]) -> Kubeconfig:
    """Merge several kubeconfigs; an earlier one has precedence."""
    clusters: dict[str, Cluster] = {}
    users: dict[str, AuthInfo] = {}
    contexts: dict[str, Context] = {}
    for config in reversed(configs):
        clusters |= config.clusters
        users |= config.users
        contexts |= config.contexts
    return Kubeconfig(
        files=tuple(file for config in configs for file in config.files),
        current=next((config.current for config in configs if config.current), ""),
        clusters=clusters,
        users=users,
        contexts=contexts,
    )


def choose(config: Kubeconfig, name: str | None = None) -> Target:
    """Return a context with its cluster and user; the current context if no name is given. Raises
    `KubeconfigError` if something is missing or contradictory."""
    files = ", ".join(map(str, config.files))
    wanted = name or config.current
    if not wanted:
        raise KubeconfigError(
            f"{files}: no current context is set; use --context with one of:"
            f" {_names(config.contexts)}"
        )
    context = config.contexts.get(wanted)
    if context is None:
        raise KubeconfigError(
            f"{files}: context {wanted!r} does not exist; available: {_names(config.contexts)}"
        )
    cluster = config.clusters.get(context.cluster)
    if cluster is None:
        raise KubeconfigError(
            f"{context.position}: context {wanted!r}: cluster {context.cluster!r} does not exist;"
            f" available: {_names(config.clusters)}"
        )
    # A context without a user means anonymous access.
    user = config.users.get(context.user) if context.user else AuthInfo(name="")
    if user is None:
        raise KubeconfigError(
            f"{context.position}: context {wanted!r}: user {context.user!r} does not exist;"
            f" available: {_names(config.users)}"
        )
    for position, problem in (*cluster_problems(cluster), *user_problems(user)):
        raise KubeconfigError(f"{position}: {problem}")
    return Target(context=context, cluster=cluster, user=user)


def _names(entries: Iterable[str]) -> str:
    names = sorted(entries)
    more = len(names) - _MOST_NAMED
    shown = ", ".join(names[:_MOST_NAMED]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown


def cluster_problems(cluster: Cluster) -> list[tuple[str, str]]:
    """Return (position, message) of each problem that makes a cluster unusable."""
    problems: list[str] = []
    if not cluster.server:
        problems.append("has no server")
    else:
        parts = _url(cluster.server)
        if parts is None or parts.scheme not in ("https", "http"):
            problems.append("its server is not a URL such as https://host:6443")
        elif parts.username or parts.password or parts.query or parts.fragment:
            problems.append("its server's URL contains more than scheme, host, port and path")
    if cluster.ca_file and cluster.ca_data:
        problems.append("has both certificate-authority and certificate-authority-data")
    if cluster.insecure and (cluster.ca_file or cluster.ca_data):
        problems.append("has both insecure-skip-tls-verify and a certificate authority")
    if cluster.proxy_url:
        parts = _url(cluster.proxy_url)
        if parts is not None and parts.scheme.startswith("socks"):
            problems.append(
                f"its proxy-url is {parts.scheme}; podtui supports http and https proxies"
            )
        elif parts is None or parts.scheme not in ("http", "https"):
            problems.append("its proxy-url is not a URL such as http://host:3128")
    return [(cluster.position, f"cluster {cluster.name!r} {problem}") for problem in problems]


def _url(text: str) -> SplitResult | None:
    """Return None if the text is not a URL with a host and a valid port."""
    try:
        parts = urlsplit(text)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def user_problems(user: AuthInfo) -> list[tuple[str, str]]:
    """Return (position, message) of each problem that makes a user unusable."""
    problems: list[str] = []
    if user.auth_provider:
        problems.append(
            f"has the auth-provider {user.auth_provider!r}, which Kubernetes no longer supports;"
            " use its exec plugin"
        )
    if user.token and (user.username or user.password):
        problems.append("has both a token and a password")
    if (user.cert_file or user.cert_data) and not (user.key_file or user.key_data):
        problems.append("has a client certificate without client-key or client-key-data")
    for name, both in (
        ("client-certificate", user.cert_file and user.cert_data),
        ("client-key", user.key_file and user.key_data),
    ):
        if both:
            problems.append(f"has both {name} and {name}-data")
    given = user.impersonation
    if (given.uid or given.groups or given.extra) and not given.user:
        problems.append("has as-uid, as-groups or as-user-extra without as")
    if user.exec is not None:
        problems += _plugin_problems(user)
    return [(user.position, f"user {user.name!r} {problem}") for problem in problems]


def _plugin_problems(user: AuthInfo) -> list[str]:
    plugin = user.exec
    assert plugin is not None
    problems: list[str] = []
    if not plugin.command:
        problems.append("has an exec plugin without a command")
    if plugin.api_version not in EXEC_VERSIONS:
        problems.append(
            f"has an exec plugin of {plugin.api_version or 'no apiVersion'}; podtui supports "
            + " and ".join(EXEC_VERSIONS)
        )
    elif not plugin.interactive_mode and plugin.api_version == EXEC_VERSIONS[0]:
        problems.append("has an exec plugin without interactiveMode, which v1 requires")
    if plugin.interactive_mode and plugin.interactive_mode not in INTERACTIVE_MODES:
        problems.append(f"has an exec plugin whose interactiveMode is {plugin.interactive_mode!r}")
    return problems
