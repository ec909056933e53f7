"""Every screen and dialog with hostile text: the output to the terminal and its position."""

from __future__ import annotations

import shutil
import time
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hostile_world import EVIL, HARMLESS, World, harmless, hostile, poisoned
from picture_objects import DEPLOYMENTS, SECRETS
from rich.cells import cell_len
from screen_classes import screen_classes
from service_scene import INGRESSES, SERVICES
from textual.pilot import Pilot
from textual.screen import Screen
from tui_app import main, running, strips_of, wait_for
from tui_scene import FakeClient, event, manifest, pod, status

from podtui.api.v1 import Event
from podtui.explain.places import find_pod_field
from podtui.tui.app import PodtuiApp
from podtui.tui.commands import delete, edit_manifest, restart
from podtui.tui.commands.create_pod import Template, template_picker
from podtui.tui.commands.custom_commands import CommandTarget, CustomCommand
from podtui.tui.screens.explain_screen import ExplainScreen
from podtui.tui.screens.forwards_screen import ForwardsScreen
from podtui.tui.screens.journal_screen import JournalScreen
from podtui.tui.screens.map_screen import MapScreen
from podtui.tui.screens.node.node_screen import NODE_TABS, NodeScreen
from podtui.tui.screens.object_why_screen import ObjectWhyScreen
from podtui.tui.screens.objects.kind_screen import KindScreen
from podtui.tui.screens.objects.kinds_screen import KindsScreen
from podtui.tui.screens.objects.object_screen import ObjectScreen, ValueScreen
from podtui.tui.screens.output_screen import OutputScreen
from podtui.tui.screens.pods.pod_screen import POD_TABS, PodScreen
from podtui.tui.screens.text_screens import EventScreen, ManifestScreen
from podtui.tui.screens.trash_screen import TrashScreen
from podtui.tui.screens.tree_screen import TreeScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.views.objects.content import entries
from podtui.tui.widgets.bars import Bar
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.dialogs import TextDialog
from podtui.tui.widgets.sanitize import clean
from podtui.why.inventory import find_noun

UNLIKE = frozenset({"pod tab yaml", "journal", "output of an own command"})
"""Where the two worlds may differ: YAML writes control characters as escapes of its own, and lines
for a shell have a sign for each of them, as the head of a command's output has."""
LONG = 1_000_000
STILL = 12
"""Pictures in a row that are the same."""
SLOWER = 25
"""How often as long as in a small world all stops together may take in one of long lines."""


