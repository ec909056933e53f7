"""The actions of one session: permission, undo, journal and notifications.

Each action is a coroutine that asks, acts and notifies. The app runs it as a worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from textual.screen import Screen

from podtui.errors import PodtuiError
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import CANCEL, Dialog, confirmation
from podtui.tui.widgets.sanitize import clean

if TYPE_CHECKING:
    from podtui.api.images import PullStep
    from podtui.client.protocol import Client
    from podtui.tui.app import PodtuiApp
    from podtui.tui.commands.delete_manifests import Trashed
    from podtui.tui.commands.manifest_file import Rewrite
    from podtui.tui.commands.port_forward import KeptForward
    from podtui.tui.views.journal import Deed

Severity = Literal["information", "warning", "error"]
MOST_DEEDS = 500
UNDO_SECONDS = 10.0
"""How long the notification of an undoable action is shown; the undo key works later, too."""
READ_ONLY = "podtui runs read-only: nothing is changed"


class Draft(Struct):
    """An edited text that was not applied, and the content of the file at that time."""

    base: bytes | None
    text: bytes


class Actions(Struct):
    """The actions of one session. With ``readonly``, actions that change something are refused."""

    app: PodtuiApp
    readonly: bool = False
    undoable: list[tuple[Trashed, ...] | Rewrite] = field(
        default_factory=list["tuple[Trashed, ...] | Rewrite"]
    )
    """Files that this session moved to the trash or fixed, the last action last."""
    forwards: list[KeptForward] = field(default_factory=list["KeptForward"])
    deeds: deque[Deed] = field(default_factory=lambda: deque["Deed"](maxlen=MOST_DEEDS))
    """The journal: executed actions as command lines that repeat them, the oldest first."""
    pulls: dict[str, PullStep] = field(default_factory=dict[str, "PullStep"])
    """Images that this session pulls on request, with the progress of each."""
    _asking: str = ""
    drafts: dict[Path, Draft] = field(default_factory=dict[Path, Draft])

    @property
    def client(self) -> Client:
        return self.app.client

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.app.clock(), UTC)

    def start(self, name: str, deed: Callable[[], Awaitable[None]], *, writes: bool = True) -> None:
        """Run an action in the background; an error is shown as a notification. Only one action at
        a time may ask questions: another one is refused until then.
        """
        if writes and self.readonly:
            self.tell(READ_ONLY, title="Read-only", severity="warning")
            return

        if self._asking:
            self.tell(f"{self._asking} is not done yet", title=name, severity="warning")
            return
        self._asking = name

        async def run() -> None:
            try:
                await deed()
            except PodtuiError as error:
                self.tell(str(error), title=name, severity="error")
            finally:
                if self._asking == name:
                    self.asked()

        self.app.run_worker(run, name=name, group="deeds")

    def asked(self) -> None:
        """Allow other actions to start, because the current one has no more questions."""
        self._asking = ""

    def did(self, what: str, words: Iterable[str], *pods: str) -> None:
        """Add an action to the journal; ``words`` are a command line that does the same."""
        import shlex

        from podtui.tui.views.journal import Deed

        self.deeds.append(Deed(self.app.clock(), what, shlex.join(words), ", ".join(pods)))

    def kubectl(self, verb: str, *words: str) -> list[str]:
        """Return a command line for kubectl with the context of the shown cluster, independent of
        the current context. For an agent, return one for podtui, which has the same verbs.
        """
        server = self.app.model.server
        if server.is_cluster:
            return ["kubectl", f"--context={server.context}", verb, *words]
        root = PurePath(self.client.target.removeprefix("unix:")).parent
        return ["podtui", verb, f"--root-dir={root}", *words]

    def tell(self, text: str, *, title: str = "", severity: Severity = "information") -> None:
        # `PodtuiApp.notify` cleans the text, line by line.
        self.app.notify(text, title=title, severity=severity, markup=False)

    def tell_undo(self, title: str, follows: str = "brings it back") -> None:
        """Notify of an action that can be undone, by its key or by a click on the notification."""
        self.app.notify(f"u or [@click=app.undo]a click here[/] {follows}.",
                        title=clean(title), timeout=UNDO_SECONDS)  # fmt: skip

    async def ask(self, dialog: Screen[str]) -> str:
        """Show a dialog and return the answer."""
        return await self.app.push_screen_wait(dialog)

    async def confirm(self, dialog: Screen[str]) -> bool:
        """Ask before something ends or is lost; return whether the user agrees. Every action that
        ends or loses something calls this first.
        """
        return await self.ask(dialog) != CANCEL

    @property
    def ended_by_leaving(self) -> list[Line]:
        """The things that end or are lost with the screen, one line each."""
        found = [
            f"port-forward {one.address} → {one.forward.remote_port}"
            for one in self.forwards
            if not one.failed
        ]
        found += [f"pull of {name}" for name in self.pulls]
        found += [f"command {name}" for name in self.app.own.running]
        found += [f"unsaved edit of {path.name}" for path in self.drafts]
        return [(Span("✖ ", "error"), Span(clean(text), "name")) for text in found]


def leave_dialog(verb: str, lost: Sequence[Line]) -> Dialog:
    """Return the dialog before leaving. ``verb`` names the way out; ``lost`` lists what is lost."""
    return confirmation(
        f"{verb}?", [*lost, (), (Span("This ends with the screen.", "muted"),)], verb
    )
