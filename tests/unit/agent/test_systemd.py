"""``podtui service``: the text of the unit, and its handling by systemd."""

from __future__ import annotations

import codecs
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podtui.agent.lock import AgentLock, AgentRecord
from podtui.agent.systemd import (
    ServiceFailed,
    SystemdManager,
    default_folder,
    install,
    is_edited,
    remove,
    unit_text,
)
from podtui.cli import main
from podtui.resources import typed_program
from podtui.settings import Resolved, resolve

PROGRAM = ("/opt/podtui/bin/podtui",)


def settled(base: Path, *, config: str = "", **environ: str) -> Resolved:
    env = {"HOME": str(base), **environ}
    path = base / "podtui.yaml"
    path.write_text(config)
    flags = {"rootDir": str(base / "root"), "staticPodPath": str(base / "pods")}
    return resolve(flags, env, config=path if config else None, working=base)


def unit(resolved: Resolved, environ: Mapping[str, str] | None = None, **kw: bool) -> list[str]:
    return unit_text(resolved, PROGRAM, environ or {}, system=kw.get("system", True)).splitlines()


def words_of(line: str) -> list[str]:
    """Split a command line as `systemd.service(5)` defines it."""
    found: list[str] = []
    for quoted, plain in re.findall(r'"((?:\\.|[^"\\])*)"|(\S+)', line):
        text = codecs.escape_decode((quoted or plain).encode())[0].decode()
        single = [re.fullmatch(r"[%$]", mark) for mark in re.findall(r"%%|\$\$|[%$]", text)]
        assert not any(single), f"systemd would expand this: {text!r}"
        found.append(text.replace("%%", "%").replace("$$", "$"))
    return found


# --- the text


def test_the_unit_has_the_effective_settings(tmp_path: Path) -> None:
    lines = unit(settled(tmp_path, config="engine: unix:///run/podman/podman.sock\nnodeName: n7\n"))
    (command,) = (line for line in lines if line.startswith("ExecStart="))
    assert command.removeprefix("ExecStart=").split(" ") == [
        *PROGRAM,
        "agent",
        f"--root-dir={tmp_path}/root",
        f"--static-pod-path={tmp_path}/pods",
        "--engine=unix:///run/podman/podman.sock",
        "--node-name=n7",
        "--api-address=127.0.0.1",
        "--api-port=0",
        f"--config={tmp_path}/podtui.yaml",
    ]
    assert "After=docker.service network-online.target" in lines
    assert lines[-1] == "WantedBy=multi-user.target"


def test_default_settings_are_left_out_of_the_unit(tmp_path: Path) -> None:
    text = "\n".join(unit(settled(tmp_path)))
    assert "--node-name" not in text
    assert "--config" not in text


def test_a_user_unit_does_not_depend_on_system_units(tmp_path: Path) -> None:
    lines = unit(settled(tmp_path), system=False)
    assert not [line for line in lines if line.startswith(("After=", "Wants="))]
    assert lines[-1] == "WantedBy=default.target"


def test_only_relevant_variables_are_in_the_unit(tmp_path: Path) -> None:
    environ = {
        "PODTUI_MAX_PODS": "7",
        "PODTUI_THEME": "light",
        "PODTUI_ROOT_DIR": "/elsewhere",
        "DOCKER_HOST": "tcp://box:2375",
        "LANG": "C",
    }
    lines = unit(settled(tmp_path, **environ), environ)
    assert [line for line in lines if line.startswith("Environment=")] == [
        "Environment=PODTUI_MAX_PODS=7",
        "Environment=DOCKER_HOST=tcp://box:2375",
    ]


def test_the_stop_timeout_exceeds_the_grace_periods(tmp_path: Path) -> None:
    assert "TimeoutStopSec=90" in unit(settled(tmp_path))
    whole = "shutdownGracePeriod: 5m\nshutdownGracePeriodCriticalPods: 1m\n"
    assert "TimeoutStopSec=330" in unit(settled(tmp_path, config=whole))
    steps = "{priority: %d, shutdownGracePeriodSeconds: %d}"
    both = f"shutdownGracePeriodByPodPriority: [{steps % (0, 100)}, {steps % (9, 50)}]\n"
    assert "TimeoutStopSec=180" in unit(settled(tmp_path, config=both))


