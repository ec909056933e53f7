"""``podtui why`` with scripted answers of the API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from why_objects import crashing_pod, make, template, unschedulable_pod

from podtui.api.insight import ConnectionAttempt, ConnectionCheck, Outcome
from podtui.api.local import (
    Diagnostic,
    Edit,
    Manifest,
    ManifestFix,
    ManifestSpec,
    ManifestState,
    ManifestStatus,
    Plan,
    Severity,
)
from podtui.api.names import CLUSTER, GROUP_VERSION
from podtui.api.v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Node,
    NodeCondition,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodStatus,
)
from podtui.cli import main
from podtui.cli import why as why_module
from podtui.cli.why import Wanted, parse_host, parse_wanted, reach, why, why_of_cluster
from podtui.errors import AgentUnavailable, ApiError, UsageError
from podtui.manifest.diagnose import read_manifest

SOCKET = Path("/nowhere.sock")
TEXT = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers:
  - {name: c, image: a:1}
"""


def pod(name: str, *, fails: bool) -> Pod:
    made = read_manifest(f"/m/{name}.yaml", TEXT.replace("NAME", name).encode(), node_name="n1")
    ended = ContainerStateTerminated(exitCode=1, reason="Error")
    waiting = ContainerStateWaiting(reason="CrashLoopBackOff")
    status = ContainerStatus(
        name="c", image="a:1", imageID="", ready=not fails, restartCount=3,
        state=ContainerState(waiting=waiting) if fails else ContainerState(),
        lastState=ContainerState(terminated=ended) if fails else ContainerState(),
    )  # fmt: skip
    ready = PodCondition(type="Ready", status=str(not fails))
    return msgspec.structs.replace(
        made.pods[0],
        status=PodStatus(phase="Running", conditions=(ready,), containerStatuses=(status,)),
    )


class Api:
    """Responses of the agent; ``log_paths`` are the requested log paths."""

    def __init__(self, *pods: Pod, log: bytes | Exception = b"one\nit broke\n") -> None:
        self.items: dict[str, list[Any]] = {
            "/api/v1/pods": list(pods),
            "/api/v1/nodes": [Node(metadata=ObjectMeta(name="n1"))],
        }
        self._log = log
        self.log_paths: list[str] = []
        self.plan = b""
        self.planned: list[tuple[str, bytes]] = []
        self.check: ConnectionCheck | Exception = ApiError(404, "NotFound", "not served")
        self.checks: list[str] = []
        """The pod and the query of each connection that is tried."""

    def json(self, socket: Path, path: str) -> Any:
        return {"items": msgspec.to_builtins(self.items.get(path, []))}

    def bytes(self, socket: Path, path: str) -> bytes:
        self.log_paths.append(path)
        if isinstance(self._log, Exception):
            raise self._log
        return self._log

    def post(self, socket: Path, path: str, body: bytes, timeout: float = 5.0) -> bytes:
        if "/connections?" in path:
            self.checks.append(path.partition("/pods/")[2])
            if isinstance(self.check, Exception):
                raise self.check
            return msgspec.json.encode(self.check)
        self.planned.append((path, body))
        return self.plan


def serve(
    monkeypatch: pytest.MonkeyPatch, *pods: Pod, log: bytes | Exception = b"one\nit broke\n"
) -> Api:
    api = Api(*pods, log=log)
    monkeypatch.setattr(why_module, "get_json", api.json)
    monkeypatch.setattr(why_module, "get_bytes", api.bytes)
    monkeypatch.setattr(why_module, "post_bytes", api.post)
    return api


def test_unhealthy_pods_are_reported_with_their_last_log_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = serve(monkeypatch, pod("bad", fails=True), pod("good", fails=False))
    text, well = why(SOCKET, None, "text")
    assert not well
    assert text.startswith("✖ bad-n1  failing\n")
    assert "Last log line: it broke" in text
    assert "good" not in text
    assert api.log_paths == ["/api/v1/namespaces/default/pods/bad-n1/log?container=c&tailLines=8"]


