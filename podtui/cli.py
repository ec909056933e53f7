"""The command line: parsers and wiring. The commands themselves are implemented in other packages.

Heavy modules are imported only when a command needs them: ``--help`` and ``status`` load neither
the screen nor the engine's library.
"""

from __future__ import annotations

import argparse
import gc
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from podtui import (
    __version__,
    cluster_cli,
    explain_command,
    service_cli,
    shell_cli,
    talk_cli,
    web_cli,
)
from podtui.errors import AgentUnavailable, PodtuiError, UsageError
from podtui.resources import typed_program
from podtui.terminal_text import json_text, lines, one_line

if TYPE_CHECKING:
    from subprocess import Popen

    from _typeshed import SupportsWrite

    from podtui.settings import Resolved, Settings

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NO_AGENT: Final = 3

COMMANDS: Final = (
    "agent",
    "status",
    "why",
    "stop",
    "down",
    "check",
    "doctor",
    "config",
    *explain_command.COMMANDS,
    *service_cli.COMMANDS,
    *shell_cli.COMMANDS,
    *talk_cli.COMMANDS,
    *web_cli.COMMANDS,
)
_MEANT: Final = {**{name: name for name in COMMANDS}, "help": "--help", "version": "--version"}
"""Corrections of a word that is not a folder: what the user may have meant."""
_FLAGS: Final = {
    "root_dir": "rootDir",
    "static_pod_path": "staticPodPath",
    "node_name": "nodeName",
    "engine": "engine",
}
_TAKES_VALUE: Final = frozenset(
    {f"--{name.replace('_', '-')}" for name in _FLAGS}
    | {"--config", "--theme"}
    | cluster_cli.TAKES_VALUE
)


