"""The logs pane: the log of one container, or several logs merged, with events of their pods."""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from operator import attrgetter
from time import monotonic
from typing import Any, ClassVar, Final, cast

from textual.binding import Binding, BindingType
from textual.timer import Timer

from podtui.api.pods import container_names
from podtui.api.v1 import Pod
from podtui.client.protocol import Client
from podtui.errors import AgentUnavailable, ApiError
from podtui.text.terminal_text import plural
from podtui.tui.model.model import LinkState, Model, pod_key
from podtui.tui.screens.logs.earlier_lines import Page
from podtui.tui.screens.logs.log_commands import LogCommands
from podtui.tui.screens.logs.log_stream import LogStream
from podtui.tui.screens.logs.log_view import LogView
from podtui.tui.views.labels import pod_label
from podtui.tui.views.logs.ansi import plain_text
from podtui.tui.views.logs.line_buffer import CUT, EVENTS, GAP, RULE, is_log
from podtui.tui.views.logs.merge import EventLines, HeadLine, Merger, merge_heads
from podtui.tui.views.logs.target import (
    DEFAULT_RANGE,
    RANGES,
    TAIL,
    WHOLE_LOG,
    LogTarget,
    container_status,
    default_container,
    describe_cut,
    has_completed,
    source_names,
    targets_of,
)
from podtui.tui.views.logs.times import SECOND, split_lines
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.delays import call_after
from podtui.tui.widgets.sanitize import clean

SETTLE: Final = 0.15
"""Seconds that the cursor must rest on a pod before its log is requested."""
PUMP: Final = 0.1
EVENTS_EVERY: Final = 0.5
READ_ERRORS: Final = (ApiError, AgentUnavailable, TimeoutError)
AT_ONCE: Final = 20_000
"""Number of waiting lines above which they are merged at once instead of by the timer."""


