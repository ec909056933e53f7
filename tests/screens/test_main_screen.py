from __future__ import annotations

import pytest
from recorded_calls import record_calls
from textual.widgets import Input
from tui_app import bar_text, log_text, main, make_app, running, table_text, view_text, wait_for
from tui_records import text_of
from tui_scene import (
    FakeClient,
    broken,
    ended,
    event,
    full_client,
    manifest,
    node,
    now,
    pod,
    status,
    waiting,
)

from podtui.api.local import Diagnostic, Manifest, ManifestState, Severity
from podtui.api.v1 import Event, Node, Pod
from podtui.client.protocol import Synced
from podtui.tui.screens.help_screen import HelpScreen
from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.text_screens import EventScreen, ManifestScreen
from podtui.tui.views.events import ROUTINE_KEY
from podtui.tui.views.pods.rows import FILES_KEY
from podtui.tui.widgets.dialogs import Dialog
from podtui.tui.widgets.table import SUCCEEDS_SECONDS, Table
from podtui.tui.widgets.text_view import TextView
from podtui.tui.widgets.tones import LinesView


async def test_pods_are_ordered_with_failing_ones_first() -> None:
    async with running() as (app, _):
        lines = table_text(app)
        assert lines[0].split() == [
            "NAME↑", "READY", "STATUS", "RESTARTS", "CPU", "MEM", "IP", "AGE", "WHY",
        ]  # fmt: skip
        assert lines[1].startswith(" hello.yaml:9:7")
        assert "✖ InvalidManifest" in lines[1]
        assert lines[2].split() == ["▌batch-n1", "0/1", "✔", "Completed", "0", "-", "-",
                                    "172.17.0.8", "4m"]  # fmt: skip
        names = [line.split()[0].lstrip("▌") for line in lines[2:11]]
        assert names == sorted(names)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 40), (200, 60), (45, 12), (150, 20)])
async def test_key_columns_are_visible_at_every_size(size: tuple[int, int]) -> None:
    client = FakeClient()
    client.fill((pod("hello", status()),), (), (broken(state=ManifestState.LAST_GOOD),), (node(),))
    async with running(client, size=size) as (app, _):
        table = "\n".join(table_text(app))
        assert "hello.yaml:9:7" in table
        row = next(line for line in table_text(app) if "hello-n1" in line)
        assert row.split()[1:4] == ["1/1", "●", "Running"]
        assert "Ready" in bar_text(app, "header")
        assert "n1" in bar_text(app, "status")


async def test_status_and_header() -> None:
    async with running(size=(200, 60)) as (app, pilot):
        await wait_for(pilot, lambda: "cpu" in bar_text(app, "header"), "usage")
        header = bar_text(app, "header")
        assert "● 2 running" in header
        assert "✖ 3 failing" in header
        assert "11%" in header
        status_line = bar_text(app, "status")
        for part in ("node n1", "engine docker 20.10.24", "agent connected", "./static_pods"):
            assert part in status_line
        assert "SIMULATED" not in status_line
    async with running(simulated=True) as (app, _):
        assert "SIMULATED" in bar_text(app, "status")


async def test_before_the_agent_answers() -> None:
    client = FakeClient()
    app = make_app(client)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "waiting for the agent" in "\n".join(table_text(app))
        client.disconnect("no agent is running")
        await wait_for(pilot, lambda: app.model.lost_reason, "the loss")
        app.publish_pending()
        assert "waiting for the agent" in "\n".join(table_text(app))
        client.fill((), (), (), (node(),))
        await wait_for(
            pilot, lambda: "Put a Pod manifest" in "\n".join(table_text(app)), "what to do"
        )
        assert "./static_pods" in "\n".join(table_text(app))


async def test_reports_why_the_agent_did_not_start() -> None:
    app = make_app(FakeClient())
    app.supervisor.start_error = "Traceback\nsqlite3: disk is full"
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        table = "\n".join(table_text(app))
        assert "the agent did not start" in table
        assert "disk is full" in table


async def test_a_lost_agent_is_reported_and_the_last_records_stay() -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        client.disconnect("the agent closed the connection")
        await wait_for(pilot, lambda: "lost" in bar_text(app, "status"), "the loss")
        assert "the agent closed the connection" in bar_text(app, "status")
        assert any("counter-n1" in line for line in table_text(app))


