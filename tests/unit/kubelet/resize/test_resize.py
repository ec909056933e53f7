"""The actions of a resize on running containers, their order, and their messages."""

from __future__ import annotations

import msgspec
import pytest
from pod_builders import MI, ctr, down, make_pod, need, seen, sidecar, up

from podtui.api.v1 import Pod
from podtui.kubelet.pods.actions import compute_pod_actions
from podtui.kubelet.resize.allocations import (
    allocated_pod,
    allocation_of,
    requests_resize,
    same_resources,
)
from podtui.kubelet.resize.plan import (
    STARTED,
    container_amounts,
    memory_problem,
    pod_memory_limit,
    resize_in_progress,
    resize_message,
)
from podtui.kubelet.types import ContainerAmounts, ProbeView


def actions(new: Pod, old: Pod, *observed):
    return compute_pod_actions(
        new, seen(*observed), probes=ProbeView(), actuated=allocation_of(old)
    )


# --- allocations


def test_equal_quantities_in_another_format_are_not_a_resize():
    old = make_pod(ctr(**need("1", "1Gi", cpu="1")))
    new = make_pod(ctr(**need("1000m", "1024Mi", cpu="1000m")))
    assert not requests_resize(old, new)
    assert allocated_pod(new, allocation_of(old)) is new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (need("1"), need("2")),
        (need("1"), {}),
        (need(memory="1Gi"), need(memory="2Gi")),
        (need("1", cpu="1"), need("1", cpu="2")),
    ],
)
def test_different_quantities_are_a_resize(old, new):
    before, after = make_pod(ctr(**old)), make_pod(ctr(**new))
    assert requests_resize(before, after)
    held = allocated_pod(after, allocation_of(before))
    assert held.spec.containers[0].resources == before.spec.containers[0].resources
    assert held.metadata is after.metadata


def test_changes_besides_cpu_and_memory_wait_for_a_resize():
    old = make_pod(ctr(resources={"requests": {"ephemeral-storage": "1Gi"}}))
    new = make_pod(ctr(resources={"requests": {"ephemeral-storage": "2Gi"}}))
    assert not requests_resize(old, new)
    held = allocated_pod(new, allocation_of(old))
    assert held.spec.containers[0].resources.requests == {"ephemeral-storage": "1Gi"}


def test_pod_level_resources_are_allocated_too():
    old = make_pod(resources={"limits": {"memory": "1Gi"}})
    new = make_pod(resources={"limits": {"memory": "2Gi"}})
    assert requests_resize(old, new)
    assert allocated_pod(new, allocation_of(old)).spec.resources == old.spec.resources
    assert requests_resize(make_pod(), new)
    assert allocated_pod(new, allocation_of(make_pod())).spec.resources is None
    assert not same_resources(None, new.spec.resources)


def test_a_new_container_is_allocated_its_requests():
    new = make_pod(ctr("c"), ctr("d", **need("1")))
    assert allocated_pod(new, allocation_of(make_pod(ctr("c")))) is new


def test_a_pod_without_an_allocation_uses_its_spec():
    pod = make_pod(ctr(**need("1")))
    assert allocated_pod(pod, None) is pod


# --- what running containers need


@pytest.mark.parametrize(
    ("policy", "changed", "restart"),
    [
        ((), need("2", "2Gi"), False),
        ((("cpu", "NotRequired"),), need("2", "2Gi"), False),
        ((("cpu", "RestartContainer"),), need("2", "1Gi"), True),
        ((("cpu", "RestartContainer"),), need("1", "2Gi"), False),
        ((("memory", "RestartContainer"),), need("1", "2Gi"), True),
        ((("memory", "RestartContainer"),), need("1", "1Gi", memory="2Gi"), True),
        ((("cpu", "RestartContainer"), ("memory", "RestartContainer")), need("1", "1Gi"), False),
    ],
)
def test_the_policy_of_each_resource_decides(policy, changed, restart):
    policies = [{"resourceName": name, "restartPolicy": how} for name, how in policy]
    old = make_pod(ctr(resizePolicy=policies, **need("1", "1Gi")))
    new = make_pod(ctr(resizePolicy=policies, **changed))
    found = actions(new, old, up())
    if restart:
        (kill,) = found.kill
        assert (kill.id, kill.message) == ("c-0", "Container c resize requires restart")
        assert (found.start, found.update, found.kill_pod) == (("c",), (), False)
    else:
        assert (found.kill, found.start) == ((), ())
        assert bool(found.update) == (changed != need("1", "1Gi"))


def test_a_resize_restart_ignores_the_restart_policy():
    policies = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    old = make_pod(ctr(resizePolicy=policies, **need("1")), restartPolicy="Never")
    new = make_pod(ctr(resizePolicy=policies, **need("2")), restartPolicy="Never")
    assert actions(new, old, up()).start == ("c",)


def test_memory_is_resized_before_cpu_and_decreases_first():
    old = make_pod(
        ctr("grows", **need("1", "64Mi", cpu="1", memory="64Mi")),
        ctr("shrinks", **need("2", "2Gi", cpu="2", memory="2Gi")),
        ctr("less", **need("3", "3Gi", cpu="3", memory="3Gi")),
        ctr("same", **need("1", "1Gi")),
    )
    new = make_pod(
        ctr("grows", **need("2", "128Mi", cpu="2", memory="128Mi")),
        ctr("shrinks", **need("1", "1Gi", cpu="1", memory="1Gi")),
        ctr("less", **need("1", "1Gi", cpu="1", memory="1Gi")),
        ctr("same", **need("1", "1Gi")),
    )
    found = actions(new, old, up("grows"), up("shrinks"), up("less"), up("same"))
    assert [(one.resource, one.name) for one in found.update] == [
        ("memory", "less"),
        ("memory", "shrinks"),
        ("memory", "grows"),
        ("cpu", "less"),
        ("cpu", "shrinks"),
        ("cpu", "grows"),
    ]
    assert found.update[2].desired == ContainerAmounts(
        memory_limit=128 * MI, memory_request=128 * MI, cpu_limit=2000, cpu_request=2000
    )


