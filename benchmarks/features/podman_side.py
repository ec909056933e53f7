"""``podman kube play``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.features.side import Facts, Seen

_STATES = {"running": "running", "exited": "exited", "stopped": "exited"}


class PodmanSide:
    """Manifests are kept in ``folder``; ``environment`` is required by podman here."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._said: dict[str, str] = {}

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # The monitor leaves a file in the working directory if a container is OOM-killed.
        return subprocess.run(
            ["podman", *arguments], cwd=self._folder,
            env=self._environment, capture_output=True, text=True, check=False, timeout=90,
        )  # fmt: skip

    def play(self, name: str, manifest: str) -> None:
        path = self._folder / f"{name}.yaml"
        path.write_text(manifest)
        try:
            done = self._run("kube", "play", str(path))
        except subprocess.TimeoutExpired:
            self._said[name] = "podman kube play did not end within 90 s"
            return
        self._said[name] = done.stderr

    def facts(self, name: str) -> Facts:
        found = self._run("ps", "-a", "--filter", f"pod={name}", "--format", "json")
        listed = json.loads(found.stdout or "[]") if found.returncode == 0 else []
        containers: dict[str, Seen] = {}
        for one in listed:
            full = one["Names"][0]
            if one.get("IsInfra") or not full.startswith(f"{name}-"):
                continue
            inspected: list[dict[str, Any]] = json.loads(self._run("inspect", full).stdout or "[]")
            if not inspected:
                continue
            state = inspected[0]["State"]
            containers[full.removeprefix(f"{name}-")] = Seen(
                state=_STATES.get(state["Status"], "waiting"),
                exit_code=state["ExitCode"] if state["Status"] in ("exited", "stopped") else None,
                restarts=inspected[0].get("RestartCount", 0),
                message=state.get("Error", ""),
            )
        pod = self._run("pod", "inspect", name)
        phase = json.loads(pod.stdout).get("State", "") if pod.returncode == 0 else ""
        return Facts(containers, phase, self._said.get(name, ""))

    def log(self, name: str, container: str) -> str:
        done = self._run("logs", f"{name}-{container}")
        return done.stdout + done.stderr

    def remove(self, name: str) -> None:
        self._run("kube", "down", "--force", str(self._folder / f"{name}.yaml"))
        self._run("pod", "rm", "-f", "-t", "0", name)
