"""Cases of the contract and of Services that some engines cannot pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from podtui.runtime.protocol import EngineInfo


@dataclass(frozen=True)
class Unavailable:
    """A case that engines with certain properties cannot pass. It runs anyway, and must fail,
    unless it is ``racy``. One that would only wait until its patience ends does not run.
    """

    case: str
    lacks: Callable[[EngineInfo], bool]
    reason: str
    racy: bool = False
    waits: bool = False


def declare(request: pytest.FixtureRequest, info: EngineInfo) -> None:
    """Mark the test as expected to fail if `UNAVAILABLE` declares it for the engine."""
    case = request.node.originalname
    entries = [entry for entry in UNAVAILABLE if entry.case == case and entry.lacks(info)]
    for entry in entries[:1]:
        reason = f"unavailable on {_describe(info)}: {entry.reason}"
        mark = pytest.mark.xfail(reason=reason, strict=not entry.racy, run=not entry.waits)
        request.node.add_marker(mark)


def _describe(info: EngineInfo) -> str:
    parts = [info.name, info.version, *(["rootless"] if info.rootless else [])]
    return f"{' '.join(parts)}, cgroup v{info.cgroup_version}"


def _no_limits(info: EngineInfo) -> bool:
    return not info.supports_memory_limit


def _no_services(info: EngineInfo) -> bool:
    return any(text.startswith("Services in pods: ") for text in info.lacking)


def _rootless(info: EngineInfo) -> bool:
    return info.rootless


NO_NETWORKS = "the networks of pods cannot be entered (see `EngineInfo.lacking`)"
NO_CGROUPS = "a rootless engine has no cgroups on cgroup v1: it limits nothing"
UNAVAILABLE = (
    Unavailable("test_rules_lead_a_pod_to_a_port_of_its_own", _no_services, NO_NETWORKS),
    Unavailable("test_a_listener_in_a_pod_gets_only_what_the_pod_sends", _no_services, NO_NETWORKS),
    Unavailable(
        "test_flows_of_udp_follow_new_rules_when_they_are_forgotten", _no_services, NO_NETWORKS
    ),
    Unavailable(
        "test_a_flushed_table_of_the_host_is_restored",
        _rootless,
        "pods with the host's network have no rules on rootless engines",
        waits=True,
    ),
    Unavailable(
        "test_a_pod_with_the_network_of_the_machine_reaches_the_api",
        _rootless,
        "pods with the host's network have no rules on rootless engines",
        waits=True,
    ),
    Unavailable(
        "test_large_rules_are_one_transaction",
        _rootless,
        "the user of a rootless engine cannot enlarge the send buffer of netlink",
        racy=True,
    ),
    Unavailable("test_out_of_memory", _no_limits, NO_CGROUPS),
    Unavailable("test_statuses_report_the_limits_of_a_container", _no_limits, NO_CGROUPS),
    Unavailable("test_limits_of_a_running_container_are_updated", _no_limits, NO_CGROUPS),
    Unavailable(
        "test_limits_of_a_running_container_are_updated",
        lambda info: not info.supports_resize,
        "Podman has no call to change limits before 5.1",
    ),
    Unavailable("test_a_container_runs_on_its_cpus_and_can_be_moved", _no_limits, NO_CGROUPS),
    Unavailable(
        "test_a_container_runs_on_its_cpus_and_can_be_moved",
        lambda info: not info.supports_resize,
        "Podman has no call to change limits before 5.1",
    ),
    Unavailable(
        "test_out_of_memory",
        lambda info: not info.reports_oom,
        "Podman's monitor (conmon) does not report OOM kills on cgroup v1",
    ),
    Unavailable(
        "test_counters_of_running_containers",
        lambda info: not info.counts_usage,
        "a rootless engine has no cgroups on cgroup v1: it counts nothing",
    ),
    Unavailable(
        "test_end_of_input_keeps_stdin_of_the_container_open",
        lambda info: not info.keeps_stdin,
        "Podman's monitor (conmon) closes stdin when a client detaches",
    ),
    Unavailable(
        "test_a_log_reports_where_older_lines_were_rotated_away",
        lambda info: info.name == "podman",
        "Podman truncates a log and keeps no rotated files to tell it from",
    ),
    Unavailable(
        "test_unread_input_loses_no_output",
        lambda info: info.name == "podman",
        "Podman drops the last output of a command that ends with unread input",
        racy=True,
    ),
)