def test_healthy_pods_are_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, pod("good", fails=False))
    assert why(SOCKET, None, "text") == ("All pods and workloads are healthy.", True)


def test_a_log_line_shows_what_follows_its_last_carriage_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(monkeypatch, pod("bad", fails=True), log=b"10%\r50%\rit broke\r\n")
    text, _ = why(SOCKET, None, "text")
    assert "Last log line: it broke\n" in text


@pytest.mark.parametrize("wanted", ["bad", "bad-n1", "default/bad-n1", "default/bad"])
def test_a_pod_is_found_by_name_with_or_without_the_node_suffix(
    monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    serve(monkeypatch, pod("bad", fails=True), pod("good", fails=False))
    text, well = why(SOCKET, wanted, "json")
    assert not well
    assert [report["name"] for report in json.loads(text)] == ["bad-n1"]


def test_a_healthy_pod_is_reported_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, pod("bad", fails=True), pod("good", fails=False))
    text, well = why(SOCKET, "good", "text")
    assert well
    assert "It is healthy" in text


@pytest.mark.parametrize("wanted", ["none", "other/bad-n1"])
def test_a_missing_pod(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    serve(monkeypatch, pod("bad", fails=True))
    with pytest.raises(UsageError):
        why(SOCKET, wanted, "text")


def unready(api: Api, *names: str) -> None:
    """The files are read, and their node is not ready."""
    condition = NodeCondition(type="Ready", status="False", message="container runtime is down")
    status = NodeStatus(conditions=(condition,))
    api.items["/api/v1/nodes"] = [Node(metadata=ObjectMeta(name="n1"), status=status)]
    api.items[f"/apis/{GROUP_VERSION}/manifests"] = [
        Manifest(
            metadata=ObjectMeta(name=f"{name}.yaml"),
            spec=ManifestSpec(path=f"/m/{name}.yaml"),
            status=ManifestStatus(
                state=ManifestState.ACCEPTED, podNamespace="default", podName=f"{name}-n1"
            ),
        )
        for name in names
    ]


def test_pods_that_cannot_start_are_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    unready(serve(monkeypatch, pod("there", fails=False)), "new", "there")
    text, well = why(SOCKET, None, "text")
    assert not well
    seen, new = text.split("\n\n")
    assert seen.startswith(
        "▲ there-n1  running\n  The node is not ready: container runtime is down"
    )
    assert new.startswith("○ new-n1  pending\n  It waits for the node n1, which is not ready: ")


@pytest.mark.parametrize("wanted", ["new", "new-n1", "default/new", "new.yaml"])
def test_a_pod_that_cannot_start_is_found_by_name(
    monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    unready(serve(monkeypatch), "new", "newer")
    text, well = why(SOCKET, wanted, "json")
    assert not well
    assert [report["name"] for report in json.loads(text)] == ["new-n1"]


NO_HOST = 'Get "https://n1:10250/containerLogs/x": dial tcp: lookup n1: no such host'


@pytest.mark.parametrize(
    "error", [ApiError(500, "InternalError", NO_HOST), AgentUnavailable(NO_HOST)]
)
def test_a_failed_log_request_is_reported_and_is_no_output_of_the_container(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    serve(monkeypatch, pod("bad", fails=True), log=error)
    text, _ = why(SOCKET, None, "text")
    assert f"The log of c could not be read: {NO_HOST[:20]}" in text
    assert "Last log line" not in text
    assert "a service that it needs does not respond" not in text
    (report,) = json.loads(why(SOCKET, "bad", "json")[0])
    assert (report["cause"], report["logError"]) == ("Fails", NO_HOST)
    assert not [evidence for evidence in report["evidence"] if evidence["source"] == "log"]


@pytest.mark.parametrize(
    "body",
    [
        b"unable to retrieve container logs for containerd://1a2b",
        b'failed to try resolving symlinks in path "/var/log/pods/a/b/0.log": no such file\n',
    ],
)
def test_a_kubelets_message_in_place_of_a_log_is_not_container_output(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    serve(monkeypatch, pod("bad", fails=True), log=body)
    (report,) = json.loads(why(SOCKET, "bad", "json")[0])
    assert (report["cause"], report["logError"]) == ("Fails", body.decode().strip())


@pytest.mark.parametrize("code", ["UnknownField", "Invalid"])
def test_a_fix_is_offered_if_the_agent_finds_nothing_new_in_its_text(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """Only the agent knows its settings, such as kubeletStrict, and the other files."""
    before = Diagnostic(
        severity=Severity.ERROR, path="/m/a b.yaml", code="UnknownField", message=""
    )
    after = Diagnostic(severity=Severity.WARNING, path="/m/a b.yaml", code=code, message="")
    api = serve(monkeypatch, pod("bad", fails=True))
    fix = ManifestFix(title="Correct it", edits=(Edit(line=2, column=7, old="Pood", new="Pod"),))
    status = ManifestStatus(state=ManifestState.INVALID, diagnostics=(before,), fix=fix,
                            podNamespace="default", podName="bad-n1")  # fmt: skip
    spec = ManifestSpec(path="/m/a b.yaml", text="apiVersion: v1\nkind: Pood\n")
    broken = Manifest(metadata=ObjectMeta(name="a b.yaml"), spec=spec, status=status)
    api.items[f"/apis/{GROUP_VERSION}/manifests"] = [broken]
    diagnostic = before if code == before.code else after
    plan = Plan(metadata=ObjectMeta(name="a b.yaml"), path="/m/a b.yaml", diagnostics=(diagnostic,))
    api.plan = msgspec.json.encode(plan)
    (report,) = json.loads(why(SOCKET, "bad", "json")[0])
    assert [fix["title"] for fix in report["fixes"]] == ["Correct it"] * (diagnostic is before)
    assert api.planned == [
        (f"/apis/{GROUP_VERSION}/manifests/a%20b.yaml/plan", b"apiVersion: v1\nkind: Pod\n")
    ]


def test_without_an_agent_why_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "--root-dir", str(tmp_path)]) == 3
    assert "no agent is running" in capsys.readouterr().err


# --- workloads and other objects


def crashing_deployment(monkeypatch: pytest.MonkeyPatch) -> Api:
    """A Deployment of one crashing pod, beside a pod without an owner."""
    deployment = make("Deployment", "shop", spec={"replicas": 1, "template": template()},
                      status={"replicas": 1, "updatedReplicas": 1})  # fmt: skip
    owned = make("ReplicaSet", "shop-1", owner=deployment,
                 spec={"replicas": 1, "template": template()}, status={"replicas": 1})  # fmt: skip
    api = serve(monkeypatch, pod("bad", fails=True), crashing_pod("shop-1-a", owned))
    api.items["/apis/apps/v1/deployments"] = [deployment]
    api.items["/apis/apps/v1/replicasets"] = [owned]
    return api


@pytest.mark.parametrize("words", [("deploy/shop", None), ("deployment", "shop")])
def test_an_object_is_found_by_its_kind_and_name(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, str | None]
) -> None:
    crashing_deployment(monkeypatch)
    text, well = why(SOCKET, parse_wanted(*words), "text")
    assert not well
    assert text.startswith("✖ deploy/shop  failing\n")
    assert "    ✖ pod/shop-1-a  failing\n" in text
    assert "Last log line: it broke" in text


def test_everything_unhealthy_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    crashing_deployment(monkeypatch)
    text, _ = why(SOCKET, None, "json")
    reports = json.loads(text)
    assert [report["name"] for report in reports] == ["deploy/shop", "bad-n1"]
    assert reports[0]["parts"][0]["name"] == "pod/shop-1-a"


def test_a_pod_names_its_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    crashing_deployment(monkeypatch)
    text, _ = why(SOCKET, "shop-1-a", "text")
    assert "It belongs to rs/shop-1 of deploy/shop." in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("deploy/shopp", None), "there is no deployment named 'shopp'; did you mean shop?"),
        (("shop", None), "there is no pod or file named 'shop'; did you mean deploy/shop"),
        (("deploymnt", "shop"), "does not know the kind 'deploymnt'; did you mean deployment?"),
    ],
)
def test_an_unknown_name_has_a_suggestion(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, str | None], message: str
) -> None:
    crashing_deployment(monkeypatch)
    with pytest.raises(UsageError) as error:
        why(SOCKET, parse_wanted(*words), "text")
    assert message in str(error.value)


