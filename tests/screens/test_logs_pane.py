from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from recorded_calls import record_calls
from textual.events import MouseScrollUp
from textual.widgets import Input
from tui_app import log_text, main, notified, running, wait_for
from tui_scene import NOW, FakeClient, ended, event, full_client, node, pod, status, waiting

from podtui.api.v1 import ContainerStatus, Event, Pod
from podtui.client.protocol import Changed
from podtui.errors import ApiError
from podtui.tui.screens.logs import log_commands, log_stream, logs_pane
from podtui.tui.screens.logs.log_commands import LogPrompt
from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.screens.logs.logs_pane import LogsPane
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.views.logs.export import Export
from podtui.tui.views.logs.line_buffer import CUT, EVENTS, RULE, LineBuffer


async def test_logs_follow_the_cursor_after_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    client = full_client()
    async with running(client) as (app, pilot):
        logs = main(app).logs
        await wait_for(pilot, lambda: "listening on :8080" in log_text(logs.view), "a log")
        before = len(client.queries)
        # On a busy machine, the three keys may take longer than the usual time.
        monkeypatch.setattr(logs_pane, "SETTLE", 2.0)
        for _ in range(3):
            app.simulate_key("j")  # the pilot would let the cursor rest after each
        await wait_for(pilot, lambda: len(client.queries) > before, "the next log")
        assert [name for name, _ in client.queries[before:]] == ["leaving-n1"]
        query = client.queries[-1][1]
        assert (query.container, query.follow, query.timestamps) == ("app", True, True)
        assert "leaving-n1 › app" in str(logs.border_title)


async def test_labels_match_the_shown_log_until_the_cursor_stops() -> None:
    async with running() as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await wait_for(pilot, lambda: "web-n1 › " in str(logs.border_title), "the log")
        logs.choose(None)
        logs.take_state(0, "the log has ended", quiet=True)
        assert "web-n1 › " in str(logs.border_title)
        await wait_for(pilot, lambda: "web-n1" not in str(logs.border_title), "no log")


async def test_the_log_of_a_marked_pod_returns_when_the_filter_matches_it_again() -> None:
    async with running() as (app, pilot):
        screen = main(app)
        logs = screen.logs
        screen.pods.table.select("uid-web")
        app.simulate_key("space")
        await wait_for(pilot, lambda: "web-n1 › " in str(logs.border_title), "the log")
        screen.filter_table("nothing has this name")
        await wait_for(pilot, lambda: logs.target is None, "no log, for no pod")
        screen.filter_table("-n1")
        await wait_for(pilot, lambda: "web-n1 › " in str(logs.border_title), "the log again")
        screen.filter_table("counter")
        await wait_for(pilot, lambda: "counter-n1 › " in str(logs.border_title), "the other's log")
        assert "counter-n1 › " in str(logs.border_title)


async def test_log_keys() -> None:
    client = full_client()
    client.log_lines["exporter"] = [b"2026-11-21T12:00:00Z exported"]
    async with running(client) as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await pilot.press("l")
        assert app.focused is logs.view
        await wait_for(pilot, lambda: "listening" in log_text(logs.view), "the log")
        await pilot.press("t")
        assert "11:59:00.123" in log_text(logs.view)
        await pilot.press("w", "s")
        assert logs.view.wrap
        assert not logs.view.follow
        await pilot.press("right_square_bracket")
        await wait_for(pilot, lambda: "exported" in log_text(logs.view), "the other container")
        await pilot.press("left_square_bracket", "p")
        await wait_for(pilot, lambda: client.queries[-1][1].previous, "the log before")
        assert "previous" in str(logs.border_title)
        for key, tail, since in (("7", 5000, None), ("3", None, 300), ("1", None, None)):
            before = len(client.queries)
            await pilot.press("R", key)
            await wait_for(
                pilot,
                lambda tail=tail, since=since, before=before: (
                    (tail, since)
                    in [(query.tail, query.since_seconds) for _, query in client.queries[before:]]
                ),
                f"the range of {key}",
            )
        assert not logs.view.follow
        assert "from the start" in str(logs.border_title)
        await pilot.press("R", "escape")
        assert "from the start" in str(logs.border_title)
        # Digits choose a pane here as everywhere.
        for digit, pane in (("2", "events"), ("3", "logs"), ("4", "node"), ("1", "pods")):
            await pilot.press(digit)
            assert main(app).active == pane
        await pilot.press("d", "4")
        assert isinstance(app.screen, PodScreen)
        await wait_for(pilot, lambda: app.focused is not None, "the log")
        await pilot.press("3")
        assert app.screen.tab == "events"