class Visit:
    """Visits the screens of one app and records where it is."""

    def __init__(self, app: PodtuiApp, pilot: Pilot[Any], world: World, folder: Path) -> None:
        self.app, self.pilot, self.world, self.folder = app, pilot, world, folder
        self.rich = app.model.pods["uid-rich"]
        assert isinstance(app.client, FakeClient)
        self.client: FakeClient = app.client

    async def stops(self) -> AsyncIterator[str]:
        app, press = self.app, self.pilot.press
        main(app).pods.table.select("uid-rich")
        await wait_for(self.pilot, lambda: len(main(app).logs.view.buffer), "the log")
        yield "overview"
        for pane in "234":
            await press(pane)
            yield f"pane {pane}"
        await self.to_pods()
        await press("slash", *"status=")
        yield "filter"
        await press("escape")
        async for name in self.pushed():
            yield name
        for key, name in (("question_mark", "help"), ("ctrl+a", "commands"), ("W", "columns"),
                          ("m", "menu"), ("ctrl+p", "palette")):  # fmt: skip
            await self.to_pods()
            await press(key)
            yield name
            if name == "help":
                await press("slash", *"pod")
                yield "help search"
                await press("escape")
            await press("escape")
        async for name in self.dialogs():
            yield name
        app.notify(EVIL if self.world.poison == EVIL else HARMLESS, title=self.world.poison,
                   markup=False)  # fmt: skip
        self.client.disconnect(f"refused{self.world.poison}")
        await wait_for(
            self.pilot,
            lambda: (
                Span("? ", "warning") in main(app).query_one("#header", Bar).left
                and "STALE" in "".join(drawn_lines(app))
            ),
            "the loss",
        )
        yield "lost, with a toast"

    async def to_pods(self) -> None:
        main(self.app).action_pane("pods")
        await self.pilot.pause()
        main(self.app).pods.table.select("uid-rich")
        assert self.app.focused is main(self.app).pods.table

    async def pushed(self) -> AsyncIterator[str]:
        """Visit full screens with each of their tabs."""
        for tab in POD_TABS:
            async for _ in self.over(PodScreen("uid-rich", tab)):
                yield f"pod tab {tab}"
        for tab in NODE_TABS:
            async for _ in self.over(NodeScreen(tab, "cpu=64" if tab == "what-if" else "")):
                yield f"node tab {tab}"
        model = self.app.model
        about: Event = next(one for one in model.events.values() if one.reason.startswith("Odd"))
        loop = model.pods["uid-loop"]
        broken = next(name for name in model.manifests if name.startswith("hello"))
        self.app.session.journal.append(self.world.journal_entry())
        self.app.session.forwards.append(self.world.forward(self.rich))
        screens = {
            "event": EventScreen(about), "manifest": ManifestScreen(broken),
            "why of a pod": WhyScreen(loop), "why of a file": WhyScreen(None, broken),
            "trash": TrashScreen(self.folder), "journal": JournalScreen(self.rich),
            "forwards": ForwardsScreen(),
        }  # fmt: skip
        for name, screen in screens.items():
            async for _ in self.over(screen):
                yield name
        async for _ in self.over(TreeScreen(pod="uid-rich")):
            await self.pilot.press("plus")
            yield "tree"
        async for _ in self.over(ExplainScreen(find_pod_field("spec.containers.image"))):
            yield "explained"
        async for name in self.objects():
            yield name
        poison = self.world.poison.replace("\0", "")
        echo = CustomCommand(name="echo", command=("printf", "%s\\n", f"said{poison}", "end"))
        async for _ in self.over(OutputScreen(echo, [CommandTarget(clean(f"web{poison}"), {})])):
            yield "output of an own command"

    async def objects(self) -> AsyncIterator[str]:
        """Visit objects of any kind."""
        [deployment] = self.client.served[DEPLOYMENTS][1]
        [secret] = self.client.served[SECRETS][1]
        [value] = entries(secret)
        deploy = find_noun("deploy")
        assert deploy is not None
        screens = {
            "kinds": KindsScreen("", lambda _: None),
            "kind": KindScreen(DEPLOYMENTS, "", "", lambda _: None),
            "deployment": ObjectScreen(DEPLOYMENTS, deployment.metadata),
            "secret": ObjectScreen(SECRETS, secret.metadata),
            "value": ValueScreen(self.world.poisoned(value)),
            "why of an object": ObjectWhyScreen(deploy, "web"),
            "service": ObjectScreen(SERVICES, self.client.served[SERVICES][1][0].metadata),
            "ingress": ObjectScreen(INGRESSES, self.client.served[INGRESSES][1][0].metadata),
            "map": MapScreen(),
        }
        for name, screen in screens.items():
            if name in ("service", "ingress", "map"):
                self.world.send_shop(self.client)
            async for _ in self.over(screen):
                yield name

    async def over(self, screen: Screen[Any]) -> AsyncIterator[None]:
        await self.app.push_screen(screen)
        yield
        self.app.pop_screen()
        await self.pilot.pause()

    async def dialogs(self) -> AsyncIterator[str]:
        """Visit dialogs and confirmations."""
        world, model = self.world, self.app.model
        plan, words = world.poisoned(self.client.answer_plan), f"it is not known{world.poison}"
        files = list(model.manifests.values())
        pods = list(model.pods.values())
        assert plan is not None
        name = f"web{world.poison}"
        dialogs: dict[str, Screen[Any]] = {
            "delete": delete.delete_dialog(files[:2], [plan, words]),
            "delete one": delete.delete_dialog(files[:1], [words]),
            "restart": restart.restart_dialog(pods),
            "restart one": restart.restart_dialog(pods[:1]),
            "restart container": restart.container_dialog(self.rich, name, "Restart"),
            "plan": edit_manifest.plan_dialog(name, plan),
            "no plan": edit_manifest.plan_dialog(name, None, words),
            "changed": edit_manifest.changed_dialog(name, words),
            "template": template_picker([Template(name, words, ""), Template("b", "", "")]),
            "ask": TextDialog(f"Title {name}", text=HARMLESS, check=lambda text: words),
        }
        for label, screen in dialogs.items():
            async for _ in self.over(screen):
                yield label
        for key, label in (("D", "debug"), ("t", "transfer"), ("F", "forward")):
            await self.to_pods()
            await self.pilot.press(key)
            yield label
            await self.pilot.press("escape")
            await self.pilot.pause()


def drawn_lines(app: PodtuiApp) -> list[str]:
    return ["".join(s.text for s in strip if not s.control) for strip in strips_of(app)]


async def stable_lines(
    app: PodtuiApp, pilot: Pilot[Any], expected: Sequence[str] | None = None
) -> list[str]:
    """Return the lines of the screen once they are stable. The expected ones need not stay as long
    as others.
    """
    last, same = [""], 0
    for _ in range(300):
        await pilot.pause(0.04)
        lines = drawn_lines(app)
        same = same + 1 if lines == last else 0
        if same == STILL or (same and lines == expected):
            return lines
        last = lines
    pytest.fail("the screen goes on changing")


