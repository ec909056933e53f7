"""Completion scripts and the manual page. Real shells: tests/e2e."""

from __future__ import annotations

import re

import pytest

from podtui.cli import build_parser, main
from podtui.cli.man import man_page
from podtui.cli.parser import COMMANDS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "complete" in (output := capsys.readouterr().out)
    assert "podtui" in output


def test_the_list_of_commands_is_that_of_the_parser() -> None:
    listed = re.findall(r"^    ([a-z-]+)(?: |$)", build_parser().format_help(), re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


def test_the_manual_page_has_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man"]) == 0
    page = capsys.readouterr().out
    assert page == man_page()
    for name in COMMANDS:
        assert f".SS podtui {name}\n".replace("-", "\\-") in page
    assert "\\-\\-root\\-dir DIR" in page
    assert "\x1b" not in page