async def test_filter_and_search_combine_and_can_be_undone() -> None:
    async with running() as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await pilot.press("l")
        await wait_for(pilot, lambda: "listening" in log_text(logs.view), "the log")
        await pilot.press("slash", *"get", "enter")
        await wait_for(pilot, lambda: "listening" not in log_text(logs.view), "the filter")
        assert app.focused is logs.view
        await pilot.press("F", *"orders", "enter")
        await wait_for(pilot, lambda: logs.view.match_count == 2, "matches")
        assert "/get · 1 of 2 matches" in str(logs.border_subtitle)
        await pilot.press("F")
        assert logs.query_one(LogPrompt).input.value == ""
        await pilot.press(*"zzz")
        assert "0 matches" in str(logs.border_subtitle)
        await pilot.press("escape")
        assert "of 0 matches" not in str(logs.border_subtitle)
        await wait_for(
            pilot, lambda: "/get · 1 of 2 matches" in str(logs.border_subtitle), "the old matches"
        )
        await pilot.press("n")
        assert "2 of 2" in str(logs.border_subtitle)
        await pilot.press("escape")
        assert not logs.view.searching
        assert "listening" not in log_text(logs.view)
        await pilot.press("slash")
        assert logs.query_one(LogPrompt).input.value == ""
        assert "listening" not in log_text(logs.view)
        await pilot.press("up")
        assert logs.query_one(LogPrompt).input.value == "get"
        await pilot.press("escape")
        assert "listening" not in log_text(logs.view)
        await pilot.press("escape")
        await wait_for(pilot, lambda: "listening" in log_text(logs.view), "all lines")
        await pilot.press("slash", *"zzz")
        await wait_for(pilot, lambda: "No line passes" in log_text(logs.view), "nothing")
        await pilot.press("escape")
        await wait_for(pilot, lambda: "listening" in log_text(logs.view), "all lines")
        await pilot.press("slash", *"-C x a", "enter")
        assert any("-C requires a number" in n.message for n in app.notices)
        await pilot.press("slash", "enter", "L", "L", "L")
        await wait_for(pilot, lambda: "retrying" not in log_text(logs.view), "the level")
        assert "slow upstream" in log_text(logs.view)
        await pilot.press("escape")
        assert main(app).active == "pods"


async def test_events_appear_between_log_lines_and_are_not_copied() -> None:
    client = FakeClient()
    client.fill(
        (pod("web", status()),), (event("web", "Unhealthy", "probe failed"),), (), (node(),)
    )
    async with running(client) as (app, pilot):
        logs = main(app).logs
        await pilot.press("l")
        await wait_for(pilot, lambda: "Unhealthy  probe failed" in log_text(logs.view), "it")
        await pilot.press("E")
        await wait_for(pilot, lambda: "Unhealthy" not in log_text(logs.view), "lines alone")
        await pilot.press("E")
        await wait_for(pilot, lambda: "Unhealthy" in log_text(logs.view), "both")
        buffer = logs.view.buffer
        place = next(n for n in range(buffer.end) if b"Unhealthy" in buffer[n])
        logs.view.go_to(place)
        await pilot.press("c")
        assert app.clipboard == ""
        logs.view.go_to(buffer.first if place else buffer.first + 1)
        await pilot.press("c")
        assert app.clipboard == "listening on :8080"


