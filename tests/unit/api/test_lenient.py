"""Objects of real servers, which write null for absent values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from podtui.api.lenient import lenient_convert, lenient_decode
from podtui.api.v1 import Event, Node, Pod

META: dict[str, Any] = {"name": "x", "namespace": "d", "creationTimestamp": None}
INFO = dict.fromkeys(
    (
        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "operatingSystem",
        "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "architecture",
    ),
    "",
)  # fmt: skip
CLAIM: dict[str, Any] = {
    "metadata": {"creationTimestamp": None},
    "spec": {"resources": {}, "accessModes": None},
}
NODE: dict[str, Any] = {
    "metadata": META,
    "spec": {"podCIDRs": None, "taints": None},
    "status": {"nodeInfo": INFO, "images": [{"names": None, "sizeBytes": 7}]},
}
POD: dict[str, Any] = {
    "metadata": META | {"labels": None, "finalizers": None},
    "spec": {
        "containers": [{"name": "c", "args": None, "resources": {}}],
        "volumes": [
            {"name": "v", "projected": {"sources": None, "defaultMode": 420}},
            {"name": "w", "ephemeral": {"volumeClaimTemplate": CLAIM}},
        ],
    },
    "status": {"conditions": None},
}
EVENT: dict[str, Any] = {
    "metadata": META,
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "message": None,
    "series": None,
}
CASES: list[tuple[Any, Any]] = [(Node, NODE), (Pod, POD), (Event, EVENT)]


@pytest.mark.parametrize(("kind", "given"), CASES, ids=lambda it: getattr(it, "__name__", ""))
def test_null_means_absent(kind: Any, given: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, kind)
    from_bytes = lenient_decode(msgspec.json.encode(given), msgspec.json.Decoder(kind))
    assert from_bytes == lenient_convert(given, kind)
    assert from_bytes.metadata.name == "x"


def test_fields_beside_a_null_are_kept() -> None:
    found = lenient_convert(NODE, Node).status.images
    assert [(image.names, image.sizeBytes) for image in found] == [((), 7)]


@pytest.mark.parametrize("broken", [{"metadata": "x"}, {"spec": {"containers": [None]}}, []])
def test_an_object_of_another_type_is_refused(broken: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        lenient_decode(msgspec.json.encode(broken), msgspec.json.Decoder(Pod))


def test_invalid_json_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        lenient_decode(b"{", msgspec.json.Decoder(Pod))
