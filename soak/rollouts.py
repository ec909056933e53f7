"""The agent is killed while workloads are rolled out and scaled."""

from __future__ import annotations

import random
import time
from typing import Any, Final

from soak.fault import Step, Steps
from soak.invariants import Broken
from soak.observers import Observations, observing
from soak.workloads import (
    NAMESPACE,
    WORKLOADS,
    Workload,
    is_complete,
    job,
    limits,
    ordinal,
    workload_name,
)
from soak.world import World

KILLS_PER_STEP: Final = 10
_CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"


def roll_out(world: World, chance: random.Random, count: int) -> Steps:
    """kill -9 at random times while at least two workloads at once get new templates, also before
    the last one has reached all pods, and while others are scaled."""
    with observing(world) as seen:
        fleet = Fleet(world, seen)
        world.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for workload in WORKLOADS:
            fleet.change(workload, workload.sizes[0])
        fleet.settle()
        yield Step(0)
        done = 0
        while done < count and not world.expired:
            batch = min(KILLS_PER_STEP, count - done)
            fleet.begin(done // KILLS_PER_STEP)
            for number in range(batch):
                if number % 2 == 0:
                    first, second, scaled = chance.sample(WORKLOADS, 3)
                    fleet.change(first, fleet.sizes[first.name])
                    fleet.change(second, chance.choice(second.sizes))
                    fleet.scale(scaled, chance.choice(scaled.sizes))
                if chance.random() < 0.7:
                    world.wait(lambda: _answers(world), "the API answers")
                time.sleep(chance.random() * 3)
                world.kill()
                world.start()
            done += batch
            fleet.settle()
            yield Step(batch)
        fleet.delete()


def _answers(world: World) -> bool:
    return world.node_condition() != ("", "")


class Fleet:
    """The workloads as the user wants them: ``sizes`` by name, and their versions."""

    def __init__(self, world: World, seen: Observations) -> None:
        self._world = world
        self._seen = seen
        self._workloads: dict[str, Workload] = {}
        self._versions: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self._recent: dict[str, set[int]] = {}
        """The sizes since the workloads were settled."""
        self._job: Workload | None = None
        self._claims = 0

    def begin(self, number: int) -> None:
        """Begin a step, after all workloads were settled: earlier sizes do not count any more.
        Replace the Job."""
        for name, size in self.sizes.items():
            self._recent[name] = {size}
        if self._job is not None:
            del self._workloads[self._job.name]
            self._world.send("DELETE", f"{self._job.path}?propagationPolicy=Foreground")
        self._job = job(number)
        self.change(self._job, self._job.sizes[0])

    def change(self, workload: Workload, size: int) -> None:
        """Create the workload, or give it a new template and a size."""
        self._versions[workload.name] = self._versions.get(workload.name, 0) + 1
        self._workloads[workload.name] = workload
        self.scale(workload, size)

    def scale(self, workload: Workload, size: int) -> None:
        name = workload.name
        complete = name in self._recent and workload.kind != "Job"
        sizes = self._recent.setdefault(name, set())
        sizes.add(size)
        self.sizes[name] = size
        if workload.ordered:
            self._claims = max(self._claims, size)
        self._seen.limits[name] = limits(workload, sizes, complete=complete)
        manifest = workload.manifest(self._versions[name], size)
        self._world.send(
            "PATCH", f"{workload.path}?fieldManager=soak&force=true", manifest,
            "application/apply-patch+yaml",
        )  # fmt: skip

    def settle(self) -> None:
        """Wait until all workloads are complete. Raises `Broken`."""
        missing = ["nothing was checked"]

        def reached() -> bool:
            nonlocal missing
            try:
                missing = self._missing()
            except (OSError, ValueError) as error:
                missing = [f"the API does not answer: {error}"]
            return not missing

        try:
            self._world.wait(reached, "the workloads")
        except TimeoutError as error:
            raise Broken(f"the workloads settle: {error}: {'; '.join(missing[:6])}") from None
        finally:
            if self._seen.problems:
                raise Broken("; ".join(self._seen.problems[:6]))
        if idle := [source for source, count in self._seen.changes.items() if not count]:
            raise Broken(f"the observers see changes: none by {idle}")
        self._seen.changes.update(dict.fromkeys(self._seen.changes, 0))

    def _missing(self) -> list[str]:
        pods: list[dict[str, Any]] = self._world.get(f"{_CORE}/pods")["items"]
        missing: list[str] = []
        for name, workload in self._workloads.items():
            record = self._world.get(workload.path)
            size = self.sizes[name]
            if not is_complete(workload, record, size):
                missing.append(f"{workload.kind} {name} with {size}: {record.get('status')}")
            mine = [pod for pod in pods if workload_name(pod["metadata"]["name"]) == name]
            missing += self._missing_pods(workload, mine)
        known = self._workloads.keys()
        missing += [
            f"left over: pod {pod['metadata']['name']}"
            for pod in pods
            if workload_name(pod["metadata"]["name"]) not in known
        ]
        claims = self._world.get(f"{_CORE}/persistentvolumeclaims")["items"]
        names = {f"data-db-{number}" for number in range(self._claims)}
        if {claim["metadata"]["name"] for claim in claims} != names:
            missing.append(f"claims: {[claim['metadata']['name'] for claim in claims]}")
        return missing

    def _missing_pods(self, workload: Workload, pods: list[dict[str, Any]]) -> list[str]:
        name, size = workload.name, workload.completions or self.sizes[workload.name]
        phase = "Succeeded" if workload.kind == "Job" else "Running"
        states = [_state(pod) for pod in pods]
        missing: list[str] = []
        if sorted(states) != [(phase, str(self._versions[name]), False)] * size:
            missing.append(f"{name} has the pods {states}, wanted {size}")
        if workload.kind == "StatefulSet":
            ordinals = sorted(ordinal(pod["metadata"]["name"]) for pod in pods)
            if ordinals != [*range(size)]:
                missing.append(f"{name} has the ordinals {ordinals}")
        started = self._seen.started.get(name, 0)
        if workload.kind == "Job" and started != size:
            missing.append(f"{started} containers of {name} were started, not {size}")
        return missing

    def delete(self) -> None:
        """Delete the namespace, and wait until nothing of it is left. Raises `Broken`."""
        self._seen.limits.clear()
        self._world.send("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
        try:
            self._world.wait(self._is_gone, "the namespace is gone")
        except TimeoutError as error:
            raise Broken(f"nothing left over: {error}") from None

    def _is_gone(self) -> bool:
        namespaces = self._world.get("/api/v1/namespaces")["items"]
        if any(one["metadata"]["name"] == NAMESPACE for one in namespaces):
            return False
        for path in _KINDS:
            for item in self._world.get(path)["items"]:
                if item["metadata"].get("namespace") == NAMESPACE or "persistentvolumes" in path:
                    return False
        return not any((self._world.root / "volumes").glob("*"))


_KINDS: Final = (
    "/api/v1/pods",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/controllerrevisions",
    "/apis/batch/v1/jobs",
)


def _state(pod: dict[str, Any]) -> tuple[str, str, bool]:
    """Return the phase, the version, and whether the pod is being deleted."""
    version = pod["spec"]["containers"][0]["env"][0]["value"]
    return pod["status"]["phase"], version, "deletionTimestamp" in pod["metadata"]
