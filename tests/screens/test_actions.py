"""Actions on the screen, with real files and a scripted agent."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from action_scene import WEB, open_dialog, plan, running_app, write_manifest
from msgspec import structs
from recorded_calls import record_calls
from textual.pilot import Pilot
from tui_app import bar_text, notified, wait_for
from tui_scene import ended, pod, status

from podtui.api.local import EngineCall, PlanOutcome
from podtui.api.v1 import EphemeralContainer, Pod
from podtui.cli import build_parser
from podtui.client.protocol import ExecQuery
from podtui.errors import AgentUnavailable
from podtui.tui.app import PodtuiApp
from podtui.tui.commands import edit_manifest, shell
from podtui.tui.commands import port_forward as port_forward_commands
from podtui.tui.commands.manifest_file import TRASH, move_to_trash, write_manifest_file
from podtui.tui.commands.raw_terminal import SessionResult
from podtui.tui.commands.terminal import ProgramFailed
from podtui.tui.screens.forwards_screen import ForwardsScreen
from podtui.tui.screens.journal_screen import JournalScreen
from podtui.tui.screens.list_screen import ListScreen
from podtui.tui.screens.trash_screen import TrashScreen
from podtui.tui.widgets.bars import key_hints
from podtui.tui.widgets.dialogs import Dialog, Picker, TextDialog


def dialog_text(dialog: Dialog) -> str:
    return "\n".join("".join(span.text for span in line) for line in dialog.view.lines)


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Replace the editor: one text for each time that it is opened."""
    texts: list[bytes] = []

    leave(monkeypatch, lambda file: file.write_bytes(texts.pop(0)))
    return texts


def leave(monkeypatch: pytest.MonkeyPatch, edit: Callable[[Path], object]) -> None:
    """Use ``edit`` in place of the user's editor."""

    async def run(app: object, words: Sequence[str]) -> None:
        edit(Path(words[-1]))

    monkeypatch.setattr(edit_manifest, "run_in_terminal", run)


