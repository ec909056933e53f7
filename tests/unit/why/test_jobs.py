"""Diagnoses of Jobs and CronJobs."""

from __future__ import annotations

from typing import Any

import pytest
from why_objects import crashing_pod, event, failed_pod, inventory, make, ready_pod, template

from podtui.why import Diagnosis, Health, Kind
from podtui.why.objects import diagnose_object


def job(*conditions: dict[str, str], status: dict[str, Any] | None = None, owner: Any = None,
        name: str = "backup", **spec: Any) -> Any:  # fmt: skip
    return make(
        "Job", name, owner=owner,
        spec={"backoffLimit": 6, "completions": 1, "template": template(), **spec},
        status={"conditions": list(conditions), **(status or {})},
    )  # fmt: skip


def condition(name: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": name, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-20T11:59:00Z"}  # fmt: skip


def why(item: Any, *others: Any) -> Diagnosis:
    return diagnose_object(inventory(item, *others), item)


@pytest.mark.parametrize(
    ("reason", "spec", "title"),
    [
        ("BackoffLimitExceeded", {"backoffLimit": 0},
         "Its pods failed more often than its backoffLimit of 0 allows."),
        ("DeadlineExceeded", {"activeDeadlineSeconds": 30},
         "It ran longer than its activeDeadlineSeconds of 30 s."),
        ("PodFailurePolicy", {}, "Its pod failure policy ended it."),
        ("MaxFailedIndexesExceeded", {"maxFailedIndexes": 1},
         "More indexes failed than its maxFailedIndexes of 1 allow: 0,2."),
        ("SomethingNew", {}, "the controller's text."),
    ],
)  # fmt: skip
def test_a_failed_job_has_its_reason(reason: str, spec: dict[str, Any], title: str) -> None:
    item = job(condition("Failed", reason, "the controller's text"),
               status={"failed": 1, "failedIndexes": "0,2"}, **spec)  # fmt: skip
    diagnosis = why(item, failed_pod("backup-x", item))
    assert (diagnosis.cause, diagnosis.kind, diagnosis.title) == (reason, Kind.FAILURE, title)
    assert diagnosis.state == "failed"
    assert diagnosis.evidence[0].text == f"Failed: {reason}: the controller's text"
    assert [part.name for part in diagnosis.parts] == ["pod/backup-x"]


def test_a_failed_job_without_pods_says_that_the_logs_are_gone() -> None:
    item = job(condition("Failed", "BackoffLimitExceeded"), status={"failed": 7})
    assert "None of its failed pods is left, so that their logs are gone." in why(item).sentences


def test_a_complete_job_is_well() -> None:
    diagnosis = why(job(condition("Complete", "CompletionsReached"), status={"succeeded": 1}))
    assert (diagnosis.kind, diagnosis.health) == (Kind.COMPLETION, Health.COMPLETED)


def test_a_suspended_job_says_how_to_resume_it() -> None:
    diagnosis = why(job(suspend=True))
    assert diagnosis.state == "suspended"
    assert """-p '{"spec":{"suspend":false}}'""" in diagnosis.advice


@pytest.mark.parametrize(
    ("failures", "text"),
    [
        (1, "The next pod starts in about 8s (estimated from its failures)."),
        (3, "The next pod starts in about 38s (estimated from its failures)."),
        (20, "The next pod starts in about 9m58s (estimated from its failures)."),
    ],
)
def test_a_job_in_back_off_estimates_the_next_start(failures: int, text: str) -> None:
    item = job(status={"failed": failures})
    diagnosis = why(item, failed_pod("backup-x", item))
    assert diagnosis.cause == "JobBackOff"
    assert diagnosis.sentences[0] == text


def test_a_job_with_a_running_pod_is_well() -> None:
    item = job(status={"active": 1})
    diagnosis = why(item, ready_pod("backup-x", item))
    assert (diagnosis.kind, diagnosis.state) == (Kind.NONE, "running")


def test_a_job_with_a_crashing_pod_fails() -> None:
    item = job(status={"active": 1})
    diagnosis = why(item, crashing_pod("backup-x", item))
    assert (diagnosis.kind, diagnosis.parts[0].name) == (Kind.FAILURE, "pod/backup-x")


def test_a_job_whose_pod_is_refused_says_so() -> None:
    item = job()
    text = 'Error creating: pods "x" is forbidden: error looking up service account default/app: x'
    assert why(item, event(item, "FailedCreate", text)).cause == "AccountMissing"


# --- CronJobs


def cron(schedule: str = "0 3 * * *", status: dict[str, Any] | None = None, **spec: Any) -> Any:
    body = {"schedule": schedule, "jobTemplate": {"spec": {"template": template()}}, **spec}
    return make("CronJob", "nightly", spec=body, status=status or {})


def test_a_cron_job_says_when_it_starts_the_next_job() -> None:
    diagnosis = why(cron(timeZone="Europe/Berlin"))
    assert diagnosis.title == (
        "The next Job starts in 14h, at 2026-11-21T02:00:00Z (0 3 * * *, Europe/Berlin)."
    )
    assert diagnosis.sentences == ("No Job was started yet.",)


def test_a_suspended_cron_job_is_as_desired() -> None:
    diagnosis = why(cron(suspend=True))
    assert (diagnosis.kind, diagnosis.state) == (Kind.NONE, "suspended")


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (cron("61 * * * *"), "end of range (61) above maximum (59): 61"),
        (cron(timeZone="Mars/Olympus"), "unknown time zone Mars/Olympus"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_a_failure(item: Any, text: str) -> None:
    diagnosis = why(item)
    assert diagnosis.cause == "BadSchedule"
    assert text in diagnosis.title


def test_a_schedule_without_a_time_says_so() -> None:
    assert why(cron("0 0 31 2 *")).title == "Its schedule has no time in the next years."


def test_forbid_waits_for_the_running_job() -> None:
    item = cron(concurrencyPolicy="Forbid")
    running = job(owner=item, name="nightly-1", status={"active": 1})
    diagnosis = why(item, running, event(item, "JobAlreadyActive", "Not starting", kind="Normal"))
    assert diagnosis.cause == "ConcurrencyForbid"
    assert "nightly-1 still runs" in diagnosis.title
    assert [part.name for part in diagnosis.parts] == ["job/nightly-1"]


def test_the_last_failed_job_is_explained() -> None:
    item = cron()
    old = job(condition("Complete"), owner=item, name="nightly-1",
              status={"succeeded": 1})  # fmt: skip
    new = make("Job", "nightly-2", owner=item, meta={"creationTimestamp": "2026-11-20T03:00:00Z"},
               spec={"template": template()},
               status={"conditions": [condition("Failed", "BackoffLimitExceeded")]})  # fmt: skip
    diagnosis = why(item, old, new)
    assert diagnosis.title == "Its last finished Job failed: nightly-2."
    assert diagnosis.parts[0].diagnosis.cause == "BackoffLimitExceeded"


@pytest.mark.parametrize("reason", ["MissSchedule", "TooManyMissedTimes"])
def test_missed_starts_are_reported(reason: str) -> None:
    item = cron()
    diagnosis = why(item, event(item, reason, "missed"))
    assert (diagnosis.cause, diagnosis.kind) == (reason, Kind.WAIT)
    assert "startingDeadlineSeconds" in diagnosis.advice
