"""The samples and the gallery on the real engine: each behaves as its first comment describes,
all run at the same time, and invalid ones do not affect the others."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from docker_cli import docker
from tmux_harness import PODTUI, ROOT, Machine, Terminal, wait_until

from podtui.api.names import CONFIG_HASH, CONFIG_MIRROR, LACKS, ROOT_LABEL, root_key
from podtui.client.blocking import get_json
from podtui.errors import AgentUnavailable, ApiError
from podtui.runtime.docker.identity import instant

SAMPLES = ROOT / "static_pods"
GALLERY = SAMPLES / "gallery"
GOOD = ("counter", "pipeline", "web")
CANNOT_FREE = (
    "Unexpected error while attempting to recover from admission failure: preemption: error finding"
    " a set of pods to preempt: no set of running pods found to reclaim resources: [(res: memory,"
)

Json = dict[str, Any]


class UnixConnection(http.client.HTTPConnection):
    """HTTP to the agent's socket, for responses that are not JSON."""

    def __init__(self, path: Path) -> None:
        super().__init__("podtui", timeout=100)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Gallery:
    """One agent with every manifest, and all versions of each pod's record since its start."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.socket = machine.root / "podtui.sock"
        self._seen: list[Json] = []
        self._watcher = threading.Thread(target=self._watch, name="watch")
        log = (machine.folder.parent / "agent.log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [*PODTUI, "agent"], env=machine.env, cwd=ROOT,
                stdin=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip

    def start(self) -> None:
        wait_until(self._answers, "the agent answers")
        self._watcher.start()
        files = [*SAMPLES.glob("*.yaml"), *GALLERY.glob("*.yaml")]
        for path in files:
            self.machine.write(path.name, path.read_text())

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(120)
        if self._watcher.is_alive():
            self._watcher.join(120)

    def _answers(self) -> bool:
        assert self._process.poll() is None, "the agent has ended"
        try:
            get_json(self.socket, "/api/v1/nodes")
        except (AgentUnavailable, ApiError):
            return False
        return True

    def has(self, path: str) -> bool:
        """Return whether the API has an object."""
        try:
            get_json(self.socket, path)
        except ApiError:
            return False
        return True

    def _watch(self) -> None:
        connection = UnixConnection(self.socket)
        try:
            connection.request("GET", "/api/v1/pods?watch=true")
            with connection.getresponse() as response:
                for line in response:
                    event = json.loads(line)
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._seen.append(event["object"])
        except (OSError, http.client.HTTPException):
            pass  # The agent has ended: keep the versions seen so far.
        finally:
            connection.close()

    # --- the records

    def history(self, name: str) -> list[Json]:
        """Return all versions of the pod's record from the watch, oldest first."""
        full = f"{name}-{NODE}"
        return [pod for pod in self._seen if pod["metadata"]["name"] == full]

    def pods(self) -> dict[str, Json]:
        """Return the current pods by the name in their manifests."""
        items = get_json(self.socket, "/api/v1/pods")["items"] or []
        return {item["metadata"]["name"].removesuffix(f"-{NODE}"): item for item in items}

    def until(self, name: str, condition: Callable[[Json], object], what: str) -> Json:
        """Return the first version of the pod's record for which ``condition`` is true."""
        found: list[Json] = []

        def check() -> bool:
            found[:] = [pod for pod in self.history(name) if condition(pod)][:1]
            return bool(found)

        wait_until(check, f"{name}: {what}", 40)
        return found[0]

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """Return (type, reason, message) of a pod's events."""
        full = f"{name}-{NODE}"
        return [
            (event["type"], event["reason"], event["message"])
            for event in get_json(self.socket, "/api/v1/events")["items"]
            if event["involvedObject"]["name"] == full
        ]

    def until_event(self, name: str, kind: str, reason: str, message: str) -> None:
        """Wait for an event whose message matches a pattern completely."""
        wait_until(
            lambda: any(
                (kind, reason) == found[:2] and re.fullmatch(message, found[2], re.DOTALL)
                for found in self.events(name)
            ),
            f"{name}: {kind} {reason} {message}",
        )

    def log(self, name: str, container: str, query: str = "") -> list[str]:
        """Return the lines of a container's log."""
        connection = UnixConnection(self.socket)
        try:
            path = f"/api/v1/namespaces/default/pods/{name}-{NODE}/log?container={container}{query}"
            connection.request("GET", path)
            with connection.getresponse() as response:
                assert response.status == 200, response.read()
                return response.read().decode().splitlines()
        finally:
            connection.close()

    # --- the engine's view

    def containers(self) -> dict[str, str]:
        """Return ids by name of the engine's containers of this root directory."""
        label = f"label={ROOT_LABEL}={root_key(str(self.machine.root))}"
        text = docker("ps", "--all", "--no-trunc", "--filter", label, "--format",
                      "{{.Names}} {{.ID}}")  # fmt: skip
        return dict(line.split() for line in text.splitlines())

    def volumes(self) -> list[str]:
        label = f"label={ROOT_LABEL}={root_key(str(self.machine.root))}"
        return docker("volume", "ls", "--quiet", "--filter", label).split()


