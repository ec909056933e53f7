"""Keys: their notation, errors in key maps, and the list of keys."""

from __future__ import annotations

from collections import Counter

import pytest
from textual.binding import Binding, BindingsMap

from podtui.tui.commands.key_registry import Scope, known_bindings, scopes
from podtui.tui.preferences.user_keys import read_key_map
from podtui.tui.screens.help_screen import KeyLine, help_lines, matching
from podtui.tui.widgets.key_names import UNBOUND, KeyNameError, key_list, key_name, shown_key

SCOPES = (
    Scope("Screen", {"main.logs": ("l",), "main.describe": ("d",), "main.find": ("slash", "f")}),
    Scope("Table", {"table.down": ("down", "j"), "table.open": ("enter",)}),
    Scope("Back", {"screen.back": ("escape", "q")}),
    Scope("App", {"app.quit": ("q",), "app.help": ("question_mark",)}),
)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("q", "q"),
        ("Q", "Q"),
        ("?", "question_mark"),
        ("/", "slash"),
        ("+", "plus"),
        ("-", "minus"),
        (",", "comma"),
        ("ä", "ä"),
        ("question_mark", "question_mark"),
        ("Ctrl+R", "ctrl+r"),
        ("ctrl+\\", "ctrl+backslash"),
        ("ctrl+@", "ctrl+@"),
        ("shift+a", "A"),
        ("shift+Tab", "shift+tab"),
        ("shift+ctrl+left", "ctrl+shift+left"),
        ("F1", "f1"),
        ("esc", "escape"),
        ("return", "enter"),
        ("pgdn", "pagedown"),
        (" space ", "space"),
    ],
)
def test_common_spellings_of_keys_are_accepted(written: str, name: str) -> None:
    assert key_name(written) == name


@pytest.mark.parametrize(
    "written",
    ["", "bogus", "ctl+h", "ctrl+", "ctrl+bogus", "f99", "l l", "<any>", "\x1b", "tilde tilde"],
)
def test_invalid_keys_are_reported(written: str) -> None:
    with pytest.raises(KeyNameError):
        key_name(written)


def test_a_list_of_keys() -> None:
    assert key_list("l, ctrl+l") == ("l", "ctrl+l")
    assert key_list("none") == key_list("") == ()
    assert key_list(",") == ("comma",)


def test_every_key_in_use_can_be_written_in_the_settings() -> None:
    keys = {key for known in known_bindings() for key in known.keys}
    assert len(keys) > 50
    assert {key: key_name(shown_key(key)) for key in keys} == {key: key for key in keys}


def test_every_binding_has_an_id_and_a_description() -> None:
    assert [known.id for known in known_bindings() if not known.description] == []
    assert [known.id for known in known_bindings() if "." not in known.id] == []


def test_keys_are_unique_in_each_scope() -> None:
    for scope in scopes():
        count = Counter(key for keys in scope.keys.values() for key in keys)
        assert [key for key, times in count.items() if times > 1] == [], scope.name


def read(**wanted: str) -> tuple[dict[str, str], tuple[str, ...]]:
    names = {name.replace("_", "."): keys for name, keys in wanted.items()}
    places = {name: f"c.yaml:{line}:3" for line, name in enumerate(names, 2)}
    found = read_key_map(names, SCOPES, places)
    return dict(found.keys), found.problems


def test_valid_keys_are_accepted() -> None:
    keys, problems = read(app_quit="Q", main_logs="L,ctrl+l", main_describe="none")
    assert keys == {"app.quit": "Q", "main.logs": "L,ctrl+l", "main.describe": UNBOUND}
    assert problems == ()


def test_an_unknown_binding_is_reported_and_the_rest_applies() -> None:
    keys, problems = read(app_quti="Q", app_help="F1")
    assert keys == {"app.help": "f1"}
    assert problems == ("c.yaml:2:3: keys.app.quti: no such binding; did you mean app.quit?",)


def test_an_invalid_key_is_reported() -> None:
    keys, problems = read(app_quit="ctrl+escpe", app_help="F1")
    assert keys == {"app.help": "f1"}
    assert problems == (
        "c.yaml:2:3: keys.app.quit: 'ctrl+escpe' is not a key; did you mean escape?",
    )


