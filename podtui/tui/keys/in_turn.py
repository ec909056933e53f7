"""Keys that come in one burst, typed fast, pasted or over a slow line: each finds what the one
before it left. Textual passes all of them on before the first is handled."""

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
"""Actions that open a line to type in."""
OPENERS: Final = frozenset("/:")
"""Characters after which users type text."""
TEXT_ENDS: Final = frozenset({"enter", "escape"})
MOST_SECONDS: Final = 2.0
"""For one widget: one that is being taken off the screen may never answer."""
Action = tuple[str, str, tuple[object, ...]]


class InTurn(Notices):
    """An app that does at once what opens a line to type in, what edits one and what ends it."""

    def __init__(self) -> None:
        super().__init__()
        self._due: deque[tuple[Action, DOMNode]] = deque()
        self._ignoring_text = False

    async def on_event(self, event: Event) -> None:
        if isinstance(event, MouseDown):
            self._ignoring_text = False
        if isinstance(event, Key) and not event.is_forwarded and await self._in_turn(event):
            return
        await super().on_event(event)

    async def _in_turn(self, event: Key) -> bool:
        """Do what a key does, if that cannot wait; whether it was done."""
        if not self.screen_stack:
            # On its way out.
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
        # The letters before it first, and then whatever its end sets going.
        await settled([entry])
        done = await self.run_action(found.binding.action, found.node)
        await settled(node for node in entry.ancestors_with_self if node is not self)
        await self._run_due()
        return done

    def _ignore_text(self, opener: str | None) -> None:
        """Let no letter run as a key until the line that the user types ends."""
        self._ignoring_text = True
        self.notify(
            f"{opener} does nothing here. What you type is ignored until Enter or Esc.",
            severity="warning",
            markup=False,
        )

    def _is_ignored_text(self, event: Key) -> bool:
        if not self._ignoring_text:
            return False
        self._ignoring_text = event.is_printable or event.key == "backspace"
        return self._ignoring_text or event.key in TEXT_ENDS

    def do_soon(self, action: Action, owner: DOMNode) -> None:
        """Run an action once what asks for it is handled, and before the next key is."""
        self._due.append((action, owner))
        self.call_later(self._run_due)

    async def _run_due(self) -> None:
        while self._due:
            await self.run_action(*self._due.popleft())


async def settled(nodes: Iterable[MessagePump]) -> None:
    """Wait until each of ``nodes``, the innermost first, has handled what it was sent, and what it
    sent to itself meanwhile. Not for a message handler of one of them."""
    for node in nodes:
        # What it says to those above it, it says to itself first.
        for _ in range(2):
            handled = asyncio.Event()
            if not node.call_later(handled.set):
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(MOST_SECONDS):
                    await handled.wait()
