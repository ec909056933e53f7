"""The cache: a pod counts once, on one node, in any order of events."""

from __future__ import annotations

from dataclasses import replace

from examples import examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from scheduler_world import a_node, a_pod

from podtui.scheduler.cache import ClusterCache
from podtui.scheduler.infos import NodeInfo, PodInfo, node_facts, pod_info

NODES = ("n1", "n2", "n3")
names = st.sampled_from("abcde")
nodes = st.sampled_from(NODES)


def info(name: str, node: str = "", cpu: str = "100m") -> PodInfo:
    return pod_info(a_pod(name, node=node, cpu=cpu))


def test_a_pod_may_be_added_before_its_node() -> None:
    cache = ClusterCache()
    cache.set_pod(info("web", "n1"))
    assert cache.snapshot().nodes == {}
    cache.set_node(node_facts(a_node("n1")))
    assert list(cache.snapshot().nodes["n1"].pods) == ["uid-web"]


def test_a_node_added_again_has_its_pods() -> None:
    cache = ClusterCache()
    cache.set_node(node_facts(a_node("n1")))
    cache.set_pod(info("web", "n1"))
    cache.remove_node("n1")
    cache.set_node(node_facts(a_node("n1")))
    assert cache.snapshot().nodes["n1"].requested == {"cpu": 100}


def test_an_assumed_pod_is_seen_as_a_new_one() -> None:
    cache = ClusterCache()
    cache.set_node(node_facts(a_node("n1")))
    waiting = info("web")
    cache.nominate(waiting, "n1")
    assumed = cache.assume(waiting, "n1")
    assert cache.snapshot().nominated == {}
    assert cache.uids == frozenset()
    assert cache.set_pod(assumed) is None
    assert cache.uids == {"uid-web"}
    assert cache.set_pod(assumed) == assumed


def test_nominations_by_priority() -> None:
    cache = ClusterCache()
    for name, priority in (("low", 1), ("high", 9)):
        cache.nominate(replace(info(name), priority=priority), "n1")
    assert [pod.name for pod in cache.less_important_on("n1", 9)] == ["low"]
    assert cache.nominated_node("uid-high") == "n1"
    cache.nominate(info("high"), "")
    assert cache.nominated_node("uid-high") == ""


class Sums(RuleBasedStateMachine):
    """The sums of each node are those of its pods."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ClusterCache()
        self.on: dict[str, str] = {}

    @rule(name=nodes, cpu=st.sampled_from(["1", "2"]))
    def set_node(self, name: str, cpu: str) -> None:
        self.cache.set_node(node_facts(a_node(name, cpu=cpu)))

    @rule(name=nodes)
    def remove_node(self, name: str) -> None:
        self.cache.remove_node(name)

    @rule(name=names, node=nodes, cpu=st.sampled_from(["100m", "250m"]))
    def set_pod(self, name: str, node: str, cpu: str) -> None:
        self.cache.set_pod(info(name, node, cpu))
        self.on[f"uid-{name}"] = node

    @rule(name=names, node=nodes)
    def assume(self, name: str, node: str) -> None:
        self.cache.assume(info(name), node)
        self.on[f"uid-{name}"] = node

    @rule(name=names)
    def remove_pod(self, name: str) -> None:
        self.cache.remove_pod(f"uid-{name}")
        self.on.pop(f"uid-{name}", None)

    @invariant()
    def sums_are_right(self) -> None:
        for name, node in self.cache.snapshot().nodes.items():
            here = {uid for uid, on in self.on.items() if on == name}
            assert node.pods.keys() == here
            fresh = NodeInfo(node.facts, node.pods.values())
            used = {key: value for key, value in node.requested.items() if value}
            assert used == fresh.requested
            assert node.scored == fresh.scored


TestSums = Sums.TestCase
TestSums.settings = examples(200, stateful_step_count=30)
