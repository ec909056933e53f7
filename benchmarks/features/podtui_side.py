"""podtui: the manifest is moved into the folder of a running agent."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import Any
from urllib.parse import quote

from benchmarks.agent import Agent
from benchmarks.features.side import Facts, Seen


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("podtui", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self._path)


class PodtuiSide:
    """Reads the state from the agent's own API, like any client."""

    def __init__(self, agent: Agent, node: str) -> None:
        self._agent = agent
        self._node = node

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = _UnixConnection(str(self._agent.root / "podtui.sock"))
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def play(self, name: str, manifest: str) -> None:
        hidden = self._agent.folder / f".{name}"
        hidden.write_text(manifest)
        hidden.rename(self._agent.folder / f"{name}.yaml")

    def facts(self, name: str) -> Facts:
        status, body = self._get(f"/api/v1/namespaces/default/pods/{name}-{self._node}")
        messages = [self._events(name), self._diagnostics(name)]
        if status != 200:
            return Facts(errors="\n".join(messages))
        pod: dict[str, Any] = json.loads(body)
        state = pod.get("status", {})
        messages.append(f"{state.get('reason', '')} {state.get('message', '')}")
        every = [*state.get("initContainerStatuses", []), *state.get("containerStatuses", [])]
        containers = {one["name"]: _seen(one) for one in every}
        return Facts(containers, state.get("phase", ""), "\n".join(messages))

    def _events(self, name: str) -> str:
        selector = quote(f"involvedObject.name={name}-{self._node}")
        status, body = self._get(f"/api/v1/namespaces/default/events?fieldSelector={selector}")
        items = json.loads(body)["items"] if status == 200 else []
        return "\n".join(f"{one['reason']}: {one['message']}" for one in items)

    def _diagnostics(self, name: str) -> str:
        done = self._agent.command("check", str(self._agent.folder / f"{name}.yaml"))
        return done.stdout if done.returncode else ""

    def log(self, name: str, container: str) -> str:
        path = f"/api/v1/namespaces/default/pods/{name}-{self._node}/log?container={container}"
        status, body = self._get(path)
        return body.decode(errors="replace") if status == 200 else ""

    def remove(self, name: str) -> None:
        (self._agent.folder / f"{name}.yaml").unlink(missing_ok=True)
        path = f"/api/v1/namespaces/default/pods/{name}-{self._node}"
        deadline = time.monotonic() + 40
        while self._get(path)[0] == 200 and time.monotonic() < deadline:
            time.sleep(0.1)


def _seen(status: dict[str, Any]) -> Seen:
    state, last = status.get("state", {}), status.get("lastState", {})
    ended = state.get("terminated") or last.get("terminated") or {}
    word = next(iter(state), "waiting")
    return Seen(
        state="exited" if word == "terminated" else word,
        exit_code=ended.get("exitCode", 0) if ended else None,
        restarts=status.get("restartCount", 0),
        ready=status.get("ready", False),
        message=ended.get("message", ""),
    )