@example(name='50% of "$HOME"')
@example(name="two\nlines \\ and a tab\t")
# No system provides names with lone surrogates.
@given(
    name=st.text(
        st.characters(exclude_characters="/\x00", exclude_categories=("Cs",)), min_size=1
    ).filter(str.strip)
)
def test_any_path_is_quoted_correctly(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    resolved = resolve({"rootDir": f"/r/{name}", "staticPodPath": "/p"}, {}, working=base)
    lines = unit_text(resolved, PROGRAM, {}, system=True).split("\n")
    command = next(line for line in lines if line.startswith("ExecStart="))
    words = words_of(command.removeprefix("ExecStart="))
    assert f"--root-dir={resolved.settings.rootDir}" in words
    assert command.isprintable()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("manager", ["--system", "--user"])
def test_systemd_verifies_the_unit(tmp_path: Path, manager: str) -> None:
    base = tmp_path / 'a "b" %n $HOME \\x'
    base.mkdir()
    text = unit_text(
        settled(base), (shutil.which("true") or "",), {}, system=manager == "--system"
    ).replace("docker.service ", "")
    path = tmp_path / "podtui.service"
    path.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", manager, "verify", "--man=no", "--recursive-errors=no", str(path)],
        capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_an_edited_unit_is_detected(tmp_path: Path) -> None:
    text = unit_text(settled(tmp_path), PROGRAM, {}, system=True)
    assert not is_edited(text)
    assert is_edited(text.replace("on-failure", "always"))
    assert is_edited(text.split("\n", 1)[1])


# --- the manager


class Systemd:
    """A ``systemctl`` that records its calls; words in ``refused`` make it fail."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._log, self._refused = base / "calls", base / "refused"
        self._refused.write_text("nothing\n")
        tools = base / "bin"
        tools.mkdir()
        script = tools / "systemctl"
        script.write_text(
            f'#!/bin/sh\necho "$*" >> {self._log}\n'
            f'if echo "$*" | grep -q -f {self._refused}; then echo "no bus" >&2; exit 1; fi\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
        self.booted = base / "booted"
        self.booted.mkdir()
        monkeypatch.setattr("podtui.agent.systemd.BOOTED", self.booted)

    def refuse(self, word: str) -> None:
        self._refused.write_text(word + "\n")

    def new_calls(self) -> list[str]:
        """Return the calls since the last query, except those of ``show``."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return [line for line in lines if "show" not in line]


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    return Systemd(tmp_path, monkeypatch)


@pytest.fixture
def manager(systemd: Systemd, tmp_path: Path) -> SystemdManager:
    return SystemdManager(system=True, folder=tmp_path / "units", booted=systemd.booted)


def test_a_user_installs_and_removes(
    systemd: Systemd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = f"--root-dir={tmp_path}/root"
    path = tmp_path / ".config/systemd/user/podtui.service"

    assert main(["service", "print", "--user", root]) == 0
    printed = capsys.readouterr().out
    assert systemd.new_calls() == []

    assert main(["service", "install", "--user", root]) == 0
    assert path.read_text() == printed
    assert path.stat().st_mode & 0o777 == 0o644
    assert systemd.new_calls() == ["--user daemon-reload", "--user enable --now podtui.service"]
    output = capsys.readouterr().out
    assert f"Wrote: {path}" in output
    assert "loginctl enable-linger" in output
    assert f"To undo it: {typed_program()} service remove --user" in output

    assert main(["service", "remove", "--user"]) == 0
    assert systemd.new_calls() == ["--user disable --now podtui.service", "--user daemon-reload"]
    assert "containers keep running" in capsys.readouterr().out
    assert list(path.parent.iterdir()) == []
    assert main(["service", "remove", "--user"]) == 0
    assert systemd.new_calls() == []
    assert "nothing to remove" in capsys.readouterr().out


def test_a_different_unit_is_overwritten_only_with_force(
    manager: SystemdManager, systemd: Systemd, tmp_path: Path
) -> None:
    resolved = settled(tmp_path)
    text = unit_text(resolved, PROGRAM, {}, system=True)
    install(manager, text, resolved.settings, force=False)
    systemd.new_calls()
    assert install(manager, text, resolved.settings, force=False)[0].startswith("Unchanged")

    mine = text.replace("on-failure", "always")
    manager.unit.write_text(mine)
    systemd.new_calls()
    with pytest.raises(ServiceFailed, match=r"(?s)--force.*-Restart=always.*\+Restart=on-failure"):
        install(manager, text, resolved.settings, force=False)
    with pytest.raises(ServiceFailed, match="--force"):
        remove(manager, force=False)
    assert manager.unit.read_text() == mine
    assert systemd.new_calls() == []

    install(manager, text, resolved.settings, force=True)
    assert manager.unit.read_text() == text
    manager.unit.write_text(mine)
    remove(manager, force=True)
    assert not manager.unit.exists()


def test_install_refuses_if_an_agent_runs(
    manager: SystemdManager, systemd: Systemd, tmp_path: Path
) -> None:
    resolved = settled(tmp_path)
    resolved.settings.rootDir.mkdir()
    lock = AgentLock(resolved.settings.lock_path)
    lock.acquire(
        AgentRecord(
            pid=4711, version="0", nodeName="n1", staticPodPath="/m", engine="auto", started="now"
        )
    )
    lines = install(manager, unit_text(resolved, PROGRAM, {}, system=True), resolved.settings,
                   force=False)  # fmt: skip
    lock.release()
    assert systemd.new_calls() == ["daemon-reload", "enable podtui.service"]
    assert "process 4711" in lines[1]
    assert f"podtui stop --root-dir={tmp_path}/root && systemctl start" in lines[2]


def test_without_systemd_print_works_and_install_fails(
    systemd: Systemd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    systemd.booted.rmdir()
    root = f"--root-dir={tmp_path}/root"
    assert main(["service", "print", "--system", root]) == 0
    assert "ExecStart=" in capsys.readouterr().out
    assert main(["service", "install", "--system", root]) == 1
    assert "this machine does not run systemd; nothing was installed" in capsys.readouterr().err
    assert systemd.new_calls() == []


def test_a_failed_systemd_call_changes_nothing(
    manager: SystemdManager, systemd: Systemd, tmp_path: Path
) -> None:
    resolved = settled(tmp_path)
    text = unit_text(resolved, PROGRAM, {}, system=True)
    systemd.refuse("show")
    with pytest.raises(ServiceFailed, match="no bus"):
        install(manager, text, resolved.settings, force=False)
    assert not manager.folder.exists()

    systemd.refuse("enable")
    with pytest.raises(ServiceFailed, match=r"(?s)no bus.*was written, but is not active.*remove"):
        install(manager, text, resolved.settings, force=False)
    assert manager.unit.exists()

    systemd.refuse("disable")
    with pytest.raises(ServiceFailed, match="no bus"):
        remove(manager, force=False)
    assert manager.unit.exists()


def test_a_folder_of_another_user_is_reported_with_its_owner(
    manager: SystemdManager, tmp_path: Path
) -> None:
    resolved = settled(tmp_path)
    manager.folder.write_text("no folder")
    with pytest.raises(ServiceFailed, match=r"cannot (read|write) .*podtui\.service"):
        install(manager, unit_text(resolved, PROGRAM, {}, system=True), resolved.settings,
                force=False)  # fmt: skip


def test_paths_of_units() -> None:
    assert default_folder({"HOME": "/h"}, system=True) == Path("/etc/systemd/system")
    assert default_folder({"HOME": "/h"}, system=False) == Path("/h/.config/systemd/user")
    assert default_folder({"XDG_CONFIG_HOME": "/x"}, system=False) == Path("/x/systemd/user")


def test_commands_use_the_selected_manager(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["service", "install", "--user", "--system"])
    assert left.value.code == 2
    assert "not allowed with" in capsys.readouterr().err
