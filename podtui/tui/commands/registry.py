"""The commands of the prompt (after ``:``), as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from podtui.client.any_kind import ServedKind
from podtui.client.protocol import ServerCapabilities
from podtui.errors import UsageError
from podtui.tui.commands.actions import ACTIONS
from podtui.tui.commands.availability import is_available
from podtui.tui.widgets.sanitize import clean


class Command(Struct, frozen=True):
    """A command of the prompt.

    ``action`` is an action of the main screen, or of the app with the prefix ``app.``. It is called
    with ``parameters``, and with the typed argument if ``argument`` names one. ``on_cluster`` is
    the description on a cluster, if it differs.
    """

    name: str
    aliases: tuple[str, ...]
    help: str
    action: str
    parameters: tuple[str, ...] = ()
    argument: str = ""
    on_cluster: str = ""

    def action_for(self, argument: str) -> tuple[str, str, tuple[object, ...]]:
        """Return (namespace, name, parameters) as Textual runs actions."""
        namespace, _, name = self.action.rpartition(".")
        given = (argument,) if self.argument else ()
        return namespace, name, (*self.parameters, *given)


def _typed(name: str, action: str, *aliases: str, help: str = "", argument: str = "") -> Command:
    """Return one of `ACTIONS` as a command of the prompt."""
    return Command(name, aliases, help or ACTIONS[action].help, "do", (action,), argument)


COMMANDS: Final = (
    Command("pods", ("po", "pod"), "Pods, filtered", "go", ("pods",), "FILTER"),
    Command("events", ("ev", "event"), "Events, filtered", "go", ("events",), "FILTER"),
    Command("logs", ("log",), "The log of the pod under the cursor", "go", ("logs",)),
    Command("node", ("no", "nodes"), "Details of the node", "open_node", ("overview",)),
    Command("images", ("im",), "The images on the engine's disk", "open_node", ("images",)),
    _typed("pull", "pull_image", argument="IMAGE"),
    Command("rejected", (), "Pods that the node rejected", "open_node", ("rejected",)),
    Command(
        "what-if",
        ("fit",),
        "Check whether a pod or a file would fit",
        "open_node",
        ("what-if",),
        "REQUESTS",
    ),
    Command("tree", ("xray",), "Pods, containers and volumes as a tree", "tree", (), "FILTER"),
    Command("map", ("connections",), "Who connects to whom, by the manifests", "map", (), "FILTER"),
    Command("why", (), "Why an object is not as desired", "why_object", (), "OBJECT"),
    Command("explain", ("ex",), "Explain a field of a manifest", "explain", (), "FIELD"),
    Command("namespace", ("ns",), "Show one namespace, or all", "namespace", (), "NAME"),
    Command(
        "kinds", ("resources", "api-resources"), "All kinds of objects, with their counts", "kinds"
    ),
    Command("sort", (), "Sort the table by a column", "sort_by", (), "COLUMN"),
    Command("columns", ("cols",), "Select the columns of the table", "choose_columns"),
    Command("hide", (), "Hide a pane", "hide", (), "PANE"),
    Command("show", (), "Show a hidden pane", "go_to", (), "PANE"),
    _typed("new", "new", help="Create a pod from a template"),
    _typed("undo", "undo"),
    _typed("create", "create"),
    _typed("trash", "trash"),
    _typed("forwards", "forwards", "pf"),
    _typed("journal", "journal", "j", help="Journal of actions, as commands to copy"),
    Command("context", ("ctx", "contexts"), "Switch to another cluster", "app.context", (), "NAME"),
    Command("theme", ("skin",), "Change the colours", "app.theme", (), "NAME"),
    Command("aliases", ("a",), "This list", "app.aliases"),
    Command("help", ("h", "?"), "All keys", "app.help"),
    Command(
        "quit",
        ("q", "q!"),
        "Leave the screen; the agent keeps running",
        "app.quit",
        on_cluster="Leave the screen",
    ),
)


def available_commands(capabilities: ServerCapabilities) -> tuple[Command, ...]:
    """Return the commands that a server supports, with the descriptions for it."""
    elsewhere = not capabilities.engine
    return tuple(
        replace(command, help=command.on_cluster) if elsewhere and command.on_cluster else command
        for command in COMMANDS
        if is_available(capabilities, command.action.removeprefix("app."), command.parameters)
    )


def kind_commands(kinds: Iterable[ServedKind]) -> tuple[Command, ...]:
    """Return a command for each kind that a server lists: ``:deployments``, ``:deploy`` …

    A name that several kinds have belongs to the first of them; the others have names with their
    group (``events.events.k8s.io``).
    """
    used = {name for command in COMMANDS for name in (command.name, *command.aliases)}
    commands: list[Command] = []
    for kind in kinds:
        names = (kind.plural, kind.singular, kind.kind.lower(), *kind.short_names)
        free = [name for name in dict.fromkeys((*names, kind.qualified_name)) if name not in used]
        if not free:
            continue
        used.update(free)
        help_text = f"List of {clean(kind.kind)} ({clean(kind.api_version)})"
        parameters = (kind.qualified_name,)
        commands.append(Command(free[0], tuple(free[1:]), help_text, "kind", parameters, "FILTER"))
    return tuple(commands)


def parse_command(text: str, commands: Sequence[Command] = COMMANDS) -> tuple[Command, str]:
    """Return (command, argument). Raises `UsageError` for an unknown name."""
    word, _, rest = text.strip().partition(" ")
    if "/" in word:
        # As in k9s: ``:po/web`` is the same as ``:po /web``.
        word, _, rest = text.strip().partition("/")
    for command in commands:
        if word in (command.name, *command.aliases):
            return command, rest.strip().removeprefix("/")
    names = [name for command in commands for name in (command.name, *command.aliases)]
    close = get_close_matches(word, names, n=1)
    hint = f"; did you mean :{close[0]}?" if close else "; ctrl+a lists them"
    raise UsageError(f"unknown command {word!r}{hint}")


def completions(
    arguments: Mapping[str, Iterable[str]], commands: Sequence[Command] = COMMANDS
) -> list[str]:
    """Return all completions: command names, and ``NAME ARGUMENT`` for ``arguments`` by name."""
    candidates: list[str] = []
    for command in commands:
        candidates.append(command.name)
        candidates += (f"{command.name} {argument}" for argument in arguments.get(command.name, ()))
    return candidates
