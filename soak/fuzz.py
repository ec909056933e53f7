"""``python -m soak.fuzz``: millions of broken inputs, in process, made by hypothesis.

Hypothesis chooses a document of a corpus and a list of edits. Each
document with its first edit, its first two and so on is an input, so one example tries many.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks.scripted import NODE, pod, started
from benchmarks.world import World as ScriptedKubelet
from podtui.client.decoding import LineSplitter
from podtui.clock import SystemClock
from podtui.errors import EngineError, SettingsError
from podtui.manifest.diagnose import read_manifest
from podtui.runtime.docker import DockerRuntime
from podtui.runtime.docker.capabilities import abilities, engine_info
from podtui.runtime.docker.identity import snapshot
from podtui.runtime.docker.images import image_record
from podtui.runtime.docker.inspection import container_status, sandbox_status
from podtui.runtime.docker.log_stream import FramedLines, TerminalLines
from podtui.runtime.docker.stats import from_answer, interfaces_of
from podtui.runtime.protocol import LogOptions
from podtui.server import build_app, serve_unix
from podtui.server.query import negotiate
from podtui.server.selectors import parse_fields, parse_labels
from podtui.server.status import StatusError
from podtui.settings import resolve
from podtui.store import open_store
from podtui.terminal_text import lines as safe_lines
from podtui.tui.preferences.themes import load_theme
from podtui.tui.views.logs.ansi import parse
from podtui.tui.views.logs.json_rows import parse_json, pretty
from podtui.tui.views.logs.levels import level_of
from podtui.tui.views.logs.times import split_lines
from soak.report import Result

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
BATCH: Final = 100
"""Examples of one run of hypothesis."""
SECONDS: Final = 22 * 60.0
SHORT_SHARE: Final = 0.02
_FRAGMENTS: Final = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\x1b[31m", b"\x1b]0;x\x07", b"\r", b"\n", b"\t", b"- ",
    b": ", b"{", b"}", b"[", b"]", b'"', b"'", b"&a ", b"*a ", b"<<: *a", b"!!binary ", b"---\n",
    b"...\n", b"# ", b"|", b">", b"null", b"true", b"-1", b"1e400", b"9" * 40, b"0x", b"%", b"\\",
    b"\\ud800", b"../..", b"\xe2\x80\xae", b"=", b",", b"!", b"()", b" in ", b"x" * 300, b"    ",
)  # fmt: skip
_VALUES: Final = (
    None, True, False, 0, -1, 2**63, 1.5, "", "x", "\x1b[31m\0", "9" * 400, "2026-13-45T99:99:99Z",
    [], {}, [None], [[]], [{}], {"": None}, {"x": {}}, ["x", 1],
)  # fmt: skip


def edited(document: bytes, recipe: bytes) -> Iterator[bytes]:
    """The document after each edit of ``recipe``, four bytes to an edit."""
    data = bytearray(document)
    for at in range(0, len(recipe) - 3, 4):
        kind, high, low, value = recipe[at : at + 4]
        place = (high << 8 | low) * (len(data) + 1) >> 16
        span = 1 + value % 32
        match kind % 6:
            case 0:
                data[place:place] = _FRAGMENTS[value % len(_FRAGMENTS)]
            case 1:
                del data[place : place + span]
            case 2:
                data[place : place + 1] = bytes([value])
            case 3:
                data[place:place] = data[place : place + span * 4]
            case 4 if value % 8 == 0:
                del data[place:]
            case 4:
                end = data.find(b"\n", place) + 1
                data += data[place:end]
                del data[place:end]
            case _:
                data[place : place + span] = _FRAGMENTS[value % len(_FRAGMENTS)]
        del data[1 << 16 :]
        yield bytes(data)


def edited_tree(tree: Any, recipe: bytes) -> Iterator[Any]:
    """A JSON value with one of its parts replaced or deleted at each edit."""
    tree = deepcopy(tree)
    for at in range(0, len(recipe) - 3, 4):
        kind, high, low, value = recipe[at : at + 4]
        places = list(places_of(tree))
        if not places:
            return
        holder, key = places[(high << 8 | low) * len(places) >> 16]
        if kind % 4 == 0:
            del holder[key]
        else:
            holder[key] = deepcopy(_VALUES[value % len(_VALUES)])
        yield tree


def places_of(tree: Any) -> Iterator[tuple[Any, Any]]:
    pairs: Any = ()
    if isinstance(tree, dict):
        pairs = list(tree.items())
    elif isinstance(tree, list):
        pairs = list(enumerate(tree))
    for key, value in pairs:
        yield tree, key
        yield from places_of(value)


@dataclass(frozen=True, slots=True)
class Target:
    """``feed`` gets a document's index in the corpus and the recipe; it returns how many inputs it
    tried, and raises for what must not be."""

    name: str
    title: str
    checked: str
    inputs: int
    feed: Callable[[int, bytes], int]


# --- manifests, settings, themes


def _files(pattern: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(ROOT.glob(pattern)))


_MANIFESTS: Final = _files("static_pods/**/*.yaml") + _files("templates/*.yaml")
_THEMES: Final = _files("themes/*.yaml")
_SETTINGS: Final = (
    (
        b"maxPods: 20\nevictionHard: {memory.available: 100Mi, nodefs.available: '10%'}\n"
        b"systemReserved: {cpu: 100m, memory: 1Gi}\nsyncFrequency: 1m30s\nclusterDNS: [10.0.0.10]\n"
        b"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 20}]\n"
    ),
    (
        b"kubeletStrict: true\nfeatureGates: {A: true}\ncontainerLogMaxSize: 10Mi\n"
        b"crashLoopBackOff: {maxContainerRestartPeriod: 10s}\npodPidsLimit: -1\ntheme: plain\n"
    ),
    (
        b"keys: {'app.quit': 'ctrl+q'}\nhotkeys: {f5: status}\nnotifyOn: [crash]\n"
        b"commands:\n  grep: {key: g, run: [grep, no], scope: pod}\nreadOnly: 'yes'\n"
    ),
)


def _manifest(index: int, recipe: bytes) -> int:
    tried = 0
    for data in edited(_MANIFESTS[index % len(_MANIFESTS)], recipe):
        read_manifest("/manifests/x.yaml", data, node_name="n1", strict=bool(tried % 2))
        tried += 1
    return tried


def _setting(index: int, recipe: bytes) -> int:
    tried = 0
    for data in edited(_SETTINGS[index % len(_SETTINGS)], recipe):
        _SCRATCH.write_bytes(data)
        with suppress(SettingsError):
            resolve({}, {"HOME": "/root"}, config=_SCRATCH, working=Path("/"))
        tried += 1
    return tried


def _theme(index: int, recipe: bytes) -> int:
    tried = 0
    for data in edited(_THEMES[index % len(_THEMES)], recipe):
        _SCRATCH.write_bytes(data)
        found = load_theme(_SCRATCH)
        assert (found.theme is None) == bool(found.problems), found
        tried += 1
    return tried


# --- log streams

_STAMP: Final = b"2026-01-01T00:00:00.000000001Z "
_TEXTS: Final = (
    b'{"level": "error", "msg": "no \\u001b", "n": [1, {"a": null}], "t": 1.5e3}\n',
    b"\x1b[1;31mE0101 00:00:00 1 x.go:1] failed\x1b[0m \x1b[38;5;200mx\x1b[48;2;1;2;3my\n",
    b"Traceback (most recent call last):\n  File x\nValueError: y\n",
    b'level=warn msg="a b" t=2026-01-01T00:00:00Z\r\n50%\r60%\r\n',
    "ünïcode \u202e \U0001f600 e\u0301\n".encode(),
)


def _framed(text: bytes) -> bytes:
    parts = [_STAMP + line for line in text.splitlines(keepends=True)]
    return b"".join(b"\x01\0\0\0" + len(part).to_bytes(4, "big") + part for part in parts)


_STREAMS: Final = tuple(_framed(text) for text in _TEXTS) + tuple(_STAMP + t for t in _TEXTS)


def _log_stream(index: int, recipe: bytes) -> int:
    tried = 0
    for data in edited(_STREAMS[index % len(_STREAMS)], recipe):
        framed = index % len(_STREAMS) < len(_TEXTS)
        stream = FramedLines() if framed else TerminalLines()
        step = 1 + recipe[tried % len(recipe)] % 64
        lines: list[bytes] = []
        with suppress(EngineError):
            for at in range(0, len(data), step):
                lines += [line.content for line in stream.feed(data[at : at + step])]
            lines += [line.content for line in stream.end()]
        fed = LineSplitter(64)
        client = [*fed.feed(data[: len(data) // 2]), *fed.feed(data[len(data) // 2 :])]
        for line in (*lines, *client, *fed.finish()):
            level_of(line)
            drawn = "".join(segment.text for segment in parse(line))
            assert not {"\x1b", "\0"} & set(drawn), drawn
            if parse_json(line) is not None:
                pretty(line)
        _, texts = split_lines([data])
        assert texts
        assert "\x1b" not in safe_lines(data.decode(errors="replace"))
        tried += 1
    return tried


# --- the API

_SELECTORS: Final = (
    b"app=web,tier!=db,env in (a,b),zone notin (c),!gone,n>5,m < 7,present",
    b"metadata.name=web-n1,status.phase!=Running,spec.nodeName==n1",
    b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5,*/*",
)
_POD: Final = b"/api/v1/namespaces/default/pods/pod-0"
_REQUESTS: Final = tuple(
    b"%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: %s\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (line, kind, len(body), body)
    for line, kind, body in (
        (b"GET /api/v1/pods?labelSelector=app%3Dweb&limit=5&fieldSelector=metadata.name%3Dx",
         b"", b""),
        (b"GET /apis/podtui.dev/v1alpha1/manifests?resourceVersion=0", b"", b""),
        (b"GET " + _POD + b"/log?container=app&tailLines=5&sinceSeconds=9&timestamps=true", b"",
         b""),
        (b"PATCH " + _POD + b"/ephemeralcontainers", b"application/strategic-merge-patch+json",
         b'{"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox"}]}}'),
        (b"GET /containerLogs/default/pod-0/app?tailLines=2&follow=false", b"", b""),
        (b"GET /api/v1/events?watch=true&timeoutSeconds=1&resourceVersion=1", b"", b""),
    )
)  # fmt: skip


def _selector(index: int, recipe: bytes) -> int:
    tried = 0
    for data in edited(_SELECTORS[index % len(_SELECTORS)], recipe):
        text = data.decode(errors="replace")
        with suppress(StatusError):
            parse_labels(text)({"app": "web", "n": "6"})
        with suppress(StatusError):
            parse_fields(text, ("metadata.name", "status.phase"))(lambda path: "")
        with suppress(StatusError):
            negotiate(text, "Table")
        tried += 1
    return tried


class _ErrorLog(logging.Handler):
    """Keeps what the server logs of a request that failed unexpectedly."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        expected = (web.HTTPException, BadHttpMessage)
        if record.exc_info is not None and not isinstance(record.exc_info[1], expected):
            self.texts.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


