"""Kill the agent and stop the engine during many edits: nothing is lost or left over, and
nothing restarts unnecessarily."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from docker_cli import docker
from tmux_harness import PODTUI, ROOT, Machine, wait_until

from podtui.agent.lock import is_held, read_agent
from podtui.api.names import root_key
from soak.engine import Engine

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - name: app
      image: busybox:1.36
      imagePullPolicy: IfNotPresent
      command: ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]
      env: [{{name: VERSION, value: "{version}"}}]
"""


class Agent:
    """An agent of the machine that can be killed and restarted."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self.machine.folder.parent / "agent.log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [*PODTUI, "agent"], env=self.machine.env, cwd=ROOT,
                stdin=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(120)

    def pods(self) -> dict[str, dict[str, object]] | None:
        """Return the pods by name from the API; None while no agent answers."""
        done = self.machine.run("status", "-o", "json")
        if done.returncode != 0:
            return None
        items = json.loads(done.stdout)["items"]
        return {i["metadata"]["name"]: i for i in items if i["kind"] == "Pod"}

    def node_ready(self) -> tuple[str, str]:
        """Return (status, message) of the node's Ready condition."""
        done = self.machine.run("status", "-o", "json")
        if done.returncode != 0:
            return "", ""
        for item in json.loads(done.stdout)["items"]:
            if item["kind"] == "Node":
                for condition in item["status"].get("conditions", []):
                    if condition["type"] == "Ready":
                        return condition["status"], condition.get("message", "")
        return "", ""


@pytest.fixture
def agent(machine: Machine) -> Iterator[Agent]:
    agent = Agent(machine)
    agent.start()
    yield agent
    if agent.process is not None:
        agent.process.send_signal(signal.SIGTERM)
        agent.process.wait(120)


def containers(root: Path, *, running: bool = False) -> dict[str, str]:
    """Return ids by name of the engine's apps and sandboxes of this root directory."""
    flags = [] if running else ["--all"]
    text = docker(
        "ps", *flags, "--no-trunc", "--filter", f"label=podtui.dev/root={root_key(str(root))}",
        "--format", "{{.Names}} {{.ID}}",
    )  # fmt: skip
    return dict(line.split() for line in text.splitlines())


def settled(agent: Agent, wanted: dict[str, int]) -> bool:
    """Return whether folder, records and engine agree: one running app and sandbox for each
    file.
    """
    pods = agent.pods()
    if pods is None or set(pods) != {f"{name}-n1" for name in wanted}:
        return False
    for name, version in wanted.items():
        pod = pods[f"{name}-n1"]
        env = pod["spec"]["containers"][0]["env"][0]["value"]  # type: ignore[index]
        if env != str(version) or pod["status"]["phase"] != "Running":  # type: ignore[index]
            return False
    names = list(containers(agent.machine.root, running=True))
    return len(names) == 2 * len(wanted) and all(
        sum(f"_{name}-n1_" in found for found in names) == 2 for name in wanted
    )


