"""The session: what commands may use of the app, and the state that they share.

A command is a coroutine that asks, acts and notifies. The session runs it in the background.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Final, Literal, Protocol, TypeVar, cast

from msgspec import Struct
from textual.app import App
from textual.binding import ActiveBinding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.worker import Worker

from podtui.api.local import Manifest, PullStep
from podtui.api.v1 import ObjectMeta, Pod
from podtui.client.any_kind import ServedKind
from podtui.client.protocol import MERGE, Client, PortForward
from podtui.errors import PodtuiError
from podtui.tui.commands.agent import folder_of, watched_path
from podtui.tui.commands.custom_commands import CommandTarget, CustomCommand
from podtui.tui.commands.manifest_file import Rewrite, TrashedFile
from podtui.tui.commands.saved_pods import SavedPods
from podtui.tui.model.model import LinkState, Model
from podtui.tui.views.journal import JournalEntry
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import CANCEL, Dialog, confirmation
from podtui.tui.widgets.sanitize import clean

Severity = Literal["information", "warning", "error"]
Answer = TypeVar("Answer")
MOST_ENTRIES: Final = 500
UNDO_SECONDS: Final = 10.0
"""How long the notification of an undoable action is shown; the undo key works later, too."""
QUESTION_SECONDS: Final = 0.5
"""Seconds that typed keys wait for a command to open its dialog."""
READ_ONLY: Final = "podtui is read-only: nothing can be changed"


class Draft(Struct):
    """An edited text that was not applied, and the content of the file at that time. ``outdated``:
    the text lacks a change that the file got while it was edited."""

    base: bytes | None
    text: bytes
    outdated: bool = False


class RecordChange(Struct, frozen=True):
    """A change of an API pod: the pod before it, both texts, and a short description."""

    pod: Pod
    before: str
    after: str
    what: str


class DeletedPods(Struct, frozen=True):
    """API pods that were deleted together, as they were before."""

    pods: tuple[Pod, ...]


class ObjectChange(Struct, frozen=True):
    """A change of an object by a patch, the patch that undoes it, and a short description."""

    kind: ServedKind
    before: ObjectMeta
    patch: dict[str, Any]
    reverse: dict[str, Any]
    what: str
    subresource: str = ""
    content_type: str = MERGE


class DeletedObjects(Struct, frozen=True):
    """Objects of a kind that were deleted together, as a client would write them."""

    kind: ServedKind
    contents: tuple[dict[str, Any], ...]


Undoable = (
    tuple[TrashedFile, ...] | Rewrite | RecordChange | DeletedPods | ObjectChange | DeletedObjects
)


class Selection(Struct, frozen=True):
    """The objects of a screen that a command acts on.

    ``log_line`` has the pod's key, the container and the text of the log line under the cursor.
    """

    pods: tuple[Pod, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    image: str = ""
    log_line: tuple[str, str, str] | None = None
    shows_pulls: bool = False
    """True if the screen shows the progress of image pulls."""
    clear: Callable[[], None] = lambda: None
    """Remove the marks after a command on the marked objects."""
    nothing: str = ""
    """Why the selection is empty, if the screen knows it."""


class Screens(Protocol):
    """Creates the screens that commands open."""

    def trash(self, folder: Path) -> Screen[Any]: ...

    def journal(self, pod: Pod | None) -> Screen[Any]: ...

    def forwards(self) -> Screen[Any]: ...

    def images(self) -> Screen[Any]: ...

    def output(self, command: CustomCommand, targets: Sequence[CommandTarget]) -> Screen[Any]: ...


@dataclass(slots=True, eq=False)
class RunningForward:
    """A port-forward of this session. ``failed`` is the reason why it ended by itself."""

    pod: Pod
    forward: PortForward
    worker: Worker[Any] | None = None
    failed: str = ""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.forward.local_port}"

    @property
    def problem(self) -> str:
        return self.failed or self.forward.problem

    def stop(self) -> None:
        """Stop the forward. Idempotent."""
        if self.worker is not None:
            self.worker.cancel()
        self.forward.close()


@dataclass(slots=True, eq=False)
class Session:
    """One session of the screen. With ``readonly``, commands that change something are refused.

    ``clock`` returns the current time, ``requested_path`` is the manifest folder that the user
    chose.
    """

    app: App[Any]
    client: Client
    model: Model
    screens: Screens
    clock: Callable[[], float]
    requested_path: Path | None = None
    readonly: bool = False
    saved_pods: SavedPods = field(default_factory=lambda: SavedPods(None))
    """Manifests of API pods that are deleted to be created again."""
    undoable: list[Undoable] = field(default_factory=list[Undoable])
    """Files that this session moved to the trash or fixed, and objects that it deleted or changed,
    the last action last."""
    forwards: list[RunningForward] = field(default_factory=list[RunningForward])
    journal: deque[JournalEntry] = field(
        default_factory=lambda: deque[JournalEntry](maxlen=MOST_ENTRIES)
    )
    """Executed commands as command lines that repeat them, the oldest first."""
    pulls: dict[str, PullStep] = field(default_factory=dict[str, PullStep])
    """Images that this session pulls on request, with the progress of each."""
    recreated: list[str] = field(default_factory=list[str])
    """API pods that are created again as soon as the deleted ones are gone."""
    running: list[str] = field(default_factory=list[str])
    """Names of the custom commands that run in the background."""
    drafts: dict[Path, Draft] = field(default_factory=dict[Path, Draft])
    is_leaving: bool = False
    ignored_signals: frozenset[signal.Signals] = frozenset()
    """Signals that end another program in the terminal, not podtui."""
    user_bindings: Callable[[], dict[str, ActiveBinding]] = dict[str, ActiveBinding]
    """Return the available bindings of the user's commands, by key."""
    asking: str = ""
    """The command that is in progress; empty if there is none."""
    has_opened: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the command that is in progress shows a question, and after its last one."""

    def now(self) -> float:
        """Return the time that the screens show, in epoch seconds: the last contact while the agent
        is lost, otherwise the current time.
        """
        model = self.model
        if model.link is LinkState.LOST and model.contact_at is not None:
            return model.contact_at
        return self.clock()

    def utc_now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    @property
    def manifest_folder(self) -> Path | None:
        """The folder that the agent reads; None if unknown."""
        watched = watched_path(self.model.node)
        if watched:
            return folder_of(Path(watched))
        for manifest in self.model.manifests.values():
            return Path(manifest.spec.path).parent
        return folder_of(self.requested_path) if self.requested_path is not None else None

    @property
    def folder_is_missing(self) -> bool:
        """True if the manifest folder does not exist. Reads the disk."""
        folder = self.manifest_folder
        return folder is not None and not folder.exists()

    def push(self, screen: Screen[Any]) -> None:
        self.app.push_screen(screen)

    def start(
        self, name: str, command: Callable[[], Awaitable[None]], *, writes: bool = True
    ) -> None:
        """Run an action in the background; an error is shown as a notification. Only one action at
        a time may ask questions: another one is refused until then.
        """
        if writes and self.readonly:
            self.refuse()
            return
        if self.asking:
            self.notify(f"{self.asking} is still in progress", title=name, severity="warning")
            return
        self.asking = name
        self.has_opened.clear()

        async def run() -> None:
            try:
                await command()
            except PodtuiError as error:
                self.notify(str(error), title=name, severity="error")
            finally:
                if self.asking == name:
                    self.end_questions()

        self.app.run_worker(run, name=name, group="commands")

    @property
    def changes_objects(self) -> bool:
        """True if objects of the API can be changed in this session."""
        return not self.readonly and not self.model.member_of

    def refuse(self) -> None:
        """Notify why nothing, or no object of the API, can be changed in this session."""
        if self.readonly:
            self.notify(READ_ONLY, title="Read-only", severity="warning")
        elif url := self.model.member_of:
            self.notify(f"Its objects are copies of those of the cluster at {url}: change them"
                        " there. The manifests of the folder can be changed here.",
                        title="A node of a cluster", severity="warning")  # fmt: skip

    def end_questions(self) -> None:
        """Allow other actions to start, because the current one has no more questions."""
        self.asking = ""
        self.has_opened.set()

    async def next_question(self) -> None:
        """Wait, for a short time, until the command in progress asks its next question or ends."""
        if self.asking:
            with suppress(TimeoutError):
                async with asyncio.timeout(QUESTION_SECONDS):
                    await self.has_opened.wait()
            # Wait once for each question, not with each key.
            self.has_opened.set()

    def record_action(self, what: str, command_line: Iterable[str], *pods: str) -> None:
        """Add an action to the journal; ``command_line`` does the same."""
        line = shlex.join(command_line)
        self.journal.append(JournalEntry(self.clock(), what, line, ", ".join(pods)))

    def kubectl(self, verb: str, *arguments: str) -> list[str]:
        """Return a command line for kubectl with the context of the shown cluster, independent of
        the current context. For an agent, return one for podtui, which has the same verbs.
        """
        server = self.model.server
        if server.is_cluster:
            return ["kubectl", f"--context={server.context}", verb, *arguments]
        root = PurePath(self.client.target.removeprefix("unix:")).parent
        return ["podtui", verb, f"--root-dir={root}", *arguments]

    def notify(self, text: str, *, title: str = "", severity: Severity = "information") -> None:
        # `PodtuiApp.notify` cleans the text, line by line.
        self.app.notify(text, title=title, severity=severity, markup=False)

    def notify_undo(self, title: str, follows: str) -> None:
        """Notify of an action that can be undone, by its key or by a click on the notification."""
        self.app.notify(f"u or [@click=app.undo]a click here[/] {follows}.",
                        title=clean(title), timeout=UNDO_SECONDS)  # fmt: skip

    async def ask(self, dialog: Screen[Answer]) -> Answer | None:
        """Show a dialog and return the answer; None if the user closes it without one."""
        self.has_opened.set()
        try:
            return await self.app.push_screen_wait(dialog)
        finally:
            self.has_opened.clear()

    async def confirm(self, dialog: Screen[str]) -> bool:
        """Ask before something ends or is lost; return whether the user agrees. Every action that
        ends or loses something calls this first.
        """
        return await self.ask(dialog) != CANCEL

    @property
    def ended_by_leaving(self) -> list[Line]:
        """The things that end or are lost with the screen, one line each."""
        ending = [
            f"port-forward {running.address} → {running.forward.remote_port}"
            for running in self.forwards
            if not running.failed
        ]
        ending += [f"pull of {name}" for name in self.pulls]
        ending += [f"creation of pod {name}" for name in self.recreated]
        ending += [f"command {name}" for name in self.running]
        ending += [f"unsaved edit of {path.name}" for path in self.drafts]
        return [(Span("✖ ", "error"), Span(clean(text), "name")) for text in ending]


def session_of(node: DOMNode) -> Session:
    """Return the session of the app that shows a widget."""
    return cast("Session", cast("Any", node).app.session)


def leave_dialog(verb: str, lost: Sequence[Line]) -> Dialog:
    """Return the dialog before leaving. ``verb`` names the way out; ``lost`` lists what is lost."""
    return confirmation(
        f"{verb}?", [*lost, (), (Span("These end or are lost when you leave.", "muted"),)], verb
    )
