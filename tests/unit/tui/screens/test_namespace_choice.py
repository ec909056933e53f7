from __future__ import annotations

from podtui.tui.views.namespaces import NamespaceChoice
from podtui.tui.widgets.cells import Line

CHOICE = NamespaceChoice({"shop": 1, "default": 12}, 13)


def text(line: Line) -> str:
    return "".join(span.text for span in line)


def test_all_namespaces_come_first_and_the_others_by_name() -> None:
    assert [text(line).split() for line in CHOICE.lines()] == [
        ["all", "13", "pods"], ["default", "12", "pods"], ["shop", "1", "pod"],
    ]  # fmt: skip
    assert CHOICE.namespaces == ["", "default", "shop"]
    assert CHOICE.names == "all, default, shop"


def test_the_current_namespace_is_selected() -> None:
    assert [CHOICE.index(name) for name in ("", "default", "shop", "gone")] == [0, 1, 2, 0]


def test_a_namespace_is_found_by_its_name_and_all_by_the_word() -> None:
    assert [CHOICE.named(name) for name in ("shop", "all", "gone", "")] == ["shop", "", None, None]
    with_all = NamespaceChoice({"all": 1}, 1)
    assert with_all.named("all") == "all", "a namespace of that name has priority"