async def _requests(index: int, recipe: bytes) -> int:
    tried = 0
    errors = _ErrorLog()
    logging.getLogger("aiohttp.server").addHandler(errors)
    logging.getLogger("podtui").addHandler(errors)
    store = open_store(None, clock=SystemClock())
    kubelet = ScriptedKubelet(["pod-0", "pod-1"], 0, 0, 10)
    kubelet.write_past()
    path = _SCRATCH.with_name("api.sock")
    try:
        await store.put("nodes", NODE)
        for number in range(2):
            await store.put("pods", pod(number, 0))
            await store.put("events", started(number))
        app = build_app(store, kubelet, version="fuzz")
        async with serve_unix(app, path):
            for data in edited(_REQUESTS[index % len(_REQUESTS)], recipe):
                status = await _asked(path, data, 0.02)
                assert not 500 <= status < 600 or status == 501, (status, data)
                tried += 1
            assert await _asked(path, b"GET /healthz HTTP/1.0\r\n\r\n", 5.0) == 200
        assert not errors.texts, errors.texts[0]
    finally:
        logging.getLogger("aiohttp.server").removeHandler(errors)
        logging.getLogger("podtui").removeHandler(errors)
        await store.close()
    return tried


async def _asked(path: Path, data: bytes, patience: float) -> int:
    """The status of the answer, 0 where none came."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(data)
        async with asyncio.timeout(patience):
            line = await reader.readline()
        return int(line.split()[1]) if line.startswith(b"HTTP/1.") else 0
    except (TimeoutError, OSError, ValueError, IndexError):
        return 0
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


# --- the engine's answers


class _FakeEngine:
    """Answers each path with a document of the corpus; the one under test is broken: another
    value somewhere, cut, or slow."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.bodies = {path: json.dumps(answer).encode() for path, answer in answers.items()}
        self.bodies |= {"/_ping": b"OK", "/containers/APP/logs": _STREAMS[0]}
        self.cut: int | None = None

    def _body(self, target: str) -> bytes:
        path = "/" + target.partition("?")[0].partition("/v1.")[2].partition("/")[2]
        path = path if path in self.bodies else f"/{'/'.join(path.split('/')[1:])}"
        kind = path.rpartition("/")[2]
        if path not in self.bodies and path.startswith("/images/"):
            path = "/images/IMAGE/json"
        elif path not in self.bodies and path.startswith("/containers/"):
            path = f"/containers/APP/{kind}"
        return self.bodies.get(path, b"{}")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                target = head.split(b" ", 2)[1].decode()
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        await reader.readexactly(int(line.split(b":")[1]))
                body = self._body(target)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nApi-Version: 1.41\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(body)
                )
                # The test may go on meanwhile.
                cut = self.cut
                if cut is not None:
                    # Slow, then cut: half of it, a pause, and the end before the announced one.
                    writer.write(body[:cut])
                    await writer.drain()
                    await asyncio.sleep(0.001)
                    if cut < len(body):
                        break
                else:
                    writer.write(body)
                await writer.drain()
        writer.close()