async def edited_again(
    app: PodtuiApp, pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> bytes:
    """Press ``e``; return the text that the editor opens."""
    opened: list[bytes] = []
    leave(monkeypatch, lambda file: opened.append(file.read_bytes()))
    await pilot.press("e")
    await wait_for(pilot, lambda: opened, "the editor")
    (text,) = opened
    return text


async def test_an_edit_shows_its_plan_and_is_then_applied(
    tmp_path: Path, typing: list[bytes]
) -> None:
    typing.append(b"kind: Pod # two\n")
    async with running_app(tmp_path) as (app, pilot, client):
        await pilot.press("e")
        dialog = await open_dialog(app, pilot)
        assert client.planned == [("web.yaml", b"kind: Pod # two\n")]
        assert "image  a:1 → a:2  (line 9)" in dialog_text(dialog)
        assert dialog.buttons.options[0].label == "Keep draft"
        assert (tmp_path / "web.yaml").read_bytes() == WEB, "nothing happens before the answer"
        await pilot.press("y")
        await notified(app, pilot, "web.yaml applied: web-n1 is replaced")
        assert (tmp_path / "web.yaml").read_bytes() == b"kind: Pod # two\n"


async def test_a_cancelled_draft_is_reopened(
    tmp_path: Path, typing: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    typing.append(b"mine")
    async with running_app(tmp_path) as (app, pilot, _):
        await pilot.press("e")
        await open_dialog(app, pilot)
        await pilot.press("enter")
        await notified(app, pilot, "e reopens your draft")
        assert (tmp_path / "web.yaml").read_bytes() == WEB
        assert await edited_again(app, pilot, monkeypatch) == b"mine"


@pytest.mark.parametrize(
    ("usable", "keys"), [(True, ("d",)), (False, ("d",)), (False, ("l", "l", "enter"))]
)
async def test_a_draft_can_be_discarded(
    tmp_path: Path,
    typing: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    usable: bool,
    keys: tuple[str, ...],
) -> None:
    typing.append(b"mine")
    async with running_app(tmp_path) as (app, pilot, client):
        client.answer_plan = structs.replace(plan(), usable=usable)
        await pilot.press("e")
        dialog = await open_dialog(app, pilot)
        assert "Discard draft" in [option.label for option in dialog.buttons.options]
        await pilot.press(*keys)
        await notified(app, pilot, "Draft discarded")
        assert not app.session.drafts
        assert (tmp_path / "web.yaml").read_bytes() == WEB
        assert await edited_again(app, pilot, monkeypatch) == WEB


async def test_a_draft_survives_an_editor_that_does_not_start(
    tmp_path: Path, typing: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    typing.append(b"mine")
    async with running_app(tmp_path) as (app, pilot, _):
        await pilot.press("e")
        await open_dialog(app, pilot)
        await pilot.press("enter")
        await notified(app, pilot, "e reopens your draft")

        def fail(file: Path) -> None:
            raise ProgramFailed("nano: command not found")

        leave(monkeypatch, fail)
        await pilot.press("e")
        await notified(app, pilot, "command not found")
        assert await edited_again(app, pilot, monkeypatch) == b"mine"


async def test_a_draft_survives_a_file_that_became_unreadable(
    tmp_path: Path, typing: list[bytes]
) -> None:
    typing.append(b"mine")
    path = tmp_path / "web.yaml"
    async with running_app(tmp_path) as (app, pilot, _):
        await pilot.press("e")
        first = await open_dialog(app, pilot)
        path.write_bytes(b"theirs")
        await pilot.press("y")
        await wait_for(pilot, lambda: app.screen is not first, "the second question")
        path.unlink()
        path.mkdir()
        await pilot.press("o")
        await notified(app, pilot, "web.yaml cannot be read")
        assert [draft.text for draft in app.session.drafts.values()] == [b"mine"]


async def test_a_file_changed_by_others_is_overwritten_only_after_confirmation(
    tmp_path: Path, typing: list[bytes]
) -> None:
    typing.append(b"mine")
    path = tmp_path / "web.yaml"
    async with running_app(tmp_path) as (app, pilot, _):
        await pilot.press("e")
        first = await open_dialog(app, pilot)
        write_manifest_file(path, b"theirs", expected=WEB)
        await pilot.press("y")
        await wait_for(pilot, lambda: app.screen is not first, "the second question")
        second = await open_dialog(app, pilot)
        options = [option.id for option in second.buttons.options]
        assert options == ["cancel", "edit", "discard", "overwrite"]
        assert path.read_bytes() == b"theirs"
        await pilot.press("o")
        await notified(app, pilot, "web.yaml applied")
        assert path.read_bytes() == b"mine"


async def test_a_plan_says_that_the_file_changed_while_the_editor_was_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "web.yaml"

    def edit(copy: Path) -> None:
        if path.read_bytes() == WEB:
            write_manifest_file(path, b"theirs", expected=WEB)
        copy.write_bytes(b"mine")

    leave(monkeypatch, edit)
    async with running_app(tmp_path) as (app, pilot, client):
        client.answer_plan = plan(PlanOutcome.NEW)
        await pilot.press("e")
        dialog = await open_dialog(app, pilot)
        assert "has changed since the editor opened" in dialog_text(dialog)
        # The text still lacks the change after it was edited again, and as a draft.
        await pilot.press("e")
        await wait_for(pilot, lambda: app.screen is not dialog, "the second dialog")
        again = await open_dialog(app, pilot)
        assert "has changed since the editor opened" in dialog_text(again)
        await pilot.press("enter")
        await notified(app, pilot, "e reopens your draft")
        assert path.read_bytes() == b"theirs"
        monkeypatch.setattr(edit_manifest, "run_in_terminal", _untouched)
        await pilot.press("e")
        assert "has changed since the editor opened" in dialog_text(await open_dialog(app, pilot))
        # The warning was seen: applying overwrites without a second question.
        await pilot.press("y")
        await notified(app, pilot, "web.yaml applied")
        assert path.read_bytes() == b"mine"


async def _untouched(app: object, words: Sequence[str]) -> None:
    """Leave the editor without a change."""


async def test_marked_pods_of_both_kinds_are_deleted_after_one_question(tmp_path: Path) -> None:
    made = pod("b", status("app"))
    of_api = structs.replace(made, metadata=structs.replace(made.metadata, annotations={}))
    async with running_app(tmp_path, pod("a", status("app"))) as (app, pilot, client):
        deleted: list[str] = []

        async def delete_pod(one: Pod) -> None:
            deleted.append(one.metadata.name)

        client.delete_pod = delete_pod  # type: ignore[method-assign]
        client.answer_plan = plan(PlanOutcome.REMOVED)
        client.change(of_api)
        table = app.screen_stack[0].pods.table
        await wait_for(pilot, lambda: len(table.set) == 2, "both pods")
        await pilot.press("space", "space", "ctrl+d")
        dialog = await open_dialog(app, pilot)
        assert dialog.buttons.options[1].label == "Delete 2 pods"
        await pilot.press("y")
        await notified(app, pilot, "a.yaml moved to the trash")
        await notified(app, pilot, "b-n1 deleted: The second u creates it again.")
        assert deleted == ["b-n1"]
        assert not (tmp_path / "a.yaml").exists()
        assert not isinstance(app.screen, Dialog)


async def test_an_invalid_draft_cannot_be_applied(tmp_path: Path, typing: list[bytes]) -> None:
    typing += [b"broken", WEB]
    async with running_app(tmp_path) as (app, pilot, client):
        client.answer_plan = structs.replace(plan(), usable=False)
        await pilot.press("e")
        dialog = await open_dialog(app, pilot)
        assert [option.id for option in dialog.buttons.options] == ["edit", "cancel", "discard"]
        await pilot.press("enter")
        await notified(app, pilot, "Nothing was changed")
        assert (tmp_path / "web.yaml").read_bytes() == WEB


async def test_delete_asks_then_moves_to_the_trash_and_can_be_undone(tmp_path: Path) -> None:
    async with running_app(tmp_path) as (app, pilot, client):
        client.answer_plan = plan(PlanOutcome.REMOVED)
        await pilot.press("ctrl+d")
        dialog = await open_dialog(app, pilot)
        assert client.planned == [("web.yaml", None)]
        assert [o.label for o in dialog.buttons.options] == ["Cancel", "Delete web-n1"]
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.screen is not dialog, "the dialog is gone")
        assert (tmp_path / "web.yaml").exists(), "Enter is Cancel"
        await pilot.press("ctrl+d")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "web.yaml moved to the trash")
        assert not (tmp_path / "web.yaml").exists()
        assert len(list((tmp_path / TRASH).iterdir())) == 1
        await pilot.press("u")
        await notified(app, pilot, "Restored: web.yaml")
        assert (tmp_path / "web.yaml").read_bytes() == WEB
        await pilot.press("u")
        await notified(app, pilot, "Nothing to undo in this session")


@pytest.mark.parametrize(("key", "title"), [("ctrl+d", "Delete"), ("e", "Edit")])
async def test_a_file_whose_name_is_not_text_is_refused_with_the_remedy(
    tmp_path: Path, key: str, title: str
) -> None:
    async with running_app(tmp_path) as (app, pilot, client):
        (tmp_path / "web.yaml").rename(tmp_path / os.fsdecode(b"web-\xff.yaml"))
        record = write_manifest("web", tmp_path)
        (tmp_path / "web.yaml").unlink()
        path = str(tmp_path / "web-\\xff.yaml")
        client.change(structs.replace(record, spec=structs.replace(record.spec, path=path)))
        manifests = app.model.manifests
        await wait_for(pilot, lambda: manifests["web.yaml"].spec.path == path, "the record")
        await pilot.press(key)
        await notified(app, pilot, f"{title}: the path of web-\\xff.yaml is not UTF-8 text")
        assert not isinstance(app.screen, Dialog)


async def test_marked_pods_are_deleted_and_undone_together(tmp_path: Path) -> None:
    async with running_app(tmp_path, pod("a", status("app")), pod("b", status("app"))) as (
        app,
        pilot,
        client,
    ):
        client.answer_plan = plan(PlanOutcome.REMOVED)
        await pilot.press("space", "space", "ctrl+d")
        dialog = await open_dialog(app, pilot)
        assert dialog.buttons.options[1].label == "Delete 2 pods"
        assert "a.yaml" in dialog_text(dialog)
        assert "b.yaml" in dialog_text(dialog)
        await pilot.press("right", "enter")
        await notified(app, pilot, "2 files moved to the trash")
        assert app.notices[-1].message.endswith(" restores them.")
        await pilot.press("u")
        await notified(app, pilot, "Restored: a.yaml, b.yaml")
        assert sorted(os.listdir(tmp_path)) == [TRASH, "a.yaml", "b.yaml"]


async def test_a_file_that_cannot_be_restored_does_not_block_the_others(
    tmp_path: Path,
) -> None:
    async with running_app(tmp_path, pod("a", status("app")), pod("b", status("app"))) as (
        app,
        pilot,
        client,
    ):
        client.answer_plan = plan(PlanOutcome.REMOVED)
        await pilot.press("space", "space", "ctrl+d")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "2 files moved to the trash")
        (tmp_path / "a.yaml").write_bytes(b"another")
        await pilot.press("u")
        await notified(app, pilot, "a.yaml exists again (1 of 2 restored)")
        assert (tmp_path / "b.yaml").read_bytes() == WEB
        (tmp_path / "a.yaml").unlink()
        await pilot.press("u")
        await notified(app, pilot, "Restored: a.yaml")