async def test_a_change_updates_its_row_and_the_cursor_stays() -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        table = main(app).pods.table
        await pilot.press("j", "j", "j")

        def on_leaving() -> bool:
            return any(line.startswith("▌leaving-n1") for line in table_text(app))

        await wait_for(pilot, on_leaving, "the cursor")
        key = table.cursor_key
        client.change(pod("counter", status("count", ended(1)), version="2"))
        await wait_for(
            pilot, lambda: any("counter" in x and "Error" in x for x in table_text(app)), "change"
        )
        client.change(pod("aaa", status()))
        await wait_for(pilot, lambda: any("aaa-n1" in x for x in table_text(app)), "the new pod")
        assert table.cursor_key == key
        await wait_for(pilot, on_leaving, "the same cursor")


async def test_the_cursor_goes_to_the_successor_of_an_edited_pod() -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        table = main(app).pods.table
        assert table.select("uid-web")
        client.remove(pod("web", status()))
        await wait_for(pilot, lambda: "uid-web" not in table.set.index, "the old is gone")
        client.change(pod("web", status(), uid="uid-web-2"))
        await wait_for(pilot, lambda: "uid-web-2" in table.set.index, "the new is there")
        assert table.cursor_key == "uid-web-2"


async def test_a_late_successor_does_not_take_the_cursor_away() -> None:
    client, clock = full_client(), [now()]
    async with running(client, now=lambda: clock[0]) as (app, pilot):
        table = main(app).pods.table
        assert table.select("uid-web")
        client.remove(pod("web", status()))
        await wait_for(pilot, lambda: "uid-web" not in table.set.index, "the old is gone")
        neighbour = table.cursor_key
        clock[0] += SUCCEEDS_SECONDS + 1
        app.tick()
        client.change(pod("web", status(), uid="uid-web-2"))
        await wait_for(pilot, lambda: "uid-web-2" in table.set.index, "the new is there")
        assert table.cursor_key == neighbour


async def test_sorting_by_key_and_by_click() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table

        def first() -> str:
            return table.set.order[1]

        await pilot.press("R")
        assert first() == "uid-crash-loop"
        await pilot.press("R")
        assert first() != "uid-crash-loop"
        await pilot.press("A")
        assert first() == "uid-too-big"
        assert "AGE↑" in table_text(app)[0]
        column = table_text(app)[0].index("NAME")
        await pilot.click(table, offset=(column + 1, 0))
        assert first() == "uid-batch"


async def test_click_selects_a_row() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        y = next(n for n, line in enumerate(table_text(app)) if "pipeline-n1" in line)
        await pilot.click(table, offset=(5, y))
        assert table.cursor_key == "uid-pipeline"
        await pilot.click(table, offset=(5, y), times=2)
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")


async def test_filters_while_typing() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash", *"no-s")
        await wait_for(pilot, lambda: len(main(app).pods.table.set) == 1, "the filter")
        assert "no-such-image-n1" in table_text(app)[1]
        await pilot.press("enter")
        assert isinstance(app.focused, Table)
        assert "1 of 9 · /no-s" in str(main(app).pods.border_title)
        await pilot.press("escape")
        assert len(main(app).pods.table.set) == 11
        await pilot.press("slash", *"!-n1", "enter")
        await wait_for(pilot, lambda: len(main(app).pods.table.set) == 2, "the files alone")
        await pilot.press("slash")
        assert app.screen.query_one(Input).selected_text == "!-n1"
        await pilot.press("right", "2")
        assert app.screen.query_one(Input).value == "!-n12", "a cursor key edits the last filter"
        await pilot.press("enter", "slash", *"no-s")
        await wait_for(pilot, lambda: len(main(app).pods.table.set) == 1, "typing replaces it")
        assert app.screen.query_one(Input).value == "no-s"
        await pilot.press("escape")
        assert len(main(app).pods.table.set) == 11


