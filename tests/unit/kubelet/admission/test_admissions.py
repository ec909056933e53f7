"""Admission, preemption, sysctls and node affinity."""

from __future__ import annotations

import msgspec
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import GI, MI, ctr, make_pod, node, sidecar

from podtui.api.pod_resources import pod_requests
from podtui.api.selectors import node_matches
from podtui.kubelet.admission import admissions
from podtui.kubelet.admission.admissions import AdmittedPods
from podtui.kubelet.admission.predicates import admit
from podtui.kubelet.admission.preemption import preempt
from podtui.kubelet.sandbox.sandbox import forbidden_sysctl, normalized
from podtui.kubelet.types import AdmitResult

PREFIX = (
    "Unexpected error while attempting to recover from admission failure: preemption: error"
    " finding a set of pods to preempt: no set of running pods found to reclaim resources: "
)


def pod_with(cpu: str = "", memory: str = "", uid: str = "u1", **fields):
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    return make_pod(ctr(resources={"requests": requests}), uid=uid, name=f"{uid}-n1", **fields)


def with_ports(*ports, uid="u1", **fields):
    return make_pod(ctr(ports=list(ports)), uid=uid, name=uid, **fields)


def test_a_pod_that_fits():
    assert admit(pod_with("1", "1Gi"), node(), [pod_with("1", "1Gi", "u2")]) == AdmitResult(
        admitted=True
    )


def test_golden_outofcpu():
    verdict = admit(pod_with("64"), node(cpu=2000), [])
    assert verdict.reason == "UnexpectedAdmissionError"
    assert verdict.message == PREFIX + "[(res: cpu, q: 62000), ]"
    assert verdict.lacks == (("cpu", 64000, 0, 2000),)
    assert not verdict.admitted


def test_case_26_too_much_memory():
    verdict = admit(pod_with(memory="8Gi"), node(memory=4 * GI), [])
    assert verdict.message == PREFIX + f"[(res: memory, q: {4 * GI}), ]"


def test_cpu_and_memory_are_named_if_both_are_insufficient():
    verdict = admit(pod_with("3", "5Gi"), node(cpu=2000, memory=4 * GI), [])
    assert verdict.message == PREFIX + f"[(res: cpu, q: 1000), (res: memory, q: {GI}), ]"


def test_case_27_static_pods_without_priorities_are_not_preempted():
    verdict = admit(pod_with("2", uid="b"), node(), [pod_with("1", uid="a")])
    assert verdict.message == PREFIX + "[(res: cpu, q: 1000), ]"
    assert verdict.lacks == (("cpu", 2000, 1000, 2000),)


def test_case_27_a_higher_priority_wins():
    low = pod_with("2", uid="a", priority=1)
    verdict = admit(pod_with("1", uid="b", priority=100), node(), [low])
    assert (verdict.admitted, verdict.preempt) == (True, ("a",))
    assert not admit(pod_with("1", uid="b", priority=1), node(), [low]).admitted
    assert not admit(pod_with("1", uid="b"), node(), [low]).admitted


def test_non_critical_pods_are_preempted_by_static_ones():
    api = pod_with("2", uid="a", static=False)
    assert admit(pod_with("1", uid="b"), node(), [api]).preempt == ("a",)


def test_a_non_critical_pod_is_rejected_with_the_missing_resources():
    verdict = admit(pod_with("3", static=False), node(), [pod_with("500m", uid="a")])
    assert (verdict.reason, verdict.message) == (
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 3000, used: 500, capacity: 2000",
    )


@pytest.mark.parametrize(
    ("resource", "reason"),
    [("memory", "OutOfmemory"), ("ephemeral-storage", "OutOfephemeral-storage")],
)
def test_reasons_of_other_resources(resource, reason):
    pod = make_pod(ctr(resources={"requests": {resource: "900Gi"}}), static=False)
    assert admit(pod, node(), []).reason == reason


def test_case_32_no_room_for_another_pod():
    static = admit(make_pod(uid="b"), node(pods=1), [make_pod(uid="a")])
    assert static.reason == "UnexpectedAdmissionError"
    assert static.message == PREFIX + "[(res: pods, q: 1), ]"
    api = admit(make_pod(uid="b", static=False), node(pods=1), [make_pod(uid="a")])
    assert (api.reason, api.message) == (
        "OutOfpods",
        "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1",
    )