NODE = "n1"


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    base = tmp_path_factory.mktemp("gallery")
    machine = Machine(base, Terminal(base / "tmux.sock"), "auto")
    gallery = Gallery(machine)
    try:
        gallery.start()
        yield gallery
    finally:
        gallery.close()
        done = machine.run("down", "--yes")
    assert done.returncode == 0, done.stderr


# --- reading a record


def status_of(pod: Json, container: str) -> Json:
    """Return the status of a container or init container; empty if there is none yet."""
    status = pod["status"]
    lists = (status.get("initContainerStatuses"), status.get("containerStatuses"))
    return next((one for some in lists for one in some or [] if one["name"] == container), {})


def waiting(pod: Json, container: str) -> Json:
    return status_of(pod, container).get("state", {}).get("waiting") or {}


def ended(pod: Json, container: str) -> Json:
    """Return how the container last terminated."""
    status = status_of(pod, container)
    for when in ("state", "lastState"):
        if status.get(when, {}).get("terminated"):
            return status[when]["terminated"]
    return {}


def condition(pod: Json, kind: str) -> str:
    return next((c["status"] for c in pod["status"].get("conditions", []) if c["type"] == kind), "")


def reference(pod: Json) -> str:
    """Return the pod's name in messages: it has the static pod's uid, not that of its record."""
    return f"{pod['metadata']['name']}_default({pod['metadata']['annotations'][CONFIG_HASH]})"


def is_mirror(pod: Json) -> bool:
    return CONFIG_MIRROR in pod["metadata"].get("annotations", {})


def when(text: str) -> datetime:
    return datetime.fromisoformat(text)


def phases(versions: list[Json]) -> set[str]:
    return {pod["status"]["phase"] for pod in versions if pod["status"].get("phase")}


# --- the samples


def test_web_serves_and_its_client_fetches(gallery: Gallery) -> None:
    gallery.until("web", lambda pod: condition(pod, "Ready") == "True", "is ready")
    page = f"ok: <h1>served by web-{NODE}</h1>"
    wait_until(lambda: page in gallery.log("web", "client"), f"the client's log has {page!r}")
    assert page in gallery.log("web", "client")


def test_the_service_of_the_application_reaches_both_pods(gallery: Gallery) -> None:
    path = "/api/v1/namespaces/default/services/greeter"
    wait_until(lambda: gallery.has(path), "the Service is applied")
    port = get_json(gallery.socket, path)["spec"]["ports"][0]["nodePort"]
    answers: set[str] = set()

    def check() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/")
            with connection.getresponse() as response:
                answers.add(response.read().decode().strip())
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return len(answers) == 2

    wait_until(check, "both pods answer", 40)
    pods = {name for name in gallery.pods() if name.startswith("greeter-")}
    assert answers == {f"Hello from {name}" for name in pods}


