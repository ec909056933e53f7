"""Which workloads have started, and what podtui says about the others."""

from __future__ import annotations

from typing import Any

import pytest

from corpus.apps import Workload
from corpus.judge import LISTS, Said, Sources, is_in_progress, not_applied, runs, said, verdict

Map = dict[str, Any]


def pod(name: str, owner: str = "", *, phase: str = "Running", state: Map | None = None) -> Map:
    references = [{"uid": owner}] if owner else []
    status = {"phase": phase, "containerStatuses": [{"state": state or {"running": {}}}]}
    return item("Pod", name, {"containers": [{}]}, status, references)


def item(
    kind: str, name: str, spec: Map, status: Map | None = None, owners: list[Map] | None = None
) -> Map:
    meta = {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners or []}
    return {"kind": kind, "metadata": meta, "spec": spec, "status": status or {}}


def objects(*items: Map) -> dict[str, list[Map]]:
    return {kind: [found for found in items if found["kind"] == kind] for kind in LISTS}


def workload(kind: str, name: str = "web") -> Workload:
    return Workload(kind, "default", name, "v1", "web.yaml")


@pytest.mark.parametrize(
    ("phase", "state", "started"),
    [
        ("Running", {"running": {}}, True),
        ("Running", {"terminated": {"exitCode": 0}}, True),
        ("Running", {"terminated": {"exitCode": 1}}, False),
        ("Running", {"waiting": {"reason": "CrashLoopBackOff"}}, False),
        ("Pending", {"waiting": {"reason": "ContainerCreating"}}, False),
        ("Succeeded", {"terminated": {"exitCode": 0}}, True),
        ("Failed", {"terminated": {"exitCode": 1}}, False),
    ],
)
def test_a_pod_runs_if_all_its_containers_do(phase: str, state: Map, started: bool) -> None:
    assert runs(pod("web", phase=phase, state=state)) is started


def test_a_pod_of_the_folder_has_the_nodes_name() -> None:
    assert verdict(workload("Pod"), objects(pod("web-corpus"))).started
    assert verdict(workload("Pod"), objects(pod("web-2"))).problem == "was not created"


def test_a_deployment_needs_all_its_replicas() -> None:
    owned = item("ReplicaSet", "rs", {}, owners=[{"uid": "web"}])
    deployment = item("Deployment", "web", {"replicas": 2})
    found = verdict(workload("Deployment"), objects(deployment, owned, pod("a", "rs")))
    assert found.problem == "1 of 2 pods were created"
    waiting = pod("b", "rs", phase="Pending")
    found = verdict(workload("Deployment"), objects(deployment, owned, pod("a", "rs"), waiting))
    assert (found.problem, found.pods) == ("1 of 2 pods run", ("b",))
    pods = (pod("a", "rs"), pod("b", "rs"))
    assert verdict(workload("Deployment"), objects(deployment, owned, *pods)).started


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("Deployment", {"replicas": 0}), ("Job", {"suspend": True}), ("CronJob", {"suspend": True})],
)
def test_a_workload_that_asks_for_no_pods_has_started(kind: str, spec: Map) -> None:
    assert verdict(workload(kind), objects(item(kind, "web", spec))).started


def test_a_job_has_started_if_it_is_complete() -> None:
    job = item("Job", "web-now", {"completions": 3, "parallelism": 2}, owners=[{"uid": "web"}])
    cron = item("CronJob", "web", {})
    assert not verdict(workload("Job", "web-now"), objects(job)).started
    assert not verdict(workload("CronJob"), objects(cron, job)).started
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert verdict(workload("Job", "web-now"), objects(job)).started
    assert verdict(workload("CronJob"), objects(cron, job)).started


def test_what_says_nothing_or_is_starting_is_in_progress() -> None:
    assert is_in_progress(Said("", ""))
    assert is_in_progress(Said("Creating", "The container web is being created."))
    assert not is_in_progress(Said("Unschedulable", "No node fits."))


def file(*documents: Map, error: str = "") -> Map:
    problems = [{"severity": "Error", "code": "SyntaxError", "message": error}] if error else []
    status = {"objects": documents, "diagnostics": problems}
    return {"metadata": {"name": "web.yaml"}, "status": status}


def document(kind: str, name: str, outcome: str, message: str = "") -> Map:
    return {
        "kind": kind, "name": name, "namespace": "default", "outcome": outcome, "message": message,
    }  # fmt: skip


def test_a_refused_document_is_what_podtui_says() -> None:
    refused = document("Service", "db", "Refused", "Required value (spec.ports)")
    waits = document("Deployment", "web", "Waits", "another document has errors")
    files = [file(document("ConfigMap", "c", "Applied"), refused, waits)]
    found = verdict(workload("Deployment"), objects())
    assert said(workload("Deployment"), found, Sources(files, [], []), objects()) == Said(
        "Waits", "another document has errors: Service db: Required value (spec.ports)"
    )
    assert not_applied(files) == (
        ("Refused", "Service db", "Required value (spec.ports)"),
        ("Waits", "Deployment web", "another document has errors"),
    )


def test_an_unreadable_file_is_what_podtui_says() -> None:
    found = verdict(workload("Pod"), objects())
    sources = Sources([file(error="line 3: tab")], [], [])
    text = said(workload("Pod"), found, sources, objects())
    assert text == Said("SyntaxError", "line 3: tab")


def test_the_diagnosis_of_a_pod_comes_before_events() -> None:
    deployment = item("Deployment", "web", {"replicas": 1})
    owned = item("ReplicaSet", "rs", {}, owners=[{"uid": "web"}])
    report = {
        "name": "a", "cause": "Unschedulable", "title": "No node fits.", "sentences": [],
        "advice": "", "parts": [],
    }  # fmt: skip
    event = {
        "type": "Warning", "reason": "FailedCreate", "message": "quota",
        "involvedObject": {"uid": "rs"}, "lastTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    sources = Sources([], [report], [event])
    pending = objects(deployment, owned, pod("a", "rs", phase="Pending"))
    found = verdict(workload("Deployment"), pending)
    text = said(workload("Deployment"), found, sources, pending)
    assert text == Said("Unschedulable", "No node fits.")
    none = objects(deployment, owned)
    found = verdict(workload("Deployment"), none)
    assert said(workload("Deployment"), found, sources, none) == Said("FailedCreate", "quota")


def test_the_diagnosis_of_a_workload_is_read_down_to_its_cause() -> None:
    deployment = item("Deployment", "web", {"replicas": 1})
    base = {"sentences": [], "advice": "", "parts": []}
    claim = {**base, "name": "pvc/data", "cause": "ClassMissing", "title": "No class fast.",
             "advice": "Create it."}  # fmt: skip
    report = {**base, "name": "deploy/web", "cause": "PodsFail", "title": "0 of 1 pods is ready.",
              "parts": [claim]}  # fmt: skip
    none = objects(deployment)
    text = said(workload("Deployment"), verdict(workload("Deployment"), none),
                Sources([], [report], []), none)  # fmt: skip
    assert text == Said("ClassMissing", "0 of 1 pods is ready. No class fast. Create it.")
