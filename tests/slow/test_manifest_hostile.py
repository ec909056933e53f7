"""Five hundred generated invalid manifests do not affect the valid pods beside them."""

from __future__ import annotations

import asyncio
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import yaml
from examples import examples
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from manifests import NODE, names, pod_text, put, watch

from podtui.api.local import ManifestState, Severity
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.document import source_lines
from podtui.manifest.problems import MAX_DIAGNOSTICS
from podtui.manifest.result import ReadResult

RICH = """\
apiVersion: v1
kind: Pod
metadata:
  name: rich
  labels: {app: rich}
spec:
  restartPolicy: OnFailure
  initContainers:
  - name: init
    image: busybox:1
    command: [sh, -c, "true"]
  containers:
  - name: main
    image: busybox:1
    env:
    - {name: A, value: "1"}
    - name: B
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    ports:
    - containerPort: 80
      name: http
    resources:
      limits: {cpu: 100m, memory: 64Mi}
    livenessProbe:
      httpGet: {path: /, port: http}
      periodSeconds: 5
    volumeMounts:
    - {name: data, mountPath: /data}
  volumes:
  - name: data
    emptyDir: {sizeLimit: 1Gi}
"""
PATH = "/m/hostile.yaml"
TREE = yaml.safe_load(RICH)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["", "\x1b[31m", "../..", "\u202e", "1e999", "0x", "9" * 5000, "=", "<<"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=8) | st.sampled_from(sorted(TREE["spec"])), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in children:
        found += _paths(item, (*path, key))
    return found


PATHS = _paths(TREE)


@st.composite
def wrong_types(draw: st.DrawFn) -> bytes:
    """Return the rich pod with one value replaced by another type."""
    tree = json.loads(json.dumps(TREE))
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
        here = tree
        try:
            for step in path[:-1]:
                here = here[step]
            here[path[-1]] = draw(values)
        except (TypeError, KeyError, IndexError):
            continue
    return json.dumps(tree).encode() if draw(st.booleans()) else yaml.safe_dump(tree).encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return the rich pod's text truncated, spliced or with random bytes."""
    data = RICH.encode()
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, min(len(data), start + 60)))
    return data[:start] + draw(st.binary(max_size=12)) + data[end:]


truncated = st.integers(0, len(RICH) - 1).map(lambda n: RICH.encode()[:n])
hostile_yaml = st.sampled_from(
    [
        b"a: &a [*a]",
        b"[" * 50_000,
        b"{" * 50_000,
        b"- " * 50_000,
        b"? " * 50_000,
        b'{"a":' * 50_000,
        b"&a " * 1000,
        b"!!python/object/apply:os.system [id]",
        b"!!python/name:os.system",
        b"%TAG ! tag:evil,2000:\n--- !x\na: b",
        b"\xff\xfe\x00\x00",
        b"\x00" * 1000,
        b"a: |\n" + b" x\n" * 50_000,
        b"'" * 50_001,
        b"#" * 100_000,
        b"---\n" * 50_000,
        b": " * 50_000,
        b"a: " + b"9" * 50_000,
        b"<<: " * 100,
        b"x: &x {a: 1}\n" + b"".join(b"y%d: {<<: [*x, *x]}\n" % i for i in range(2000)),
        b"l0: &l0 [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(
            b"l%d: &l%d [%s]\n" % (i, i, b",".join([b"*l%d" % (i - 1)] * 9)) for i in range(1, 20)
        ),
        RICH.encode().replace(b"rich", b'"\\e]0;owned\\a"'),
        RICH.encode().replace(b"80", b"1" * 5000),
        RICH.encode().replace(b"1Gi", b"1e" + b"9" * 400),
        RICH.encode().replace(b"  - name: data\n", b"  - name: data\n    name: data\n"),
    ]
)
hostile = st.one_of(truncated, damaged(), wrong_types(), hostile_yaml, st.binary(max_size=300))


