"""``podtui web``: the screen in a browser; the implementation is in `podtui.web`."""

from __future__ import annotations

import argparse

from podtui.cli import screen
from podtui.cli.invocation import OK, resolved_of
from podtui.web.access import loopback_host
from podtui.web.run import WebOptions, run_web


def run(namespace: argparse.Namespace) -> int:
    """Serve until interrupted. Raises `podtui.errors.UsageError` and `podtui.web.run.WebFailed`."""
    resolved = resolved_of(namespace)
    settings = resolved.settings
    title = settings.nodeName
    if namespace.cluster:
        from podtui.cli import cluster

        # Report kubeconfig errors here, not in each tab.
        title = cluster.find(namespace)[1].context.name
    else:
        screen.ensure_folder(namespace, settings.staticPodPath)

    def say(line: str) -> None:
        print(line, flush=True)

    run_web(
        WebOptions(
            host=loopback_host(namespace.host),
            port=namespace.port,
            folder=settings.rootDir,
            arguments=screen.screen_arguments(namespace, resolved),
            title=f"podtui {title}",
            readonly=settings.readOnly,
            open_browser=namespace.open,
        ),
        say,
    )
    if not namespace.cluster:
        screen.print_agent(namespace, settings)
    return OK
