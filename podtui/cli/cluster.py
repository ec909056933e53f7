"""Requests to the cluster that a command line selects by ``--context`` and ``--kubeconfig``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from urllib.parse import quote

from podtui.cli.signals import run_until_signal
from podtui.client.cluster import ClusterClient
from podtui.errors import ApiError
from podtui.kubeconfig import Kubeconfig, Target, choose, load

Ask = Callable[..., bytes]


def find(namespace: argparse.Namespace) -> tuple[Kubeconfig, Target]:
    """Return the kubeconfig and the selected target. Raises `KubeconfigError`."""
    config = load(namespace.kubeconfig, os.environ)
    return config, choose(config, namespace.context)


def contexts(namespace: argparse.Namespace) -> list[str]:
    """Return the names of the kubeconfig's contexts. Raises `KubeconfigError`."""
    return sorted(load(namespace.kubeconfig, os.environ).contexts)


def client(target: Target, scope: str | None) -> ClusterClient:
    """Create a client; its credential plugin may prompt if there is a terminal."""
    return ClusterClient(target, namespace=scope, interactive=sys.stdin.isatty())


def scope_of(namespace: argparse.Namespace) -> str | None:
    """Return the namespace to query; empty for all, None for all that the user may read."""
    return "" if namespace.all_namespaces else namespace.namespace


@contextmanager
def api_requests(target: Target, scope: str | None) -> Generator[Ask]:
    """Provide a function that requests an API path and blocks until it is answered."""
    cluster = client(target, scope)
    with asyncio.Runner() as runner:

        def ask(path: str, accept: str = "application/json") -> bytes:
            return run_until_signal(cluster.ask(path, accept), runner)

        try:
            yield ask
        finally:
            runner.run(cluster.close())


def request_once(target: Target, path: str, seconds: float) -> bytes:
    """Request an API path. Raises `PodtuiError`, also on timeout."""

    async def ask() -> bytes:
        cluster = client(target, None)
        try:
            async with asyncio.timeout(seconds):
                return await cluster.ask(path)
        except TimeoutError as error:
            raise ApiError(504, "Timeout", f"{path}: no answer within {seconds:g} s") from error
        finally:
            await cluster.close()

    return run_until_signal(ask())


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
