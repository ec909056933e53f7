"""A session of kubectl on the real engine, compared with the same session on a real cluster.

``kubectl_session.jsonl`` has the commands in their order, with exit code, output and error text on
Kubernetes v1.36.2. Everything must agree except ids, times, addresses and messages of the container
runtime. `DIFFERENT` names the commands whose text differs, each with its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

import pytest
from kubectl_agent import KubectlAgent, kubectl_agent

HEAD, *SESSION = [
    json.loads(line)
    for line in Path(__file__).with_name("kubectl_session.jsonl").read_text().splitlines()
]
SOLO: Final[str] = HEAD["manifest solo.yaml"]
NAMED: Final = "name: simple-sample-pod"
FILES: Final = {
    "solo.yaml": SOLO,
    "solo2.yaml": SOLO.replace("tier: one", "tier: two"),
    "bad.yaml": SOLO.replace("hellothefirstk8spod", "changed"),
    "inv.yaml": SOLO.replace(NAMED, "name: Bad_Name").replace(
        "restartPolicy: Never", "restartPolicy: Sometimes"
    ),
    "unk.yaml": SOLO + "  nosuch: 1\n",
    "big.yaml": SOLO.replace(NAMED, "name: big").replace("cpu: 20m", 'cpu: "900"'),
    "c.yaml": SOLO.replace(NAMED, "name: late"),
    "sel.yaml": SOLO.replace(NAMED, "name: sel") + "  nodeSelector: {no: such}\n",
    "env.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: envpod}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: docker.io/library/busybox:1.36
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "echo $a $c"]
    envFrom: [{configMapRef: {name: cm}}, {secretRef: {name: sec}}]
""",
    "f.txt": "hello\n",
}
IMAGE: Final = ("--image=docker.io/library/busybox:1.36", "--image-pull-policy=IfNotPresent")
BEFORE: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "delete two": (("create", "-f", "sel.yaml"),),
    "env pod": (("create", "secret", "generic", "sec", "--from-literal=c=d"),),
    "crash get": (("run", "crash", *IMAGE, "--", "sh", "-c", "exit 3"),),
    "nodes cordoned": (
        ("delete", "pod", "crash", "envpod", "--grace-period=1"),
        ("cordon", "refnode"),
    ),
    "cordoned describe": (("create", "-f", "c.yaml"),),
    "drain": (
        ("uncordon", "refnode"),
        ("wait", "--for=condition=Ready", "pod/late", "--timeout=120s"),
    ),
}
"""Commands of the set-up that the recording does not contain, by the command that follows."""
DIFFERENT: Final = {
    "exec missing": "the words of the container runtime",
    "explain": "the descriptions are podtui's own",
    "apply immutable": "the difference is that of Go's structs, with their internal field names",
}
_RULES: Final = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} [\d:]+ [+-]\d{4}", "TIME"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r"\d+\.\d+\.\d+\.\d+", "ADDRESS"),
        (r"(containerd|docker)://\w+", "ID"),
        (r"(docker\.io/library/\S+@)?sha256:\w+", "ID"),
        (r"(?<=[\w/])busybox@ID", "ID"),
        (r"kube-api-access-\w{5}", "kube-api-access-X"),
        (r"resourceVersion: \"\d+\"", "VERSION"),
        (r"\b(\d+[hms])+( \(x\d+ over (\d+[hms])+\))?", "AGE"),
        (r"\(AGE ago\)", "AGE"),
        (r" +", " "),
        (r"-{2,}", "--"),
    )
)
_DROPPED: Final = tuple(
    map(
        re.compile,
        (
            r"MissingClusterDNS",  # repeated at random moments
            r"Unhealthy .*connection refused",  # a probe before the program listens: a busy machine
            r"service-ca\.crt",  # a volume source that the recorded server's vendor adds
            r"(ConfigMap)?Optional: ",  # printed in another form by another kubectl
            r"^E\d{4} ",  # kubectl's own log
            r"^\s*- ip: [0-9a-f]*:",  # the second address of a pod on a dual-stack engine
        ),
    )
)
_USER: Final = re.compile(
    r" +user:\n +linux:\n +gid: 0\n +supplementalGroups:\n +- \d+\n +uid: 0\n"
)
"""Reported by the engine, not by the containerd of the recording."""


def normalised(text: str) -> list[str]:
    """Return the lines without the parts that differ in each run."""
    lines: list[str] = []
    for line in _USER.sub("", text).splitlines():
        if any(pattern.search(line) for pattern in _DROPPED):
            continue
        for pattern, put in _RULES:
            line = pattern.sub(put, line)
        lines.append(line.strip())
    return _without_empty_source(lines)


def _without_empty_source(lines: list[str]) -> list[str]:
    """Drop a projected ConfigMap whose names were dropped."""
    text = "\n".join(lines)
    return text.replace("\n- configMap:\nitems:\nstatus:", "\nstatus:").splitlines()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[KubectlAgent]:
    with kubectl_agent(tmp_path, node="refnode", strict=True) as found:
        for name, text in FILES.items():
            (found.work / name).write_text(text)
        editor = found.work / "editor"
        editor.write_text(
            '#!/bin/sh\nsed -i \'s/^  labels:/  labels:\\n    edited: "yes"/\' "$1"\n'
        )
        editor.chmod(0o755)
        yield found


def test_the_session_agrees_with_a_real_cluster(agent: KubectlAgent) -> None:
    problems: list[str] = []
    for step in SESSION:
        for command in BEFORE.get(step["name"], ()):
            agent.out(*command)
        if step["name"] == "crash get":
            agent.until(lambda: "Error 1" in " ".join(agent.out("get", "pod", "crash").split()))
        text = "in\n" if step["name"] == "run rm" else None
        done = agent.run(*step["args"], text=text, KUBE_EDITOR=str(agent.work / "editor"))
        problems += differences(step, done.returncode, done.stdout, done.stderr)
    assert not problems, "\n".join(problems)


def differences(step: dict[str, Any], code: int, out: str, err: str) -> list[str]:
    name = step["name"]
    if code != step["rc"]:
        return [f"{name}: exit code {code}, not {step['rc']}: {err.strip()[:300]}"]
    if name in DIFFERENT:
        return []
    return [
        f"{name}: {line}"
        for expected, actual in ((step["out"], out), (step["err"], err))
        for line in unified_diff(in_order(name, expected), in_order(name, actual), lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]


def in_order(name: str, text: str) -> list[str]:
    """Return the normalised lines; those of ``drain`` come in any order."""
    lines = normalised(text)
    return sorted(lines) if name == "drain" else lines
