"""What the first picture waits for: each module costs a third of a millisecond and more."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import termios
from typing import Any

import pytest

from podtui.agent.lock import AgentLock, AgentRecord
from podtui.tui.later import MODULES

START = """\
import os, sys
from podtui import cli
from podtui.tui import run

def told():
    ours = [name for name in sys.modules if name.partition(".")[0] == "podtui"]
    classes = [f"{name}.{key}" for name in ours for key, one in vars(sys.modules[name]).items()
               if "__dataclass_fields__" in getattr(one, "__dict__", ()) and one.__module__ == name]
    others = sorted({name.partition(".")[0] for name in sys.modules})
    import json
    with open(sys.argv.pop(), "w") as file:
        json.dump({"ours": ours, "classes": classes, "others": others}, file)
    os._exit(0)

assert callable(run.settle)
run.settle = told
sys.exit(cli.main(sys.argv[1:-1]))
"""
"""Ends where the screen tells that the first picture is painted."""
SIZE = (36, 120)
PATIENCE = 60
"""Seconds without a change."""

HEAVY = {"aiohttp", "docker", "json", "multidict", "watchfiles", "yaml", "yarl"}
DATACLASSES = {"podtui.api.quantity.Quantity", "podtui.tui.widgets.dialogs.Option"}
"""Those that stay though each takes half a millisecond to make; `msgspec.Struct` takes none."""
ROOMS = {
    "podtui": """
        cli errors resources settings terminal_text
        """,
    "podtui.agent": "control lock",
    "podtui.api": """
        health images insight kills local manifests names pods printing quantity readiness
        thresholds times v1
        """,
    "podtui.cli": "invocation parser program screen",
    "podtui.client": "protocol",
    "podtui.settings": "declarations resolve values",
    "podtui.tui": "agent app driver late_client later model run tidying",
    "podtui.tui.actions": "acting_screen actions own_deeds terminal",
    "podtui.tui.keys": "commands completion in_turn key_map key_names",
    "podtui.tui.logs": """
        ansi line_buffer line_set log_canvas log_commands log_drawing log_events log_export
        log_filter log_json log_levels log_lines log_merge log_paint log_prompt log_rows log_store
        log_stream log_tags log_target log_time log_view logs_pane
        """,
    "podtui.tui.looks": "alerts file_changes notifier preferences preferred theme_text themes",
    "podtui.tui.node": "node_gauges node_history node_shares nodes",
    "podtui.tui.overview": """
        arrangement chrome events_pane layout main_screen node_pane offers pods_pane
        prompted_screen pulls rows screen_memory totals view_history waiting
        """,
    "podtui.tui.pods": "pod_rows pod_status usage",
    "podtui.tui.widgets": """
        bars cells column_choice column_filter compositing dialogs drawn_rows filters format
        live_screen marks natural notices pane prompt row_index row_set row_table sanitize
        scrolled_text table table_lines table_pane toasts tones
        """,
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is loaded at the first picture of a real `podtui` whose agent runs."""
    root = tmp_path_factory.mktemp("first")
    lock = AgentLock(root / "podtui.lock")
    lock.acquire(
        AgentRecord(pid=os.getpid(), version="1", nodeName="n", staticPodPath=str(root),
                    engine="memory", started="2026-01-01T00:00:00Z")
    )  # fmt: skip
    found = root / "found.json"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PODTUI_")}
    environment = {
        **kept, "TERM": "xterm-256color", "COLORTERM": "truecolor", "XDG_CONFIG_HOME": str(root),
        "XDG_STATE_HOME": str(root), "PODTUI_ROOT_DIR": str(root),
    }  # fmt: skip
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, SIZE)
    screen = subprocess.Popen(
        [sys.executable, "-c", START, str(found)], env=environment,
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    try:
        drawn = _drawn(master)
    finally:
        screen.kill()
        screen.wait()
        os.close(master)
        lock.release()
    assert b"Pods" in drawn
    return json.loads(found.read_text())


def _drawn(master: int) -> bytes:
    """All that is drawn until the program ends, or draws nothing any more."""
    found = b""
    while select.select([master], [], [], PATIENCE)[0]:
        try:
            found += os.read(master, 1 << 16)
        except OSError:
            break
    return found


def test_nothing_heavy_goes_before_it(loaded: dict[str, Any]) -> None:
    assert HEAVY.isdisjoint(loaded["others"])


def test_what_keys_open_comes_later(loaded: dict[str, Any]) -> None:
    assert not set(MODULES) & set(loaded["ours"])


def test_no_other_module_of_ours_goes_before_it(loaded: dict[str, Any]) -> None:
    """Import a new one where it is used, with its name in `podtui.tui.later.MODULES` if a key needs
    it at once; or write it here, because the first picture shows what it draws."""
    known = {f"{room}.{name}" for room, names in ROOMS.items() for name in names.split()}
    rooms = {module for module in loaded["ours"] if any(m.startswith(f"{module}.") for m in known)}
    came = set(loaded["ours"]) - rooms - known
    assert not came, f"came: {sorted(came)}"
    gone = known - set(loaded["ours"])
    assert not gone, f"is not waited for any more, take it out here: {sorted(gone)}"


def test_its_plain_data_are_structs(loaded: dict[str, Any]) -> None:
    assert set(loaded["classes"]) <= DATACLASSES