def _common_options() -> argparse.ArgumentParser:
    """Return a new parent parser each time: argparse shares a parent's actions, including their
    defaults."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("common options")
    group.add_argument("--root-dir", metavar="DIR", help="where the agent keeps its state")
    group.add_argument("--static-pod-path", metavar="DIR", help="the folder of Pod manifests")
    group.add_argument("--node-name", metavar="NAME", help="the node's name (default: the host's)")
    group.add_argument("--engine", metavar="auto|URL|memory", help="which container engine to use")
    group.add_argument("--config", metavar="FILE", type=Path, help="the settings file")
    return common


def _screen_options() -> argparse.ArgumentParser:
    """Return the options that only the screen has; `_screen_arguments` passes them on."""
    options = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = options.add_argument_group("options of the screen")
    group.add_argument("--theme", metavar="NAME", help="the colours to begin with")
    group.add_argument(
        "--readonly", action="store_const", const="true", help="let the screen change nothing"
    )
    group.add_argument(
        "--create", action="store_true", help="create STATIC_POD_PATH where there is no such folder"
    )
    return options


class _NotForScreen(Exception):
    """Raised for a command line that needs the parser of all commands."""


class _ScreenParser(argparse.ArgumentParser):
    """A parser without subcommands: creating those takes longer than everything else in this
    module."""

    def error(self, message: str) -> NoReturn:
        raise _NotForScreen(message)

    def print_help(self, file: SupportsWrite[str] | None = None) -> NoReturn:
        raise _NotForScreen


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    if not any(word in COMMANDS for word in arguments):
        try:
            return _base_parser(_ScreenParser).parse_args(arguments)
        except _NotForScreen:
            pass
    return build_parser().parse_args(arguments)


def _base_parser(kind: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Return the parser of the screen's command line."""
    parser = kind(
        prog="podtui",
        parents=[_common_options(), _screen_options(), cluster_cli.options()],
        description="A kubelet in your terminal: runs the Pod manifests of a folder on the Docker"
        " engine and shows what becomes of them.",
        epilog="Without a command: open the screen, and start the agent if none runs."
        " 'podtui COMMAND --help' describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"podtui {__version__}")
    nothing = dict.fromkeys((*_FLAGS, *cluster_cli.FLAGS))
    parser.set_defaults(
        run=_screen, command=None, config=None, theme=None, path=None, create=False, **nothing
    )
    return parser


def build_parser() -> argparse.ArgumentParser:
    """Return the complete parser; ``podtui [PATH]`` without a command opens the screen."""
    return _parsers()[0]


def man_page() -> str:
    """Return the manual page, as roff for ``man``."""
    return shell_cli.man_page(*_parsers())


def _parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the complete parser, and the parser of each command."""
    parser = _base_parser(argparse.ArgumentParser)
    commands = parser.add_subparsers(
        title="commands", metavar="[STATIC_POD_PATH | COMMAND]", dest="command"
    )
    cast("Any", commands).completer = shell_cli.folders

    def add(
        name: str, run: Callable[[argparse.Namespace], int], help_: str, *, screen: bool = False
    ) -> Any:
        parents = [_common_options()] + ([_screen_options()] if screen else [])
        if name in cluster_cli.COMMANDS:
            parents.append(cluster_cli.options())
        command = commands.add_parser(name, parents=parents, help=help_, description=help_)
        command.set_defaults(run=run)
        return command

    add("agent", _agent, "run the kubelet in the foreground, without a screen")
    status = add("status", _status, "print the node and its pods once")
    status.add_argument("-o", "--output", choices=("table", "json"), default="table")
    why = add("why", _why, "explain why a pod does not run, and what to change")
    why.add_argument("pod", metavar="POD", nargs="?", help="its name (default: all not well)")
    why.add_argument("-o", "--output", choices=("text", "json"), default="text")
    explain_command.add_to(add)
    add("stop", _stop, "stop the agent; its containers keep running")
    down = add("down", _down, "stop the agent and remove its containers, networks and volumes")
    down.add_argument("--yes", action="store_true", help="do not ask")
    check = add("check", _check, "diagnose manifests without running them")
    check.add_argument(
        "paths", metavar="PATH", nargs="+", type=Path, help="a file, a folder, or - for the input"
    )
    check.add_argument("-o", "--output", choices=("text", "json"), default="text")
    check.add_argument("--fix", action="store_true", help="apply mechanical fixes; asks first")
    check.add_argument("--yes", action="store_true", help="with --fix: do not ask")
    add("doctor", _doctor, "check engine, permissions and versions, and suggest fixes")
    add("config", _config, "print the settings in force and where each comes from")
    service_cli.add_to(add, _resolved)
    talk_cli.add_to(add, _settings)
    web = add("web", _web, "show the screen in a browser on this machine", screen=True)
    web_cli.add_options(web)
    shell_cli.add_to(add, man_page)
    return parser, dict(commands.choices)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    if argv is None and "_ARGCOMPLETE" in os.environ:
        shell_cli.complete(build_parser(), _settings)
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        path = _take_path(arguments)
        words = talk_cli.take_words(arguments, _TAKES_VALUE)
        namespace = _parse(arguments)
        namespace.words = words
        if path is not None:
            namespace.path = path
        if namespace.path is not None:
            namespace.static_pod_path = namespace.path
        namespace.cluster = cluster_cli.is_asked(namespace)
        return namespace.run(namespace)
    except UsageError as error:
        print(lines(f"podtui: {error}"), file=sys.stderr)
        return USAGE
    except AgentUnavailable as error:
        print(lines(f"podtui: {error}"), file=sys.stderr)
        return NO_AGENT
    except PodtuiError as error:
        print(lines(f"podtui: {error}"), file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED
    except KeyboardInterrupt:
        return 130


def _take_path(arguments: list[str]) -> str | None:
    """Remove and return the first word that is neither an option, its value nor a command.

    Raises `UsageError` if the word names nothing that exists and resembles a command.
    """
    index = next(talk_cli.word_indices(arguments, _TAKES_VALUE), None)
    if index is None or (word := arguments[index]) in COMMANDS:
        return None
    if not Path(word).expanduser().exists():
        import difflib

        near = difflib.get_close_matches(word, _MEANT, n=1)
        if near:
            raise UsageError(
                f"{word}: no such command or folder; did you mean 'podtui {_MEANT[near[0]]}'?"
                f" (a new folder: podtui ./{word})"
            )
    return arguments.pop(index)


def _resolved(namespace: argparse.Namespace) -> Resolved:
    from podtui.settings import resolve

    flags = {key: getattr(namespace, flag) for flag, key in _FLAGS.items()}
    flags["theme"] = getattr(namespace, "theme", None)
    flags["readOnly"] = getattr(namespace, "readonly", None)
    return resolve(flags, config=namespace.config)


def _settings(namespace: argparse.Namespace) -> Settings:
    return _resolved(namespace).settings


def _agent_arguments(resolved: Resolved) -> list[str]:
    """Return the arguments that give another process these settings, whatever its working
    directory."""
    settings = resolved.settings
    arguments = [
        f"--root-dir={settings.rootDir}",
        f"--static-pod-path={settings.staticPodPath}",
        f"--node-name={settings.nodeName}",
        f"--engine={settings.engine}",
    ]
    if resolved.path.is_file():
        arguments.append(f"--config={resolved.path.absolute()}")
    return arguments


def _screen_arguments(namespace: argparse.Namespace, resolved: Resolved) -> list[str]:
    """Return the arguments that start this screen in another process."""
    arguments = _agent_arguments(resolved)
    if resolved.origins["staticPodPath"] == "default":
        # If it were passed on, it would look like a folder that the user named.
        arguments.remove(f"--static-pod-path={resolved.settings.staticPodPath}")
    if namespace.theme is not None:
        arguments.append(f"--theme={namespace.theme}")
    if resolved.settings.readOnly:
        arguments.append("--readonly")
    return arguments + cluster_cli.arguments(namespace)


def _ensure_folder(namespace: argparse.Namespace, folder: Path) -> None:
    """Create the folder named on the command line, if the user agrees.

    A folder from a flag or a setting is its owner's responsibility: the agent waits for it.
    """
    if namespace.path is None or folder.exists():
        return
    if not namespace.create:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError(f"{folder}: no such folder; --create creates it")
        if not _agrees(f"{folder} does not exist. Create this folder for Pod manifests?"):
            raise UsageError(f"{folder}: no such folder; nothing was started")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"cannot create {folder}: {error.strerror}") from error


def _no_agent(namespace: argparse.Namespace, settings: Settings) -> AgentUnavailable:
    start = f"{typed_program()}{_root_words(namespace, settings)}"
    return AgentUnavailable(f"no agent runs for {settings.rootDir}; '{start}' starts one")


def _screen(namespace: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the screen needs a terminal; 'podtui status' and 'podtui agent' do not")
    term = os.environ.get("TERM", "")
    if term in ("dumb", "unknown"):
        raise UsageError(
            f"this terminal (TERM={term}) cannot show the screen; 'podtui status' and 'podtui why'"
            " print their answers, 'podtui agent' runs the pods without a screen, and 'podtui web'"
            " shows the screen in a browser"
        )
    if not sys.stderr.isatty():
        # Textual draws on standard error: `podtui 2>errors` would show nothing.
        cast("Any", sys).__stderr__ = sys.__stdout__
    if namespace.cluster:
        return cluster_cli.screen(namespace, lambda: _resolved(namespace))
    # `run_tui` enables garbage collection again after the first frame. Until then almost nothing is
    # garbage, and collecting takes a tenth of the start-up time.
    gc.disable()
    from podtui.agent.lock import is_held

    resolved = _resolved(namespace)
    settings = resolved.settings
    _ensure_folder(namespace, settings.staticPodPath)
    from podtui.agent.control import AgentProcess

    agent = AgentProcess(settings, _agent_arguments(resolved))
    if not is_held(settings.lock_path):
        named = {key for key, origin in resolved.origins.items() if origin == "command line"}
        agent.start(named)
    from podtui.tui.run import run_tui

    status = run_tui(resolved, reread=lambda: _resolved(namespace), agent=agent)
    child = agent.child
    starting = child if child is not None and child.poll() is None else None
    if not _tell_agent(namespace, settings, starting):
        if child is not None and child.poll() not in (None, 0):
            from podtui.agent import control

            print(lines(control.tail(settings.agent_log_path)), file=sys.stderr)
        print("No agent runs.", file=sys.stderr)
    return status


def _root_words(namespace: argparse.Namespace, settings: Settings) -> str:
    """Return the root-dir option as typed after ``podtui``; empty if it is the default."""
    return "" if namespace.root_dir is None else f" --root-dir {shlex.quote(str(settings.rootDir))}"


def _tell_agent(
    namespace: argparse.Namespace, settings: Settings, starting: Popen[bytes] | None = None
) -> bool:
    """Print that the agent keeps running, and how to stop it; return False if none runs.

    ``starting`` is a process that is running but may not hold its lock yet.
    """
    from podtui.agent.lock import read_agent

    record = read_agent(settings.lock_path)
    if record is None and starting is None:
        return False
    podtui = typed_program()
    root = _root_words(namespace, settings)
    if record is not None:
        folder = one_line(str(record.staticPodPath))
        print(f"The agent (process {record.pid}) keeps running the pods of {folder}.")
    elif starting is not None:
        folder = one_line(str(settings.staticPodPath))
        print(f"The agent (process {starting.pid}) is still starting, for {folder}.")
    print(one_line(f"  {podtui}{root}         open the screen again"))
    simulated = (settings.engine if record is None else record.engine) == "memory"
    left = "its simulated pods end with it" if simulated else "leave its containers running"
    print(one_line(f"  {podtui} stop{root}    stop the agent, {left}"))
    print(one_line(f"  {podtui} down{root}    stop the agent and remove its containers"))
    return True


def _web(namespace: argparse.Namespace) -> int:
    resolved = _resolved(namespace)
    settings = resolved.settings
    if not namespace.cluster:
        _ensure_folder(namespace, settings.staticPodPath)
    # Report kubeconfig errors here, not in each tab.
    shown = cluster_cli.find(namespace)[1].context.name if namespace.cluster else settings.nodeName
    web_cli.serve(namespace, settings, _screen_arguments(namespace, resolved), shown)
    if not namespace.cluster:
        _tell_agent(namespace, settings)
    return OK


def _agent(namespace: argparse.Namespace) -> int:
    from podtui.agent.run import run_agent

    return run_agent(_settings(namespace))


def _status(namespace: argparse.Namespace) -> int:
    if namespace.cluster:
        return cluster_cli.status(namespace)
    import json

    from podtui.client.simple import get_json

    settings = _settings(namespace)
    if not settings.socket_path.exists():
        raise _no_agent(namespace, settings)
    if namespace.output == "table":
        from podtui.status_table import TABLE, health_words, render

        for index, path in enumerate(("/api/v1/nodes", "/api/v1/pods?includeObject=Object")):
            table = get_json(settings.socket_path, path, timeout=5.0, accept=TABLE)
            health = health_words(table, time.time()) if index else None
            print(lines(("\n" if index else "") + render(table, health=health)))
        return OK
    items: list[Any] = []
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        items += get_json(settings.socket_path, path, timeout=5.0).get("items") or []
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
    print(json.dumps(document, indent=2))
    return OK


def _why(namespace: argparse.Namespace) -> int:
    if namespace.cluster:
        return cluster_cli.why(namespace)
    settings = _settings(namespace)
    if not settings.socket_path.exists():
        raise _no_agent(namespace, settings)
    from podtui.why_command import why

    text, well = why(settings.socket_path, namespace.pod, namespace.output)
    print(text if namespace.output == "json" else lines(text))
    return OK if well else FAILED


def _stop(namespace: argparse.Namespace) -> int:
    from podtui.agent import control
    from podtui.agent.lock import last_engine, last_settings

    settings = _settings(namespace)
    engine = one_line(last_engine(settings.lock_path) or settings.engine)
    last = last_settings(settings.lock_path)
    if not control.stop(settings):
        raise AgentUnavailable(f"no agent runs for {settings.rootDir}")
    if engine == "memory":
        print("The agent has stopped, and its simulated pods (--engine memory) with it.")
        return OK
    folder = str(settings.staticPodPath) if last is None else last.staticPodPath
    given = namespace.static_pod_path is not None
    named = f" {shlex.quote(folder)}" if given or folder != str(settings.staticPodPath) else ""
    again = one_line(f"{typed_program()}{_root_words(namespace, settings)}{named}")
    print(
        f"The agent has stopped; its containers keep running (--engine {engine})."
        f" '{again}' takes them over again."
    )
    return OK


def _settings_of_last(namespace: argparse.Namespace) -> Settings:
    """Return the settings, with the engine of the root directory's last agent unless a flag names
    one."""
    from msgspec.structs import replace

    from podtui.agent.lock import last_engine

    settings = _settings(namespace)
    last = None if namespace.engine is not None else last_engine(settings.lock_path)
    return settings if last is None else replace(settings, engine=last)


def _agrees(question: str) -> bool:
    """Return whether the user answers yes; end of input counts as no."""
    try:
        return input(f"{one_line(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _down(namespace: argparse.Namespace) -> int:
    settings = _settings_of_last(namespace)
    if not namespace.yes:
        if not sys.stdin.isatty():
            raise UsageError("'podtui down' removes containers and volumes: say --yes")
        if not _agrees(f"Remove every container and volume of {settings.rootDir}?"):
            print("Nothing was changed.")
            return OK
    from podtui.agent import control
    from podtui.agent.run import remove_all

    stopped = control.stop(settings)
    removed = remove_all(settings)
    print(lines(("The agent has stopped. " if stopped else "") + removed))
    return OK


def _check(namespace: argparse.Namespace) -> int:
    from podtui.agent.check import check

    if namespace.fix and [str(path) for path in namespace.paths] == ["-"]:
        from podtui.fix_command import fix_stdin

        good = fix_stdin(_settings(namespace), err=lambda text: print(text, file=sys.stderr))
        return OK if good else FAILED
    missing = [path for path in namespace.paths if str(path) != "-" and not path.exists()]
    if missing:
        raise UsageError(f"{missing[0]}: no such file or folder")
    settled = not namespace.fix or _fix(namespace)
    text, errors = check(
        namespace.paths,
        _settings(namespace),
        output=namespace.output,
        color=sys.stdout.isatty(),
    )
    print(json_text(text) if namespace.output == "json" else text)
    return FAILED if errors or not settled else OK


def _fix(namespace: argparse.Namespace) -> bool:
    """Fix files before they are checked; return whether nothing remains to be written."""
    from podtui.fix_command import fix

    stream = sys.stderr if namespace.output == "json" else sys.stdout
    return fix(
        namespace.paths,
        _settings(namespace),
        yes=namespace.yes,
        color=stream.isatty(),
        agrees=_agrees,
        out=lambda text: print(text, file=stream),
    )


def _doctor(namespace: argparse.Namespace) -> int:
    from podtui.agent.doctor import examine

    text, healthy = examine(_settings(namespace))
    print(lines(text))
    return OK if healthy else FAILED


def _config(namespace: argparse.Namespace) -> int:
    import json

    from podtui.settings import PARSERS

    resolved = _resolved(namespace)
    width = max(len(key) for key in PARSERS)
    for key in PARSERS:
        value = getattr(resolved.settings, key)
        shown = json.dumps(value, default=str)
        print(one_line(f"{key:<{width}}  {shown}  # {resolved.origins[key]}"))
    for line in resolved.ignored:
        print(one_line(f"# no effect here: {line}"))
    found = resolved.settings
    if found.keys or found.commands or found.hotkeys:
        # Import the screen's library only if there are keys or commands to check.
        from podtui.tui.looks.preferences import preferences_of
        from podtui.tui.looks.preferred import problems_of

        for line in problems_of(preferences_of(resolved)):
            print(one_line(f"# not in force: {line}"))
    return OK
