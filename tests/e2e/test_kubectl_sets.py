"""StatefulSets and DaemonSets with kubectl, as a session on a real v1.36.2 cluster has shown them.

The engine is simulated, so that the pods have no probes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent
from kubectl_transcript import masked

POD: Final = """\
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "docker.io/library/busybox:1.36", command: [sleep, "1000"]}]
"""
STATEFUL: Final = (
    """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: NAME, labels: {app: NAME, tier: one}}
spec:
  replicas: 2
  serviceName: NAME
  selector: {matchLabels: {app: NAME}}
  template:
"""
    + POD
)
DAEMON: Final = (
    """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: NAME, labels: {app: NAME}}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
"""
    + POD
)
CLAIMS: Final = """\
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("sets"), node="n1", engine="memory") as found:
        yield found


def apply(agent: KubectlAgent, manifest: str, name: str) -> str:
    return agent.out("apply", "-f", "-", text=manifest.replace("NAME", name))


def status(agent: KubectlAgent, what: str) -> str:
    """Wait for the end of a rollout; return its last line."""
    return agent.out("rollout", "status", what, "--timeout=60s").splitlines()[-1]


def pods(agent: KubectlAgent, name: str) -> list[dict[str, Any]]:
    return json.loads(agent.out("get", "pods", "-l", f"app={name}", "-o", "json"))["items"]


def uids(agent: KubectlAgent, name: str) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods(agent, name)}


def numbers(agent: KubectlAgent, name: str) -> list[str]:
    """Return the numbers of the revisions."""
    revisions = ("get", "controllerrevisions", "-l", f"app={name}", "-o")
    return sorted(agent.out(*revisions, "jsonpath={..revision}").split())


def event_lines(agent: KubectlAgent, kind: str, name: str) -> list[str]:
    """Return the events of a description, sorted."""
    return sorted(masked(agent.out("describe", kind, name).partition("Events:")[2])[2:])


def test_the_session_of_a_stateful_set(agent: KubectlAgent) -> None:
    assert apply(agent, STATEFUL, "db") == "statefulset.apps/db created\n"
    complete = "partitioned roll out complete: {} new pods have been updated..."
    assert status(agent, "statefulset/db") == complete.format(2)
    assert masked(agent.out("get", "statefulset", "-o", "wide")) == [
        "NAME READY AGE CONTAINERS IMAGES",
        "db 2/2 AGE c docker.io/library/busybox:1.36",
    ]
    (revision,) = masked(agent.out("get", "controllerrevisions", "-l", "app=db", "--no-headers"))
    name, *rest = revision.split()
    assert rest == ["statefulset.apps/db", "1", "AGE"]
    for index, line in enumerate(
        masked(agent.out("get", "pods", "-l", "app=db", "--show-labels", "--no-headers"))
    ):
        assert line == (
            f"db-{index} 1/1 Running 0 AGE app=db,apps.kubernetes.io/pod-index={index},"
            f"controller-revision-hash={name},statefulset.kubernetes.io/pod-name=db-{index}"
        )
    described = agent.out("describe", "statefulset", "db")
    assert "Replicas:           2 desired | 2 total" in described
    assert "Pods Status:        2 Running / 0 Waiting / 0 Succeeded / 0 Failed" in described
    assert masked(agent.out("events", "--for", "statefulset/db")) == [
        "LAST SEEN TYPE REASON OBJECT MESSAGE",
        "AGE Normal SuccessfulCreate StatefulSet/db Create Pod db-0 in StatefulSet db successful",
        "AGE Normal SuccessfulCreate StatefulSet/db Create Pod db-1 in StatefulSet db successful",
    ]
    # A larger and a smaller set.
    agent.out("scale", "statefulset/db", "--replicas=3")
    assert status(agent, "statefulset/db") == complete.format(3)
    agent.out("scale", "statefulset/db", "--replicas=2")
    agent.out("wait", "--for=delete", "pod/db-2", "--timeout=40s")
    # An update with a partition.
    partition = '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}'
    agent.out("patch", "statefulset", "db", "-p", partition)
    agent.out("set", "env", "statefulset/db", "MODE=a")
    assert status(agent, "statefulset/db") == complete.format(1)
    columns = "custom-columns=N:.metadata.name,E:.spec.containers[0].env[0].value"
    assert masked(agent.out("get", "pods", "-l", "app=db", "-o", columns)) == [
        "N E",
        "db-0 <none>",
        "db-1 a",
    ]
    created = "Normal SuccessfulCreate AGE statefulset-controller"
    deleted = "Normal SuccessfulDelete AGE statefulset-controller"
    assert event_lines(agent, "statefulset", "db") == [
        f"{created} Create Pod db-0 in StatefulSet db successful",
        f"{created} Create Pod db-1 in StatefulSet db successful",
        f"{created} Create Pod db-2 in StatefulSet db successful",
        f"{deleted} Delete Pod db-1 in StatefulSet db successful",
        f"{deleted} Delete Pod db-2 in StatefulSet db successful",
    ]
    # History, and back.
    assert masked(agent.out("rollout", "history", "statefulset/db")) == [
        "statefulset.apps/db",
        "REVISION CHANGE-CAUSE",
        "1 <none>",
        "2 <none>",
    ]
    assert "MODE:\ta" in agent.out("rollout", "history", "statefulset/db", "--revision=2")
    assert agent.out("rollout", "undo", "statefulset/db") == "statefulset.apps/db rolled back\n"
    assert status(agent, "statefulset/db").startswith("partitioned roll out complete")
    agent.until(lambda: "MODE" not in agent.out("get", "pod", "db-1", "-o", "yaml"))
    revisions = agent.out(
        "get", "controllerrevisions", "-l", "app=db", "-o", "jsonpath={..revision}"
    )
    assert sorted(revisions.split()) == ["2", "3"]
    # A pod that a user deletes, and the end.
    before = uids(agent, "db")
    agent.out("delete", "pod", "db-0")
    agent.until(lambda: "db-0" in uids(agent, "db"))
    agent.out("wait", "--for=condition=Ready", "pod/db-0", "--timeout=40s")
    after = uids(agent, "db")
    assert (after["db-1"], after["db-0"] == before["db-0"]) == (before["db-1"], False)
    agent.out("delete", "statefulset", "db")
    agent.until(lambda: not pods(agent, "db"))
    agent.until(lambda: not agent.out("get", "controllerrevisions", "-l", "app=db"))


