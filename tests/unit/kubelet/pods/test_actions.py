"""compute_pod_actions, rule by rule, and as a state machine that must converge."""

from __future__ import annotations

from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import (
    box,
    created,
    ctr,
    down,
    make_pod,
    probes,
    seen,
    sidecar,
    unknown,
    up,
)

from podtui.api.v1 import Pod
from podtui.kubelet.containers.container_config import container_hash
from podtui.kubelet.pods.actions import compute_pod_actions
from podtui.kubelet.sandbox.sandbox import sandbox_changed
from podtui.kubelet.types import (
    KillReason,
    ObservedContainer,
    ObservedPod,
    PodActions,
    ProbeView,
)
from podtui.runtime.protocol import ContainerState, SandboxState

NONE = ProbeView()


def act(pod: Pod, observed: ObservedPod, view: ProbeView = NONE) -> PodActions:
    return compute_pod_actions(pod, observed, probes=view)


def killed(actions: PodActions) -> list[tuple[str, str]]:
    return [(one.name, one.message) for one in actions.kill]


# --- the sandbox


def test_a_new_pod_gets_a_sandbox_and_all_containers_in_order():
    actions = act(make_pod(ctr("b"), ctr("a")), seen(sandboxes=()))
    assert actions == PodActions(create_sandbox=True, attempt=0, start=("b", "a"))


def test_a_new_pod_with_init_containers_starts_only_the_first():
    actions = act(make_pod(init=(ctr("i"), ctr("j"))), seen(sandboxes=()))
    assert actions.create_sandbox
    assert (actions.start_init, actions.start) == (("i",), ())


@pytest.mark.parametrize(
    ("sandboxes", "host_network", "expected"),
    [
        ((), False, True),
        ((box(),), False, False),
        ((box(ready=False),), False, True),
        ((box(1), box(0)), False, True),
        ((box(1), box(0, ready=False)), False, False),
        ((box(1, ready=False), box(0)), False, True),
        ((box(ips=()),), False, True),
        ((box(),), True, True),
        ((box(host_network=True),), True, False),
        ((box(host_network=True),), False, True),
    ],
)
def test_when_a_sandbox_is_replaced(sandboxes, host_network, expected):
    pod = make_pod(hostNetwork=host_network)
    assert sandbox_changed(pod, seen(sandboxes=sandboxes)) is expected


def test_case_46_a_dead_sandbox_is_replaced_and_init_runs_again():
    pod = make_pod(init=(ctr("i"),))
    dead = seen(up(), down("i"), sandboxes=(box(ready=False),))
    actions = act(pod, dead)
    assert actions.kill_pod
    assert actions.create_sandbox
    assert actions.attempt == 1
    assert actions.purge_init
    assert (actions.start_init, actions.start) == (("i",), ())


def test_case_21_a_finished_never_pod_gets_no_new_sandbox():
    pod = make_pod(restartPolicy="Never")
    assert act(pod, seen(down(), sandboxes=(box(ready=False),))) == PodActions(
        kill_pod=True, attempt=1
    )


def test_a_never_pod_whose_sandbox_died_before_anything_ran_gets_another():
    pod = make_pod(restartPolicy="Never")
    assert act(pod, seen(sandboxes=(box(ready=False),))).create_sandbox


def test_a_new_sandbox_skips_succeeded_containers_under_on_failure():
    pod = make_pod(ctr("a"), ctr("b"), restartPolicy="OnFailure")
    dead = seen(down("a"), down("b", 1), sandboxes=(box(ready=False),))
    assert act(pod, dead).start == ("b",)


def test_a_new_sandbox_runs_a_container_of_policy_never_again():
    pod = make_pod(ctr("a", restartPolicy="Never"), ctr("b", restartPolicy="OnFailure"))
    dead = seen(down("a", 1), down("b"), sandboxes=(box(ready=False),))
    assert act(pod, dead).start == ("a",)


def test_no_new_sandbox_when_on_failure_left_nothing_to_start():
    pod = make_pod(ctr("a"), restartPolicy="OnFailure")
    dead = seen(down("a"), sandboxes=(box(ready=False),))
    assert act(pod, dead) == PodActions(kill_pod=True, attempt=1)


