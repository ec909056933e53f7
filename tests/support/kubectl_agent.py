"""An agent on the real engine, and kubectl with its kubeconfig."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubectl import NEWEST
from real_kubectl import kubectl

START_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class KubectlAgent:
    """``folder`` is the static-pod folder, ``work`` the working directory of kubectl."""

    folder: Path
    root: Path
    work: Path
    environment: dict[str, str]
    node: str
    command: tuple[str, ...]
    """The command line of the agent."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    """The agent, and earlier ones that were killed."""

    def launch(self) -> None:
        with (self.root.parent / "agent.log").open("ab") as log:
            process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environment)
        self.processes.append(process)

    def kill(self) -> None:
        """Kill the agent, and start another one."""
        self.processes[-1].kill()
        self.processes[-1].wait(timeout=120)
        self.launch()
        self.wait_for_node()
        self.wait_for_pods()

    def wait_for_pods(self) -> None:
        """Wait until the kubelet of a new agent has read its pods. Before, it has no logs and no
        sessions of them."""
        names = "jsonpath={.items[*].metadata.name}"

        def has_read() -> bool:
            answer = json.loads(self.out("get", "--raw", f"/api/v1/nodes/{self.node}/proxy/pods"))
            recorded = self.out("get", "pods", "--all-namespaces", "-o", names).split()
            return {pod["metadata"]["name"] for pod in answer["items"] or ()} >= set(recorded)

        self.until(has_read)

    def wait_for_node(self) -> None:
        ready = ("wait", "--for=condition=Ready", f"node/{self.node}", "--timeout=1s")
        self.until(lambda: self.run(*ready).returncode == 0, START_SECONDS)

    def run(
        self,
        *arguments: str,
        text: str | None = None,
        seconds: float = 120.0,
        version: str = NEWEST,
        **more: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; ``text`` is its input, ``more`` is added to its environment."""
        return subprocess.run(
            [kubectl(version), *arguments],
            input="" if text is None else text,
            capture_output=True,
            text=True,
            cwd=self.work,
            env={**self.environment, **more},
            timeout=seconds,
            check=False,
        )

    def out(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl, which must succeed, and return its output."""
        done = self.run(*arguments, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def send(self, content: bytes, *arguments: str) -> None:
        """Run kubectl, which must succeed, with bytes as its input."""
        subprocess.run(
            [kubectl(), *arguments],
            input=content,
            capture_output=True,
            cwd=self.work,
            env=self.environment,
            timeout=120,
            check=True,
        )

    @contextmanager
    def start(
        self, *arguments: str, terminal: int | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Start kubectl, and kill it at the end. ``terminal`` is its input and output, if given."""
        output = subprocess.PIPE if terminal is None else terminal
        with subprocess.Popen(
            [kubectl(), *arguments],
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=output,
            stderr=subprocess.STDOUT if terminal is None else terminal,
            text=True,
            cwd=self.work,
            env=self.environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def until(self, condition: Callable[[], bool], seconds: float = 180.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the condition was not met"
            time.sleep(0.2)


@contextmanager
def kubectl_agent(
    base: Path,
    *,
    node: str,
    engine: str = "auto",
    strict: bool = False,
    node_kubeconfig: str = "",
    settings: Mapping[str, str] | None = None,
) -> Iterator[KubectlAgent]:
    """Start an agent for an empty folder, and end it with all its containers. It joins the cluster
    of ``node_kubeconfig``, if given. ``settings`` are more environment variables."""
    folder, root, work = base / "pods", base / "root", base / "work"
    folder.mkdir()
    work.mkdir()
    program = [sys.executable, "-m", "podtui", "--root-dir", str(root), "--engine", engine]
    environment = {
        **os.environ,
        "HOME": str(base),
        "XDG_CONFIG_HOME": str(base),
        "PODTUI_KUBELET_STRICT": str(strict).lower(),
        **(settings or {}),
    }
    if node_kubeconfig:
        program += ["--node-kubeconfig", node_kubeconfig]
    started = (*program, "--static-pod-path", str(folder), "--node-name", node, "agent")
    agent = KubectlAgent(folder, root, work, environment, node, started)
    agent.launch()
    try:
        written = subprocess.run(
            [*program, "kubeconfig"], env=environment, capture_output=True, text=True, check=True
        )
        environment["KUBECONFIG"] = written.stdout.strip()
        agent.wait_for_node()
        yield agent
    finally:
        agent.processes[-1].terminate()
        agent.processes[-1].wait(timeout=120)
        subprocess.run(
            [*program, "down", "--yes"], env=environment, capture_output=True, check=False
        )
