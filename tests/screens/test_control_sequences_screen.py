"""Control sequences in names, messages, files and logs never reach the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from control_characters import control_characters
from textual.pilot import Pilot
from tui_app import main, running, strips_of, wait_for
from tui_scene import (
    REJECTED,
    FakeClient,
    broken,
    ended,
    event,
    full_client,
    node,
    pod,
    status,
    waiting,
)

from podtui.api.v1 import Pod
from podtui.tui.app import PodtuiApp
from podtui.tui.widgets.sanitize import clean

EVIL = (
    "\x1b]0;pwned\x07\x1b]52;c;cHduZWQ=\x1b\\\x1b[2J\x1b[31;5mred\x1b[10;10H\x1bc\x1bP+q544e\x1b\\"
    "\x9b2J\x9d0;pwned\x9c\r\n\t\b\x00\x07\x7f\x85\u2028\u202eevil\u2066\u200f\ufeff\u200b"
    "日本語e\u0301\u0301\u0301\u0301👩\u200d👩\u200d👧❤\ufe0f👍🏽🇩🇪\U000e0041"
    "[bold red]x[/] [@click=app.quit]y[/]"
)


def hostile() -> FakeClient:
    """Return an object with hostile text in every field that users can write."""
    client = FakeClient()
    bad = pod(
        f"bad{EVIL}",
        status(f"app{EVIL}", waiting(f"CrashLoopBackOff{EVIL}", EVIL * 20), last=ended(1, EVIL)),
        status("two"),
        init=(status(f"init{EVIL}", ended(0)),),
        uid="uid-bad",
        message=EVIL,
        labels={f"l{EVIL}": EVIL},
        requests={"cpu": "1"},
        ip=EVIL,
        phase="Running",
    )
    note = {"note" + EVIL: EVIL, "long": "y" * 100_000}
    bad = msgspec.structs.replace(
        bad,
        metadata=msgspec.structs.replace(
            bad.metadata, annotations={**bad.metadata.annotations, **note}
        ),
    )
    files = broken("evil.yaml")
    problem = msgspec.structs.replace(
        files.status.diagnostics[0], message=EVIL, field=EVIL, fix=EVIL
    )
    files = msgspec.structs.replace(
        files,
        spec=msgspec.structs.replace(files.spec, text=f"kind: Pod{EVIL}\n" * 30, path=f"/x/{EVIL}"),
        status=msgspec.structs.replace(files.status, message=EVIL, diagnostics=(problem,)),
    )
    about = event(f"bad{EVIL}", f"Why{EVIL}", EVIL * 30, warning=True, seen=1)
    rejected = pod("no", phase="Failed", reason=f"R{EVIL}", message=REJECTED + EVIL, ip="")
    not_ready = node(ready=False)
    conditions = tuple(
        msgspec.structs.replace(c, message=EVIL, reason=EVIL) for c in not_ready.status.conditions
    )
    info = msgspec.structs.replace(
        not_ready.status.nodeInfo, containerRuntimeVersion=f"docker://{EVIL}"
    )
    not_ready = msgspec.structs.replace(
        not_ready,
        metadata=msgspec.structs.replace(not_ready.metadata, name=f"n{EVIL}"),
        status=msgspec.structs.replace(not_ready.status, conditions=conditions, nodeInfo=info),
    )
    client.fill((bad, rejected), (about,), (files,), (not_ready,))
    stamp = b"2026-11-21T11:59:00.123456789Z "
    lines = [EVIL.encode("utf-8", "replace"), b"z" * 1_000_000, bytes(range(256))]
    for name in (f"app{EVIL}", f"init{EVIL}", "two"):
        client.log_lines[name] = [stamp + line for line in lines]
    return client


def drawn(app: PodtuiApp) -> Iterator[tuple[int, str, int]]:
    """Yield (line, text, cells) of all output to the terminal."""
    for number, strip in enumerate(strips_of(app)):
        yield number, "".join(s.text for s in strip if not s.control), strip.cell_length


def check(app: PodtuiApp, where: str) -> None:
    for number, text, cells in drawn(app):
        assert control_characters(text) == [], f"{where}, line {number}: {text!r}"
        assert cells == app.size.width, f"{where}, line {number}"


VISITS = (
    "2", "enter", "escape", "3", "4", "1", "enter", *["tab"] * 7, "escape", "question_mark",
)  # fmt: skip


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_control_sequences_reach_no_screen(size: tuple[int, int]) -> None:
    async with running(hostile(), size=size) as (app, pilot):
        main(app).pods.table.select("uid-bad")
        await wait_for(pilot, lambda: len(main(app).logs.view.buffer), "the log")
        await settle(pilot)
        check(app, "the overview")
        for number, key in enumerate(VISITS):
            await pilot.press(key)
            await settle(pilot)
            check(app, f"{app.screen} after {key} ({number})")
        assert app.title == "podtui"


async def settle(pilot: Pilot[Any]) -> None:
    await pilot.pause(0.1)


async def test_a_notification_strips_control_sequences_of_the_agent() -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        client.remove(*(item for item in app.model.pods.values() if isinstance(item, Pod)))
        app.notify(clean(EVIL), title="x", markup=False)
        await settle(pilot)
        check(app, "toast")
