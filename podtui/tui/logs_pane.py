"""The pane of logs: one container's, streamed for as long as it is looked at.

A stream that ends because its container did goes on with the next instance; one that breaks goes on
where it broke. What keeps a log from being shown is said in its place.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer

from podtui.api.printing import ending
from podtui.api.v1 import Pod
from podtui.client.protocol import Client, LogQuery
from podtui.errors import AgentUnavailable, ApiError
from podtui.tui.format import epoch, plural
from podtui.tui.log_target import (
    LogTarget,
    Resumption,
    container_names,
    container_status,
    default_container,
    instance,
)
from podtui.tui.log_view import LogView
from podtui.tui.model import Link, Model
from podtui.tui.pane import Pane
from podtui.tui.rows import pod_key, pod_label
from podtui.tui.sanitize import clean

SETTLE = 0.15
"""Seconds that the cursor rests before a log is asked for."""
RETRY = 2.0
TAIL = 5000
"""Lines of the past that a glance at a pod asks for; ``a`` asks for all."""


class LogsPane(Pane):
    """``tail`` None shows logs from their beginning."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "toggle_wrap", "Wrap", id="logs.wrap"),
        Binding("t", "toggle_timestamps", "Times", tooltip="Show time stamps", id="logs.times"),
        Binding("s", "toggle_follow", "Follow", tooltip="Scroll with the log", id="logs.follow"),
        Binding("c,right_square_bracket", "container(1)", "Container", id="logs.container",
                key_display="c", tooltip="Show the next container"),
        Binding("left_square_bracket", "container(-1)", "Container before", show=False,
                id="logs.container-before"),
        Binding("p", "toggle_previous", "Previous", id="logs.previous",
                tooltip="The log of the container before its last restart"),
        Binding("a", "all", "All", id="logs.all", tooltip="Read the log from its beginning"),
        Binding("n", "match(1)", "Next match", show=False, id="logs.next"),
        Binding("N", "match(-1)", "Match before", show=False, id="logs.before"),
        Binding("ctrl+s", "save", "Save", show=False, tooltip="Write the log to a file",
                id="logs.save"),
    ]  # fmt: skip
    DEFAULT_CSS = "LogsPane > LogView { height: 1fr; background: $background; padding: 0 1; }"
    number = 3
    name_ = "Logs"

    def __init__(self, model: Model, client: Client, *, tail: int | None = TAIL, id: str) -> None:
        super().__init__(id=id)
        self._model = model
        self._client = client
        self._tail = tail
        self._pod: Pod | None = None
        self._chosen: dict[str, str] = {}
        self._target: LogTarget | None = None
        self._instance = ""
        self._link = Link.STARTING
        self._wake = asyncio.Event()
        self._settling: Timer | None = None
        self._state = ""
        self.view = LogView(id="log")

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        super().on_mount()
        self._show_state()

    def on_resize(self) -> None:
        self._show_state()

    # --- whose log

    @property
    def target(self) -> LogTarget | None:
        return self._target

    def choose(self, pod: Pod | None, *, at_once: bool = False) -> None:
        """Show this pod's log, once the cursor rests."""
        self._pod = pod
        if self._settling is not None:
            self._settling.stop()
            self._settling = None
        if at_once:
            self._retarget()
        else:
            self._settling = self.set_timer(SETTLE, self._retarget)

    def publish(self, pod: Pod | None) -> None:
        """The pod may have changed: a log that ended may go on."""
        if pod is not None and self._pod is not None and pod_key(pod) == pod_key(self._pod):
            self._pod = pod
            target = self._target
            if target is not None and target.key == pod_key(pod):
                now = instance(pod, target.container)
                if now != self._instance:
                    self._instance = now
                    self._wake.set()
                if not len(self.view.buffer) and target.container != self._container(pod):
                    self._retarget()
        if self._model.link is not self._link:
            self._link = self._model.link
            self._wake.set()
            if self._target is None:
                self._show_state()

    def _container(self, pod: Pod) -> str:
        return self._chosen.get(pod_key(pod)) or default_container(pod)

    def _retarget(self, *, previous: bool = False) -> None:
        self._settling = None
        pod = self._pod
        target = None
        if pod is not None:
            target = LogTarget(
                pod_key(pod), pod.metadata.namespace, pod.metadata.name, self._container(pod),
                previous, self._tail,
            )  # fmt: skip
        if target == self._target:
            return
        self._target = target
        self.view.clear()
        self.view.follow = True
        self._state = ""
        self._show_state()
        if target is not None and pod is not None:
            self._instance = instance(pod, target.container)
            self.run_worker(self._stream(target), group="log", exclusive=True)
        else:
            self._follow_nothing()

    def _follow_nothing(self) -> None:
        for worker in list(self.workers):
            if worker.node is self and worker.group == "log":
                worker.cancel()

    # --- the stream

    async def _stream(self, target: LogTarget) -> None:
        resumption = Resumption()
        seen = self._instance
        while True:
            self._wake.clear()
            resumption.reopen()
            pause: float | None = None
            try:
                await self._read(target, resumption)
                self._say("" if len(self.view.buffer) else "The log is empty.")
            except ApiError as error:
                self._say(clean(str(error)))
                pause = RETRY
            except AgentUnavailable as error:
                self._say(f"The agent does not answer: {clean(str(error))}")
                pause = RETRY
            if target.previous and pause is None:
                return
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue
            if self._instance != seen and self._restarted(seen):
                self.view.mark_gap(self._between(target))
            seen = self._instance

    async def _read(self, target: LogTarget, resumption: Resumption) -> None:
        last = resumption.last_stamp
        since = None
        if last and (moment := epoch(last)) is not None:
            # A little more than what was missed: the surplus is known and dropped.
            since = max(1, int(datetime.now(UTC).timestamp() - moment) + 2)
        query = LogQuery(
            container=target.container,
            follow=not target.previous,
            previous=target.previous,
            tail=target.tail if not last else None,
            since_seconds=since,
        )
        batches = self._client.logs(target.namespace, target.pod, query)
        async with aclosing(cast("Any", batches)):
            async for lines in batches:
                fresh = resumption.take(lines)
                if fresh:
                    self.view.write(fresh)
                    if self._state:
                        self._say("")

    def _restarted(self, seen: str) -> bool:
        before, now = seen.partition(" ")[0], self._instance.partition(" ")[0]
        return bool(before and now and before != now and len(self.view.buffer))

    def _between(self, target: LogTarget) -> str:
        """What happened between two instances, for the line that parts their logs."""
        status = container_status(self._pod, target.container) if self._pod is not None else None
        ended = status.lastState.terminated if status is not None else None
        if status is None or ended is None:
            return f"{clean(target.container)} started again"
        return (
            f"{clean(target.container)} ended with exit code {ended.exitCode}"
            f" ({clean(ending(ended))}), restart {status.restartCount}"
        )

    # --- what is said

    def _say(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self._show_state()

    def _show_state(self) -> None:
        target, pod = self._target, self._pod
        if target is None:
            self.view.empty_text = "The log of the pod under the cursor is shown here."
            self.set_detail("")
        else:
            name = pod_label(pod) if pod is not None else target.pod
            which = f"· {name} › {clean(target.container)}"
            self.set_detail(which + (" · previous" if target.previous else ""))
            self.view.empty_text = self._state or "…"
        self.show_note()

    def show_note(self) -> None:
        """The state of the view, in the lower border."""
        view = self.view
        parts = [word for word, on in (
            ("follow", view.follow), ("wrap", view.wrap), ("times", view.timestamps)
        ) if on]  # fmt: skip
        if view.match_count:
            number = f"{view.match_number:,} of " if view.match_number else ""
            parts.append(
                f"{number}{plural(view.match_count, 'match').replace('matchs', 'matches')}"
            )
        if self._state and len(view.buffer):
            parts.append(self._state)
        if self._pod is not None and len(container_names(self._pod)) > 1:
            parts.append("c next container")
        self.set_note(" · ".join(parts) if self._target is not None else "")

    def on_log_view_search_changed(self, message: LogView.SearchChanged) -> None:
        message.stop()
        self.show_note()

    def on_log_view_follow_changed(self, message: LogView.FollowChanged) -> None:
        message.stop()
        self.show_note()

    # --- actions

    def action_toggle_wrap(self) -> None:
        self.view.wrap = not self.view.wrap
        self.show_note()

    def action_toggle_timestamps(self) -> None:
        self.view.timestamps = not self.view.timestamps
        self.show_note()

    def action_toggle_follow(self) -> None:
        self.view.follow = not self.view.follow
        self.show_note()

    def action_toggle_previous(self) -> None:
        if self._target is not None:
            self._retarget(previous=not self._target.previous)

    def show_previous(self) -> None:
        """The log of the instance before, at once."""
        if self._target is None or not self._target.previous:
            self._retarget(previous=True)

    def action_container(self, step: int) -> None:
        pod = self._pod
        if pod is None:
            return
        names = container_names(pod)
        current = self._target.container if self._target else self._container(pod)
        place = names.index(current) if current in names else 0
        self._chosen[pod_key(pod)] = names[(place + step) % len(names)]
        self._retarget()

    def action_all(self) -> None:
        self._tail = None
        self._retarget(previous=self._target.previous if self._target else False)

    def action_match(self, step: int) -> None:
        if step > 0:
            self.view.next_match()
        else:
            self.view.previous_match()

    def search(self, pattern: str) -> None:
        """Mark what matches and go to the first; empty ends it."""
        self.view.search(pattern)
        self.show_note()

    async def action_save(self) -> None:
        target = self._target
        if target is None:
            return
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        path = Path(f"{target.pod}-{target.container}-{stamp}.log".replace("/", "_"))
        try:
            count = await asyncio.to_thread(self.view.save, path)
        except OSError as error:
            self.notify(f"{path}: {error.strerror}", severity="error", title="Not saved")
        else:
            self.notify(str(path), title=f"Saved {plural(count, 'line')}")