def test_pipeline_starts_in_order_and_processes_data(gallery: Gallery) -> None:
    pod = gallery.until("pipeline", lambda pod: condition(pod, "Ready") == "True", "is ready")
    # The engine's own times are exact; those of the API are whole seconds.
    states = {
        name: json.loads(docker(
            "inspect", "--format", "{{json .State}}",
            status_of(pod, name)["containerID"].removeprefix("docker://"),
        ))
        for name in ("prepare", "feeder", "reader")
    }  # fmt: skip
    times = [
        instant(states["prepare"]["StartedAt"]),
        instant(states["prepare"]["FinishedAt"]),
        instant(states["feeder"]["StartedAt"]),
        instant(states["reader"]["StartedAt"]),
    ]
    assert None not in times
    assert times == sorted(times), "prepare starts, ends, feeder starts, reader starts"
    assert status_of(pod, "prepare")["state"]["terminated"]["reason"] == "Completed"
    assert gallery.log("pipeline", "prepare") == ["wrote /data/feed"]
    wait_until(lambda: "item 2" in gallery.log("pipeline", "reader"), "the reader read two items")
    lines = gallery.log("pipeline", "reader")
    assert lines == ["prepared", *(f"item {n}" for n in range(1, len(lines)))]


def test_counter_counts_without_a_gap(gallery: Gallery) -> None:
    gallery.until("counter", lambda pod: condition(pod, "Ready") == "True", "is ready")
    wait_until(lambda: len(gallery.log("counter", "count")) >= 5, "the counter counted to five")
    lines = gallery.log("counter", "count")
    assert lines == [f"tick {n}" for n in range(1, len(lines) + 1)]
    assert gallery.log("counter", "count", "&tailLines=1")[0] in (
        lines[-1], f"tick {len(lines) + 1}",
    )  # fmt: skip


# --- the gallery


def test_no_such_image(gallery: Gallery) -> None:
    image = "podtui-sample/nosuch:1"
    backing = f'Back-off pulling image "{image}"'
    pod = gallery.until(
        "no-such-image", lambda pod: waiting(pod, "app").get("reason") == "ImagePullBackOff",
        "ImagePullBackOff",
    )  # fmt: skip
    message = waiting(pod, "app")["message"]
    assert re.fullmatch(re.escape(f"{backing}: ErrImagePull: ") + r"\S.*", message, re.DOTALL), (
        message
    )
    pull = re.escape(f'Failed to pull image "{image}": ')
    gallery.until_event("no-such-image", "Normal", "Pulling", re.escape(f'Pulling image "{image}"'))
    gallery.until_event("no-such-image", "Warning", "Failed", pull + r"\S.*")
    gallery.until_event("no-such-image", "Warning", "Failed", "Error: ErrImagePull")
    gallery.until_event("no-such-image", "Normal", "BackOff", re.escape(backing))
    gallery.until_event("no-such-image", "Warning", "Failed", "Error: ImagePullBackOff")
    assert phases(gallery.history("no-such-image")) == {"Pending"}


def test_run_as_nonroot(gallery: Gallery) -> None:
    name = "run-as-nonroot"
    pod = gallery.until(
        name, lambda pod: waiting(pod, "app").get("reason") == "CreateContainerConfigError",
        "CreateContainerConfigError",
    )  # fmt: skip
    why = (
        "container has runAsNonRoot and image will run as root"
        f' (pod: "{reference(pod)}", container: app)'
    )
    assert waiting(pod, "app")["message"] == why
    gallery.until_event(name, "Warning", "Failed", re.escape(f"Error: {why}"))
    assert phases(gallery.history(name)) == {"Pending"}
    assert not [found for found in gallery.containers() if found.startswith(f"k8s_app_{name}-")]


