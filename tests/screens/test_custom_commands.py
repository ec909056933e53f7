"""Custom commands and hotkeys in a running screen."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from preference_files import read_preferences
from textual.pilot import Pilot
from tui_app import main, running, wait_for
from tui_scene import full_client, pod, status

from podtui.api.local import NodeImage
from podtui.tui.app import PodtuiApp
from podtui.tui.model.model import pod_key
from podtui.tui.preferences.live import PreferencesFile, problems_of
from podtui.tui.preferences.preferences import Preferences
from podtui.tui.screens.help_screen import HelpScreen
from podtui.tui.screens.menu import Menu
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.output_screen import OutputScreen
from podtui.tui.widgets.dialogs import Dialog, Picker
from podtui.tui.widgets.tones import LinesView

RECORD = (
    "import json, os, sys;"
    "values = {k: v for k, v in os.environ.items() if k.startswith('PODTUI')};"
    "open(sys.argv[1], 'a').write(json.dumps([sys.argv[2:], values]) + chr(10))"
)


def preferences(folder: Path, *commands: dict[str, Any], **hotkeys: str) -> Preferences:
    """Write the preferences; JSON is YAML, too."""
    path = folder / "config.yaml"
    path.write_text(json.dumps({"commands": commands, "hotkeys": hotkeys}))
    found = read_preferences(path)
    assert problems_of(found) == ()
    return found


def recording_command(folder: Path, *words: str, **fields: Any) -> dict[str, Any]:
    """Return a command that records its arguments and environment."""
    command = [sys.executable, "-c", RECORD, str(folder / "calls"), *words]
    return {"name": "tell", "mode": "background", "command": command, **fields}


def recorded_calls(folder: Path) -> list[Any]:
    path = folder / "calls"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def notices(app: PodtuiApp) -> list[str]:
    return [f"{each.title}: {each.message}" for each in app.notices]


async def typed(pilot: Pilot[None], line: str) -> None:
    names = {" ": "space", "-": "minus"}
    await pilot.press("colon", *(names.get(sign, sign) for sign in line), "enter")


async def test_a_key_runs_a_command_on_the_pod_under_the_cursor(tmp_path: Path) -> None:
    command = recording_command(
        tmp_path, "$(POD_NAME)", "of $(NAMESPACE)", key="ctrl+g", description="tells"
    )
    async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
        (under,) = main(app).chosen_pods()
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: notices(app), "the word")
        assert notices(app) == [f"tell · {under.metadata.name}: exit status 0"]
        ((words, values),) = recorded_calls(tmp_path)
        assert words == [under.metadata.name, "of default"]
        assert values["PODTUI_UID"] == under.metadata.uid
        await pilot.press("J")
        assert any(entry.what == "tell" for entry in app.session.journal)


async def test_commands_are_completed_and_listed_in_menu_and_help(tmp_path: Path) -> None:
    command = recording_command(tmp_path, "x", description="tells it")
    keyed = {**command, "name": "keyed", "key": "ctrl+g"}
    async with running(preferences=preferences(tmp_path, command, keyed)) as (app, pilot):
        assert "tell" in app.command_words()
        await typed(pilot, "tell")
        await wait_for(pilot, lambda: recorded_calls(tmp_path), "the command")
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        view = app.screen.query_one(LinesView)
        await wait_for(pilot, lambda: view.lines, "help")
        shown = ["".join(span.text for span in line).split() for line in view.lines]
        place = shown.index(["Custom", "commands"])
        assert shown[place + 1] == [":tell", "tells", "it"]
        assert shown[place + 2] == ["^g", ":keyed", "tells", "it"]
        await pilot.press("escape", "m")
        assert isinstance(app.screen, Menu)
        (choice,) = [each for each in app.screen.items if each.id == "own.tell"]
        assert (choice.shown, choice.name, choice.description) == (":tell", "tell", "tells it")
        (choice,) = [each for each in app.screen.items if each.id == "own.keyed"]
        assert choice.shown == "^g"


async def test_runs_for_each_marked_pod_after_one_confirmation(tmp_path: Path) -> None:
    command = recording_command(tmp_path, "$(POD_NAME)", key="ctrl+g", confirm=True)
    async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
        await pilot.press("space", "down", "space")
        names = [each.metadata.name for each in main(app).chosen_pods()]
        assert len(names) == 2
        await pilot.press("ctrl+g")
        assert isinstance(app.screen, Dialog)
        assert [option.label for option in app.screen.buttons.options] == ["Cancel", "Run tell"]
        await pilot.press("enter")
        assert recorded_calls(tmp_path) == []
        await pilot.press("ctrl+g", "y")
        await wait_for(pilot, lambda: len(notices(app)) == 2, "both")
        assert [words for words, _ in recorded_calls(tmp_path)] == [[name] for name in names]


async def test_an_unavailable_command_is_not_in_the_menu_and_reports_why(tmp_path: Path) -> None:
    command = recording_command(tmp_path, "$(LINE)", key="ctrl+g")
    async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
        why = [":tell: no log line is selected; focus the log first"]
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: notices(app) == why, "the word for the key")
        app.clear_notifications()
        await typed(pilot, "tell")
        await wait_for(pilot, lambda: notices(app) == why, "the word for the line")
        await pilot.press("m")
        assert isinstance(app.screen, Menu)
        assert [each for each in app.screen.items if each.id == "own.tell"] == []
    assert recorded_calls(tmp_path) == []


async def test_a_log_line_is_a_variable(tmp_path: Path) -> None:
    command = recording_command(
        tmp_path, "$(LINE)", "$(CONTAINER)", key="ctrl+g", **{"for": "container"}
    )
    async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
        await pilot.press("l")
        logs = main(app).logs
        await wait_for(pilot, lambda: logs.chosen_line, "a line")
        assert logs.chosen_line is not None
        target, line = logs.chosen_line
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: recorded_calls(tmp_path), "the command")
        assert recorded_calls(tmp_path)[0][0] == [line, target.container]
        assert line


async def test_read_only_hides_dangerous_commands(tmp_path: Path) -> None:
    command = recording_command(tmp_path, "x", key="ctrl+g", dangerous=True)
    mild = {**command, "name": "mild", "dangerous": False, "key": "ctrl+o"}
    found = preferences(tmp_path, command, mild, f5="tell")
    async with running(preferences=found, readonly=True) as (app, pilot):
        assert "tell" not in app.command_words()
        await pilot.press("ctrl+g")
        refusal = ["Read-only: podtui is read-only: nothing can be changed"]
        await wait_for(pilot, lambda: notices(app) == refusal, "the refusal of the key")
        app.clear_notifications()
        await typed(pilot, "tell")
        await wait_for(pilot, lambda: notices(app), "the word")
        why = [": podtui is read-only: nothing can be changed"]
        assert notices(app) == why
        app.clear_notifications()
        await pilot.press("f5")
        await wait_for(pilot, lambda: notices(app) == why, "the word for the hotkey")
        assert recorded_calls(tmp_path) == []
        await pilot.press("ctrl+o")
        await wait_for(pilot, lambda: recorded_calls(tmp_path), "the harmless one")
        assert len(recorded_calls(tmp_path)) == 1


async def test_output_is_stripped_searchable_and_can_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = "printf 'one\\033]0;bad\\007\\033[2Jtwo\\r\\n'; echo $PODTUI_IMAGE; echo three; exit 4"
    command = {"name": "print", "mode": "output", "key": "ctrl+g", "command": ["sh", "-c", script],
           "for": "image"}  # fmt: skip
    async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: isinstance(app.screen, OutputScreen), "the screen")
        screen = app.screen
        assert isinstance(screen, OutputScreen)
        view = screen.pane.view
        await wait_for(pilot, lambda: len(view.buffer) == 4, "the lines")

        def drawn_lines() -> list[str]:
            return [view.render_line(y).text.rstrip() for y in range(4)]

        await wait_for(pilot, lambda: "exit status 4" in drawn_lines()[3], "they are drawn")
        drawn = drawn_lines()
        assert drawn[0].strip().startswith("one")
        assert drawn[0].endswith("two")
        assert "\x1b" not in "".join(drawn)
        assert drawn[3].strip().startswith("── exit status 4 ──")
        assert "exit status 4" in str(screen.pane.border_subtitle)
        await pilot.press("F", *"three", "enter")
        assert view.match_count == 1
        await pilot.press("ctrl+s")
        await wait_for(pilot, lambda: list(tmp_path.glob("print-*.log")), "the file")
        (saved,) = tmp_path.glob("print-*.log")  # noqa: ASYNC240
        await wait_for(pilot, lambda: b"three" in saved.read_bytes(), "what is in it")
        await pilot.press("escape", "escape")
        await wait_for(pilot, lambda: app.screen is main(app), "back")


async def test_leaving_the_output_ends_the_program(tmp_path: Path) -> None:
    command = {"name": "wait", "mode": "output", "key": "ctrl+g", "timeout": "0",
           "command": ["sh", "-c", "echo $$$$; exec sleep 300"], "for": "always"}  # fmt: skip
    async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: isinstance(app.screen, OutputScreen), "the screen")
        screen = app.screen
        assert isinstance(screen, OutputScreen)
        await wait_for(pilot, lambda: len(screen.pane.view.buffer), "its id")
        process = Path(f"/proc/{int(screen.pane.view.buffer[0])}")
        assert process.exists()  # noqa: ASYNC240
        await pilot.press("q")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        assert process.exists()  # noqa: ASYNC240
        await pilot.press("y")
        await wait_for(pilot, lambda: not process.exists(), "the end of it")


async def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    for mode in ("background", "terminal"):
        command = {"name": "gone", "mode": mode, "command": ["no-such-program"], "key": "ctrl+g"}
        async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
            rows = main(app).pods.table.set.rows
            await wait_for(pilot, lambda rows=rows: bool(rows), "a selected pod")
            await pilot.press("ctrl+g")
            await wait_for(pilot, lambda app=app: notices(app), "the notice")
            assert notices(app)[0].endswith("no-such-program: command not found")


async def test_asks_for_one_of_several_containers(tmp_path: Path) -> None:
    command = recording_command(tmp_path, "$(CONTAINER)", key="ctrl+g", **{"for": "container"})
    client = full_client()
    async with running(client, preferences=preferences(tmp_path, command)) as (app, pilot):
        client.change(two := pod("aaa", status("app"), status("side")))
        await wait_for(pilot, lambda: main(app).pods.table.select(pod_key(two)), "the pod")
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: isinstance(app.screen, Picker), "the question")
        await pilot.press("2")
        await wait_for(pilot, lambda: recorded_calls(tmp_path), "the command")
        assert recorded_calls(tmp_path)[0][0] == ["side"]


async def test_a_hotkey_types_a_line(tmp_path: Path) -> None:
    found = preferences(tmp_path, **{"ctrl+o": "sort restarts", "ctrl+y": ":events"})
    async with running(preferences=found) as (app, pilot):
        await pilot.press("ctrl+o")
        table = main(app).pods.table
        await wait_for(pilot, lambda: table.columns[table.set.sort].key == "restarts", "the order")
        await pilot.press("d")
        assert len(app.screen_stack) == 2
        await pilot.press("ctrl+y")
        await wait_for(pilot, lambda: main(app).active == "events", "the pane")
        assert len(app.screen_stack) == 1


async def test_the_file_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podtui.tui.preferences.file_changes.POLL_SECONDS", 0.02)
    path = tmp_path / "config.yaml"
    file = PreferencesFile(path, lambda: read_preferences(path))
    async with running(preferences_file=file) as (app, pilot):
        preferences(tmp_path, recording_command(tmp_path, "x"), **{"ctrl+o": "events"})
        await wait_for(pilot, lambda: "tell" in app.command_words(), "the command")
        path.write_text(
            "commands:\n- {name: tell, command: [ls], key: q}\n- {name: bad}\n"
            "- {name: other, command: [ls]}\n"
        )
        await wait_for(pilot, lambda: "other" in app.command_words(), "the other")
        assert "tell" in app.command_words()
        # Problems are notified after the commands are in place.
        await wait_for(pilot, lambda: len(notices(app)) >= 2, "the problems")
        assert [n.partition("config.yaml")[2] for n in notices(app)] == [
            ":3:3: commands[1]: command is missing",
            ":2:31: commands[0].key: 'q' is already bound to app.quit",
        ]
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert main(app).active == "pods"
        path.write_text("theme: podtui-dark\n")
        await wait_for(pilot, lambda: "tell" not in app.command_words(), "none")


async def test_a_command_runs_on_a_manifest(tmp_path: Path) -> None:
    command = recording_command(tmp_path, "$(MANIFEST)", key="ctrl+g", **{"for": "manifest"})
    async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
        await wait_for(pilot, lambda: main(app).chosen_manifests(), "a manifest")
        (file,) = main(app).chosen_manifests()
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: recorded_calls(tmp_path), "the command")
        assert recorded_calls(tmp_path)[0][0] == [file.spec.path]


async def test_background_programs_are_listed_and_end_with_podtui(tmp_path: Path) -> None:
    script = f"echo $$$$ > {tmp_path}/id; exec sleep 300"
    command = {"name": "wait", "mode": "background", "key": "ctrl+g", "timeout": "0",
           "command": ["sh", "-c", script], "for": "always"}  # fmt: skip
    async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
        await pilot.press("ctrl+g")
        written = tmp_path / "id"
        await wait_for(pilot, lambda: written.exists() and written.read_text(), "its id")
        assert app.custom.ended_message() == "podtui: terminated running commands: wait"
        process = Path(f"/proc/{int(written.read_text())}")
    async with asyncio.timeout(120):
        while process.exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.02)


async def test_ctrl_c_goes_to_the_program_that_has_the_terminal(tmp_path: Path) -> None:
    # A terminal sends SIGINT to both processes; here the program sends it to podtui.
    script = f"kill -INT $PPID; echo $PODTUI_POD_NAME > {tmp_path}/calls; kill -INT $$$$"
    command = {"name": "stop", "key": "ctrl+g", "command": ["sh", "-c", script]}
    async with running(preferences=preferences(tmp_path, command)) as (app, pilot):
        (under,) = main(app).chosen_pods()
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: notices(app), "the word")
        assert notices(app)[0].endswith("sh was terminated by SIGINT")
        assert (tmp_path / "calls").read_text() == f"{under.metadata.name}\n"


async def test_a_command_runs_on_an_image_of_the_node(tmp_path: Path) -> None:
    command = recording_command(tmp_path, "$(IMAGE)", key="ctrl+g", **{"for": "image"})
    client = full_client()
    client.image_list = (NodeImage(id="sha256:1", names=("redis:7",), sizeBytes=5),)
    async with running(client, preferences=preferences(tmp_path, command)) as (app, pilot):
        await typed(pilot, "images")
        await wait_for(pilot, lambda: isinstance(app.screen, NodeScreen), "the node")
        screen = app.screen
        assert isinstance(screen, NodeScreen)
        await wait_for(pilot, screen.chosen_image, "an image")
        await pilot.press("ctrl+g")
        await wait_for(pilot, lambda: recorded_calls(tmp_path), "the command")
        assert recorded_calls(tmp_path)[0][0] == [screen.chosen_image()]