def test_a_namespace_with_the_name_of_no_kind_still_selects_a_pod() -> None:
    assert parse_wanted("default/web", None) == Wanted("default/web")
    assert parse_wanted("deploy/web", None).name == "web"
    assert parse_wanted(None, None) == Wanted()


def test_a_namespace_limits_what_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    crashing_deployment(monkeypatch)
    text, well = why(SOCKET, Wanted(namespace="other"), "text")
    assert (text, well) == ("All pods and workloads are healthy.", True)


def test_a_kind_that_an_older_agent_does_not_serve_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = serve(monkeypatch, pod("good", fails=False))
    answer = api.json

    def only_core(socket: Path, path: str) -> Any:
        if path.startswith("/apis/apps/"):
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return answer(socket, path)

    monkeypatch.setattr(why_module, "get_json", only_core)
    assert why(SOCKET, None, "text")[1]
    with pytest.raises(UsageError, match="this kind cannot be listed"):
        why(SOCKET, "deploy/web", "text")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("deploy/web", "no deployment named 'web'; MEMBER, which has its deployments"),
        ("web", "no pod or file named 'web'; MEMBER, which has the pods that are not bound to it"),
    ],
)
def test_objects_of_the_cluster_are_named_as_such(
    monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    api = serve(monkeypatch, pod("good", fails=False))
    meta = ObjectMeta(name="n1", annotations={CLUSTER: "https://c:6443"})
    api.items["/api/v1/nodes"] = [Node(metadata=meta)]
    answer = api.json

    def copies(socket: Path, path: str) -> Any:
        if path.startswith("/apis/apps/"):
            raise ApiError(404, "NotFound", "its deployments are there, not here")
        return answer(socket, path)

    monkeypatch.setattr(why_module, "get_json", copies)
    with pytest.raises(UsageError) as error:
        why(SOCKET, words, "text")
    member = "this node belongs to the cluster at https://c:6443"
    assert str(error.value) == "there is " + message.replace("MEMBER", member)


# --- connections from inside a pod


def answer(outcome: Outcome) -> ConnectionCheck:
    attempt = ConnectionAttempt(address="10.96.0.9", outcome=outcome, seconds=0.001)
    return ConnectionCheck(host="db", port=80, name="db.lan", source="10.96.0.10",
                           servers=("10.96.0.10",), addresses=("10.96.0.9",),
                           attempts=(attempt,))  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome.ACCEPTED, "db.lan is 10.96.0.9, port 80 accepted the connection in 1.0 ms"),
        (Outcome.REFUSED, "db.lan is 10.96.0.9, port 80 refused the connection"),
    ],
)
def test_a_pod_is_asked_whether_it_reaches_a_host(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome, text: str
) -> None:
    api = serve(monkeypatch, pod("good", fails=False), pod("bad", fails=True))
    api.check = answer(outcome)
    well = outcome is Outcome.ACCEPTED
    printed = f"{text}\nname servers of the pod: 10.96.0.10"
    assert reach(SOCKET, parse_wanted("good", None), "db:80", "text") == (printed, well)
    assert api.checks == ["good-n1/connections?host=db&port=80"]
    document, _ = reach(SOCKET, parse_wanted("pod/good", None), "db:80", "json")
    assert json.loads(document)["attempts"][0]["outcome"] == outcome


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (None, "--reach needs the name of a pod"),
        ("deploy/web", "--reach needs the name of a pod"),
        ("gone", "there is no single pod named 'gone'"),
    ],
)
def test_reach_needs_one_pod(
    monkeypatch: pytest.MonkeyPatch, word: str | None, message: str
) -> None:
    serve(monkeypatch, pod("good", fails=False))
    with pytest.raises(UsageError, match=message):
        reach(SOCKET, parse_wanted(word, None), "db", "text")