async def test_marked_lines_are_visited_copied_and_shown_alone() -> None:
    async with running() as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await pilot.press("l", "R", "1")
        await wait_for(pilot, lambda: "listening" in log_text(logs.view), "the log")
        await wait_for(pilot, lambda: logs.view.lines.log_lines == 8, "all of it")
        await pilot.press("E", "g", "m", "j", "j", "m", "G", "k")
        assert "2 marks" in str(logs.border_subtitle)
        await pilot.press("apostrophe")
        assert logs.view.current == logs.view.lines.marks[0]
        await pilot.press("quotation_mark")
        assert logs.view.current == logs.view.lines.marks[1]
        assert log_text(logs.view).count("◆") == 2
        await pilot.press("c")
        assert app.clipboard == "listening on :8080\nGET / 200 12ms"


async def test_logs_of_all_containers_are_merged_by_time_with_their_names() -> None:
    client = full_client()
    client.log_lines["exporter"] = [
        b"2026-11-21T11:59:00.5Z between", b"2026-11-21T12:00:00Z after",
    ]  # fmt: skip
    async with running(client) as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await pilot.press("l", "a")
        await wait_for(pilot, lambda: "exporter │ after" in log_text(logs.view), "both")
        lines = [line for line in log_text(logs.view).splitlines() if "│" in line]
        texts = [line.partition("│ ")[2] for line in lines]
        assert texts.index("listening on :8080") < texts.index("between")
        assert texts.index("between") < texts.index("GET /healthz 200 1ms")
        assert texts[-1] == "after"
        assert any(line.startswith("   nginx    │") for line in lines)
        await pilot.press("P", "P")
        assert "│" not in log_text(logs.view)


async def test_saves_the_shown_lines_or_the_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with running() as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await pilot.press("l")
        await wait_for(pilot, lambda: logs.view.lines.log_lines == 8, "the log")
        await pilot.press("slash", *"orders", "enter", "ctrl+s")
        await wait_for(pilot, lambda: len(list(tmp_path.glob("*.log"))) == 1, "a file")
        await wait_for(pilot, lambda: app.notices, "a word")
        (path,) = tmp_path.glob("*.log")  # noqa: ASYNC240
        assert path.name.startswith("web-n1-nginx-filtered-")
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.read_bytes().count(b"\n") == 2
        await pilot.press("S")
        await wait_for(pilot, lambda: len(list(tmp_path.glob("*.log"))) == 2, "another")
        await wait_for(pilot, lambda: len(app.notices) == 2, "a word")
        (other,) = set(tmp_path.glob("*.log")) - {path}  # noqa: ASYNC240
        first = other.read_bytes().splitlines()[0]
        assert first == b"2026-11-21T11:59:00.123456789Z listening on :8080"


async def test_keys_work_while_a_log_is_saved_and_closing_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun, goes_on = threading.Event(), threading.Event()
    save = Export.save

    def slowly(export: Export, path: Path) -> int:
        begun.set()
        goes_on.wait(20)
        return save(export, path)

    monkeypatch.setattr(Export, "save", slowly)
    async with running() as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await pilot.press("l")
        await wait_for(pilot, lambda: logs.view.lines.log_lines == 8, "the log")
        await pilot.press("S")
        await wait_for(pilot, begun.is_set, "the work")
        await pilot.press("slash")
        assert isinstance(app.focused, Input)
    goes_on.set()
    async with asyncio.timeout(120):
        while not [p for p in tmp_path.glob("*.log") if p.read_bytes().count(b"\n") >= 8]:  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.02)


async def test_the_pager_gets_the_shown_lines_and_its_file_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[list[str], bytes]] = []

    async def pager(app: object, command: list[str]) -> None:
        seen.append((command, Path(command[-1]).read_bytes()))  # noqa: ASYNC240

    async with running() as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await pilot.press("l")
        await wait_for(pilot, lambda: logs.view.lines.log_lines == 8, "the log")
        monkeypatch.setattr(log_commands, "run_in_terminal", pager)
        monkeypatch.setenv("PAGER", "less -M")
        await pilot.press("slash", *"slow", "enter", "v")
        await wait_for(pilot, lambda: seen, "the pager")
        ((command, content),) = seen
        assert command[:-1] == ["less", "-M", "-R", "-S"]
        assert content == (
            b"2026-11-21T11:59:03.123456789Z \x1b[33mWARN\x1b[0m slow upstream (312 ms)\x1b[0m\n"
        )
        await wait_for(pilot, lambda: not Path(command[-1]).exists(), "the file is gone")


