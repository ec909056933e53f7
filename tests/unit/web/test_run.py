"""``podtui web`` from the command line to the link it prints."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from podtui import cli
from podtui.web.run import LINK_FILE, OPEN_FILE, WebFailed, WebOptions, listener, serve


def options(folder: Path, **changes: object) -> WebOptions:
    given: dict[str, object] = {
        "host": "127.0.0.1", "port": 0, "folder": folder, "arguments": [], **changes,
    }  # fmt: skip
    return WebOptions(**given)  # type: ignore[arg-type]


async def serve_and_stop(
    web_options: WebOptions,
    environ: dict[str, str],
    number: int = signal.SIGTERM,
    running: Callable[[], object] = lambda: None,
) -> tuple[list[str], dict[str, int]]:
    """Return the output, and the files with their modes while it ran; ``number`` is the signal.
    ``running`` is called while it runs.
    """
    lines: list[str] = []
    files: dict[str, int] = {}
    words = 3 if web_options.open_browser else 2

    def say(line: str) -> None:
        lines.append(line)
        if len(lines) == words:
            files.update(
                {it.name: it.lstat().st_mode & 0o777 for it in web_options.folder.iterdir()}
            )
            running()
            os.kill(os.getpid(), number)

    async with asyncio.timeout(120):
        await serve(web_options, say, environ)
    return lines, files


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_the_link_is_printed_and_stored_privately(tmp_path: Path, number: int) -> None:
    lines, files = await serve_and_stop(options(tmp_path / "root"), {}, number)
    assert lines[0].startswith("http://127.0.0.1:")
    assert files == {LINK_FILE: 0o600}
    assert not (tmp_path / "root" / LINK_FILE).exists()


async def test_no_response_names_the_software_of_the_server(tmp_path: Path) -> None:
    """Neither those of the page nor those of the HTTP parser."""
    answers: list[bytes] = []

    async def ask(port: int, request: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answers.append(await reader.read())
        writer.close()

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        lines: list[str] = []
        serving = group.create_task(serve(options(tmp_path), lines.append, {}))
        while len(lines) < 2:  # noqa: ASYNC110 - nothing else tells when it listens
            await asyncio.sleep(0.01)
        port = int(lines[0].removeprefix("http://127.0.0.1:").partition("/")[0])
        for request in (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"\xff\r\n\r\n"):
            await ask(port, request)
        serving.cancel()
    assert [answer.split(b" ")[1] for answer in answers] == [b"403", b"400"]
    assert not [answer for answer in answers if b"server:" in answer.lower()]


async def test_each_run_has_its_own_token(tmp_path: Path) -> None:
    runs = [await serve_and_stop(options(tmp_path), {}) for _ in range(2)]
    assert len({lines[0].partition("=")[2] for lines, _ in runs}) == 2


async def test_a_link_file_of_another_server_is_left_alone(tmp_path: Path) -> None:
    link = tmp_path / LINK_FILE
    await serve_and_stop(options(tmp_path), {}, running=lambda: link.write_text("theirs"))
    assert link.read_text() == "theirs"


async def test_a_link_file_never_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / LINK_FILE).symlink_to(tmp_path / "precious")
    _, files = await serve_and_stop(options(tmp_path), {})
    assert files[LINK_FILE] == 0o600
    assert (tmp_path / "precious").read_text() == "precious"


async def test_a_port_in_use_names_its_owner(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(WebFailed, match=f"port {port} is in use by process {os.getpid()} "):
            await serve(options(tmp_path, port=port), print, {})
        assert not (tmp_path / LINK_FILE).exists()
        assert str(os.getpid()) in listener(port)


async def test_a_browser_is_opened_with_a_file_not_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Command lines are readable by every user of the machine."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda link: opened.append(link) or True)
    lines, files = await serve_and_stop(options(tmp_path, open_browser=True), {"DISPLAY": ":0"})
    assert opened == [(tmp_path / OPEN_FILE).as_uri()]
    assert "token" not in opened[0]
    assert files[OPEN_FILE] == 0o600
    assert not (tmp_path / OPEN_FILE).exists()
    assert lines[-1] == "A browser was opened."


async def test_without_a_desktop_no_browser_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("webbrowser.open", lambda link: pytest.fail("opened"))
    lines, _ = await serve_and_stop(options(tmp_path, open_browser=True), {"TERM": "xterm"})
    assert "open the link yourself" in lines[-1]


def test_each_tab_gets_the_options_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[WebOptions] = []
    monkeypatch.setattr("podtui.cli.web.run_web", lambda options, say: runs.append(options))
    root, folder = tmp_path / "root", tmp_path / "pods"
    folder.mkdir()
    words = ["--root-dir", str(root), "web", "--engine", "memory", "--theme", "podtui-light"]
    assert cli.main([*words, "--readonly", "--port", "0", "--node-name", "n1", str(folder)]) == 0
    (found,) = runs
    assert (found.host, found.port, found.folder) == ("127.0.0.1", 0, root)
    assert found.readonly
    assert found.title == "podtui n1"
    assert {
        f"--root-dir={root}", f"--static-pod-path={folder}", "--engine=memory",
        "--node-name=n1", "--theme=podtui-light", "--readonly",
    } <= set(found.arguments)  # fmt: skip
    # podtui accepts these arguments, and parses them to the same options.
    again = cli.build_parser().parse_args(list(found.arguments))
    assert (again.theme, again.readOnly, again.engine) == ("podtui-light", "true", "memory")


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: c, user: u}}
- {name: two, context: {cluster: c, user: u}}
clusters:
- {name: c, cluster: {server: "https://127.0.0.1:1"}}
users:
- {name: u, user: {token: secret-token}}
"""


def test_each_tab_uses_the_context_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[WebOptions] = []
    monkeypatch.setattr("podtui.cli.web.run_web", lambda options, say: runs.append(options))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").write_text(KUBECONFIG)
    words = ["--root-dir", str(tmp_path / "root"), "web", "--kubeconfig", "config"]
    assert cli.main([*words, "--context", "two", "-n", "x"]) == 0
    (found,) = runs
    assert found.title == "podtui two"
    assert {"--context=two", f"--kubeconfig={tmp_path}/config", "--namespace=x"} <= set(
        found.arguments
    )
    assert "secret-token" not in str(found)
    assert "agent" not in capsys.readouterr().out
    # Errors are reported before the server starts.
    assert cli.main([*words, "--context", "three"]) != 0
    assert "three" in capsys.readouterr().err
    assert len(runs) == 1


@pytest.mark.parametrize("port", ["x", "-1", "65536", "1.5", ""])
def test_a_bad_port_is_a_usage_error(port: str) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["web", f"--port={port}"])
    assert ended.value.code == 2


def test_access_from_other_machines_is_not_supported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--root-dir", str(tmp_path), "web", "--host", "0.0.0.0"]) == 2
    assert "ssh -L" in capsys.readouterr().err
