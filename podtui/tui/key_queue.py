"""Process keys that arrive in one burst (fast typing, paste, a slow connection) in order: each key
acts on the state that the previous one left, such as the dialog that it opened. Textual dispatches
all of them before the first is handled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, cast

from textual.app import ScreenStackError
from textual.dom import DOMNode
from textual.events import Event, Key, MouseDown
from textual.message_pump import MessagePump
from textual.widgets import Input

from podtui.tui.widgets.notices import Notices

OPENERS: Final = frozenset("/:")
"""Characters after which users type text."""
TEXT_ENDS: Final = frozenset({"enter", "escape"})
MOST_SECONDS: Final = 10.0
"""Seconds after which the next key is handled, even if this one is not."""
CHECK_SECONDS: Final = 0.05
"""Seconds between checks that a widget which does not answer still exists."""
Action = tuple[str, str, tuple[object, ...]]


class KeyQueue(Notices):
    """An app that handles each key completely, with everything that it triggers, before the next.

    A key that is typed meanwhile waits, but a priority binding (ctrl+c) does not.
    """

    def __init__(self) -> None:
        super().__init__()
        self._due: deque[tuple[Action, DOMNode]] = deque()
        self.waiting_keys: deque[Key] = deque()
        self.handling_key = asyncio.Event()
        """Set while a key is handled."""
        self._receivers: Sequence[MessagePump] = ()
        """The widget that received this key, and its ancestors."""
        self._ignoring_text = False

    def on_mount(self) -> None:
        self.run_worker(self._handle_keys, name="keys", group="keys")
        # Keys that were typed for the screen must not act after another program had the terminal.
        cast("Any", self).app_suspend_signal.subscribe(self, self._drop_typed)

    def _drop_typed(self, _: object) -> None:
        self.waiting_keys.clear()

    async def on_event(self, event: Event) -> None:
        if isinstance(event, MouseDown):
            self._ignoring_text = False
        if isinstance(event, Key) and not event.is_forwarded:
            await self._receive(event)
        else:
            await super().on_event(event)

    async def _receive(self, event: Key) -> None:
        if not self.handling_key.is_set():
            await self._begin(event)
            return
        active = self.screen.active_bindings.get(event.key) if self.screen_stack else None
        if active is not None and active.binding.priority:
            self.waiting_keys.clear()
            await super().on_event(event)
        else:
            self.waiting_keys.append(event)

    async def _begin(self, event: Key) -> None:
        # Without a screen, the app is closing.
        if self.screen_stack and not self._is_ignored_text(event):
            self._receivers = (self.focused or self.screen).ancestors_with_self
            self.handling_key.set()
            await super().on_event(event)

    async def _handle_keys(self) -> None:
        """Begin each waiting key when the one before it is handled, until the app closes."""
        with suppress(ScreenStackError):
            while True:
                await self.handling_key.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(MOST_SECONDS):
                        await self._handled()
                self.handling_key.clear()
                while self.waiting_keys and not self.handling_key.is_set():
                    await self._begin(self.waiting_keys.popleft())

    async def _handled(self) -> None:
        """Wait until the current key, and everything that it triggered, is handled."""
        # The key passes from the widget up to the app, which runs its action. The action may post
        # messages, which take the same way, each first to the widget that posts it.
        await settled([*self._receivers] * 3)
        await self.command_opened()
        if self.screen not in self._receivers:
            # The key opened a screen, which may ask the app for the focus.
            await settled([self.screen, self])

    async def command_opened(self) -> None:
        """Wait until the command that the current key started asks its question, or ends."""

    def _is_ignored_text(self, event: Key) -> bool:
        """Return whether to ignore a key: letters after an opener that has no effect here would run
        as keys, until the user ends the line.
        """
        if isinstance(self.focused, Input):
            return False
        if self._ignoring_text:
            self._ignoring_text = event.is_printable or event.key == "backspace"
            return self._ignoring_text or event.key in TEXT_ENDS
        if event.character not in OPENERS:
            return False
        active = self.screen.active_bindings.get(event.key)
        if active is not None and active.enabled:
            return False
        self._ignoring_text = True
        self.notify(
            f"{event.character} has no effect here. Input is ignored until Enter or Esc.",
            severity="warning",
            markup=False,
        )
        return True

    def run_soon(self, action: Action, owner: DOMNode) -> None:
        """Run an action after the current message is handled, and before the next key."""
        self._due.append((action, owner))
        self.call_later(self._run_due)

    async def _run_due(self) -> None:
        while self._due:
            await self.run_action(*self._due.popleft())


async def settled(nodes: Sequence[MessagePump]) -> None:
    """Wait until each of ``nodes``, one after the other, has handled the messages in its queue.

    Must not be called from a message handler of these nodes.
    """
    all_handled = asyncio.Event()
    left = deque(nodes)

    def ask_next() -> None:
        while left and not left[0].call_later(handled, len(left)):
            left.popleft()
        if not left:
            all_handled.set()

    def handled(count: int) -> None:
        if count == len(left):
            left.popleft()
            ask_next()

    ask_next()
    while not all_handled.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(CHECK_SECONDS):
                await all_handled.wait()
        if left and not (left[0].is_running or left[0].is_attached):
            # The widget was removed with the message in its queue.
            handled(len(left))
