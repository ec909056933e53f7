"""Terminals of all kinds, and pods that write control sequences, in tmux."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from rich.cells import cell_len
from tmux_harness import PODTUI, Machine, wait_until

from podtui.tui.commands.terminal import STATE_QUERY

simulated = pytest.mark.parametrize("machine", ["memory"], indirect=True)

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  annotations:
    evil: "EVIL"
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: busybox:1.36
      env: [{name: WORDS, value: "EVIL"}]
      command: ["sh", "-c", "COMMAND"]
"""
# A title, the clipboard, a cleared screen, a reset, a terminal query; then right-to-left text.
EVIL = "\\e]0;pwned\\a\\e]52;c;cHduZWQ=\\a\\e[2J\\ec\\eP+q544e\\e\\\\\\u009b2J\\u202elive"
SGR = re.compile(r"\x1b\[([0-9;]*)m")


def write(machine: Machine, name: str, command: str) -> None:
    text = POD.replace("NAME", name).replace("COMMAND", command).replace("EVIL", EVIL)
    machine.write(f"{name}.yaml", text)


def use_editor(machine: Machine, folder: Path, *commands: str) -> None:
    """Use a script in ``folder`` as the user's editor."""
    editor = folder / "editor"
    editor.write_text("\n".join(("#!/bin/sh", *commands, "")))
    editor.chmod(0o700)
    machine.env["PODTUI_EDITOR"] = str(editor)


def raw_output(machine: Machine, path: Path) -> Path:
    """Return all output of the program from now on."""
    machine.terminal.call("pipe-pane", "-o", f"cat > '{path}'")
    return path


def colors_in(machine: Machine) -> set[str]:
    """Return every colour and weight sequence on the screen."""
    shown = machine.terminal.call("capture-pane", "-p", "-e")
    return {code for found in SGR.findall(shown) for code in found.split(";")}


PLAIN = {"", "0", "1", "3", "4", "7", "39", "49"}
"""Codes without a colour: bold, italic (events between log lines), underlined and reverse text."""
SIXTEEN = PLAIN | {str(base + n) for base in (30, 40, 90, 100) for n in range(8)}


@simulated
@pytest.mark.parametrize("term", ["linux", "ansi"])
def test_the_screen_works_with_sixteen_colours(machine: Machine, term: str) -> None:
    machine.env |= {"TERM": term, "COLORTERM": ""}
    write(machine, "web", "sleep 3600")
    machine.screen(80, 24)
    machine.terminal.wait_for(r"web-n1\s+1/1\s+● Running")
    codes = colors_in(machine)
    assert codes <= SIXTEEN
    assert {"7", "32"} <= codes, "the cursor's bar is turned around, and running is green"


@simulated
def test_no_color_keeps_bold_and_reverse(machine: Machine) -> None:
    machine.env |= {"NO_COLOR": "1"}
    write(machine, "web", "sleep 3600")
    machine.screen(80, 24)
    machine.terminal.wait_for(r"web-n1\s+1/1\s+● Running")
    codes = colors_in(machine)
    assert codes <= PLAIN
    assert "7" in codes
    machine.terminal.keys("Enter")
    machine.terminal.wait_for(r"web-n1")
    assert colors_in(machine) <= PLAIN


def test_a_hostile_pod_is_drawn_without_control_sequences(machine: Machine, tmp_path: Path) -> None:
    terminal = machine.terminal
    write(machine, "evil", "echo $WORDS; echo loud; sleep 3600")
    machine.screen(100, 30)
    output = raw_output(machine, tmp_path / "output")
    terminal.wait_for(r"evil-n1\s+1/1\s+● Running")
    terminal.keys("3")
    terminal.wait_for(r"loud")
    terminal.keys("Enter", "y")
    terminal.wait_for(r"apiVersion")
    terminal.type("/pwned")
    terminal.keys("Enter")
    terminal.wait_for(r"evil: .*pwned")
    terminal.keys("Escape", "2")
    terminal.wait_for(r"evil-n1")
    written = output.read_bytes().decode(errors="replace")
    assert re.findall(r"\x1b[\]PX^_][^\x1b\x07]*pwned", written) == []
    assert (
        re.findall(r"\x1b\]52|\x1bc|\x1bP\+q|[\x80-\x9f\u202a-\u202e\u2066-\u2069]", written) == []
    )
    assert "pwned" not in terminal.call("display-message", "-p", "#{pane_title}")
    assert terminal.call("show-buffer") == ""


