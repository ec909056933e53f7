from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from msgspec import structs
from tui_scene import node

from podtui.api.names import STATIC_POD_PATH
from podtui.api.v1 import Node
from podtui.tui.commands.agent import shortened
from podtui.tui.commands.agent_supervisor import (
    MAX_RESTART_DELAY_SECONDS,
    MIN_RESTART_DELAY_SECONDS,
    AgentSupervisor,
)
from podtui.tui.model.model import LinkState

LOST, CONNECTED, STARTING = LinkState.LOST, LinkState.CONNECTED, LinkState.STARTING
NOW = 1_000_000.0


class CrashedAgent:
    problem = "no room on the disk"
    crashed = True

    def __init__(self) -> None:
        self.restarted: list[str] = []

    def restart(self, folder: str = "") -> None:
        self.restarted.append(folder)


def watching(folder: Path) -> Node:
    record = node()
    metadata = structs.replace(record.metadata, annotations={STATIC_POD_PATH: str(folder)})
    return structs.replace(record, metadata=metadata)


def restarts(supervisor: AgentSupervisor, start: int, end: int) -> list[int]:
    """Return the seconds in which the agent is restarted if it crashes at once each time."""
    times: list[int] = []
    for second in range(start, end):
        if supervisor.needs_restart(LOST, NOW + second):
            supervisor.begin_restart(NOW + second)
            times.append(second)
    return times


def test_the_delay_between_restarts_doubles_up_to_a_limit() -> None:
    times = restarts(AgentSupervisor(CrashedAgent()), 0, 300)
    delays = [later - earlier for earlier, later in pairwise(times)]
    assert delays == [2, 4, 8, 16, 32, 60, 60, 60]


def test_the_delay_is_reset_only_after_a_long_connection() -> None:
    supervisor = AgentSupervisor(CrashedAgent())
    last = restarts(supervisor, 0, 20)[-1]
    soon, late = last + 1, last + MAX_RESTART_DELAY_SECONDS + 1
    assert not supervisor.needs_restart(CONNECTED, NOW + soon)
    assert not supervisor.needs_restart(LOST, NOW + soon + MIN_RESTART_DELAY_SECONDS)
    assert not supervisor.needs_restart(CONNECTED, NOW + late)
    assert restarts(supervisor, int(late), int(late) + 4) == [int(late), int(late) + 2]


def test_only_an_agent_that_crashed_while_the_link_is_lost_is_restarted() -> None:
    agent = CrashedAgent()
    supervisor = AgentSupervisor(agent)
    assert not supervisor.needs_restart(CONNECTED, NOW)
    assert not supervisor.needs_restart(STARTING, NOW)
    agent.crashed = False
    assert not supervisor.needs_restart(LOST, NOW)
    assert not AgentSupervisor().needs_restart(LOST, NOW)


def test_the_problem_of_the_start_is_shown_until_the_agent_was_reached() -> None:
    supervisor = AgentSupervisor(CrashedAgent())
    supervisor.needs_restart(STARTING, NOW)
    assert supervisor.start_error == "no room on the disk"
    supervisor.needs_restart(LOST, NOW)
    assert supervisor.start_error == ""


def test_another_folder_is_found_once_for_each_folder_of_the_agent(tmp_path: Path) -> None:
    supervisor = AgentSupervisor(CrashedAgent(), tmp_path / "mine")
    assert not supervisor.compare_folder(None), "not known yet"
    assert not supervisor.can_act(CONNECTED)
    assert supervisor.compare_folder(watching(tmp_path / "other"))
    assert supervisor.other_folder == shortened(tmp_path / "mine")
    assert supervisor.can_act(CONNECTED)
    assert not supervisor.compare_folder(watching(tmp_path / "other"))
    assert supervisor.compare_folder(watching(tmp_path / "mine"))
    assert supervisor.other_folder == ""


def test_a_folder_that_the_user_did_not_choose_is_not_compared(tmp_path: Path) -> None:
    supervisor = AgentSupervisor(CrashedAgent(), tmp_path / "mine", compares_folder=False)
    assert supervisor.compare_folder(watching(tmp_path / "other"))
    assert supervisor.other_folder == ""


def test_the_requested_folder_is_shown_until_the_agent_reports_its_own(tmp_path: Path) -> None:
    supervisor = AgentSupervisor(None, tmp_path / "mine")
    assert supervisor.folder(None) == shortened(tmp_path / "mine")
    assert supervisor.folder(watching(tmp_path / "other")) == shortened(tmp_path / "other")
    assert AgentSupervisor().folder(None) == ""


def test_only_a_lost_agent_of_this_screen_can_be_restarted() -> None:
    agent = CrashedAgent()
    assert AgentSupervisor(agent).can_act(LOST)
    assert not AgentSupervisor(agent).can_act(CONNECTED)
    assert not AgentSupervisor().can_act(LOST)
    AgentSupervisor(agent).restart("/srv/pods")
    assert agent.restarted == ["/srv/pods"]
