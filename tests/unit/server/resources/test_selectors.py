from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised_errors import raises_only

from podtui.server.resources.selectors import parse_fields, parse_labels
from podtui.server.status import StatusError

LABELS = {"app": "web", "tier": "front", "size": "10", "x.io/y": "1", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app",
        "app=web",
        "app==web",
        "app = web , tier=front",
        "app!=db",
        "missing!=x",
        "!missing",
        "! missing",
        "app in (db, web)",
        "app in (web),tier notin (back),size",
        "missing notin (a)",
        "size>9",
        "size<11",
        "x.io/y=1",
        "empty=",
        "empty",
        "inside notin (a),notin!=b",
    ],
)
def test_matching_labels(text: str) -> None:
    assert parse_labels(text)(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "missing",
        "app=db",
        "app!=web",
        "!app",
        "app in (db)",
        "app notin (web)",
        "missing in (a)",
        "size>10",
        "size<10",
        "app>1",
        "app=web,tier=back",
        "missing=",
    ],
)
def test_non_matching_labels(text: str) -> None:
    assert not parse_labels(text)(LABELS)


@pytest.mark.parametrize(
    "text",
    [",", "app=web,", ",app", "app in web", "app in", "=web", "a b", "app=we b", "a>b", "app=/"],
)
def test_label_selectors_that_are_refused(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_labels(text)
    assert refused.value.code == 400


def test_a_bad_key_is_refused_in_the_api_servers_words() -> None:
    with pytest.raises(
        StatusError, match=r'^unable to parse requirement: <nil>: Invalid value: "~"'
    ):
        parse_labels("~=web")


@given(st.text(max_size=40))
def test_any_label_selector_is_parsed_or_refused(text: str) -> None:
    with raises_only(StatusError):
        assert parse_labels(text)(LABELS) in (True, False)


FIELDS = {"metadata.name": "a,b=c\\d", "status.phase": "Running", "spec.nodeName": ""}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("status.phase=Running", True),
        ("status.phase==Running,spec.nodeName=", True),
        ("status.phase!=Running", False),
        ("status.phase!=Failed,status.phase!=Succeeded", True),
        ("status.phase=Running,spec.nodeName=n", False),
        (r"metadata.name=a\,b\=c\\d", True),
    ],
)
def test_fields(text: str, selected: bool) -> None:
    assert parse_fields(text, FIELDS)(FIELDS.__getitem__) is selected


@pytest.mark.parametrize("text", ["status.color=red", "status.phase", "=x", "status.phase=a=b"])
def test_field_selectors_that_are_refused(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_fields(text, FIELDS)
    assert refused.value.code == 400
