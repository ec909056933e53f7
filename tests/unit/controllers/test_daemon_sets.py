"""The controller of DaemonSets: with single histories, and with many random ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import structs
from set_world import NAMESPACE, SetWorld, from_fields, node, pod_template, template

from podtui.api.apps import ControllerRevision, DaemonSet, DaemonSetUpdateStrategy
from podtui.api.objects import Object
from podtui.api.v1 import Node, ObjectMeta, Pod, PodSpec
from podtui.controllers.daemon_pods import Fit, fit, node_of, with_tolerations
from podtui.controllers.daemon_sets import FailedPods
from podtui.errors import ApiError


def a_set(pod: dict[str, Any] | None = None, **spec: Any) -> DaemonSet:
    fields = {
        "revisionHistoryLimit": 10,
        "selector": {"matchLabels": {"app": "db"}},
        "template": pod or template(),
        "updateStrategy": strategy(),
        **spec,
    }
    return from_fields(DaemonSet, "agent", spec=fields)


def strategy(kind: str = "RollingUpdate", **rolling: Any) -> dict[str, Any]:
    return {"type": kind, "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0, **rolling}}


def new_strategy(**rolling: Any) -> DaemonSetUpdateStrategy:
    return msgspec.convert(strategy(**rolling), DaemonSetUpdateStrategy)


@pytest.fixture
def world() -> Iterator[SetWorld]:
    world = SetWorld()
    yield world
    world.close()


def start(world: SetWorld, daemon_set: DaemonSet, *nodes: str) -> None:
    """Create nodes and a set, and let its pods run."""
    for name in nodes:
        world.api.put(node(name))
    world.api.put(daemon_set)
    settle(world)
    world.run(*world.pods())
    settle(world)


def settle(world: SetWorld) -> None:
    world.settle(DaemonSet, "agent")


def by_node(world: SetWorld) -> dict[str, list[Pod]]:
    """Return the pods by node, without those that are being deleted."""
    groups: dict[str, list[Pod]] = {}
    for pod in world.pods().values():
        if pod.metadata.deletionTimestamp is None:
            groups.setdefault(node_of(pod) or "", []).append(pod)
    return groups


def images(world: SetWorld) -> dict[str, list[str]]:
    groups = by_node(world)
    return {
        name: sorted(pod.spec.containers[0].image for pod in groups[name])
        for name in sorted(groups)
    }


def deleting(world: SetWorld) -> list[str]:
    return [name for name, pod in world.pods().items() if pod.metadata.deletionTimestamp]


def finish(world: SetWorld) -> None:
    """End the pods that are being deleted, and let new ones run."""
    world.end(*deleting(world))
    settle(world)
    world.run(*(name for name, pod in world.pods().items() if pod.status.phase == "Pending"))
    settle(world)


# --- nodes


@pytest.mark.parametrize(
    ("spec", "the_node", "expected"),
    [
        ({}, node("n"), Fit.RUNS),
        ({"nodeName": "other"}, node("n"), Fit.LEAVES),
        ({"nodeName": "n"}, node("n"), Fit.RUNS),
        ({"nodeSelector": {"disk": "ssd"}}, node("n"), Fit.LEAVES),
        ({"nodeSelector": {"disk": "ssd"}}, node("n", disk="ssd"), Fit.RUNS),
        ({}, node("n", ("own", "NoSchedule")), Fit.STAYS),
        ({}, node("n", ("own", "NoExecute")), Fit.LEAVES),
        ({}, node("n", ("own", "PreferNoSchedule")), Fit.RUNS),
        ({"tolerations": [{"operator": "Exists"}]}, node("n", ("own", "NoExecute")), Fit.RUNS),
        ({}, node("n", ("node.kubernetes.io/unschedulable", "NoSchedule")), Fit.RUNS),
        ({}, node("n", ("node.kubernetes.io/not-ready", "NoExecute")), Fit.RUNS),
        ({}, node("n", ("node.kubernetes.io/network-unavailable", "NoSchedule")), Fit.STAYS),
        (
            {"hostNetwork": True},
            node("n", ("node.kubernetes.io/network-unavailable", "NoSchedule")),
            Fit.RUNS,
        ),
    ],
)
def test_a_node_fits_by_selector_affinity_and_taints(
    spec: dict[str, Any], the_node: Node, expected: Fit
) -> None:
    assert fit(a_set(template(**spec)), the_node) is expected


def test_the_own_tolerations_replace_those_of_the_template() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    spec = msgspec.convert(
        {"containers": [], "tolerations": [{**own, "tolerationSeconds": 9}]}, PodSpec
    )
    tolerations = with_tolerations(spec).tolerations
    assert [toleration.key.partition("/")[2] for toleration in tolerations] == [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    ]
    assert all(toleration.tolerationSeconds is None for toleration in tolerations)
    assert with_tolerations(with_tolerations(spec)) == with_tolerations(spec)


def test_a_pod_is_made_for_each_node(world: SetWorld) -> None:
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    daemon_set = a_set(template(affinity=affinity))
    meta = structs.replace(
        daemon_set.metadata, annotations={"deprecated.daemonset.template.generation": "3"}
    )
    start(world, structs.replace(daemon_set, metadata=meta), "n1", "n2")
    assert sorted(by_node(world)) == ["n1", "n2"]
    (pod,) = by_node(world)["n1"]
    (revision,) = world.cache.list(ControllerRevision)
    value = revision.metadata.labels["controller-revision-hash"]
    assert revision.metadata.name == f"agent-{value}"
    assert pod.metadata.labels == {
        "app": "db",
        "controller-revision-hash": value,
        "pod-template-generation": "3",
    }
    assert pod.spec.nodeName == ""
    assert msgspec.to_builtins(pod.spec.affinity) == {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": (
                    {
                        "matchFields": (
                            {"key": "metadata.name", "operator": "In", "values": ("n1",)},
                        )
                    },
                )
            }
        }
    }
    assert world.messages() == [f"Created pod: {name}" for name in world.pods()]


def test_the_status_counts_nodes(world: SetWorld) -> None:
    start(world, a_set(minReadySeconds=5), "n1", "n2")
    assert world.sync(DaemonSet, "agent") == 5
    status = world.get(DaemonSet, "agent").status
    assert (status.desiredNumberScheduled, status.currentNumberScheduled) == (2, 2)
    assert (status.numberReady, status.numberAvailable, status.numberUnavailable) == (2, None, 2)
    assert (status.updatedNumberScheduled, status.numberMisscheduled) == (2, 0)
    assert status.observedGeneration == 1
    world.clock.seconds += 5
    settle(world)
    status = world.get(DaemonSet, "agent").status
    assert (status.numberAvailable, status.numberUnavailable) == (2, None)


def test_pods_follow_the_nodes(world: SetWorld) -> None:
    start(world, a_set(), "n1", "n2")
    world.api.put(node("n3"))
    settle(world)
    assert sorted(by_node(world)) == ["n1", "n2", "n3"]
    n1 = world.get(Node, "n1")
    taints = node("n1", ("own", "NoSchedule")).spec.taints
    world.api.put(structs.replace(n1, spec=structs.replace(n1.spec, taints=taints)))
    settle(world)
    status = world.get(DaemonSet, "agent").status
    assert (status.desiredNumberScheduled, status.numberMisscheduled) == (2, 1)
    assert deleting(world) == []
    world.change(DaemonSet, "agent", template=pod_template(nodeSelector={"disk": "none"}))
    settle(world)
    assert by_node(world) == {}


def test_a_change_of_a_node_wakes_the_set_if_it_can_matter(world: SetWorld) -> None:
    start(world, a_set(), "n1")
    keys = world.keys(DaemonSet, Node)
    key = [(NAMESPACE, "agent")]
    n1 = world.get(Node, "n1")
    assert [*keys(n1)] == key
    assert [*keys(n1)] == []
    world.api.put(structs.replace(n1, status=structs.replace(n1.status, images=())))
    assert [*keys(n1)] == []
    labelled = structs.replace(n1.metadata, labels={"a": "b"})
    assert [*keys(world.api.put(structs.replace(n1, metadata=labelled)))] == key
    world.cache.remove(n1)
    assert [*keys(n1)] == key


def test_a_pending_pod_of_a_node_that_is_gone_is_deleted(world: SetWorld) -> None:
    start(world, a_set(), "n1", "n2")
    world.cache.remove(world.get(Node, "n2"))
    settle(world)
    assert sorted(by_node(world)) == ["n1"]


# --- pods that have ended


def test_a_failed_pod_is_replaced_after_a_back_off(world: SetWorld) -> None:
    start(world, a_set(), "n1")
    (name,) = world.pods()
    world.fail(name)
    settle(world)
    (second,) = world.pods()
    assert second != name
    assert (
        "Warning",
        "FailedDaemonPod",
        f"Found failed daemon pod {NAMESPACE}/{name} on node n1, will try to kill it",
    ) in world.recorder.events
    world.fail(second)
    assert world.sync(DaemonSet, "agent") == 1
    assert list(world.pods()) == [second]
    world.clock.seconds += 1
    settle(world)
    assert list(world.pods()) != [second]


def test_a_pod_that_has_succeeded_is_replaced_at_once(world: SetWorld) -> None:
    start(world, a_set(), "n1")
    (name,) = world.pods()
    world.fail(name, "Succeeded")
    settle(world)
    assert list(world.pods()) != [name]
    assert (
        "Normal",
        "SucceededDaemonPod",
        f"Found succeeded daemon pod {NAMESPACE}/{name} on node n1, will try to delete it",
    ) in world.recorder.events


def test_the_back_off_doubles_up_to_a_quarter_of_an_hour() -> None:
    now = 0.0
    failed = FailedPods(lambda: now)
    delays: list[float] = []
    for _ in range(12):
        failed.count("k")
        delays.append(failed.seconds_left("k"))
        now += delays[-1]
    assert delays[:4] == [1, 2, 4, 8]
    assert delays[-1] == 900
    now += 2000
    failed.count("k")
    assert failed.seconds_left("k") == 1
    assert failed.seconds_left("other") == 0


def test_a_pod_that_cannot_be_created_is_an_event(world: SetWorld) -> None:
    def refuse(verb: str, item: Object) -> None:
        if isinstance(item, Pod):
            raise ApiError(403, "Forbidden", "exceeded quota: q")

    world.api.before = refuse
    world.api.put(node("n1"))
    world.api.put(a_set())
    with pytest.raises(ApiError):
        world.sync(DaemonSet, "agent")
    assert world.messages() == ["Error creating: exceeded quota: q"]
    assert world.get(DaemonSet, "agent").status.desiredNumberScheduled == 1


# --- updates


@pytest.mark.parametrize(("allowed", "expected"), [(1, 1), (2, 2), ("50%", 2), ("30%", 2), (9, 4)])
def test_an_update_in_place_deletes_as_many_pods_as_may_be_missing(
    world: SetWorld, allowed: int | str, expected: int
) -> None:
    start(world, a_set(updateStrategy=strategy(maxUnavailable=allowed)), "a", "b", "c", "d")
    world.change(DaemonSet, "agent", template=pod_template("b"))
    settle(world)
    assert len(deleting(world)) == expected
    world.end(*deleting(world))
    settle(world)
    assert deleting(world) == []
    for _ in range(4):
        finish(world)
    assert images(world) == {name: ["b"] for name in "abcd"}


def test_an_old_pod_that_is_not_available_is_replaced_first(world: SetWorld) -> None:
    start(world, a_set(), "a", "b", "c")
    (broken,) = by_node(world)["c"]
    world.stop(broken.metadata.name)
    world.change(DaemonSet, "agent", template=pod_template("b"))
    settle(world)
    assert deleting(world) == [broken.metadata.name]


def test_an_update_with_surge_waits_for_the_new_pod(world: SetWorld) -> None:
    surge = strategy(maxSurge=1, maxUnavailable=0)
    start(world, a_set(updateStrategy=surge), "a", "b")
    world.change(DaemonSet, "agent", template=pod_template("b"))
    settle(world)
    assert images(world) == {"a": ["a", "b"], "b": ["a"]}
    assert deleting(world) == []
    finish(world)
    assert images(world) == {"a": ["b"], "b": ["a", "b"]}
    finish(world)
    finish(world)
    assert images(world) == {"a": ["b"], "b": ["b"]}


def test_a_pod_beside_an_old_one_that_breaks_replaces_it(world: SetWorld) -> None:
    start(world, a_set(updateStrategy=strategy(maxSurge=1, maxUnavailable=0)), "a")
    (old,) = world.pods()
    world.change(DaemonSet, "agent", template=pod_template("b"))
    settle(world)
    assert deleting(world) == []
    world.stop(old)
    settle(world)
    assert deleting(world) == [old]


def taint(world: SetWorld, name: str, effect: str = "NoSchedule") -> None:
    item = world.get(Node, name)
    taints = node(name, ("own", effect)).spec.taints
    world.api.put(structs.replace(item, spec=structs.replace(item.spec, taints=taints)))


def test_an_update_with_surge_adds_pods_beside_all_broken_ones(world: SetWorld) -> None:
    start(world, a_set(updateStrategy=strategy(maxSurge=1, maxUnavailable=0)), "a", "b", "c")
    for name in "ab":
        world.stop(by_node(world)[name][0].metadata.name)
    world.change(DaemonSet, "agent", template=pod_template("b"))
    world.sync(DaemonSet, "agent")
    assert images(world) == {"a": ["a", "b"], "b": ["a", "b"], "c": ["a", "b"]}


def test_a_pod_serves_on_a_tainted_node_until_enough_others_do(world: SetWorld) -> None:
    start(world, a_set(updateStrategy=strategy(maxSurge=1, maxUnavailable=0)), "a", "b")
    world.stop(by_node(world)["b"][0].metadata.name)
    taint(world, "a")
    world.change(DaemonSet, "agent", template=pod_template("b"))
    settle(world)
    assert images(world)["a"] == ["a"]
    finish(world)
    assert images(world) == {"b": ["b"]}


def test_a_set_with_surge_creates_no_pod_on_a_tainted_node(world: SetWorld) -> None:
    start(world, a_set(updateStrategy=strategy(maxSurge=1, maxUnavailable=0)), "a", "b")
    taint(world, "a")
    for pods in by_node(world).values():
        world.delete(pods[0].metadata.name)
    settle(world)
    assert sorted(by_node(world)) == ["b"]


def test_a_set_with_surge_creates_no_pod_beside_a_failed_one_in_back_off(world: SetWorld) -> None:
    start(world, a_set(updateStrategy=strategy(maxSurge=1, maxUnavailable=0)), "a")
    for _ in range(3):
        world.fail(*world.pods())
        settle(world)
    assert len(world.pods()) == 1


def test_on_delete_waits_for_the_user(world: SetWorld) -> None:
    start(world, a_set(updateStrategy={"type": "OnDelete"}), "a", "b")
    world.change(DaemonSet, "agent", template=pod_template("b"))
    settle(world)
    assert images(world) == {"a": ["a"], "b": ["a"]}
    world.delete(by_node(world)["a"][0].metadata.name)
    finish(world)
    assert images(world) == {"a": ["b"], "b": ["a"]}


# --- revisions and owners


def test_a_template_that_returns_gets_the_next_number(world: SetWorld) -> None:
    start(world, a_set(), "a")
    for image in ("b", "a"):
        world.change(DaemonSet, "agent", template=pod_template(image))
        settle(world)
    numbers = sorted(item.revision for item in world.cache.list(ControllerRevision))
    assert numbers == [2, 3]


def test_old_revisions_are_deleted_unless_pods_have_them(world: SetWorld) -> None:
    daemon_set = a_set(updateStrategy={"type": "OnDelete"}, revisionHistoryLimit=1)
    start(world, daemon_set, "a")
    for number in range(5):
        world.change(DaemonSet, "agent", template=pod_template(f"i{number}"))
        settle(world)
    numbers = sorted(item.revision for item in world.cache.list(ControllerRevision))
    assert numbers == [1, 6]


def test_equal_revisions_are_merged(world: SetWorld) -> None:
    start(world, a_set(), "a")
    (revision,) = world.cache.list(ControllerRevision)
    meta = structs.replace(
        revision.metadata,
        name="agent-other",
        uid="",
        labels={**revision.metadata.labels, "controller-revision-hash": "other"},
    )
    world.api.put(structs.replace(revision, metadata=meta, revision=2))
    settle(world)
    (left,) = world.cache.list(ControllerRevision)
    assert (left.metadata.name, left.revision) == ("agent-other", 2)
    (pod,) = world.pods().values()
    assert pod.metadata.labels["controller-revision-hash"] == "other"
    assert not deleting(world)


def test_pods_are_adopted_by_labels(world: SetWorld) -> None:
    spec = pod_template().spec
    meta = ObjectMeta(name="own", namespace=NAMESPACE, labels={"app": "db"})
    world.api.put(Pod(metadata=meta, spec=structs.replace(spec, nodeName="a")))
    start(world, a_set(updateStrategy={"type": "OnDelete"}), "a")
    assert list(world.pods()) == ["own"]
    (owner,) = world.pods()["own"].metadata.ownerReferences
    assert owner.name == "agent"


@pytest.mark.parametrize(("surge", "left"), [(0, ["p1"]), (1, ["p1"])])
def test_the_oldest_of_several_pods_on_a_node_stays(
    world: SetWorld, surge: int, left: list[str]
) -> None:
    start(world, a_set(updateStrategy=strategy(maxSurge=surge)), "a")
    (first,) = world.pods().values()
    for name in ("p2", "p1", "p3"):
        meta = structs.replace(
            first.metadata,
            name=name,
            uid=name,
            creationTimestamp=f"2026-01-0{name[1]}T00:00:00Z",
        )
        world.api.put(structs.replace(first, metadata=meta))
    world.cache.remove(first)
    settle(world)
    assert [pods[0].metadata.name for pods in by_node(world).values()] == left
    assert len(deleting(world)) == 2


def test_a_scheduled_pod_of_a_node_that_is_gone_is_left_to_the_pod_collection(
    world: SetWorld,
) -> None:
    start(world, a_set(), "n1")
    (pod,) = world.pods().values()
    world.api.put(structs.replace(pod, spec=structs.replace(pod.spec, nodeName="n1")))
    world.cache.remove(world.get(Node, "n1"))
    settle(world)
    assert not deleting(world)


def test_a_pod_that_has_ended_but_stays_is_not_waited_for(world: SetWorld) -> None:
    start(world, a_set(), "n1")
    (pod,) = world.pods().values()
    world.delete(pod.metadata.name)
    settle(world)
    assert len(world.pods()) == 1
    world.fail(pod.metadata.name, "Succeeded")
    settle(world)
    assert len(world.pods()) == 2


def test_no_pod_is_created_for_a_set_that_is_deleted_meanwhile(world: SetWorld) -> None:
    start(world, a_set(), "n1")
    item = world.get(DaemonSet, "agent")
    meta = structs.replace(item.metadata, deletionTimestamp="2026-01-02T00:00:00Z")
    world.api.newer["agent"] = structs.replace(item, metadata=meta)
    world.end(*world.pods())
    world.sync(DaemonSet, "agent")
    assert world.pods() == {}


def test_a_set_that_selects_all_pods_is_refused(world: SetWorld) -> None:
    start(world, a_set(selector={}), "a")
    assert {reason for _, reason, _ in world.recorder.events} == {"SelectingAll"}
    assert world.pods() == {}


# --- random histories


class Histories(RuleBasedStateMachine):
    """What users, nodes and kubelets do in any order. `check` sees each write of the controller."""

    NODES = ("a", "b", "c")

    @initialize(surge=st.booleans(), limit=st.integers(1, 3))
    def begin(self, surge: bool, limit: int) -> None:
        self.surge = limit if surge else 0
        self.unavailable = 0 if surge else limit
        self.world = SetWorld()
        for name in self.NODES:
            self.world.api.put(node(name))
        update = strategy(maxSurge=self.surge, maxUnavailable=self.unavailable)
        self.world.api.put(a_set(updateStrategy=update))
        self.world.api.before = self.check
        settle(self.world)

    def check(self, verb: str, item: Object) -> None:
        if not isinstance(item, Pod):
            return
        pods = self.world.pods()
        if verb == "create":
            target = node_of(item)
            assert self.world.cache.get(Node, "", target or "") is not None
            same = [
                pod
                for pod in by_node(self.world).get(target or "", [])
                if pod.status.phase not in ("Failed", "Succeeded")
            ]
            assert len(same) <= (1 if self.surge else 0)
        if verb == "delete":
            assert pods[item.metadata.name].metadata.deletionTimestamp is None

    @invariant()
    def no_node_has_too_many_pods(self) -> None:
        for pods in by_node(self.world).values():
            assert len(pods) <= (2 if self.surge else 1)

    @rule(data=st.data(), action=st.sampled_from(["run", "stop", "fail", "end", "delete"]))
    def pod(self, data: st.DataObject, action: str) -> None:
        if not self.world.pods():
            return
        name = data.draw(st.sampled_from(sorted(self.world.pods())))
        pod = self.world.pods()[name]
        if pod.metadata.deletionTimestamp is not None or action == "end":
            self.world.end(name)
        elif action == "run" and pod.status.phase == "Pending":
            self.world.run(name)
        elif action == "stop":
            self.world.stop(name)
        elif action == "fail":
            self.world.fail(name)
        elif action == "delete":
            self.world.delete(name)
        settle(self.world)

    @rule(image=st.sampled_from("xyz"))
    def update(self, image: str) -> None:
        available = self.available()
        self.world.change(DaemonSet, "agent", template=pod_template(image))
        settle(self.world)
        nodes = len(self.world.cache.list(Node))
        # An update takes no more available pods than the strategy allows.
        assert self.available() >= min(available, nodes - self.unavailable)

    def available(self) -> int:
        return sum(
            any(pod.status.phase == "Running" and pod.status.conditions for pod in pods)
            for pods in by_node(self.world).values()
        )

    @rule(name=st.sampled_from(NODES))
    def toggle_node(self, name: str) -> None:
        existing = self.world.cache.get(Node, "", name)
        if existing is None:
            self.world.api.put(node(name))
        else:
            self.world.cache.remove(existing)
            for pod in by_node(self.world).get(name, []):
                self.world.end(pod.metadata.name)
        settle(self.world)

    def teardown(self) -> None:
        """Let everything run: there is one pod of the last template on each node."""
        try:
            for _ in range(20):
                self.world.clock.seconds += 1000
                finish(self.world)
                self.world.run(*(pod for pod in self.world.pods() if pod not in self.failed()))
                settle(self.world)
            image = self.world.get(DaemonSet, "agent").spec.template.spec.containers[0].image
            names = {item.metadata.name for item in self.world.cache.list(Node)}
            assert images(self.world) == {name: [image] for name in sorted(names)}
            assert self.world.get(DaemonSet, "agent").status.numberReady == len(names)
        finally:
            self.world.close()

    def failed(self) -> set[str]:
        return {name for name, pod in self.world.pods().items() if pod.status.phase == "Failed"}


TestHistories = Histories.TestCase
TestHistories.settings = examples(150, stateful_step_count=25)