async def test_a_missing_log_shows_the_reason() -> None:
    client = full_client()
    reason = 'container "app" in pod "crash-loop-n1" is waiting to start: ContainerCreating'
    client.log_errors["app"] = reason
    async with running(client) as (app, pilot):
        main(app).pods.table.select("uid-crash-loop")
        await wait_for(
            pilot, lambda: reason in " ".join(log_text(main(app).logs.view).split()),
            "the reason",
        )  # fmt: skip
        assert reason in " ".join(log_text(main(app).logs.view).split())


async def test_a_log_continues_with_the_next_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "RETRY", 600.0)

    class Restarting(FakeClient):
        async def logs(self, namespace, pod, query):
            self.queries.append((pod, query))
            yield [b"2026-11-21T12:00:0%dZ run %d" % ((len(self.queries),) * 2)]
            if len(self.queries) > 1:
                await asyncio.Event().wait()

    client = Restarting()
    client.fill((pod("web", status()),), (), (), (node(),))
    async with running(client) as (app, pilot):
        view = main(app).logs.view
        await wait_for(pilot, lambda: "run 1" in log_text(view), "the first")
        client.change(pod("web", status(restarts=1, last=ended(3, seconds=1)), version="2"))
        await wait_for(pilot, lambda: "run 2" in log_text(view), "the second")
        assert "app ended with exit code 3 (Error), restart 1" in log_text(view)
        assert log_text(view).count("run 1") == 1
        assert len(client.queries) == 2, "requested once for each instance"


INIT = status("fetch", ready=False)
DONE = status("fetch", ended(0))


def initializing(*init: ContainerStatus, app: ContainerStatus | None = None) -> Pod:
    app = app or status("app", waiting("PodInitializing"))
    running = app.state.running is not None
    phase = "Running" if running else "Pending"
    return pod("web", app, init=init, phase=phase, initialized=running, version=phase)


class InitClient(FakeClient):
    """A log of the init container ``fetch``, and one of ``app``."""

    def __init__(self, start: Pod) -> None:
        super().__init__()
        self.log_lines["fetch"] = [b"2026-11-21T12:00:00Z fetched"]
        self.log_lines["app"] = [b"2026-11-21T12:00:01Z serving"]
        self.fill((start,), (), (), (node(),))


async def test_the_log_moves_on_from_a_completed_init_container() -> None:
    client = InitClient(initializing(INIT))
    async with running(client) as (app, pilot):
        view = main(app).logs.view
        await wait_for(pilot, lambda: "fetched" in log_text(view), "the init container's log")
        assert "› fetch" in str(main(app).logs.border_title)
        client.change(initializing(DONE, app=status("app")))
        await wait_for(pilot, lambda: "serving" in log_text(view), "the app's log")
        assert "› app" in str(main(app).logs.border_title)
        assert "fetched" not in log_text(view)


