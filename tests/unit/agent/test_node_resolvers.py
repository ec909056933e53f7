"""The resolvers of the machine, as the cluster's name server asks them."""

from __future__ import annotations

from pathlib import Path

import pytest
from virtual_time import virtual

from podtui.agent.node_resolvers import NodeResolvers, resolvers_of
from podtui.clock import SystemClock


def test_only_addresses_of_others_are_asked() -> None:
    servers = ("127.0.0.53", "fe80::1%eth0", "resolver.example", "10.96.0.10", "")
    assert resolvers_of(servers) == (("127.0.0.53", 53), ("fe80::1%eth0", 53))


@virtual()
async def test_a_changed_file_is_read_after_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("search lan\nnameserver 192.0.2.1\n")
    clock = SystemClock()
    resolvers = NodeResolvers(str(path), clock)
    assert await resolvers() == (("192.0.2.1", 53),)
    path.write_text("nameserver 192.0.2.2\n")
    assert await resolvers() == (("192.0.2.1", 53),)
    await clock.sleep(6)
    assert await resolvers() == (("192.0.2.2", 53),)
    # What was read last counts while the file cannot be read.
    path.unlink()
    await clock.sleep(6)
    assert await resolvers() == (("192.0.2.2", 53),)
    assert "the resolvers of the node are unknown" in caplog.text
