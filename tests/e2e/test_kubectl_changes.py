"""The verbs of kubectl that change something, on an agent from an empty root directory.

The transcript ``metadata`` was recorded on Kubernetes v1.36.2.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent
from kubectl_transcript import differences

PODS: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: talker, labels: {app: talk, tier: first}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: one
    image: busybox:1.36
    command: [sh, -c, "httpd -p 127.0.0.1:80 -h /etc; exec sleep 3600"]
  - {name: two, image: "busybox:1.36", command: [sleep, "3600"]}
---
apiVersion: v1
kind: Pod
metadata: {name: shell, labels: {app: shell}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: sh, image: "busybox:1.36", stdin: true, tty: true, command: [sh]}]
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path_factory.mktemp("changes"), node="n1") as found:
        (found.work / "pods.yaml").write_text(PODS)
        (found.work / "changed.yaml").write_text(PODS.replace("tier: first", "tier: second"))
        found.out("apply", "-f", "pods.yaml")
        found.out("wait", "--for=condition=Ready", "pod/talker", "pod/shell", "--timeout=120s")
        yield found


# The order matters: `test_metadata` restarts a container, and `test_lifecycle` deletes the pods.


def test_files_are_copied_both_ways(agent: KubectlAgent) -> None:
    given = agent.work / "given"
    (given / "inner").mkdir(parents=True)
    content = os.urandom(2_000_000)
    (given / "large").write_bytes(content)
    (given / "inner" / "small").write_text("small\n")
    assert agent.out("cp", "given", "talker:/tmp/taken", "-c", "two") == ""
    listed = agent.out("exec", "talker", "-c", "two", "--", "find", "/tmp/taken", "-type", "f")
    assert sorted(listed.split()) == ["/tmp/taken/inner/small", "/tmp/taken/large"]
    agent.out("cp", "talker:/tmp/taken", "back", "-c", "two")
    assert (agent.work / "back" / "large").read_bytes() == content
    assert (agent.work / "back" / "inner" / "small").read_text() == "small\n"
    archive = subprocess.run(["tar", "cf", "-", "given"], cwd=agent.work, capture_output=True)
    unpack = ["exec", "-i", "talker", "-c", "two", "--", "tar", "xf", "-", "-C", "/root"]
    agent.send(archive.stdout, *unpack)
    read = ("exec", "talker", "-c", "two", "--", "cat", "/root/given/inner/small")
    assert agent.out(*read) == "small\n"


def test_port_forward_under_load(agent: KubectlAgent) -> None:
    """Forty connections, eight at a time, each with 4 MiB."""
    make = "head -c 4194304 /dev/urandom > /etc/much; md5sum < /etc/much"
    checksum = agent.out("exec", "talker", "-c", "one", "--", "sh", "-c", make).split()[0]
    with agent.start("port-forward", "pod/talker", ":80") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.split(" -> ")[0].rpartition(":")[2])
        assert line == f"Forwarding from 127.0.0.1:{port} -> 80\n"

        def fetch(_: int) -> str:
            with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
                connection.sendall(b"GET /much HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            body = answer.partition(b"\r\n\r\n")[2]
            return hashlib.md5(body, usedforsecurity=False).hexdigest()

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(fetch, range(40))) == {checksum}


def at_a_terminal(agent: KubectlAgent, typed: bytes, *arguments: str) -> tuple[int, str]:
    """Run kubectl at a terminal, where ``typed`` is typed; return its exit code and the screen."""
    controller, terminal = os.openpty()
    shown = bytearray()

    def read() -> None:
        with suppress(OSError):
            while data := os.read(controller, 65536):
                shown.extend(data)

    with agent.start(*arguments, terminal=terminal) as process:
        os.close(terminal)
        reader = threading.Thread(target=read)
        reader.start()
        os.write(controller, typed)
        code = process.wait(120)
        reader.join(120)
    os.close(controller)
    return code, shown.decode().replace("\r\n", "\n")


def test_run_and_attach_at_a_terminal(agent: KubectlAgent) -> None:
    command = ("sh", "-c", "tty; read line; echo got $line; exit 3")
    flags = ("--image=busybox:1.36", "--restart=Never", "--command")
    code, shown = at_a_terminal(
        agent, b"word\n", "run", "-it", "--rm", "asks", *flags, "--", *command
    )
    assert code == 3
    assert "got word\n" in shown
    assert 'pod "asks" deleted\n' in shown
    assert "pod default/asks terminated (Error)\n" in shown
    assert agent.run("get", "pod", "asks").returncode == 1

    code, shown = at_a_terminal(agent, b"echo $((40 + 2)); exit\n", "attach", "-it", "shell")
    assert code == 0
    assert "If you don't see a command prompt, try pressing enter.\n" in shown
    assert "\n42\n" in shown


def test_attach_and_exec_pass_input_on(agent: KubectlAgent) -> None:
    flags = ("--image=busybox:1.36", "--restart=Never", "--command")
    done = agent.run("run", "-i", "--rm", "-q", "cat", *flags, "--", "cat", text="some\ninput\n")
    assert (done.returncode, done.stdout) == (0, "some\ninput\n")
    done = agent.run(
        "exec", "talker", "-c", "two", "--", "sh", "-c", "echo out; echo err >&2; exit 7"
    )
    assert done.returncode == 7
    assert done.stdout == "out\n"
    assert done.stderr == "err\ncommand terminated with exit code 7\n"


def test_metadata(agent: KubectlAgent) -> None:
    changes = differences(agent, "metadata", editor="sed -i s/first/edited/")
    assert not changes, changes


def test_lifecycle(agent: KubectlAgent) -> None:
    changes = differences(agent, "lifecycle")
    assert not changes, changes


def owned(agent: KubectlAgent, owner: str, name: str) -> None:
    """Create a ConfigMap that another one owns."""
    agent.out("create", "configmap", name)
    uid = agent.out("get", "configmap", owner, "-o", "jsonpath={.metadata.uid}")
    references = [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid,
        "blockOwnerDeletion": True,
    }]  # fmt: skip
    patch = json.dumps({"metadata": {"ownerReferences": references}})
    agent.out("patch", "configmap", name, "--type=merge", "-p", patch)


@pytest.mark.parametrize(
    ("cascade", "kept"), [("background", False), ("foreground", False), ("orphan", True)]
)
def test_deletion_of_dependents(agent: KubectlAgent, cascade: str, kept: bool) -> None:
    owner, dependent = f"owner-{cascade}", f"dependent-{cascade}"
    agent.out("create", "configmap", owner)
    owned(agent, owner, dependent)
    deleted = agent.out("delete", "configmap", owner, f"--cascade={cascade}")
    assert deleted == f'configmap "{owner}" deleted\n'
    if kept:
        text = agent.out("get", "configmap", dependent, "-o", "jsonpath={.metadata}")
        assert "ownerReferences" not in json.loads(text)
    else:
        agent.out("wait", "--for=delete", f"configmap/{dependent}", "--timeout=120s")