def test_a_pod_marked_for_deletion_gets_no_new_sandbox():
    pod = make_pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert not act(pod, seen(sandboxes=())).create_sandbox


# --- regular containers


def test_a_running_pod_needs_no_action():
    assert act(make_pod(), seen(up())) == PodActions(sandbox_id="s0")


def test_case_47_only_a_dead_container_is_started():
    actions = act(make_pod(ctr("a"), ctr("b")), seen(up("a"), down("b", 137)))
    assert (actions.start, actions.kill, actions.kill_pod) == (("b",), (), False)


@pytest.mark.parametrize(
    ("policy", "code", "starts"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_restart_policy(policy, code, starts):
    actions = act(make_pod(restartPolicy=policy), seen(down("c", code)))
    assert actions.start == (("c",) if starts else ())
    assert actions.kill_pod is not starts


def test_case_23_on_failure_restarts_the_failed_one_only():
    pod = make_pod(ctr("a"), ctr("b"), restartPolicy="OnFailure")
    actions = act(pod, seen(down("a"), down("b", 1)))
    assert (actions.start, actions.kill_pod) == (("b",), False)


def test_a_created_container_is_started_again_even_under_never():
    assert act(make_pod(restartPolicy="Never"), seen(created())).start == ("c",)


def test_an_unknown_container_is_killed_before_its_restart():
    actions = act(make_pod(), seen(unknown()))
    assert killed(actions) == [
        ("c", 'Container is in "unknown" state, try killing it before restart')
    ]
    assert actions.start == ("c",)


def test_case_8_a_new_image_restarts_the_container_whatever_the_policy():
    pod = make_pod(ctr("a", image="new:2"), ctr("b"), restartPolicy="Never")
    old = container_hash(make_pod(ctr("a", image="old:1")).spec.containers[0])
    actions = act(pod, seen(up("a", hash=old), up("b")))
    assert killed(actions) == [("a", "Container a definition changed, will be restarted")]
    assert actions.start == ("a",)


def test_case_9_other_fields_do_not_count_for_the_hash():
    plain = make_pod(ctr("a")).spec.containers[0]
    edited = make_pod(ctr("a", env=[{"name": "A", "value": "1"}])).spec.containers[0]
    other = make_pod(ctr("a", image="busybox:2")).spec.containers[0]
    assert container_hash(plain) == container_hash(edited)
    assert container_hash(plain) != container_hash(other)
    assert int(container_hash(plain), 16) < 2**32


@pytest.mark.parametrize(
    ("policy", "own", "suffix"),
    [
        ("Always", "", ", will be restarted"),
        ("OnFailure", "", ", will be restarted"),
        ("Never", "", ""),
        ("Never", "OnFailure", ", will be restarted"),
        ("Always", "Never", ""),
    ],
)
@pytest.mark.parametrize(
    ("kind", "words", "reason"),
    [
        ("liveness", "failed liveness probe", KillReason.LIVENESS_PROBE),
        ("startup", "failed startup probe", KillReason.STARTUP_PROBE),
    ],
)
def test_case_62_probe_kills(policy, own, suffix, kind, words, reason):
    fields = {"restartPolicy": own} if own else {}
    pod = make_pod(ctr("a", **fields), ctr("b"), restartPolicy=policy)
    actions = act(pod, seen(up("a"), up("b")), probes(**{kind: {"a-0": "Failure"}}))
    assert killed(actions) == [("a", f"Container a {words}{suffix}")]
    assert actions.kill[0].reason is reason
    assert actions.start == (("a",) if suffix else ())


def test_case_62_the_only_container_under_never_ends_the_pod():
    pod = make_pod(restartPolicy="Never")
    actions = act(pod, seen(up()), probes(liveness={"c-0": "Failure"}))
    assert actions.kill_pod
    assert [one.reason for one in actions.kill] == ["LivenessProbe"]


def test_a_probe_result_of_an_earlier_instance_is_ignored():
    assert act(make_pod(), seen(up(count=1)), probes(liveness={"c-0": "Failure"})).kill == ()


def test_containers_removed_from_the_spec_are_ignored():
    actions = act(make_pod(ctr("a")), seen(up("a"), up("gone")))
    assert actions == PodActions(sandbox_id="s0")


# --- init containers


def test_case_51_strictly_one_after_another():
    pod = make_pod(ctr("app"), init=(ctr("a"), ctr("b")))
    steps = [
        (seen(), ("a",), ()),
        (seen(up("a")), (), ()),
        (seen(down("a")), ("b",), ()),
        (seen(down("a"), up("b")), (), ()),
        (seen(down("a"), down("b")), (), ("app",)),
        (seen(down("a"), down("b"), up("app")), (), ()),
    ]
    for observed, init, regular in steps:
        actions = act(pod, observed)
        assert (actions.start_init, actions.start) == (init, regular)


def test_case_52_a_failed_init_container():
    init = (ctr("i"),)
    never = act(make_pod(init=init, restartPolicy="Never"), seen(down("i", 1)))
    assert never.kill_pod
    assert never.start_init == ()
    for policy in ("Always", "OnFailure"):
        again = act(make_pod(init=init, restartPolicy=policy), seen(down("i", 1)))
        assert (again.start_init, again.start) == (("i",), ())


def test_an_oom_kill_with_exit_code_0_is_a_failure():
    pod = make_pod(init=(ctr("i"),))
    assert act(pod, seen(down("i", 0, reason="OOMKilled"))).start_init == ("i",)


def test_an_init_container_stuck_in_created_is_started_again():
    assert act(make_pod(init=(ctr("i"),)), seen(created("i"))).start_init == ("i",)


def test_an_init_container_with_a_policy_of_its_own():
    pod = make_pod(init=(ctr("i", restartPolicy="OnFailure"),), restartPolicy="Never")
    assert act(pod, seen(down("i", 1))).start_init == ("i",)


def test_an_unknown_init_container_is_killed_and_started_again():
    actions = act(make_pod(init=(ctr("i"),)), seen(unknown("i")))
    text = 'Init container is in "unknown" state, try killing it before restart'
    assert [(one.id, one.message) for one in actions.kill] == [("i-0", text)]
    assert actions.start_init == ("i",)


def test_restart_rules_do_not_apply_to_an_unknown_init_container():
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [0]}}
    pod = make_pod(init=(ctr("i", restartPolicy="Never", restartPolicyRules=[rule]),))
    assert act(pod, seen(unknown("i"))).kill_pod


