from __future__ import annotations

import pytest

from podtui.api.selectors import selector_text
from podtui.api.v1 import LabelSelector, LabelSelectorRequirement


def requirement(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, "<none>"),
        (LabelSelector(), "<none>"),
        (LabelSelector(matchLabels={"tier": "a", "app": "web"}), "app=web,tier=a"),
        (
            LabelSelector(
                matchLabels={"app": "web"},
                matchExpressions=(
                    requirement("tier", "In", "b", "a"),
                    requirement("old", "DoesNotExist"),
                    requirement("new", "Exists"),
                    requirement("zone", "NotIn", "x"),
                ),
            ),
            "app=web,new,!old,tier in (a,b),zone notin (x)",
        ),
        (LabelSelector(matchExpressions=(requirement("a", "Near"),)), "<error>"),
    ],
)
def test_a_selector_is_shown_as_kubectl_shows_it(selector: LabelSelector, text: str) -> None:
    assert selector_text(selector) == text
