"""The parsers of the command line: commands, options and arguments.

Each command names its function as ``module:function`` of this package. The module is imported when
the command runs: ``--help`` and ``status`` load neither the screen nor the engine's library.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from podtui import __version__
from podtui.errors import UsageError
from podtui.settings import SETTINGS

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS: Final = (
    "agent",
    "status",
    "why",
    "stop",
    "down",
    "check",
    "doctor",
    "config",
    "explain",
    "kubeconfig",
    "service",
    "completion",
    "man",
    "exec",
    "attach",
    "port-forward",
    "cp",
    "web",
)
CLUSTER_COMMANDS: Final = frozenset(
    {None, "web", "status", "why", "exec", "attach", "port-forward", "cp"}
)
"""The commands that support clusters; None is the screen."""
SHELLS: Final = ("bash", "zsh", "fish")
WEB_PORT: Final = 7638
"""The letters PODT on a telephone keypad."""
FLAGS: Final = {key: setting.flag for key, setting in SETTINGS.items() if setting.flag is not None}
_CLUSTER_NAMES: Final = ("context", "kubeconfig", "namespace", "all_namespaces")
_KUBECTL: Final = frozenset(
    (
        "apply",
        "create",
        "delete",
        "describe",
        "edit",
        "events",
        "get",
        "label",
        "logs",
        "run",
        "top",
    )
)
"""Commands of kubectl that users may try here."""
_TAKES_VALUE: Final = frozenset(
    {flag.name for flag in FLAGS.values() if flag.metavar}
    | {"--config", "--context", "--kubeconfig", "-n", "--namespace"}
)
_EXEC_TAKES_VALUE: Final = _TAKES_VALUE | {"-c", "--container"}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. Ends the process with a message if it is not valid."""
    if not any(word in COMMANDS for word in arguments):
        try:
            return _base_parser(_ScreenParser).parse_args(arguments)
        except _NotForScreen:
            pass
    return build_parser().parse_args(arguments)


class _NotForScreen(Exception):
    """Raised for a command line that needs the parser of all commands."""


class _ScreenParser(argparse.ArgumentParser):
    """A parser without subcommands: creating those takes longer than everything else in this
    module."""

    def error(self, message: str) -> NoReturn:
        raise _NotForScreen(message)

    def print_help(self, file: SupportsWrite[str] | None = None) -> NoReturn:
        raise _NotForScreen


def build_parser() -> argparse.ArgumentParser:
    """Return the complete parser; ``podtui [PATH]`` without a command opens the screen."""
    return build_parsers()[0]


