"""Request bodies in protobuf: bodies that Go's encoder wrote, and broken ones."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised_errors import raises_only

from podtui.server.encoding import protobuf
from podtui.wire.protobuf import ProtobufError

RECORDED = [
    json.loads(line)
    for line in Path(__file__).with_name("recorded_protobuf.jsonl").read_text().splitlines()
]
BODIES = [base64.b64decode(case["body"]) for case in RECORDED]


def test_bodies_encoded_by_go_are_decoded() -> None:
    kinds = {(case["object"]["apiVersion"], case["object"]["kind"]) for case in RECORDED}
    assert len(kinds) >= 18
    for case, body in zip(RECORDED, BODIES, strict=True):
        assert protobuf.decode(body) == case["object"]


@given(st.sampled_from(BODIES), st.data())
def test_a_broken_body_raises_only_a_protobuf_error(body: bytes, data: st.DataObject) -> None:
    broken = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(len(protobuf.PREFIX), len(broken) - 1))
        broken[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(broken)))
    for candidate in (bytes(broken), bytes(broken[:cut])):
        with raises_only(ProtobufError):
            assert json.dumps(protobuf.decode(candidate))


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_a_protobuf_error(noise: bytes) -> None:
    header = b"\x0a\x09\x0a\x02v1\x12\x03Pod\x12"
    for body in (noise, protobuf.PREFIX + noise, protobuf.PREFIX + header + noise):
        with raises_only(ProtobufError):
            protobuf.decode(body)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2]) + varint(len(content)) + content

    header = field(1, api_version.encode()) + field(2, kind.encode())
    return protobuf.PREFIX + field(1, header) + field(2, raw)


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", "provided data does not appear to be a protobuf message"),
        (envelope("v1", "Gadget", b""), 'no kind "Gadget" is registered for version "/v1"'),
        (envelope("v1", "Pod", b"\x0a\x7f"), "unexpected EOF"),
        (envelope("v1", "Pod", b"\x03"), "illegal tag 0"),
        (envelope("v1", "Pod", b"\x0b"), "illegal wire type 3"),
        (envelope("v1", "Pod", b"\x08\x01"), "wrong wire type"),
        (envelope("v1", "Pod", b"\x0a\x03\x0a\x01\xff"), "string field contains invalid UTF-8"),
    ],
)
def test_errors_are_named(body: bytes, message: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        protobuf.decode(body)
    assert str(caught.value) == message


def test_years_have_four_digits() -> None:
    def of(year: int) -> bytes:
        seconds = int(datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()) % (1 << 64)
        time = b"\x08" + varint(seconds)
        meta = bytes([8 << 3 | 2, len(time)]) + time
        return envelope("v1", "Pod", bytes([1 << 3 | 2, len(meta)]) + meta)

    for year, text in ((1, "0001"), (999, "0999"), (2026, "2026")):
        found = protobuf.decode(of(year))["metadata"]["creationTimestamp"]
        assert found == f"{text}-02-03T04:05:06Z"


def test_options_of_another_group_are_known() -> None:
    body = envelope("policy/v1", "DeleteOptions", b"\x08\x00")
    assert protobuf.decode(body) == {
        "apiVersion": "policy/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
    }
