"""Decoding in the words of Go."""

from __future__ import annotations

from typing import Any

import pytest

from podtui.api.v1 import ConfigMap, Lease, Pod, Service, Struct
from podtui.server.encoding.decoding import DecodeError, decode_object, parse_json


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", **fields}]}}


@pytest.mark.parametrize(
    ("struct", "tree", "words"),
    [
        (Pod, {"metadata": 5}, "number into Go struct field Pod.metadata of type v1.ObjectMeta"),
        (Pod, {"spec": []}, "array into Go struct field Pod.spec of type v1.PodSpec"),
        (Pod, spec(ports={}), "Container.spec.containers.ports of type []v1.ContainerPort"),
        (Pod, spec(tty="yes"), "string into Go struct field Container.spec.containers.tty of type"),
        (Pod, spec(ports=[{"containerPort": 2**31}]), "number 2147483648 into"),
        (Pod, spec(ports=[{"containerPort": 1.5}]), "number 1.5 into"),
        (Pod, {"spec": {"activeDeadlineSeconds": "1"}}, "of type int64"),
        (Pod, {"spec": {"restartPolicy": 1}}, "of type v1.RestartPolicy"),
        (Pod, spec(resources={"limits": {"cpu": True}}), "quantities must match"),
        (Pod, {"metadata": {"labels": {"a": 1}}}, "ObjectMeta.metadata.labels of type string"),
        (Pod, {"metadata": {"creationTimestamp": "x"}}, 'cannot parse "x" as "2006"'),
        (ConfigMap, {"binaryData": {"a": "!"}}, "illegal base64 data at input byte 0"),
        (Lease, {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}, 'cannot parse "Z" as ".000000"'),
    ],
)
def test_wrong_values(struct: type[Struct], tree: dict[str, Any], words: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_object(tree, struct)
    assert words in str(refused.value)


def test_the_first_wrong_type_is_reported_after_everything_was_read() -> None:
    tree = {"spec": {"hostPID": 1, **spec(tty=2, resources={"limits": {"cpu": "x"}})["spec"]}}
    with pytest.raises(DecodeError, match="quantities"):
        decode_object(tree, Pod)
    with pytest.raises(DecodeError, match=r"PodSpec\.spec\.hostPID"):
        decode_object({"spec": {"hostPID": 1, **spec(tty=2)["spec"]}}, Pod)


def test_values_become_canonical() -> None:
    tree = spec(resources={"limits": {"cpu": 1, "memory": "1024Mi"}}, command=None)
    tree["metadata"] = {"creationTimestamp": "2026-01-01T01:00:00.5+01:00"}
    clean, remarks = decode_object(tree, Pod)
    assert remarks == []
    assert clean["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    [container] = clean["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert "command" not in container


@pytest.mark.parametrize("year", ["0001", "0999", "2026"])
def test_years_have_four_digits(year: str) -> None:
    for text in (f"{year}-02-03T04:05:06Z", f"{year}-02-03T05:05:06+01:00"):
        clean, _ = decode_object({"metadata": {"creationTimestamp": text}}, Pod)
        assert clean["metadata"]["creationTimestamp"] == f"{year}-02-03T04:05:06Z"
    clean, _ = decode_object({"spec": {"renewTime": f"{year}-02-03T04:05:06.789000Z"}}, Lease)
    assert clean["spec"]["renewTime"] == f"{year}-02-03T04:05:06.789000Z"


def test_remarks_come_in_the_order_of_the_document() -> None:
    text = (
        b'{"a":1,"metadata":{"labels":{"x":"1","x":"2"},"b":2},"spec":{"containers":'
        b'[{"name":"c"},{"name":"d","q":1}],"hostPID":false,"hostPID":true}}'
    )
    clean, remarks = decode_object(parse_json(text), Pod)
    assert clean["spec"]["hostPID"] is True
    assert remarks == [
        'unknown field "a"',
        'duplicate field "metadata.labels.x"',
        'unknown field "metadata.b"',
        'unknown field "spec.containers[1].q"',
        'duplicate field "spec.hostPID"',
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a"', "unexpected end of JSON input"),
        (b"{a}", "invalid character 'a' looking for beginning of object key string"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"nope", "invalid character 'n' looking for beginning of value"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        (b"[" * 100_000, "max depth"),
        (b"[" * 101 + b"]" * 101, "max depth"),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "max depth"),
        (b"\xff", "invalid character 'ÿ' looking for beginning of value"),
    ],
)
def test_invalid_json_texts(body: bytes, words: str) -> None:
    with pytest.raises(DecodeError) as refused:
        parse_json(body)
    assert words in str(refused.value)


def test_many_values_on_few_levels_are_read() -> None:
    assert parse_json(b"[" + b"[],".join([b""] * 500) + b"[" * 99 + b"]" * 100)


def test_zeros_that_go_does_not_write_are_dropped() -> None:
    text = b'{"spec":{"containers":[],"hostPID":false,"hostUsers":false,"priority":0}}'
    clean, _ = decode_object(parse_json(text), Pod)
    assert clean["spec"] == {"containers": [], "hostUsers": False, "priority": 0}
    required, _ = decode_object({"spec": {"ports": [{"port": 0, "nodePort": 0}]}}, Service)
    assert required["spec"]["ports"] == [{"port": 0}]