def test_a_crash_loop_notifies_through_the_terminal(machine: Machine, tmp_path: Path) -> None:
    machine.env |= {"PODTUI_NOTIFY_BY": "bell,osc9", "TMUX": ""}
    machine.screen(80, 24)
    output = raw_output(machine, tmp_path / "output")
    machine.terminal.wait_for(r"(?i)put a pod manifest")
    write(machine, "crash", "exit 1")
    machine.terminal.wait_for(r"CrashLoopBackOff")
    notification = b"\x07\x1b]9;podtui: default/crash-n1: CrashLoopBackOff\x07"
    wait_until(lambda: notification in output.read_bytes(), "the notification")
    assert output.read_bytes().count(b"\x1b]9;") == 1


HOSTILE = (
    "\\e]0;pwned\\a\\e]2;pwned\\e\\\\\\e]52;c;cHduZWQ=\\a\\e[2J\\e[?1049l\\e[?25l\\e[10;10H\\ec\\e(0"
    "\\e]8;;x:y\\e\\\\link\\eP+q544e\\e\\\\\\u009b2J\\u202elive\\u2066\\b\\r"
    "שלום 日本語e\\u0301\\u0301👩\\u200d👧👍🏽🇩🇪क\\u093e[@click=app.quit]y[/]"
)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 36)])
def test_hostile_names_do_not_move_borders(
    machine: Machine, tmp_path: Path, columns: int, rows: int
) -> None:
    """Every line that begins with a border ends with one, by the terminal's own widths."""
    text = POD.replace("NAME", "evil").replace("COMMAND", "echo $WORDS; echo loud; sleep 3600")
    machine.write("evil.yaml", text.replace("EVIL", HOSTILE))
    machine.write("odd.yaml", f'kind: Pod # {HOSTILE}\nspec: {{"{HOSTILE}": 1}}\n')
    terminal = machine.terminal
    machine.screen(columns, rows)
    output = raw_output(machine, tmp_path / "output")
    terminal.wait_for(r"evil-n1\s+1/1\s+● Running")
    begun = len(output.read_bytes())
    for keys, pattern in (
        (("G",), "loud"),
        (("Enter",), "Address"),
        (("y",), "apiVersion"),
        (("m",), "kind: Pod"),
        (("4",), "loud"),
        (("Escape", "Escape"), "odd.yaml"),
        (("F10",), "closes"),
    ):
        terminal.keys(*keys)
        terminal.wait_for(pattern)
        wait_until(lambda: not misaligned_lines(terminal.screen(), columns), "borders in place")
    state = terminal.call(
        "display-message", "-p", "#{alternate_on} #{cursor_flag} #{insert_flag} #{pane_title}"
    )
    assert state.startswith("1 0 0 ")
    assert "pwned" not in state
    assert terminal.call("show-buffer") == ""
    written = output.read_bytes()[begun:].decode(errors="replace")
    # Textual sets the pointer's shape; no other such sequence may be written.
    interpreted = r"\x1b\](?!22;default\x07)|\x1b[cP]|\x1b\(0|\x1b\[\?1049|[\x80-\x9f\u202a-\u202e]"
    assert re.findall(interpreted, written) == []


def misaligned_lines(screen: str, columns: int) -> list[str]:
    """Return the lines that begin with a border and do not end with one in the last column."""
    lines = screen.split("\n")
    return [
        line
        for line in lines
        if line[:1] in "│╭╰" and line and (line[-1] not in "│╮╯▊▁▎█▐" or cell_len(line) != columns)
    ]


