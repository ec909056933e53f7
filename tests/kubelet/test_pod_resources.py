"""Requests, cgroup values, OOM scores and QoS classes."""

from __future__ import annotations

import pytest
from pod_builders import GI, MI, ctr, make_pod, node, sidecar

from podtui.kubelet.qos import compute_qos_class, qos_class
from podtui.kubelet.resources import (
    amounts,
    container_resources,
    cpu_quota,
    cpu_shares,
    is_critical,
    is_static,
    oom_score_adj,
    pod_limits,
    pod_requests,
    pod_resources,
)
from podtui.runtime.protocol import Resources


def need(cpu="", memory="", /, **limits):
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    return {"resources": {"requests": requests, "limits": limits}}


def test_case_33_the_peak_of_init_and_the_sum_of_the_rest():
    pod = make_pod(
        ctr("a", **need("1")),
        ctr("b", **need("1")),
        init=(sidecar(**need("500m")), ctr("i", **need("2"))),
        overhead={"cpu": "250m"},
    )
    assert pod_requests(pod) == {"cpu": 2750}


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ((), 1000),
        ((ctr("i", **need("3")),), 3000),
        ((ctr("i", **need("500m")),), 1000),
        ((ctr("i", **need("2")), sidecar(**need("1"))), 2000),
        ((sidecar(**need("1")), ctr("i", **need("2"))), 3000),
        ((sidecar("s", **need("1")), sidecar("t", **need("2"))), 4000),
        ((sidecar("s", **need("1")), ctr("i", **need("1500m")), sidecar("t", **need("2"))), 4000),
    ],
)
def test_what_init_containers_add(init, expected):
    assert pod_requests(make_pod(ctr(**need("1")), init=init))["cpu"] == expected


def test_pod_level_requests_replace_what_they_name():
    pod = make_pod(
        ctr(**need("1", "1Gi")), resources={"requests": {"cpu": "3"}}, overhead={"cpu": "1"}
    )
    assert pod_requests(pod) == {"cpu": 4000, "memory": GI}


def test_limits_and_texts():
    pod = make_pod(
        ctr("a", **need("250m", "64Mi", cpu="500m")), ctr("b", **need("1", "1Gi", cpu="1"))
    )
    assert pod_limits(pod) == {"cpu": 1500}
    assert pod_resources(pod).requests == {"cpu": "1250m", "memory": "1088Mi"}
    assert pod_resources(pod).limits == {"cpu": "1500m"}


def test_resource_lists_as_numbers():
    assert amounts({"cpu": "1500m", "memory": "1Gi", "pods": "110"}) == {
        "cpu": 1500,
        "memory": GI,
        "pods": 110,
    }
    with pytest.raises(ValueError, match="quantities"):
        amounts({"cpu": "much"})


@pytest.mark.parametrize(
    ("milli", "shares"),
    [(0, 2), (1, 2), (2, 2), (250, 256), (1000, 1024), (1_000_000, 262144)],
)
def test_cpu_shares(milli, shares):
    assert cpu_shares(milli) == shares


@pytest.mark.parametrize(("milli", "quota"), [(0, 0), (5, 1000), (10, 1000), (250, 25000)])
def test_cpu_quota(milli, quota):
    assert cpu_quota(milli) == quota


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, Resources(cpu_shares=2, oom_score_adj=1000)),
        (
            need("250m", "1Gi", cpu="500m", memory="2Gi"),
            Resources(
                cpu_shares=256,
                cpu_quota=50000,
                cpu_period=100000,
                memory=2 * GI,
                oom_score_adj=750,
            ),
        ),
        # A limit stands in for the request.
        (
            need(cpu="2"),
            Resources(cpu_shares=2048, cpu_quota=200000, cpu_period=100000, oom_score_adj=999),
        ),
    ],
)
def test_container_resources(container, expected):
    pod = make_pod(ctr(**container))
    found = container_resources(pod, pod.spec.containers[0], node(memory=4 * GI).resources)
    assert found == expected