@contextmanager
def engine_says(root: Path) -> Iterator[Counter[tuple[str, str]]]:
    """Count how often the engine created and started each app container of a root directory, by
    action and name without the attempt; filled when the block ends. Counted by the engine, not
    by podtui.
    """
    seen = Counter[tuple[str, str]]()
    command = [
        "docker", "events", "--filter", f"label=podtui.dev/root={root_key(str(root))}",
        "--filter", "type=container", "--filter", "event=create", "--filter", "event=start",
        "--format", "{{.Action}} {{.Actor.Attributes.name}}",
        # The stream may open later: it first reports earlier events.
        "--since", str(int(time.time())),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield seen
        finally:
            process.terminate()
            text, _ = process.communicate(timeout=120)
    for line in text.splitlines():
        action, name = line.split()
        if not name.startswith("k8s_POD_"):
            seen[action, name.rpartition("_")[0]] += 1


def test_twenty_kills_during_many_edits(machine: Machine, agent: Agent) -> None:
    with engine_says(machine.root) as seen:
        pods = _edit_and_kill(machine, agent)
    for name, pod in pods.items():
        (status,) = pod["status"]["containerStatuses"]  # type: ignore[index]
        uid = pod["metadata"]["annotations"]["kubernetes.io/config.hash"]  # type: ignore[index]
        key = f"k8s_{status['name']}_{name}_default_{uid}"
        assert seen["start", key] == 1, f"{name} was started more than once: {seen}"
        # A kill between create and start leaves an instance that never ran; it counts, as in a
        # kubelet (kubelet.md §6.5). Nothing else may.
        assert status["restartCount"] <= seen["create", key] - 1, f"{status} {seen}"
    for path in machine.folder.glob("p*.yaml"):
        path.unlink()
    wait_until(lambda: not containers(machine.root), "nothing is left over", 90)
    label = f"label=podtui.dev/root={root_key(str(machine.root))}"
    wait_until(
        lambda: not docker("volume", "ls", "--quiet", "--filter", label).split(),
        "no volume is left over",
        90,
    )


def _edit_and_kill(machine: Machine, agent: Agent) -> dict[str, dict[str, object]]:
    """Edit and kill; return the final pods."""
    chance = random.Random(20)
    names = [f"p{n}" for n in range(6)]
    wanted: dict[str, int] = {}
    version = 0
    for _ in range(20):
        for _ in range(chance.randint(1, 4)):
            name = chance.choice(names)
            if name in wanted and chance.random() < 0.35:
                del wanted[name]
                (machine.folder / f"{name}.yaml").unlink()
            else:
                version += 1
                wanted[name] = version
                machine.write(f"{name}.yaml", MANIFEST.format(name=name, version=version))
            time.sleep(chance.random() * 0.4)
        time.sleep(chance.random() * 1.2)
        agent.kill()
        agent.start()
    wait_until(lambda: settled(agent, wanted), f"folder, records and engine agree on {wanted}", 240)
    # One more restart without an edit must change nothing.
    before = containers(machine.root, running=True)
    agent.kill()
    agent.start()
    wait_until(lambda: settled(agent, wanted), "the same after a restart")
    assert containers(machine.root, running=True) == before
    pods = agent.pods()
    assert pods is not None
    return pods


@pytest.fixture
def private_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Start an engine in its own network namespace, because two cannot share a bridge. Needs
    root.
    """
    # Paths of sockets must be short.
    base = Path(tempfile.mkdtemp(prefix="podtui-engine-"))
    engine = Engine(base, ("unshare", "--net"))
    try:
        engine.start()
        engine.load_image()
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        yield engine
    finally:
        engine.remove()


def test_the_engine_stops_and_returns(private_engine: Engine, machine: Machine) -> None:
    machine.env["PODTUI_ENGINE"] = private_engine.url
    agent = Agent(machine)
    agent.start()
    machine.write("steady.yaml", MANIFEST.format(name="steady", version=1))
    wait_until(lambda: settled(agent, {"steady": 1}), "the pod runs")
    private_engine.stop()
    wait_until(lambda: agent.node_ready()[0] == "False", "the node turns NotReady")
    assert "container runtime" in agent.node_ready()[1]
    assert set(agent.pods() or {}) == {"steady-n1"}, "nothing is forgotten"
    private_engine.start()
    wait_until(lambda: agent.node_ready()[0] == "True", "the node is Ready again")
    wait_until(lambda: settled(agent, {"steady": 1}), "the pod has recovered")
    assert machine.run("down", "--yes").returncode == 0
    assert agent.process is not None
    agent.process.wait(120)


def test_two_agents_never_serve_one_root_directory(machine: Machine, agent: Agent) -> None:
    lock = machine.root / "podtui.lock"
    wait_until(lambda: read_agent(lock) is not None, "the agent holds its lock", 30)
    second = machine.run("agent")
    assert second.returncode == 1
    assert "already serves this root directory" in second.stderr
    assert is_held(lock)