def test_a_stateful_set_takes_its_orphans_back(agent: KubectlAgent) -> None:
    apply(agent, STATEFUL, "left")
    status(agent, "statefulset/left")
    before = uids(agent, "left")
    agent.out("delete", "statefulset", "left", "--cascade=orphan")
    owners = "jsonpath={.items[*].metadata.ownerReferences}"
    everything = ("get", "pods,controllerrevisions", "-l", "app=left", "-o")
    assert agent.out(*everything, owners) == ""
    assert len(agent.out(*everything, "name").split()) == 3
    apply(agent, STATEFUL, "left")
    kinds = "jsonpath={.items[*].metadata.ownerReferences[*].kind}"
    agent.until(lambda: agent.out(*everything, kinds).split() == ["StatefulSet"] * 3)
    assert uids(agent, "left") == before
    agent.out("delete", "statefulset", "left", "--cascade=foreground", "--timeout=40s")
    assert pods(agent, "left") == []


def test_claims_are_created_for_each_pod_and_stay(agent: KubectlAgent) -> None:
    apply(agent, STATEFUL + CLAIMS.replace("  v", "  podManagementPolicy: Parallel\n  v", 1), "va")
    names = ["persistentvolumeclaim/data-va-0", "persistentvolumeclaim/data-va-1"]
    claims = ("get", "pvc", "-l", "app=va", "-o", "name")
    agent.until(lambda: agent.out(*claims).split() == names)
    agent.until(lambda: list(uids(agent, "va")) == ["va-0", "va-1"])
    described = agent.out("describe", "pod", "va-0")
    assert "ClaimName:  data-va-0" in described
    assert {
        line for line in agent.out("describe", "statefulset", "va").splitlines() if "Claim" in line
    } >= {"Volume Claims:"}
    assert "Create Claim data-va-0 Pod va-0 in StatefulSet va success" in agent.out(
        "events", "--for", "statefulset/va"
    )
    agent.out("delete", "statefulset", "va")
    agent.until(lambda: not pods(agent, "va"))
    assert agent.out(*claims).split() == names


