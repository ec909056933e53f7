"""No decodable pod makes the rules raise."""

from __future__ import annotations

import random
import typing
from types import UnionType
from typing import Any

import msgspec
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from validation_cases import built

from podtui.api.v1 import Pod
from podtui.manifest.validation import validate_pod, validate_static
from podtui.manifest.validation.errors import FORBIDDEN

TEXTS = (
    *("", "a", "main", "data", "A_b", "a.b", "..", "../x", "/x", "..x", "a/b", "a/b/c", "%", "é"),
    *("1", "1Gi", "-1", "100m", "1e3", "1.5.5", "0", "hugepages-2Mi", "cpu", "memory", "'"),
    *("requests.hugepages-x", "hugepages-", "hugepages-0", "example.com/gpu", "kubernetes.io/x"),
    *("In", "NotIn", "Exists", "Gt", "Equal", "Localhost", "Unconfined", "Always", "Never"),
    *("windows", "linux", "None", "Bidirectional", "Enabled", "metadata.labels['a']", "['x']"),
    *("metadata.annotations['", "limits.cpu", "limits.hugepages-2Mi", "v1", "10.0.0.1", "::1"),
    *("010.1.1.1", "1.2.3.4.5", "fe80::1%1", "\x00\x1b", "\ud800", "x" * 300, "iqn.2001-04.a:b"),
    *("a:b:c", ":", "a\\b", "localhost/..", "net.a", "kernel/shmmax", "Managed", "SIGTERM"),
    *("container.apparmor.security.beta.kubernetes.io/main", "[", '[{"key":1}]', "²", "٣.1.1.1"),
    "scheduler.alpha.kubernetes.io/tolerations",
    "controller.kubernetes.io/pod-deletion-cost",
)
NUMBERS = (-(2**63), -1, 0, 1, 2, 80, 101, 255, 512, 65536, 2**31, 2**63, 10**30)


def made(kind: Any, luck: random.Random, depth: int = 0) -> Any:
    """Generate a value that decodes as ``kind``."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return made(luck.choice(arguments), luck, depth)
    if kind is type(None):
        return None
    if kind is str:
        return luck.choice(TEXTS)
    if kind is bool:
        return luck.random() < 0.5
    if kind is int:
        return luck.choice(NUMBERS)
    if origin is tuple:
        return [made(arguments[0], luck, depth + 1) for _ in range(luck.choice((0, 1, 1, 2, 3)))]
    if origin is dict:
        return {luck.choice(TEXTS): made(arguments[1], luck, depth + 1) for _ in range(2)}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        odds = 0.6 if depth < 6 else 0.35
        return {
            field.encode_name: made(hints(kind)[field.name], luck, depth + 1)
            for field in msgspec.structs.fields(kind)
            if field.required or luck.random() < odds
        }
    return {}


_HINTS: dict[type, dict[str, Any]] = {}


def hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind)
    return _HINTS[kind]


@examples(60)
@given(seed=st.integers(0, 2**32))
def test_no_pod_makes_the_rules_raise(seed: int) -> None:
    pod = msgspec.convert(made(Pod, random.Random(seed)), Pod)
    errors = validate_pod(pod)
    assert errors
    for error in errors:
        assert error.message().isprintable()
        assert error.location.startswith(("metadata", "spec"))
    assert all(error.type == FORBIDDEN for error in validate_static(pod))


@examples(150)
@given(st.text())
def test_any_text_as_a_name(text: str) -> None:
    paths = ("metadata.name", "spec.hostname", "spec.containers[0].name", "spec.nodeName")
    for error in validate_pod(built(dict.fromkeys(paths, text))):
        assert error.message()


def test_the_same_pod_gets_the_same_answer() -> None:
    pod = msgspec.convert(made(Pod, random.Random(7)), Pod)
    assert validate_pod(pod) == validate_pod(pod)