async def test_actions_apply_to_all_marked_pods() -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        screen = main(app)
        screen.pods.table.select("uid-counter")

        def chosen() -> list[str]:
            return [p.metadata.name for p in screen.chosen_pods()]

        assert chosen() == ["counter-n1"], "where nothing is marked, the one under the cursor"
        await pilot.press("space")
        assert any(line.startswith("◆counter-n1") for line in table_text(app))
        await pilot.press("j", "j", "ctrl+@")
        assert chosen() == ["counter-n1", "crash-loop-n1", "leaving-n1", "no-such-image-n1"]
        await wait_for(pilot, lambda: "marked" in str(screen.pods.border_title), "the count")
        before = chosen()
        client.remove(pod("counter", status()))
        client.change(pod("counter", status(), uid="uid-counter-2"))
        await wait_for(
            pilot, lambda: "uid-counter-2" in screen.pods.table.set.index, "the successor"
        )
        assert chosen() == before, "an edited pod keeps its mark"
        await pilot.press("ctrl+backslash")
        assert len(chosen()) == 1
        await pilot.press("g", "space")
        assert not screen.pods.table.marked, "a file is not marked"


async def test_copying_a_cell() -> None:
    async with running() as (app, pilot):
        main(app).pods.table.select("uid-crash-loop")
        await pilot.press("c")
        assert app.clipboard == "crash-loop-n1"
        await pilot.press("shift+right", "shift+right", "c")
        assert app.clipboard == "CrashLoopBackOff"
        await pilot.press("O")
        assert "STATUS↑" in table_text(app)[0]


async def test_an_empty_result_says_how_to_clear_the_filter() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash", *"zzz", "enter")
        await wait_for(
            pilot, lambda: "Esc clears the filter" in "\n".join(table_text(app)), "what to do"
        )
        assert "Esc clears the filter" in "\n".join(table_text(app))


async def test_why_explains_a_pod_that_does_not_run() -> None:
    async with running() as (app, pilot):
        screen = main(app)
        for key, words in (
            ("uid-crash-loop", "app fails: it exited with code 1.  X: details"),
            ("uid-no-such-image", "There is no image busybox:1.36"),
            ("uid-too-big", "It requests 64 of cpu"),
            ("uid-web", "nginx busybox:1.36  ·  exporter"),
            ("manifest:hello.yaml", 'unknown field "imago" → image'),
        ):
            assert screen.pods.table.select(key)

            def explained(words: str = words) -> bool:
                return words in text_of(screen.pods.explanation)

            await wait_for(pilot, explained, f"why of {key}")


async def test_the_events_of_a_file_without_a_pod_are_explained() -> None:
    async with running() as (app, pilot):
        screen = main(app)
        screen.pods.table.select("manifest:web.yaml.bak")
        await pilot.press("E")
        await wait_for(pilot, lambda: not len(screen.events.table.set), "no events")
        assert "· web.yaml.bak · 0" in str(screen.events.border_title)
        text = [line.strip() for line in table_text(app, "events")]
        assert "web.yaml.bak is not a pod." in text
        assert "E shows the events of all pods" in text
        screen.pods.table.select("uid-web")
        await wait_for(pilot, lambda: len(screen.events.table.set), "web's events")
        assert "· web-n1 ·" in str(screen.events.border_title)


async def test_events_of_all_pods_or_one_are_newest_first() -> None:
    client = full_client()
    async with running(client, size=(160, 50)) as (app, pilot):
        screen = main(app)
        lines = table_text(app, "events")
        assert "Killing" in lines[1]
        assert "▲ BackOff ×7" in "\n".join(lines)
        screen.pods.table.select("uid-web")
        await pilot.press("E")
        await wait_for(pilot, lambda: len(screen.events.table.set) == 3, "web's events")
        reasons = [line.split()[2] for line in table_text(app, "events")[1:4]]
        assert reasons == ["Started", "Created", "Pulled"], "one second, in their order"
        client.change(event("web", "Unhealthy", "x", seen=0, version=30, warning=True))
        client.change(event("counter", "Other", "x", seen=0, version=31))
        await wait_for(pilot, lambda: len(screen.events.table.set) == 4, "one more, of web alone")
        screen.pods.table.select("uid-leaving")
        await wait_for(pilot, lambda: len(screen.events.table.set) == 1, "those of the chosen one")
        await pilot.press("E")
        assert "· all · 12" in str(screen.events.border_title)