def test_pod_level_limits_hold_for_containers_without_their_own():
    pod = make_pod(
        ctr("a"), ctr("b", **need(memory="1Gi")), resources={"limits": {"memory": "2Gi"}}
    )
    view = node().resources
    memories = [container_resources(pod, one, view).memory for one in pod.spec.containers]
    assert memories == [2 * GI, GI]


GUARANTEED = need("1", "1Gi", cpu="1", memory="1Gi")


def score(pod, index=0):
    return oom_score_adj(pod, pod.spec.containers[index], 4 * GI)


def test_oom_scores():
    assert score(make_pod()) == 1000
    assert score(make_pod(ctr(**GUARANTEED))) == -997
    assert score(make_pod(ctr(**need("", "1Gi")))) == 750
    assert score(make_pod(ctr(**need("", "4Gi")))) == 3
    assert score(make_pod(ctr(**need("1")))) == 999
    assert score(make_pod(priorityClassName="system-node-critical")) == -997
    assert score(make_pod(static=False, priorityClassName="system-node-critical")) == 1000


def test_a_sidecar_is_no_likelier_to_be_killed_than_the_smallest_container():
    pod = make_pod(ctr("a", **need("", "2Gi")), ctr("b", **need("", "1Gi")), init=(sidecar(),))
    assert oom_score_adj(pod, pod.spec.initContainers[0], 4 * GI) == 750


def test_what_the_pod_asks_beyond_its_containers_is_shared():
    pod = make_pod(
        ctr("a", **need("", "1Gi")),
        ctr("b"),
        resources={"requests": {"memory": "3Gi"}},
    )
    assert (score(pod, 0), score(pod, 1)) == (500, 750)


def test_an_engine_that_may_not_lower_its_score():
    pod = make_pod(ctr(**GUARANTEED))
    view = node().resources
    found = container_resources(pod, pod.spec.containers[0], view, lower_oom=False)
    assert found.oom_score_adj == 0


def test_static_and_critical():
    assert is_static(make_pod())
    assert not is_static(make_pod(static=False))
    assert is_critical(make_pod())
    assert not is_critical(make_pod(static=False, priority=1))
    assert is_critical(make_pod(static=False, priority=2_000_000_000))


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([{}], "BestEffort"),
        ([need("0", "0")], "BestEffort"),
        ([{"resources": {"requests": {"ephemeral-storage": "1Gi"}}}], "BestEffort"),
        ([need("1")], "Burstable"),
        ([need(cpu="1", memory="1Gi")], "Burstable"),
        ([GUARANTEED], "Guaranteed"),
        ([GUARANTEED, GUARANTEED], "Guaranteed"),
        ([GUARANTEED, {}], "Burstable"),
        ([need("1", "1Gi", cpu="2", memory="1Gi")], "Burstable"),
        ([need("1000m", "1024Mi", cpu="1", memory="1Gi")], "Guaranteed"),
        ([need("1", "1Gi", cpu="1", memory="0")], "Burstable"),
    ],
)
def test_qos_classes(containers, expected):
    pod = make_pod(*(ctr(f"c{number}", **one) for number, one in enumerate(containers)))
    assert compute_qos_class(pod) == qos_class(pod) == expected


def test_init_containers_count_for_qos():
    assert qos_class(make_pod(ctr(**GUARANTEED), init=(ctr("i"),))) == "Burstable"
    assert qos_class(make_pod(ctr(**GUARANTEED), init=(ctr("i", **GUARANTEED),))) == "Guaranteed"


def test_pod_level_resources_alone_decide():
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    assert qos_class(make_pod(resources=resources)) == "Guaranteed"
    assert qos_class(make_pod(ctr(**GUARANTEED), resources={"limits": {"cpu": "1"}})) == (
        "Burstable"
    )


def test_a_class_that_the_status_names_stays():
    assert qos_class(make_pod(ctr(**GUARANTEED), status={"qosClass": "Burstable"})) == "Burstable"


def test_hugepages_and_storage_are_counted_in_bytes():
    requests = {"hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}
    assert pod_requests(make_pod(ctr(resources={"requests": requests}))) == {
        "hugepages-2Mi": 4 * MI,
        "ephemeral-storage": GI,
    }
