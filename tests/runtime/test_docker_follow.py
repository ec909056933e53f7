"""Finding the place in a log again."""

from __future__ import annotations

from collections import deque

from podtui.runtime.docker.logs import Trail
from podtui.runtime.protocol import LogLine


def test_the_place_in_a_log_is_found_by_more_than_its_last_line() -> None:
    def line(text: str, stamp: str = "2026-01-01T00:00:00.000000001Z") -> LogLine:
        return LogLine(timestamp=stamp, stream="stdout", content=text.encode())

    trail = Trail()
    assert trail.empty
    for text in "abxx":
        trail.add(line(text))
    found: deque[LogLine] = deque(maxlen=8)
    places: list[int] = []
    for number, text in enumerate("zabxxxy"):
        found.append(line(text))
        if trail.ends_with(found):
            places.append(number)
    assert places == [4]
    assert not trail.ends_with(deque())
    assert not trail.ends_with(deque([line("x", "2026-01-01T00:00:00.000000002Z")]))
