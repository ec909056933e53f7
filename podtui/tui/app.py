"""The app: has the API followed, and publishes changes of the model to the screens.

Data flows one way: client → `ApiFollower` → `Model` → screens. Changes are published at most ten
times a second, the first of a burst immediately. Without changes, the screens are updated once a
second, so that ages and durations advance.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from rich.console import RenderableType
from rich.terminal_theme import TerminalTheme
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.events import Event as Event_
from textual.events import InputEvent, Key
from textual.screen import Screen
from textual.theme import Theme

from podtui.client.protocol import LOCAL, Client, Server
from podtui.errors import PodtuiError, UsageError
from podtui.tui.commands.actions import ACTIONS
from podtui.tui.commands.agent import stale_line, switch_dialog
from podtui.tui.commands.agent_supervisor import AgentSupervisor
from podtui.tui.commands.availability import is_available
from podtui.tui.commands.custom_runner import CustomRunner
from podtui.tui.commands.edit_record import offer_saved_pods
from podtui.tui.commands.registry import (
    Command,
    available_commands,
    completions,
    kind_commands,
    parse_command,
)
from podtui.tui.commands.saved_pods import SavedPods, SaveError
from podtui.tui.commands.session import Selection, Session, leave_dialog
from podtui.tui.commands.terminal import (
    abandon_closed_terminal,
    handle_job_control,
    on_hang_up,
)
from podtui.tui.key_queue import KeyQueue
from podtui.tui.model.follower import ApiFollower
from podtui.tui.model.model import Changes, LinkState, Model
from podtui.tui.preferences.live import LivePreferences, PreferencesFile
from podtui.tui.preferences.preferences import Preferences
from podtui.tui.preferences.theme_catalogue import ThemeCatalogue
from podtui.tui.preferences.themes import ThemeFile, defaults, log_colors
from podtui.tui.screens.acting_screen import ActingScreen
from podtui.tui.screens.factory import ScreenFactory
from podtui.tui.screens.help_screen import AliasesScreen, HelpScreen, key_lines
from podtui.tui.screens.live_screen import LiveScreen
from podtui.tui.screens.main.layout import PANES
from podtui.tui.screens.main.main_screen import MainScreen
from podtui.tui.screens.main.screen_memory import MemoryFile, ScreenMemory
from podtui.tui.screens.menu import Choice, Menu, choices
from podtui.tui.views.labels import pod_label
from podtui.tui.views.pods.rows import POD_COLUMNS
from podtui.tui.widgets.bars import Bar
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.delays import call_after
from podtui.tui.widgets.dialogs import Picker
from podtui.tui.widgets.keys_first import delay_for_keys
from podtui.tui.widgets.notices import unmarked
from podtui.tui.widgets.sanitize import clean
from podtui.why.inventory import NOUNS

FRAME = 0.1
MAX_DELAY_SECONDS = 0.3
"""Seconds that changes wait for keys at most, since a key may be held down."""


class PodtuiApp(KeyQueue):
    """The Textual app. With ``readonly``, the screens offer no action that changes anything.

    ``simulated`` says that the agent uses the simulated engine. ``on_painted`` is called after the
    first paint.
    """

    TITLE = "podtui"
    CSS_PATH = "podtui.tcss"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "command", "Command", key_display=":", id="app.command"),
        Binding("m,f10", "menu", "Menu", id="app.menu",
                tooltip="Menu of actions; also on right click"),
        Binding("question_mark", "help", "Help", key_display="?", id="app.help"),
        Binding("ctrl+a", "aliases", "Commands", show=False, id="app.aliases",
                tooltip="Commands of the : prompt, with their aliases"),
        Binding("ctrl+p", "command_palette", "Palette", show=False, id="app.palette",
                tooltip="Fuzzy search for a pod, pane, theme or command"),
        Binding("q", "quit", "Quit", id="app.quit"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True, id="app.interrupt"),
        Binding("ctrl+t", "agent", "Agent", id="app.agent",
                tooltip="Restart a lost agent, or switch it to the requested folder"),
        Binding("T", "next_theme", "Next theme", show=False, id="app.theme"),
        Binding("ctrl+x", "save_screenshot", "Save a screenshot", show=False,
                id="app.screenshot"),
    ]  # fmt: skip

    def __init__(
        self,
        client: Client,
        *,
        themes: ThemeCatalogue | None = None,
        simulated: bool = False,
        supervisor: AgentSupervisor | None = None,
        readonly: bool = False,
        preferences: Preferences | None = None,
        preferences_file: PreferencesFile | None = None,
        memory: MemoryFile | None = None,
        saved_pods: SavedPods | None = None,
        now: Callable[[], float] = time.time,
        server: Server = LOCAL,
        on_painted: Callable[[], None] | None = None,
    ) -> None:
        # Before the constructor of Textual, which asks for the variables of the CSS.
        self._log_colors: tuple[Theme, TerminalTheme] | None = None
        self._variables: tuple[Theme, dict[str, str]] | None = None
        super().__init__()
        self.client = client
        self.next_context = ""
        """The context to open after exit; empty if the user quits."""
        self._leave_dialog_open = False
        self.model = Model(server)
        self.simulated = simulated
        self.supervisor = supervisor or AgentSupervisor()
        self.session = Session(
            self, client, self.model, ScreenFactory(), now, self.supervisor.requested_path,
            readonly=readonly, saved_pods=saved_pods or SavedPods(None),
        )  # fmt: skip
        self.custom = CustomRunner(self, self.session, self._selection)
        self.session.user_bindings = self.custom.active_bindings
        self.memory = memory or MemoryFile(None)
        self.theme_choice = (self.memory.memory.theme, self.memory.memory.theme_over)
        """The theme chosen on the screen, and the theme of the settings at that time."""
        self.preferred = LivePreferences(
            self, self.custom, preferences or Preferences(), preferences_file
        )
        self._saved: list[tuple[str, bytes]] = []
        """Manifests of pods that an earlier screen deleted, but did not create again."""
        self._on_painted = on_painted
        self._published_at = 0.0
        self._scheduled = False
        self._last_input = time.monotonic()
        self._themes = themes or ThemeCatalogue()
        for theme in self._themes.load():
            self.register_theme(theme)
        first_theme = self._themes.first(self.available_themes)
        if first_theme is not None:
            self.theme = first_theme

    def get_css_variables(self) -> dict[str, str]:
        # Creating them takes 2 ms, and Textual asks several times before the first paint.
        theme = self.current_theme
        if self._variables is None or self._variables[0] is not theme:
            self._variables = (theme, super().get_css_variables())
        return self._variables[1]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return defaults(self.current_theme)

    @property
    def ansi_theme(self) -> TerminalTheme:
        theme = self.current_theme
        if theme.ansi:
            return super().ansi_theme
        # Cached: Textual reads this property for each line that it draws.
        if self._log_colors is None or self._log_colors[0] is not theme:
            self._log_colors = (theme, log_colors(theme, self.get_css_variables()))
        return self._log_colors[1]

    def get_default_screen(self) -> Screen[Any]:
        return MainScreen(self)

    def on_mount(self) -> None:
        if not self.is_headless:
            # After Textual has set its own signal handlers.
            loop = asyncio.get_running_loop()
            handle_job_control(loop)
            cast("Any", self).app_resume_signal.subscribe(self, self._draw_again)
            on_hang_up(lambda: loop.call_soon_threadsafe(self.exit_on_signal, signal.SIGHUP))
        self.set_interval(1.0, self.tick)
        # Start the workers after the first paint, so that loading does not delay it.
        self.call_after_refresh(self._start)
        self._report_theme_problems()
        self._report_memory_problem()
        self.preferred.start()

    def _draw_again(self, _: object) -> None:
        """Draw the whole screen; after a SIGCONT, Textual draws only what changes."""
        self.refresh(layout=True)

    def _start(self) -> None:
        if self._on_painted is not None:
            self._on_painted()
        # Textual cancels workers when the app closes: no task outlives the screen.
        follower = ApiFollower(self.client, self.model, self.session.clock, self._schedule)
        self.run_worker(follower.run, name="follow", group="follow")
        if not self.session.readonly:
            self.run_worker(self._read_saved_pods, name="saved pods", group="saved pods")
        if self._themes.folders:
            self.run_worker(self._watch_themes, name="themes", group="themes")

    async def on_event(self, event: Event_) -> None:
        if isinstance(event, InputEvent):
            self._last_input = time.monotonic()
        await super().on_event(event)

    async def command_opened(self) -> None:
        await self.session.next_question()

    async def on_key(self, event: Key) -> None:
        """Run a custom command or hotkey, if no widget has handled its key; refuse the key of an
        action that the session disables (`Session.refuse`)."""
        active = self.screen.active_bindings.get(event.key)
        if active is None:
            return
        if not active.enabled:
            self.session.refuse()
        elif active.binding in self.custom.bindings:
            event.prevent_default()
            await self.run_action(active.binding.action, active.node)

    async def on_unmount(self) -> None:
        await self.client.close()

    async def action_quit(self) -> None:
        await self._leave("Quit", self._quit)

    async def _leave(self, verb: str, leave: Callable[[], Awaitable[None]]) -> None:
        """Leave the screen; confirm first if leaving ends something. A second request while the
        dialog is open leaves at once.
        """
        lost = self.session.ended_by_leaving
        if not lost or self._leave_dialog_open:
            await leave()
            return
        self._leave_dialog_open = True

        # As a worker: the keys that answer the dialog are handled when this action has returned.
        async def ask() -> None:
            try:
                if await self.session.confirm(leave_dialog(verb, lost)):
                    await leave()
            finally:
                self._leave_dialog_open = False

        self.run_worker(ask, name="leave", group="leave")

    async def _quit(self) -> None:
        # Saved here, because leaving cancels the workers that save changes of the layout.
        main = self.screen_stack[0]
        if isinstance(main, MainScreen) and main.opened and main.memory != self.memory.memory:
            await self._remember(main.memory)
        self.exit()

    async def _read_saved_pods(self) -> None:
        try:
            self._saved = await asyncio.to_thread(self.session.saved_pods.saved)
        except SaveError as error:
            self.notify(str(error), title="Create again", severity="error", markup=False)

    def _offer_saved_pods(self) -> None:
        if self._saved and self.model.link is LinkState.CONNECTED and not self.session.asking:
            saved, self._saved = self._saved, []
            self.session.start("Create again", lambda: offer_saved_pods(self.session, saved))

    @property
    def idle(self) -> float:
        """Seconds since the last key or mouse event."""
        return time.monotonic() - self._last_input

    # --- from the model to the screens

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            since = time.monotonic() - self._published_at
            call_after(self, max(0.001, FRAME - since), self.publish_pending)

    def publish_pending(self) -> None:
        now = time.monotonic()
        delay = delay_for_keys(self.idle, now - self._published_at, MAX_DELAY_SECONDS)
        if delay:
            call_after(self, delay, self.publish_pending)
            return
        self._scheduled = False
        self._published_at = now
        self._show(self.model.take())
        # The model returns new usage of many pods in batches, so that keys are handled between.
        if self.model.waits:
            self._schedule()

    def tick(self) -> None:
        self._supervise_agent()
        self._offer_saved_pods()
        # A pod also becomes healthy by running long enough, without a change of its record.
        self._show(Changes(self.model.recovered(self.session.now())))

    def _show(self, changes: Changes) -> None:
        now = self.session.now()
        self.preferred.send_alerts(self.model, changes, now)
        stale = self._stale_line
        # Also the covered screens: they are up to date when the one above closes.
        for screen in self.screen_stack:
            if not isinstance(screen, LiveScreen) or not screen.opened:
                continue
            try:
                screen.publish(changes, now)
                for header in screen.query("#header").results(Bar):
                    header.warn(stale)
            except NoMatches:
                # A screen that is being closed loses its widgets one by one.
                if screen.shown:
                    raise

    # --- actions

    def _selection(self) -> Selection:
        screen = self.screen
        return screen.selection if isinstance(screen, ActingScreen) else Selection()

    # --- the agent

    @property
    def _stale_line(self) -> Line:
        model = self.model
        if model.link is not LinkState.LOST or model.contact_at is None or model.server.is_cluster:
            return ()
        width = self.size.width
        return stale_line(model.contact_at, self.session.clock(), self._agent_key, width)

    @property
    def _agent_key(self) -> str:
        """The key bound to `action_agent`; empty if the action is not available."""
        for active in self.screen.active_bindings.values():
            if active.binding.id == "app.agent" and active.enabled:
                return self.get_key_display(active.binding)
        return ""

    def _supervise_agent(self) -> None:
        model, supervisor = self.model, self.supervisor
        if supervisor.needs_restart(model.link, self.session.clock()):
            self.notify("The agent was killed or failed; it is restarted.", title="Agent",
                        severity="warning", markup=False)  # fmt: skip
            self._restart_agent()
        elif model.link is LinkState.CONNECTED and supervisor.compare_folder(model.node):
            self._report_folder()

    def _report_folder(self) -> None:
        """Show the agent's folder; if the user requested another one, report or offer it."""
        supervisor = self.supervisor
        self.refresh_bindings()
        self._show(Changes(node=True))
        if self.session.readonly or not supervisor.other_folder:
            return
        if supervisor.asks_to_switch:
            supervisor.asks_to_switch = False
            self.action_agent()
        else:
            self.notify(
                f"The agent watches {supervisor.folder(self.model.node)},"
                f" not {supervisor.other_folder};"
                f" {self._agent_key} (or Agent in the menu) switches it.",
                title="Another folder", severity="warning", markup=False,
            )  # fmt: skip

    def _restart_agent(self, folder: str = "") -> None:
        self.supervisor.begin_restart(self.session.clock())

        async def restart() -> None:
            try:
                await asyncio.to_thread(self.supervisor.restart, folder)
            except PodtuiError as error:
                self.session.notify(str(error), title="Agent", severity="error")

        self.run_worker(restart, name="restart agent", group="agent", exclusive=True)

    def action_agent(self) -> None:
        """Restart a lost agent; otherwise ask whether to switch it to the requested folder."""
        if self.model.link is LinkState.LOST:
            self.notify("Restarting the agent.", title="Agent", markup=False)
            self._restart_agent()
            return
        supervisor, model = self.supervisor, self.model
        forwards = [forward.address for forward in self.session.forwards if not forward.failed]
        dialog = switch_dialog(
            supervisor.folder(model.node), supervisor.other_folder, list(model.pods.values()),
            forwards,
        )  # fmt: skip

        async def switch() -> None:
            if await self.session.confirm(dialog):
                self._restart_agent(str(supervisor.requested_path))

        self.session.start("Switch", switch)

    def action_help(self) -> None:
        offered = self.model.server.capabilities
        lines = key_lines(self.screen, self.preferred.keymap, offered, self.custom.bindings)
        self.push_screen(HelpScreen(lines))

    def action_undo(self) -> None:
        ACTIONS["undo"].run(self.session, self._selection(), "")

    def action_menu(self) -> None:
        def take(choice: Choice | None) -> None:
            if choice is not None:
                # After the menu has closed: the action may open a screen itself.
                self.call_later(self.run_action, choice.action, choice.owner)

        screen = self.screen
        if isinstance(screen, LiveScreen):
            listed = [choice for choice in choices(screen) if self.custom.is_listed(choice.id)]
            self.push_screen(Menu(screen.menu_title, listed), take)

    def action_custom_command(self, name: str) -> None:
        """Run a custom command of the user."""
        screen = self.screen
        if isinstance(screen, ActingScreen) and screen.selection.log_line is None:
            screen.show_selection()
        self.custom.run(name)

    def action_hotkey(self, index: int) -> None:
        """Run a custom hotkey as if its command line had been typed on the main screen."""
        line = self.custom.line_of(index)
        command = self._parsed(line)
        if command is not None:
            # All other commands act on the selection of the main screen.
            if not command[0].action.startswith("app."):
                self._back_to_main()
            self._run_parsed(*command)

    def _back_to_main(self) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def exit(
        self, result: None = None, return_code: int = 0, message: RenderableType | None = None
    ) -> None:
        """Leave the screen and print what that ends."""
        self.session.is_leaving = True
        super().exit(result, return_code, message or self.custom.ended_message() or None)

    def exit_on_signal(self, number: signal.Signals) -> None:
        """Leave the screen because of a signal, with the exit status that shells expect."""
        if number in self.session.ignored_signals:
            return
        if number is signal.SIGHUP:
            abandon_closed_terminal()
        self.exit(return_code=128 + number)

    def action_command(self) -> None:
        self._back_to_main()
        if isinstance(self.screen, MainScreen):
            self.screen.ask_command()

    def action_next_theme(self) -> None:
        next_theme = self._themes.after(self.theme)
        if next_theme is not None:
            self.choose_theme(next_theme)
            self.notify(self.theme, title="Theme", timeout=2, markup=False)

    def action_save_screenshot(self) -> None:
        try:
            path = self.save_screenshot(path=str(Path.cwd()))
        except OSError as error:
            self.notify(str(error), title="Not saved", severity="error", markup=False)
        else:
            self.notify(path, title="Saved", markup=False)

    def action_aliases(self) -> None:
        self.push_screen(AliasesScreen(self.commands))

    def choose_theme(self, name: str) -> None:
        """Change the theme, and remember it for the next start."""
        self.theme = name
        if self.preferred.remembers_theme:
            # With the theme of the settings: if that changes later, it is the newer choice.
            self.theme_choice = (name, self.preferred.theme)
            main = self.screen_stack[0]
            if isinstance(main, MainScreen) and main.opened:
                main.remember_soon()

    def action_theme(self, name: str) -> None:
        """Change to the named theme, or warn that it does not exist."""
        if name in self.available_themes:
            self.choose_theme(name)
        else:
            names = ", ".join(self._themes.names)
            self.notify(f"There is no theme {name!r}; available: {names}", severity="warning",
                        markup=False)  # fmt: skip

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands available with this server, including the user's own."""
        own = (*available_commands(self.model.server.capabilities), *self.custom.typed)
        return (*own, *kind_commands(self.model.kinds))

    def action_context(self, name: str) -> None:
        """Switch to another context; without a name, open a picker."""
        server = self.model.server

        def turn(selected: str) -> None:
            async def leave() -> None:
                self.next_context = selected
                self.exit()

            if selected != server.context:
                self.call_later(self._leave, f"Switch to {clean(selected)}", leave)

        if name in server.contexts:
            turn(name)
        elif name:
            contexts = ", ".join(map(clean, server.contexts))
            self.notify(f"There is no context {clean(name)!r}; available: {contexts}",
                        severity="warning", markup=False)  # fmt: skip
        else:
            self._ask_context(turn)

    def _ask_context(self, turn: Callable[[str], None]) -> None:
        server = self.model.server
        lines = [
            (Span("● " if name == server.context else "  ", "good"), Span(clean(name), "name"))
            for name in server.contexts
        ]

        def take(index: int | None) -> None:
            if index is not None:
                turn(server.contexts[index])

        self.push_screen(Picker("Switch to a context", lines), take)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if not is_available(self.model.server.capabilities, action, parameters):
            return False
        if action == "agent":
            offered = self.supervisor.can_act(self.model.link)
            return None if offered and self.session.readonly else offered
        if action == "custom_command":
            return self.custom.check(str(parameters[0]))
        return super().check_action(action, parameters)

    def command_words(self) -> list[str]:
        """Return the completions for the command prompt."""
        from podtui.explain.places import field_paths, paths_of_kinds

        columns = [column.names[0] for column in POD_COLUMNS]
        return completions(
            {
                "theme": self.available_themes,
                "namespace": sorted({pod.metadata.namespace for pod in self.model.pods.values()}),
                "sort": columns,
                "hide": PANES,
                "show": PANES,
                "context": self.model.server.contexts,
                "explain": (*field_paths(), *paths_of_kinds("")),
                "why": [f"{noun.shown}/" for noun in NOUNS],
            },
            self.commands,
        )

    def run_command(self, text: str) -> None:
        """Run a line typed after ``:``."""
        command = self._parsed(text) if text.strip() else None
        if command is not None:
            self._run_parsed(*command)

    def _parsed(self, text: str) -> tuple[Command, str] | None:
        """Parse a line into command and argument; if it is invalid, notify why and return None."""
        try:
            return parse_command(text, self.commands)
        except UsageError as error:
            unknown = str(error)
            if not self.model.kinds:
                unknown += "; the kinds of this server are not read yet"
            why = self.custom.why_unavailable(text.split()[0]) or unknown
            self.notify(why, severity="warning", markup=False)
            return None

    def _run_parsed(self, command: Command, argument: str) -> None:
        namespace, name, parameters = command.action_for(argument)
        owner = self if namespace == "app" else self.screen
        self.run_soon(("", name, parameters), owner)

    # --- persistence

    def remember(self, memory: ScreenMemory) -> None:
        """Save the layout of the screen."""
        if memory != self.memory.memory:
            self.run_worker(partial(self._remember, memory), group="memory")

    async def _remember(self, memory: ScreenMemory) -> None:
        try:
            await asyncio.to_thread(self.memory.write, memory)
        except OSError as error:
            # Reported once: the layout is saved after each change of it, and fails each time.
            if not self.memory.problem:
                self.memory.problem = str(error)
                self._report_memory_problem()

    def _report_memory_problem(self) -> None:
        if self.memory.problem:
            self.notify(clean(self.memory.problem), title="Layout not saved", severity="warning",
                        markup=False)  # fmt: skip

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield SystemCommand("Keys", "All keys and their actions", self.action_help)
        agent = "" if self.model.server.is_cluster else "; the agent keeps running"
        yield SystemCommand("Quit", f"Leave the screen{agent}", self.action_quit)
        for name in self._themes.names:
            yield SystemCommand(
                f"Theme {unmarked(name)}",
                "Change the colours",
                lambda name=name: self.choose_theme(name),
            )
        main = self.screen_stack[0]
        if isinstance(main, MainScreen):
            for pane in ("pods", "events", "logs", "node"):
                yield SystemCommand(
                    f"Pane {pane}", "Focus the pane", lambda pane=pane: main.action_pane(pane)
                )
            for key, pod in self.model.pods.items():
                yield SystemCommand(
                    f"Pod {unmarked(pod_label(pod))}",
                    "Open the pod",
                    lambda key=key: main.open_pod(key),
                )

    # --- themes

    def _report_theme_problems(self) -> None:
        for problem in self._themes.take_problems():
            self.notify(clean(problem), title="Theme", severity="warning", markup=False, timeout=10)

    async def _watch_themes(self) -> None:
        async for files in self._themes.changes():
            self.reload_themes(files)

    def reload_themes(self, files: Sequence[ThemeFile]) -> None:
        """Register reloaded themes, and repaint if the current theme changed."""
        before: Theme = self.current_theme
        for theme in self._themes.use(files):
            self.register_theme(theme)
        self._report_theme_problems()
        after = self.get_theme(before.name)
        if after is not None and after != before:
            # The name of the theme is the same: to set it would repaint nothing.
            self.mutate_reactive(PodtuiApp.theme)
