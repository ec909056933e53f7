"""Process keys that arrive in one burst (fast typing, paste, a slow connection) in order: each key
acts on the state that the previous one left. Textual dispatches all of them before the first is
handled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from textual.dom import DOMNode
from textual.events import Event, Key, MouseDown
from textual.message_pump import MessagePump
from textual.widgets import Input

from podtui.tui.widgets.notices import Notices

PROMPTING: Final = frozenset({"command", "filter", "search", "find"})
"""Actions that open a text input."""
OPENERS: Final = frozenset("/:")
"""Characters after which users type text."""
TEXT_ENDS: Final = frozenset({"enter", "escape"})
MOST_SECONDS: Final = 2.0
"""Timeout for one widget: a widget that is being removed may never answer."""
Action = tuple[str, str, tuple[object, ...]]


class KeyQueue(Notices):
    """An app that handles keys that open, edit or end a text input before it reads the next key."""

    def __init__(self) -> None:
        super().__init__()
        self._due: deque[tuple[Action, DOMNode]] = deque()
        self._ignoring_text = False

    async def on_event(self, event: Event) -> None:
        if isinstance(event, MouseDown):
            self._ignoring_text = False
        if isinstance(event, Key) and not event.is_forwarded and await self._handle_at_once(event):
            return
        await super().on_event(event)

    async def _handle_at_once(self, event: Key) -> bool:
        """Run the action of a key that cannot wait; return whether the key was handled."""
        if not self.screen_stack:
            # The app is closing.
            return False
        entry = self.focused if isinstance(self.focused, Input) else None
        if entry is not None and event.is_printable:
            return False
        if self._is_ignored_text(event):
            return True
        found = self.screen.active_bindings.get(event.key)
        if found is None or not found.enabled:
            if entry is None and event.character in OPENERS:
                self._ignore_text(event.character)
                return True
            return False
        if entry is None:
            opens = found.binding.action in PROMPTING
            return opens and await self.run_action(found.binding.action, found.node)
        # First process the letters typed before, then everything that the action triggers.
        await settled([entry])
        done = await self.run_action(found.binding.action, found.node)
        await settled(node for node in entry.ancestors_with_self if node is not self)
        await self._run_due()
        return done

    def _ignore_text(self, opener: str | None) -> None:
        """Ignore letters, which would run as keys, until the user ends the line."""
        self._ignoring_text = True
        self.notify(
            f"{opener} has no effect here. Input is ignored until Enter or Esc.",
            severity="warning",
            markup=False,
        )

    def _is_ignored_text(self, event: Key) -> bool:
        if not self._ignoring_text:
            return False
        self._ignoring_text = event.is_printable or event.key == "backspace"
        return self._ignoring_text or event.key in TEXT_ENDS

    def run_soon(self, action: Action, owner: DOMNode) -> None:
        """Run an action after the current message is handled, and before the next key."""
        self._due.append((action, owner))
        self.call_later(self._run_due)

    async def _run_due(self) -> None:
        while self._due:
            await self.run_action(*self._due.popleft())


async def settled(nodes: Iterable[MessagePump]) -> None:
    """Wait until each of ``nodes``, the innermost first, has handled its queued messages and those
    that it posted to itself meanwhile. Must not be called from a message handler of these nodes.
    """
    for node in nodes:
        # A message to an ancestor is first posted to the widget itself, so wait twice.
        for _ in range(2):
            handled = asyncio.Event()
            if not node.call_later(handled.set):
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(MOST_SECONDS):
                    await handled.wait()