def test_claims_go_with_pods_and_sets_if_the_policy_says_so(agent: KubectlAgent) -> None:
    policy = "  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Delete}\n"
    apply(agent, STATEFUL + policy + CLAIMS, "vp")
    status(agent, "statefulset/vp")
    claims = ("get", "pvc", "-l", "app=vp", "-o", "name")
    assert len(agent.out(*claims).split()) == 2
    agent.out("scale", "statefulset/vp", "--replicas=1")
    agent.until(lambda: agent.out(*claims).split() == ["persistentvolumeclaim/data-vp-0"])
    agent.out("scale", "statefulset/vp", "--replicas=2")
    assert status(agent, "statefulset/vp").startswith("partitioned roll out complete: 2")
    assert len(agent.out(*claims).split()) == 2
    agent.out("delete", "statefulset", "vp")
    agent.until(lambda: not agent.out(*claims))


def test_the_session_of_a_daemon_set(agent: KubectlAgent) -> None:
    assert apply(agent, DAEMON, "agent") == "daemonset.apps/agent created\n"
    rolled_out = 'daemon set "agent" successfully rolled out'
    assert status(agent, "ds/agent") == rolled_out
    agent.until(lambda: " 1 1 1 1 1 " in " ".join(agent.out("get", "ds", "agent").split()))
    assert masked(agent.out("get", "ds", "agent")) == [
        "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE",
        "agent 1 1 1 1 1 <none> AGE",
    ]
    (pod,) = pods(agent, "agent")
    name = pod["metadata"]["name"]
    assert name.startswith("agent-")
    assert pod["metadata"]["labels"]["pod-template-generation"] == "1"
    assert [toleration["key"].partition("/")[2] for toleration in pod["spec"]["tolerations"]] == [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    ]
    assert masked(agent.out("events", "--for", "daemonset/agent"))[1:] == [
        f"AGE Normal SuccessfulCreate DaemonSet/agent Created pod: {name}"
    ]
    # An update, and back.
    agent.out("set", "env", "ds/agent", "MODE=a")
    assert status(agent, "ds/agent") == rolled_out
    assert pods(agent, "agent")[-1]["spec"]["containers"][0]["env"][0]["value"] == "a"
    assert masked(agent.out("rollout", "history", "ds/agent"))[2:] == ["1 <none>", "2 <none>"]
    assert agent.out("rollout", "undo", "ds/agent") == "daemonset.apps/agent rolled back\n"
    assert status(agent, "ds/agent") == rolled_out
    assert numbers(agent, "agent") == ["2", "3"]
    # No node fits, until one has the label.
    selector = '{"spec":{"template":{"spec":{"nodeSelector":{"disk":"none"}}}}}'
    agent.out("patch", "ds", "agent", "-p", selector)
    gone = "--for=jsonpath={.status.currentNumberScheduled}=0"
    assert agent.out("wait", gone, "ds/agent", "--timeout=40s") == (
        "daemonset.apps/agent condition met\n"
    )
    assert masked(agent.out("get", "ds", "agent"))[1] == "agent 0 0 0 0 0 disk=none AGE"
    agent.out("label", "node", "n1", "disk=none")
    agent.out("wait", "--for=jsonpath={.status.numberReady}=1", "ds/agent", "--timeout=40s")
    agent.out("taint", "node", "n1", "own=x:NoExecute")
    agent.out("wait", gone, "ds/agent", "--timeout=40s")
    agent.out("taint", "node", "n1", "own-")
    agent.out("wait", "--for=jsonpath={.status.numberReady}=1", "ds/agent", "--timeout=40s")
    # Its pods stay without it, and return to it.
    before = uids(agent, "agent")
    agent.out("delete", "ds", "agent", "--cascade=orphan")
    assert uids(agent, "agent") == before
    changed = DAEMON.replace("selector:", "updateStrategy: {type: OnDelete}\n  selector:", 1)
    apply(agent, changed, "agent")
    agent.out("wait", "--for=jsonpath={.status.numberReady}=1", "ds/agent", "--timeout=40s")
    assert uids(agent, "agent") == before
    agent.out("delete", "ds", "agent")
    agent.until(lambda: not pods(agent, "agent"))


def test_a_daemon_set_with_surge_is_updated_without_a_gap(agent: KubectlAgent) -> None:
    surge = "updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n  selector:"
    apply(agent, DAEMON.replace("selector:", surge, 1), "surge")
    status(agent, "ds/surge")
    agent.out("set", "env", "ds/surge", "MODE=a")
    status(agent, "ds/surge")
    agent.until(lambda: len(pods(agent, "surge")) == 1)
    events = agent.out("events", "--for", "daemonset/surge").splitlines()[1:]
    assert [line.split()[2] for line in events] == [
        "SuccessfulCreate",
        "SuccessfulCreate",
        "SuccessfulDelete",
    ]
    agent.out("delete", "ds", "surge")
