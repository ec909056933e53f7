"""The agent during a shutdown of the machine, and during a restart of its service."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_harness import PODTUI, ROOT, Machine, Terminal, wait_until

from podtui.api.names import ROOT_LABEL, root_key

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  containers:
    - name: app
      image: busybox:1.36
      imagePullPolicy: IfNotPresent
      command: ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]
"""
GRACEFUL = "shutdownGracePeriod: 20s\nshutdownGracePeriodCriticalPods: 5s\n"


class Agent:
    """A machine with one running pod, whose systemd is in ``state``."""

    def __init__(self, base: Path, state: str) -> None:
        self.machine = Machine(base, Terminal(base / "tmux.sock"), "auto")
        self.log = base / "agent.log"
        tools = base / "bin"
        tools.mkdir()
        systemctl = tools / "systemctl"
        systemctl.write_text(f"#!/bin/sh\necho {state}\n")
        systemctl.chmod(0o755)
        config = base / "config.yaml"
        config.write_text(GRACEFUL)
        self.machine.env["PODTUI_CONFIG"] = str(config)
        self.machine.env["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
        self.machine.write("keeper.yaml", POD)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*PODTUI, "agent"], env=self.machine.env, cwd=ROOT,
                stdin=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip
        wait_until(self.runs, "the pod runs")

    def runs(self) -> bool:
        result = self.machine.run("status", "-o", "json")
        if result.returncode != 0:
            return False
        pods = [one for one in json.loads(result.stdout)["items"] if one["kind"] == "Pod"]
        return [one["status"].get("phase") for one in pods] == ["Running"]

    def containers(self) -> str:
        """Return the names of its running containers."""
        label = f"label={ROOT_LABEL}={root_key(str(self.machine.root))}"
        command = ["docker", "ps", "--filter", label, "--format", "{{.Names}}"]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def end(self, number: signal.Signals) -> str:
        """Send the signal; return the agent's last log messages."""
        self.process.send_signal(number)
        assert self.process.wait(timeout=120) == 0
        return self.log.read_text()


@pytest.fixture
def agent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Agent]:
    agent = Agent(tmp_path, request.param)
    try:
        yield agent
    finally:
        if agent.process.poll() is None:
            agent.process.kill()
            agent.process.wait()
        agent.machine.run("down", "--yes")


@pytest.mark.parametrize(
    ("agent", "number"),
    [("running", signal.SIGPWR), ("stopping", signal.SIGTERM)],
    indirect=["agent"],
)
def test_pods_are_terminated_at_machine_shutdown(agent: Agent, number: signal.Signals) -> None:
    log = agent.end(number)
    assert "Shutdown manager detected shutdown event" in log
    assert re.search(r"keeper-n1_default\(\w+\) has 15 s to terminate", log)
    assert log.rstrip().endswith("stopped; all pods have terminated")
    assert agent.containers() == ""


@pytest.mark.parametrize("agent", ["running"], indirect=True)
def test_pods_survive_a_stop_of_the_service(agent: Agent) -> None:
    log = agent.end(signal.SIGTERM)
    assert "Shutdown" not in log
    assert log.rstrip().endswith("stopped; the containers keep running")
    assert "k8s_app_keeper-n1_" in agent.containers()
