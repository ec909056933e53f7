"""The command line in scripts: output, exit status, and the remaining containers when an agent
stops, starts again or is removed while another one runs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker_cli import docker
from tmux_harness import PODTUI, ROOT, Machine, Terminal, wait_until

from podtui import __version__
from podtui.agent.lock import is_held, read_agent
from podtui.api.names import ROOT_LABEL, root_key
from podtui.client.blocking import get_json
from podtui.errors import AgentUnavailable, ApiError

COUNTER = (ROOT / "static_pods/counter.yaml").read_text()
TOO_BIG = (ROOT / "static_pods/gallery/too-big.yaml").read_text()
UNKNOWN_FIELD = (ROOT / "static_pods/gallery/unknown-field.yaml").read_text()
KEEPER = """\
apiVersion: v1
kind: Pod
metadata:
  name: keeper
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - name: app
      image: busybox:1.36
      imagePullPolicy: IfNotPresent
      command: ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]
      volumeMounts:
        - {name: disk, mountPath: /disk}
        - {name: memory, mountPath: /memory}
  volumes:
    - name: disk
      emptyDir: {}
    - name: memory
      emptyDir: {medium: Memory}
"""
KEEPER_APP = "k8s_app_keeper-n1_"

Json = dict[str, Any]


class Site:
    """A machine's root directory with its agent, and its objects on the engine."""

    def __init__(self, base: Path) -> None:
        base.mkdir()
        self.machine = Machine(base, Terminal(base / "tmux.sock"), "auto")
        self.socket = self.machine.root / "podtui.sock"
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.machine.run(*arguments)

    def start(self) -> subprocess.Popen[bytes]:
        """Start an agent and wait until it answers."""
        log = (self.machine.folder.parent / "agent.log").open("ab")
        with log:
            process = self.process = subprocess.Popen(
                [*PODTUI, "agent"], env=self.machine.env, cwd=ROOT,
                stdin=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip

        def answers() -> bool:
            assert process.poll() is None, "the agent has ended"
            try:
                get_json(self.socket, "/version")
            except (AgentUnavailable, ApiError):
                return False
            return True

        wait_until(answers, "the agent answers")
        return process

    def pods(self) -> dict[str, Json]:
        items = get_json(self.socket, "/api/v1/pods")["items"] or []
        return {item["metadata"]["name"]: item for item in items}

    def events(self, pod: str) -> dict[tuple[str, str], int]:
        """Return the count by (reason, message) of a pod's events."""
        return {
            (event["reason"], event["message"]): event.get("count", 1)
            for event in get_json(self.socket, "/api/v1/events")["items"]
            if event["involvedObject"]["name"] == pod
        }

    def until_ready(self, *names: str) -> None:
        def ready() -> bool:
            pods = self.pods()
            return set(names) <= {
                name
                for name, pod in pods.items()
                for one in pod["status"].get("conditions", [])
                if one["type"] == "Ready" and one["status"] == "True"
            }

        wait_until(ready, f"{', '.join(names)} ready")

    @property
    def label(self) -> str:
        return f"label={ROOT_LABEL}={root_key(str(self.machine.root))}"

    def containers(self, *flags: str) -> dict[str, str]:
        """Return ids by name: running apps, sandboxes and holders of memory volumes, or all of them
        with ``--all``."""
        text = docker("ps", "--no-trunc", "--filter", self.label, *flags, "--format",
                      "{{.Names}} {{.ID}}")  # fmt: skip
        return dict(line.split() for line in text.splitlines())

    def volumes(self) -> set[str]:
        return set(docker("volume", "ls", "--quiet", "--filter", self.label).split())

    def actions(self, since: float) -> list[tuple[str, str]]:
        """Return (action, container name) of all engine events of its containers since then."""
        text = docker("events", "--since", f"{since:.6f}", "--until", f"{time.time():.6f}",
                      "--filter", "type=container", "--filter", self.label, "--format",
                      "{{.Action}} {{.Actor.Attributes.name}}")  # fmt: skip
        return [
            (action, name)
            for action, _, name in (line.rpartition(" ") for line in text.splitlines())
        ]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site]]:
    """Two agents on one engine, with pods of the same names on nodes of the same name."""
    base = tmp_path_factory.mktemp("commands")
    pair = Site(base / "a"), Site(base / "b")
    try:
        for site in pair:
            site.machine.write("counter.yaml", COUNTER)
            site.machine.write("keeper.yaml", KEEPER)
            site.start()
        for site in pair:
            site.until_ready("counter-n1", "keeper-n1")
        yield pair
    finally:
        for site in pair:
            site.run("down", "--yes")
            if site.process is not None:
                site.process.kill()
                site.process.wait(120)