async def test_an_event_opens_in_full() -> None:
    async with running() as (app, pilot):
        await pilot.press("2", "j", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, EventScreen), "the event")
        await pilot.pause()
        assert "Readiness probe failed" in view_text(app.screen.query_one(LinesView))
        await pilot.press("q")
        assert app.screen is main(app)


async def test_digits_and_tab_focus_panes_and_a_key_zooms() -> None:
    async with running(size=(80, 24)) as (app, pilot):
        screen = main(app)

        def visible_panes() -> list[str]:
            return [p for p in ("pods", "events", "logs", "node") if screen.body.pane(p).display]

        assert visible_panes() == ["pods", "logs"]
        await pilot.press("2")
        assert visible_panes() == ["pods", "events"]
        assert "2 Events" in str(screen.events.border_title)
        assert "4 Node" in str(screen.events.border_title), "the others can be clicked"
        await pilot.press("4")
        assert visible_panes() == ["pods", "node"]
        assert "too-big-n1" in view_text(screen.node.view)
        await pilot.press("plus")
        assert visible_panes() == ["node"]
        await wait_for(
            pilot, lambda: "CPU REQ" in view_text(screen.node.view), "with room, the pods' shares"
        )
        await pilot.press("underscore")
        assert visible_panes() == ["pods", "node"]
        await pilot.press("tab")
        assert screen.active == "pods"
        await pilot.press("shift+tab")
        assert screen.active == "node"
        await pilot.press("escape")
        assert screen.active == "pods"
        await pilot.resize_terminal(200, 60)
        await pilot.pause()
        assert visible_panes() == ["pods", "events", "logs", "node"]
        await pilot.resize_terminal(50, 12)
        await pilot.pause()
        assert visible_panes() == ["pods"]


async def test_enter_opens_the_pod_with_its_tabs() -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        main(app).pods.table.select("uid-crash-loop")
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, PodScreen), "the pod")
        shown = app.screen.query_one("#overview", LinesView)
        await wait_for(pilot, lambda: "crash-loop.yaml" in view_text(shown), "the overview")
        overview = view_text(shown)
        for words in ("✖ CrashLoopBackOff", "4 restarts", "exited with code 1", "BackOff",
                      "busybox:1.36", "cpu 50m", "crash-loop.yaml"):  # fmt: skip
            assert words in overview
        client.change(pod("crash-loop", status("app", restarts=5), version="3"))
        await wait_for(
            pilot,
            lambda: "● Running" in view_text(app.screen.query_one("#overview", LinesView)),
            "the live change",
        )
        await pilot.press("y")
        yaml = app.screen.query_one("#yaml", TextView)
        await wait_for(pilot, lambda: yaml.rows, "the YAML")
        rows = [row.text for row in yaml.rows]
        assert rows[:3] == ["apiVersion: v1", "kind: Pod", "metadata:"]
        await pilot.press("slash", *"restartPolicy", "enter")
        await wait_for(
            pilot, lambda: app.screen.query_one("#yaml", TextView).match_count == 1, "the match"
        )
        await pilot.press("l")
        await wait_for(
            pilot,
            lambda: "listening" in log_text(app.screen.query_one(LogView)),
            "the log",
        )
        assert client.queries[-1][1].tail is None
        await pilot.press("y", "6")
        text = app.screen.query_one("#manifest", TextView)
        await wait_for(pilot, lambda: text.rows, "the manifest")
        assert len(text.rows) == 9
        await pilot.press("escape")
        assert app.screen is main(app)


async def test_a_pod_screen_follows_an_edit_and_a_removal() -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        main(app).pods.table.select("uid-web")
        await pilot.press("enter")
        client.remove(pod("web", status()))
        await wait_for(
            pilot,
            lambda: isinstance(app.screen, PodScreen) and "deleted" in bar_text(app, "header"),
            "that it is gone",
        )
        client.change(pod("web", status(state=waiting("ContainerCreating")), uid="new",
                          phase="Pending"))  # fmt: skip
        await wait_for(pilot, lambda: "ContainerCreating" in bar_text(app, "header"), "the next")
        assert "removed" not in bar_text(app, "header")


