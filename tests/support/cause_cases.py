"""One pod for each cause, and the steps that produce it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubelet_world import World, container, no_file
from kubelet_world import pod as plain_pod
from why_world import pod_text, spec

from podtui.api.v1 import ContainerPort, ResourceRequirements
from podtui.errors import ContainerCreateError, EngineConflict, EngineError, ImagePullError
from podtui.kubelet.prober.state import SUCCESS, ProbeKind, ProbeOutcome, failure, probe_of
from podtui.runtime.memory import Behaviour

Setting = Callable[[World], object]


@dataclass(frozen=True)
class Cause:
    """``text`` produces ``cause`` in a world with ``set``; ``field`` is the field to change, and
    ``fix`` begins the title of a fix that resolves it.
    """

    cause: str
    text: str
    set: Setting = lambda world: None
    field: str = ""
    fix: str = ""
    world: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    logs: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        return f"{self.cause}{'-' if self.note else ''}{self.note}"


def pulls(text: str) -> Setting:
    return lambda world: world.engine.faults.fail("pull_image", ImagePullError(text), times=None)


def creates(text: str) -> Setting:
    error = ContainerCreateError(text)
    return lambda world: world.engine.faults.fail("create_container", error, times=None)


def starts(text: str) -> Setting:
    return with_behaviour(start_error=text)


def with_behaviour(name: str = "c", **fields: Any) -> Setting:
    def set_up(world: World) -> None:
        world.behaviours[name] = Behaviour(**fields)

    return set_up


class Scripted:
    """Probes with the given outcomes by kind, until they use the right port or enough time."""

    def __init__(self, outcomes: Mapping[ProbeKind, ProbeOutcome]) -> None:
        self._outcomes = outcomes

    async def run(self, pod: Any, container: Any, container_id: str, probe: Any) -> ProbeOutcome:
        kind = next(kind for kind in ProbeKind if probe_of(container, kind) is probe)
        port = probe.httpGet.port if probe.httpGet else 0
        return SUCCESS if port == 80 or probe.timeoutSeconds == 5 else self._outcomes[kind]


def probes(kind: ProbeKind, text: str) -> Setting:
    return lambda world: world.use_probes(Scripted({kind: failure(text)}))


def other_pod(name: str = "other-n1", port: int = 0, **asks: str) -> Setting:
    """Return another pod that already has a port or resources."""

    def set_up(world: World) -> None:
        ports = (ContainerPort(containerPort=80, hostPort=port),) if port else ()
        own_container = container(ports=ports, resources=ResourceRequirements(requests=asks))
        world.add(plain_pod(name, "", own_container))

    return set_up


def no_ready_file(world: World) -> None:
    world.commands["cat /ready"] = no_file("/ready")


def one_word(config: Any) -> Behaviour | None:
    """Behave like a program whose name contains a space: it is not found."""
    name = (config.command or ("",))[0]
    if " " not in name:
        return None
    text = f'exec: "{name}": executable file not found in $PATH: unknown'
    return Behaviour(start_error=f"OCI runtime create failed: {text}")


def needs_memory(config: Any) -> Behaviour | None:
    """Behave like a program that needs more than 16 MiB."""
    return Behaviour(exit_after=1.0, oom=True) if config.resources.memory <= 1 << 24 else None


REFUSED = "dial tcp 10.0.0.2:8081: connect: connection refused"
HTTP = "httpGet: {path: /healthz, port: 8081}\nperiodSeconds: 2\n"
EXEC = "exec:\n  command: [cat, /ready]\nperiodSeconds: 2\n"


def probed(kind: str, handler: str = HTTP, more: str = "") -> str:
    block = "".join(f"  {line}\n" for line in handler.splitlines())
    return pod_text(f"ports:\n- containerPort: 80\n{kind}Probe:\n{block}{more}")


def runs(script: str, more: str = "", pod: str = "") -> str:
    return pod_text(f'command: ["sh", "-c", "{script}"]\n{more}', pod)


NON_ROOT = "securityContext:\n  runAsNonRoot: true\n"
CONFIG_MAP = (
    "env:\n- name: A\n  valueFrom:\n    configMapKeyRef:\n      name: settings\n      key: a\n"
)
LIMIT = "resources:\n  limits:\n    memory: 16Mi  # too little\n"
HOST_PORT = "ports:\n- containerPort: 80\n  hostPort: 8080  # the world's\n"
SOON = "terminationGracePeriodSeconds: 1\n"

CAUSES: tuple[Cause, ...] = (
    # --- admission
    Cause("TooBigForTheNode", pod_text("resources:\n  requests:\n    memory: 64Ti\n"),
          field="spec.containers[0].resources.requests.memory", fix="Lower the memory request"),
    Cause("NoRoom", pod_text("resources:\n  requests:\n    cpu: 7\n"), other_pod(cpu="2"),
          "spec.containers[0].resources.requests.cpu", "Lower the cpu request to 6"),
    Cause("NoRoom", pod_text("resources:\n  limits: {memory: 30Gi}\n"), other_pod(memory="8Gi"),
          "spec.containers[0].resources.requests.memory", "Lower the memory request", note="limit"),
    Cause("TooManyPods", pod_text(), other_pod(), world={"max_pods": 1}),
    Cause("HostPortTaken", pod_text(HOST_PORT), other_pod(port=8080),
          "spec.containers[0].ports[0].hostPort", "Use port 8081"),
    Cause("HostPortTaken", pod_text(HOST_PORT), other_pod(port=8080),
          "spec.containers[0].ports[0].hostPort", "Remove the hostPort", note="none"),
    Cause("HostPortTaken", pod_text("ports: [{containerPort: 80, hostPort: 8080}]\n"),
          other_pod(port=8080), "spec.containers[0].ports[0].hostPort", "Remove the hostPort",
          note="flow"),
    Cause("NodeLabelMissing", pod_text(pod="nodeSelector:\n  disk: ssd\n"),
          field="spec.nodeSelector.disk", fix="Remove the selector"),
    Cause("NodeLabelMissing", pod_text(pod="nodeSelector: {kubernetes.io/arch: riscv}\n"),
          field="spec.nodeSelector[kubernetes.io/arch]", fix="Select kubernetes.io/arch=amd64",
          note="value"),
    Cause("NodeAffinity", pod_text(pod="affinity:\n  nodeAffinity:\n"
          "    requiredDuringSchedulingIgnoredDuringExecution:\n      nodeSelectorTerms:\n"
          "      - matchExpressions:\n        - {key: zone, operator: Exists}\n"),
          field="spec.affinity.nodeAffinity"),
    Cause("SysctlForbidden", pod_text(pod="securityContext:\n  sysctls:\n"
          "  - {name: kernel.msgmax, value: '1'}\n"), field="spec.securityContext.sysctls[0]"),
    Cause("AppArmorMissing", pod_text(pod="securityContext:\n"
          "  appArmorProfile: {type: RuntimeDefault}\n"),
          field="spec.securityContext.appArmorProfile"),
    Cause("WrongOS", pod_text(pod="os: {name: windows}\n"), field="spec.os.name",
          fix="Set it to linux"),
    Cause("WrongOSLabel", pod_text().replace("  name: web\n",
          "  name: web\n  labels:\n    kubernetes.io/os: windows\n"),
          field="metadata.labels[kubernetes.io/os]", fix="Set it to linux"),
    Cause("FeatureMissing", pod_text(pod="securityContext:\n  supplementalGroupsPolicy: Strict\n"),
          field="spec"),
    # --- ends of the whole pod
    Cause("DeadlineExceeded", pod_text(pod="activeDeadlineSeconds: 5\n"),
          field="spec.activeDeadlineSeconds", fix="Remove activeDeadlineSeconds"),
    # --- volumes and the sandbox
    Cause("HostPathKind", pod_text(pod="volumes:\n- name: v\n  hostPath:\n    path: /srv/none\n"
          "    type: Directory\n", text="volumeMounts: [{name: v, mountPath: /v}]\n"),
          field="spec.volumes[0].hostPath.type", fix="Create it"),
    Cause("VolumeDocumentMissing",
          pod_text(pod="volumes:\n- name: v\n  configMap: {name: settings}\n",
          text="volumeMounts: [{name: v, mountPath: /v}]\n"),
          field="spec.volumes[0].configMap.name", fix="Start without it"),
    Cause("VolumeFailed", pod_text(pod="volumes:\n- name: v\n  fc: {targetWWNs: [w], lun: 0}\n",
          text="volumeMounts: [{name: v, mountPath: /v}]\n"), field="spec.volumes[0]"),
    Cause("SandboxPortInUse", pod_text(HOST_PORT), lambda w: w.engine.faults.fail("run_sandbox",
          EngineConflict("driver failed programming external connectivity on endpoint x: Bind for"
                         " 0.0.0.0:8080 failed: port is already allocated"), times=None),
          "spec.containers[0].ports[0].hostPort"),
    Cause("RuntimeClassMissing", pod_text(pod="runtimeClassName: kata\n"),
          field="spec.runtimeClassName"),
    Cause("SandboxFailed", pod_text(), lambda w: w.engine.faults.fail(
          "run_sandbox", EngineError("no space left on device"), times=None), "spec"),
    # --- images
    Cause("InvalidImageName", pod_text().replace("busybox:1", "BusyBox:1"),
          field="spec.containers[0].image", fix="Change it to busybox:1"),
    Cause("ImageNeverPulled", pod_text("imagePullPolicy: Never\n").replace("busybox:1", "busybx:1"),
          field="spec.containers[0].imagePullPolicy", fix="Use busybox:1"),
    Cause("ImageNeverPulled",
          pod_text("imagePullPolicy: Never  # offline\n").replace("box:1", "box:2"),
          field="spec.containers[0].imagePullPolicy", fix="Allow pulling it", note="policy"),
    Cause("ImageNotFound", pod_text().replace("busybox:1", '"nosuch:1"'),
          field="spec.containers[0].image"),
    Cause("ImageNotFound", pod_text("imagePullPolicy: Always\n").replace("busybox:1", "busybox:1"),
          pulls("manifest for busybox:1 not found: manifest unknown: manifest unknown"),
          "spec.containers[0].image", "Use the image that is on this machine", note="local"),
    Cause("ImageDenied", pod_text().replace("busybox:1", "team/app:1"),
          pulls("pull access denied for team/app, repository does not exist or may require 'docker"
                " login': denied: requested access to the resource is denied"),
          "spec.containers[0].image"),
    Cause("RegistryUnreachable", pod_text().replace("busybox:1", "registry.invalid/busybox:1"),
          field="spec.containers[0].image"),
    Cause("RegistryUnreachable", pod_text().replace("busybox:1", "busybox:2"),
          pulls('Get "https://registry.example/v2/": context deadline exceeded'),
          "spec.containers[0].image", "Use busybox:1", note="near"),
    Cause("RegistryCertificate", pod_text().replace("busybox:1", "r.example:5000/a:1"),
          pulls('Get "https://r.example:5000/v2/":'
                ' http: server gave HTTP response to HTTPS client'),
          "spec.containers[0].image"),
    Cause("RegistryLimit", pod_text().replace("busybox:1", "a:1"),
          pulls("toomanyrequests: You have reached your pull rate limit."),
          "spec.containers[0].image"),
    Cause("ImagePlatform", pod_text().replace("busybox:1", "a:1"),
          pulls("no matching manifest for linux/arm64/v8 in the manifest list entries"),
          "spec.containers[0].image"),
    Cause("ImagePull", pod_text().replace("busybox:1", "a:1"), pulls("filesystem layer is broken"),
          "spec.containers[0].image"),
    Cause("Pulling", pod_text().replace("busybox:1", "a:1"), world={"pull_delay": 60.0},
          field="spec.containers[0].image"),
    # --- the configuration of a container
    Cause("RunsAsRoot", pod_text(pod=NON_ROOT), field="spec.securityContext.runAsNonRoot",
          fix="Run it as user"),
    Cause("RunsAsRoot", pod_text(NON_ROOT), field="spec.containers[0].securityContext.runAsNonRoot",
          fix="Allow root", note="own"),
    Cause("RunAsUserIsRoot", pod_text(NON_ROOT + "  runAsUser: 0\n"),
          field="spec.containers[0].securityContext.runAsUser", fix="Run it as user"),
    Cause("DocumentMissing", pod_text(CONFIG_MAP),
          field="spec.containers[0].env[0].valueFrom.configMapKeyRef.name", fix="Start without it"),
    Cause("KeyMissing", pod_text(CONFIG_MAP), lambda w: w.config_map("settings", b="1"),
          "spec.containers[0].env[0].valueFrom.configMapKeyRef.key", "Start without it"),
    Cause("SubPathVariable",
          pod_text("volumeMounts:\n- {name: v, mountPath: /v, subPathExpr: $(POD)}\n",
          "volumes:\n- {name: v, emptyDir: {}}\n"),
          field="spec.containers[0].volumeMounts[0].subPathExpr"),
    # --- starting
    Cause("CommandNotFound", pod_text("command: [nosuch]\n"),
          starts('exec: "nosuch": executable file not found in $PATH: unknown'),
          "spec.containers[0].command"),
    Cause("CommandNotFound", pod_text('command: ["sleep 3600"]\n'),
          field="spec.containers[0].command", fix="Run the line with a shell",
          world={"behave": one_word}, note="line"),
    Cause("CommandNotFound", pod_text("command:\n- sleep 3600  # for ever\n"),
          field="spec.containers[0].command", fix="Run the line with a shell",
          world={"behave": one_word}, note="list"),
    Cause("CommandNotExecutable", pod_text("command: [/etc/passwd]\n"),
          starts('OCI runtime create failed: container_linux.go:380: starting container process'
                 ' caused: exec: "/etc/passwd": permission denied: unknown'),
          "spec.containers[0].command"),
    Cause("WrongFormat", pod_text("command: [/app]\n"),
          starts("standard_init_linux.go:228: exec user process caused: exec format error"),
          "spec.containers[0].image"),
    Cause("WorkingDirectory", pod_text("workingDir: /etc/passwd\n"),
          starts('OCI runtime create failed: chdir to cwd ("/etc/passwd") set in config.json'
                 " failed:"
                 " not a directory: unknown"), "spec.containers[0].workingDir"),
    Cause("UserUnknown", pod_text(), starts("unable to find user app: no matching entries in passwd"
          " file"), "spec.containers[0].securityContext.runAsUser"),
    Cause("MountKind", pod_text("volumeMounts: [{name: v, mountPath: /etc/passwd}]\n",
          "volumes: [{name: v, emptyDir: {}}]\n"),
          starts('OCI runtime create failed: rootfs_linux.go:76: mounting "/x" to rootfs at'
                 ' "/etc/passwd" caused: not a directory: unknown: Are you trying to mount a'
                 " directory onto a file (or vice-versa)?"),
          "spec.containers[0].volumeMounts[0].mountPath"),
    Cause("MemoryTooSmall", pod_text("resources:\n  limits:\n    memory: 1Mi\n"),
          creates("Minimum memory limit allowed is 6MB"),
          "spec.containers[0].resources.limits.memory"),
    Cause("HostPortInUse", pod_text(HOST_PORT), starts(
          "driver failed programming external connectivity: Error starting userland proxy: listen"
          " tcp4 0.0.0.0:8080: bind: address already in use"),
          "spec.containers[0].ports[0].hostPort"),
    Cause("ContainerStart", pod_text(), creates("Duplicate mount point: /v"), "spec.containers[0]"),
    Cause("PostStartFailed", pod_text("lifecycle:\n  postStart:\n    exec:\n"
          "      command: [sh, -c, exit 1]\n"),
          field="spec.containers[0].lifecycle.postStart"),
    Cause("Creating", pod_text(), lambda w: w.engine.faults.hold("create_container"),
          "spec.containers[0]"),
    # --- probes
    Cause("LivenessKilled", probed("liveness", HTTP, SOON.replace("t", "  t", 1)),
          probes(ProbeKind.LIVENESS, REFUSED),
          "spec.containers[0].livenessProbe.httpGet.port", "Probe port 80"),
    Cause("StartupKilled", probed("startup", EXEC), probes(ProbeKind.STARTUP, "cat: no /ready"),
          "spec.containers[0].startupProbe.exec.command", "Raise failureThreshold to 30"),
    Cause("StartupWaiting", probed("startup", HTTP, "  failureThreshold: 30\n"),
          probes(ProbeKind.STARTUP, REFUSED), "spec.containers[0].startupProbe.httpGet.port",
          "Probe port 80"),
    Cause("ReadinessRefused", probed("readiness"), probes(ProbeKind.READINESS, REFUSED),
          "spec.containers[0].readinessProbe.httpGet.port", "Probe port 80"),
    Cause("ReadinessPath", probed("readiness"),
          probes(ProbeKind.READINESS, "HTTP probe failed with statuscode: 404"),
          "spec.containers[0].readinessProbe.httpGet.path"),
    Cause("ReadinessStatus", probed("readiness"),
          probes(ProbeKind.READINESS, "HTTP probe failed with statuscode: 500"),
          "spec.containers[0].readinessProbe.httpGet.path"),
    Cause("ReadinessTimeout", probed("readiness"),
          probes(ProbeKind.READINESS, 'Get "http://10.0.0.2:8081/": context deadline exceeded'
                 " (Client.Timeout exceeded while awaiting headers)"),
          "spec.containers[0].readinessProbe.timeoutSeconds", "Raise timeoutSeconds to 5"),
    Cause("ReadinessExec", probed("readiness", EXEC), no_ready_file,
          "spec.containers[0].readinessProbe.exec.command"),
    Cause("ReadinessFailing", probed("readiness", "grpc: {port: 80}\n"),
          probes(ProbeKind.READINESS, 'service unhealthy (responded with "NOT_SERVING")'),
          "spec.containers[0].readinessProbe.grpc.port"),
    Cause("ProbePending", probed("readiness", HTTP, "  initialDelaySeconds: 60\n"),
          probes(ProbeKind.READINESS, REFUSED), "spec.containers[0].readinessProbe"),
    # --- ends of containers
    Cause("OutOfMemory", pod_text(LIMIT), field="spec.containers[0].resources.limits.memory",
          fix="Double the memory limit to 32Mi", world={"behave": needs_memory}),
    Cause("EndsByDesign", runs("echo done"), field="spec.restartPolicy", fix="Run it once"),
    Cause("EndsByDesign", runs("echo done", pod="restartPolicy: Always  # why?\n"),
          field="spec.restartPolicy", fix="Run it again only", note="written"),
    Cause("Fails", runs("exit 1"), field="spec.containers[0].command"),
    Cause("Fails", runs("exit 3", pod="restartPolicy: Never\n"), field="spec.containers[0].command",
          note="never"),
    Cause("Usage", runs("exit 2"), field="spec.containers[0].command"),
    Cause("NotExecutable", runs("exit 126"), field="spec.containers[0].command"),
    Cause("NoSuchCommand", runs("exit 127"), field="spec.containers[0].command"),
    Cause("Killed", runs("exit 137"), field="spec.containers[0].command"),
    Cause("KilledAtLimit", runs("exit 137", LIMIT),
          field="spec.containers[0].resources.limits.memory"),
    Cause("Terminated", runs("exit 143"), field="spec.containers[0].command"),
    Cause("SegmentationFault", runs("exit 139"), field="spec.containers[0].command"),
    Cause("Aborted", runs("exit 134"), field="spec.containers[0].command"),
    Cause("AccountForbidden", runs("exit 1"), field="spec.serviceAccountName",
          logs=(('pods is forbidden: User "system:serviceaccount:default:app" cannot list resource'
                ' "pods" in API group "" in the namespace "default"'),)),
    Cause("AddressInUse", runs("exit 1"), logs=("bind() failed: Address already in use",),
          field="spec.containers[0].command"),
    Cause("ReadOnly", runs("exit 1"), logs=("mkdir /var/x: Read-only file system",),
          field="spec.containers[0].command"),
    Cause("Forbidden", runs("exit 1"), logs=("open /data/x: Permission denied",),
          field="spec.containers[0].command"),
    Cause("DependencyMissing", runs("exit 1"), logs=("connect db:5432: Connection refused",),
          field="spec.containers[0].command"),
    Cause("AllRestarted", pod_text("restartPolicy: Never\n"
          "restartPolicyRules:\n- action: RestartAllContainers\n"
          "  exitCodes: {operator: In, values: [9]}\n") + "    - name: b\n      image: busybox:1\n",
          with_behaviour(exit_after=5.0, exit_code=9), "spec.containers[0].restartPolicyRules"),
    # --- other causes
    Cause("InitRunning", spec("initContainers:\n- {name: i, image: 'busybox:1'}\n"
          "containers:\n- {name: c, image: 'busybox:1'}\n"), field="spec.initContainers[0]"),
    Cause("ReadinessGate", pod_text(pod="readinessGates:\n- conditionType: example.com/ok\n"),
          field="spec.readinessGates[0].conditionType", fix="Remove the readiness gates"),
    Cause("Succeeded", runs("exit 0", pod="restartPolicy: Never\n")),
    Cause("Healthy", pod_text()),
)  # fmt: skip