ANSWERS: Final[dict[str, Any]] = json.loads((HERE / "answers.json").read_text())


async def _engine(index: int, recipe: bytes) -> int:
    path = _SCRATCH.with_name("engine.sock")
    path.unlink(missing_ok=True)
    names = sorted(ANSWERS)
    name = names[index % len(names)]
    tried = 0
    engine = _FakeEngine(ANSWERS)
    async with await asyncio.start_unix_server(engine.serve, str(path)):
        runtime = DockerRuntime(f"unix://{path}", root="/var/lib/podtui/root", clock=SystemClock())
        await runtime.connect()
        for number, tree in enumerate(edited_tree(ANSWERS[name], recipe)):
            body = json.dumps(tree).encode()
            engine.bodies[name] = body
            engine.cut = recipe[number] * len(body) // 255 if number % 4 == 3 else None
            for verb in _verbs(runtime, name):
                with suppress(EngineError):
                    async with asyncio.timeout(20):
                        await verb()
            engine.cut = None
            tried += 1
        await runtime.close()
    return tried


def _verbs(runtime: DockerRuntime, name: str) -> tuple[Callable[[], Any], ...]:
    """The calls that read this answer."""

    async def logs() -> None:
        async for _ in runtime.logs("APP", LogOptions(follow=False)):
            pass

    async def connect() -> None:
        await runtime.close()
        await runtime.connect()

    return {
        "/version": (connect,),
        "/info": (connect,),
        "/containers/json": (runtime.list, runtime.stats, runtime.sandbox_stats),
        "/containers/APP/json": (lambda: runtime.container_status("APP"), logs),
        "/containers/BOX/json": (lambda: runtime.sandbox_status("BOX"),),
        "/containers/APP/stats": (runtime.stats,),
        "/images/json": (runtime.list_images, runtime.layer_sizes),
        "/images/IMAGE/json": (lambda: runtime.image_status("busybox:1.36"), connect),
        "/volumes": (runtime.pod_data,),
    }[name]


