"""The features, each with a manifest and a check of its effect."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.features.side import Facts, Side

Check = Callable[[Side, str], bool]
"""Checks once; called repeatedly until it returns True or its timeout expires."""

IMAGE: Final = "busybox:1.36"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """``spec`` is the pod's spec, as YAML indented by two; ``documents`` precede the pod in the
    file. ``NAME`` is replaced by the pod's name.

    ``seconds`` is the timeout of ``check``. With ``holds``, the check must still be true at the
    end: for effects that must *not* occur.
    """

    group: str
    title: str
    spec: str
    check: Check
    documents: str = ""
    metadata: str = ""
    seconds: float = 15.0
    holds: bool = False
    kubelet: bool = True
    """True if a kubelet supports it for a static pod, by its documentation and recordings."""

    def manifest(self, name: str) -> str:
        pod = (
            f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{self.metadata}"
            f"spec:\n{self.spec.rstrip()}\n"
        )
        whole = f"{self.documents}---\n{pod}" if self.documents else pod
        return whole.replace("NAME", name)


def container(script: str, *, name: str = "c", extra: str = "") -> str:
    """Return one container that runs a shell script, as a list item."""
    lines = "\n".join(f"        {line}" for line in script.strip().splitlines())
    return (
        f"  - name: {name}\n    image: {IMAGE}\n    imagePullPolicy: IfNotPresent\n{extra}"
        f"    command:\n    - sh\n    - -c\n    - |\n{lines}\n"
    )


def one(script: str, *, extra: str = "", rest: str = "") -> str:
    """Return a pod of one container that terminates quickly."""
    tail = "trap 'exit 0' TERM; while :; do sleep 1; done"
    body = container(f"{script}\n{tail}", extra=extra)
    return f"  terminationGracePeriodSeconds: 3\n{rest}  containers:\n{body}"


def logged(text: str = "PASS", container: str = "c") -> Check:
    def check(side: Side, name: str) -> bool:
        return text in side.log(name, container)

    return check


def facts(test: Callable[[Facts], bool]) -> Check:
    def check(side: Side, name: str) -> bool:
        return test(side.facts(name))

    return check


def both(*checks: Check) -> Check:
    def check(side: Side, name: str) -> bool:
        return all(one(side, name) for one in checks)

    return check


def not_run(side: Side, name: str) -> bool:
    """Check that the container's script never ran."""
    return "RAN" not in side.log(name, "c")


def explained(*words: str) -> Check:
    """Check that it never ran, and that the runner's output contains these words."""

    def check(side: Side, name: str) -> bool:
        errors = side.facts(name).errors
        return not_run(side, name) and all(word in errors for word in words)

    return check


def shell(test: str) -> str:
    return f"if {test}; then echo PASS; else echo FAIL; fi"


def env(name: str, source: str) -> str:
    return f"    env:\n    - name: {name}\n      valueFrom:\n        {source}\n"


def mount(path: str, more: str = "") -> str:
    return f"    volumeMounts:\n    - name: v\n      mountPath: {path}\n{more}"


def volume(source: str) -> str:
    return f"  volumes:\n  - name: v\n    {source}\n"


def security(text: str) -> str:
    return f"    securityContext: {text}\n"


CONFIG: Final = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME-settings\ndata:\n  A: '1'\n  B: two\n"
)
SECRET: Final = (
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: NAME-login\ndata:\n  word: c2VzYW1l\n"
)
FOLDER: Final = Path(tempfile.gettempdir(), "podtui-features")
"""A path on the host; emptied before each run."""

