"""Messages that are declared as structs, in the protobuf encoding."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.kubelet.resource_managers.device_api import (
    AllocateResponse,
    CdiDevice,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    Device,
    DeviceMount,
    DevicePluginOptions,
    DeviceSpec,
    NumaNodeId,
    RegisterRequest,
    TopologyInfo,
)
from podtui.wire.protobuf import Message, ProtobufError, decode_message, encode_message

_TEXTS = st.text(max_size=8)
_MAPS = st.dictionaries(_TEXTS, _TEXTS, max_size=3)


def _tuples(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=3).map(tuple)


_OPTIONS = st.builds(DevicePluginOptions, st.booleans(), st.booleans())
_NODES = st.builds(NumaNodeId, st.integers(-(1 << 63), (1 << 63) - 1))
MESSAGES = st.one_of(
    st.builds(RegisterRequest, _TEXTS, _TEXTS, _TEXTS, st.none() | _OPTIONS),
    st.builds(Device, _TEXTS, _TEXTS, st.none() | st.builds(TopologyInfo, _tuples(_NODES))),
    st.builds(ContainerPreferredAllocationRequest, _tuples(_TEXTS), _tuples(_TEXTS)),
    st.builds(
        AllocateResponse,
        _tuples(
            st.builds(
                ContainerAllocateResponse,
                _MAPS,
                _tuples(st.builds(DeviceMount, _TEXTS, _TEXTS, st.booleans())),
                _tuples(st.builds(DeviceSpec, _TEXTS, _TEXTS, _TEXTS)),
                _MAPS,
                _tuples(st.builds(CdiDevice, _TEXTS)),
            )
        ),
    ),
)


@examples(200)
@given(MESSAGES)
def test_a_decoded_message_equals_the_encoded_one(message: Message) -> None:
    assert decode_message(encode_message(message), type(message)) == message


@examples(200)
@given(st.binary(max_size=40))
def test_other_bytes_are_decoded_or_refused(data: bytes) -> None:
    try:
        message = decode_message(data, AllocateResponse)
    except ProtobufError:
        return
    assert decode_message(encode_message(message), AllocateResponse) == message


@pytest.mark.parametrize(
    ("message", "encoded"),
    [
        # As Go's encoder writes them.
        (Device("a", "Healthy"), b"\n\x01a\x12\x07Healthy"),
        (
            Device("a", "", TopologyInfo((NumaNodeId(0), NumaNodeId(1), NumaNodeId(-1)))),
            b"\n\x01a\x1a\x13\n\x00\n\x02\x08\x01\n\x0b\x08" + b"\xff" * 9 + b"\x01",
        ),
        (DevicePluginOptions(True, False), b"\x08\x01"),
        (
            ContainerAllocateResponse(envs={"A": "b"}, devices=(DeviceSpec("/c", "/h", "rw"),)),
            b"\n\x06\n\x01A\x12\x01b\x1a\x0c\n\x02/c\x12\x02/h\x1a\x02rw",
        ),
    ],
)
def test_encoded_messages(message: Message, encoded: bytes) -> None:
    assert encode_message(message) == encoded


def test_unknown_fields_are_ignored() -> None:
    data = b"\xa2\x06\x03abc" + encode_message(Device("a")) + b"\xa8\x06\x05"
    assert decode_message(data, Device) == Device("a")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x0a", "unexpected EOF"),
        (b"\x0a\x05a", "unexpected EOF"),
        (b"\x08\x01", "wrong wire type"),
        (b"\x0b", "illegal wire type 3"),
        (b"\x0a\x01\xff", "string field contains invalid UTF-8"),
    ],
)
def test_broken_messages(data: bytes, problem: str) -> None:
    with pytest.raises(ProtobufError, match=problem):
        decode_message(data, Device)