def check(result: ReadResult, data: bytes) -> None:
    """Check that the manifest yields a pod, or diagnostics with positions."""
    assert bool(result.pods) != result.invalid
    assert len(result.diagnostics) <= MAX_DIAGNOSTICS + 1
    lines = source_lines(data.decode("utf-8-sig", "replace"))
    for diagnostic in result.diagnostics:
        assert diagnostic.path == PATH
        assert diagnostic.message
        assert diagnostic.code != "InternalError", diagnostic
        assert (diagnostic.message + diagnostic.field + diagnostic.fix).isprintable(), diagnostic
        assert len(diagnostic.message) < 2000
        if diagnostic.code not in {"FileTooLarge", "NotText", "MoreProblems"}:
            assert diagnostic.line is not None, diagnostic
            assert diagnostic.column is not None, diagnostic
            assert 1 <= diagnostic.line <= len(lines), diagnostic
            assert 1 <= diagnostic.column <= len(lines[diagnostic.line - 1]) + 1, diagnostic
        if diagnostic.code.startswith("FieldValue") or diagnostic.code == "UnknownField":
            assert diagnostic.field, diagnostic
    json.dumps(result.text)


@examples(
    500,
    deadline=5000,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)
@given(hostile, st.booleans())
@example(RICH.encode(), False)
@example(b"%PDF", False)
def test_every_invalid_manifest_gets_a_diagnostic(data: bytes, strict: bool) -> None:
    check(read_manifest(PATH, data, node_name=NODE, strict=strict), data)


def test_the_rich_pod_is_valid() -> None:
    result = read_manifest(PATH, RICH.encode(), node_name=NODE)
    assert result.diagnostics == ()
    assert len(result.pods) == 1


def _corpus(count: int) -> list[bytes]:
    """Return invalid manifests without hypothesis: truncated, flipped and swapped lines."""
    chance = random.Random(20261121)
    lines = RICH.splitlines(keepends=True)
    made: list[bytes] = []
    while len(made) < count:
        some = lines[:]
        chance.shuffle(some) if len(made) % 5 == 0 else some.pop(chance.randrange(len(some)))
        data = bytearray("".join(some).encode())
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        made.append(bytes(data[: chance.randrange(1, len(data))]))
    return made


def test_reading_invalid_manifests_does_not_leak_memory() -> None:
    corpus = _corpus(500)
    for data in corpus:
        check(read_manifest(PATH, data, node_name=NODE), data)
    tracemalloc.start()
    try:
        for data in corpus[:100]:
            read_manifest(PATH, data, node_name=NODE)
        before, _ = tracemalloc.get_traced_memory()
        for data in corpus[100:]:
            read_manifest(PATH, data, node_name=NODE)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 200_000


async def test_valid_pods_beside_five_hundred_invalid_manifests(tmp_path: Path) -> None:
    corpus = _corpus(500)
    for name in ("good-a", "good-b"):
        put(tmp_path / f"{name}.yaml", pod_text(name))
    async with watch(tmp_path) as watched:
        good = dict(watched.last.pods)
        for number, data in enumerate(corpus):
            put(tmp_path / f"x{number}.yaml", data)
            if number % 50 == 0:
                await asyncio.sleep(0)
        seen = await watched.until(lambda f: len(f.manifests) == 502, seconds=120)
        for snapshot in watched.history:
            assert all(snapshot.pods[uid] is pod for uid, pod in good.items())
            assert {"good-a-n1", "good-b-n1"} <= set(names(snapshot))
        for number in range(500):
            status = seen.manifests[f"x{number}.yaml"].status
            assert status.state in set(ManifestState)
            errors = [d for d in status.diagnostics if d.severity is Severity.ERROR]
            assert bool(errors) == (status.state is not ManifestState.ACCEPTED)
            assert all(d.path == str(tmp_path / f"x{number}.yaml") for d in errors)
        for number in range(500):
            (tmp_path / f"x{number}.yaml").unlink()
        await watched.until(lambda f: f.pods == good and len(f.manifests) == 2, seconds=120)