_ENVIRONMENT = (
    Feature(
        group="Environment",
        title="fieldRef: the pod's IP",
        spec=one(
            shell('[ -n "$IP" ] && hostname -i | grep -qw "$IP"'),
            extra=env("IP", "fieldRef: {fieldPath: status.podIP}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Environment",
        title="fieldRef: a label",
        metadata="  labels: {tier: web}\n",
        spec=one(
            shell('[ "$TIER" = web ]'),
            extra=env("TIER", "fieldRef: {fieldPath: \"metadata.labels['tier']\"}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Environment",
        title="resourceFieldRef with a divisor",
        spec=one(
            shell('[ "$CPU" = 250 ]'),
            extra=env("CPU", "resourceFieldRef: {resource: limits.cpu, divisor: 1m}")
            + "    resources: {limits: {cpu: 250m}}\n",
        ),
        check=logged(),
    ),
    Feature(
        group="Environment",
        title="$(VAR) in variables: only variables declared before; $$ is a literal $",
        spec=one(
            shell("[ \"$B\" = '1-$$(C)' ] && [ \"$D\" = '$$(A)' ]"),
            extra=(
                "    env:\n    - {name: A, value: '1'}\n    - {name: B, value: $(A)-$(C)}\n"
                "    - {name: C, value: '2'}\n    - {name: D, value: $$(A)}\n"
            ),
        ),
        check=logged(),
    ),
    Feature(
        group="Environment",
        title="$(VAR) in the command",
        spec=one('echo "$(WORD)"', extra="    env: [{name: WORD, value: PASS}]\n"),
        check=logged(),
    ),
    Feature(
        group="Environment",
        title="envFrom a ConfigMap beside the pod, with a prefix",
        documents=CONFIG,
        spec=one(
            shell('[ "$X_A-$X_B" = 1-two ]'),
            extra="    envFrom:\n    - prefix: X_\n      configMapRef: {name: NAME-settings}\n",
        ),
        check=logged(),
        kubelet=False,
    ),
    Feature(
        group="Environment",
        title="a key of a Secret beside the pod",
        documents=SECRET,
        spec=one(
            shell('[ "$WORD" = sesame ]'),
            extra=env("WORD", "secretKeyRef: {name: NAME-login, key: word}"),
        ),
        check=logged(),
        kubelet=False,
    ),
)

_VOLUMES = (
    Feature(
        group="Volumes",
        title="emptyDir shared by two containers",
        spec="  terminationGracePeriodSeconds: 1\n"
        + volume("emptyDir: {}")
        + "  containers:\n"
        + container("echo x > /d/f; sleep 60", name="w", extra=mount("/d"))
        + container(
            "until [ -f /d/f ]; do sleep 0.1; done; echo PASS; sleep 60", extra=mount("/d")
        ),
        check=logged(),
    ),
    Feature(
        group="Volumes",
        title="emptyDir in memory, as large as its sizeLimit",
        spec=one(
            shell("[ \"$(df -k /d | tail -1 | awk '{print $2}')\" = 4096 ]"),
            extra=mount("/d"),
            rest=volume("emptyDir: {medium: Memory, sizeLimit: 4Mi}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Volumes",
        title="hostPath DirectoryOrCreate",
        spec=one(
            "echo made > /h/f; " + shell("[ -f /h/f ]"),
            extra=mount("/h"),
            rest=volume(f"hostPath: {{path: {FOLDER}/made, type: DirectoryOrCreate}}"),
        ),
        check=both(logged(), lambda *_: (FOLDER / "made" / "f").is_file()),
    ),
    Feature(
        group="Volumes",
        title="hostPath of the wrong type: the pod waits, and the reason is shown",
        spec=one(
            "echo RAN",
            extra=mount("/h"),
            rest=volume(f"hostPath: {{path: {FOLDER}/absent, type: Directory}}"),
        ),
        check=explained("is not a directory"),
        seconds=6,
    ),
    Feature(
        group="Volumes",
        title="downwardAPI files",
        metadata="  labels: {tier: web}\n",
        spec=one(
            shell('[ "$(cat /d/labels)" = \'tier="web"\' ]'),
            extra=mount("/d"),
            rest=volume(
                "downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}"
            ),
        ),
        check=logged(),
    ),
    Feature(
        group="Volumes",
        title="projected volume of two sources",
        documents=CONFIG,
        spec=one(
            shell('[ "$(cat /d/name)$(cat /d/x/a)" != "" ] && [ "$(cat /d/x/a)" = 1 ]'),
            extra=mount("/d"),
            rest=volume(
                "projected: {sources: [{downwardAPI: {items: [{path: name, fieldRef:"
                " {fieldPath: metadata.name}}]}}, {configMap: {name: NAME-settings, items:"
                " [{key: A, path: x/a}]}}]}"
            ),
        ),
        check=logged(),
        kubelet=False,
    ),
    Feature(
        group="Volumes",
        title="configMap volume, mode per item",
        documents=CONFIG,
        spec=one(
            shell('[ "$(stat -L -c %a /d/a)" = 400 ]'),
            extra=mount("/d"),
            rest=volume("configMap: {name: NAME-settings, items: [{key: A, path: a, mode: 0400}]}"),
        ),
        check=logged(),
        kubelet=False,
    ),
    Feature(
        group="Volumes",
        title="image volume",
        spec=one(
            shell("[ -x /i/bin/busybox ] && ! touch /i/x 2>/dev/null"),
            extra=mount("/i"),
            rest=volume(f"image: {{reference: {IMAGE}, pullPolicy: IfNotPresent}}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Volumes",
        title="subPath",
        spec=one(
            shell("touch /s/f"),
            extra=mount("/s", "      subPath: inner\n"),
            rest=volume("emptyDir: {}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Volumes",
        title="subPathExpr",
        spec=one(
            "touch /s/f; " + shell("[ -f /all/one/f ]"),
            extra="    env: [{name: WHO, value: one}]\n"
            + mount("/s", "      subPathExpr: $(WHO)\n    - {name: v, mountPath: /all}\n"),
            rest=volume("emptyDir: {}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Volumes",
        title="fsGroup",
        spec=one(
            shell('[ "$(stat -c %g /d)" = 2000 ] && id -G | grep -qw 2000'),
            extra=mount("/d"),
            rest="  securityContext: {fsGroup: 2000}\n" + volume("emptyDir: {}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Volumes",
        title="read-only mount",
        spec=one(
            shell("! touch /d/x 2>/dev/null"),
            extra=mount("/d", "      readOnly: true\n"),
            rest=volume("emptyDir: {}"),
        ),
        check=logged(),
    ),
)

_PROBES = (
    Feature(
        group="Probes and hooks",
        title="readiness: the status gives the reason why a pod is not ready",
        spec=one(
            "echo RAN",
            extra="    readinessProbe: {exec: {command: ['false']}, periodSeconds: 1}\n",
        ),
        check=facts(
            lambda f: (
                "c" in f.containers
                and f.containers["c"].ready is False
                and "Readiness probe failed" in f.errors
            )
        ),
    ),
    Feature(
        group="Probes and hooks",
        title="liveness: a failing container is restarted",
        spec=one(
            "echo RAN",
            extra="    livenessProbe: {exec: {command: ['false']}, periodSeconds: 1,"
            " failureThreshold: 2}\n",
        ),
        check=both(
            facts(lambda f: "c" in f.containers and f.containers["c"].restarts >= 1),
        ),
        seconds=25,
    ),
    Feature(
        group="Probes and hooks",
        title="startup: liveness waits until it succeeds",
        spec=one(
            "sleep 4; touch /tmp/up; echo UP",
            extra="    startupProbe: {exec: {command: [test, -f, /tmp/up]}, periodSeconds: 1,"
            " failureThreshold: 30}\n"
            "    livenessProbe: {exec: {command: [test, -f, /tmp/up]}, periodSeconds: 1,"
            " failureThreshold: 1}\n",
        ),
        check=both(
            logged("UP"),
            facts(lambda f: "c" in f.containers and f.containers["c"].restarts == 0),
        ),
        seconds=10,
        holds=True,
    ),
    Feature(
        group="Probes and hooks",
        title="postStart",
        spec=one(
            "until [ -f /tmp/hook ]; do sleep 0.1; done; echo PASS",
            extra="    lifecycle: {postStart: {exec: {command: [touch, /tmp/hook]}}}\n",
        ),
        check=logged(),
    ),
    Feature(
        group="Probes and hooks",
        title="preStop, before the stop signal",
        spec=one(
            "echo RAN",
            extra="    lifecycle: {preStop: {exec: {command: [sh, -c, 'echo x > /h/stopped']}}}\n"
            + mount("/h"),
            rest=volume(f"hostPath: {{path: {FOLDER}, type: Directory}}"),
        ),
        check=lambda side, name: _after_removal(side, name, FOLDER / "stopped"),
    ),
)


def _after_removal(side: Side, name: str, path: Path) -> bool:
    if "RAN" not in side.log(name, "c"):
        return False
    side.remove(name)
    return path.is_file()


_LIFE = (
    Feature(
        group="Life of containers",
        title="init containers, one after the other",
        spec="  terminationGracePeriodSeconds: 1\n"
        + volume("emptyDir: {}")
        + "  initContainers:\n"
        + container("sleep 1; echo a >> /d/order", name="a", extra=mount("/d"))
        + container("echo b >> /d/order", name="b", extra=mount("/d"))
        + "  containers:\n"
        + container(
            shell('[ "$(tr -d "\\n" < /d/order)" = ab ]') + "; sleep 60", extra=mount("/d")
        ),
        check=logged(),
    ),
    Feature(
        group="Life of containers",
        title="sidecar: an init container that runs until the app ends",
        spec="  restartPolicy: Never\n  terminationGracePeriodSeconds: 1\n  initContainers:\n"
        + container("sleep 60", name="s", extra="    restartPolicy: Always\n")
        + "  containers:\n"
        + container("sleep 1; echo PASS"),
        check=both(
            logged(),
            facts(lambda f: f.phase in ("Succeeded", "Exited")),
            facts(lambda f: "s" in f.containers and f.containers["s"].state == "exited"),
        ),
    ),
    Feature(
        group="Life of containers",
        title="OnFailure: a restart after exit code 1, none after 0",
        spec="  restartPolicy: OnFailure\n  containers:\n"
        + container("exit 1")
        + container("exit 0", name="ok"),
        check=facts(
            lambda f: (
                "c" in f.containers
                and "ok" in f.containers
                and f.containers["c"].restarts >= 1
                and f.containers["ok"].restarts == 0
                and f.containers["ok"].state == "exited"
            )
        ),
    ),
    Feature(
        group="Life of containers",
        title="crash-loop back-off: few restarts in 15 s",
        spec="  containers:\n" + container("exit 1"),
        check=facts(lambda f: "c" in f.containers and 1 <= f.containers["c"].restarts <= 3),
        seconds=15,
        holds=True,
    ),
    Feature(
        group="Life of containers",
        title="activeDeadlineSeconds",
        spec=one("echo RAN", rest="  activeDeadlineSeconds: 3\n"),
        check=both(
            logged("RAN"),
            facts(
                lambda f: (
                    "DeadlineExceeded" in f.errors
                    or all(c.state == "exited" for c in f.containers.values())
                )
            ),
        ),
        seconds=20,
    ),
    Feature(
        group="Life of containers",
        title="termination message",
        spec="  restartPolicy: Never\n  containers:\n"
        + container("echo the-last-word > /dev/termination-log; exit 3"),
        check=facts(lambda f: "c" in f.containers and "the-last-word" in f.containers["c"].message),
    ),
    Feature(
        group="Life of containers",
        title="restart rules of one container by exit code",
        spec="  restartPolicy: Never\n  containers:\n"
        + container(
            "exit 42",
            extra="    restartPolicy: Never\n    restartPolicyRules:\n"
            "    - {action: Restart, exitCodes: {operator: In, values: [42]}}\n",
        ),
        check=facts(lambda f: "c" in f.containers and f.containers["c"].restarts >= 1),
    ),
)

_SECURITY = (
    Feature(
        group="Security",
        title="runAsUser, runAsGroup, supplementalGroups",
        spec=one(
            shell('[ "$(id -u):$(id -g)" = 1000:3000 ] && id -G | grep -qw 4000'),
            rest="  securityContext: {runAsUser: 1000, runAsGroup: 3000,"
            " supplementalGroups: [4000]}\n",
        ),
        check=logged(),
    ),
    Feature(
        group="Security",
        title="runAsNonRoot refuses a root image",
        spec=one("echo RAN", rest="  securityContext: {runAsNonRoot: true}\n"),
        check=explained("will run as root"),
        seconds=6,
    ),
    Feature(
        group="Security",
        title="readOnlyRootFilesystem",
        spec=one(shell("! touch /x 2>/dev/null"), extra=security("{readOnlyRootFilesystem: true}")),
        check=logged(),
    ),
    Feature(
        group="Security",
        title="capabilities dropped and added",
        spec=one(
            shell("[ \"$(awk '/^CapEff/ {print $2}' /proc/self/status)\" = 0000000000001000 ]"),
            extra=security("{capabilities: {drop: [ALL], add: [NET_ADMIN]}}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Security",
        title="seccomp RuntimeDefault",
        spec=one(
            shell("grep -q '^Seccomp:.*2' /proc/self/status"),
            extra=security("{seccompProfile: {type: RuntimeDefault}}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Security",
        title="seccomp Unconfined",
        spec=one(
            shell("grep -q '^Seccomp:.*0' /proc/self/status"),
            extra=security("{seccompProfile: {type: Unconfined}}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Security",
        title="allowPrivilegeEscalation: false",
        spec=one(
            shell("grep -q '^NoNewPrivs:.*1' /proc/self/status"),
            extra=security("{allowPrivilegeEscalation: false}"),
        ),
        check=logged(),
    ),
    Feature(
        group="Security",
        title="a safe sysctl",
        spec=one(
            shell('[ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" = 80 ]'),
            rest="  securityContext: {sysctls: [{name: net.ipv4.ip_unprivileged_port_start,"
            " value: '80'}]}\n",
        ),
        check=logged(),
    ),
    Feature(
        group="Security",
        title="an unsafe sysctl is refused, with the reason",
        spec=one(
            "echo RAN",
            rest="  securityContext: {sysctls: [{name: kernel.msgmax, value: '65536'}]}\n",
        ),
        check=explained("kernel.msgmax"),
        seconds=6,
    ),
)

_NETWORK = (
    Feature(
        group="Network",
        title="hostname",
        spec=one(shell('[ "$(hostname)" = shipwreck ]'), rest="  hostname: shipwreck\n"),
        check=logged(),
    ),
    Feature(
        group="Network",
        title="subdomain and setHostnameAsFQDN",
        spec=one(
            shell('hostname | grep -q "^web.sub.default.svc"'),
            rest="  hostname: web\n  subdomain: sub\n  setHostnameAsFQDN: true\n",
        ),
        check=logged(),
    ),
    Feature(
        group="Network",
        title="hostAliases in a managed hosts file",
        spec=one(
            shell(
                "grep -q '^192.0.2.1[[:space:]]far' /etc/hosts"
                " && head -1 /etc/hosts | grep -q Kubernetes-managed"
            ),
            rest="  hostAliases: [{ip: 192.0.2.1, hostnames: [far]}]\n",
        ),
        check=logged(),
    ),
    Feature(
        group="Network",
        title="dnsConfig",
        spec=one(
            shell(
                "grep -q 'nameserver 192.0.2.53' /etc/resolv.conf"
                " && grep -q 'search.*example.test' /etc/resolv.conf"
            ),
            rest="  dnsConfig: {nameservers: [192.0.2.53], searches: [example.test]}\n",
        ),
        check=logged(),
    ),
    Feature(
        group="Network",
        title="dnsPolicy None: only the pod's own DNS settings",
        spec=one(
            shell(
                '[ "$(grep -c ^nameserver /etc/resolv.conf)" = 1 ]'
                " && grep -q 'nameserver 192.0.2.53' /etc/resolv.conf"
            ),
            rest="  dnsPolicy: None\n  dnsConfig: {nameservers: [192.0.2.53]}\n",
        ),
        check=logged(),
    ),
    Feature(
        group="Network",
        title="containers reach each other on localhost",
        spec="  terminationGracePeriodSeconds: 1\n  containers:\n"
        + container("mkdir /w; echo PASS > /w/x; httpd -f -p 8081 -h /w", name="w")
        + container("until wget -qO- http://127.0.0.1:8081/x; do sleep 0.2; done; sleep 60"),
        check=logged(),
    ),
    Feature(
        group="Network",
        title="shareProcessNamespace",
        spec="  terminationGracePeriodSeconds: 1\n  shareProcessNamespace: true\n  containers:\n"
        + container("sleep 4321", name="w")
        + container("until ps | grep -q '[s]leep 4321'; do sleep 0.2; done; echo PASS; sleep 60"),
        check=logged(),
    ),
    Feature(
        group="Network",
        title="own process namespace by default",
        spec="  terminationGracePeriodSeconds: 1\n  containers:\n"
        + container("sleep 4322", name="w")
        + container("sleep 1; " + shell("! ps | grep -q '[s]leep 4322'") + "; sleep 60"),
        check=logged(),
    ),
)

_RESOURCES = (
    Feature(
        group="Resources and admission",
        title="memory limit: the container is killed above it, exit code 137",
        spec="  restartPolicy: Never\n  containers:\n"
        + container(
            "x=x; while :; do x=$x$x; done", extra="    resources: {limits: {memory: 32Mi}}\n"
        ),
        check=facts(lambda f: "c" in f.containers and f.containers["c"].exit_code == 137),
        seconds=25,
    ),
    Feature(
        group="Resources and admission",
        title="cpu limit",
        spec=one(
            "q=$(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null)\n"
            "m=$(cut -d' ' -f1 /sys/fs/cgroup/cpu.max 2>/dev/null)\n"
            + shell('[ "${q:-$m}" = 20000 ]'),
            extra="    resources: {limits: {cpu: 200m}}\n",
        ),
        check=logged(),
    ),
    Feature(
        group="Resources and admission",
        title="a pod that does not fit on the machine is not started, and the reason is shown",
        spec=one("echo RAN", extra="    resources: {requests: {memory: 100Ti}}\n"),
        check=explained("memory"),
        seconds=6,
    ),
    Feature(
        group="Resources and admission",
        title="nodeSelector that does not match",
        spec=one("echo RAN", rest="  nodeSelector: {disk: tape}\n"),
        check=explained("selector"),
        seconds=6,
    ),
)

_MANIFESTS = (
    Feature(
        group="Manifests",
        title="an unknown field is reported with its line",
        spec=one("echo RAN", rest="  restartPolice: Never\n"),
        check=explained("restartPolice", ":"),
        seconds=5,
        kubelet=False,
    ),
    Feature(
        group="Manifests",
        title="a wrong value is refused, with field and reason",
        spec=one("echo RAN", rest="  restartPolicy: Sometimes\n"),
        check=explained("restartPolicy"),
        seconds=5,
        kubelet=False,
    ),
    Feature(
        group="Manifests",
        title="stdin and tty",
        spec=one(shell("[ -t 1 ]"), extra="    tty: true\n    stdin: true\n"),
        check=logged(),
    ),
    Feature(
        group="Manifests",
        title="args alone keep the image's entry point; command alone drops its args",
        spec=one(shell('[ "$#" = 0 ]')),
        check=logged(),
    ),
)

FEATURES: Final = (
    *_ENVIRONMENT,
    *_VOLUMES,
    *_PROBES,
    *_LIFE,
    *_SECURITY,
    *_NETWORK,
    *_RESOURCES,
    *_MANIFESTS,
)
