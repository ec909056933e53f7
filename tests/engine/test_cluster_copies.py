"""Files copied to and from a container of a cluster, by the container's own tar."""

from __future__ import annotations

from pathlib import Path

from cluster_server import cluster_client
from session_world import docker, session_world


async def test_files_are_copied_by_tar(tmp_path: Path, engine_url: str) -> None:
    async with session_world(docker(engine_url), tmp_path / "s.sock") as world:
        await world.put(c="sleep 300")
        client = await cluster_client(world.served, tmp_path)
        source = tmp_path / "given.txt"
        source.write_text("content")
        copied = await client.copy_to("default", "web", "c", source, "/tmp/there.txt")
        assert copied.files == 1
        copied = await client.copy_from("default", "web", "c", "/tmp/there.txt", tmp_path)
        assert copied.files == 1
        assert (tmp_path / "there.txt").read_text() == "content"
        await client.close()
