"""Jobs and CronJobs with kubectl. The transcript is from a real v1.36.2 cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent
from kubectl_transcript import differences

NAMESPACE: Final = "wl"
JOB: Final = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels: {{app: {name}, tier: one}}
spec:
{spec}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: docker.io/library/busybox:1.36
        imagePullPolicy: Never
        command: [sh, -c, {command}]
"""
FILES: Final = {
    "fail.yaml": JOB.format(name="fail", spec="  backoffLimit: 1", command="echo failing; exit 3"),
    "job.yaml": JOB.format(
        name="two", spec="  completions: 2\n  parallelism: 1", command="echo done"
    ),
    "ix.yaml": JOB.format(
        name="ix",
        spec="  completions: 3\n  parallelism: 3\n  completionMode: Indexed",
        command="echo index $JOB_COMPLETION_INDEX",
    ),
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("jobs"), node="n1", engine="memory") as started:
        for name, text in FILES.items():
            (started.work / name).write_text(text)
        started.out("create", "namespace", NAMESPACE)
        started.out("config", "set-context", "--current", f"--namespace={NAMESPACE}")
        # The Jobs may not pull the image.
        started.out("run", "pull", "--image=docker.io/library/busybox:1.36")
        started.out("wait", "--for=condition=Ready", "pod/pull", "--timeout=60s")
        yield started


def test_a_session_is_that_of_a_real_cluster(agent: KubectlAgent) -> None:
    changes = differences(agent, "jobs")
    assert not changes, changes


def test_a_job_ends_by_its_deadline_and_is_removed(agent: KubectlAgent) -> None:
    text = JOB.format(
        name="late",
        spec="  activeDeadlineSeconds: 2\n  ttlSecondsAfterFinished: 1",
        command="sleep 1000",
    )
    agent.out("apply", "-f", "-", text=text)
    agent.out("wait", "--for=condition=Failed", "job/late", "--timeout=60s")
    agent.out("wait", "--for=delete", "job/late", "--timeout=60s")
    agent.until(lambda: not agent.out("get", "pods", "-l", "job-name=late", "-o", "name"))
    reasons = agent.out(
        "get", "events", "-o", "jsonpath={range .items[*]}{.involvedObject.name} {.reason},{end}"
    )
    assert "late DeadlineExceeded" in reasons


def test_a_suspended_job_waits_and_a_deleted_one_takes_its_pods(agent: KubectlAgent) -> None:
    text = JOB.format(name="sus", spec="  suspend: true", command="sleep 1000")
    agent.out("apply", "-f", "-", text=text)
    agent.out("wait", "--for=condition=Suspended", "job/sus", "--timeout=60s")
    assert agent.out("get", "pods", "-l", "job-name=sus", "-o", "name") == ""
    agent.out("patch", "job", "sus", "-p", '{"spec":{"suspend":false}}')
    agent.out("wait", "--for=jsonpath={.status.ready}=1", "job/sus", "--timeout=60s")
    agent.out("delete", "job", "sus", "--timeout=60s")
    agent.until(lambda: not agent.out("get", "pods", "-l", "job-name=sus", "-o", "name"))


def test_a_cron_job_starts_a_job_each_minute(agent: KubectlAgent) -> None:
    create = ("create", "cronjob", "tick", "--image=docker.io/library/busybox:1.36")
    agent.out(*create, "--schedule=* * * * *", "--", "echo", "tick")
    jobs = ("get", "jobs", "-o", "jsonpath={.items[*].metadata.name}")
    agent.until(lambda: "tick-" in agent.out(*jobs), 70)
    name = next(name for name in agent.out(*jobs).split() if name.startswith("tick-"))
    agent.out("wait", "--for=condition=Complete", f"job/{name}", "--timeout=60s")
    when = agent.out("get", "cronjob", "tick", "-o", "jsonpath={.status.lastScheduleTime}")
    stamp = agent.out("get", "job", name, "-o", "jsonpath={.metadata.annotations}")
    assert f'"batch.kubernetes.io/cronjob-scheduled-timestamp":"{when}"' in stamp
    assert when.endswith(":00Z")
    assert agent.out("logs", f"job/{name}") == "tick\n"
    agent.out("delete", "cronjob", "tick")
    agent.until(lambda: "tick-" not in agent.out(*jobs))
