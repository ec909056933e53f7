"""Garbage collection of dead containers and sandboxes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pod_builders import box, created, ctr, down, make_pod, seen, unknown, up

from podtui.kubelet.containers.container_gc import Garbage, dead_init_containers, garbage
from podtui.runtime.protocol import ContainerState


def test_case_49_one_dead_instance_is_kept_beside_the_running_one():
    observed = seen(up(count=3), down(count=2), down(count=1), down(count=0))
    assert garbage([observed], live={"u1"}).containers == ("c-1", "c-0")


def test_init_containers_are_pruned():
    pod = make_pod(init=(ctr("i"), ctr("j")))
    observed = seen(up(), down("i", count=1), down("i"), up("j", count=1), unknown("j"))
    assert dead_init_containers(pod, observed) == ("i-0",)


def test_a_live_pod_keeps_the_newest_sandbox_and_one_dead_instance():
    observed = seen(
        down(count=2, sandbox_id="s1"),
        down(count=1, sandbox_id="s1"),
        down(count=0, sandbox_id="s0"),
        sandboxes=(box(1, ready=False), box(0, ready=False)),
    )
    assert garbage([observed], live={"u1"}) == Garbage(containers=("c-1", "c-0"), sandboxes=("s0",))


def test_a_sandbox_with_containers_is_kept():
    observed = seen(
        up(count=1, sandbox_id="s1"),
        down(count=0, sandbox_id="s0"),
        sandboxes=(box(1), box(0, ready=False)),
    )
    assert garbage([observed], live={"u1"}) == Garbage()


def test_everything_dead_of_a_removed_pod_is_collected():
    observed = seen(down(count=1), down(count=0), sandboxes=(box(ready=False),))
    assert garbage([observed], live=()) == Garbage(
        containers=("c-1", "c-0"), sandboxes=("s0",), pods=("u1",)
    )


def test_running_containers_are_never_removed():
    observed = seen(up(), down("d"), sandboxes=(box(),))
    found = garbage([observed], live=())
    assert found == Garbage(containers=("d-0",))


def test_a_created_container_waits_for_the_next_sync():
    assert garbage([seen(created(count=1), down())], live={"u1"}) == Garbage()
    assert garbage([seen(up(count=1), created())], live={"u1"}) == Garbage()


MAKERS = st.lists(st.sampled_from([up, down, created, unknown]), max_size=6)


@given(MAKERS, st.booleans(), st.booleans())
def test_collecting_again_finds_nothing_more(makers, live, ready):
    containers = [make(count=len(makers) - at) for at, make in enumerate(makers)]
    uids = {"u1"} if live else set()
    observed = seen(*containers, sandboxes=(box(ready=ready),))
    found = garbage([observed], live=uids)
    running = {one.id for one in containers if one.state is ContainerState.RUNNING}
    assert not running & set(found.containers)
    left = seen(
        *(one for one in containers if one.id not in found.containers),
        sandboxes=tuple(one for one in observed.sandboxes if one.id not in found.sandboxes),
    )
    again = garbage([left], live=uids)
    assert (again.containers, again.sandboxes) == ((), ())
    dead = [one for one in left.containers if one.state is ContainerState.EXITED]
    assert len(dead) <= (1 if live else 0)
