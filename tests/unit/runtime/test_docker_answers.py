"""How the Docker driver parses the engine's responses, without an engine."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import docker.errors
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from podtui.errors import (
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineTimeout,
    EngineUnavailable,
)
from podtui.runtime.docker.errors import Refused, engine_error, translate_transport_errors
from podtui.runtime.docker.images import ImageName, Progress, image_record, is_id, pull_problem
from podtui.runtime.docker.link import in_thread
from podtui.runtime.docker.locate import Endpoint
from podtui.runtime.docker.log_stream import FramedLines, Frames, TerminalLines
from podtui.runtime.docker.sdk import THREADS, Calls
from podtui.runtime.docker.stats import (
    ContainerUsage,
    KernelFiles,
    from_answer,
    interfaces_of,
    parse_net_dev,
)
from podtui.runtime.protocol import (
    LogLine,
    NetworkInterfaceUsage,
)

STAMP = "2026-11-21T09:21:06.985014643Z"

# --- images


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("busybox", "busybox:latest"),
        ("docker.io/library/busybox:latest", "busybox:latest"),
        ("index.docker.io/busybox:1.36", "busybox:1.36"),
        ("library/busybox", "busybox:latest"),
        ("team/app", "team/app:latest"),
        ("localhost/app:2", "localhost/app:2"),
        ("registry:5000/a/b", "registry:5000/a/b:latest"),
        ("quay.io/a/b:1@sha256:00", "quay.io/a/b@sha256:00"),
        ("busybox@sha256:00", "busybox@sha256:00"),
        ("cafe", "cafe:latest"),
    ],
)
def test_image_names_in_full(image: str, full: str) -> None:
    name = ImageName.parse(image)
    assert str(name) == full
    assert ImageName.parse(str(name)) == name


def test_image_ids() -> None:
    assert is_id("sha256:" + "0" * 64)
    assert not is_id("cafe")
    assert not is_id("sha256:00")


def test_a_gateway_error_of_a_registry() -> None:
    plain = {"error": "no such host", "errorDetail": {"message": "no such host"}}
    assert pull_problem(plain) == "no such host"
    assert pull_problem({"error": "bad gateway", "errorDetail": {"code": 502}}) == (
        "RegistryUnavailable: bad gateway"
    )
    assert pull_problem({"error": "who are you", "errorDetail": {"code": 401}}) == "who are you"


def test_image_records() -> None:
    record = image_record(
        {
            "Id": "0" * 64,
            "RepoTags": ["<none>:<none>"],
            "RepoDigests": None,
            "Size": 5,
            "Created": STAMP,
            "Config": {"User": "1000:7"},
        }
    )
    assert (record.id, record.tags, record.digests, record.user) == (
        "sha256:" + "0" * 64,
        (),
        (),
        "1000:7",
    )


@pytest.mark.parametrize(
    ("created", "year"), [(1_700_000_000, 2023), (STAMP, 2026), (0, None), ("", None), (None, None)]
)
def test_creation_time_of_an_image(created: object, year: int | None) -> None:
    made = image_record({"Id": "0" * 64, "Created": created}).created_at
    assert (made and made.year) == year


def test_pull_progress_adds_up() -> None:
    progress = Progress()

    def at(layer: str, status: str, current: int = 0, total: int = 0) -> tuple[int, int]:
        step = progress.add(
            {
                "id": layer,
                "status": status,
                "progressDetail": {"current": current, "total": total},
            }
        )
        return step.current, step.total

    assert at("a", "Downloading", 10, 100) == (10, 100)
    assert at("b", "Downloading", 5, 50) == (15, 150)
    assert at("a", "Download complete") == (105, 150)
    assert at("a", "Extracting", 1, 100) == (105, 150)
    assert progress.add({"status": "Digest: x"}).status == "Digest: x"


# --- log streams


def frame(kind: int, payload: bytes) -> bytes:
    return bytes([kind, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


messages = st.lists(
    st.tuples(
        st.sampled_from(["stdout", "stderr"]),
        st.binary(max_size=40).filter(lambda b: b"\n" not in b),
        st.booleans(),
    ),
    max_size=8,
)


@given(messages, st.lists(st.integers(1, 30)))
def test_frames_are_parsed_from_any_chunks(
    written: list[tuple[str, bytes, bool]], cuts: list[int]
) -> None:
    whole = b"".join(
        frame(
            1 if stream == "stdout" else 2,
            STAMP.encode() + b" " + content + (b"" if partial else b"\n"),
        )
        for stream, content, partial in written
    )
    lines = FramedLines()
    got: list[LogLine] = []
    for cut in [*cuts, len(whole)]:
        got += lines.feed(whole[:cut])
        whole = whole[cut:]
    assert [(line.stream, line.content, line.partial) for line in got] == written
    assert all(line.timestamp == STAMP for line in got)


def test_a_stream_without_frames_is_refused() -> None:
    with pytest.raises(EngineError):
        list(Frames().feed(b"plain text of a terminal"))


@given(st.lists(st.integers(1, 9000), max_size=12))
def test_terminal_lines_are_parsed_from_any_chunks(cuts: list[int]) -> None:
    stamp = STAMP.encode() + b" "
    whole = stamp + b"one\r\n" + stamp + b"x" * 16384 + stamp + b"tail\r\n" + stamp + b"$ "
    lines = TerminalLines()
    got: list[LogLine] = []
    for cut in [*cuts, len(whole)]:
        got += lines.feed(whole[:cut])
        whole = whole[cut:]
    got += lines.end()
    assert [(line.content, line.partial) for line in got] == [
        (b"one", False),
        (b"x" * 16384, True),
        (b"tail", False),
        (b"$ ", True),
    ]


# --- usage


def test_counters_of_an_answer() -> None:
    answer = {
        "cpu_stats": {"cpu_usage": {"total_usage": 5_000_000}},
        "memory_stats": {"usage": 1000, "stats": {"total_inactive_file": 300}},
    }
    assert from_answer(answer) == ContainerUsage(5_000_000, 700)
    assert from_answer({"cpu_stats": None, "memory_stats": {}}) == ContainerUsage(0, 0)


@pytest.mark.parametrize(
    ("counters", "version", "disk"),
    [
        ([{"op": "Read", "value": 5}, {"op": "Write", "value": 7}, {"op": "Sync", "value": 9},
          {"op": "Total", "value": 12}, {"op": "Read", "value": 1}], 1, (6, 7)),
        ([{"op": "read", "value": 5}, {"op": "write", "value": 7}], 2, (5, 7)),
        (None, 2, (0, 0)),
        ([], 2, (0, 0)),
        ([], 1, None),
        (None, 1, None),
    ],
)  # fmt: skip
def test_disk_counters_of_an_answer(
    counters: list[dict[str, Any]] | None, version: int, disk: tuple[int, int] | None
) -> None:
    answer = {"blkio_stats": {"io_service_bytes_recursive": counters}}
    assert from_answer(answer, version).disk == disk
    assert from_answer({"blkio_stats": {}}, version).disk is None


def test_interfaces_of_an_answer() -> None:
    eth = {"rx_bytes": 976, "tx_bytes": 70, "rx_errors": 1, "tx_errors": 2}
    (one,) = interfaces_of({"networks": {"eth0": eth, "lo": {"rx_bytes": 5}}}) or ()
    assert one == NetworkInterfaceUsage(
        name="eth0", received=976, sent=70, receive_errors=1, send_errors=2
    )
    assert interfaces_of({}) is None
    assert interfaces_of({"networks": {}}) == ()


NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo:      11       1    0    0    0     0          0         0       11       1    0    0
  eth0:     976      12    3    0    0     0          0         0      421       5    4    0
"""


