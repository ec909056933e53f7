"""The terminal lent to other programs, and events during that time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from tui_app import running, wait_for
from tui_scene import FakeClient, node, pod, status, waiting

from podtui.api.v1 import Pod
from podtui.client.protocol import Changed
from podtui.tui.app import PodtuiApp
from podtui.tui.commands.terminal import ProgramFailed, lent_terminal, run_in_terminal
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
                await pilot.pause(0.3)
                assert "\x07" not in terminal.written + terminal.barred
            assert 1 <= terminal.written.count("\x07") <= 20
