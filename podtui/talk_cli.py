"""The command line of exec, attach, port-forward and cp; the implementation is in `podtui.talk`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from podtui import cluster_cli
from podtui.errors import AgentUnavailable, UsageError
from podtui.resources import typed_program
from podtui.terminal_text import lines, one_line

if TYPE_CHECKING:
    from podtui.client.common import ApiClient
    from podtui.settings import Settings

COMMANDS: Final = ("exec", "attach", "port-forward", "cp")
_TAKES_VALUE: Final = frozenset({"-c", "--container"})
Add = Callable[[str, Callable[[argparse.Namespace], int], str], Any]
Make = Callable[[], "ApiClient"]


def add_to(add: Add, settings: Callable[[argparse.Namespace], Settings]) -> None:
    """Register the commands: ``add`` makes a parser from a command's name, its function and its
    help."""

    def agent(namespace: argparse.Namespace) -> Make:
        if namespace.cluster:
            _, target = cluster_cli.find(namespace)
            namespace.namespace = namespace.namespace or target.namespace
            return lambda: cluster_cli.client(target, "")
        found = settings(namespace)
        if not found.socket_path.exists():
            raise AgentUnavailable(
                f"no agent runs for {found.rootDir}; '{typed_program()}' starts one"
            )
        namespace.namespace = namespace.namespace or "default"
        return lambda: _unix(found.socket_path)

    run = add("exec", lambda it: _exec(it, agent(it)), "run a command in a container")
    run.usage = "podtui exec [-i] [-t] [-c CONTAINER] [-n NAMESPACE] POD [--] COMMAND …"
    _pod(run)
    # `take_words` extracts them: argparse would parse the command's options as podtui's.
    run.add_argument("words", metavar="COMMAND", nargs="*", help="the command and its arguments")
    _streams(run)
    attach = add("attach", lambda it: _attach(it, agent(it)), "talk with a container's process")
    _pod(attach)
    _streams(attach)
    forward = add(
        "port-forward", lambda it: _forward(it, agent(it)), "open a port here that leads to a pod's"
    )
    _pod(forward, container=False)
    forward.add_argument("ports", metavar="[LOCAL:]REMOTE", nargs="+")
    copy = add("cp", lambda it: _copy(it, agent(it)), "copy files out of or into a container")
    _pod(copy, named=False)
    copy.add_argument("source", metavar="SOURCE", help="PATH here, or [NAMESPACE/]POD:PATH")
    copy.add_argument("target", metavar="TARGET", help="the other one of the two")


def word_indices(arguments: Sequence[str], takes_value: Collection[str]) -> Iterator[int]:
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


def take_words(arguments: list[str], takes_value: Collection[str]) -> list[str]:
    """Remove and return the command of ``exec``.

    It starts after the first ``--``, or at the first word after the pod's name: options after that
    word belong to the command.
    """
    indices = list(word_indices(arguments, {*takes_value, *_TAKES_VALUE}))
    if not indices or arguments[indices[0]] != "exec":
        return []
    start = indices[2] if len(indices) > 2 else len(arguments)
    if "--" in arguments[:start]:
        start = arguments.index("--")
        found = arguments[start + 1 :]
    else:
        found = arguments[start:]
    del arguments[start:]
    return found


def _pod(parser: argparse.ArgumentParser, *, named: bool = True, container: bool = True) -> None:
    if named:
        parser.add_argument("pod", metavar="POD")
    if container:
        parser.add_argument("-c", "--container", default="", help="needed where there are several")


def _streams(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--stdin", action="store_true", help="give it this input")
    parser.add_argument("-t", "--tty", action="store_true", help="give it a terminal")


def _unix(socket: Path) -> ApiClient:
    from podtui.client.unix import UnixClient

    return UnixClient(socket)


def _exec(namespace: argparse.Namespace, make: Make) -> int:
    from podtui import talk
    from podtui.client.talking import ExecQuery

    if not namespace.words:
        raise UsageError("a command is missing: podtui exec POD -- COMMAND …")
    query = ExecQuery(
        container=namespace.container,
        command=tuple(namespace.words),
        stdin=namespace.stdin,
        tty=namespace.tty and sys.stdin.isatty(),
    )
    return talk.run(
        make, lambda client: talk.execute(client, namespace.namespace, namespace.pod, query)
    )


def _attach(namespace: argparse.Namespace, make: Make) -> int:
    from podtui import talk
    from podtui.client.talking import AttachQuery

    query = AttachQuery(
        container=namespace.container,
        stdin=namespace.stdin,
        tty=namespace.tty and sys.stdin.isatty(),
    )
    return talk.run(
        make, lambda client: talk.attach(client, namespace.namespace, namespace.pod, query)
    )


def _forward(namespace: argparse.Namespace, make: Make) -> int:
    from podtui import talk

    ports = talk.parse_ports(namespace.ports)

    def say(line: str) -> None:
        print(one_line(line), flush=True)

    talk.run(
        make,
        lambda client: talk.forward(client, namespace.namespace, namespace.pod, ports, say),
    )
    return 0


def _copy(namespace: argparse.Namespace, make: Make) -> int:
    from podtui import talk

    source = talk.parse_place(namespace.source, namespace.namespace)
    target = talk.parse_place(namespace.target, namespace.namespace)
    said = talk.run(make, lambda client: talk.copy(client, namespace.container, source, target))
    print(lines(said))
    return 0