def test_interfaces_of_the_kernels_file() -> None:
    (one,) = parse_net_dev(NET_DEV)
    assert one == NetworkInterfaceUsage(
        name="eth0", received=976, sent=421, receive_errors=3, send_errors=4
    )


def put(top: Path, path: str, text: str) -> None:
    (top / path).parent.mkdir(parents=True, exist_ok=True)
    (top / path).write_text(text)


def modern(top: Path) -> KernelFiles:
    put(top, "system.slice/docker-abc.scope/cpu.stat", "usage_usec 12\nuser_usec 3\n")
    put(top, "system.slice/docker-abc.scope/memory.current", "1000\n")
    put(top, "system.slice/docker-abc.scope/memory.stat", "anon 1\ninactive_file 400\n")
    put(top, "system.slice/docker-abc.scope/cgroup.procs", "0\n42\n43\n44\n")
    put(top, "proc/42/net/dev", NET_DEV)
    put(top, "proc/42/io", "rchar: 9\nread_bytes: 100\nwrite_bytes: 20\n")
    put(top, "proc/43/io", "rchar: 9\nread_bytes: 1\nwrite_bytes: 2\n")
    return KernelFiles(2, "systemd", "docker", top, top / "proc")


def split(top: Path) -> KernelFiles:
    put(top, "cpuacct/docker/abc/cpuacct.usage", "99\n")
    put(top, "cpuacct/docker/abc/cgroup.procs", "42\n")
    put(top, "memory/docker/abc/memory.usage_in_bytes", "50\n")
    put(top, "memory/docker/abc/memory.stat", "total_inactive_file 60\n")
    put(top, "proc/42/io", "read_bytes: 100\nwrite_bytes: 20\n")
    return KernelFiles(1, "cgroupfs", "docker", top, top / "proc")


def test_disk_counters_come_from_the_cgroup_if_available(tmp_path: Path) -> None:
    files = modern(tmp_path)
    lines = "8:0 rbytes=5 wbytes=6 rios=1 wios=1\n8:16 rbytes=10 wbytes=0 rios=0 wios=0\n"
    put(tmp_path, "system.slice/docker-abc.scope/io.stat", lines)
    assert files.usage("abc") == ContainerUsage(12_000, 600, (15, 6))
    assert files.usage("gone") is None