@pytest.fixture
def idle_machine(tmp_path: Path) -> Site:
    """A machine where no agent runs."""
    return Site(tmp_path / "alone")


# --- without an agent


def test_check_of_good_manifests(idle_machine: Site) -> None:
    done = idle_machine.run("check", "static_pods")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for name in ("counter", "pipeline", "web"):
        assert f"static_pods/{name}.yaml: ok: pod default/{name}-n1" in lines
    assert re.fullmatch(r"\d+ files, 0 errors, 0 warnings", lines[-1])
    assert not idle_machine.machine.root.exists(), "checking leaves nothing behind"


def test_check_reports_position_and_suggestion(idle_machine: Site) -> None:
    path = idle_machine.machine.write("bad.yaml", UNKNOWN_FIELD)
    done = idle_machine.run("check", str(path), "static_pods/web.yaml")
    assert (done.returncode, done.stderr) == (1, "")
    assert f'{path}:7:3: error: unknown field "restartPolicy"; it belongs at' in done.stdout
    assert "\n  7 |   restartPolicy: Never\n    |   ^\n" in done.stdout
    assert "fix: move it to spec.restartPolicy" in done.stdout
    assert f'{path}:13:7: error: unknown field "workdir" (spec.' in done.stdout
    assert 'fix: did you mean "workingDir"?' in done.stdout
    assert "static_pods/web.yaml: ok: pod default/web-n1" in done.stdout
    assert done.stdout.endswith("2 files, 2 errors, 0 warnings\n")
    assert "\x1b" not in done.stdout, "no colours but on a terminal"


def test_check_as_json(idle_machine: Site) -> None:
    bad = idle_machine.machine.write("bad.yaml", UNKNOWN_FIELD)
    broken = idle_machine.machine.write("broken.yaml", "kind: Pod\nmetadata: {name: x\nspec:\n")
    good = idle_machine.machine.write("counter.yaml", COUNTER)
    done = idle_machine.run("check", "-o", "json", str(bad), str(broken), str(good))
    assert (done.returncode, done.stderr) == (1, "")
    first, second, third = json.loads(done.stdout)
    assert [one["path"] for one in (first, second, third)] == [str(bad), str(broken), str(good)]
    assert [one["state"] for one in (first, second, third)] == ["Invalid", "Invalid", "Accepted"]
    assert [(d["line"], d["column"], d["field"], d["fix"]) for d in first["diagnostics"]] == [
        (7, 3, "metadata.restartPolicy", "move it to spec.restartPolicy"),
        (13, 7, "spec.containers[0].workdir", 'did you mean "workingDir"?'),
    ]
    (syntax,) = second["diagnostics"]
    assert syntax["severity"] == "Error"
    assert (syntax["line"], syntax["column"]) >= (2, 1)
    assert (third["namespace"], third["name"], third["diagnostics"]) == (
        "default",
        "counter-n1",
        [],
    )
    assert re.fullmatch(r"[0-9a-f]{32}", third["uid"])

    clean = idle_machine.run("check", "--output=json", str(good))
    assert clean.returncode == 0
    assert json.loads(clean.stdout) == [third]