def faults(app: PodtuiApp, lines: list[str]) -> list[str]:
    """Return control sequences in the output, and text drawn at an unexpected position."""
    found: list[str] = []
    if len(lines) != app.size.height:
        found.append(f"{len(lines)} lines")
    for number, (line, strip) in enumerate(zip(lines, strips_of(app), strict=True)):
        bad = [ascii(c) for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        cells = sum(map(cell_len, line))
        if bad:
            found.append(f"line {number} has {bad[:3]}: {line!a}")
        if not cells == cell_len(line) == app.size.width:
            found.append(f"line {number} takes {cells} cells: {line[:90]!r}")
        for segment in strip:
            click = str((segment.style.meta if segment.style else {}).get("@click", ""))
            if "quit" in click and "app.quit" in click and number != app.size.height - 1:
                found.append(f"line {number} can be clicked: {click}")
            if segment.style is not None and segment.style.link:
                found.append(f"line {number} is a link")
    return found


async def visit_all(
    world: World,
    folder: Path,
    size: tuple[int, int],
    expected: Mapping[str, list[str]] | None = None,
) -> tuple[dict[str, list[str]], set[type[Screen[Any]]]]:
    """Return the lines of every visited screen, and the screens. Fail on any fault.

    ``expected`` are the lines of another world that this one should show.
    """
    world.fill_trash(folder)
    seen: set[type[Screen[Any]]] = set()
    shown: dict[str, list[str]] = {}
    wrong: list[str] = []
    async with running(world.client(), size=size) as (app, pilot):
        # Where a table is scrolled to depends on what was there when its cursor moved.
        await wait_for(
            pilot,
            lambda: "uid-rich" in app.model.pods and app.model.manifests and app.model.events,
            "the pods and their files",
        )
        await stable_lines(app, pilot)
        visit = Visit(app, pilot, world, folder)
        async for name in visit.stops():
            lines = await stable_lines(app, pilot, (expected or {}).get(name))
            seen.add(type(app.screen))
            shown[name] = lines
            wrong += [f"{name} ({size[0]}x{size[1]}): {fault}" for fault in faults(app, lines)]
        assert app.title == "podtui"
    assert not wrong, "\n".join(wrong[:20])
    return shown, seen


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (40, 12)])
async def test_hostile_text_keeps_the_layout_of_every_screen(
    size: tuple[int, int], tmp_path: Path
) -> None:
    like, seen = await visit_all(harmless(), tmp_path / "manifests", size)
    missed = {kind.__name__ for kind in screen_classes() - seen}
    assert missed == set(), "screens that are not visited"
    shutil.rmtree(tmp_path / "manifests")
    shown, _ = await visit_all(hostile(), tmp_path / "manifests", size, like)
    assert shown.keys() == like.keys()
    differ = [
        f"{name}: {line!r} and {expected!r}"
        for name in shown.keys() - UNLIKE
        for line, expected in zip(shown[name], like[name], strict=True)
        if line != expected
    ]
    assert not differ, "\n".join(differ[:5])


@pytest.mark.parametrize("letter", ["x", "\u0301", "\x1b]", "\t"], ids=lambda letter: ascii(letter))
async def test_lines_of_a_megabyte_do_not_block_the_screen(letter: str, tmp_path: Path) -> None:
    seconds: list[float] = []
    for number, length in enumerate((40, LONG)):
        world = World("", (letter * length)[:length].encode())
        client = world.client()
        text = (letter * length)[:length]
        long = poisoned(pod("long", status("app"), message="m"), text)
        notes = {**long.metadata.annotations, "note": text}
        meta = msgspec.structs.replace(long.metadata, annotations=notes)
        client.change(msgspec.structs.replace(long, metadata=meta))
        client.change(poisoned(event("rich", "Odd", "long", version=77), text))
        client.change(manifest("rich.yaml", pod_name="rich-n1", text=f"kind: Pod # {text}\n"))
        folder = tmp_path / str(number)
        before = time.process_time()
        async with running(client, size=(80, 24)) as (app, pilot):
            await wait_for(pilot, lambda: "uid-long" in app.model.pods, "the pods")
            visit = Visit(app, pilot, world, folder)
            for key in ("uid-long", "uid-rich"):
                main(app).pods.table.select(key)
                for tab in ("overview", "events", "logs", "yaml", "manifest"):
                    async for _ in visit.over(PodScreen(key, tab)):
                        assert faults(app, await stable_lines(app, pilot)) == []
            for one in list(app.model.events.values()):
                if one.involvedObject.name.startswith("rich"):
                    async for _ in visit.over(EventScreen(one)):
                        assert faults(app, await stable_lines(app, pilot)) == []
        seconds.append(time.process_time() - before)
    assert seconds[1] < SLOWER * seconds[0]