def test_the_pod_itself_does_not_count_against_it():
    pod = pod_with("2")
    assert admit(pod, node(pods=1), [pod]).admitted


def test_a_pod_without_requests_fits_a_full_node():
    assert admit(make_pod(uid="b"), node(), [pod_with("2", uid="a")]).admitted


def test_unknown_extended_resources_are_ignored():
    pod = make_pod(ctr(resources={"requests": {"example.com/gpu": "1", "cpu": "1"}}))
    assert admit(pod, node(), []).admitted
    pages = make_pod(ctr(resources={"requests": {"hugepages-2Mi": "4Mi"}}), static=False)
    assert admit(pages, node(), []).reason == "OutOfhugepages-2Mi"


TAKEN = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ({}, {}, True),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, False),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.1"}, True),
        ({"hostIP": "10.0.0.1"}, {}, True),
        ({}, {"hostIP": "10.0.0.1"}, True),
        ({"hostIP": "0.0.0.0"}, {"hostIP": "10.0.0.1"}, True),
        ({"protocol": "TCP"}, {"protocol": "UDP"}, False),
        ({"protocol": "TCP"}, {}, True),
        ({}, {"hostPort": 8081}, False),
        ({}, {"hostPort": 0}, False),
    ],
)
def test_case_28_host_ports(first, second, clash):
    base = {"containerPort": 80, "hostPort": 8080}
    verdict = admit(with_ports(base | second, uid="b"), node(), [with_ports(base | first, uid="a")])
    assert verdict.admitted is not clash
    if clash:
        assert (verdict.reason, verdict.message) == ("NodePorts", TAKEN)


def test_ports_of_sidecars_count_and_of_plain_init_containers_do_not():
    port = [{"containerPort": 80, "hostPort": 8080}]
    taken = make_pod(init=(sidecar(ports=port),), uid="a")
    assert not admit(with_ports(*port, uid="b"), node(), [taken]).admitted
    free = make_pod(init=(ctr("i", ports=port),), uid="a")
    assert admit(with_ports(*port, uid="b"), node(), [free]).admitted


def test_case_30_node_selector_and_os():
    verdict = admit(make_pod(nodeSelector={"disk": "ssd"}), node(), [])
    assert (verdict.reason, verdict.message) == (
        "NodeAffinity",
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    )
    windows = admit(make_pod(os={"name": "windows"}), node(), [])
    assert (windows.reason, windows.message) == (
        "PodOSNotSupported",
        "Failed to admit pod as the OS field doesn't match node OS",
    )
    label = admit(make_pod(labels={"kubernetes.io/os": "windows"}), node(), [])
    assert (label.reason, label.message) == (
        "PodOSSelectorNodeLabelDoesNotMatch",
        "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
    )


def test_node_name():
    verdict = admit(make_pod(nodeName="other"), node(), [])
    assert (verdict.reason, verdict.message) == (
        "NodeName",
        "Predicate NodeName failed: node(s) didn't match the requested node name",
    )


def test_for_a_critical_pod_other_reasons_precede_missing_resources():
    verdict = admit(pod_with("64", nodeSelector={"a": "b"}), node(), [])
    assert verdict.reason == "NodeAffinity"
    assert verdict.lacks == (("cpu", 64000, 0, 2000),)


def test_for_other_pods_missing_resources_come_first():
    verdict = admit(pod_with("64", static=False, nodeSelector={"a": "b"}), node(), [])
    assert verdict.reason == "OutOfcpu"


def test_pressure_rejects_non_critical_pods():
    pressed = node(conditions=("MemoryPressure",))
    assert admit(make_pod(), pressed, []).admitted
    verdict = admit(make_pod(static=False), pressed, [])
    assert (verdict.reason, verdict.message) == (
        "Evicted",
        "The node had condition: [MemoryPressure]. ",
    )
    assert admit(pod_with("1", static=False), pressed, []).admitted
    assert not admit(pod_with("1", static=False), node(conditions=("DiskPressure",)), []).admitted


def sysctl_pod(name, **fields):
    return make_pod(securityContext={"sysctls": [{"name": name, "value": "1"}]}, **fields)