@functools.cache
def build_parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the complete parser, and the parser of each command."""
    parser = _base_parser(argparse.ArgumentParser)
    commands = parser.add_subparsers(
        title="commands", metavar="[STATIC_POD_PATH | COMMAND]", dest="command"
    )
    cast("Any", commands).completer = complete_folders

    def add(name: str, run: str, help_: str, *, screen: bool = False) -> Any:
        parents = [_common_options()] + ([_screen_options()] if screen else [])
        if name in CLUSTER_COMMANDS:
            parents.append(_cluster_options())
        command = commands.add_parser(name, parents=parents, help=help_, description=help_)
        command.set_defaults(run=run)
        return command

    add("agent", "agent:run", "run the kubelet in the foreground, without a screen")
    status = add(
        "status",
        "status:run",
        "print the node, its pods, workloads that are not as desired, and the files that are not"
        " used; exit 1 if there are such files",
    )
    status.add_argument("-o", "--output", choices=("table", "json"), default="table")
    why = add("why", "why:run", "explain why a pod or another object is not as desired")
    why.usage = (
        "podtui why [-n NAMESPACE] [POD | KIND/NAME | KIND NAME]\n"
        "       podtui why [-n NAMESPACE] POD --reach HOST[:PORT]"
    )
    why.add_argument(
        "pod",
        metavar="POD | KIND/NAME",
        nargs="?",
        help="a pod, or an object such as deploy/web, job/backup, pvc/data, svc/web"
        " (default: all that is not as desired)",
    )
    why.add_argument("name", metavar="NAME", nargs="?", help="the name, after a kind")
    why.add_argument(
        "--label-node",
        action="store_true",
        help="label this node, so that the pod fits its selector and affinity",
    )
    why.add_argument(
        "--reach",
        metavar="HOST[:PORT]",
        help="look up a host from inside the pod, and connect to the port",
    )
    why.add_argument("-o", "--output", choices=("text", "json"), default="text")
    _explain(
        add("explain", "explain:run", "describe a field of a manifest, and its support in podtui")
    )
    add("stop", "agent:stop", "stop the agent; its containers keep running")
    down = add(
        "down", "agent:down", "stop the agent and remove its containers, networks and volumes"
    )
    down.add_argument("--yes", action="store_true", help="do not ask")
    _check(add("check", "check:run", "diagnose manifests without running them"))
    add("doctor", "doctor:run", "check engine, permissions and versions, and suggest fixes")
    add("config", "config:run", "print the effective settings and their sources")
    kubeconfig = add(
        "kubeconfig", "kubeconfig:run", "write a kubeconfig for kubectl, and print its path"
    )
    kubeconfig.epilog = "export KUBECONFIG=$(podtui kubeconfig)"
    _service(
        add("service", "service:run", "run the agent with systemd, with the effective settings")
    )
    _exec(add("exec", "sessions:run_exec", "run a command in a container"))
    attach = add("attach", "sessions:run_attach", "attach to a container's process")
    _pod(attach)
    _streams(attach)
    forward = add("port-forward", "sessions:run_forward", "forward local ports to a pod")
    _pod(forward, container=False)
    forward.add_argument("ports", metavar="[LOCAL:]REMOTE", nargs="+")
    copy = add("cp", "sessions:run_copy", "copy files from or to a container")
    _pod(copy, named=False)
    copy.add_argument("source", metavar="SOURCE", help="local PATH, or [NAMESPACE/]POD:PATH")
    copy.add_argument("target", metavar="TARGET", help="the destination, in the other form")
    _web(add("web", "web:run", "show the screen in a browser on this machine", screen=True))
    completion = add("completion", "completion:run", "print the completion script of a shell")
    completion.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    completion.epilog = (
        "bash: source <(podtui completion bash). zsh: source <(podtui completion zsh), after"
        " compinit. fish: podtui completion fish | source. Put the line into the shell's own"
        " start-up file to keep it."
    )
    add("man", "man:run", "print the manual page: podtui man | man -l -")
    return parser, dict(commands.choices)


def _base_parser(kind: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Return the parser of the screen's command line."""
    parser = kind(
        prog="podtui",
        parents=[_common_options(), _screen_options(), _cluster_options()],
        description="A kubelet in your terminal: runs the Pod manifests of a folder on the Docker"
        " engine and shows their state.",
        epilog="Without a command: open the screen, and start the agent if none runs."
        " 'podtui COMMAND --help' describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"podtui {__version__}")
    nothing = dict.fromkeys((*FLAGS, *_CLUSTER_NAMES))
    parser.set_defaults(
        run="screen:run", command=None, config=None, path=None, create=False, **nothing
    )
    return parser


# --- options of several commands


def _common_options() -> argparse.ArgumentParser:
    """Return a new parent parser each time: argparse shares a parent's actions, including their
    defaults."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("common options")
    _add_flags(group, screen=False)
    group.add_argument("--config", metavar="FILE", type=Path, help="the settings file")
    return common


def _screen_options() -> argparse.ArgumentParser:
    """Return the options that only the screen has; `screen_arguments` passes them on."""
    options = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = options.add_argument_group("options of the screen")
    _add_flags(group, screen=True)
    group.add_argument(
        "--create", action="store_true", help="create STATIC_POD_PATH if it does not exist"
    )
    return options


def _add_flags(group: Any, *, screen: bool) -> None:
    """Add the flags of the settings that the screen alone reads, or of the others. Values stay
    texts: `podtui.settings.resolve` parses them."""
    for key, flag in FLAGS.items():
        if SETTINGS[key].screen is not screen:
            continue
        if flag.metavar:
            group.add_argument(flag.name, dest=key, metavar=flag.metavar, help=flag.help)
        else:
            group.add_argument(
                flag.name, dest=key, action="store_const", const="true", help=flag.help
            )


def _cluster_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = parser.add_argument_group("options for a cluster, instead of this machine's agent")
    group.add_argument("--context", metavar="NAME", help="the context of the kubeconfig to use")
    group.add_argument(
        "--kubeconfig", metavar="FILE", type=Path,
        help="the kubeconfig (default: $KUBECONFIG, else ~/.kube/config)",
    )  # fmt: skip
    group.add_argument("-n", "--namespace", metavar="NAME", help="show only this namespace")
    group.add_argument("-A", "--all-namespaces", action="store_true", help="show all namespaces")
    return parser


def wants_cluster(namespace: argparse.Namespace) -> bool:
    """Return whether a cluster is selected. Raises `UsageError` for invalid combinations."""
    requested = namespace.context is not None or namespace.kubeconfig is not None
    if requested and namespace.command not in CLUSTER_COMMANDS:
        raise UsageError(f"'podtui {namespace.command}' does not support clusters")
    if requested and namespace.all_namespaces and namespace.namespace:
        raise UsageError("--namespace and --all-namespaces are mutually exclusive")
    if not requested and namespace.command in (None, "web", "status", "why"):
        # Objects of the agent have namespaces, too.
        flags = ("namespace", "all_namespaces")
        for flag in flags[1:] if namespace.command == "why" else flags:
            if getattr(namespace, flag):
                raise UsageError(
                    f"--{flag.replace('_', '-')} is for clusters: add --context or --kubeconfig"
                )
    return requested


# --- arguments of single commands


def _explain(explain: Any) -> None:
    explain.add_argument(
        "field",
        metavar="FIELD",
        nargs="?",
        default="",
        help="such as pod.spec.containers.image, deployment.spec.strategy, or only the name of a"
        " pod's field (default: pod)",
    )
    explain.add_argument("--recursive", action="store_true", help="all fields below it, by name")
    explain.add_argument("-o", "--output", choices=("text", "json"), default="text")


def _check(check: Any) -> None:
    check.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="a file, a folder, or - for standard input",
    )
    check.add_argument("-o", "--output", choices=("text", "json"), default="text")
    check.add_argument("--fix", action="store_true", help="apply mechanical fixes; asks first")
    check.add_argument("--yes", action="store_true", help="with --fix: do not ask")


def _service(service: Any) -> None:
    service.add_argument(
        "action",
        choices=("print", "install", "remove"),
        help="print, install or remove the systemd unit",
    )
    whose = service.add_mutually_exclusive_group()
    whose.add_argument(
        "--system", dest="system", action="store_const", const=True, default=None,
        help="a system unit (default for root)",
    )  # fmt: skip
    whose.add_argument(
        "--user", dest="system", action="store_const", const=False,
        help="a user unit (default for other users)",
    )  # fmt: skip
    service.add_argument(
        "--force", action="store_true", help="replace or remove a unit of another agent"
    )


def _exec(run: Any) -> None:
    run.usage = "podtui exec [-i] [-t] [-c CONTAINER] [-n NAMESPACE] POD [--] COMMAND …"
    _pod(run)
    # `take_exec_command` extracts them: argparse would parse the command's options as podtui's.
    run.add_argument(
        "exec_command", metavar="COMMAND", nargs="*", help="the command and its arguments"
    )
    _streams(run)


def _pod(parser: Any, *, named: bool = True, container: bool = True) -> None:
    if named:
        parser.add_argument("pod", metavar="POD")
    if container:
        parser.add_argument(
            "-c", "--container", default="", help="the container (default: as in kubectl)"
        )


def _streams(parser: Any) -> None:
    parser.add_argument("-i", "--stdin", action="store_true", help="pass standard input to it")
    parser.add_argument("-t", "--tty", action="store_true", help="allocate a terminal for it")


def _web(web: Any) -> None:
    web.description = (
        "Show the screen in a browser on this machine. Prints a link with a token; each tab runs"
        " a separate podtui, which ends with the tab."
    )
    web.add_argument("path", metavar="STATIC_POD_PATH", nargs="?", help="the folder of manifests")
    web.add_argument(
        "--port", metavar="PORT", type=_port, default=WEB_PORT,
        help=f"port to listen on; 0 for any free port (default: {WEB_PORT})",
    )  # fmt: skip
    web.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address to listen on: 127.0.0.1 or ::1",
    )
    web.add_argument("--open", action="store_true", help="open a browser as well")


def _port(text: str) -> int:
    if text.isdecimal() and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port")


def complete_folders(prefix: str, **_: object) -> Iterable[str]:
    """Complete a folder in the position of a command."""
    from argcomplete.completers import DirectoriesCompleter

    return DirectoriesCompleter()(prefix)


# --- words that argparse does not see


def take_path(arguments: list[str]) -> str | None:
    """Remove and return the first word that is neither an option, its value nor a command.

    Raises `UsageError` if the word names nothing that exists, and resembles a command or is
    followed by another word.
    """
    indices = list(_word_indices(arguments, _TAKES_VALUE))
    if not indices or (word := arguments[indices[0]]) in COMMANDS:
        return None
    if not Path(word).expanduser().exists():
        if word in _KUBECTL:
            raise UsageError(
                f"podtui has no command '{word}': use the screen, or 'kubectl {word}' after"
                " 'export KUBECONFIG=$(podtui kubeconfig)'"
                f" (a new folder: podtui ./{word})"
            )
        import difflib

        similar = {**{name: name for name in COMMANDS}, "help": "--help", "version": "--version"}
        near = difflib.get_close_matches(word, similar, n=1)
        if near:
            raise UsageError(
                f"{word}: no such command or folder; did you mean 'podtui {similar[near[0]]}'?"
                f" (a new folder: podtui ./{word})"
            )
        if len(indices) > 1 and arguments[indices[1]] not in COMMANDS:
            raise UsageError(
                f"{word}: no such command or folder; 'podtui --help' lists the commands"
            )
    return arguments.pop(indices[0])


def take_exec_command(arguments: list[str]) -> list[str]:
    """Remove and return the command of ``exec``.

    It starts after the first ``--``, or at the first word after the pod's name: options after that
    word belong to the command.
    """
    indices = list(_word_indices(arguments, _EXEC_TAKES_VALUE))
    if not indices or arguments[indices[0]] != "exec":
        return []
    start = indices[2] if len(indices) > 2 else len(arguments)
    if "--" in arguments[:start]:
        start = arguments.index("--")
        command = arguments[start + 1 :]
    else:
        command = arguments[start:]
    del arguments[start:]
    return command


def _word_indices(arguments: Sequence[str], takes_value: Collection[str]) -> Iterator[int]:
    """Yield the index of each argument that is neither an option nor an option's value."""
    is_value = False
    for index, word in enumerate(arguments):
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = _wants_value(word, takes_value)
        else:
            yield index


def _wants_value(option: str, takes_value: Collection[str]) -> bool:
    """Return whether the next argument is the option's value; ``-itc`` ends with an option that
    takes one."""
    if option.startswith("--"):
        return option in takes_value
    first = next((n for n, letter in enumerate(option) if f"-{letter}" in takes_value), None)
    return first == len(option) - 1