def test_a_key_of_another_binding_in_the_same_scope_is_refused() -> None:
    keys, problems = read(main_logs="d")
    assert keys == {}
    assert problems == ("c.yaml:2:3: keys.main.logs: 'd' is already bound to main.describe",)


def test_the_first_of_two_bindings_gets_a_key() -> None:
    keys, problems = read(main_logs="x", main_describe="x")
    assert keys == {"main.logs": "x"}
    assert "keys.main.describe: 'x' is already bound to main.logs (c.yaml:2:3)" in problems[0]


def test_two_bindings_may_swap_keys() -> None:
    assert read(main_logs="d", main_describe="l") == ({"main.logs": "d", "main.describe": "l"}, ())


def test_a_refused_key_also_reverts_dependent_changes() -> None:
    # q belongs to the app, so describe keeps d, and logs cannot have it.
    keys, problems = read(main_logs="d", main_describe="q")
    assert keys == {}
    assert len(problems) == 2


def test_a_key_may_differ_between_scopes() -> None:
    assert read(table_open="l") == ({"table.open": "l"}, ())


def test_a_global_key_cannot_be_shadowed() -> None:
    assert "q' is already bound to app.quit" in read(main_logs="q")[1][0]
    assert "l' is already bound to main.logs" in read(app_help="l")[1][0]


def test_existing_shadowing_of_a_global_key_is_allowed() -> None:
    assert read(screen_back="q") == ({"screen.back": "q"}, ())
    assert read(app_help="F1") == ({"app.help": "f1"}, ())


def test_textual_accepts_the_keymap() -> None:
    bindings = BindingsMap(
        [Binding("d", "a", "A", id="main.describe"), Binding("l", "b", "B", id="main.logs")]
    )
    bindings.apply_keymap(read(main_logs="d", main_describe="none")[0])
    assert {key: [b.id for b in found] for key, found in bindings.key_to_bindings.items()} == {
        "d": ["main.logs"],
        UNBOUND: ["main.describe"],
    }


LINES = [
    KeyLine("main.logs", ("l",), "Go to the log of the pod", here=True),
    KeyLine("main.filter", ("/",), "Filter the table", here=True),
    KeyLine("app.quit", (), "Quit", here=True),
    KeyLine("why.fix", ("f", "ctrl+f"), "Apply the fix", here=False),
]


def texts(width: int = 60, *, ids: bool = False, lines: list[KeyLine] = LINES) -> list[str]:
    drawn = help_lines(lines, ids=ids, width=width)
    return ["".join(span.text for span in line).rstrip() for line in drawn]


def test_the_key_list_is_grouped_with_other_screens_last() -> None:
    shown = texts()
    assert shown[0] == "Panes and pods"
    assert shown[1].split() == ["l", "Go", "to", "the", "log", "of", "the", "pod"]
    assert shown[2].split()[0] == "/"
    assert "On other screens" in shown[-4]
    assert shown[-2:] == ["Why", "  f  ctrl+f       Apply the fix"]
    assert next(line for line in shown if "Quit" in line).split()[0] == "none"


def test_ids_are_shown_on_demand_and_nothing_is_wider_than_the_screen() -> None:
    for width in (26, 32, 40, 60, 100):
        shown = texts(width, ids=True)
        assert all(len(line) <= width for line in shown)
        assert sum("main.logs" in line for line in shown) == 1


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", ["main.logs", "main.filter", "app.quit", "why.fix"]),
        ("/", ["main.filter"]),
        ("l", ["main.logs"]),
        ("log", ["main.logs"]),
        ("FIX", ["why.fix"]),
        ("ctrl+f", ["why.fix"]),
        ("app.", ["app.quit"]),
        ("panes table", ["main.filter"]),
        ("nothing of the kind", []),
    ],
)
def test_the_list_is_searched_by_word_key_and_id(wanted: str, found: list[str]) -> None:
    assert [line.id for line in matching(LINES, wanted)] == found
