"""An agent on the private engine, with its folder, its API and its objects on the engine."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import docker
import docker.errors
import psutil

from podtui.api import names
from podtui.client.blocking import get_json
from podtui.errors import PodtuiError
from soak.engine import IMAGE, Engine, wait_until

NODE: Final = "soak"
_ANSWER_SECONDS: Final = 120.0
WAIT_SECONDS: Final = 600.0
"""Limit of each wait for a state. It ends early; the limit is long since the machine may be busy.
"""
_POD: Final = f"""\
apiVersion: v1
kind: Pod
metadata:
  name: {{name}}
spec:
  terminationGracePeriodSeconds: 2
  hostNetwork: {{host}}
  containers:
    - name: app
      image: {IMAGE}
      imagePullPolicy: IfNotPresent
      command:
        - sh
        - -c
        - |
          mkdir /www; echo {{name}} > /www/index.html; httpd -p 8080 -h /www
          trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done
      env: [{{{{name: VERSION, value: "{{version}}"}}}}]
"""
_VOLUMES: Final = """\
      volumeMounts:
        - {name: scratch, mountPath: /scratch}
        - {name: fast, mountPath: /fast}
        - {name: about, mountPath: /about}
  volumes:
    - name: scratch
      emptyDir: {}
    - name: fast
      emptyDir: {medium: Memory, sizeLimit: 1Mi}
    - name: about
      downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
"""


def manifest(name: str, version: int) -> str:
    """Return a pod that never ends by itself, and answers with its name on port 8080. Every third
    one has volumes, and one whose name begins with ``host`` has the host's network."""
    host = str(name.startswith("host")).lower()
    text = _POD.format(name=name, version=version, host=host)
    return text + _VOLUMES if name[-1] in "0369" else text