async def test_an_invalid_manifest_opens_at_its_first_error() -> None:
    async with running() as (app, pilot):
        await pilot.press("g", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, ManifestScreen), "the manifest")
        rows = app.screen.query_one(TextView).rows
        place = next(n for n, row in enumerate(rows) if row.kind == "Error")
        assert rows[place - 1].number == 9
        assert 'unknown field "imago"' in rows[place].text
        assert "hello.yaml:9:7" in bar_text(app, "header")


async def test_a_rejected_pod_can_be_restarted() -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        main(app).pods.table.select("uid-web")
        await pilot.press("r", "escape")
        main(app).pods.table.select("uid-too-big")
        await pilot.press("r")
        await wait_for(pilot, lambda: client.retried == ["too-big-n1"], "the retry")
        await wait_for(pilot, lambda: app.session.journal, "it is in the journal")
        assert app.session.journal[-1].line.endswith("/pods/too-big-n1/retry")


async def test_help_lists_the_bindings() -> None:
    async with running() as (app, pilot):
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.pause()
        text = view_text(app.screen.query_one(LinesView))
        for words in ("Panes and pods", "Sort by restarts", "Wrap", "Filter the table", "Quit"):
            assert words in text
        await pilot.press("escape")
        assert app.screen is main(app)


async def test_help_finds_a_key_by_its_name_and_by_its_sign() -> None:
    async with running() as (app, pilot):
        for text in ("^d", "ctrl+d"):
            await pilot.press("question_mark", "slash", *text)
            assert isinstance(app.screen, HelpScreen)
            view = app.screen.query_one(LinesView)
            await wait_for(pilot, lambda view=view: "Move the manifest" in view_text(view), text)
            await pilot.press("escape", "escape")


def test_every_binding_can_be_remapped() -> None:
    from podtui.tui.app import PodtuiApp
    from podtui.tui.screens.logs.logs_pane import LogsPane
    from podtui.tui.screens.main.main_screen import MainScreen
    from podtui.tui.screens.main.pods_pane import PodsPane

    ids = []
    for owner in (PodtuiApp, MainScreen, PodsPane, LogsPane, Table, PodScreen, ManifestScreen):
        for binding in owner.BINDINGS:
            assert binding.id, binding  # type: ignore[union-attr]
            ids.append(binding.id)  # type: ignore[union-attr]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("command", "active"), [("events", "events"), ("no", "node"), ("logs", "logs"), ("po", "pods")]
)
async def test_commands_focus_panes(command: str, active: str) -> None:
    async with running() as (app, pilot):
        await pilot.press("colon", *command, "enter")
        await wait_for(pilot, lambda: main(app).active == active, active)
        assert main(app).active == active


async def test_commands_filter_theme_and_quit() -> None:
    async with running() as (app, pilot):
        await pilot.press("colon", *"po web", "enter")
        await wait_for(pilot, lambda: main(app).pods.table.set.filter.text == "web", "the filter")
        await pilot.press("colon", *"theme podtui-light", "enter")
        await wait_for(pilot, lambda: app.theme == "podtui-light", "the theme")
        await pilot.press("T")
        assert app.theme != "podtui-light"
        await pilot.press("colon", *"nonsense", "enter")
        await wait_for(pilot, lambda: any("nonsense" in n.message for n in app.notices), "a word")
        await pilot.press("colon", "q", "enter")
        await wait_for(pilot, lambda: app.session.is_leaving, "the end")


async def test_q_quits_at_once() -> None:
    async with running() as (app, pilot):
        await pilot.press("q")
        await wait_for(pilot, lambda: app.session.is_leaving, "the end")
        assert app.session.is_leaving


