"""The rules of the rollouts: each is broken once, and kept in the state next to that."""

from __future__ import annotations

from typing import Any

import pytest

from soak.workloads import (
    WORKLOADS,
    Instance,
    Limits,
    broken_by_end,
    broken_by_pods,
    broken_by_start,
    is_complete,
    job,
    limits,
)

BY_NAME = {workload.name: workload for workload in WORKLOADS}


def pod(
    name: str, *, ready: bool = True, deleted: bool = False, phase: str = "Running"
) -> dict[str, Any]:
    meta = {"name": name, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    condition = {"type": "Ready", "status": str(ready)}
    return {"metadata": meta, "status": {"phase": phase, "conditions": [condition]}}


def limit(name: str, *sizes: int, complete: bool = True) -> Limits:
    return limits(BY_NAME[name], sizes, complete=complete)


@pytest.mark.parametrize(
    ("name", "sizes", "most", "least"),
    [
        ("web", (3,), 4, 2),
        ("web", (2, 4), 5, 1),
        ("api", (2,), 3, 2),
        ("api", (3,), 5, 3),
        ("half", (3,), 3, 2),
        ("half", (2,), 2, 1),
        ("single", (2,), 2, 0),
        ("db", (3,), 3, 2),
        ("cache", (2, 3), 3, 0),
        ("each", (1,), 1, 0),
        ("beside", (1,), 2, 1),
    ],
)
def test_limits(name: str, sizes: tuple[int, ...], most: int, least: int) -> None:
    found = limit(name, *sizes)
    assert (found.most, found.least) == (most, least)
    assert limit(name, *sizes, complete=False).least == 0


def test_too_many_pods() -> None:
    pods = [pod(f"web-a-{number}") for number in range(4)]
    ending = [pod("web-a-x", deleted=True), pod("web-a-y", phase="Failed")]
    assert not broken_by_pods(limit("web", 3), [*pods, *ending])
    problems = broken_by_pods(limit("web", 3), [*pods, pod("web-b-1")])
    assert problems == ["web has 5 pods, at most 4"]


def test_too_few_ready_pods() -> None:
    ready = [pod("web-a-1"), pod("web-a-2")]
    others = [pod("web-a-3", ready=False), pod("web-a-4", deleted=True)]
    assert not broken_by_pods(limit("web", 3), [*ready, *others])
    problems = broken_by_pods(limit("web", 3), [*ready[1:], *others])
    assert problems == ["web has 1 ready pods, at least 2"]


def test_two_revisions_of_a_deployment_that_recreates_its_pods() -> None:
    old = pod("single-a-1", deleted=True)
    assert not broken_by_pods(limit("single", 2), [old, pod("single-a-2")])
    problems = broken_by_pods(limit("single", 2), [old, pod("single-b-1")])
    assert problems == ["single has pods of two revisions: ['single-a-1', 'single-b-1']"]


def test_two_pods_of_an_ordinal_and_two_on_a_node() -> None:
    both = [pod("cache-0"), pod("cache-0", deleted=True)]
    assert broken_by_pods(limit("cache", 2), both) == ["cache has two pods of one ordinal"]
    pods = [pod("each-a"), pod("each-b", deleted=True)]
    assert broken_by_pods(limit("each", 1), pods) == ["each has two pods on a node"]
    assert not broken_by_pods(limit("beside", 1), [pod("beside-a"), pod("beside-b")])


def test_an_ordered_set_has_no_pod_before_those_below_it_are_ready() -> None:
    def problems(*pods: dict[str, Any]) -> list[str]:
        return broken_by_pods(limit("db", 3, complete=False), pods)

    assert not problems(pod("db-0"), pod("db-1", ready=False))
    # The update deletes from above: a lower pod may be absent while the higher ones are ready.
    assert not problems(pod("db-0"), pod("db-1", deleted=True), pod("db-2"))
    early = "db-1 exists before db-0 is ready"
    assert problems(pod("db-0", ready=False), pod("db-1", ready=False)) == [early]
    assert problems(pod("db-0", deleted=True), pod("db-1", ready=False)) == [early]


def test_starts() -> None:
    first, second = Instance("db-0", "u1"), Instance("db-0", "u2")
    db = limit("db", 3)
    assert broken_by_start(db, [first], first) == ["db-0 runs twice (u1)"]
    assert broken_by_start(db, [first], second) == ["two containers of the ordinal db-0 run"]
    assert not broken_by_start(db, [first], Instance("db-1", "u3"))
    missing = "db-2 starts while ['db-1'] do not run"
    assert broken_by_start(db, [first], Instance("db-2", "u3")) == [missing]
    assert not broken_by_start(limit("cache", 3), [], Instance("cache-2", "u3"))


def test_starts_beside_others() -> None:
    each = Instance("each-a", "u1")
    text = "each-b starts beside ['each-a']"
    assert broken_by_start(limit("each", 1), [each], Instance("each-b", "u2")) == [text]
    assert not broken_by_start(limit("beside", 1), [each], Instance("beside-b", "u2"))
    old = Instance("single-a-1", "u1")
    single = limit("single", 2)
    assert not broken_by_start(single, [old], Instance("single-a-2", "u2"))
    text = "single-b-1 starts while old pods run: ['single-a-1']"
    assert broken_by_start(single, [old], Instance("single-b-1", "u2")) == [text]
    once = limits(job(1), [2], complete=False)
    runs = [Instance(f"job1-{number}", f"u{number}") for number in range(3)]
    assert not broken_by_start(once, runs[:1], runs[1])
    assert broken_by_start(once, runs[:2], runs[2]) == ["3 pods of job1 run, at most 2"]


def test_ends() -> None:
    left = [Instance("web-a-1", "u1")]
    assert not broken_by_end(limit("web", 2), left)
    assert broken_by_end(limit("web", 2), []) == ["0 pods of web run, at least 1"]


def test_a_workload_is_complete_when_its_status_is_that_of_its_generation() -> None:
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 3)
    record = {"metadata": {"generation": 2}, "status": {"observedGeneration": 2, **counts}}
    assert is_complete(BY_NAME["web"], record, 3)
    assert not is_complete(BY_NAME["web"], record, 2)
    record["metadata"]["generation"] = 3
    assert not is_complete(BY_NAME["web"], record, 3)
    conditions = [{"type": "Complete", "status": "True"}]
    done = {"metadata": {}, "status": {"conditions": conditions, "succeeded": 4}}
    assert is_complete(job(1), done, 2)
    assert not is_complete(job(1), {**done, "status": {"succeeded": 4}}, 2)
