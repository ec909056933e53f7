"""Suggestions for misspelled names: slips of the keyboard, and guesses."""

from __future__ import annotations

import pytest

from podtui.text.nearest import closest, meant, suggestion

FIELDS = ("image", "imagePullPolicy", "requests", "limits", "workingDir", "hostIP", "hostPID")


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("imge", FIELDS, "image"),
        ("imagee", FIELDS, "image"),
        ("iamge", FIELDS, "image"),
        ("Image", FIELDS, "image"),
        ("image_pull_policy", FIELDS, "imagePullPolicy"),
        ("request", FIELDS, "requests"),
        ("workdir", FIELDS, "workingDir"),
        ("hostip", FIELDS, "hostIP"),
        ("date", ("data", "cache"), "data"),
        ("imageformat", FIELDS, ""),
        ("host", FIELDS, ""),
        ("NotExists", ("Exists", "Equal"), ""),
        ("data-2", ("data-1", "data-3"), ""),
        ("data2", ("data-2", "data-3"), "data-2"),
        ("web-dat", ("web-data", "web-date"), ""),
        ("a", ("b",), ""),
        ("UDP", ("TCP", "SCTP"), ""),
        ("DATA", ("data", "Data"), ""),
        ("x" * 100, ("x" * 99,), ""),
        ("image", (), ""),
    ],
)
def test_a_slip_of_the_keyboard_has_one_correction(
    name: str, known: tuple[str, ...], found: str
) -> None:
    assert meant(name, known) == found


def test_a_suggestion_says_whether_it_is_a_guess() -> None:
    assert suggestion("imge", FIELDS) == 'did you mean "image"?'
    assert suggestion("imageformat", FIELDS) == 'perhaps "image" is meant'
    assert suggestion("zzz", FIELDS) == ""
    assert closest("imageformat", FIELDS) == "image"