async def test_a_thousand_pods_draw_only_visible_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient()
    # One of them is not ready, so that the column of causes is shown from the start.
    many = [pod(f"p{n:04}", status(ready=n != 999), uid=f"u{n}") for n in range(1000)]
    client.fill(many, (), (), (node(),))
    async with running(client, size=(120, 36)) as (app, pilot):
        table = main(app).pods.table
        await wait_for(pilot, lambda: len(table.set) == 1000, "the pods")
        await wait_for(pilot, lambda: any("p0003" in x for x in table_text(app)), "the rows")
        await pilot.pause()
        drawn = record_calls(monkeypatch, Table, "render_line")
        order = table.set.order
        hidden = [pod(f"p{n:04}", status(ready=False), uid=f"u{n}") for n in range(500, 700)]
        client.change(*hidden)
        await wait_for(
            pilot, lambda: table.set.rows["u699"].cells[2].text == "0/1", "rows out of sight"
        )
        await pilot.pause()
        assert table not in drawn
        client.change(pod("p0003", status(ready=False), uid="u3"))
        await wait_for(
            pilot, lambda: any("p0003" in x and "0/1" in x for x in table_text(app)), "one row"
        )
        height = table.size.height
        assert table.set.order is order, "nothing moved, nothing was sorted"
        # The loop above also draws: it reads whole tables, except for one line.
        assert drawn.count(table) % height <= 2


async def test_two_hundred_changes_are_published_together() -> None:
    client = FakeClient()
    client.send(Pod, Synced(()))
    client.fill((pod("a", status()),), (), (), (node(),))
    async with running(client) as (app, pilot):
        published = 0
        screen = main(app)
        real = screen.publish

        def counted(changes, now):
            nonlocal published
            published += bool(changes.pods)
            real(changes, now)

        screen.publish = counted  # type: ignore[method-assign]
        for n in range(200):
            client.change(pod(f"b{n}", status()))
        await wait_for(pilot, lambda: len(screen.pods.table.set) == 201, "all of them")
        assert published <= 3


async def test_invalid_files_share_one_row() -> None:
    client = FakeClient()
    client.fill(
        [pod(f"p{n:02}", status()) for n in range(60)],
        manifests=[broken(f"bad-{n:02}.yaml") for n in range(16)],
        nodes=[node()],
    )
    async with running(client, size=(80, 24)) as (app, pilot):
        pane, table = main(app).pods, main(app).pods.table
        await wait_for(pilot, lambda: FILES_KEY in table.set.index, "the files")
        lines = table_text(app)
        assert sum("Running" in line for line in lines) >= 12
        assert "16 files need attention, enter lists them: bad-00.yaml" in lines[1]
        assert table.set.order[:2] == [FILES_KEY, "uid-p00"]
        assert table.cursor_key == "uid-p00"
        # A filter finds each file.
        await pilot.press("slash", *"bad-07", "enter")
        await wait_for(pilot, lambda: "manifest:bad-07.yaml" in table.set.index, "the file")
        await pilot.press("escape")
        await wait_for(pilot, lambda: "manifest:bad-07.yaml" not in table.set.index, "one row")
        # Enter lists the files, and folds them again.
        table.select(FILES_KEY)
        await wait_for(
            pilot, lambda: text_of(pane.explanation) == "16 invalid, without a pod", "their state"
        )
        await pilot.press("enter")
        await wait_for(pilot, lambda: "manifest:bad-07.yaml" in table.set.index, "the list")
        assert table.cursor_key == FILES_KEY
        await pilot.press("j", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, ManifestScreen), "the file")
        await pilot.press("escape", "k", "enter")
        await wait_for(pilot, lambda: "manifest:bad-07.yaml" not in table.set.index, "folded")
        # When almost all are corrected, the last one has its own row.
        for n in range(15):
            client.change(manifest(f"bad-{n:02}.yaml"))
        await wait_for(pilot, lambda: FILES_KEY not in table.set.index, "the last file")
        assert table.set.order[0] == "manifest:bad-15.yaml"


def misnamed(name: str, line: int = 3) -> Manifest:
    error = Diagnostic(
        severity=Severity.ERROR, path=f"/m/{name}", code="FieldValueInvalid", line=line, column=3,
        message="a name consists of lower-case letters, digits and hyphens, and begins with one",
    )  # fmt: skip
    return manifest(name, ManifestState.INVALID, error)