def test_reach_is_not_for_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "good", "--reach", "db", "--context", "kind"]) == 2
    assert "--reach does not support clusters" in capsys.readouterr().err


def test_hosts_with_and_without_ports() -> None:
    assert parse_host("db") == ("db", 0)
    assert parse_host("db:80") == ("db", 80)
    assert parse_host("[::1]:80") == ("::1", 80)
    assert parse_host("[::1]") == parse_host("::1") == ("::1", 0)
    for text in ("", ":80", "db:x", "db:70000", "[::1]80"):
        with pytest.raises(UsageError):
            parse_host(text)


def naming_pod(name: str = "shop-1") -> Pod:
    env = [{"name": "DB", "value": "http://db:80"}]
    return crashing_pod(name, spec={"containers": [{"name": "c", "image": "a:1", "env": env}]})


def test_a_failing_pod_is_asked_for_the_hosts_of_its_manifest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = serve(monkeypatch, naming_pod(), log=b"cannot connect to db\n")
    api.items["/api/v1/services"] = [make("Service", "db", spec={"ports": [{"port": 80}]})]
    api.check = answer(Outcome.REFUSED)
    text, _ = why(SOCKET, "shop-1", "text")
    assert "Asked from inside the pod: db.lan is 10.96.0.9, port 80 refused" in text
    assert api.checks == ["shop-1/connections?host=db&port=80"]
    api.check = ApiError(409, "Conflict", "the pod has no running sandbox")
    text, _ = why(SOCKET, "shop-1", "text")
    assert "This is a guess from the manifests; the pod cannot be asked: the pod has no" in text