def _in_loop(feed: Callable[[int, bytes], Any]) -> Callable[[int, bytes], int]:
    return lambda index, recipe: asyncio.run(feed(index, recipe))


def _answer(index: int, recipe: bytes) -> int:
    """The readers of the engine's answers, without a connection."""
    names = sorted(READERS)
    name = names[index % len(names)]
    tried = 0
    for tree in edited_tree(ANSWERS[name], recipe):
        for read in READERS[name]:
            with suppress(EngineError):
                read(tree)
        tried += 1
    return tried


READERS: Final[dict[str, tuple[Callable[[Any], object], ...]]] = {
    "/containers/json": (snapshot,),
    "/containers/APP/json": (container_status,),
    "/containers/BOX/json": (sandbox_status,),
    "/containers/APP/stats": (from_answer, interfaces_of),
    "/images/IMAGE/json": (image_record,),
    "/info": (
        lambda info: engine_info(
            info, ANSWERS["/version"], api_version="1.41", able=abilities(info), local=True
        ),
    ),
}

_SCRATCH = Path("/nonexistent")
"""A file of this process, set by `main`."""

TARGETS: Final = (
    Target(
        "fuzz manifests", "Manifests", "a verdict for each", 300_000, _manifest
    ),
    Target(
        "fuzz settings", "Settings files", "settings, or an error with its place", 300_000, _setting
    ),
    Target("fuzz themes", "Themes", "a theme, or its problems", 277_000, _theme),
    Target(
        "fuzz log streams", "Log streams, in pieces of any size",
        "no control sequence is drawn", 500_000, _log_stream,
    ),
    Target(
        "fuzz selectors", "API requests: selectors and media types", "an answer, or status 400",
        1_200_000, _selector,
    ),
    Target(
        "fuzz requests", "API requests, as bytes on the socket",
        "never status 500, and the server answers afterwards", 20_000, _in_loop(_requests),
    ),
    Target(
        "fuzz answers", "The engine's answers, other values in them",
        "a result, or an EngineError", 400_000, _answer,
    ),
    Target(
        "fuzz engine", "The engine's answers, other values in them, cut and slow, by connection",
        "a result, or an EngineError", 3_000, _in_loop(_engine),
    ),
)  # fmt: skip
NAMES: Final = tuple(target.name for target in TARGETS)
LANES: Final = (
    ("fuzz log streams", "fuzz selectors"),
    tuple(name for name in NAMES if name not in ("fuzz log streams", "fuzz selectors")),
)
"""Run beside each other; about as much work in each."""