async def test_a_restart_of_several_pods_names_the_restarted_ones(tmp_path: Path) -> None:
    three = [pod(name, status("app")) for name in "abc"]
    asked: list[str] = []
    async with running_app(tmp_path, *three) as (app, pilot, client):

        async def restart(namespace: str, name: str, container: str = "") -> None:
            asked.append(name)
            if name != "b-n1":
                raise AgentUnavailable("the agent went away")

        client.restart = restart  # type: ignore[method-assign]
        await pilot.press("space", "space", "space", "r")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(
            app, pilot, "Not restarted: a-n1: the agent went away\nc-n1: the agent went away"
        )
        await notified(app, pilot, "Restarting: b-n1")
        assert sorted(asked) == ["a-n1", "b-n1", "c-n1"]


async def test_a_restart_lists_what_it_ends_or_loses(tmp_path: Path) -> None:
    over = pod("batch", status("job", ended(0)), phase="Succeeded")
    async with running_app(tmp_path, over, pod("web", status("app"))) as (app, pilot, client):
        table = app.screen_stack[0].pods.table
        table.select("uid-web")
        await pilot.press("r")
        assert "stopped (up to 30 s) and started again" in dialog_text(
            await open_dialog(app, pilot)
        )
        await pilot.press("enter")
        await wait_for(pilot, lambda: not app.session.asking, "the answer is taken")
        assert client.restarted == []
        await pilot.press("r")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "Restarting: web-n1")
        assert client.restarted == [("web-n1", "")]
        table.select("uid-batch")
        await pilot.press("r")
        dialog = await open_dialog(app, pilot)
        assert dialog.buttons.options[1].label == "Restart batch-n1"
        assert "its containers, their logs and what they" in dialog_text(dialog)
        await pilot.press("y")
        await wait_for(pilot, lambda: len(client.restarted) == 2, "the second restart")


