"""The command line for clusters: ``--context``, ``--kubeconfig`` and the commands that use them.

Heavy modules are imported only when a command needs them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from podtui.errors import ApiError, PodtuiError, UsageError
from podtui.terminal_text import lines

if TYPE_CHECKING:
    from podtui.client.cluster import ClusterClient
    from podtui.kubeconfig import Kubeconfig, Target
    from podtui.settings import Resolved

FLAGS: Final = ("context", "kubeconfig", "namespace", "all_namespaces")
TAKES_VALUE: Final = frozenset({"--context", "--kubeconfig", "-n", "--namespace"})
COMMANDS: Final = frozenset({None, "web", "status", "why", "exec", "attach", "port-forward", "cp"})
"""The commands that support clusters; None is the screen."""


def options() -> argparse.ArgumentParser:
    """Return a new parent parser with the cluster options."""
    found = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = found.add_argument_group("options for a cluster, instead of this machine's agent")
    group.add_argument("--context", metavar="NAME", help="the context of the kubeconfig to use")
    group.add_argument(
        "--kubeconfig", metavar="FILE", type=Path,
        help="the kubeconfig (default: $KUBECONFIG, else ~/.kube/config)",
    )  # fmt: skip
    group.add_argument("-n", "--namespace", metavar="NAME", help="look into this namespace alone")
    group.add_argument("-A", "--all-namespaces", action="store_true", help="look into all")
    return found


def is_asked(namespace: argparse.Namespace) -> bool:
    """Return whether a cluster is selected. Raises `UsageError` for invalid combinations."""
    asked = namespace.context is not None or namespace.kubeconfig is not None
    if asked and namespace.command not in COMMANDS:
        raise UsageError(f"'podtui {namespace.command}' is about this machine, not clusters")
    if asked and namespace.all_namespaces and namespace.namespace:
        raise UsageError("--namespace and --all-namespaces contradict each other")
    if not asked and namespace.command in (None, "web", "status", "why"):
        for flag in ("namespace", "all_namespaces"):
            if getattr(namespace, flag):
                raise UsageError(
                    f"--{flag.replace('_', '-')} is for clusters: say --context or --kubeconfig"
                )
    return asked


def arguments(namespace: argparse.Namespace) -> list[str]:
    """Return the arguments that select the same cluster in another process."""
    found: list[str] = []
    if namespace.context is not None:
        found.append(f"--context={namespace.context}")
    if namespace.kubeconfig is not None:
        found.append(f"--kubeconfig={namespace.kubeconfig.absolute()}")
    if namespace.namespace is not None:
        found.append(f"--namespace={namespace.namespace}")
    if namespace.all_namespaces:
        found.append("--all-namespaces")
    return found


def find(namespace: argparse.Namespace) -> tuple[Kubeconfig, Target]:
    """Return the kubeconfig and the selected target. Raises `KubeconfigError`."""
    from podtui.kubeconfig import choose, load

    config = load(namespace.kubeconfig, os.environ)
    return config, choose(config, namespace.context)


def contexts(namespace: argparse.Namespace) -> list[str]:
    """Return the names of the kubeconfig's contexts. Raises `KubeconfigError`."""
    from podtui.kubeconfig import load

    return sorted(load(namespace.kubeconfig, os.environ).contexts)


def client(target: Target, scope: str | None) -> ClusterClient:
    """Create a client; its credential plugin may prompt if there is a terminal."""
    from podtui.client.cluster import ClusterClient

    return ClusterClient(target, namespace=scope, interactive=sys.stdin.isatty())


def scope_of(namespace: argparse.Namespace) -> str | None:
    """Return the namespace to query; empty for all, None for all that the user may read."""
    return "" if namespace.all_namespaces else namespace.namespace


# --- the screen


def screen(namespace: argparse.Namespace, resolve: Callable[[], Resolved]) -> int:
    """Show the cluster, and any cluster that the user switches to, until the user quits."""
    from podtui.kubeconfig import choose
    from podtui.tui.run import run_cluster

    config, target = find(namespace)
    scope = scope_of(namespace)
    while True:
        status, wanted = run_cluster(
            resolve(),
            reread=resolve,
            target=target,
            client=_screen_client(target, scope),
            contexts=tuple(sorted(config.contexts)),
        )
        if not wanted:
            return status
        try:
            target = choose(config, wanted)
        except PodtuiError as error:
            print(lines(f"podtui: {error}"), file=sys.stderr)
            return 2