def test_check_tries_admission(idle_machine: Site) -> None:
    path = idle_machine.machine.write("too-big.yaml", TOO_BIG)
    done = idle_machine.run("check", str(path))
    assert done.returncode == 0, "a warning is no error: another node may have the room"
    assert (
        f"{path}: warning: this node (this machine without pods; no agent is running) would not"
        in (done.stdout)
    )
    assert "memory: 64Ti requested, " in done.stdout
    assert "fix: lower the requests, or run it on a larger node" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check"], "PATH"),
        (["check", "/nowhere/at-all.yaml"], "/nowhere/at-all.yaml: no such file or folder"),
        (["check", "-o", "xml", "static_pods"], "xml"),
        (["status", "--no-such-option"], "--no-such-option"),
        (["config", "--config", "/nowhere.yaml"], "/nowhere.yaml: no such configuration file"),
        (["down"], "confirm with --yes"),
        (["static_pods"], "the screen needs a terminal"),
    ],
)
def test_usage_errors_are_status_2(idle_machine: Site, arguments: list[str], words: str) -> None:
    done = idle_machine.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_commands_on_a_machine_without_an_agent(idle_machine: Site) -> None:
    for arguments in (["status"], ["status", "-o", "json"], ["stop"]):
        done = idle_machine.run(*arguments)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"no agent is running for {idle_machine.machine.root}" in done.stderr
    done = idle_machine.run("down", "--yes")
    assert done.returncode == 0
    assert "nothing to remove" in done.stdout
    assert idle_machine.run("--version").stdout == f"podtui {__version__}\n"


def test_config_shows_the_source_of_each_setting(idle_machine: Site, tmp_path: Path) -> None:
    config = tmp_path / "podtui.yaml"
    config.write_text("kind: KubeletConfiguration\nmaxPods: 7\nnodeName: of-file\n")
    done = idle_machine.run("config", "--config", str(config), "--engine", "memory")
    assert (done.returncode, done.stderr) == (0, "")
    settings: dict[str, tuple[object, str]] = {}
    for line in done.stdout.splitlines():
        if not line.startswith("#"):
            key, _, rest = line.partition(" ")
            value, _, origin = rest.rpartition("  # ")
            settings[key] = (json.loads(value), origin)
    assert settings["rootDir"] == (str(idle_machine.machine.root), "PODTUI_ROOT_DIR")
    assert settings["nodeName"] == ("n1", "PODTUI_NODE_NAME"), "the environment beats the file"
    assert settings["engine"] == ("memory", "command line"), "a flag beats the environment"
    assert settings["maxPods"] == (7, f"{config}:2:1")
    assert settings["syncFrequency"] == (60.0, "default")
    assert f"# no effect here: {config}:1:1: kind" in done.stdout

    config.write_text("\nmaxPod: 7\n")
    done = idle_machine.run("config", "--config", str(config))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{config}:2:1: maxPod: no such setting (did you mean maxPods?)" in done.stderr


def test_doctor_without_an_engine(idle_machine: Site) -> None:
    nowhere = idle_machine.machine.root.parent / "none.sock"
    done = idle_machine.run("doctor", "--engine", f"unix://{nowhere}")
    assert done.returncode == 1
    assert f"✗ no engine at unix://{nowhere}" in done.stdout
    assert "→ install Docker or Podman" in done.stdout
    assert "Traceback" not in done.stderr


# --- with two agents; from here on the order matters


def test_doctor_reports_success(sites: tuple[Site, Site]) -> None:
    site, _ = sites
    done = site.run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout
    assert f"✓ root directory: {site.machine.root}" in done.stdout
    assert site.process is not None
    assert f"✓ agent: process {site.process.pid}, podtui {__version__}, node n1" in done.stdout
    assert re.search(r"^✓ engine: \w+ \S+ \(API [\d.]+\) at \S+", done.stdout, re.MULTILINE)