async def test_a_container_is_chosen_by_its_number_and_restarted_after_confirmation(
    tmp_path: Path,
) -> None:
    two = pod("web", status("app"), status("side"))
    async with running_app(tmp_path, two) as (app, pilot, client):
        await pilot.press("ctrl+k")
        await wait_for(pilot, lambda: isinstance(app.screen, Picker), "the containers")
        await pilot.press("2")
        dialog = await open_dialog(app, pilot)
        assert "what it wrote outside of volumes is lost" in dialog_text(dialog)
        assert client.restarted == []
        await pilot.press("y")
        await wait_for(pilot, lambda: client.restarted == [("web-n1", "side")], "the restart")


async def test_a_new_pod_is_created_from_a_template_a_name_and_the_editor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, lambda file: file.write_bytes(file.read_bytes() + b"# mine\n"))
    async with running_app(tmp_path) as (app, pilot, client):
        client.answer_plan = plan(PlanOutcome.NEW)
        await pilot.press("n")
        await wait_for(pilot, lambda: isinstance(app.screen, Picker), "the templates")
        await pilot.press("end", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, TextDialog), "the question for a name")
        ask = app.screen
        assert isinstance(ask, TextDialog)
        assert ask.input.value == "worker"
        ask.input.value = "web"
        await pilot.press("enter")
        assert app.screen is ask, "that file is there already"
        ask.input.value = "my-app"
        await pilot.press("enter")
        await open_dialog(app, pilot)
        assert not (tmp_path / "my-app.yaml").exists()
        await pilot.press("y")
        await notified(app, pilot, "my-app.yaml applied")
        text = (tmp_path / "my-app.yaml").read_text()
        assert "  name: my-app\n" in text
        assert text.endswith("# mine\n")


async def test_the_trash_lists_and_restores_earlier_deletes(tmp_path: Path) -> None:
    async with running_app(tmp_path) as (app, pilot, _):
        thrown = move_to_trash(tmp_path / "web.yaml", datetime(2026, 1, 1, tzinfo=UTC))
        app.run_command("trash")
        await wait_for(pilot, lambda: isinstance(app.screen, TrashScreen), "the trash")
        screen = app.screen
        assert isinstance(screen, TrashScreen)
        await wait_for(pilot, lambda: len(screen.table.set), "what is in it")
        assert not thrown.origin.exists()
        assert "trash.restore" in {hint.id for hint in key_hints(screen)}
        await pilot.press("r")
        await notified(app, pilot, "Restored: web.yaml")
        assert thrown.origin.exists()
        await wait_for(pilot, lambda: not len(screen.table.set), "nothing is in it")
        await wait_for(
            pilot,
            lambda: "trash.restore" not in {hint.id for hint in key_hints(screen)},
            "nothing to bring back",
        )


