"""Runs one app on an agent of its own until it settles, and asks podtui about the rest."""

from __future__ import annotations

import asyncio
import functools
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import yaml

from corpus.agents import Agent, AgentLost, agent
from corpus.apps import App, Map, Workload
from corpus.judge import (
    LISTS,
    NODE,
    Objects,
    Said,
    Sources,
    Verdict,
    is_in_progress,
    not_applied,
    said,
    shape,
    verdict,
)
from corpus.references import Outside, node_labels, outside
from podtui.api.names import GROUP_VERSION
from podtui.cli.fix import fix
from podtui.cli.why import why
from podtui.errors import PodtuiError
from podtui.settings import Settings

POLL_SECONDS: Final = 0.5
QUIET_SECONDS: Final = 15.0
MOST_SECONDS: Final = 180.0
GIVEN: Final = "given.yaml"
"""The file of the objects that the app needs and does not contain."""


_THREAD: Final = ThreadPoolExecutor(max_workers=1)
"""One thread, because msgspec crashes if two threads read objects of a new type at once."""
T = TypeVar("T")


async def _in_thread(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREAD, call)


@dataclass(frozen=True, slots=True)
class Run:
    """``said`` is what podtui says about each workload that has not started; ``not_applied`` are
    outcome, object and message of documents."""

    verdicts: dict[Workload, Verdict] = field(default_factory=dict[Workload, Verdict])
    said: dict[Workload, Said] = field(default_factory=dict[Workload, Said])
    not_applied: tuple[tuple[str, str, str], ...] = ()

    @property
    def count(self) -> int:
        """The number of workloads that have started."""
        return sum(verdict.started for verdict in self.verdicts.values())

    @property
    def started(self) -> bool:
        return bool(self.verdicts) and not self.said


@dataclass(frozen=True, slots=True)
class Outcome:
    """``alone`` is the run of the app itself; ``given`` goes on after the objects were created
    that it needs and does not contain. ``failure`` is a crash or a hang; ``fixed`` are the files
    that ``podtui check --fix`` changed."""

    app: App
    outside: Outside
    alone: Run = Run()
    given: Run = Run()
    failure: str = ""
    seconds: float = 0.0
    fixed: tuple[str, ...] = ()


async def run_app(app: App, quiet: float) -> Outcome:
    """Run an app; it has settled if nothing has changed for ``quiet`` seconds."""
    begin = time.monotonic()
    files = await _in_thread(functools.partial(fixed_files, app.files))
    changed = tuple(name for name, content in files.items() if content != app.files[name])
    outcome = Outcome(app, outside(app.documents), fixed=changed)
    try:
        async with agent(node_labels(app.documents)) as running:
            outcome = await _run(running, outcome, files, quiet)
            failure = _traceback(running.log)
    except (AgentLost, PodtuiError, TimeoutError) as error:
        failure = f"{type(error).__name__}: {error}"
    return replace(outcome, failure=failure, seconds=time.monotonic() - begin)


def fixed_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files after ``podtui check --fix``."""
    with tempfile.TemporaryDirectory(prefix="podtui-corpus-") as base:
        for name, content in files.items():
            Path(base, name).write_bytes(content)
        settings = Settings(rootDir=Path(base), staticPodPath=Path(base), nodeName=NODE)
        fix([Path(base)], settings, yes=True, color=False, confirm=bool, out=_unprinted)
        return {name: Path(base, name).read_bytes() for name in files}


def _unprinted(_: str) -> None:
    pass


async def _run(
    running: Agent, outcome: Outcome, files: Mapping[str, bytes], quiet: float
) -> Outcome:
    for name, content in files.items():
        (running.folder / name).write_bytes(content)
    alone = await _settled(running, outcome.app, quiet)
    missing = outcome.outside.documents()
    if alone.started or not missing:
        return replace(outcome, alone=alone, given=alone)
    (running.folder / GIVEN).write_text(yaml.safe_dump_all(missing), encoding="utf-8")
    given = await _settled(running, outcome.app, quiet)
    return replace(outcome, alone=alone, given=given)


async def _settled(running: Agent, app: App, quiet: float) -> Run:
    """Wait until all workloads have started, or nothing has changed for a while."""
    begin = changed = time.monotonic()
    before: object = None
    while True:
        objects = await _objects(running)
        await _trigger(running, objects)
        verdicts = {workload: verdict(workload, objects) for workload in app.workloads}
        now = time.monotonic()
        if (current := shape(objects)) != before:
            before, changed = current, now
        settled = now - changed > quiet or now - begin > MOST_SECONDS
        if settled or all(found.started for found in verdicts.values()):
            run = await _explained(running, verdicts, objects)
            if now - begin > MOST_SECONDS or not any(map(is_in_progress, run.said.values())):
                return run
        await asyncio.sleep(POLL_SECONDS)


async def _explained(running: Agent, verdicts: dict[Workload, Verdict], objects: Objects) -> Run:
    files = await _items(running, f"/apis/{GROUP_VERSION}/manifests")
    rest = {workload: found for workload, found in verdicts.items() if not found.started}
    texts = dict[Workload, Said]()
    if rest:
        socket = running.root / "podtui.sock"
        text, _ = await _in_thread(functools.partial(why, socket, None, "json"))
        reports: list[Any] = json.loads(text)
        sources = Sources(files, reports, await _items(running, "/api/v1/events"))
        texts = {w: said(w, found, sources, objects) for w, found in rest.items()}
    return Run(verdicts, texts, not_applied(files))


async def _objects(running: Agent) -> Objects:
    return {
        kind: [{"kind": kind, **item} for item in await _items(running, path)]
        for kind, path in LISTS.items()
    }


async def _items(running: Agent, path: str) -> list[Map]:
    return cast("list[Map]", json.loads(await running.connection.get(path))["items"])


async def _trigger(running: Agent, objects: Objects) -> None:
    """Create a Job of each CronJob now, as ``kubectl create job --from`` does."""
    owners = {
        reference["uid"]
        for job in objects["Job"]
        for reference in job["metadata"].get("ownerReferences") or ()
    }
    for item in objects["CronJob"]:
        meta, spec = item["metadata"], item["spec"]
        if meta["uid"] in owners or spec.get("suspend"):
            continue
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "controller": True}
        owner |= {"name": meta["name"], "uid": meta["uid"]}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"{meta['name'][:50]}-now", "ownerReferences": [owner]},
            "spec": spec["jobTemplate"]["spec"],
        }
        await running.connection.post(
            f"/apis/batch/v1/namespaces/{meta['namespace']}/jobs",
            body=json.dumps(job).encode(),
            content_type="application/json",
        )


def _traceback(log: str) -> str:
    """Return the first traceback in a log, if there is one."""
    lines = log.splitlines()
    first = next((i for i, line in enumerate(lines) if "Traceback (most" in line), None)
    return "" if first is None else "\n".join(lines[max(first - 1, 0) : first + 60])
