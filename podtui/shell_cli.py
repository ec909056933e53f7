"""Shell completion and the manual page, both derived from the command-line parser."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from podtui import __version__, cluster_cli
from podtui.errors import PodtuiError
from podtui.resources import program, shipped
from podtui.terminal_text import lines

if TYPE_CHECKING:
    from podtui.api.v1 import Pod
    from podtui.settings import Settings

COMMANDS: Final = ("completion", "man")
SHELLS: Final = ("bash", "zsh", "fish")
CLUSTER_SECONDS: Final = 3.0
"""How long completion waits for the pods of a cluster."""
AGENT_SECONDS: Final = 1.0
_PAGE_WIDTH: Final = 72
_ENGINES: Final = ("auto", "memory")
_EXIT_STATUS: Final = """\
0 success; 1 failure, a finding of check, a pod that is not well; 2 wrong usage or setting; 3 no
agent runs. exec ends with the exit status of its command."""

GetSettings = Callable[[argparse.Namespace], "Settings"]


def add_to(add: Callable[..., Any], page: Callable[[], str]) -> None:
    """Register the commands: ``add`` makes a command's parser, ``page`` returns the manual page."""
    completion = add("completion", _completion, "print the completion script of a shell")
    completion.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    completion.epilog = (
        "bash: source <(podtui completion bash). zsh: source <(podtui completion zsh), after"
        " compinit. fish: podtui completion fish | source. Put the line into the shell's own"
        " start-up file to keep it."
    )

    def man(_: argparse.Namespace) -> int:
        print(page(), end="")
        return 0

    add("man", man, "print the manual page: podtui man | man -l -")


