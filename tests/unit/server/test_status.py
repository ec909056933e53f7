"""The JSON form of a Status."""

from __future__ import annotations

from podtui.api.v1 import ListMeta, Status, StatusDetails
from podtui.server.status import encode_status


def test_the_fields_are_in_the_order_of_an_api_server() -> None:
    status = Status(
        kind="Status",
        apiVersion="v1",
        metadata=ListMeta(),
        status="Failure",
        message="gone",
        reason="NotFound",
        details=StatusDetails(name="a", kind="pods", uid="u", retryAfterSeconds=1),
        code=404,
    )
    assert encode_status(status) == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"gone",'
        b'"reason":"NotFound","details":{"name":"a","kind":"pods","uid":"u","retryAfterSeconds":1},'
        b'"code":404}'
    )
    assert encode_status(Status(kind="Status", status="Success")) == (
        b'{"kind":"Status","status":"Success"}'
    )