def test_case_58_init_is_not_run_again_for_a_dead_app():
    pod = make_pod(ctr("app"), ctr("other"), init=(ctr("i"),))
    actions = act(pod, seen(down("i"), down("app", 1), up("other")))
    assert (actions.start_init, actions.start) == ((), ("app",))


def test_case_57_a_vanished_init_container_is_not_run_again_while_the_app_runs():
    assert act(make_pod(init=(ctr("i"),)), seen(up())) == PodActions(sandbox_id="s0")


def test_an_exited_app_does_not_imply_that_init_is_done():
    actions = act(make_pod(init=(ctr("i"),)), seen(down()))
    assert (actions.start_init, actions.start) == (("i",), ())


def test_an_app_in_an_old_sandbox_does_not_imply_that_init_is_done():
    old = replace(created(), sandbox_id="s0")
    observed = seen(old, sandboxes=(box(1), box(0, ready=False)))
    assert act(make_pod(init=(ctr("i"),)), observed).start_init == ("i",)


# --- sidecars


def test_case_53_a_sidecar_with_a_startup_probe_blocks_the_next():
    probe = {"exec": {"command": ["true"]}}
    pod = make_pod(init=(sidecar(startupProbe=probe), ctr("i")))
    assert act(pod, seen(up("side"))).start_init == ()
    assert act(pod, seen(up("side")), probes(startup={"side-0": "Unknown"})).start_init == ()
    done = act(pod, seen(up("side")), probes(startup={"side-0": "Success"}))
    assert done.start_init == ("i",)


def test_a_sidecar_without_a_startup_probe_is_done_once_it_runs():
    pod = make_pod(init=(ctr("i"), sidecar()))
    assert act(pod, seen(up("side"), down("i"))).start == ("c",)