def test_a_cluster_is_not_asked() -> None:
    pods = {"items": [msgspec.to_builtins(naming_pod())]}
    bodies = {"/pods": pods, "/services": {"items": []}}

    def ask(path: str) -> bytes:
        name = path.rpartition("default")[2]
        return json.dumps(bodies.get(name, {"items": []})).encode() if "log" not in path else b"db"

    text, _ = why_of_cluster(ask, "/api/v1/namespaces/default/pods", "shop-1", "text")
    assert "there is no Service db" in text
    assert "This is a guess from the manifests; the pod cannot be asked: this is a cluster" in text


def test_the_node_is_labelled_for_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    serve(monkeypatch, unschedulable_pod("ssd", message, nodeSelector={"disk": "ssd"}))
    patches: list[tuple[str, bytes]] = []
    monkeypatch.setattr(
        why_module, "patch_bytes", lambda socket, path, body: patches.append((path, body))
    )
    text, well = why(SOCKET, "ssd", "text", label_node=True)
    assert (text, well) == ("The node n1 has the labels disk=ssd now.", True)
    [(path, body)] = patches
    assert path == "/api/v1/nodes/n1"
    assert json.loads(body) == {"metadata": {"labels": {"disk": "ssd"}}}


def test_a_label_that_would_not_help_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, pod("bad", fails=True))
    with pytest.raises(UsageError, match="no label of the node would help"):
        why(SOCKET, "bad", "text", label_node=True)


def test_a_cluster_that_forbids_a_kind_still_explains_the_rest() -> None:
    deployment = make("Deployment", "shop", spec={"replicas": 0, "template": template()})
    pods = {"items": []}

    def ask(path: str) -> bytes:
        if path.endswith("/pods"):
            return json.dumps(pods).encode()
        if path.endswith("/deployments"):
            return msgspec.json.encode({"items": [msgspec.to_builtins(deployment)]})
        raise ApiError(403, "Forbidden", "forbidden")

    text, well = why_of_cluster(ask, "/api/v1/namespaces/shop/pods", "deploy/shop", "text")
    assert (text, well) == ("● deploy/shop  scaled to 0\n  It is scaled to 0.", True)