@pytest.mark.parametrize("key", ["s", "m", "left_square_bracket"])
async def test_the_log_stays_on_an_init_container_that_the_user_reads(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paused, with a mark, or chosen."""
    client = InitClient(initializing(INIT))
    async with running(client) as (app, pilot):
        logs = main(app).logs
        await wait_for(pilot, lambda: "fetched" in log_text(logs.view), "the log")
        await pilot.press("l", key)
        if key == "left_square_bracket":
            await pilot.press("right_square_bracket")
        await wait_for(pilot, lambda: "fetched" in log_text(logs.view), "the log")
        phases: list[str] = []
        publish = LogsPane.publish

        def published(pane: LogsPane, chosen: Pod | None) -> None:
            publish(pane, chosen)
            phases.append(app.model.pods["uid-web"].status.phase)

        monkeypatch.setattr(LogsPane, "publish", published)
        client.change(initializing(DONE, app=status("app")))
        await wait_for(pilot, lambda: "Running" in phases, "the change reaches the log")
        assert "fetched" in log_text(logs.view)
        if key == "s":
            await pilot.press("G")
            await wait_for(pilot, lambda: "serving" in log_text(logs.view), "the app's log")
        elif key != "m":
            note = "ended with exit code 0"
            await wait_for(
                pilot, lambda: note in str(logs.border_subtitle), "the end in the border"
            )
            assert "follow" not in str(logs.border_subtitle)


async def test_the_previous_log_names_its_instance_and_how_it_ended() -> None:
    class EndingClient(FakeClient):
        async def logs(self, namespace, pod, query):
            self.queries.append((pod, query))
            yield [b"2026-11-21T12:00:00Z last words"]
            if query.follow:
                await asyncio.Event().wait()

    client = EndingClient()
    client.fill((pod("web", status(restarts=2, last=ended(3, seconds=1))),), (), (), (node(),))
    async with running(client) as (app, pilot):
        await pilot.press("p")
        view = main(app).logs.view
        await wait_for(pilot, lambda: "ended with exit code 3" in log_text(view), "the end")
        rows = [row.strip() for row in log_text(view).splitlines() if row.strip()]
        assert rows[0].startswith("── app, the instance of restart 1")
        assert rows[1] == "last words"
        assert rows[2].startswith("── app ended with exit code 3 (Error), restart 2, at ")
        assert "previous (exit 3)" in str(main(app).logs.border_title)


@pytest.mark.parametrize("move", ["before the key", "not at all"])
async def test_a_key_acts_on_the_pod_under_the_cursor_before_the_cursor_rests(
    monkeypatch: pytest.MonkeyPatch, move: str
) -> None:
    monkeypatch.setattr(logs_pane, "SETTLE", 0.05)
    client = FakeClient()
    pods = tuple(pod(name, status(restarts=2, last=ended(3))) for name in ("api", "web"))
    client.fill(pods, (), (), (node(),))
    async with running(client) as (app, pilot):
        logs = main(app).logs
        await wait_for(pilot, lambda: "api-n1 › " in str(logs.border_title), "the log")
        rests = record_calls(monkeypatch, LogsPane, "_settle")
        shown = "api-n1"
        if move == "before the key":
            shown = "web-n1"
            logs.choose(app.model.pods["uid-web"])
        else:
            logs.choose(app.model.pods["uid-api"])
        logs.action_toggle_previous()
        for calls in (1, 2):
            await wait_for(pilot, lambda n=calls: len(rests) >= n, "the key, then the rest")
            assert shown in str(logs.border_title)
            assert logs.target is not None
            assert logs.target.previous


def test_binding_ids_are_unique() -> None:
    ids = [binding.id for owner in (LogsPane.__mro__[1], LogsPane, LogView.__mro__[1])
           for binding in owner.BINDINGS]  # fmt: skip
    assert all(ids)
    assert len(ids) == len(set(ids))


async def test_events_of_several_pods_name_their_pod() -> None:
    client = full_client()
    happened = (event("web", "Pulled", "the image"), event("counter", "Killing", "the container"))
    client.change(*happened)
    async with running(client, size=(160, 60)) as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await wait_for(pilot, lambda: "Pulled  the image" in log_text(logs.view), "the event")
        assert "web-n1  Pulled" not in log_text(logs.view), "one pod needs no name"
        for name in ("web", "counter"):
            main(app).pods.table.select(f"uid-{name}")
            await pilot.press("space")
        await wait_for(pilot, lambda: "2 pods" in str(logs.border_title), "both logs")
        await wait_for(pilot, lambda: "web-n1  Pulled  the image" in log_text(logs.view), "web's")
        await wait_for(
            pilot, lambda: "counter-n1  Killing  the container" in log_text(logs.view), "the other"
        )


async def test_a_truncated_log_says_so_in_its_first_row() -> None:
    client = full_client()
    gap = b"podtui-log-gap Older lines may be gone: the engine keeps 5 files of 10Mi"
    client.log_lines["nginx"] = [
        gap,
        b"2026-11-21T12:00:00Z 213522",
        b"2026-11-21T12:00:01Z 213523",
    ]
    async with running(client) as (app, pilot):
        logs = main(app).logs
        main(app).pods.table.select("uid-web")
        await wait_for(pilot, lambda: "213523" in log_text(logs.view), "the log")
        rows = log_text(logs.view).splitlines()
        place = rows.index(next(row for row in rows if "213522" in row))
        assert "▲ Older lines may be gone: the engine" in rows[place - 1]


async def test_a_restart_in_merged_logs_names_its_pod() -> None:
    client = full_client()
    async with running(client, size=(160, 60)) as (app, pilot):
        logs = main(app).logs
        for name in ("web", "counter"):
            main(app).pods.table.select(f"uid-{name}")
            await pilot.press("space")
        await wait_for(pilot, lambda: "2 pods" in str(logs.border_title), "both logs")
        names = logs.source_names
        logs.take_remark(names.index("counter-n1"), RULE, "app ended with exit code 1", 1)
        await wait_for(
            pilot, lambda: "── counter-n1/app ended with" in log_text(logs.view), "whose it was"
        )
        assert "── counter-n1/app ended with" in log_text(logs.view)


BEGIN = NOW - timedelta(hours=6)


def stamped(number: int, text: str, *, step: float = 1.0) -> bytes:
    moment = BEGIN + timedelta(seconds=number * step)
    return f"{moment.isoformat(timespec='microseconds')[:26]}Z {text} {number}".encode()


class LongLogs(FakeClient):
    """Long logs; the server returns the last lines of them, as requested."""

    def __init__(self, **counts: tuple[int, float]) -> None:
        super().__init__()
        for name, (count, step) in counts.items():
            self.log_lines[name] = [stamped(n, name, step=step) for n in range(count)]
        self.more: dict[str, asyncio.Queue[list[bytes]]] = {}
        statuses = [status(name) for name in counts]
        started = event("web", "Started", "Container started", seen=6 * 3600 + 1)
        self.fill((pod("web", *statuses),), (started,), (), (node(),))

    async def logs(self, namespace, pod, query):
        self.queries.append((pod, query))
        if query.container in self.log_errors and query.tail != 5000:
            raise ApiError(500, "InternalError", self.log_errors[query.container])
        lines = self.log_lines[query.container]
        lines = lines if query.tail is None else lines[-query.tail :]
        for start in range(0, len(lines), 700):
            yield lines[start : start + 700]
        while query.follow:
            yield await self.more.setdefault(query.container, asyncio.Queue()).get()


def scroll_up(view: LogView) -> MouseScrollUp:
    return MouseScrollUp(view, 1, 1, 0, -1, 0, False, False, False)


def rows_of(view: LogView) -> list[str]:
    return [row.strip() for row in log_text(view).splitlines()]


CUT_ROW = "── ▲ last 5,000 lines when opened · scroll up for more ─"


async def test_the_first_row_says_which_part_of_the_log_is_shown() -> None:
    async with running(LongLogs(app=(12_345, 1.0)), size=(100, 30)) as (app, pilot):
        logs, view = main(app).logs, main(app).logs.view
        await wait_for(pilot, lambda: "app 12344" in log_text(view), "the end of the log")
        assert "Started" not in log_text(view)
        await pilot.press("l", "g")
        await wait_for(pilot, lambda: rows_of(view)[0].startswith(CUT_ROW), "the first row")
        assert rows_of(view)[1] == "app 7345"
        await pilot.press("L", "L", "L")
        assert rows_of(view)[0].startswith(CUT_ROW), "a filter does not hide it"
        await pilot.press("L", "L")
        assert "new below" not in str(logs.border_subtitle)


@pytest.mark.parametrize("key", ["k", "g", "pageup", "wheel"])
async def test_scrolling_up_at_the_top_loads_earlier_lines(key: str) -> None:
    async with running(LongLogs(app=(12_345, 1.0)), size=(100, 30)) as (app, pilot):
        view = main(app).logs.view

        async def up() -> None:
            if key == "wheel":
                view.post_message(scroll_up(view))
                await pilot.pause()
            else:
                await pilot.press(key)

        await wait_for(pilot, lambda: view.lines.log_lines == 5000, "the log")
        await pilot.press("l", "g")
        await wait_for(pilot, lambda: rows_of(view)[0].startswith(CUT_ROW), "the first row")
        await pilot.press("j", "m", "k")
        for count, first in ((10_000, "app 7344"), (12_345, "app 2344")):
            await up()
            await wait_for(pilot, lambda count=count: view.lines.log_lines == count, "a page")
            assert rows_of(view)[0] == first, "the lines stay in their rows"
            await pilot.press("g")
        # The beginning of the log, with the event before it, and no remark.
        assert rows_of(view)[0].endswith("Started  Container started")
        assert rows_of(view)[1] == "app 0"
        await pilot.press("apostrophe")
        assert "app 7345" in log_text(view), "the mark is on its line"
        assert [bytes(view.buffer[n]) for n in view.lines.marks] == [b"app 7345"]


async def test_a_page_keeps_filter_and_search() -> None:
    async with running(LongLogs(app=(6_000, 1.0)), size=(100, 30)) as (app, pilot):
        view = main(app).logs.view
        await wait_for(pilot, lambda: view.lines.log_lines == 5000, "the log")
        await pilot.press("l", "slash", *"5$", "enter", "F", *"15$", "enter")
        await wait_for(pilot, lambda: view.match_count == 50, "matches")
        assert rows_of(view)[0].startswith(CUT_ROW)
        await pilot.press("g")
        await wait_for(pilot, lambda: view.match_count == 60, "the matches of all lines")
        await pilot.press("g")
        shown = [row for row in rows_of(view) if row.startswith("app")]
        assert shown[:3] == ["app 5", "app 15", "app 25"]


async def test_earlier_lines_of_several_logs_are_merged() -> None:
    """``side`` writes a line in the time of ten lines of ``app``."""
    client = LongLogs(app=(6_000, 1.0), side=(600, 10.0))
    async with running(client, size=(100, 30)) as (app, pilot):
        view = main(app).logs.view
        await pilot.press("l", "a")
        await wait_for(pilot, lambda: view.lines.log_lines == 5600, "both logs")
        cut = "app: last 5,000 lines when opened"
        await wait_for(
            pilot, lambda: CUT in {view.buffer.tag(n) for n in numbers(view)}, "a remark"
        )
        await pilot.press("g")
        assert "Started" in rows_of(view)[0], "side is shown from its start"
        assert rows_of(view)[1:4] == [
            "side │ side 0", "side │ side 1", "side │ side 2",
        ]  # fmt: skip
        place = next(n for n in numbers(view) if view.buffer.tag(n) == CUT)
        view.go_to(place)
        await pilot.pause()
        assert cut in log_text(view)
        await pilot.press("k")
        await wait_for(pilot, lambda: view.lines.log_lines == 6600, "the page")
        stamps = [view.buffer.stamp(n) for n in numbers(view)]
        assert stamps == sorted(stamps)
        assert CUT not in tags(view)


def numbers(view: LogView) -> range:
    return range(view.buffer.first, view.buffer.end)


def tags(view: LogView) -> set[int]:
    return {view.buffer.tag(n) for n in numbers(view)}


async def test_an_error_while_loading_earlier_lines_is_reported_and_can_be_retried() -> None:
    client = LongLogs(app=(6_000, 1.0))
    async with running(client, size=(100, 30)) as (app, pilot):
        view = main(app).logs.view
        await wait_for(pilot, lambda: view.lines.log_lines == 5000, "the log")
        await pilot.press("l", "g")
        await wait_for(pilot, lambda: rows_of(view)[0].startswith(CUT_ROW), "the first row")
        client.log_errors["app"] = "the disk is broken"
        await pilot.press("k")
        await notified(app, pilot, "the disk is broken")
        del client.log_errors["app"]
        await pilot.press("k")
        await wait_for(pilot, lambda: view.lines.log_lines == 6000, "the page")
        assert view.lines.log_lines == 6000


async def test_a_full_view_says_that_it_has_no_room_for_earlier_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = LongLogs(app=(6_000, 1.0))
    async with running(client, size=(100, 30)) as (app, pilot):
        view = main(app).logs.view
        await wait_for(pilot, lambda: view.lines.log_lines == 5000, "the log")
        await pilot.press("l", "g")
        await wait_for(pilot, lambda: rows_of(view)[0].startswith(CUT_ROW), "the first row")
        # As if all lines of this log were dropped while others go on.
        monkeypatch.setattr(LineBuffer, "dropped", 1)
        monkeypatch.setattr(LineBuffer, "first_of", lambda *_: None)
        await pilot.press("k")
        await notified(app, pilot, "The view is full")
        await wait_for(pilot, lambda: "loading" not in str(main(app).logs.border_subtitle), "end")
        assert view.lines.log_lines == 5000


async def test_only_lines_that_came_after_the_pause_count_as_new() -> None:
    client = LongLogs(app=(3_000, 1.0))
    async with running(client, size=(100, 30)) as (app, pilot):
        logs, view = main(app).logs, main(app).logs.view
        await wait_for(pilot, lambda: view.lines.log_lines == 3000, "the log")
        await pilot.press("l", "R", "1")
        await wait_for(pilot, lambda: view.lines.log_lines == 3000, "the log from its start")
        await pilot.press("j")
        assert "paused" in str(logs.border_subtitle)
        assert "new below" not in str(logs.border_subtitle), "these lines are the past"
        new = stamped(7 * 3600, "new")
        client.more["app"].put_nowait([new, new])
        await wait_for(pilot, lambda: "paused, 2 new below" in str(logs.border_subtitle), "two")
        client.send(Event, Changed((event("web", "BackOff", "again", seen=-1),)))
        await wait_for(pilot, lambda: tags(view) & set(EVENTS), "the event")
        logs.show_note()
        assert "paused, 2 new below" in str(logs.border_subtitle)
        await pilot.press("slash", *"zzz", "enter")
        await wait_for(pilot, lambda: str(logs.border_subtitle).endswith("paused"), "no new match")


async def test_a_late_event_of_the_start_is_shown_above_the_first_line() -> None:
    client = LongLogs(app=(3, 1.0))
    async with running(client) as (app, pilot):
        view = main(app).logs.view
        await pilot.press("l")
        await wait_for(pilot, lambda: "app 2" in log_text(view), "the lines")
        late = (("Created", 6 * 3600 + 2), ("Pulled", 6 * 3600 + 3), ("BackOff", 1))
        for reason, seen in late:
            client.send(Event, Changed((event("web", reason, "it", seen=seen),)))
        await wait_for(pilot, lambda: "BackOff" in log_text(view), "the events")
        shown = [view.buffer[n] for n in range(view.buffer.first, view.buffer.end)]
        firsts = [text.split()[0].decode() for text in shown]
        assert firsts == ["Pulled", "Created", "Started", "app", "app", "app", "BackOff"]


async def test_a_cleared_view_has_no_earlier_lines() -> None:
    client = LongLogs(app=(6_000, 1.0))
    async with running(client, size=(100, 30)) as (app, pilot):
        view = main(app).logs.view
        await wait_for(pilot, lambda: view.lines.log_lines == 5000, "the log")
        await pilot.press("l", "C")
        client.more["app"].put_nowait([stamped(6000, "app")])
        await wait_for(pilot, lambda: "app 6000" in log_text(view), "a new line")
        await pilot.press("g", "k", "g")
        assert CUT not in tags(view), "nothing offers to load more"
        assert rows_of(view)[0] == "app 6000"