def test_case_54_sidecars_are_restarted_whatever_the_policy_and_code():
    for policy in ("Always", "OnFailure", "Never"):
        for code in (0, 1):
            pod = make_pod(init=(sidecar(),), restartPolicy=policy)
            actions = act(pod, seen(up(), down("side", code)))
            assert (actions.start_init, actions.kill_pod) == (("side",), False)


def test_a_sidecar_that_dies_during_init_is_restarted_beside_what_runs():
    pod = make_pod(init=(sidecar(), ctr("i")))
    assert act(pod, seen(down("side", 1), up("i"))).start_init == ("side",)


def test_a_removed_sidecar_is_recreated():
    pod = make_pod(init=(sidecar(), ctr("i")))
    assert act(pod, seen(up(), down("i"))).start_init == ("side",)


def test_case_55_sidecars_stop_after_all_apps_completed():
    pod = make_pod(init=(sidecar(),), restartPolicy="Never")
    actions = act(pod, seen(down(), up("side")))
    assert actions.kill_pod
    assert (actions.start_init, actions.start) == ((), ())


def test_sidecar_probe_and_hash_kills_have_their_own_messages():
    probe = {"exec": {"command": ["true"]}}
    pod = make_pod(init=(sidecar(startupProbe=probe, livenessProbe=probe),))
    startup = act(pod, seen(up("side")), probes(startup={"side-0": "Failure"}))
    assert killed(startup) == [("side", "Init container side failed startup probe")]
    assert startup.kill[0].reason is KillReason.STARTUP_PROBE
    assert startup.start_init == ("side",)
    view = probes(startup={"side-0": "Success"}, liveness={"side-0": "Failure"})
    liveness = act(pod, seen(up("side"), up()), view)
    assert killed(liveness) == [("side", "Init container side failed liveness probe")]
    assert liveness.start_init == ("side",)
    view = probes(startup={"side-0": "Success"})
    changed = act(pod, seen(up("side", hash="0"), up()), view)
    assert killed(changed) == [("side", "Init container side definition changed")]
    assert changed.start_init == ("side",)


def test_case_104_a_sidecar_that_never_starts_blocks_everything():
    pod = make_pod(init=(sidecar(), ctr("i")), restartPolicy="Never")
    actions = act(pod, seen())
    assert (actions.start_init, actions.start) == (("side",), ())


# --- restart rules


RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}


def test_case_60_all_containers_are_recreated_in_their_sandbox():
    pod = make_pod(
        ctr("a", restartPolicy="Never", restartPolicyRules=[RULE]),
        ctr("b"),
        init=(ctr("i"),),
        restartPolicy="Never",
    )
    actions = act(pod, seen(down("a", 9), up("b"), down("i")))
    assert actions == PodActions(sandbox_id="s0", reset=("b-0", "i-0", "a-0"))
    after = act(pod, seen())
    assert (after.start_init, after.create_sandbox) == (("i",), False)


# --- as a state machine


def _hold(pod: Pod, observed: ObservedPod, actions: PodActions, step: int) -> ObservedPod:
    """Return the observed pod after the sync: killed containers exit with 137, started ones run."""
    containers = list(observed.containers)
    sandboxes = list(observed.sandboxes)

    def end(one: ObservedContainer) -> ObservedContainer:
        if one.state is not ContainerState.RUNNING:
            return one
        return replace(one, state=ContainerState.EXITED, exit_code=137, reason="Error")

    if actions.kill_pod:
        containers = [end(one) for one in containers]
        sandboxes = [replace(one, state=SandboxState.NOT_READY, ips=()) for one in sandboxes]
        if actions.purge_init:
            names = {one.name for one in pod.spec.initContainers}
            containers = [one for one in containers if one.name not in names]
    gone = {one.id for one in actions.kill}
    containers = [end(one) if one.id in gone else one for one in containers]
    containers = [one for one in containers if one.id not in actions.reset]
    if actions.create_sandbox:
        sandboxes.insert(0, box(actions.attempt))
    for name in (*actions.start_init, *actions.start):
        spec = next(
            one for one in (*pod.spec.initContainers, *pod.spec.containers) if one.name == name
        )
        fresh = up(
            name,
            count=step,
            id=f"{name}#{step}",
            sandbox_id=sandboxes[0].id,
            hash=container_hash(spec),
        )
        containers.insert(0, fresh)
    return seen(*containers, sandboxes=tuple(sandboxes))