def test_disk_counters_come_from_processes_otherwise(tmp_path: Path) -> None:
    """Process 44 ends between the two scans."""
    assert modern(tmp_path).usage("abc") == ContainerUsage(12_000, 600, (101, 22))


def test_cgroup_v1_disk_counters_need_the_whole_hierarchy(tmp_path: Path) -> None:
    name = "blkio.throttle.io_service_bytes_recursive"
    put(tmp_path, f"blkio/{name}", "Total 0\n")
    assert split(tmp_path).usage("abc") == ContainerUsage(99, 0, (100, 20))
    put(tmp_path, f"blkio/{name}", "8:0 Read 900\n8:0 Write 90\nTotal 990\n")
    put(tmp_path, f"blkio/docker/abc/{name}", "8:0 Read 7\n8:0 Write 8\n8:0 Sync 15\nTotal 15\n")
    assert split(tmp_path).usage("abc") == ContainerUsage(99, 0, (7, 8))
    put(tmp_path, f"blkio/docker/abc/{name}", "Total 0\n")
    assert split(tmp_path).usage("abc") == ContainerUsage(99, 0, (0, 0))


def test_unreadable_disk_counters_are_not_measured(tmp_path: Path) -> None:
    files = split(tmp_path)
    (tmp_path / "proc/42/io").unlink()
    (tmp_path / "proc/42/io").mkdir()
    assert files.usage("abc") == ContainerUsage(99, 0, None)


def test_interfaces_are_those_of_the_first_process(tmp_path: Path) -> None:
    files = modern(tmp_path)
    assert files.interfaces("abc") == parse_net_dev(NET_DEV)
    assert files.interfaces("gone") is None
    (tmp_path / "proc/42/net/dev").write_text("a\nb\nhalf: 1\n")
    assert files.interfaces("abc") is None


# --- errors


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (404, "No such container: x", EngineNotFound),
        (409, "Conflict", EngineConflict),
        (500, "Bind for 0.0.0.0:80 failed: port is already allocated", EngineConflict),
        (500, "can only attach to running containers: container state improper", EngineConflict),
        (500, "disk full", EngineError),
    ],
)
def test_refusals_are_classified(status: int, text: str, kind: type[EngineError]) -> None:
    assert type(engine_error(Refused(status, text))) is kind


def test_errors_are_translated_once() -> None:
    answer = requests.Response()
    answer.status_code = 409
    with pytest.raises(Refused) as refused, translate_transport_errors("unix:///x"):
        raise docker.errors.APIError("no", answer, explanation="name taken")
    assert (refused.value.status, refused.value.text) == (409, "name taken")
    for lost, kind in (
        (requests.ConnectionError("gone"), EngineUnavailable),
        (ConnectionResetError(), EngineUnavailable),
        (requests.ReadTimeout("Read timed out."), EngineTimeout),
        (TimeoutError(), EngineTimeout),
    ):
        with (
            pytest.raises(EngineUnavailable, match="unix:///x") as raised,
            translate_transport_errors("unix:///x"),
        ):
            raise lost
        assert type(raised.value) is kind
    own = EngineNotFound("left alone")
    with pytest.raises(EngineNotFound) as same, translate_transport_errors("unix:///x"):
        raise own
    assert same.value is own


async def test_a_cancelled_blocking_call_does_not_block_the_event_loop() -> None:
    """After a cancelled reconnect, the calls of the old connection end by themselves."""
    allowed, finished = threading.Event(), threading.Event()
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    def call() -> None:
        loop.call_soon_threadsafe(began.set)
        allowed.wait(10)
        finished.set()

    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(in_thread(call))
            await began.wait()
            task.cancel()
        assert not finished.is_set(), "the event loop waited for the call"
    finally:
        allowed.set()


async def test_a_call_dropped_by_a_lost_connection_does_not_cancel_its_caller() -> None:
    """More calls than threads: calls that wait for a thread are dropped when the connection closes.

    If this cancelled the pod worker, its pod would stay Pending for ever."""
    calls = Calls(Endpoint(url="unix:///nowhere.sock", source="test"), "1.41")
    allowed = threading.Event()
    ended = asyncio.Event()
    results: list[BaseException | None] = []

    async def call() -> None:
        try:
            await calls.run(lambda client: allowed.wait(20))
            results.append(None)
        except (EngineUnavailable, asyncio.CancelledError) as error:
            results.append(error)
        ended.set()

    async with asyncio.TaskGroup() as group:
        for _ in range(THREADS + 1):
            group.create_task(call())
        await asyncio.sleep(0)
        closing = group.create_task(asyncio.to_thread(calls.close))
        await ended.wait()
        allowed.set()
        await closing
    assert sum(result is None for result in results) == THREADS
    (dropped,) = [result for result in results if result is not None]
    assert isinstance(dropped, EngineUnavailable)
    with pytest.raises(EngineUnavailable, match="connection was closed"):
        await calls.run(lambda client: True)