def test_case_31_sysctls():
    verdict = admit(sysctl_pod("kernel.msgmax"), node(), [])
    assert (verdict.reason, verdict.message) == (
        "SysctlForbidden",
        'forbidden sysctl: "kernel.msgmax" not allowlisted',
    )


@pytest.mark.parametrize(
    ("name", "allowed", "fields", "expected"),
    [
        ("net.ipv4.tcp_syncookies", (), {}, None),
        ("net/ipv4/tcp_syncookies", (), {}, None),
        ("kernel.msgmax", ("kernel.msg*",), {}, None),
        ("kernel.msgmax", ("kernel.msgmax",), {}, None),
        ("kernel.sem", ("kernel.msg*",), {}, 'forbidden sysctl: "kernel.sem" not allowlisted'),
        (
            "net.ipv4.tcp_syncookies",
            (),
            {"hostNetwork": True},
            'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled',
        ),
        (
            "kernel.shm_rmid_forced",
            (),
            {"hostIPC": True},
            'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled',
        ),
        ("kernel.shm_rmid_forced", (), {"hostNetwork": True}, None),
    ],
)
def test_which_sysctls_are_forbidden(name, allowed, fields, expected):
    assert forbidden_sysctl(sysctl_pod(name, **fields), allowed) == expected


def test_sysctl_names_with_slashes():
    assert normalized("net/ipv4/conf/eno2.100/rp_filter") == "net.ipv4.conf.eno2/100.rp_filter"
    assert normalized("kernel.sem") == "kernel.sem"
    assert normalized("plain") == "plain"


def test_apparmor_on_a_host_without_it():
    profile = {"appArmorProfile": {"type": "RuntimeDefault"}}
    pod = make_pod(ctr(securityContext=profile))
    verdict = admit(pod, node(), [])
    assert (verdict.reason, verdict.message) == (
        "AppArmor",
        "Cannot enforce AppArmor: AppArmor is not enabled on the host",
    )
    assert admit(pod, node(apparmor=True), []).admitted
    unconfined = make_pod(securityContext={"appArmorProfile": {"type": "Unconfined"}})
    assert admit(unconfined, node(), []).admitted
    running = msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, phase="Running")
    )
    assert admit(running, node(), []).admitted


def test_strict_supplemental_groups():
    pod = make_pod(securityContext={"supplementalGroupsPolicy": "Strict"})
    assert admit(pod, node(), []).reason == "SupplementalGroupsPolicyNotSupported"


def test_features_that_are_turned_off():
    pod = make_pod(resources={"requests": {"cpu": "1"}})
    off = admit(pod, node(), [], gates={"PodLevelResources": False})
    assert (off.reason, off.message) == (
        "PodLevelResourcesNotSupported",
        "PodLevelResources feature gate is disabled",
    )
    assert admit(pod, node(), []).admitted
    assert admit(make_pod(), node(), [], gates={"PodLevelResources": False}).admitted
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    restarting = make_pod(ctr(restartPolicy="Never", restartPolicyRules=[rule]))
    gates = {"RestartAllContainersOnContainerExits": False}
    found = admit(restarting, node(), [], gates=gates)
    assert (found.reason, found.message) == (
        "PodFeatureUnsupported",
        "Pod requires node features that are not available: RestartAllContainersOnContainerExits",
    )
    assert admit(restarting, node(), []).admitted


def test_the_handlers_run_in_the_kubelets_order():
    """The pod violates everything; each fixed violation reveals the next."""
    profile = {"appArmorProfile": {"type": "RuntimeDefault"}}
    sysctls = {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}
    pod = {
        "containers": [ctr(securityContext=profile, resources={"requests": {"cpu": "64"}})],
        "securityContext": {**sysctls, "supplementalGroupsPolicy": "Strict"},
        "os": {"name": "windows"},
        "nodeSelector": {"disk": "ssd"},
        "resources": {"requests": {"memory": "1Mi"}},
    }
    view = node(conditions=("DiskPressure",), shutting_down=True)
    gates = {"PodLevelResources": False}
    reasons: list[str] = []

    def check(**fields):
        spec = {name: value for name, value in pod.items() if name != "containers"}
        made = make_pod(*pod["containers"], static=False, **{**spec, **fields})
        verdict = admit(made, view, [], gates=gates)
        reasons.append(verdict.reason)

    check()
    view = node(shutting_down=True)
    check()
    pod["securityContext"] = {"supplementalGroupsPolicy": "Strict"}
    check(labels={"kubernetes.io/os": "windows"})
    check()
    del pod["os"]
    check()
    del pod["securityContext"]
    check()
    pod["containers"] = [ctr(securityContext=profile)]
    check()
    del pod["nodeSelector"]
    check()
    pod["containers"] = [ctr()]
    check()
    gates = {}
    check()
    view = node()
    check()
    assert reasons == [
        "Evicted",
        "SysctlForbidden",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodOSNotSupported",
        "SupplementalGroupsPolicyNotSupported",
        "OutOfcpu",
        "NodeAffinity",
        "AppArmor",
        "PodLevelResourcesNotSupported",
        "NodeShutdown",
        "",
    ]


