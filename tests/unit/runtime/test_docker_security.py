"""Security and resolver settings in the engine's API."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from docker_payloads import ABLE, container, payload_of, sandbox

from podtui.runtime.docker.abilities import Abilities, abilities
from podtui.runtime.docker.containers import write_here
from podtui.runtime.docker.payload import ContainerFiles, sandbox_payload
from podtui.runtime.protocol import DnsConfig, SecurityContext


def host_of(able: Abilities = ABLE, **wanted: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    payload, warnings = payload_of(container(security=SecurityContext(**wanted)), able=able)
    return payload["HostConfig"], warnings


def test_masked_paths_are_the_kubelets() -> None:
    host, _ = host_of(Abilities(cpus=2))
    assert host["MaskedPaths"] == [
        "/proc/asound",
        "/proc/acpi",
        "/proc/interrupts",
        "/proc/kcore",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/timer_list",
        "/proc/timer_stats",
        "/proc/sched_debug",
        "/proc/scsi",
        "/sys/firmware",
        "/sys/devices/virtual/powercap",
        "/sys/devices/system/cpu/cpu0/thermal_throttle",
        "/sys/devices/system/cpu/cpu1/thermal_throttle",
    ]
    assert "ReadonlyPaths" not in host


def test_a_privileged_container_has_no_masked_paths() -> None:
    assert "MaskedPaths" not in host_of(privileged=True)[0]


def test_an_selinux_label_requires_selinux() -> None:
    parts = ("user:u", "type:spc_t")
    host, warnings = host_of(Abilities(selinux=True), selinux=parts)
    assert host["SecurityOpt"] == ["seccomp=unconfined", "label=user:u", "label=type:spc_t"]
    assert warnings == ()
    host, warnings = host_of(Abilities(selinux=False), selinux=parts)
    assert host["SecurityOpt"] == ["seccomp=unconfined"]
    assert warnings == ("the SELinux label is not applied: the engine has no SELinux",)


def test_the_engine_reports_selinux_and_cpus() -> None:
    able = abilities({"SecurityOptions": ["name=selinux"], "NCPU": 3})
    assert (able.selinux, able.cpus) == (True, 3)
    assert not abilities({"SecurityOptions": ["name=seccomp,profile=default"]}).selinux


def test_a_resolver_without_options_does_not_inherit_the_hosts() -> None:
    config = sandbox(dns=DnsConfig(servers=("10.0.0.1",), searches=("a", "b")))
    host = sandbox_payload(config, image="p", labels={}, volume="v", memory={})["HostConfig"]
    assert (host["Dns"], host["DnsSearch"], host["DnsOptions"]) == (["10.0.0.1"], ["a", "b"], [""])


def test_a_hosts_file_is_writable_by_the_container() -> None:
    payload, _ = payload_of(
        container(hosts=b"x"), files=ContainerFiles(sources={}, hosts="/engine/vol/hosts")
    )
    assert payload["HostConfig"]["Mounts"] == [
        {"Type": "bind", "Source": "/engine/vol/hosts", "Target": "/etc/hosts"}
    ]


def test_a_hosts_file_is_rewritten_in_place(tmp_path: Path) -> None:
    assert write_here(str(tmp_path), b"a longer text")
    before = (tmp_path / "hosts").stat()
    assert write_here(str(tmp_path), b"short")
    after = (tmp_path / "hosts").stat()
    assert (tmp_path / "hosts").read_bytes() == b"short"
    assert (before.st_ino, after.st_mode & 0o777) == (after.st_ino, 0o644)


def test_a_hosts_file_belongs_to_the_owner_of_its_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container's root, whose id on the host differs if the engine remaps users."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda _, uid, gid: given.append((uid, gid)))
    assert write_here(str(tmp_path), b"x")
    assert given == [(tmp_path.stat().st_uid, tmp_path.stat().st_gid)]


def test_links_are_not_followed_and_directories_not_created(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"keep")
    (tmp_path / "hosts").symlink_to(target)
    assert not write_here(str(tmp_path), b"x")
    assert target.read_bytes() == b"keep"
    assert not write_here(str(tmp_path / "nosuch"), b"x")
