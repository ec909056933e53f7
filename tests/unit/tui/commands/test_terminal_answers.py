from __future__ import annotations

import os
import pty
import select
import termios
from collections.abc import Iterator

import pytest

from podtui.tui.commands import terminal
from podtui.tui.commands.terminal import STATE_ANSWER, STATE_QUERY, discard_answers


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal: that of its window, and that of programs."""
    window, program = pty.openpty()
    yield window, program
    os.close(window)
    os.close(program)


async def test_late_answers_of_the_terminal_are_discarded(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor has asked for the type of the terminal, and exited; ``?`` would open the help."""
    window, program = ends
    before = termios.tcgetattr(program)
    written: list[str] = []

    def write(text: str) -> None:
        written.append(text)
        os.write(window, b"\x1b[?1;2c")
        os.write(window, b"\x1b[24;1R" + STATE_ANSWER)

    monkeypatch.setattr(terminal, "write_to_terminal", write)
    monkeypatch.setattr(terminal, "ANSWER_SECONDS", 120)
    await discard_answers(program)
    assert written == [STATE_QUERY]
    assert termios.tcgetattr(program) == before
    termios.tcsetattr(program, termios.TCSANOW, [*before[:3], before[3] & ~termios.ICANON,
                                                 *before[4:]])  # fmt: skip
    assert not select.select([program], [], [], 0)[0]


@pytest.mark.parametrize("closed", [False, True])
async def test_a_terminal_need_not_answer(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    _, program = ends

    def write(_: str) -> None:
        if closed:
            raise OSError("closed")

    monkeypatch.setattr(terminal, "write_to_terminal", write)
    monkeypatch.setattr(terminal, "ANSWER_SECONDS", 0.001)
    if closed:
        with pytest.raises(OSError, match="closed"):
            await discard_answers(program)
    else:
        await discard_answers(program)