# --- node affinity


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["ssd"], True),
        ("In", ["hdd"], False),
        ("NotIn", ["hdd"], True),
        ("NotIn", ["ssd"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Nonsense", [], False),
    ],
)
def test_affinity_operators(operator, values, expected):
    assert matches({"key": "disk", "operator": operator, "values": values}) is expected


@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        ("size", "Gt", "9", True),
        ("size", "Gt", "10", False),
        ("size", "Lt", "11", True),
        ("size", "Lt", "10", False),
        ("disk", "Gt", "1", False),
        ("none", "Lt", "1", False),
        ("size", "Gt", "many", False),
    ],
)
def test_affinity_by_number(key, operator, value, expected):
    assert matches({"key": key, "operator": operator, "values": [value]}) is expected


def affinity(*terms):
    required = {"nodeSelectorTerms": list(terms)}
    return make_pod(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    )


def matches(requirement):
    view = node(labels={"disk": "ssd", "size": "10"})
    return node_matches(affinity({"matchExpressions": [requirement]}), view.name, view.labels)


def test_affinity_terms():
    view = node(labels={"disk": "ssd"})
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    hdd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]}
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert node_matches(affinity(hdd, ssd), view.name, view.labels)
    assert not node_matches(affinity(hdd), view.name, view.labels)
    assert node_matches(affinity(named), view.name, view.labels)
    assert not node_matches(affinity(named | hdd), view.name, view.labels)
    assert not node_matches(affinity({}), view.name, view.labels)
    assert node_matches(make_pod(affinity={"nodeAffinity": {}}), view.name, view.labels)


# --- preemption


def victim(uid, cpu="", memory="", limits=False, **fields):
    amounts = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    resources = {"requests": amounts} | ({"limits": amounts} if limits else {})
    return make_pod(ctr(resources=resources), uid=uid, static=False, **fields)


def chosen(needs, *active):
    found = preempt(make_pod(), list(active), needs)
    return [one.metadata.uid for one in found.victims] or list(found.short)


def test_lower_qos_classes_are_preempted_first():
    best = victim("best")
    burst = victim("burst", "1")
    guaranteed = victim("guaranteed", "1", "1Gi", limits=True)
    assert chosen({"cpu": 1000}, guaranteed, burst, best) == ["burst"]
    assert chosen({"cpu": 2000}, guaranteed, burst, best) == ["burst", "guaranteed"]
    assert chosen({"pods": 1}, guaranteed, burst, best) == ["best"]


def test_the_closest_pod_is_preempted_or_the_smaller_of_equals():
    small, large = victim("small", "500m"), victim("large", "2")
    assert chosen({"cpu": 1000}, small, large) == ["large"]
    assert chosen({"cpu": 400}, large, small) == ["small"]
    heavy = victim("heavy", "1", "2Gi")
    light = victim("light", "1", "1Gi")
    assert chosen({"cpu": 1000}, heavy, light) == ["light"]


def test_the_later_of_equal_pods_is_preempted():
    one, two, three = (victim(name, "1") for name in ("one", "two", "three"))
    assert chosen({"cpu": 1000}, one, two, three) == ["three"]
    assert chosen({"cpu": 2000}, one, two, three) == ["three", "two"]
    # The last one replaces the first, which is the nearest and is preempted.
    large = victim("large", "2")
    assert chosen({"cpu": 3000}, large, one, two, three) == ["large", "two"]