POLICIES = ("Always", "OnFailure", "Never")
STATES = st.sampled_from(["up", "down0", "down1", "created", "unknown", "none"])


@st.composite
def pods(draw):
    regular = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    init = draw(st.lists(st.sampled_from("xyz"), max_size=3, unique=True))
    return make_pod(
        *(ctr(name) for name in regular),
        init=tuple(sidecar(name) if draw(st.booleans()) else ctr(name) for name in init),
        restartPolicy=draw(st.sampled_from(POLICIES)),
    )


@st.composite
def situations(draw):
    pod = draw(pods())
    makers = {
        "up": lambda name: up(name),
        "down0": lambda name: down(name),
        "down1": lambda name: down(name, 1),
        "created": lambda name: created(name),
        "unknown": lambda name: unknown(name),
    }
    found = []
    for one in (*pod.spec.initContainers, *pod.spec.containers):
        state = draw(STATES)
        if state != "none":
            found.append(makers[state](one.name))
    sandboxes = draw(st.sampled_from([(), (box(),), (box(ready=False),)]))
    return pod, seen(*found, sandboxes=sandboxes)


@given(situations())
@examples(300)
def test_actions_are_consistent_whatever_is_observed(situation):
    pod, observed = situation
    actions = act(pod, observed)
    regular = {one.name for one in pod.spec.containers}
    init = {one.name for one in pod.spec.initContainers}
    assert set(actions.start) <= regular
    assert set(actions.start_init) <= init
    ids = {one.id: one for one in observed.containers}
    for one in actions.kill:
        assert ids[one.id].state in (ContainerState.RUNNING, ContainerState.UNKNOWN)
    if actions.kill_pod:
        assert not actions.kill
        if not actions.create_sandbox:
            assert not actions.start
            assert not actions.start_init
    # Nothing that runs is started a second time.
    for name in (*actions.start, *actions.start_init):
        newest = observed.newest(name)
        if newest is not None and newest.state is ContainerState.RUNNING:
            assert actions.kill_pod or newest.id in {one.id for one in actions.kill}


@given(pods(), st.data())
@examples(200)
def test_no_regular_container_starts_before_init_is_done(pod, data):
    observed = seen(sandboxes=())
    for step in range(25):
        actions = act(pod, observed)
        if actions.start:
            for one in pod.spec.initContainers:
                newest = observed.newest(one.name)
                assert newest is not None
                if one.restartPolicy != "Always":
                    assert (newest.state, newest.exit_code) == (ContainerState.EXITED, 0)
        observed = _hold(pod, observed, actions, step)
        # Any container may end at any time; plain init containers must end first.
        running = [one for one in observed.containers if one.state is ContainerState.RUNNING]
        if running and not any(one.name in "abc" for one in running):
            chosen = data.draw(st.sampled_from(running))
            code = data.draw(st.sampled_from([0, 0, 1]))
            observed = seen(
                *(
                    replace(one, state=ContainerState.EXITED, exit_code=code)
                    if one is chosen
                    else one
                    for one in observed.containers
                ),
                sandboxes=observed.sandboxes,
            )


@given(situations())
@examples(300)
def test_executing_the_actions_converges(situation):
    pod, observed = situation
    plain = {one.name for one in pod.spec.initContainers if one.restartPolicy != "Always"}
    for step in range(1, 30):
        actions = act(pod, observed)
        after = _hold(pod, observed, actions, step)
        # Init containers complete between passes.
        after = seen(
            *(
                replace(one, state=ContainerState.EXITED, exit_code=0, reason="Completed")
                if one.name in plain and one.state is ContainerState.RUNNING
                else one
                for one in after.containers
            ),
            sandboxes=after.sandboxes,
        )
        if after == observed:
            break
        observed = after
    else:
        pytest.fail("the pod never came to rest")
    last = act(pod, observed)
    assert not last.create_sandbox
    assert not last.start
    assert not last.start_init
    if not last.kill_pod:
        for one in pod.spec.containers:
            newest = observed.newest(one.name)
            assert newest is not None
            assert newest.state in (ContainerState.RUNNING, ContainerState.EXITED)
