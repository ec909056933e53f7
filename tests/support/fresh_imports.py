"""Which modules an import loads, asked of a Python that has loaded nothing yet.

To start one and import a room takes a quarter of a second. So the rooms of `TOGETHER` are imported
one after the other by one of them: what a room loads is among what is there after it. Only where
that has something forbidden, which an earlier room may have brought, the room is asked alone.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from repository import ROOT

TOGETHER: Final = (
    "podtui.client.simple",
    "podtui.api.v1",
    "podtui.client.protocol",
    "podtui.store",
    "podtui.kubelet.kubelet",
    "podtui.runtime.memory",
    "podtui.client",
    "podtui.server",
)
_ASK: Final = """\
import sys
for name in sys.argv[1:]:
    __import__(name)
    print(name, *sys.modules)
"""


def forbidden_among(module: str, forbidden: set[str]) -> set[str]:
    """Which of the ``forbidden`` modules are loaded by importing ``module``."""
    if module in TOGETHER and not forbidden & after_each(TOGETHER)[module]:
        return set()
    return forbidden & after_each((module,))[module]


@functools.cache
def after_each(modules: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
    """All modules that are there after each of ``modules``, imported in this order."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK, *modules],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=60,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: frozenset(loaded) for name, *loaded in lines}
