"""How the Docker driver reads what the engine says, without an engine."""

from __future__ import annotations

from pathlib import Path

import docker.errors
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from podtui.errors import EngineConflict, EngineError, EngineNotFound, EngineUnavailable
from podtui.runtime.docker.errors import Refused, meaning, translated
from podtui.runtime.docker.images import ImageName, Progress, image_record, is_id, pull_problem
from podtui.runtime.docker.log_stream import FramedLines, Frames, TerminalLines
from podtui.runtime.docker.usage import CgroupFiles, Usage, from_answer
from podtui.runtime.protocol import (
    LogLine,
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


def test_a_gateway_that_answers_for_a_registry() -> None:
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
def test_when_an_image_was_made(created: object, year: int | None) -> None:
    made = image_record({"Id": "0" * 64, "Created": created}).created_at
    assert (made and made.year) == year


def test_pull_progress_adds_up() -> None:
    progress = Progress()

    def at(layer: str, status: str, current: int = 0, total: int = 0) -> tuple[int, int]:
        told = progress.add(
            {
                "id": layer,
                "status": status,
                "progressDetail": {"current": current, "total": total},
            }
        )
        return told.current, told.total

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
def test_frames_survive_any_cutting(
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
def test_terminal_lines_survive_any_cutting(cuts: list[int]) -> None:
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
    assert from_answer(answer) == Usage(5_000_000, 700)
    assert from_answer({"cpu_stats": None, "memory_stats": {}}) == Usage(0, 0)


def test_counters_of_cgroup_files(tmp_path: Path) -> None:
    modern = tmp_path / "system.slice" / "docker-abc.scope"
    modern.mkdir(parents=True)
    (modern / "cpu.stat").write_text("usage_usec 12\nuser_usec 3\n")
    (modern / "memory.current").write_text("1000\n")
    (modern / "memory.stat").write_text("anon 1\ninactive_file 400\n")
    assert CgroupFiles(2, "systemd", "docker", tmp_path).read("abc") == Usage(12_000, 600)
    for part, name, text in (
        ("cpuacct", "cpuacct.usage", "99\n"),
        ("memory", "memory.usage_in_bytes", "50\n"),
        ("memory", "memory.stat", "total_inactive_file 60\n"),
    ):
        folder = tmp_path / part / "docker" / "abc"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    files = CgroupFiles(1, "cgroupfs", "docker", tmp_path)
    assert files.read("abc") == Usage(99, 0)
    assert files.read("gone") is None


# --- errors


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (404, "No such container: x", EngineNotFound),
        (409, "Conflict", EngineConflict),
        (500, "Bind for 0.0.0.0:80 failed: port is already allocated", EngineConflict),
        (500, "disk full", EngineError),
    ],
)
def test_what_refusals_mean(status: int, text: str, kind: type[EngineError]) -> None:
    assert type(meaning(Refused(status, text))) is kind


def test_errors_are_translated_once() -> None:
    answer = requests.Response()
    answer.status_code = 409
    with pytest.raises(Refused) as refused, translated("unix:///x"):
        raise docker.errors.APIError("no", answer, explanation="name taken")
    assert (refused.value.status, refused.value.text) == (409, "name taken")
    for lost in (requests.ConnectionError("gone"), ConnectionResetError(), TimeoutError()):
        with pytest.raises(EngineUnavailable, match="unix:///x"), translated("unix:///x"):
            raise lost
    own = EngineNotFound("left alone")
    with pytest.raises(EngineNotFound) as same, translated("unix:///x"):
        raise own
    assert same.value is own