def test_a_stopped_container_gets_new_resources_at_its_start():
    old, new = make_pod(ctr(**need("1"))), make_pod(ctr(**need("2")))
    assert actions(new, old, down(code=1)).update == ()
    assert not resize_in_progress(new, seen(down(code=1)), allocation_of(old))
    assert resize_in_progress(new, seen(up()), allocation_of(old))


def test_unknown_actual_resources_cause_no_resize():
    new = make_pod(ctr(**need("2")))
    assert compute_pod_actions(new, seen(up()), probes=ProbeView()).update == ()
    assert not resize_in_progress(new, seen(up()), None)


def test_sidecars_and_running_init_containers_are_resized():
    policies = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]

    def pod(cpu: str, memory: str = "64Mi") -> Pod:
        return make_pod(
            ctr("c"),
            init=(
                sidecar("side", resizePolicy=policies, **need(cpu, memory)),
                ctr("init", **need(cpu)),
            ),
        )

    found = actions(pod("2"), pod("1"), up("side"), up("init"))
    assert [one.name for one in found.update] == ["init", "side"]
    killed = actions(pod("1", "128Mi"), pod("1"), up("side"), up("init"))
    assert [one.message for one in killed.kill] == ["Container side resize requires restart"]
    assert killed.start_init == ("side",)


def test_ephemeral_containers_are_not_resized_and_do_not_keep_a_pod_alive():
    pod = make_pod(ctr(), ephemeralContainers=[ctr("debug")], restartPolicy="Never")
    found = compute_pod_actions(pod, seen(down(), up("debug")), probes=ProbeView())
    assert found.kill_pod


# --- memory


GUARANTEED = need("1", "1Gi", cpu="1", memory="1Gi")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make_pod(), None),
        (make_pod(ctr(**GUARANTEED)), 1024 * MI),
        (make_pod(ctr(**need(memory="64Mi"))), 64 * MI),
        (make_pod(ctr("a", **need(memory="64Mi")), ctr("b", **need(memory="64Mi"))), 128 * MI),
        (make_pod(ctr("a", **need(memory="64Mi")), ctr("b")), None),
        (make_pod(resources={"limits": {"memory": "1Gi"}}), 1024 * MI),
    ],
)
def test_pod_level_limits_of_a_kubelet(pod, expected):
    assert pod_memory_limit(pod) == expected


def lowering(old: Pod, new: Pod, usage: dict[str, int]) -> str:
    running = [up(one.name) for one in new.spec.containers]
    updates = actions(new, old, *running).update
    return memory_problem(new, old, updates, usage)


def test_memory_in_use_is_not_reduced():
    old = make_pod(ctr("a", **need(memory="64Mi")), ctr("b"))
    new = make_pod(ctr("a", **need(memory="32Mi")), ctr("b"))
    assert lowering(old, new, {"a": 32 * MI - 1}) == ""
    assert lowering(old, new, {"a": 32 * MI, "b": MI}) == (
        'cannot decrease memory limits: attempting to set container "a" memory limit (33554432)'
        " below current usage (33554432)"
    )
    assert lowering(old, new, {}) == (
        'cannot decrease memory limits: missing container "a" memory usage'
    )
    assert lowering(new, old, {}) == "", "more is no problem"


def test_adding_a_limit_is_a_decrease():
    old, new = make_pod(ctr("a"), ctr("b")), make_pod(ctr("a", **need(memory="32Mi")), ctr("b"))
    assert "memory limit (33554432)" in lowering(old, new, {"a": 64 * MI})


def test_the_pods_limit_counts_beside_its_containers():
    old, new = make_pod(ctr(**need(memory="64Mi"))), make_pod(ctr(**need(memory="32Mi")))
    assert lowering(old, new, {"c": 40 * MI}) == (
        "cannot decrease memory limits: [attempting to set pod memory limit (33554432) below"
        ' current usage (41943040), attempting to set container "c" memory limit (33554432) below'
        " current usage (41943040)]"
    )


# --- words


def test_messages_are_the_kubelets():
    pod = make_pod(
        ctr("c1", **need("100m", cpu="200m")), ctr("c2"), init=(sidecar("c0", **need("", "100")),)
    )
    assert resize_message(STARTED, pod, generation=2) == (
        'Pod resize started: {"initContainers":[{"name":"c0","resources":{"requests":{"memory":'
        '"100"}}}],"containers":[{"name":"c1","resources":{"limits":{"cpu":"200m"},"requests":'
        '{"cpu":"100m"}}},{"name":"c2","resources":{}}],"generation":2}'
    )
    failed = resize_message("Pod resize error", make_pod(ctr("c")), error='a <b> & "c"')
    assert failed.endswith('"generation":0,"error":"a \\u003cb\\u003e \\u0026 \\"c\\""}')


def test_resources_default_to_pod_level_limits():
    pod = msgspec.structs.replace(make_pod(ctr(**need("1")), resources={"limits": {"cpu": "2"}}))
    assert container_amounts(pod, pod.spec.containers[0]) == ContainerAmounts(
        cpu_limit=2000, cpu_request=1000
    )