class LogsPane(LogCommands):
    """Shows logs; with a ``tail`` of None from their beginning."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket", "container(1)", "Container", id="logs.container",
                key_display="]", tooltip="The log of the next container"),
        Binding("left_square_bracket", "container(-1)", "Previous container", show=False,
                key_display="[", id="logs.container-before",
                tooltip="The log of the previous container"),
        Binding("a", "toggle_all", "All", id="logs.all",
                tooltip="The logs of all containers, merged"),
        Binding("p", "toggle_previous", "Previous", id="logs.previous",
                tooltip="The log before the container's last restart"),
        Binding("R", "range", "Range", id="logs.range",
                tooltip="The range of the log to show: from the start, the last 5m, …"),
    ]  # fmt: skip
    DEFAULT_CSS = "LogsPane > LogView { height: 1fr; background: $background; padding: 0 1; }"
    number = 3
    name_ = "Logs"

    def __init__(self, model: Model, client: Client, *, tail: int | None = TAIL, id: str) -> None:
        super().__init__(id=id)
        self._model = model
        self._client = client
        self._range = DEFAULT_RANGE if tail is not None else WHOLE_LOG
        self._pods: tuple[Pod, ...] = ()
        self._chosen: dict[str, str] = {}
        self._everything = False
        self._targets: tuple[LogTarget, ...] = ()
        self._streams: tuple[LogStream, ...] = ()
        self._merger = Merger((), 0.0)
        self._events = EventLines()
        self._events_at = 0.0
        self._events_turn = -1
        self._link = LinkState.STARTING
        self._settling: TimerHandle | None = None
        self._next: tuple[Pod, ...] | None = None
        self._pumping: Timer | None = None
        self._states: dict[int, str] = {}
        self._opened = 0
        self._new_from: int | None = None
        self._fresh = 0
        self._cuts: dict[int, bytes] = {}
        self._asked: set[int] = set()
        self._event_pods: dict[tuple[int, bytes], str] = {}
        self._hidden_events: list[tuple[str, HeadLine]] = []
        self._loading = False

    def on_mount(self) -> None:
        super().on_mount()
        self.view.idle = lambda: float(cast("Any", self).app.idle)
        self._pumping = self.set_interval(PUMP, self._pump, pause=True)
        self.set_interval(1.0, self.show_note)
        self._show_state()

    def on_resize(self) -> None:
        self._show_state()

    # --- selection of logs

    @property
    def target(self) -> LogTarget | None:
        """The first of the shown logs."""
        return self._targets[0] if self._targets else None

    @property
    def source_names(self) -> tuple[str, ...]:
        return source_names(self._targets)

    @property
    def file_words(self) -> tuple[str, ...]:
        return tuple(f"{t.pod}-{t.container}" for t in self._targets)

    @property
    def chosen_line(self) -> tuple[LogTarget, str] | None:
        """The target and the sanitized text of the line that keys act on; None if the line is not
        a log line."""
        here = self.view.current
        if here is None or (tag := self.view.buffer.tag(here)) >= len(self._targets):
            return None
        return self._targets[tag], clean(plain_text(self.view.buffer[here]))

    def choose(self, pod: Pod | None, *, at_once: bool = False) -> None:
        """Show this pod's log after `SETTLE` seconds, or ``at_once``."""
        self.choose_all(() if pod is None else (pod,), at_once=at_once)

    def choose_all(self, pods: Sequence[Pod], *, at_once: bool = False) -> None:
        """Show the logs of these pods, merged by time, after `SETTLE` seconds or ``at_once``."""
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        self._next = tuple(pods)
        if at_once:
            self._settle()
        else:
            # Until then, titles and notes describe the pods whose logs are still shown.
            self._settling = call_after(self, SETTLE, self._settle)

    def _settle(self) -> None:
        """Show the logs of the pods under the cursor. Keys that change the log do so first."""
        if self._next is None:
            return  # the call was already queued when it was cancelled
        self._pods, self._next = self._next, None
        self._retarget(previous=False)

    def publish(self, pod: Pod | None) -> None:
        """Update from the model: a finished log may continue, new events may have arrived."""
        if not self.is_mounted:
            return
        pods = {pod_key(p): self._model.pods.get(pod_key(p), p) for p in self._pods}
        if pod is not None and pod_key(pod) in pods:
            pods[pod_key(pod)] = pod
        self._pods = tuple(pods.values())
        for stream in self._streams:
            target_pod = pods.get(stream.target.key)
            if target_pod is not None:
                stream.publish(target_pod)
        self._move_on()
        self._take_events()
        if self._model.link is not self._link:
            self._link = self._model.link
            for stream in self._streams:
                stream.reconnect_now()
            self._show_state()

    def _move_on(self) -> None:
        """Show the pod's next container, if the user chose none and nothing more is expected here:
        there is no line yet, or the view follows an init container that has completed.
        """
        wanted = self._wanted()
        if not self._targets or wanted == self._targets:
            return
        pods = {pod_key(pod): pod for pod in self._pods}
        is_over = any(
            has_completed(pods[target.key], target.container) and not target.previous
            for target in self._targets
            if target not in wanted and target.key in pods
        )
        if not self.view.lines.log_lines or (
            is_over and self.view.follow and not self.view.lines.marks
        ):
            self._retarget()

    def on_log_view_follow_changed(self, message: LogView.FollowChanged) -> None:
        if message.view.follow:
            self._move_on()

    def _container(self, pod: Pod) -> str:
        return self._chosen.get(pod_key(pod)) or default_container(pod)

    def _wanted(self, *, previous: bool | None = None) -> tuple[LogTarget, ...]:
        if previous is None:
            previous = bool(self._targets) and self._targets[0].previous
        return targets_of(
            self._pods,
            self._container,
            everything=self._everything,
            previous=previous,
            range=self._range,
        )

    def _retarget(self, *, previous: bool | None = None) -> None:
        targets = self._wanted(previous=previous)
        if targets == self._targets:
            return
        self._targets = targets
        now = monotonic()
        self._merger = Merger(range(len(targets)), now)
        since = self._range.since
        self._events = EventLines(self.app_now() - since if since is not None else None)
        self._states = {}
        self._opened = int(self.app_now() * SECOND)
        self._new_from, self._fresh = None, 0
        self._forget_earlier()
        self._asked.clear()
        self.view.clear()
        self.view.name_sources(self.source_names)
        self.view.follow = not self._range.from_start
        self._events_at, self._events_turn = 0.0, -1
        self._take_events()
        self._show_state()
        by_key = {pod_key(pod): pod for pod in self._pods}
        server = "cluster" if self._model.server.is_cluster else "agent"
        self._streams = tuple(
            LogStream(self._client, target, number, self, by_key[target.key], server)
            for number, target in enumerate(targets)
        )
        # Pass a callable: a worker that is replaced before it starts would leave a coroutine that
        # is never awaited.
        work = partial(self._follow, self._streams)
        self.run_worker(work, group="log", exclusive=True)

    async def _follow(self, streams: Sequence[LogStream]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for stream in streams:
                tasks.create_task(stream.run())

    def app_now(self) -> float:
        """Return the app's time in epoch seconds."""
        return self.session.now()

    # --- lines

    def take_lines(self, source: int, lines: list[bytes]) -> None:
        """Implement `podtui.tui.screens.logs.log_stream.Sink`, like the two methods below."""
        stamps, texts = split_lines(lines, self._merger.last_stamp(source))
        self._merger.take(source, stamps, texts, monotonic())
        if len(self._targets) == 1 or self._merger.waiting > AT_ONCE:
            self._pump()
        self._wake()
        stream = self._streams[source]
        if source not in self._asked and stream.earlier.may_exist:
            self._asked.add(source)
            work = partial(self._find_start, stream, source)
            self.run_worker(work, group="earlier lines")

    def take_remark(self, source: int, tag: int, text: str, stamp: int = 0) -> None:
        if tag == GAP and len(self._targets) > 1:
            text = f"{self.source_names[source]}: {text}"
        elif tag == RULE and len({target.key for target in self._targets}) > 1:
            # The text begins with the container name.
            text = f"{clean(self._targets[source].pod)}/{text}"
        stamp = stamp or self._merger.last_stamp(source)
        self._merger.take(source, [stamp], [text.encode(errors="replace")], monotonic(), tag)
        self._pump()
        self._wake()

    def take_state(self, source: int, state: str, *, quiet: bool) -> None:
        if quiet:
            self._merger.finish(source)
        if self._states.get(source, "") != state:
            self._states[source] = state
            self._show_state()

    def _wake(self) -> None:
        """Run the merge timer until no line waits for other logs."""
        if self._pumping is not None and self._merger.waits:
            self._pumping.resume()

    def _pump(self) -> None:
        if not self._merger.waits:
            if self._pumping is not None:
                self._pumping.pause()
        else:
            for run in self._merger.ready(monotonic()):
                self.view.add(run.stamps, run.texts, run.tag)
                if self._new_from is not None and is_log(run.tag):
                    self._count_new(run.stamps)

    def _count_new(self, stamps: Sequence[int]) -> None:
        """Count lines that came while the view is paused, without those that are older than the
        view: a long log is delivered from its start."""
        new = len(stamps) - bisect_right(stamps, self._opened)
        if new < len(stamps):
            self._new_from = self.view.buffer.end - new
        self._fresh += new

    def _take_events(self) -> None:
        now = monotonic()
        turn = self._model.event_turns
        if not self._targets or turn == self._events_turn or now - self._events_at < EVENTS_EVERY:
            return
        self._events_at, self._events_turn = now, turn
        several = len({target.key for target in self._targets}) > 1
        first = self.view.buffer.first_log()
        begin = 0 if first is None else self.view.buffer.stamp(first)
        late: list[HeadLine] = []
        for pod in self._pods:
            # Events are drawn without a source name: with several pods, name the pod in the text.
            whose = f"{pod_label(pod)}  ".encode(errors="replace") if several else b""
            key = pod_key(pod)
            # The messages of most events do not name their container.
            events = self._events.take(
                self._model.events_of(pod), names_container=len(container_names(pod)) > 1
            )
            for tag, stamp, text in events:
                if stamp < self._shown_since(key):
                    self._hidden_events.append((key, HeadLine(stamp, tag, whose + text)))
                    continue
                self._event_pods[stamp, whose + text] = key
                if stamp < begin:
                    late.append(HeadLine(stamp, tag, whose + text))
                else:
                    self._merger.take_event(tag, stamp, whose + text)
                    self._wake()
        if first is not None and late:
            # Events arrive separately: those of a start often after the first lines.
            late.sort(key=attrgetter("stamp"))
            self.view.rewrite_head(first, partial(merge_heads, earlier=late))

    # --- earlier lines

    async def _find_start(self, stream: LogStream, source: int) -> None:
        """Show above the first line of a log whether there are earlier lines."""
        previous = stream.first_is_previous
        if previous is None:
            return
        with suppress(*READ_ERRORS):
            # If there is no answer, the attempt to load earlier lines reports the reason.
            if not await stream.earlier.exist(previous=previous):
                return
        await self._show_page(source, Page(more=True))

    async def _show_page(self, source: int, page: Page) -> bool:
        """Show a page above the first line of a log. Returns False if the view is full and has
        dropped lines: then nothing can be added above."""
        buffer = self.view.buffer
        while not buffer.dropped:
            first = buffer.first_of(source)
            if first is not None:
                return self.view.rewrite_head(first, partial(self._with_page, source, page))
            # It waits for lines of other logs, at most for the time of `Merger`.
            await asyncio.sleep(PUMP)
        return False

    def _cut_text(self, source: int) -> bytes:
        stream = self._streams[source]
        name = self.source_names[source] if len(self._targets) > 1 else ""
        text = describe_cut(stream.target.range, stream.earlier.loaded, name)
        return text.encode(errors="replace")

    def _forget_earlier(self) -> None:
        """Give up earlier lines, because the lines below them are gone."""
        cast("Any", self).workers.cancel_group(self, "earlier lines")
        self._cuts, self._asked, self._loading = {}, set(range(len(self._targets))), False
        self._event_pods, self._hidden_events = {}, []

    def on_log_view_earlier_wanted(self, message: LogView.EarlierWanted) -> None:
        message.stop()
        buffer = self.view.buffer
        texts = {buffer[cut] for cut in message.cuts if cut >= buffer.first}
        sources = [source for source, text in self._cuts.items() if text in texts]
        if sources and not self._loading:
            self._loading = True
            self.show_note()
            self.run_worker(partial(self._load_earlier, sources), group="earlier lines")

    async def _load_earlier(self, sources: Sequence[int]) -> None:
        """Load a page of earlier lines of each of these logs."""
        try:
            for source in sources:
                stream = self._streams[source]
                previous = stream.first_is_previous
                if previous is None:
                    page = Page(gap="Earlier lines are gone: the container was replaced")
                else:
                    page = await stream.earlier.page(previous=previous)
                if not await self._show_page(source, page):
                    self.notify("The view is full: it drops the oldest lines.",
                                title="Earlier lines", severity="warning")  # fmt: skip
        except READ_ERRORS as error:
            reason = clean(str(error)) or "no answer in time"
            self.notify(reason, title="Earlier lines", severity="error", markup=False)
        self._loading = False
        self.show_note()

    def _with_page(self, source: int, page: Page, head: Sequence[HeadLine]) -> list[HeadLine]:
        """Return the lines above the first line of a log, with earlier ones of this log, a remark
        on what is still missing, and the events of the time that is now shown."""
        stream = self._streams[source]
        before = self._cuts.pop(source, None)
        stamps, texts = split_lines(page.lines)
        lines = [HeadLine(*line) for line in zip(stamps, repeat(source), texts, strict=False)]
        if page.more:
            self._cuts[source] = self._cut_text(source)
            lines.insert(0, HeadLine(stream.earlier.first, CUT, self._cuts[source]))
        elif page.gap:
            remark = f"▲ {clean(page.gap)}".encode(errors="replace")
            lines.insert(0, HeadLine(stream.earlier.first, GAP, remark))
        kept: list[HeadLine] = []
        for line in head:
            pod = self._event_pods.get((line.stamp, line.text)) if line.tag in EVENTS else None
            if pod is not None and line.stamp < self._shown_since(pod):
                self._hidden_events.append((pod, line))
            elif line.tag != CUT or line.text != before:
                kept.append(line)
        events = [line for pod, line in self._hidden_events if line.stamp >= self._shown_since(pod)]
        self._hidden_events = [
            (pod, line) for pod, line in self._hidden_events if line.stamp < self._shown_since(pod)
        ]
        events.sort(key=attrgetter("stamp"))
        return merge_heads(kept, merge_heads(events, lines))

    def _shown_since(self, pod: str) -> int:
        """Return the time from which on a pod's logs are shown; 0 if one is shown from its start.
        Events before it would look like the beginning of the log.
        """
        sources = [n for n, target in enumerate(self._targets) if target.key == pod]
        if any(source not in self._cuts for source in sources):
            return 0
        return min((self._streams[source].earlier.first for source in sources), default=0)

    # --- titles and notes

    @property
    def _state(self) -> str:
        names = self.source_names
        message = {n: text for n, text in sorted(self._states.items()) if text}
        if len(names) < 2:
            return next(iter(message.values()), "")
        return "\n".join(f"{names[number]}: {text}" for number, text in message.items())

    def _show_state(self) -> None:
        if not self._targets:
            self.view.empty_text = "The log of the pod under the cursor is shown here."
            self.set_detail("")
        else:
            self.set_detail(f"· {self._source_title()}")
            self.view.empty_text = self._state or "…"
        self.show_note()

    def _source_title(self) -> str:
        targets = self._targets
        first = targets[0]
        pods = {target.key for target in self._targets}
        if len(pods) > 1:
            title = f"{len(pods)} pods, {plural(len(self._targets), 'log')}"
        else:
            pod = self._pods[0]
            which = f"all {len(self._targets)}" if self._everything else clean(first.container)
            title = f"{pod_label(pod)} › {which}"
        if first.previous:
            title += f" · previous{self._which_instance()}"
        if first.range.label:
            title += f" · {first.range.label}"
        return title

    def _which_instance(self) -> str:
        target = self.target
        if target is None or len(self._targets) > 1:
            return ""
        status = container_status(self._pods[0], target.container)
        ended = status.lastState.terminated if status is not None else None
        return f" (exit {ended.exitCode})" if ended is not None else ""

    def show_note(self) -> None:
        """Show the state of the view in the lower border; first what limits the shown lines."""
        if self._prompt.filters or not self.is_mounted:
            return
        self.set_note(" · ".join(self._notes()) if self._targets else "")

    def _notes(self) -> list[str]:
        view = self.view
        parts = self.narrowing()
        parts.append(self._following())
        if self._loading:
            parts.append("loading earlier lines")
        marks = len(view.lines.marks)
        parts += [word for word, on in (
            (plural(marks, "mark"), marks), ("wrap", view.wrap),
            (view.times.value, view.times.value), ("no events", not view.wanted.events),
            ("json", view.json_all),
            (view.prefix.value, view.prefix.value and len(self._targets) > 1),
        ) if on]  # fmt: skip
        if self._state and view.lines.log_lines:
            parts.append(self._state.replace("\n", " · "))
        pod = self._pods[0] if self._pods else None
        if pod is not None and not self._everything and len(container_names(pod)) > 1:
            parts.append("] next container")
        return parts

    def _ending(self) -> str:
        """Describe how the logs ended; empty while one of them may continue."""
        pods = {pod_key(pod): pod for pod in self._pods}
        codes: list[int] = []
        for target in self._targets:
            if target.previous:
                continue
            pod = pods.get(target.key)
            status = container_status(pod, target.container) if pod is not None else None
            if status is None or status.state.terminated is None:
                return ""
            codes.append(status.state.terminated.exitCode)
        return f"ended with exit code {codes[0]}" if len(codes) == 1 else "ended"

    def _following(self) -> str:
        buffer, shown = self.view.buffer, self.view.lines.rows.shown
        if self.view.follow:
            self._new_from, self._fresh = None, 0
            return self._ending() or "follow"
        self._new_from = buffer.end if self._new_from is None else self._new_from
        fresh = min(self._fresh, len(buffer))
        if shown is not None:
            fresh = shown.count - shown.rank(max(self._new_from, buffer.first))
        return f"paused, {fresh:,} new below" if fresh > 0 else "paused"

    # --- actions

    def action_clear(self) -> None:
        self._forget_earlier()
        super().action_clear()

    def action_toggle_previous(self) -> None:
        self._settle()
        if self._targets:
            self._retarget(previous=not self._targets[0].previous)

    def show_previous(self) -> None:
        """Show the log of the previous instance at once."""
        self._settle()
        self._retarget(previous=True)

    def action_container(self, step: int) -> None:
        self._settle()
        if not self._pods:
            return
        pod = self._pods[0]
        names = container_names(pod)
        current = self._targets[0].container if self._targets else self._container(pod)
        index = names.index(current) if current in names else 0
        if not self._everything:
            index += step
        self._everything = False
        self._chosen[pod_key(pod)] = names[index % len(names)]
        self._retarget()

    def action_toggle_all(self) -> None:
        self._settle()
        self._everything = not self._everything
        self._retarget()

    def action_range(self) -> None:
        """Ask how much of the log to show."""
        from podtui.tui.widgets.dialogs import Picker

        def take(index: int | None) -> None:
            if index is None:
                return
            self._settle()
            self._range = RANGES[index]
            self._retarget()
            self.view.follow = not self._range.from_start
            if self._range.from_start:
                self.view.action_scroll_home()

        lines = [(Span(range.label, "name"),) for range in RANGES]
        start = RANGES.index(self._range) if self._range in RANGES else len(RANGES) - 1
        self.session.app.push_screen(Picker("Range of the log", lines, start=start), take)
