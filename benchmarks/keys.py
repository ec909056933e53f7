"""The time from a key to its effect on the terminal, while pods change and lines arrive.

``podtui`` runs on a terminal with its own driver, against the API in another process: 1,000 pods,
of which 200 change each second, and a followed log that grows by 10,000 lines a second. A key
counts as painted when output that only this key causes has been written to the terminal. A bare
event loop runs in parallel: the delay of its timers is the share of the machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.report import Row, row
from benchmarks.terminal import SCREEN, Terminal, plain, screen_environment, terminal
from benchmarks.worlds import world

PODS, CHANGES, LINES = 1000, 200, 10_000
SIZE = (160, 45)
BETWEEN = 0.05
"""Seconds between two keys."""
CURSOR = re.compile(rb"\xe2\x96\x8c[^a-z]{0,8}(pod-[0-9]{4})")
NUMBER = re.compile(rb"number=([0-9]+)")
Press = Callable[[Terminal], float | None]


def _wait_drawn(shown: Terminal, sent: float, done: Callable[[bytes], bool]) -> float | None:
    """Return the milliseconds until ``done`` accepts the new output; None if it never does."""
    drawn = b""
    while (left := sent + 5 - time.monotonic()) > 0:
        drawn += shown.read(left)
        if done(plain(drawn)):
            return 1e3 * (time.monotonic() - sent)
    return None


def cursor_keys() -> Press:
    """Press j and k alternately: painted when the cursor is on another pod."""
    at = b""
    turn = 0

    def press(shown: Terminal) -> float | None:
        nonlocal at, turn
        for name in CURSOR.findall(plain(shown.drain(BETWEEN))):
            at = name
        sent = shown.send(b"jk"[turn % 2 : turn % 2 + 1])
        turn += 1

        def done(drawn: bytes) -> bool:
            nonlocal at
            found = [name for name in CURSOR.findall(drawn) if name != at]
            if found:
                at = found[-1]
            return bool(found)

        return _wait_drawn(shown, sent, done)

    return press


def scroll_keys() -> Press:
    """Press k and j alternately in a paused log: painted when its lines are."""
    turn = 0

    def press(shown: Terminal) -> float | None:
        nonlocal turn
        shown.drain(BETWEEN)
        sent = shown.send(b"kj"[turn % 2 : turn % 2 + 1])
        turn += 1
        return _wait_drawn(shown, sent, lambda drawn: NUMBER.search(drawn) is not None)

    return press


def typed_keys() -> Press:
    """Type letters into the search of a followed log: painted when they are shown."""
    text = b""
    letters: Iterator[bytes] = iter(())

    def press(shown: Terminal) -> float | None:
        nonlocal text, letters
        shown.drain(BETWEEN)
        letter = next(letters, b"")
        if not letter:
            shown.send(b"\x15")
            shown.drain(0.3)
            text, letters = b"", (bytes([c]) for c in b"qxzjvkwyqzxjkvwyzq")
            letter = next(letters)
        text += letter
        wanted = text[-3:]
        return _wait_drawn(shown, shown.send(letter), lambda drawn: wanted in drawn)

    return press


def _measure(shown: Terminal, press: Press, seconds: float) -> list[float]:
    waits: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        waited = press(shown)
        waits.append(5000.0 if waited is None else waited)
    return waits


LAG = """
import asyncio, sys
async def main():
    loop = asyncio.get_running_loop()
    asyncio.get_running_loop().add_reader(0, loop.stop)
    while True:
        due = loop.time() + 0.02
        await asyncio.sleep(0.02)
        print(1e3 * (loop.time() - due))
try:
    asyncio.run(main())
except RuntimeError:
    pass
"""


class _Lag:
    """A bare event loop in a separate process: the delay of its timers in ms."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAG], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def stop(self) -> list[float]:
        out, _ = self._process.communicate(b"\n", timeout=10)
        return [float(line) for line in out.split()]


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _keys(shown: Terminal, keys: bytes, pause: float = 0.7) -> bytes:
    """Press one key after the other, like a person."""
    drawn = b""
    for place in range(len(keys)):
        shown.send(keys[place : place + 1])
        drawn += shown.drain(0.1 if keys[place : place + 1].isalpha() else pause)
    return drawn


def _scenes(shown: Terminal) -> Iterator[tuple[str, Press]]:
    """Yield the name of each scene and its keys; the navigation happens between two scenes."""
    # Marked, so that its log stays while the cursor moves; filtered by the changing pods.
    _keys(shown, b"/pod- restarts>=0\r ")
    _keys(shown, b"\x06\x06\x06")
    yield "overview, filtered by what changes", cursor_keys()
    _keys(shown, b"3+F")
    yield "log in full, typing while it is followed", typed_keys()
    shown.send(b"\x15")
    _keys(shown, b"\x1bGkk")
    yield "log in full, a line up or down", scroll_keys()
    # Digits are ranges in a log: first go back to the pods.
    _keys(shown, b"G\x1b\x1b\x1b4\r2", 1.0)
    yield "node screen, its pods", cursor_keys()


def measure(*, quick: bool) -> list[Row]:
    """Return p99 from key to paint on each screen, above the p99 delay of the bare loop at that
    time."""
    seconds = 5.0 if quick else 20.0
    rows: list[Row] = []
    with world(pods=PODS, changes=CHANGES, lines=LINES) as served:
        environment = screen_environment(served.root)
        with terminal(SCREEN, environment, SIZE) as shown:
            shown.until(re.compile(rb"pod-0000"))
            shown.drain(3)
            for name, press in _scenes(shown):
                rows += _scene(name, press, shown, served.counts, seconds)
    return rows


def _scene(
    name: str,
    press: Press,
    shown: Terminal,
    counts: Callable[[], dict[str, int]],
    seconds: float,
) -> list[Row]:
    lag, before, begin = _Lag(), counts(), time.monotonic()
    waits = _measure(shown, press, seconds)
    passed, after = time.monotonic() - begin, counts()
    late = lag.stop()
    above = percentile(waits, 0.99) - percentile(late, 0.99)
    changed = (after["changed"] - before["changed"]) / passed
    sent = (after["sent"] - before["sent"]) / passed
    load = f"{changed:,.0f} pods/s and {sent:,.0f} lines/s"
    return [
        row(f"key to paint: {name}", waits, "ms"),
        row(f"… p99 above the bare loop's ({load})", [above], "ms", bound=50),
    ]