async def test_a_long_explanation_does_not_fold_the_files() -> None:
    client = FakeClient()
    files = [misnamed("a.yaml"), misnamed("b.yaml")]
    client.fill([pod("web", status())], manifests=files, nodes=[node()])
    async with running(client, size=(80, 24)) as (app, pilot):
        pane, table = main(app).pods, main(app).pods.table
        await wait_for(pilot, lambda: len(table.set) == 3, "a row each")
        high = table.size.height - 1
        for n in range(high - 3):
            client.change(pod(f"p{n:02}", status()))
        await wait_for(pilot, lambda: len(table.set) == high, "a full table")
        client.change(pod("one-more", status()))
        await wait_for(pilot, lambda: FILES_KEY in table.set.index, "one row")
        client.remove(pod("one-more", status()))
        await wait_for(pilot, lambda: FILES_KEY not in table.set.index, "a row each")
        await pilot.press("g")
        await wait_for(pilot, lambda: pane.why.display and table.size.height == high, "two rows")
        client.change(misnamed("a.yaml", line=7))
        await wait_for(pilot, lambda: ":7:3" in text_of(pane.explanation), "the change")
        assert table.cursor_key == "manifest:a.yaml"
        assert FILES_KEY not in table.set.index


@pytest.mark.parametrize(("size", "files"), [((80, 24), 6), ((200, 60), 16)])
async def test_many_files_share_a_row_although_all_rows_fit(
    size: tuple[int, int], files: int
) -> None:
    client = FakeClient()
    client.fill(
        [pod("web", status())],
        manifests=[broken(f"bad-{n}.yaml") for n in range(files)],
        nodes=[node()],
    )
    async with running(client, size=size) as (app, pilot):
        table = main(app).pods.table
        await wait_for(pilot, lambda: table.set.order == [FILES_KEY, "uid-web"], "one row")
        assert table.cursor_key == "uid-web"


async def test_a_failing_pod_shows_its_cause_and_is_first_by_one_key() -> None:
    async with running(size=(200, 60)) as (app, pilot):
        row = next(line for line in table_text(app) if "crash-loop" in line)
        assert row.endswith("exit code 1")
        await pilot.press("S")
        words = [line.split()[2] for line in table_text(app) if "-n1" in line]
        assert words == ["✖"] * 3 + ["◐", "◔", "◌", "●", "●", "✔"]
        assert main(app).pods.table.set.order[1:4] == [
            "uid-crash-loop", "uid-no-such-image", "uid-too-big",
        ]  # fmt: skip


async def test_a_narrow_screen_shows_the_facts_of_the_causes() -> None:
    async with running(size=(80, 24)) as (app, _):
        rows = [line for line in table_text(app) if "✖" in line]
        assert next(row for row in rows if "crash-loop-n1" in row).endswith("exit code 1")
        assert "no such image: " in next(row for row in rows if "no-such-image-n1" in row)
        assert "cpu requested" in next(row for row in rows if "too-big-n1" in row)


async def test_without_failing_pods_there_is_no_column_for_causes() -> None:
    client = FakeClient()
    client.fill([pod("web", status())], nodes=[node()])
    async with running(client) as (app, pilot):
        assert "WHY" not in table_text(app)[0]
        crashed = status("app", waiting("CrashLoopBackOff"), restarts=2, last=ended(1))
        client.change(pod("web", crashed, version="2"))
        await wait_for(pilot, lambda: "WHY" in table_text(app)[0], "the column")


async def test_the_cursor_stays_on_its_pod_from_the_first_frame() -> None:
    client = FakeClient()
    client.fill([pod("m", status())], nodes=[node()])
    async with running(client) as (app, pilot):
        table = main(app).pods.table
        assert table.cursor_key == "uid-m"
        client.change(pod("a", status()))
        await wait_for(pilot, lambda: len(table.set) == 2, "a pod above")
        assert table.cursor_key == "uid-m"
        assert table_text(app)[2].startswith("▌m-n1")
        client.change(broken())
        await wait_for(pilot, lambda: len(table.set) == 3, "a file above")
        assert table.cursor_key == "uid-m"
        await pilot.press("r")
        await wait_for(pilot, lambda: isinstance(app.screen, Dialog), "the question")
        assert "m-n1" in str(app.screen.box.border_title)
        await pilot.press("escape")