@simulated
def test_stderr_can_be_redirected_to_a_file(machine: Machine, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    write(machine, "web", "sleep 3600")
    machine.terminal.start(
        ["sh", "-c", f'exec "$@" 2>{errors}', "sh", *PODTUI],
        columns=80, rows=24, env=machine.env, cwd=tmp_path,
    )  # fmt: skip
    machine.terminal.wait_for(r"web-n1\s+1/1\s+● Running")
    machine.terminal.keys("q")
    machine.terminal.wait_for("podtui stop")
    assert "\x1b" not in errors.read_text()


class Session:
    """The program on a pty of which the test keeps the other side, to see the final state of the
    terminal.
    """

    def __init__(self, machine: Machine, command: list[str]) -> None:
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self._slave)
        self.output = bytearray()
        self.process = subprocess.Popen(
            command, env=machine.env, cwd=machine.folder, stdin=self._slave, stdout=self._slave,
            stderr=self._slave, start_new_session=True, preexec_fn=take_terminal,
        )  # fmt: skip

    def read(self) -> bytes:
        while select.select([self._master], [], [], 0.05)[0]:
            self.output += os.read(self._master, 1 << 16)
        return bytes(self.output)

    def wait_for(self, text: bytes) -> None:
        wait_until(lambda: text in self.read(), repr(text))

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait(self) -> int:
        """Return the exit status; read the output meanwhile."""
        wait_until(lambda: (self.read(), self.process.poll())[1] is not None, "the end")
        self.read()
        return self.process.returncode

    def close_terminal(self) -> None:
        os.close(self._slave)
        os.close(self._master)
        self._slave = self._master = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(120)
        if self._master >= 0:
            self.close_terminal()

    def modes_left_on(self) -> set[str]:
        """Return the terminal modes that differ from those of a shell."""
        state = {"25": True}
        for number, switch in re.findall(rb"\x1b\[\?(\d+)([hl])", bytes(self.output)):
            state[number.decode()] = switch == b"h"
        wrong = {mode for mode in OFF if state.get(mode)} | {mode for mode in ON if not state[mode]}
        if termios.tcgetattr(self._slave) != self.before:
            wrong.add("termios")
        return wrong


OFF = ("1049", "1000", "1002", "1003", "1004", "1006", "1015", "1016", "2004", "2048")
"""Alternate screen, mouse, focus, paste, resizing in band."""
ON = ("25", "7")
"""Cursor, line wrap."""


def take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def session(machine: Machine) -> Iterator[Callable[..., Session]]:
    """Open the screen, or run another command."""
    with ExitStack() as stack:

        def start(*command: str) -> Session:
            opened = Session(machine, list(command) or PODTUI)
            stack.callback(opened.close)
            return opened

        yield start


MODES = (
    "#{scroll_region_upper}-#{scroll_region_lower} origin=#{origin_flag} insert=#{insert_flag}"
    " keypad=#{keypad_flag},#{keypad_cursor_flag} mouse=#{mouse_utf8_flag}"
)
LEFTOVERS = r"\033[5;10r\033[?6h\033[4h\033[?1h\033=\033[?1005h\033(0\033]2;changed\007\033[?2026h"
"""A scroll region, origin mode, insert mode, keypad modes, a mouse encoding, line drawing
characters, a title, synchronized output."""


@simulated
@pytest.mark.parametrize("unfinished", ["", r"\033[?1049h", r"\033]2;open", r"\033[12"])
def test_what_a_program_leaves_in_the_terminal_is_reset(
    machine: Machine, tmp_path: Path, unfinished: str
) -> None:
    terminal = machine.terminal
    write(machine, "web", "sleep 3600")
    ended = tmp_path / "ended"
    use_editor(machine, tmp_path, f"printf '{LEFTOVERS}{unfinished}'", f"touch '{ended}'")
    machine.screen(80, 24)
    terminal.wait_for(r"web-n1\s+1/1\s+● Running")
    terminal.call("select-pane", "-T", "before")
    modes = terminal.call("display-message", "-p", MODES)
    assert modes == "0-23 origin=0 insert=0 keypad=0,0 mouse=0\n"
    terminal.keys("e")
    wait_until(ended.exists, "the editor ended")
    terminal.wait_for(r"Nothing was changed")
    terminal.wait_gone(r"Nothing was changed")
    assert terminal.call("display-message", "-p", MODES) == modes
    assert terminal.call("display-message", "-p", "#{pane_title}") == "before\n"
    rows = terminal.screen().splitlines()
    assert rows[0].startswith(" podtui")
    assert rows[1].startswith("╭─ 1 Pods")
    assert rows[23].startswith(" SIMULATED")


