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
    found = differences(agent, "jobs")
    assert not found, found
