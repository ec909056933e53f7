"""Conversion of resource amounts to cgroup values and OOM scores (kubelet.md §13.1-13.3)."""

from __future__ import annotations

import pytest
from kubelet_settings import default_config
from pod_builders import GI, MI, ctr, make_pod, need, node, sidecar

from podtui.kubelet.containers.cgroups import (
    CgroupRules,
    cgroup_rules,
    container_resources,
    cpu_quota,
    cpu_shares,
    oom_score_adj,
    quota_as_milli,
    shares_as_milli,
)
from podtui.runtime.protocol import Resources

GUARANTEED = need("1", "1Gi", cpu="1", memory="1Gi")


def held(pod, index=0, rules=None):
    return container_resources(
        pod, pod.spec.containers[index], node(memory=4 * GI).resources, rules
    )


@pytest.mark.parametrize(
    ("milli", "shares"),
    [
        (0, 2),
        (1, 2),
        (2, 2),
        (3, 3),
        (100, 102),
        (250, 256),
        (1000, 1024),
        (255_999, 262_142),
        (256_000, 262_144),
        (1_000_000, 262_144),
    ],
)
def test_cpu_shares(milli, shares):
    assert cpu_shares(milli) == shares


@pytest.mark.parametrize("milli", [3, 100, 250, 333, 1000, 1500, 64_000])
def test_the_request_is_derived_from_shares(milli):
    assert shares_as_milli(cpu_shares(milli)) == milli


@pytest.mark.parametrize(
    ("milli", "period", "quota"),
    [
        (0, 100_000, 0),
        (1, 100_000, 1000),
        (10, 100_000, 1000),
        (11, 100_000, 1100),
        (250, 100_000, 25_000),
        (1500, 100_000, 150_000),
        (250, 20_000, 5000),
        (10, 20_000, 1000),
        (1, 1_000_000, 1000),
    ],
)
def test_cpu_quota(milli, period, quota):
    assert cpu_quota(milli, period) == quota


@pytest.mark.parametrize(
    ("quota", "period", "milli"),
    [(0, 0, 0), (-1, 100_000, 0), (25_000, 100_000, 250), (150_000, 100_000, 1500), (1000, 0, 0)],
)
def test_the_limit_is_derived_from_the_quota(quota, period, milli):
    assert quota_as_milli(quota, period) == milli


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, Resources(cpu_shares=2, oom_score_adj=1000)),
        (
            need("250m", "1Gi", cpu="500m", memory="2Gi"),
            Resources(
                cpu_shares=256,
                cpu_quota=50_000,
                cpu_period=100_000,
                memory=2 * GI,
                oom_score_adj=750,
            ),
        ),
        # A limit replaces a missing request.
        (
            need(cpu="2"),
            Resources(cpu_shares=2048, cpu_quota=200_000, cpu_period=100_000, oom_score_adj=999),
        ),
        # A request of zero counts as a request.
        (
            need("0", cpu="2"),
            Resources(cpu_shares=2, cpu_quota=200_000, cpu_period=100_000, oom_score_adj=999),
        ),
        # A limit of zero means no limit.
        (need("1", cpu="0", memory="0"), Resources(cpu_shares=1024, oom_score_adj=999)),
    ],
)
def test_container_resources(container, expected):
    assert held(make_pod(ctr(**container))) == expected


def test_the_settings_select_how_limits_are_enforced():
    pod = make_pod(ctr(**need("1", cpu="500m")))
    plain = cgroup_rules(default_config())
    assert plain == CgroupRules()
    without = cgroup_rules(default_config(cpu_cfs_quota=False))
    assert (held(pod, rules=without).cpu_quota, held(pod, rules=without).cpu_period) == (0, 0)
    assert held(pod, rules=without).cpu_shares == 1024
    short = cgroup_rules(default_config(cpu_cfs_quota_period=0.02))
    assert (held(pod, rules=short).cpu_quota, held(pod, rules=short).cpu_period) == (10_000, 20_000)


@pytest.mark.parametrize(("limit", "pids"), [(-1, 0), (0, 0), (100, 100)])
def test_pod_pids_limit_holds_for_each_container(limit, pids):
    rules = cgroup_rules(default_config(pod_pids_limit=limit))
    assert held(make_pod(), rules=rules).pids == pids


@pytest.mark.parametrize(
    ("container", "cpu", "memory"),
    [
        ({}, 200_000, 2 * GI),
        (need(memory="1Gi"), 200_000, GI),
        (need(cpu="1"), 100_000, 2 * GI),
        (need(cpu="0", memory="0"), 200_000, 2 * GI),
    ],
)
def test_pod_level_limits_hold_for_containers_without_their_own(container, cpu, memory):
    pod = make_pod(ctr(**container), resources={"limits": {"cpu": "2", "memory": "2Gi"}})
    assert (held(pod).cpu_quota, held(pod).memory) == (cpu, memory)


def score(pod, index=0, capacity=4 * GI):
    return oom_score_adj(pod, pod.spec.containers[index], capacity)


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, 1000),
        (GUARANTEED, -997),
        (need("1"), 999),
        (need("", "1"), 999),
        (need("", "4Mi"), 999),
        (need("", "8Mi"), 999),
        (need("", "9Mi"), 998),
        (need("", "1Gi"), 750),
        (need("", "4Gi"), 3),
        (need("", "9Gi"), 3),
    ],
)
def test_oom_scores(container, expected):
    assert score(make_pod(ctr(**container))) == expected


def test_node_critical_pods_are_killed_last():
    assert score(make_pod(priorityClassName="system-node-critical")) == -997
    assert score(make_pod(priorityClassName="system-cluster-critical")) == 1000
    # A manifest has only the class name, which has no effect on a pod that is not critical.
    assert score(make_pod(static=False, priorityClassName="system-node-critical")) == 1000


@pytest.mark.parametrize(
    ("own", "expected"), [(need("", "512Mi"), 750), (need("", "2Gi"), 500), ({}, 750)]
)
def test_a_sidecars_oom_score_is_at_most_that_of_the_smallest_container(own, expected):
    pod = make_pod(ctr("a", **need("", "2Gi")), ctr("b", **need("", "1Gi")), init=(sidecar(**own),))
    assert oom_score_adj(pod, pod.spec.initContainers[0], 4 * GI) == expected


def test_pod_requests_beyond_the_containers_are_shared():
    pod = make_pod(ctr("a", **need("", "1Gi")), ctr("b"), resources={"requests": {"memory": "3Gi"}})
    assert (score(pod, 0), score(pod, 1)) == (500, 750)


def test_init_containers_count_with_their_peak_request():
    pod = make_pod(
        ctr("a", **need("", "1Gi")),
        init=(ctr("i", **need("", "1Gi")),),
        resources={"requests": {"memory": "3Gi"}},
    )
    # They never run together: 1Gi of the 3 is used, and each gets one of the other two.
    assert score(pod) == 500


def test_only_pod_level_cpu_shares_no_memory():
    pod = make_pod(ctr("a", **need("", "1Gi")), resources={"requests": {"cpu": "3"}})
    assert score(pod) == 750


def test_an_engine_that_may_not_lower_its_score():
    pod = make_pod(ctr(**GUARANTEED))
    assert held(pod, rules=CgroupRules(lower_oom=False)).oom_score_adj == 0
    burstable = make_pod(ctr(**need("", "64Mi")))
    before = held(burstable).oom_score_adj
    assert held(burstable, rules=CgroupRules(lower_oom=False)).oom_score_adj == before > 0


def test_a_node_with_unknown_memory():
    assert score(make_pod(ctr(**need("", str(MI)))), capacity=0) == 1000
