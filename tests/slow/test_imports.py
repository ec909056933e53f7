"""The modules that new processes load: light commands and the first screen load no other rooms."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from repository import SUPPORT


def loaded(code: str) -> set[str]:
    """Return the modules loaded by a new Python process after ``code``."""
    ask = "import json, sys\n" + code + "\njson.dump(sorted(sys.modules), sys.stdout)\n"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("arguments", [("--help",), ("status", "--root-dir", "/nowhere")])
def test_light_commands_load_neither_screen_nor_engine(arguments: tuple[str, ...]) -> None:
    found = loaded(
        "import contextlib, io\n"
        "from podtui.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        f"    main({list(arguments)!r})\n"
    )
    assert "podtui.cli.parser" in found
    assert not found & {"textual", "rich", "docker", "aiohttp", "requests"}


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("podtui.client.blocking", {"aiohttp", "asyncio", "msgspec", "textual", "docker"}),
        ("podtui.client.protocol", {"aiohttp", "textual", "docker", "yaml"}),
        ("podtui.client.unix", {"textual", "docker", "yaml", "podtui.store", "podtui.server"}),
        ("podtui.agent.run", {"docker", "h2", "grpclib", "textual"}),
        ("podtui.agent.standalone", {"docker"}),
    ],
)
def test_a_module_loads_nothing_heavy(module: str, heavy: set[str]) -> None:
    found = loaded(f"import {module}")
    assert module in found
    assert not found & heavy


def test_the_screen_loads_no_package_of_the_agent() -> None:
    found = loaded("import podtui.tui.run, podtui.tui.app")
    rooms = {name.split(".")[1] for name in found if name.startswith("podtui.")}
    assert "tui" in rooms
    assert not rooms & {"kubelet", "runtime", "store", "manifest", "server"}
    assert not found & {"docker", "sqlite3"}


def test_no_color_is_set_before_textual_is_imported() -> None:
    code = (
        "import os, sys\n"
        "from podtui.tui.run import theme_for_terminal\n"
        "assert 'textual' not in sys.modules\n"
        "theme = theme_for_terminal(os.environ)\n"
        "from tui_app import make_app\n"
        "app = make_app(theme=theme)\n"
        "assert app.theme == 'podtui-terminal', app.theme\n"
        "assert app.native_ansi_color\n"
    )
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(SUPPORT)}
    done = subprocess.run([sys.executable, "-c", code], check=False, env=environment)
    assert done.returncode == 0
