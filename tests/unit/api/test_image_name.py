"""Image names, and the messages for invalid ones."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.image_reference import InvalidImageName, with_default_tag


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1.36", "busybox:1.36"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
        ("Registry.example:5000/a/b:T", "Registry.example:5000/a/b:T"),
        ("a@sha256:" + "0" * 64, "a@sha256:" + "0" * 64),
        ("a:1@sha256:" + "0" * 64, "a:1@sha256:" + "0" * 64),
    ],
)
def test_images_get_a_tag(image: str, full: str) -> None:
    assert with_default_tag(image) == full


LOWER = "invalid reference format: repository name ({}) must be lowercase"


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("", "invalid reference format"),
        ("a:", "invalid reference format"),
        ("a//b", "invalid reference format"),
        ("-a", "invalid reference format"),
        ("a:b c", "invalid reference format"),
        ("UPPER/Case:1", LOWER.format("Case")),
        ("UPPER CASE", LOWER.format("library/UPPER CASE")),
        ("Upper:1", LOWER.format("library/Upper")),
        ("team/Upper", LOWER.format("team/Upper")),
        ("localhost/Upper", LOWER.format("Upper")),
        (
            "0" * 64,
            f"invalid repository name ({'0' * 64}), cannot specify 64-byte hexadecimal strings",
        ),
    ],
)
def test_invalid_image_names(image: str, problem: str) -> None:
    with pytest.raises(InvalidImageName) as caught:
        with_default_tag(image)
    assert str(caught.value) == f'couldn\'t parse image name "{image}": {problem}'


@given(st.text(max_size=80))
def test_any_name_is_accepted_or_refused(image: str) -> None:
    with contextlib.suppress(InvalidImageName):
        assert with_default_tag(image).startswith(image)