def test_a_pod_that_does_not_fit(gallery: Gallery) -> None:
    pod = gallery.until("too-big", lambda pod: pod["status"].get("phase") == "Failed", "Failed")
    status = pod["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    found = re.fullmatch(
        re.escape(f"Pod was rejected: {CANNOT_FREE}") + r" q: (\d+)\), \]", status["message"]
    )
    assert found, status["message"]
    node = get_json(gallery.socket, f"/api/v1/nodes/{NODE}")
    requested, room = 64 * 2**40, kibibytes(node["status"]["allocatable"]["memory"])
    assert requested - room <= int(found[1]) < requested, (
        "what it lacks is what it asks less what is free"
    )
    assert "memory" in pod["metadata"]["annotations"][LACKS]
    gallery.until_event(
        "too-big", "Warning", "UnexpectedAdmissionError", re.escape(CANNOT_FREE) + r" q: \d+\), \]"
    )
    assert not [found for found in gallery.containers() if "_too-big-" in found]


def kibibytes(quantity: str) -> int:
    """Format a node's memory as kubelets do."""
    found = re.fullmatch(r"(\d+)(Ki)?", quantity)
    assert found, quantity
    return int(found[1]) * (1024 if found[2] else 1)


def test_unknown_field(gallery: Gallery) -> None:
    def record() -> Json:
        items = get_json(gallery.socket, "/apis/podtui.dev/v1alpha1/manifests")["items"]
        return next((i for i in items if i["metadata"]["name"] == "unknown-field.yaml"), {})

    wait_until(record, "the manifest has a record")
    status = record()["status"]
    lines = (GALLERY / "unknown-field.yaml").read_text().splitlines()
    moved = next(n for n, line in enumerate(lines, 1) if line.startswith("  restartPolicy:"))
    spelt = next(n for n, line in enumerate(lines, 1) if line.startswith("      workdir:"))
    assert status["state"] == "Invalid"
    assert status["message"].startswith(f"line {moved}: unknown field")
    keys = ("severity", "path", "line", "column", "field", "message", "fix")
    path = str(gallery.machine.folder / "unknown-field.yaml")
    assert [tuple(found[key] for key in keys) for found in status["diagnostics"]] == [
        (
            "Error", path, moved, 3, "metadata.restartPolicy",
            'unknown field "restartPolicy"; it belongs at spec.restartPolicy',
            "move it to spec.restartPolicy",
        ),
        (
            "Error", path, spelt, 7, "spec.containers[0].workdir",
            'unknown field "workdir"', 'did you mean "workingDir"?',
        ),
    ]  # fmt: skip


def test_oom(gallery: Gallery) -> None:
    pod = gallery.until(
        "oom", lambda pod: ended(pod, "hungry").get("reason") == "OOMKilled", "OOMKilled"
    )
    assert ended(pod, "hungry")["exitCode"] == 137
    gallery.until(
        "oom", lambda pod: waiting(pod, "hungry").get("reason") == "CrashLoopBackOff",
        "CrashLoopBackOff",
    )  # fmt: skip
    assert phases(gallery.history("oom")) == {"Pending", "Running"}
    assert "filling memory" in gallery.log("oom", "hungry", "&previous=true")


def test_init_fails(gallery: Gallery) -> None:
    pod = gallery.until(
        "init-fails", lambda pod: waiting(pod, "migrate").get("reason") == "CrashLoopBackOff",
        "CrashLoopBackOff",
    )  # fmt: skip
    assert condition(pod, "Initialized") == "False"
    assert ended(pod, "migrate")["exitCode"] == 1
    versions = gallery.history("init-fails")
    assert phases(versions) == {"Pending"}
    assert not any(status_of(one, "app").get("containerID") for one in versions)
    assert waiting(pod, "app")["reason"] == "PodInitializing"
    assert "Init:CrashLoopBackOff" in gallery.machine.run("status").stdout


