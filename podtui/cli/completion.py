"""``podtui completion``: the scripts of the shells, and the candidates that they request."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from podtui.cli.invocation import settings_of
from podtui.cli.parser import build_parser, complete_folders
from podtui.errors import PodtuiError
from podtui.resources import program, shipped

if TYPE_CHECKING:
    from podtui.api.v1 import Pod

CLUSTER_SECONDS: Final = 3.0
"""Seconds that completion waits for the pods of a cluster."""
AGENT_SECONDS: Final = 1.0
_ENGINES: Final = ("auto", "memory")


def run(namespace: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    from argcomplete.shell_integration import shellcode

    # bash and zsh run the program as typed, fish by its name.
    script = None if shutil.which("podtui") or namespace.shell != "fish" else program()[0]
    print(shellcode(["podtui"], shell=namespace.shell, argcomplete_script=script))
    return 0


def complete() -> None:
    """Answer a completion request from the environment, and exit the process."""
    import argcomplete

    argcomplete.autocomplete(
        build_parser(),
        always_complete_options=False,
        # Called for each argument without choices.
        default_completer=_candidates,  # pyright: ignore[reportArgumentType]
    )


def _candidates(
    *,
    prefix: str,
    action: argparse.Action,
    parsed_args: argparse.Namespace,
    **_: object,
) -> Iterable[str]:
    try:
        match action.dest:
            case "pod" if parsed_args.command == "why":
                return [*(pod.metadata.name for pod in _pods(parsed_args)),
                        *_nouns(parsed_args, prefix)]  # fmt: skip
            case "name":
                return _named(parsed_args, parsed_args.pod or "")
            case "pod":
                return [pod.metadata.name for pod in _pods(parsed_args)]
            case "container":
                return _containers(_pods(parsed_args), parsed_args)
            case "ports":
                return _ports(_pods(parsed_args), parsed_args)
            case "source" | "target":
                names = [f"{pod.metadata.name}:" for pod in _pods(parsed_args)]
                return [*names, *_files(prefix)]
            case "namespace":
                parsed_args.namespace = None
                parsed_args.all_namespaces = True
                return sorted({pod.metadata.namespace for pod in _pods(parsed_args)})
            case "context":
                from podtui.cli import cluster

                return cluster.contexts(parsed_args)
            case "field":
                from podtui.explain.places import field_paths, paths_of_kinds

                return [*field_paths(), *paths_of_kinds(prefix)]
            case "theme":
                return sorted(path.stem for path in shipped("themes").glob("*.yaml"))
            case "engine":
                return _ENGINES
            case "rootDir" | "staticPodPath" | "path":
                return complete_folders(prefix)
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

    return sorted(
        {
            container.name
            for pod in _selected_pods(pods, namespace)
            for _, container in all_containers(pod)
        }
    )


def _ports(pods: Iterable[Pod], namespace: argparse.Namespace) -> Iterable[str]:
    return sorted(
        {
            str(port.containerPort)
            for pod in _selected_pods(pods, namespace)
            for container in pod.spec.containers
            for port in container.ports
        }
    )


def _selected_pods(pods: Iterable[Pod], namespace: argparse.Namespace) -> Iterable[Pod]:
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


def _nouns(namespace: argparse.Namespace, prefix: str) -> Iterable[str]:
    """Return the kinds that ``podtui why`` explains; after a kind and a slash, its objects."""
    from podtui.why.inventory import NOUNS

    kind, slash, _ = prefix.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _named(namespace, kind)]
    return [f"{noun.shown}/" for noun in NOUNS]


def _named(namespace: argparse.Namespace, kind: str) -> Iterable[str]:
    """Return the names of the objects of a kind. Raises `PodtuiError`."""
    from podtui.client.decoding import decode_response, kind_of
    from podtui.why.inventory import find_noun

    noun = find_noun(kind)
    if noun is None:
        return ()
    path, body = _answer(namespace, kind_of(noun.struct).collection)
    document = decode_response(path, body, dict[str, Any])
    return [str(item["metadata"]["name"]) for item in document.get("items") or ()]


def _pods(namespace: argparse.Namespace) -> Iterable[Pod]:
    """Return the pods that can be named on the command line. Raises `PodtuiError`."""
    from podtui.api.v1 import PodList
    from podtui.client.decoding import decode_response

    path, body = _answer(namespace, _pods_path)
    return decode_response(path, body, PodList).items


def _answer(namespace: argparse.Namespace, path_in: Callable[[str], str]) -> tuple[str, bytes]:
    """Request the path for the selected namespace, which is empty for all. Return the path and the
    answer. Raises `PodtuiError`."""
    from podtui.client.blocking import get_bytes

    where = "" if namespace.all_namespaces else namespace.namespace
    if namespace.context is None and namespace.kubeconfig is None:
        path = path_in(where or "")
        return path, get_bytes(settings_of(namespace).socket_path, path, AGENT_SECONDS)
    from podtui.cli import cluster

    _, target = cluster.find(namespace)
    path = path_in("" if namespace.all_namespaces else where or target.namespace)
    return path, cluster.request_once(target, path, CLUSTER_SECONDS)


def _pods_path(name: str) -> str:
    return f"/api/v1/namespaces/{quote(name, safe='')}/pods" if name else "/api/v1/pods"