@dataclass(frozen=True, slots=True)
class Container:
    """One of the engine's containers, by its labels."""

    id: str
    pod: str
    uid: str
    name: str
    state: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that the agent's process uses."""

    memory: int
    descriptors: int
    threads: int


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("podtui", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass(slots=True)
class World:
    """``desired`` maps pod names to the versions in the folder. Manifests are moved into the
    folder; the caller deletes ``base``."""

    base: Path
    engine: Engine
    seed: int
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    command: tuple[str, ...] = (sys.executable, "-m", "podtui", "agent")
    desired: dict[str, int] = field(default_factory=dict[str, int])
    version: int = 0
    process: subprocess.Popen[bytes] | None = None
    expired: bool = False
    """The time limit of the fault is over."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.root.mkdir()

    @property
    def folder(self) -> Path:
        return self.base / "static_pods"

    @property
    def root(self) -> Path:
        return self.base / "root"

    @property
    def log(self) -> Path:
        return self.base / "agent.log"

    @property
    def label(self) -> str:
        return f"{names.ROOT_LABEL}={names.root_key(str(self.root))}"

    def chance(self, part: str) -> random.Random:
        """Return a random generator for one part; the same seed gives the same decisions."""
        return random.Random(f"{self.seed} {part}")

    # --- the agent

    def start(self) -> None:
        """Start the agent without waiting for it to answer."""
        environment = {
            **os.environ,
            "PODTUI_ROOT_DIR": str(self.root),
            "PODTUI_STATIC_POD_PATH": str(self.folder),
            "PODTUI_NODE_NAME": NODE,
            "PODTUI_ENGINE": self.engine.url,
            "PODTUI_MAX_PODS": "500",
            # Use the shortest back-off: longer waits would only extend the run.
            "PODTUI_MAX_CONTAINER_RESTART_PERIOD": "1s",
            # Other users of the disk and the memory must not cause evictions or collections.
            "PODTUI_EVICTION_HARD": "memory.available=1Mi,nodefs.available=0%,nodefs.inodesFree=0%"
            ",imagefs.available=0%,imagefs.inodesFree=0%",
            "PODTUI_IMAGE_GC_HIGH_THRESHOLD_PERCENT": "100",
            "XDG_CONFIG_HOME": str(self.base),
            "XDG_STATE_HOME": str(self.base),
            **self.settings,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """Stop the agent; return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def usage(self) -> Usage:
        assert self.process is not None
        one = psutil.Process(self.process.pid)
        return Usage(one.memory_info().rss, one.num_fds(), one.num_threads())

    # --- the folder

    def put(self, name: str) -> None:
        """Create or change a pod: each version has its own UID."""
        self.version += 1
        self.desired[name] = self.version
        self.write(f"{name}.yaml", manifest(name, self.version))

    def write(self, name: str, text: str) -> None:
        hidden = self.folder / f".{name}"
        hidden.write_text(text)
        hidden.rename(self.folder / name)

    def delete(self, name: str) -> None:
        del self.desired[name]
        (self.folder / f"{name}.yaml").unlink()

    def edit(self, chance: random.Random, pool: int, changes: int) -> None:
        """Change some of ``pool`` pods: create, edit or delete."""
        for _ in range(changes):
            name = f"p{chance.randrange(pool)}"
            if name in self.desired and chance.random() < 0.35:
                self.delete(name)
            else:
                self.put(name)

    # --- its API

    def get(self, path: str) -> Any:
        """Return the decoded response. Raises OSError if there is none."""
        try:
            return get_json(self.root / "podtui.sock", path, timeout=10)
        except PodtuiError as error:
            raise OSError(f"{path}: {error}") from error

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """Return a connection that is opened by its first request."""
        return _UnixConnection(self.root / "podtui.sock", timeout)

    def send(
        self, method: str, path: str, body: object = None, media: str = "application/json"
    ) -> None:
        """Send a request, again and again while no agent answers. Raises OSError if the answer is
        an error other than 409, which a repeated request may get."""
        problem = ""

        def answered() -> bool:
            nonlocal problem
            with (
                closing(self.connect(_ANSWER_SECONDS)) as connection,
                suppress(OSError, HTTPException),
            ):
                data = None if body is None else json.dumps(body)
                connection.request(method, path, data, {"Content-Type": media})
                response = connection.getresponse()
                text = response.read().decode(errors="replace")
                problem = text if response.status >= 400 and response.status != 409 else ""
                return True
            return False

        self.wait(answered, f"an answer to {method} {path}", _ANSWER_SECONDS)
        if problem:
            raise OSError(f"{method} {path}: {problem}")

    def pods(self) -> dict[str, dict[str, Any]]:
        """Pod records by the name in their manifest."""
        items = self.get("/api/v1/pods")["items"]
        return {item["metadata"]["name"].removesuffix(f"-{NODE}"): item for item in items}

    def node_condition(self) -> tuple[str, str]:
        """Return (status, message) of the node's Ready condition; empty if the agent does not
        answer."""
        try:
            node = self.get(f"/api/v1/nodes/{NODE}")
        except OSError:
            return "", ""
        for condition in node["status"].get("conditions", []):
            if condition["type"] == "Ready":
                return condition["status"], condition.get("message", "")
        return "", ""

    def events_on_disk(self) -> frozenset[str]:
        """Return the UIDs of the events in records.db; none if it is busy."""
        path = self.root / "records.db"
        with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=1)) as records:
            rows = records.execute("SELECT data FROM records WHERE resource = 'events'")
            return frozenset(json.loads(data)["metadata"]["uid"] for (data,) in rows)
        return frozenset()

    # --- the engine

    def containers(self) -> list[Container]:
        """Return containers and sandboxes, including dead ones. The holders of volumes in memory
        are left out: the engine does not remove a volume while its holder exists."""
        found: list[Container] = []
        for entry in self.engine.containers(self.label):
            labels = entry["Labels"]
            if names.CONTAINER_NAME not in labels:
                continue
            found.append(
                Container(
                    id=entry["Id"],
                    pod=labels.get(names.POD_NAME, "").removesuffix(f"-{NODE}"),
                    uid=labels.get(names.POD_UID, ""),
                    name=labels.get(names.CONTAINER_NAME, ""),
                    state=entry["State"],
                    attempt=int(entry["Names"][0].rpartition("_")[2]),
                )
            )
        return found

    @contextmanager
    def starts(self) -> Generator[Counter[tuple[str, str]]]:
        """Count the starts of each app container by pod UID and name during the block.

        The engine counts them, independently of podtui. The count ends with the engine.
        """
        seen = Counter[tuple[str, str]]()
        # The stub of the SDK omits None, which is no timeout.
        client = docker.APIClient(
            base_url=self.engine.url, version="1.41", timeout=None  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
        # Start one second earlier: the stream opens shortly after the block has begun.
        stream = client.events(
            decode=True, since=int(time.time()),
            filters={"label": self.label, "type": "container", "event": "start"},
        )  # fmt: skip

        def read() -> None:
            with suppress(docker.errors.DockerException, OSError, ValueError):
                for event in stream:
                    labels = event["Actor"]["Attributes"]
                    # Containers that keep volumes in memory have no name.
                    name = labels.get(names.CONTAINER_NAME, names.SANDBOX_CONTAINER_NAME)
                    if name != names.SANDBOX_CONTAINER_NAME:
                        seen[labels[names.POD_UID], name] += 1

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield seen
        finally:
            time.sleep(0.2)
            with suppress(OSError):
                stream.close()
            reader.join(5)
            client.close()

    def wait(self, condition: Any, what: str, timeout: float = WAIT_SECONDS) -> None:
        wait_until(condition, what, timeout)
