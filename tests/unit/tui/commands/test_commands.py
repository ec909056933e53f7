from __future__ import annotations

import pytest

from podtui.errors import UsageError
from podtui.tui.commands.registry import COMMANDS, completions, parse_command
from podtui.tui.views.pods.rows import POD_COLUMNS
from podtui.tui.widgets.filters import complete_filter
from podtui.tui.widgets.prompt import InputHistory, complete_command


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("po", "pods", ""),
        ("pods web", "pods", "web"),
        ("po /web", "pods", "web"),
        ("po/web", "pods", "web"),
        ("po  app=x restarts>3 ", "pods", "app=x restarts>3"),
        ("po -l a/b=c", "pods", "-l a/b=c"),
        ("no", "node", ""),
        ("q!", "quit", ""),
        ("theme podtui-light", "theme", "podtui-light"),
    ],
)
def test_commands(text: str, name: str, argument: str) -> None:
    command, found = parse_command(text)
    assert (command.name, found) == (name, argument)


@pytest.mark.parametrize(
    ("text", "hint"), [("podz", "did you mean :pods?"), ("xyzzy", "ctrl\\+a lists them")]
)
def test_an_invalid_command(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        parse_command(text)


def test_no_two_commands_share_a_name() -> None:
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))


def test_arguments_are_passed_to_commands_that_take_them() -> None:
    pods, _ = parse_command("po")
    assert pods.action_for("web") == ("", "go", ("pods", "web"))
    logs, _ = parse_command("logs")
    assert logs.action_for("web") == ("", "go", ("logs",))
    theme, _ = parse_command("theme")
    assert theme.action_for("x") == ("app", "theme", ("x",))


def test_commands_complete() -> None:
    words = completions({"theme": ["dark", "light"]})
    assert complete_command("ev", words) == "events"
    assert complete_command("theme l", words) == "theme light"
    assert complete_command("zz", words) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("re", "ready"),
        ("web rest", "web restarts"),
        ("r", None),
        ("status=C", "status=CrashLoopBackOff"),
        ("restarts>3 status!=R", "restarts>3 status!=Running"),
        ("status=Running", None),
        ("colour=R", None),
        ("", None),
    ],
)
def test_filters_complete(text: str, wanted: str | None) -> None:
    values = ["Running", "CrashLoopBackOff", "Two words", None, 3.0]
    assert complete_filter(text, POD_COLUMNS, lambda place: values) == wanted


def test_prompt_history() -> None:
    typed = InputHistory()
    assert typed.step(-1, "half") == "half"
    typed.add("one")
    typed.add("two")
    typed.add("one")
    typed.add(" ")
    assert typed.step(-1, "half") == "one"
    assert typed.step(-1, "one") == "two"
    assert typed.step(-1, "two") == "two"
    assert typed.step(1, "two") == "one"
    assert typed.step(1, "one") == "half"
