"""Deployments, ReplicaSets and ReplicationControllers with kubectl: an agent on the simulated
engine, and the texts of a real cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

IMAGE = "busybox:1.36"
TIMEOUT = "--timeout=60s"
HASH = r"[bcdfghjklmnpqrstvwxz2456789]{5,10}"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(
        tmp_path_factory.mktemp("deployments"), node="n1", engine="memory"
    ) as started:
        yield started


class Cluster:
    """kubectl in one namespace. The hashes of templates and pods are masked."""

    def __init__(self, agent: KubectlAgent, namespace: str) -> None:
        self.agent = agent
        self._namespace = f"--namespace={namespace}"

    def out(self, command: str, text: str | None = None) -> str:
        return self.masked(self.agent.out(self._namespace, *command.split(), text=text))

    def refusal(self, command: str) -> str:
        done = self.agent.run(self._namespace, *command.split())
        assert done.returncode == 1, done.stdout
        return self.masked(done.stderr)

    def masked(self, text: str) -> str:
        text = re.sub(rf"-{HASH}(-{HASH})?(?![\w.-])", "-HASH", text)
        return re.sub(r"[ \t]+", " ", text)

    def rolled_out(self) -> str:
        """Wait for the end of a rollout; return the last line."""
        return self.out(f"rollout status deployment/web {TIMEOUT}").splitlines()[-1]

    def until(self, command: str, wanted: str) -> None:
        self.agent.until(lambda: wanted in self.out(command))

    def names(self, kind: str) -> list[str]:
        return self.agent.out(self._namespace, "get", kind, "-o", "name").split()


@pytest.fixture
def cluster(agent: KubectlAgent, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    namespace = re.sub("[^a-z]+", "-", request.node.name.lower()).strip("-")
    agent.out("create", "namespace", namespace)
    yield Cluster(agent, namespace)
    agent.out("delete", "namespace", namespace, TIMEOUT)


def manifest(replicas: int, *, kind: str = "Deployment", image: str = IMAGE, **spec: Any) -> str:
    container = {"name": "c", "image": image, "command": ["sleep", "3600"]}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    controller = kind == "ReplicationController"
    selector = {"app": "web"} if controller else {"matchLabels": {"app": "web"}}
    return json.dumps(
        {
            "apiVersion": "v1" if controller else "apps/v1",
            "kind": kind,
            "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
        }
    )


def test_rollouts(cluster: Cluster) -> None:
    done = 'deployment "web" successfully rolled out'
    cluster.out(f"create deployment web --image={IMAGE} --replicas=2 -- sleep 3600")
    assert cluster.rolled_out() == done
    assert cluster.out("get deployment web --no-headers").startswith("web 2/2 2 2 ")
    assert cluster.out("get rs --no-headers").startswith("web-HASH 2 2 2 ")
    assert cluster.out("get pods --no-headers").count("web-HASH 1/1 Running 0 ") == 2

    assert cluster.out("scale deployment/web --replicas=3") == "deployment.apps/web scaled\n"
    assert cluster.rolled_out() == done
    cluster.out("annotate deployment/web kubernetes.io/change-cause=first")
    cluster.out("set image deployment/web busybox=busybox:1.37")
    assert cluster.rolled_out() == done
    cluster.out("annotate deployment/web kubernetes.io/change-cause=second --overwrite")
    cluster.until("rollout history deployment/web", "2 second")
    assert cluster.out("rollout history deployment/web") == (
        "deployment.apps/web \nREVISION CHANGE-CAUSE\n1 first\n2 second\n\n"
    )
    assert "Image: busybox:1.37" in cluster.out("rollout history deployment/web --revision=2")

    undo = "rollout undo deployment/web"
    assert cluster.out(undo) == "deployment.apps/web rolled back\n"
    assert cluster.rolled_out() == done
    assert cluster.out(f"{undo} --to-revision=3") == (
        "deployment.apps/web skipped rollback (current template already matches revision 3)\n"
    )
    cluster.until("rollout history deployment/web", "2 second\n3 first\n")

    assert cluster.out("rollout pause deployment/web") == "deployment.apps/web paused\n"
    cluster.out("set env deployment/web MODE=b")
    paused = cluster.refusal("rollout status deployment/web --timeout=1s")
    assert "timed out waiting for the condition" in paused
    assert "Progressing Unknown DeploymentPaused" in cluster.out("describe deployment web")
    assert cluster.out("rollout resume deployment/web") == "deployment.apps/web resumed\n"
    assert cluster.rolled_out() == done
    assert cluster.out("rollout restart deployment/web") == "deployment.apps/web restarted\n"
    assert cluster.rolled_out() == done

    description = cluster.out("describe deployment web")
    for line in (
        "Annotations: deployment.kubernetes.io/revision: 5\n",
        "Replicas: 3 desired | 3 updated | 3 total | 3 available | 0 unavailable\n",
        " Available True MinimumReplicasAvailable\n Progressing True NewReplicaSetAvailable\n",
        "NewReplicaSet: web-HASH (3/3 replicas created)\n",
        " deployment-controller Scaled up replica set web-HASH from 0 to 2\n",
        " deployment-controller Scaled up replica set web-HASH from 2 to 3\n",
        " deployment-controller Scaled down replica set web-HASH from 3 to 2\n",
    ):
        assert line in description
    cluster.until("get rs --no-headers", "web-HASH 3 3 3 ")


def test_a_rollout_that_is_stuck(cluster: Cluster) -> None:
    update = {"maxSurge": 1, "maxUnavailable": 0}
    spec = {"strategy": {"rollingUpdate": update}, "progressDeadlineSeconds": 2}
    cluster.out("apply -f -", manifest(2, **spec))
    cluster.rolled_out()
    nowhere = '{"spec":{"template":{"spec":{"nodeSelector":{"disk":"none"}}}}}'
    cluster.out(f"patch deployment web -p {nowhere}")
    late = 'error: deployment "web" exceeded its progress deadline\n'
    assert late in cluster.refusal(f"rollout status deployment/web {TIMEOUT}")
    assert late in cluster.refusal("rollout status deployment/web --watch=false")
    assert cluster.out("get deployment web --no-headers").startswith("web 2/2 1 2 ")
    path = "{range.status.conditions[*]}{.type}={.status},{.reason}:{.message};{end}"
    assert cluster.out(f"get deployment web -o jsonpath={path}") == (
        "Available=True,MinimumReplicasAvailable:Deployment has minimum availability.;"
        "Progressing=False,ProgressDeadlineExceeded:"
        'ReplicaSet "web-HASH" has timed out progressing.;'
    )
    cluster.out("rollout undo deployment/web")
    assert cluster.rolled_out() == 'deployment "web" successfully rolled out'


def test_recreate_and_the_limit_of_revisions(cluster: Cluster) -> None:
    cluster.out("apply -f -", manifest(2, strategy={"type": "Recreate"}, revisionHistoryLimit=1))
    cluster.rolled_out()
    for image in ("busybox:2", "busybox:3"):
        cluster.out(f"set image deployment/web c={image}")
        cluster.rolled_out()
    cluster.agent.until(lambda: len(cluster.names("rs")) == 2)
    texts = cluster.out("events --for deployment/web")
    assert [line.partition("Scaled ")[2] for line in texts.splitlines()[1:]] == [
        "up replica set web-HASH from 0 to 2",
        "down replica set web-HASH from 2 to 0",
        "up replica set web-HASH from 0 to 2",
        "down replica set web-HASH from 2 to 0",
        "up replica set web-HASH from 0 to 2",
    ]


def test_cascades(cluster: Cluster) -> None:
    cluster.out("apply -f -", manifest(2))
    cluster.rolled_out()
    pods, sets = cluster.names("pods"), cluster.names("rs")
    cluster.out("delete deployment web --cascade=orphan")
    owners = "get rs -o jsonpath={.items[*].metadata.ownerReferences}"
    cluster.agent.until(lambda: not cluster.out(owners))
    assert (cluster.names("pods"), cluster.names("rs")) == (pods, sets)
    # The next one of the name adopts what is left.
    cluster.out("apply -f -", manifest(2))
    cluster.until(owners, '"kind":"Deployment"')
    cluster.rolled_out()
    assert (cluster.names("pods"), cluster.names("rs")) == (pods, sets)
    cluster.out(f"delete deployment web --cascade=foreground {TIMEOUT}")
    assert (cluster.names("pods"), cluster.names("rs")) == ([], [])
    cluster.out("apply -f -", manifest(2))
    cluster.rolled_out()
    cluster.out("delete deployment web")
    cluster.agent.until(lambda: not cluster.names("pods,rs"))
    # Nothing was created in place of the pods that were deleted.
    created = cluster.out("get events --field-selector reason=SuccessfulCreate -o name")
    assert len(created.split()) == 4


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_replicas(cluster: Cluster, kind: str) -> None:
    ready = f"wait --for=jsonpath={{.status.readyReplicas}}=%d {kind}/web {TIMEOUT}"
    cluster.out("apply -f -", manifest(2, kind=kind))
    cluster.out(ready % 2)
    cluster.out(f"scale {kind}/web --replicas=1")
    cluster.until(f"get {kind} web --no-headers", "web 1 1 1 ")
    cluster.out("delete pods -l app=web")
    cluster.out(ready % 1)
    component = "replicaset" if kind == "ReplicaSet" else "replication"
    described = cluster.out(f"describe {kind} web")
    assert described.count(f"{component}-controller Created pod: web-HASH\n") == 3
    assert described.count(f"{component}-controller Deleted pod: web-HASH\n") == 1
    cluster.out(f"delete {kind} web")
    cluster.agent.until(lambda: not cluster.names("pods"))