def run_target(target: Target, number: int, *, planned: int, seconds: float) -> Result:
    """Feed it until it had its inputs or its time."""
    began = time.monotonic()
    done, batch, problem = 0, 0, ""
    last = b""

    def example(index: int, recipe: bytes) -> None:
        nonlocal done, last
        if done >= planned or time.monotonic() - began > seconds:
            return
        last = bytes([index]) + recipe
        done += target.feed(index, recipe)

    while done < planned and not problem and time.monotonic() - began < seconds:
        run = settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            # Not shrunk: what takes long to run takes forever to shrink.
            phases=(Phase.generate,),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )(given(st.integers(0, 255), st.binary(min_size=256, max_size=256))(example))
        try:
            seed(number + batch)(run)()
        except Exception as error:  # noqa: BLE001 - whatever a target raises is what we look for
            problem = f"{error!r}"[:2000] + f" for index {last[0]}, recipe {last[1:].hex()}"
        batch += 1
    return Result(
        name=target.name,
        title=f"Fuzzing: {target.title}",
        unit="inputs",
        done=done,
        planned=planned,
        seconds=time.monotonic() - began,
        checked=target.checked,
        problem=problem,
    )


@contextmanager
def _scratch() -> Generator[None]:
    global _SCRATCH
    with tempfile.TemporaryDirectory(prefix="podtui-fuzz-", dir=_memory()) as base:
        _SCRATCH = Path(base, "document.yaml")
        yield


def _memory() -> str | None:
    """A folder that costs no disk, where there is one."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the time limit")
    parser.add_argument("--out", type=Path, help="write results to this file")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    share = SHORT_SHARE if options.short else 1.0
    chosen = [t for t in TARGETS if not options.names or t.name in options.names]
    deadline = time.monotonic() + options.seconds
    results: list[Result] = []
    with _scratch():
        for number, target in enumerate(chosen):
            # What is left is shared by those that are left.
            seconds = (deadline - time.monotonic()) / (len(chosen) - number)
            planned = int(target.inputs * share)
            results.append(run_target(target, options.seed, planned=planned, seconds=seconds))
            one = results[-1]
            print(f"{one.name}: {one.done:,} inputs in {one.seconds:.0f} s, {one.verdict}"
                  f" {one.problem}", flush=True)  # fmt: skip
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(asdict(one)) + "\n")
    return 1 if any(one.problem for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
