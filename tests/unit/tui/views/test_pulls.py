"""Image pulls, as recorded by pods, in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tui_records import pulling
from tui_scene import ago, now, pod

from podtui.api.insight import PodStart, Step, StepKind
from podtui.api.local import PullStep
from podtui.tui.views.pods.timeline import waterfall, with_pull
from podtui.tui.views.pulls import (
    Pull,
    Stage,
    part_of,
    pull_line,
    pull_of,
    pulls_of,
    recorded_pull,
    requested_pull,
)

MIB = 1024 * 1024


def words(pull: Pull) -> str:
    return "".join(span.text for span in pull_line(pull))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("app: Waiting", "◔ queued to pull big:1"),
        ("app: Pulling", "◔ pulling big:1"),
        ("app: Pulling from library/big", "◔ pulling big:1"),
        ("app: 5cc84ad355aa: Pulling fs layer", "◔ pulling big:1"),
        (f"app: 5cc8: Downloading {12 * MIB}/{29 * MIB}", "◔ pulling big:1 41% 12/29Mi"),
        (f"app: 5cc8: Extracting {29 * MIB}/{29 * MIB}", "◔ unpacking big:1 100% 29/29Mi"),
        (f"app: 5cc8: Extracting {12 * MIB}/{29 * MIB}", "◔ pulling big:1 41% 12/29Mi"),
        (f"app: x: Downloading {40 * MIB}/{29 * MIB}", "◔ pulling big:1 100% 29/29Mi"),
    ],
)
def test_a_pull_is_described(text: str, wanted: str) -> None:
    pull = recorded_pull(pulling("web", text))
    assert pull is not None
    assert words(pull) == wanted


def test_a_record_without_a_pull_has_none() -> None:
    assert recorded_pull(pod("web")) is None
    assert pull_of(pod("web"), [pulling("other", "app: Pulling")]) is None


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    pull = recorded_pull(pulling("web", text))
    assert pull is None or words(pull)


@pytest.mark.parametrize(
    ("current", "total", "wanted"),
    [
        (0, 512, "0/512B"),
        (500, 29 * MIB, "0/29Mi"),
        (1_300_000_000, 4_080_218_931, "1.2/3.8Gi"),
        (3 * MIB // 2, 5 * MIB // 2, "1.5/2.5Mi"),
    ],
)
def test_progress_uses_the_unit_of_the_total(current: int, total: int, wanted: str) -> None:
    assert part_of(current, total) == wanted


def test_pods_that_wait_for_one_image_show_one_pull() -> None:
    half = pulling("a", f"app: x: Downloading {MIB}/{2 * MIB}")
    turn = pulling("b", "app: Waiting")
    other = pulling("c", "app: Waiting", image="small:1")
    first, second = pulls_of([turn, half, pod("well"), other])
    assert first == Pull("big:1", Stage.PULLING, MIB, 2 * MIB, ("b-n1", "a-n1"))
    assert second == Pull("small:1", Stage.WAITING, pods=("c-n1",))
    assert pull_of(turn, [turn, half, other]) == first
    assert words(first) == "◔ pulling big:1 50% 1/2Mi · 2 pods waiting"


def test_a_manual_pull_has_no_pods() -> None:
    pull = requested_pull("big:1", PullStep(status="x: Downloading", current=MIB, total=4 * MIB))
    assert pull == Pull("big:1", Stage.PULLING, MIB, 4 * MIB)


def test_the_bar_of_a_pull_shows_progress() -> None:
    began = ago(seconds=9)
    steps = (
        Step(kind=StepKind.PULL, subject="old:1", began=began, ended=ago(seconds=6)),
        Step(kind=StepKind.PULL, subject="big:1", began=ago(seconds=6)),
    )
    found = waterfall(PodStart(uid="u", began=began, steps=steps), None, now())
    noted = {bar.label: bar.note for bar in with_pull(found, "big:1", "41% 12/29Mi").bars}
    assert noted == {"pull old:1": "", "pull big:1": "41% 12/29Mi"}
    assert with_pull(found, "old:1", "41%") == found