@simulated
def test_line_settings_that_a_program_leaves_are_restored(
    session: Callable[..., Session], machine: Machine, tmp_path: Path
) -> None:
    write(machine, "web", "sleep 3600")
    use_editor(machine, tmp_path, "stty raw -echo", "echo editor-ends")
    opened = session()
    opened.wait_for(b"web-n1")
    opened.press(b"e")
    wait_until(lambda: b"web-n1" in opened.read().partition(b"editor-ends")[2], "the screen again")
    # The screen asks the terminal for its state, and goes on though this one does not answer.
    assert STATE_QUERY.encode() in opened.output.partition(b"editor-ends")[2]
    opened.press(b"q")
    assert opened.wait() == 0
    assert opened.modes_left_on() == set()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT], ids=lambda n: n.name
)
def test_a_signal_restores_the_terminal(
    session: Callable[..., Session], number: signal.Signals
) -> None:
    opened = session()
    opened.wait_for(b"agent \x1b")
    os.kill(opened.process.pid, number)
    assert opened.wait() == 128 + number
    assert opened.modes_left_on() == set()
    assert b"Traceback" not in opened.output


@simulated
def test_a_signal_during_an_editor_restores_the_terminal(
    session: Callable[..., Session], machine: Machine, tmp_path: Path
) -> None:
    write(machine, "web", "sleep 3600")
    use_editor(machine, tmp_path, "echo editor-runs", "exec sleep 3600")
    opened = session()
    opened.wait_for(b"web-n1")
    opened.press(b"e")
    opened.wait_for(b"editor-runs")
    os.kill(opened.process.pid, signal.SIGTERM)
    assert opened.wait() == 143
    assert opened.modes_left_on() == set()


@simulated
def test_keys_in_an_editor_do_not_end_the_screen(
    session: Callable[..., Session], machine: Machine, tmp_path: Path
) -> None:
    write(machine, "web", "sleep 3600")
    # A signal interrupts a read; the screen must not get the text that is typed then.
    script = ("trap : INT QUIT", "echo editor-runs", "until read word; do :; done")
    use_editor(machine, tmp_path, *script, "echo got $word")
    opened = session()
    opened.wait_for(b"web-n1")
    opened.press(b"e")
    opened.wait_for(b"editor-runs")
    opened.press(b"\x03\x1c")
    opened.press(b"on\n")
    opened.wait_for(b"got on")
    # The screen paints again. A toast may be painted in parts, so its text is no evidence here.
    wait_until(lambda: b"web-n1" in opened.read().partition(b"got on")[2], "the screen again")
    opened.press(b"q")
    assert opened.wait() == 0
    assert opened.modes_left_on() == set()


def test_an_unhandled_exception_restores_the_terminal(
    session: Callable[..., Session],
) -> None:
    broken = (
        "import sys\n"
        "from podtui.cli import main\n"
        "from podtui.tui.app import PodtuiApp\n"
        "def fail(self): raise RuntimeError('a fault of ours')\n"
        "PodtuiApp.action_help = fail\n"
        "sys.exit(main([]))\n"
    )
    opened = session(sys.executable, "-c", broken)
    opened.wait_for(b"agent \x1b")
    opened.press(b"?")
    assert opened.wait() == 1
    assert opened.modes_left_on() == set()
    assert b"a fault of ours" in opened.output


