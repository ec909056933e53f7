"""Requests, limits and QoS classes."""

from __future__ import annotations

import pytest
from pod_builders import GI, MI, ctr, make_pod, need, sidecar

from podtui.api.pod_resources import (
    amounts,
    compute_qos_class,
    is_critical,
    is_static,
    pod_limits,
    pod_requests,
    pod_resources,
    qos_class,
)


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


GUARANTEED = need("1", "1Gi", cpu="1", memory="1Gi")


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


def test_only_pod_level_resources_determine_the_class():
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    assert qos_class(make_pod(resources=resources)) == "Guaranteed"
    assert qos_class(make_pod(ctr(**GUARANTEED), resources={"limits": {"cpu": "1"}})) == (
        "Burstable"
    )


def test_a_qos_class_of_the_status_is_kept():
    assert qos_class(make_pod(ctr(**GUARANTEED), status={"qosClass": "Burstable"})) == "Burstable"


def test_hugepages_and_storage_are_counted_in_bytes():
    requests = {"hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}
    assert pod_requests(make_pod(ctr(resources={"requests": requests}))) == {
        "hugepages-2Mi": 4 * MI,
        "ephemeral-storage": GI,
    }
