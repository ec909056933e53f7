"""Supervise the agent beside the screen: when to restart it, and whether it watches the folder that
the user requested.

Nothing here shows anything: the app asks once a second, and reports the answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from podtui.api.v1 import Node
from podtui.tui.commands.agent import Agent, is_other, shortened, watched_path
from podtui.tui.model.model import LinkState

MIN_RESTART_DELAY_SECONDS: Final = 1.0
"""Initial seconds between two restarts of an agent that was killed; doubled each time."""
MAX_RESTART_DELAY_SECONDS: Final = 60.0


class AgentSupervisor:
    """Supervises ``agent``, the agent's process; None if this screen has none to restart.

    ``requested_path`` is the folder that the user chose. Without ``compares_folder``, it is a
    default that the user did not choose, and an agent that watches another folder is not reported.
    """

    def __init__(
        self,
        agent: Agent | None = None,
        requested_path: Path | None = None,
        *,
        compares_folder: bool = True,
        asks_to_switch: bool = False,
    ) -> None:
        self._agent = agent
        self.requested_path = requested_path
        self._compares_folder = compares_folder
        self.asks_to_switch = asks_to_switch
        """True if the screen offers to switch as soon as it knows that the folders differ."""
        self.compared_folder: str = ""
        """The agent's folder at the last comparison with ``requested_path``."""
        self.other_folder = ""
        """The requested folder, if the agent watches another one."""
        self.start_error = ""
        """The reason why the agent could not be started."""
        self._restarted_at = 0.0
        self._restart_delay = MIN_RESTART_DELAY_SECONDS

    def can_act(self, link: LinkState) -> bool:
        """Return whether the agent can be restarted, or switched to the requested folder."""
        return self._agent is not None and (link is LinkState.LOST or bool(self.other_folder))

    def folder(self, node: Node | None) -> str:
        """Return the agent's folder for display; the requested folder until the agent's node
        reports its own.
        """
        watched = watched_path(node)
        path = Path(watched) if watched else self.requested_path
        return shortened(path) if path is not None else ""

    def needs_restart(self, link: LinkState, now: float) -> bool:
        """Return whether the agent was killed or failed, and the back-off is over."""
        agent = self._agent
        if agent is None:
            return False
        if link is LinkState.CONNECTED:
            if self._restarted_at and now - self._restarted_at > MAX_RESTART_DELAY_SECONDS:
                self._restart_delay = MIN_RESTART_DELAY_SECONDS
            return False
        self.start_error = agent.problem if link is LinkState.STARTING else ""
        due = now - self._restarted_at >= self._restart_delay
        if not (link is LinkState.LOST and due and agent.crashed):
            return False
        # Back off: an agent that cannot run would be restarted in a tight loop.
        self._restart_delay = min(MAX_RESTART_DELAY_SECONDS, 2 * self._restart_delay)
        return True

    def begin_restart(self, now: float) -> None:
        """Begin the back-off; `restart` follows in a thread."""
        self._restarted_at = now

    def restart(self, folder: str = "") -> None:
        """Call `Agent.restart`, which blocks. Raises `PodtuiError`."""
        assert self._agent is not None
        self._agent.restart(folder)

    def compare_folder(self, node: Node | None) -> bool:
        """Compare the agent's folder with the requested one, once for each folder of the agent.
        Returns True if the agent's folder is a new one.
        """
        watched = watched_path(node)
        if self._agent is None or not watched or watched == self.compared_folder:
            return False
        self.compared_folder = watched
        other = self._compares_folder and is_other(watched, self.requested_path)
        self.other_folder = shortened(self.requested_path) if other and self.requested_path else ""
        return True