@pytest.mark.parametrize("ignoring", [False, True], ids=["signal", "end-of-input"])
def test_a_terminal_that_closes_ends_the_screen(
    session: Callable[..., Session], ignoring: bool, tmp_path: Path
) -> None:
    """Reported by SIGHUP, or only by the end of its input if that signal is ignored."""
    errors = tmp_path / "errors"
    note = f'trap "" HUP; "$@"; echo $? >{errors}' if ignoring else f'"$@"; echo $? >{errors}'
    opened = session("sh", "-c", f"trap : HUP TERM; {note}", "sh", *PODTUI)
    opened.wait_for(b"agent \x1b")
    opened.close_terminal()
    wait_until(lambda: errors.exists() and errors.read_text(), "the exit status")
    assert errors.read_text() == "129\n"


@simulated
def test_the_end_of_tmux_ends_the_screen(machine: Machine) -> None:
    """tmux sends SIGHUP and SIGCONT."""
    write(machine, "web", "sleep 3600")
    terminal = machine.terminal
    for _ in range(3):
        terminal.start(PODTUI, columns=80, rows=24, env=machine.env, cwd=machine.folder)
        process = Path("/proc", terminal.call("display-message", "-p", "#{pane_pid}").strip())
        terminal.wait_for("web-n1")
        terminal.kill()
        wait_until(lambda: not process.exists(), "the end of the screen", 30)  # noqa: B023
        assert not process.exists()


def test_sigcont_resumes_the_screen(session: Callable[..., Session]) -> None:
    opened = session()
    opened.wait_for(b"agent \x1b")
    os.kill(opened.process.pid, signal.SIGCONT)
    opened.press(b"?")
    opened.wait_for(b"Help")
    opened.press(b"\x03")
    assert opened.wait() == 0
    assert opened.modes_left_on() == set()


@simulated
def test_a_stopped_screen_resets_the_terminal_when_it_continues(machine: Machine) -> None:
    terminal = machine.terminal
    terminal.start(["bash", "--norc"], columns=80, rows=24, env=machine.env, cwd=machine.folder)
    terminal.type(" ".join(map(shlex.quote, PODTUI)) + "\n")
    terminal.wait_for(r"No pods yet")
    shell = terminal.call("display-message", "-p", "#{pane_pid}").strip()
    screen = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0]
    os.kill(int(screen), signal.SIGTSTP)
    terminal.wait_for(r"Stopped")
    terminal.type(r"printf '\033[5;10r\033[?6h'; fg" + "\n")
    wait_until(
        lambda: terminal.call("display-message", "-p", MODES).startswith("0-23 origin=0 "),
        "the terminal is reset",
    )

    def is_drawn() -> bool:
        rows = terminal.screen().splitlines()
        return len(rows) == 24 and rows[0].startswith(" podtui") and "SIMULATED" in rows[23]

    wait_until(is_drawn, "the screen in its rows")
    assert is_drawn()


@simulated
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_shell_is_usable_after_a_signal(machine: Machine, number: signal.Signals) -> None:
    terminal = machine.terminal
    line = " ".join(map(shlex.quote, PODTUI))
    terminal.start(["sh", "-c", f"{line}; echo status $?; exec sh"], columns=80, rows=24,
                   env=machine.env, cwd=machine.folder)  # fmt: skip
    terminal.wait_for(r"No pods yet")
    state = "#{alternate_on} #{mouse_any_flag} #{cursor_flag} #{wrap_flag}"
    assert terminal.call("display-message", "-p", state).startswith("1 1 0")
    shell = terminal.call("display-message", "-p", "#{pane_pid}").strip()
    child = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0]
    os.kill(int(child), number)
    terminal.wait_for(rf"status {128 + number}$")
    assert terminal.call("display-message", "-p", state).split() == ["0", "0", "1", "1"]
    terminal.type("echo typed and echoed")
    terminal.keys("Enter")
    terminal.wait_for(r"echo typed and echoed")
    terminal.wait_for(r"^typed and echoed$")