def test_crash_loop(gallery: Gallery) -> None:
    name = "crash-loop"
    pod = gallery.until(
        name, lambda pod: waiting(pod, "app").get("reason") == "CrashLoopBackOff",
        "CrashLoopBackOff",
    )  # fmt: skip
    message = f"back-off 10s restarting failed container=app pod={reference(pod)}"
    assert waiting(pod, "app")["message"] == message
    assert status_of(pod, "app")["restartCount"] >= 1, "the first restart is at once"
    last = ended(pod, "app")
    assert (last["reason"], last["exitCode"]) == ("Error", 1)
    message = f"Back-off restarting failed container app in pod {reference(pod)}"
    gallery.until_event(name, "Warning", "BackOff", re.escape(message))
    assert gallery.log(name, "app", "&previous=true") == ["starting", "cannot open /etc/app.conf"]
    # The second restart does not come before the back-off ends.
    again = gallery.until(
        name,
        lambda pod: (
            status_of(pod, "app").get("restartCount") == 2
            and status_of(pod, "app")["state"].get("running")
        ),
        "the second restart",
    )
    started = when(status_of(again, "app")["state"]["running"]["startedAt"])
    assert (started - when(last["finishedAt"])).total_seconds() >= 10
    assert phases(gallery.history(name)) == {"Pending", "Running"}


# --- all of them together; these change state and must be last


def test_invalid_manifests_do_not_affect_others(gallery: Gallery) -> None:
    gallery.until("oom", lambda pod: status_of(pod, "hungry").get("restartCount", 0) >= 2, "again")
    static = {name for name, pod in gallery.pods().items() if is_mirror(pod)}
    assert static == {
        path.stem for path in gallery.machine.folder.glob("*.yaml")
    } - {"application", "unknown-field"}  # fmt: skip
    assert not gallery.history("unknown-field")
    for name in GOOD:
        versions = gallery.history(name)
        assert condition(versions[-1], "Ready") == "True"
        first = next(n for n, pod in enumerate(versions) if condition(pod, "Ready") == "True")
        assert all(condition(pod, "Ready") == "True" for pod in versions[first:])
        for spec in (versions[-1]["spec"].get("initContainers") or []) + (
            versions[-1]["spec"]["containers"]
        ):
            seen = [status_of(pod, spec["name"]) for pod in versions]
            assert {one["restartCount"] for one in seen if one} == {0}
            assert len({one["containerID"] for one in seen if one.get("containerID")}) == 1
        assert not {"Killing", "BackOff", "Failed"} & {event[1] for event in gallery.events(name)}


def test_an_edit_replaces_only_its_pod(gallery: Gallery) -> None:
    before = gallery.containers()
    text = (SAMPLES / "counter.yaml").read_text()
    assert "value: tick" in text
    gallery.machine.write("counter.yaml", text.replace("value: tick", "value: tock"))

    gallery.until(
        "counter",
        lambda pod: (
            pod["spec"]["containers"][0]["env"][0]["value"] == "tock"
            and condition(pod, "Ready") == "True"
        ),
        "the new version is ready",
    )
    wait_until(
        lambda: "tock 1" in gallery.log("counter", "count"), "the counter prints the new word"
    )
    steady = [name for name in before if "_web-" in name or "_pipeline-" in name]
    assert len(steady) == 7
    after = gallery.containers()
    assert {name: after.get(name) for name in steady} == {name: before[name] for name in steady}


def test_fixing_a_manifest_starts_its_pod(gallery: Gallery) -> None:
    text = (GALLERY / "unknown-field.yaml").read_text()
    text = text.replace("  restartPolicy: Never\nspec:\n", "spec:\n  restartPolicy: Never\n")
    text = text.replace("      workdir:", "      workingDir:")
    # Its process ignores SIGTERM: avoid half a minute of waiting for its end.
    text = text.replace("spec:\n", "spec:\n  terminationGracePeriodSeconds: 1\n")
    gallery.machine.write("unknown-field.yaml", text)
    pod = gallery.until("unknown-field", lambda pod: condition(pod, "Ready") == "True", "is ready")
    assert pod["spec"]["containers"][0]["workingDir"]


def test_an_emptied_folder_removes_all_pods(gallery: Gallery) -> None:
    for path in gallery.machine.folder.glob("*.yaml"):
        path.unlink()
    wait_until(lambda: not gallery.pods(), "no pod is left")
    wait_until(lambda: not gallery.containers(), "no container is left", 30)
    wait_until(lambda: not gallery.volumes(), "no volume is left", 30)
    assert not gallery.pods()
    assert not gallery.containers()
    assert not gallery.volumes()
