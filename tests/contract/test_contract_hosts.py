"""The hosts file that a pod's containers share, on every runtime (kubelet.md §11.1)."""

from __future__ import annotations

import pytest
from runtime_bench import Bench

from podtui.runtime.protocol import SecurityContext

HOSTS = b"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.0.0.7\tweb\n"
SHOW = "cat /etc/hosts"


@pytest.mark.engine
async def test_a_container_sees_exactly_the_file_of_its_creation(
    engine_bench: Bench,
) -> None:
    sandbox = await engine_bench.sandbox()
    code, lines = await engine_bench.run(sandbox, SHOW, hosts=HOSTS)
    assert (code, lines) == (0, HOSTS.decode().splitlines())


@pytest.mark.engine
async def test_the_file_is_rewritten_for_each_container(engine_bench: Bench) -> None:
    sandbox = await engine_bench.sandbox()
    script = "echo '10.0.0.8 other' >> /etc/hosts && tail -n 1 /etc/hosts"
    security = SecurityContext(read_only_rootfs=True)
    code, lines = await engine_bench.run(sandbox, script, hosts=HOSTS, security=security)
    assert (code, lines) == (0, ["10.0.0.8 other"])
    _, after = await engine_bench.run(sandbox, SHOW, name="next", hosts=HOSTS + b"10.0.0.9\tnew\n")
    assert after == [*HOSTS.decode().splitlines(), "10.0.0.9\tnew"]


@pytest.mark.engine
async def test_the_file_is_written_without_access_to_the_engines_directory(
    remote_bench: Bench,
) -> None:
    """As with a remote engine, or an agent that is not root."""
    sandbox = await remote_bench.sandbox()
    for name, hosts in (("one", HOSTS), ("two", HOSTS + b"10.0.0.9\tnew\n")):
        _, lines = await remote_bench.run(sandbox, SHOW, name=name, hosts=hosts)
        assert lines == hosts.decode().splitlines()