async def test_the_journal_lists_actions_and_calls_and_copies_a_line(tmp_path: Path) -> None:
    async with running_app(tmp_path) as (app, pilot, client):
        client.calls = (
            EngineCall(serial=1, time="2026-11-21T11:59:00Z", line="docker start abc", verb="start",
                       pod="web-n1", uid="uid-web"),
            EngineCall(serial=2, time="2026-11-21T11:58:00Z", line="docker start def", verb="start",
                       pod="api-n1", uid="uid-api"),
        )  # fmt: skip
        await pilot.press("r")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "Restarting: web-n1")
        await pilot.press("J")
        await wait_for(pilot, lambda: isinstance(app.screen, JournalScreen), "the journal")
        screen = app.screen
        assert isinstance(screen, JournalScreen)
        await wait_for(pilot, lambda: len(screen.table.set) == 3, "all three lines")
        first = screen.table.set.rows[screen.table.set.order[0]]
        assert "curl --unix-socket" in str(first.values[5])
        assert "pods/web-n1/restart" in str(first.values[5])
        await pilot.press("p")
        await wait_for(pilot, lambda: len(screen.table.set) == 2, "those of one pod")
        await pilot.press("end", "y")
        assert app.clipboard == "docker start abc"


async def test_waits_for_a_slow_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ListScreen, "SECONDS", 0.02)
    polls = record_calls(monkeypatch, ListScreen, "_poll")
    answer = asyncio.Event()
    call = EngineCall(serial=1, time="2026-11-21T11:59:00Z", line="docker start abc", verb="start")

    async with running_app(tmp_path) as (app, pilot, client):
        requested: list[str] = []

        async def slow(uid: str) -> tuple[EngineCall, ...]:
            requested.append(uid)
            await answer.wait()
            return (call,)

        client.engine_calls = slow  # type: ignore[method-assign]
        await pilot.press("J")
        await wait_for(pilot, lambda: isinstance(app.screen, JournalScreen), "the journal")
        screen = app.screen
        assert isinstance(screen, JournalScreen)
        await wait_for(pilot, lambda: len(polls) > 2, "the time for more questions")
        assert len(requested) == 1
        answer.set()
        await wait_for(pilot, lambda: len(screen.table.set), "the answer")
        await wait_for(pilot, lambda: len(requested) > 1, "the next question")


async def test_a_screenshot_that_cannot_be_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_app(tmp_path) as (app, pilot, _):

        def refuse(path: str) -> str:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(app, "save_screenshot", refuse)
        await pilot.press("ctrl+x")
        await notified(app, pilot, "Not saved: [Errno 13] Permission denied")
        assert app.is_running, "the app goes on"


async def test_only_one_action_runs_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = asyncio.Event()

    async def run(app: object, words: Sequence[str]) -> None:
        await closed.wait()

    monkeypatch.setattr(edit_manifest, "run_in_terminal", run)
    async with running_app(tmp_path) as (app, pilot, client):
        await pilot.press("e", "ctrl+d")
        await notified(app, pilot, "Edit is still in progress")
        assert client.planned == []
        closed.set()
        await notified(app, pilot, "Nothing was changed")
        await pilot.press("ctrl+d")
        await open_dialog(app, pilot)


