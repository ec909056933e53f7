"""The order in which the containers of a pod stop."""

from __future__ import annotations

from pod_builders import ctr, make_pod, sidecar

from podtui.kubelet.containers.killer import stop_order


def test_case_56_sidecars_wait_for_the_app_and_for_later_sidecars():
    pod = make_pod(ctr("app"), ctr("other"), init=(sidecar("s1"), ctr("i"), sidecar("s2")))
    assert stop_order(pod) == {
        "s1": {"app", "other", "s2"},
        "s2": {"app", "other"},
    }


def test_without_sidecars_all_containers_stop_at_once():
    assert stop_order(make_pod(ctr("a"), init=(ctr("i"),))) == {}
