"""``podtui status``: the node, its pods, workloads that are not as desired, and files, with the
reason why one cannot be used or what becomes of its documents, as tables or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from podtui.api.health import pod_health
from podtui.api.lenient import lenient_convert
from podtui.api.local import UNUSABLE, ManifestState
from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import Pod
from podtui.cli.invocation import FAILED, OK, socket_of
from podtui.cli.why import unwell_objects
from podtui.client.blocking import get_bytes, get_json
from podtui.client.decoding import decode_response, decode_with
from podtui.errors import ApiError
from podtui.text.terminal_text import cells, lines, one_line
from podtui.why.report import Report

HEALTH: Final = "HEALTH"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""The Accept header that requests a table from the API."""
_JSON: Final = "application/json"


def run(namespace: argparse.Namespace) -> int:
    """Print nodes, pods, workloads that are not as desired, and files. Return 1 if a file cannot
    be used, or if the agent is not healthy; the state of pods and workloads does not count.
    Raises `ApiError` and `podtui.errors.AgentUnavailable`."""
    if namespace.cluster:
        return _print_cluster(namespace)
    socket = socket_of(namespace)
    manifests = get_json(socket, f"/apis/{GROUP_VERSION}/manifests", timeout=5.0)
    files = unusable_files(manifests)
    if namespace.output == "table":
        for index, path in enumerate(("/api/v1/nodes", "/api/v1/pods?includeObject=Object")):
            table = get_json(socket, path, timeout=5.0, accept=TABLE)
            health = health_words(table, time.time()) if index else None
            print(lines(("\n" if index else "") + render(table, health=health)))
        reports = unwell_objects(lambda path: get_json(socket, path, timeout=5.0))
        if reports:
            print(lines("\n" + render(workloads_table(reports))))
        if listed := [*files, *summarized_files(manifests)]:
            print(lines("\n" + render(files_table(listed))))
    else:
        items: list[Any] = []
        for path in ("/api/v1/nodes", "/api/v1/pods"):
            items += with_kinds(get_json(socket, path, timeout=5.0))
        _print_list([*items, *files])
    healthy = _print_health(socket)
    return OK if healthy and not files else FAILED


def _print_health(socket: Path) -> bool:
    """Return whether the agent is healthy; print its failed health checks to standard error."""
    try:
        get_bytes(socket, "/readyz", timeout=5.0)
    except ApiError as error:
        failed = [line for line in str(error).splitlines() if line.startswith("[-]")]
        print(lines("podtui: the agent is not healthy:\n" + "\n".join(failed)), file=sys.stderr)
        return False
    return True


def unusable_files(listing: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the files of the folder whose content is not used."""
    return [item for item in with_kinds(listing) if item["status"]["state"] in UNUSABLE]


def summarized_files(listing: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the usable files with more than a pod, whose message says what becomes of the
    documents."""
    return [
        item
        for item in cast("list[dict[str, Any]]", listing.get("items") or [])
        if item["status"]["state"] == ManifestState.ACCEPTED
        and item["status"].get("message")
        and item["status"].get("objects")
    ]


def files_table(files: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a Table of files, with the reason why each is not used, or what it holds."""
    columns = [{"name": name} for name in ("File", "State", "Message")]
    rows = [
        {"cells": [file["metadata"]["name"], file["status"]["state"], file["status"]["message"]]}
        for file in files
    ]
    return {"columnDefinitions": columns, "rows": rows}


def workloads_table(reports: Sequence[Report]) -> dict[str, Any]:
    """Return a Table of objects that are not as desired, each with its cause in a few words."""
    columns = [{"name": name} for name in ("Not as desired", "State", "Cause")]
    rows = [
        {"cells": [report.name, report.state, report.diagnosis.brief or report.diagnosis.title]}
        for report in reports
    ]
    return {"columnDefinitions": columns, "rows": rows}


def _print_cluster(namespace: argparse.Namespace) -> int:
    """Print nodes and pods; if the user may not list nodes, print that error to standard error."""
    from podtui.cli import cluster

    as_table = namespace.output == "table"
    _, target = cluster.find(namespace)
    scope = cluster.scope_of(namespace)
    with cluster.api_requests(target, scope) as ask:
        pods = cluster.pods_path(target, scope, ask)
        items: list[Any] = []
        tables = 0
        for path in ("/api/v1/nodes", pods):
            query = "?includeObject=Object" if as_table else ""
            try:
                body = ask(path + query, TABLE if as_table else _JSON)
                document = decode_response(path, body, dict[str, Any])
            except ApiError as error:
                if error.code != 403 or path == pods:
                    raise
                print(lines(f"podtui: {error}"), file=sys.stderr)
                continue
            if not as_table:
                items += with_kinds(document)
                continue
            health = health_words(document, time.time()) if path == pods else None
            text = render(document, namespaced=path == "/api/v1/pods", health=health)
            print(lines(("\n" if tables else "") + text))
            tables += 1
    if not as_table:
        _print_list(items)
    return OK


def _print_list(items: list[Any]) -> None:
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
    print(json.dumps(document, indent=2))


def with_kinds(listing: dict[str, Any]) -> list[Any]:
    """Add kind and version to the items of a list: API servers write them only once, on the
    list."""
    kind = str(listing.get("kind", "")).removesuffix("List")
    its = {"kind": kind, "apiVersion": listing.get("apiVersion", "")}
    items: list[dict[str, Any]] = listing.get("items") or []
    return [{**its, **item} for item in items]


def render(
    table: dict[str, Any], *, namespaced: bool = False, health: Sequence[str] | None = None
) -> str:
    """Format a ``meta.k8s.io/v1`` Table: the columns of priority 0, as kubectl prints them.
    ``namespaced`` adds a namespace column in front, ``health`` (by row) a column at the end."""
    columns: list[dict[str, Any]] = table.get("columnDefinitions") or []
    rows: list[dict[str, Any]] = table.get("rows") or []
    shown = [i for i, column in enumerate(columns) if not column.get("priority")]
    drawn: list[Sequence[str]] = [[one_line(str(columns[i]["name"])).upper() for i in shown]]
    drawn += [[one_line(str(row["cells"][i])) for i in shown] for row in rows]
    if namespaced:
        places = [row.get("object", {}).get("metadata", {}).get("namespace", "") for row in rows]
        heads = ["NAMESPACE", *(one_line(str(namespace)) for namespace in places)]
        drawn = [(head, *line) for head, line in zip(heads, drawn, strict=True)]
    if health is not None:
        drawn = [(*line, word) for line, word in zip(drawn, (HEALTH, *health), strict=True)]
    widths = [max(cells(line[i]) for line in drawn) for i in range(len(drawn[0]))]
    return "\n".join("   ".join(map(_padded, line, widths)).rstrip() for line in drawn)


def health_words(table: dict[str, Any], now: float) -> list[str]:
    """Return the health of each pod in a table; unknown if a row does not include its object.
    Raises `ApiError`."""
    rows: list[dict[str, Any]] = table.get("rows") or []
    items = [row.get("object", {}) for row in rows]
    states: list[str] = []
    for item in items:
        if "status" not in item:
            states.append("<unknown>")
            continue
        pod = decode_with("pods", lambda item=item: lenient_convert(item, Pod))
        states.append(str(pod_health(pod, now).health))
    return states


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - cells(cell))
