"""The kubelet's record of the containers that it stopped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import make_pod

from podtui.api.kills import MESSAGE_LIMIT, Kill, KillReason, kill_of, kills_of, with_kill
from podtui.api.names import KILLS
from podtui.api.v1 import ContainerStateTerminated

LIVENESS = KillReason.LIVENESS_PROBE


def after(*kills: tuple[str, Kill]) -> dict[str, str]:
    notes: dict[str, str] = {}
    for name, kill in kills:
        notes[KILLS] = with_kill(notes, name, kill)
    return notes


def test_equal_reasons_in_succession_are_counted() -> None:
    notes = after(*(("c", Kill(id=f"i{n}", reason=LIVENESS, message="404")) for n in range(13)))
    assert kills_of(notes) == {
        "c": tuple(Kill(id=f"i{n}", reason=LIVENESS, message="404", count=n + 1) for n in (12, 11))
    }


def test_another_reason_counts_from_one() -> None:
    notes = after(
        ("c", Kill(id="1", reason=LIVENESS)), ("c", Kill(id="2", reason=KillReason.REQUESTED))
    )
    assert [kill.count for kill in kills_of(notes)["c"]] == [1, 1]


def test_an_instance_stopped_twice_counts_once_with_its_first_reason() -> None:
    first = Kill(id="1", reason=LIVENESS)
    notes = after(("c", first), ("c", Kill(id="1", reason=KillReason.POD)))
    assert kills_of(notes) == {"c": (first,)}


def test_kills_are_counted_per_container() -> None:
    notes = after(("a", Kill(id="1", reason=LIVENESS)), ("b", Kill(id="2", reason=KillReason.POD)))
    assert {name: kills[0].reason for name, kills in kills_of(notes).items()} == {
        "a": LIVENESS,
        "b": KillReason.POD,
    }


def test_the_last_kill_is_known_while_the_next_instance_stops() -> None:
    notes = after(("c", Kill(id="1", reason=LIVENESS)), ("c", Kill(id="2", reason=LIVENESS)))
    made = make_pod(metadata={"annotations": notes})
    ended = ContainerStateTerminated(exitCode=137, containerID="docker://1")
    assert kill_of(made, "c", ended) is not None


def test_a_kill_refers_to_one_instance() -> None:
    made = make_pod(metadata={"annotations": after(("c", Kill(id="1", reason=LIVENESS)))})
    ended = ContainerStateTerminated(exitCode=137, containerID="docker://1")
    other = ContainerStateTerminated(exitCode=137, containerID="docker://2")
    nameless = ContainerStateTerminated(exitCode=137)
    found = kill_of(made, "c", ended)
    assert found is not None
    assert found.reason is LIVENESS
    assert [kill_of(made, "c", one) for one in (other, nameless, None)] == [None] * 3
    assert kill_of(made, "d", ended) is None


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"c": 1}', '{"c": [{"id": "1"}]}'])
def test_an_invalid_annotation_is_ignored(text: str) -> None:
    assert kills_of({KILLS: text}) == {}


@given(st.text())
def test_messages_are_truncated_at_the_limit(message: str) -> None:
    message = message.encode(errors="replace").decode()
    notes = after(("c", Kill(id="1", reason=LIVENESS, message=message)))
    assert kills_of(notes)["c"][0].message == message[:MESSAGE_LIMIT]