async def test_files_that_are_known_before_the_pods_do_not_get_the_cursor() -> None:
    client = FakeClient()
    client.send(Node, Synced((node(),)))
    client.send(Manifest, Synced((broken(),)))
    async with running(client, listed=Manifest) as (app, pilot):
        table = main(app).pods.table
        client.send(Pod, Synced((pod("web", status()),)))
        await wait_for(pilot, lambda: len(table.set) == 2, "both rows")
        assert table.cursor_key == "uid-web"


def unhealthy(message: str, version: int) -> Event:
    return event("web", "Unhealthy", message, warning=True, seen=0, version=version)


async def test_an_event_keeps_the_cursor_while_newer_ones_appear_on_top() -> None:
    client = full_client()
    async with running(client, size=(120, 36)) as (app, pilot):
        table = main(app).events.table
        first = table.cursor_key
        await pilot.press("2")
        for n in range(3):
            client.change(
                event("web", "Unhealthy", f"again {n}", warning=True, seen=0, version=50 + n)
            )
        await wait_for(pilot, lambda: "again 2" in "".join(table_text(app, "events")), "new events")
        assert table.cursor_key == first
        assert table.scroll_y == 0
        for n in range(30):
            client.change(
                event("web", "Unhealthy", f"more {n}", warning=True, seen=0, version=60 + n)
            )
        await wait_for(pilot, lambda: not table.cursor_in_sight, "it is out of sight")
        # The table stays at the newest event, and a key selects what is seen.
        await pilot.press("c")
        assert table.cursor_key == table.set.order[0]


async def test_events_open_at_the_newest_one() -> None:
    client = full_client()
    async with running(client, size=(80, 24)) as (app, pilot):
        pane, table = main(app).events, main(app).events.table
        for n in range(30):
            client.change(unhealthy(f"again {n}", 50 + n))
        await wait_for(pilot, lambda: len(table.set) > 30, "the events")
        assert table.set.order.index(table.cursor_key) > 10
        await pilot.press("2")
        await wait_for(pilot, lambda: table.size.height > 1, "the pane")
        await pilot.pause()
        assert table.scroll_y == 0
        pane.show_scope("default")
        await pilot.pause()
        assert table.scroll_y == 0


async def test_events_of_normal_starts_share_one_row_behind_warnings() -> None:
    client = FakeClient()
    starts = [event("web", reason, reason) for reason in ("Scheduled", "Pulled", "Started")]
    client.fill([pod("web", status())], events=starts, nodes=[node()])
    async with running(client) as (app, pilot):
        pane, table = main(app).events, main(app).events.table
        await wait_for(pilot, lambda: len(table.set) == 3, "the events")
        client.change(event("web", "Unhealthy", "probe failed", warning=True))
        await wait_for(pilot, lambda: len(table.set) == 2, "two rows")
        assert table.set.order[-1] == ROUTINE_KEY
        folded = table_text(app, "events")[2]
        assert "3 events of normal starts, enter lists them" in folded
        assert "· 4" in str(pane.border_title)
        await pilot.press("2")
        table.select(ROUTINE_KEY)
        await pilot.press("enter")
        await wait_for(pilot, lambda: len(table.set) == 5, "all events")
        await pilot.press("enter")
        await wait_for(pilot, lambda: len(table.set) == 2, "folded again")
        # The events of one pod, and those that match a filter, are not folded.
        await pilot.press("slash", *"Pulled", "enter")
        await wait_for(pilot, lambda: len(table.set) == 1, "the match")
        await pilot.press("escape", "E")
        await wait_for(pilot, lambda: len(table.set) == 4, "the events of the pod")


async def test_a_filter_puts_the_cursor_on_its_first_row_and_back() -> None:
    async with running() as (app, pilot):
        table = main(app).pods.table
        table.select("uid-batch")
        await pilot.press("slash")
        for letter in "web":
            await pilot.press(letter)
            await pilot.pause()
        assert table.set.order == ["uid-web", "manifest:web.yaml.bak"]
        assert table.cursor_key == "uid-web"
        await pilot.press("escape")
        await wait_for(pilot, lambda: not table.set.is_filtered, "all rows")
        assert table.cursor_key == "uid-batch"