def test_a_victim_frees_its_pod_level_resources_only():
    resources = {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}
    pod = victim("a", "500m", "1Gi", resources=resources)
    assert chosen({"cpu": 1000}, pod) == ["a"]
    assert chosen({"memory": MI}, pod) == [("memory", MI)]
    empty = victim("b", "500m", "1Gi", resources={})
    assert chosen({"memory": MI}, empty) == ["b"]


def test_overhead_is_freed_if_the_request_is_not_zero():
    pod = victim("a", "1", overhead={"cpu": "500m", "memory": "1Gi"})
    assert chosen({"cpu": 1500}, pod) == ["a"]
    assert chosen({"memory": MI}, pod) == [("memory", MI)]
    none = victim("b", "0", overhead={"cpu": "500m"})
    assert chosen({"cpu": 100}, none) == [("cpu", 100)]


def test_resources_missing_after_preempting_all():
    assert chosen({"cpu": 3000, "memory": MI}, victim("a", "1", "1Gi")) == [("cpu", 2000)]


# --- property

AMOUNT = st.integers(min_value=0, max_value=1500)


@given(
    st.lists(st.tuples(AMOUNT, AMOUNT, st.sampled_from([None, 1, 5]), st.booleans()), max_size=12)
)
@examples(200)
def test_admission_never_exceeds_allocatable(wanted):
    view = node(cpu=2000, memory=2000 * MI, pods=5)
    active = []
    for number, (cpu, memory, priority, static) in enumerate(wanted):
        pod = (
            victim(f"u{number}", f"{cpu}m", f"{memory}Mi", priority=priority)
            if not static
            else pod_with(f"{cpu}m", f"{memory}Mi", f"u{number}", priority=priority)
        )
        verdict = admit(pod, view, active)
        if verdict.admitted:
            assert len(set(verdict.preempt)) == len(verdict.preempt)
            active = [one for one in active if one.metadata.uid not in verdict.preempt] + [pod]
        else:
            assert not verdict.preempt
            assert verdict.lacks
        assert len(active) <= 5
        for resource, capacity in (("cpu", 2000), ("memory", 2000 * MI)):
            assert sum(pod_requests(one).get(resource, 0) for one in active) <= capacity


STEP = st.tuples(
    st.sampled_from(["admit", "admit", "add", "drop"]),
    st.integers(0, 3),
    AMOUNT,
    AMOUNT,
    st.sampled_from([None, 1, 5]),
    st.booleans(),
)


@given(st.lists(STEP, max_size=20))
@examples(200)
def test_cached_requests_do_not_change_verdicts(steps):
    view = node(cpu=2000, memory=2000 * MI, pods=3)
    counted = AdmittedPods()
    for action, number, cpu, memory, priority, static in steps:
        uid = f"u{number}"
        port = {"containerPort": 80} | ({"hostPort": 80} if cpu % 3 == 0 else {})
        resources = {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}
        container = ctr(resources=resources, ports=[port])
        pod = make_pod(container, uid=uid, name=uid, static=static, priority=priority)
        if action == "drop":
            counted.drop(uid)
            continue
        with_memory = admit(pod, view, counted.pods(), requests=counted.requests)
        assert with_memory == admit(pod, view, list(counted.pods()))
        if action == "add" or with_memory.admitted:
            counted.add(pod)
        assert all(counted.requests(one) == pod_requests(one) for one in counted.pods())


def test_requests_of_a_pod_are_computed_once(monkeypatch):
    reckoned = []

    def spy(pod):
        reckoned.append(pod.metadata.uid)
        return pod_requests(pod)

    monkeypatch.setattr(admissions, "pod_requests", spy)
    counted = AdmittedPods()
    for uid in ("a", "b"):
        counted.add(pod_with("100m", uid=uid))
    for _ in range(3):
        admit(pod_with("100m", uid="c"), node(), counted.pods(), requests=counted.requests)
    assert sorted(reckoned) == ["a", "b", "c", "c", "c"]
    reckoned.clear()
    counted.add(pod_with("200m", uid="a"))
    counted.drop("b")
    verdict = admit(
        pod_with("3", uid="c"), node(cpu=3100), counted.pods(), requests=counted.requests
    )
    assert verdict.lacks == (("cpu", 3000, 200, 3100),)
    assert reckoned == ["c", "a"]