def test_status_as_table(sites: tuple[Site, Site]) -> None:
    done = sites[0].run("status")
    assert (done.returncode, done.stderr) == (0, "")
    nodes, pods = (part.splitlines() for part in done.stdout.split("\n\n"))
    assert nodes[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert nodes[1].split()[:2] == ["n1", "Ready"]
    assert pods[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "HEALTH"]
    assert [row.split()[:4] for row in pods[1:]] == [
        ["counter-n1", "1/1", "Running", "0"],
        ["keeper-n1", "1/1", "Running", "0"],
    ]


def test_status_as_json(sites: tuple[Site, Site]) -> None:
    done = sites[0].run("status", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    items = [(item["apiVersion"], item["kind"], item["metadata"]["name"])
             for item in document["items"]]  # fmt: skip
    assert items == [("v1", "Node", "n1"), ("v1", "Pod", "counter-n1"), ("v1", "Pod", "keeper-n1")]
    assert {pod["status"]["phase"] for pod in document["items"][1:]} == {"Running"}


def test_check_uses_the_node_of_the_agent(sites: tuple[Site, Site], tmp_path: Path) -> None:
    path = tmp_path / "too-big.yaml"
    path.write_text(TOO_BIG)
    done = sites[0].run("check", str(path))
    assert done.returncode == 0
    assert "warning: this node (node n1) would not admit the pod" in done.stdout


def test_pods_of_two_root_directories_are_separate(sites: tuple[Site, Site]) -> None:
    one, other = sites
    assert set(one.pods()) == set(other.pods()) == {"counter-n1", "keeper-n1"}
    for site in sites:
        named = [name for name in site.containers() if name.startswith("k8s_")]
        kinds = sorted(" ".join(name.split("_")[1:3]) for name in named)
        assert kinds == ["POD counter-n1", "POD keeper-n1", "app keeper-n1", "count counter-n1"]
        (holder,) = site.containers().keys() - set(named)
        assert holder.endswith("-memory"), "it keeps the keeper's volume in memory"
        assert site.volumes()
    assert not set(one.containers().values()) & set(other.containers().values())
    assert not one.volumes() & other.volumes()


def test_an_edit_in_one_root_directory_does_not_affect_the_other(sites: tuple[Site, Site]) -> None:
    one, other = sites
    began = time.time()
    before = other.containers()
    (one.machine.folder / "keeper.yaml").unlink()
    wait_until(lambda: set(one.pods()) == {"counter-n1"}, "the pod goes")
    wait_until(lambda: len(one.containers("--all")) == 2, "its containers go")
    one.machine.write("keeper.yaml", KEEPER)
    one.until_ready("keeper-n1")
    assert other.containers() == before
    assert any(action == "start" and KEEPER_APP in name for action, name in one.actions(began))
    assert not other.actions(began)


def test_stop_keeps_containers_running_and_the_next_agent_adopts_them(
    sites: tuple[Site, Site],
) -> None:
    site, _ = sites
    assert site.process is not None
    containers, volumes = site.containers(), site.volumes()
    assert len(containers) == 5
    events = {name: site.events(name) for name in ("counter-n1", "keeper-n1")}
    began = time.time()

    done = site.run("stop")
    assert done.returncode == 0
    assert "its containers keep running" in done.stdout
    assert site.process.wait(120) == 0
    assert not is_held(site.machine.root / "podtui.lock")
    assert site.run("status").returncode == 3
    assert site.run("stop").returncode == 3
    assert site.containers() == containers

    site.start()
    # When the agent handles this new pod, it has read the whole folder.
    site.machine.write("late.yaml", KEEPER.replace("name: keeper", "name: late"))
    site.until_ready("late-n1", "counter-n1", "keeper-n1")
    now = site.containers()
    assert {name: now.get(name) for name in containers} == containers
    assert volumes <= site.volumes()
    touched = {name for _, name in site.actions(began)}
    assert not touched & containers.keys(), "the engine changed only the new pod"
    assert {name.split("_")[2] for name in touched if name.startswith("k8s_")} == {"late-n1"}
    pods = site.pods()
    for name in ("counter-n1", "keeper-n1"):
        (status,) = pods[name]["status"]["containerStatuses"]
        assert status["restartCount"] == 0
        assert status["containerID"].removeprefix("docker://") in containers.values()
        counts = site.events(name)
        for reason in ("Created", "Started", "Killing", "Pulled"):
            assert {k: n for k, n in counts.items() if k[0] == reason} == {
                k: n for k, n in events[name].items() if k[0] == reason
            }
    container = next(key for name, key in containers.items() if name.startswith("k8s_count_"))
    lines = docker("logs", container).splitlines()
    assert lines == [f"tick {n}" for n in range(1, len(lines) + 1)], "it never stopped counting"


def test_a_killed_agent_counts_as_stopped(sites: tuple[Site, Site]) -> None:
    _, site = sites
    assert site.process is not None
    containers = site.containers()
    site.process.send_signal(signal.SIGKILL)
    site.process.wait(120)
    assert site.socket.exists(), "a killed agent leaves its socket"
    for command in ("status", "stop"):
        done = site.run(command)
        assert (done.returncode, done.stdout) == (3, "")
        assert "Traceback" not in done.stderr
    doctor = site.run("doctor")
    assert doctor.returncode == 0
    assert "✓ agent: none runs" in doctor.stdout
    process = site.start()
    record = read_agent(site.machine.root / "podtui.lock")
    assert record is not None
    assert record.pid == process.pid
    site.until_ready("counter-n1", "keeper-n1")
    assert site.containers() == containers


def test_a_second_agent_of_one_folder_and_node_refuses_to_start(
    sites: tuple[Site, Site], tmp_path: Path
) -> None:
    """The containers of both would have the same names. The second agent refuses before it changes
    any, and its ``down`` does not remove them.
    """
    site, _ = sites
    began = time.time()
    before, volumes = site.containers(), site.volumes()
    second = Site(tmp_path / "second")
    second.machine.env["PODTUI_STATIC_POD_PATH"] = str(site.machine.folder)
    done = second.run("agent")
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert f"another agent (root directory {site.machine.root}) has 3 pods of" in message
    assert "--node-name" in message
    assert f"down --root-dir {site.machine.root}" in message
    assert second.run("down", "--yes").returncode == 0

    assert site.process is not None
    assert site.run("stop").returncode == 0
    assert site.process.wait(120) == 0
    try:
        process = second.start()
        log = second.machine.folder.parent / "agent.log"
        wait_until(
            lambda: f"a stopped agent (root directory {site.machine.root})" in log.read_text(),
            "the stopped agent's containers are named",
        )
        wait_until(
            lambda: any(
                reason == "FailedCreatePodSandBox"
                and "already in use" in message
                and f"the agent of the root directory {site.machine.root}" in message
                for reason, message in second.events("counter-n1")
            ),
            "the conflict is reported",
        )
        assert not second.containers("--all")
        assert second.run("down", "--yes").returncode == 0
        assert process.wait(120) == 0
    finally:
        second.run("down", "--yes")
    assert not second.volumes()
    site.start()
    site.until_ready("counter-n1", "keeper-n1", "late-n1")
    assert site.containers() == before
    assert site.volumes() == volumes
    assert not site.actions(began)


def test_down_removes_everything_of_its_root_directory_only(sites: tuple[Site, Site]) -> None:
    site, other = sites
    assert site.process is not None
    running = site.containers()
    done = site.run("down")
    assert done.returncode == 2
    assert "confirm with --yes" in done.stderr
    assert site.process.poll() is None
    assert site.containers() == running, "nothing happens without a yes"

    began = time.time()
    neighbours, volumes = other.containers(), other.volumes()
    done = site.run("down", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The agent has stopped. Removed 3 pods, 3 containers" in done.stdout
    assert site.process.wait(120) == 0
    assert not site.containers("--all")
    assert not site.volumes()
    assert not docker("network", "ls", "--quiet", "--filter", site.label)
    assert not list(site.machine.root.glob("records.db*"))
    assert not site.socket.exists()
    assert len(list(site.machine.folder.glob("*.yaml"))) == 3, "manifests are the user's"
    assert site.run("status").returncode == 3

    assert other.containers() == neighbours
    assert other.volumes() == volumes
    assert not other.actions(began)
    again = site.run("down", "--yes")
    assert again.returncode == 0
    assert "Removed 0 pods, 0 containers" in again.stdout


def test_down_after_the_agent_was_killed(sites: tuple[Site, Site]) -> None:
    _, site = sites
    assert site.process is not None
    site.process.send_signal(signal.SIGKILL)
    site.process.wait(120)
    assert len(site.containers()) == 5
    done = site.run("down", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Removed 2 pods, 2 containers")
    assert not site.containers("--all")
    assert not site.volumes()