def _completion(namespace: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    # bash and zsh run the program as typed, fish by its name.
    script = None if shutil.which("podtui") or namespace.shell != "fish" else program()[0]
    print(shellcode(["podtui"], shell=namespace.shell, argcomplete_script=script))
    return 0


# --- completion


def complete(parser: argparse.ArgumentParser, settings: GetSettings) -> None:
    """Answer a completion request from the environment, and exit the process."""
    import argcomplete

    argcomplete.autocomplete(
        parser,
        always_complete_options=False,
        # Called for each argument without choices.
        default_completer=partial(_candidates, settings),  # pyright: ignore[reportArgumentType]
    )


def folders(prefix: str, **_: object) -> Iterable[str]:
    """Complete a folder in the position of a command."""
    from argcomplete.completers import DirectoriesCompleter

    return DirectoriesCompleter()(prefix)


def _candidates(
    settings: GetSettings,
    *,
    prefix: str,
    action: argparse.Action,
    parsed_args: argparse.Namespace,
    **_: object,
) -> Iterable[str]:
    try:
        match action.dest:
            case "pod":
                return [pod.metadata.name for pod in _pods(parsed_args, settings)]
            case "container":
                return _containers(_pods(parsed_args, settings), parsed_args)
            case "ports":
                return _ports(_pods(parsed_args, settings), parsed_args)
            case "source" | "target":
                names = [f"{pod.metadata.name}:" for pod in _pods(parsed_args, settings)]
                return [*names, *_files(prefix)]
            case "namespace":
                parsed_args.namespace = None
                parsed_args.all_namespaces = True
                return sorted({pod.metadata.namespace for pod in _pods(parsed_args, settings)})
            case "context":
                return cluster_cli.contexts(parsed_args)
            case "field":
                from podtui.explain.places import field_paths

                return field_paths()
            case "theme":
                return sorted(path.stem for path in shipped("themes").glob("*.yaml"))
            case "engine":
                return _ENGINES
            case "rootDir" | "staticPodPath" | "path":
                return folders(prefix)
            case "config" | "kubeconfig" | "paths":
                return _files(prefix)
            case _:
                return ()
    except PodtuiError:
        # Without an agent, a cluster or valid settings there are no candidates.
        return ()


def _files(prefix: str) -> Iterable[str]:
    from argcomplete.completers import FilesCompleter

    return FilesCompleter()(prefix)


def _containers(pods: Iterable[Pod], namespace: argparse.Namespace) -> Iterable[str]:
    from podtui.api.pods import all_containers

    return sorted({one.name for pod in _of(pods, namespace) for _, one in all_containers(pod)})


def _ports(pods: Iterable[Pod], namespace: argparse.Namespace) -> Iterable[str]:
    return sorted(
        {
            str(port.containerPort)
            for pod in _of(pods, namespace)
            for one in pod.spec.containers
            for port in one.ports
        }
    )


def _of(pods: Iterable[Pod], namespace: argparse.Namespace) -> Iterable[Pod]:
    """Return the pod named on the command line, with or without its node name; all if none is
    named."""
    wanted: str | None = getattr(namespace, "pod", None)
    if not wanted:
        return pods
    return [
        pod
        for pod in pods
        if wanted in (pod.metadata.name, pod.metadata.name.removesuffix(f"-{pod.spec.nodeName}"))
    ]


def _pods(namespace: argparse.Namespace, settings: GetSettings) -> Iterable[Pod]:
    """Return the pods that can be named on the command line. Raises `PodtuiError`."""
    from podtui.api.v1 import PodList
    from podtui.client.answers import understood
    from podtui.client.simple import get_bytes

    if namespace.context is None and namespace.kubeconfig is None:
        path = _pods_path(namespace, namespace.namespace)
        body = get_bytes(settings(namespace).socket_path, path, AGENT_SECONDS)
    else:
        _, target = cluster_cli.find(namespace)
        path = _pods_path(namespace, namespace.namespace or target.namespace)
        body = cluster_cli.ask_once(target, path, CLUSTER_SECONDS)
    return understood(path, body, PodList).items


def _pods_path(namespace: argparse.Namespace, name: str | None) -> str:
    if namespace.all_namespaces or not name:
        return "/api/v1/pods"
    return f"/api/v1/namespaces/{quote(name, safe='')}/pods"


# --- the manual page


def man_page(
    parser: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser]
) -> str:
    """Return the manual page, as roff for ``man``."""
    usage, (description, *groups) = _help(parser)
    parts = [
        f'.TH PODTUI 1 "" "podtui {__version__}" "podtui"',
        ".SH NAME",
        "podtui \\- a kubelet in your terminal",
        ".SH SYNOPSIS",
        *_verbatim(usage),
        ".SH DESCRIPTION",
        _roff(description),
        ".SH OPTIONS",
        *_verbatim("\n\n".join(groups)),
        ".SH EXIT STATUS",
        _roff(_EXIT_STATUS),
        ".SH COMMANDS",
    ]
    shared = {_title(group) for group in groups} - {"options:"}
    for name, command in commands.items():
        usage, (description, *groups) = _help(command)
        own = "\n\n".join(group for group in groups if _title(group) not in shared)
        parts += [f".SS podtui {_roff(name)}", _roff(description), ".PP"]
        parts += _verbatim(f"{usage}\n\n{own}")
    return "\n".join(parts) + "\n"


def _help(parser: argparse.ArgumentParser) -> tuple[str, list[str]]:
    """Return the usage and the paragraphs of the help: the description, then the argument
    groups."""
    parser.formatter_class = partial(argparse.HelpFormatter, width=_PAGE_WIDTH)
    # Newer versions of Python colour the help on a terminal.
    usage, *paragraphs = lines(parser.format_help()).strip().split("\n\n")
    indent = len("usage: ")
    return "\n".join(line[indent:] for line in usage.splitlines()), paragraphs


def _title(group: str) -> str:
    return group.partition("\n")[0]


def _verbatim(text: str) -> list[str]:
    return [".nf", *(_roff(line) for line in text.splitlines()), ".fi"]


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