class FakeForward:
    """A forward that never carries data."""

    local_port, remote_port = 4321, 8080
    connections, accepted, sent, received = 1, 3, 2048, 4096
    problem = "nothing listens"
    closed = False

    async def run(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        self.closed = True


async def test_a_forward_runs_behind_the_screen_until_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, requested = FakeForward(), []

    async def port_forward(namespace: str, pod: str, port: int, *, local_port: int) -> FakeForward:
        requested.append((namespace, pod, port, local_port))
        return made

    monkeypatch.setattr(port_forward_commands, "declared_ports", lambda pod: [("http", 8080)])
    async with running_app(tmp_path) as (app, pilot, client):
        client.port_forward = port_forward  # type: ignore[attr-defined]
        await pilot.press("F")
        await wait_for(pilot, lambda: isinstance(app.screen, TextDialog), "the ports")
        assert isinstance(app.screen, TextDialog)
        assert app.screen.input.value == "8080"
        await pilot.press(*"4321:8080", "enter")
        await notified(app, pilot, "127.0.0.1:4321 → web-n1:8080")
        assert requested == [("default", "web-n1", 8080, 4321)]
        await pilot.press("f")
        await wait_for(pilot, lambda: isinstance(app.screen, ForwardsScreen), "the list")
        screen = app.screen
        assert isinstance(screen, ForwardsScreen)
        await wait_for(pilot, lambda: len(screen.table.set), "the forward")
        (row,) = screen.table.set.rows.values()
        assert [cell.text for cell in row.cells] == [
            "● 127.0.0.1:4321", "web-n1", "8080", "1", "3", "2Ki", "4Ki", "▲ nothing listens",
        ]  # fmt: skip
        await pilot.press("x")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await wait_for(pilot, lambda: not len(screen.table.set), "it is gone")
        assert made.closed


async def test_an_image_without_a_shell_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[ExecQuery] = []

    class Session:
        def exit_code(self) -> int:
            return 127

    @asynccontextmanager
    async def run(namespace: str, pod: str, query: ExecQuery) -> AsyncIterator[Session]:
        queries.append(query)
        yield Session()

    talked = SessionResult()

    async def talk(session: object) -> SessionResult:
        return talked

    monkeypatch.setattr(shell, "run_session", talk)
    monkeypatch.setattr(shell, "print_line", lambda text: None)
    async with running_app(tmp_path) as (app, pilot, client):
        client.exec = run  # type: ignore[attr-defined]
        await pilot.press("s")
        await notified(app, pilot, "has no shell: D adds a debug container")
        (query,) = queries
        assert (query.container, query.tty, query.stdin) == ("app", True, True)
        app.clear_notifications()
        talked.typed = True
        await pilot.press("s")
        await wait_for(pilot, lambda: len(app.session.journal) == 2, "the shell has ended")
        await pilot.pause()
        assert not app.notices, "the exit status of its last command is no error"
        root = "/run"
        where = [f"--root-dir={root}", "-it", "-n", "default", "web-n1", "-c", "app", "--"]
        words = shlex.split(app.session.journal[-1].line)
        assert words == ["podtui", "exec", *where, *shell.SHELL]
        arguments = build_parser().parse_args(words[1 : words.index("--")])
        assert (arguments.pod, arguments.container, arguments.tty) == ("web-n1", "app", True)


async def test_journal_lines_are_runnable_commands(
    tmp_path: Path, typing: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PODTUI_EDITOR", "emacs -nw")
    typing.append(b"kind: Pod # two\n")
    async with running_app(tmp_path) as (app, pilot, _):
        await pilot.press("e")
        await open_dialog(app, pilot)
        await pilot.press("y")
        await notified(app, pilot, "web.yaml applied")
        assert app.session.journal[-1].line == f"emacs -nw {tmp_path}/web.yaml"


async def test_a_debug_container_is_no_target_of_another(tmp_path: Path) -> None:
    own_pod = pod("web", status("app"))
    spec = structs.replace(
        own_pod.spec, ephemeralContainers=(EphemeralContainer(name="debugger-1", image="x"),)
    )
    both = structs.replace(own_pod.status, ephemeralContainerStatuses=(status("debugger-1"),))
    async with running_app(tmp_path, structs.replace(own_pod, spec=spec, status=both)) as (
        app,
        pilot,
        _,
    ):
        await pilot.press("D")
        await wait_for(
            pilot, lambda: isinstance(app.screen, TextDialog), "the image, without a choice"
        )
        assert isinstance(app.screen, TextDialog)


async def test_read_only_changes_nothing(tmp_path: Path, typing: list[bytes]) -> None:
    async with running_app(tmp_path, readonly=True) as (app, pilot, client):
        assert bar_text(app, "status").endswith("read-only")
        await pilot.press("e")
        await notified(app, pilot, "Read-only: podtui is read-only")
        await pilot.press("ctrl+d", "r", "u", "ctrl+k", "s", "a", "D", "t", "n")
        await notified(app, pilot, "Read-only ×10")
        app.screen.action_do("delete")
        await notified(app, pilot, "Read-only ×11")
        assert (client.planned, client.restarted) == ([], [])
        hints = "".join(span.text for span in app.screen.query_one("#hints").left)
        assert "Delete" not in hints