def _screen_client(target: Target, scope: str | None) -> ClusterClient:
    """Return the client of the screen. A credential plugin prompts before the screen takes the
    terminal."""
    made = client(target, scope)
    if target.user.exec is not None:
        import asyncio

        asyncio.run(_identified(made))
    made.credentials.leave_terminal()
    return made


async def _identified(made: ClusterClient) -> None:
    await made.credentials.identity()


# --- single requests


Ask = Callable[..., bytes]


@contextmanager
def asking(target: Target, scope: str | None) -> Generator[tuple[Ask, ClusterClient]]:
    """Provide a function that requests an API path and blocks until it is answered."""
    import asyncio

    made = client(target, scope)
    with asyncio.Runner() as runner:

        def ask(path: str, accept: str = "application/json") -> bytes:
            return runner.run(made.ask(path, accept))

        try:
            yield ask, made
        finally:
            runner.run(made.close())


def ask_once(target: Target, path: str, seconds: float) -> bytes:
    """Request an API path. Raises `PodtuiError`, also on timeout."""
    import asyncio

    async def ask() -> bytes:
        made = client(target, None)
        try:
            async with asyncio.timeout(seconds):
                return await made.ask(path)
        except TimeoutError as error:
            raise ApiError(504, "Timeout", f"{path}: no answer within {seconds:g} s") from error
        finally:
            await made.close()

    return asyncio.run(ask())


def pods_path(target: Target, scope: str | None, ask: Ask) -> str:
    """Return the path of the pods that the user may read."""
    if scope is None:
        try:
            ask("/api/v1/pods?limit=1")
        except ApiError as error:
            if error.code != 403:
                raise
            scope = target.namespace
        else:
            scope = ""
    return f"/api/v1/namespaces/{quote(scope, safe='')}/pods" if scope else "/api/v1/pods"


def status(namespace: argparse.Namespace) -> int:
    """Print nodes and pods; if the user may not list nodes, print that error to standard error."""
    import json

    from podtui.client.answers import understood
    from podtui.status_table import TABLE, health_words, render

    _, target = find(namespace)
    scope = scope_of(namespace)
    with asking(target, scope) as (ask, _):
        places = ["/api/v1/nodes", pods_path(target, scope, ask)]
        items: list[Any] = []
        said = 0
        for path in places:
            try:
                accept = TABLE if namespace.output == "table" else "application/json"
                query = "?includeObject=Object" if namespace.output == "table" else ""
                found = understood(path, ask(path + query, accept), dict[str, Any])
            except ApiError as error:
                if error.code != 403 or path == places[-1]:
                    raise
                print(lines(f"podtui: {error}"), file=sys.stderr)
                continue
            if namespace.output == "table":
                namespaced = path == "/api/v1/pods"
                health = health_words(found, time.time()) if path == places[-1] else None
                text = render(found, namespaced=namespaced, health=health)
                print(lines(("\n" if said else "") + text))
                said += 1
            else:
                items += typed(found)
    if namespace.output == "json":
        listing: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "metadata": {}}
        listing["items"] = items
        print(json.dumps(listing, indent=2))
    return 0


def typed(listing: dict[str, Any]) -> list[Any]:
    """Add kind and version to the items of a list: API servers write them only once, on the
    list."""
    kind = str(listing.get("kind", "")).removesuffix("List")
    its = {"kind": kind, "apiVersion": listing.get("apiVersion", "")}
    items: list[dict[str, Any]] = listing.get("items") or []
    return [{**its, **item} for item in items]


def why(namespace: argparse.Namespace) -> int:
    """Print why pods are not running; return 1 if there is such a pod."""
    from podtui.why_command import why_of_cluster

    _, target = find(namespace)
    scope = scope_of(namespace)
    with asking(target, scope) as (ask, _):
        pods = pods_path(target, scope, ask)
        text, well = why_of_cluster(ask, pods, namespace.pod, namespace.output)
    print(text if namespace.output == "json" else lines(text))
    return 0 if well else 1
