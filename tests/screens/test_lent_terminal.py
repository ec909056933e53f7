"""The terminal lent to other programs, and events during that time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from tui_app import running, wait_for
from tui_scene import FakeClient, node, pod, status, waiting

from podtui.api.v1 import Pod
from podtui.client.protocol import Changed
from podtui.tui.app import PodtuiApp
from podtui.tui.commands import terminal as terminal_module
from podtui.tui.commands.terminal import (
    RESET,
    RESTORE_TITLE,
    SAVE_TITLE,
    ProgramFailed,
    lent_terminal,
    run_in_terminal,
)
from podtui.tui.preferences.preferences import Preferences


class Terminal:
    """The owner of the terminal, and podtui's output to it."""

    def __init__(self) -> None:
        self.ours = True
        self.turns: list[str] = []
        self.written = ""
        self.barred = ""

    def write(self, text: str) -> None:
        if self.ours:
            self.written += text
        else:
            self.barred += text


@contextmanager
def with_lendable_terminal(app: PodtuiApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Run the app with a terminal that can be lent."""
    terminal = Terminal()
    signals = cast("Any", app)

    @contextmanager
    def suspend() -> Iterator[None]:
        signals.app_suspend_signal.publish(app)
        terminal.ours = False
        terminal.turns.append("lent")
        yield
        terminal.ours = True
        terminal.turns.append("back")
        signals.app_resume_signal.publish(app)

    with monkeypatch.context() as patch:
        patch.setattr(type(app), "is_headless", False)
        patch.setattr(app, "suspend", suspend)
        patch.setattr("podtui.tui.preferences.live.write_to_terminal", terminal.write)
        yield terminal


async def test_a_missing_program_returns_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (app, _):
        with with_lendable_terminal(app, monkeypatch) as terminal:
            with pytest.raises(ProgramFailed, match="command not found"):
                await run_in_terminal(app.session, ["no-such-editor-of-that-name"])
            assert terminal.turns == ["lent", "back"]


async def test_alerts_wait_while_another_program_has_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = FakeClient()
    pods = [pod(f"p{n}", status("app")) for n in range(50)]
    client.fill(pods, (), (), (node(),))
    bell = Preferences(notify_on=frozenset({"crashLoop"}), notify_by=("bell",))
    async with running(client, preferences=bell) as (app, pilot):
        with with_lendable_terminal(app, monkeypatch) as terminal:
            async with lent_terminal(app.session):
                for each in pods:
                    crashing = pod(
                        each.metadata.name.removesuffix("-n1"),
                        status("app", waiting("CrashLoopBackOff")),
                    )
                    client.send(Pod, Changed((crashing,)))
                # Look at the model: the screen shows nothing during this time.
                await wait_for(
                    pilot,
                    lambda: all("Crash" in p.status.containerStatuses[0].state.waiting.reason
                                if p.status.containerStatuses[0].state.waiting else False
                                for p in app.model.pods.values()),
                    "all of them crash",
                )  # fmt: skip
                app.publish_pending()
                assert "\x07" not in terminal.written + terminal.barred
            assert 1 <= terminal.written.count("\x07") <= 20


async def test_a_terminal_that_takes_no_output_does_not_block_the_app(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A terminal that is stopped with ctrl+s blocks the process that writes to it."""
    async with running() as (app, _):
        written: list[str] = []
        loop = asyncio.get_running_loop()

        def write(text: str) -> None:
            works = threading.Event()
            loop.call_soon_threadsafe(works.set)
            assert works.wait(2), "the event loop is blocked"
            written.append(text)

        monkeypatch.setattr(terminal_module, "write_to_terminal", write)
        with with_lendable_terminal(app, monkeypatch):
            async with lent_terminal(app.session):
                pass
        assert written == [SAVE_TITLE, RESET + RESTORE_TITLE]


async def test_the_app_continues_if_the_terminal_takes_no_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (app, _):
        stopped = threading.Event()
        monkeypatch.setattr(terminal_module, "WRITE_SECONDS", 0.01)
        monkeypatch.setattr(terminal_module, "write_to_terminal", lambda _: stopped.wait(120))
        with with_lendable_terminal(app, monkeypatch) as terminal:
            async with lent_terminal(app.session):
                pass
            assert terminal.turns == ["lent", "back"]
        stopped.set()
