"""``podtui kubeconfig``: write the root directory's kubeconfig, and print its path."""

from __future__ import annotations

import argparse
import socket
import sys
from datetime import UTC, datetime

from podtui.agent.control import prepare_root
from podtui.agent.lock import is_held
from podtui.cli.invocation import OK, root_words, settings_of
from podtui.errors import UsageError
from podtui.pki.access_point import (
    AccessPoint,
    choose_access_point,
    remembered_access_point,
    write_kubeconfig,
)
from podtui.pki.pki import Pki
from podtui.resources import typed_program
from podtui.text.terminal_text import one_line

_PATIENCE = 2.0


def run(namespace: argparse.Namespace) -> int:
    """Write the kubeconfig. Keys and port are created if necessary, so that the file is valid
    before the first agent runs. Only the path goes to standard output, for ``export
    KUBECONFIG=$(podtui kubeconfig)``."""
    settings = settings_of(namespace)
    if not settings.enableServer:
        raise UsageError("the API is not served over TCP: enableServer is false")
    prepare_root(settings)
    runs = is_held(settings.lock_path)
    pki = Pki(settings.pki_path, datetime.now(UTC))
    # A running agent may have been started with other flags.
    point = remembered_access_point(settings.rootDir) if runs else None
    if point is None:
        point = choose_access_point(settings.rootDir, settings.apiAddress, settings.apiPort)
    write_kubeconfig(settings.kubeconfig_path, point, pki.authority, pki.token)
    print(settings.kubeconfig_path)
    if not runs:
        start = f"{typed_program()} agent{root_words(namespace, settings)}"
        hint = f"no agent is running for {settings.rootDir}; '{start}' starts one"
        print(one_line(f"podtui: {hint}"), file=sys.stderr)
    elif not _answers(point):
        hint = f"the agent does not listen on {point.url}; see {settings.agent_log_path}"
        print(one_line(f"podtui: {hint}"), file=sys.stderr)
    return OK


def _answers(point: AccessPoint) -> bool:
    try:
        socket.create_connection((point.reached_at, point.port), timeout=_PATIENCE).close()
    except OSError:
        return False
    return True
