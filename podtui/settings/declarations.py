"""The settings: each is declared once, as a field of `Settings`.

The declaration has the key (a field name of ``KubeletConfiguration``, or a name in the same style),
the type, the default, the parser, and the line of the documentation. Flags, environment variables,
the keys of the settings file, ``podtui config``, the arguments of the agent, the systemd unit and
the table in ``docs/settings.md`` come from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

from msgspec import Struct, field

from podtui.api.thresholds import ThresholdError, eviction_thresholds
from podtui.settings import values

EVICTION_HARD: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
RECORDS: Final = "records.db"
CLUSTER_RECORDS: Final = "cluster.db"
NOTIFY_ON: Final = ("crashLoop", "failed", "ready", "nodeNotReady")
NOTIFY_BY: Final = ("bell", "osc9")


class Flag(Struct, frozen=True):
    """A flag of the command line. Without ``metavar`` it takes no value and means true."""

    name: str
    metavar: str
    help: str


class Bound(Struct, frozen=True):
    """A condition of a value, and the text for a value that violates it."""

    holds: Callable[[Any], bool]
    text: str


class Setting(Struct, frozen=True):
    """The declaration of a setting, beside its type and default.

    ``doc`` and ``default`` (if it differs from the field's) are Markdown for ``docs/settings.md``.
    ``parse`` raises ValueError. ``bound`` is checked on the effective value.
    """

    parse: Callable[[object], Any]
    doc: str
    default: str = ""
    bound: Bound | None = None
    flag: Flag | None = None
    screen: bool = False
    """True if only the screen reads it: the agent does not get it."""
    aliases: tuple[str, ...] = ()
    """Other keys in the file, with dots between nested keys."""
    verbatim: bool = False
    """True if scalars in the file stay text: ``[grep, no]`` searches for "no"."""
    file_only: bool = False
    """True if the value cannot be written as text, for a flag or the environment."""


_Map = Mapping[str, str]


class Settings(Struct, frozen=True, kw_only=True):
    """All settings, resolved. Durations are in seconds, sizes in bytes, paths are absolute."""

    rootDir: Annotated[
        Path,
        Setting(
            values.path,
            "state: socket, lock, records, logs",
            default="`$XDG_STATE_HOME/podtui`",
            flag=Flag("--root-dir", "DIR", "directory of the agent's state"),
            aliases=("rootDirectory",),
        ),
    ]
    staticPodPath: Annotated[
        Path,
        Setting(
            values.path,
            "a folder, or one file",
            default="`static_pods/` in the working directory, else the user's",
            flag=Flag("--static-pod-path", "DIR", "folder of Pod manifests"),
            aliases=("podManifestPath",),
        ),
    ]
    engine: Annotated[
        str,
        Setting(
            values.text,
            "`auto`, `memory`, or a URL such as `unix:///run/podman/podman.sock`",
            flag=Flag("--engine", "auto|URL|memory", "container engine"),
        ),
    ] = "auto"
    simulatedEngine: Annotated[
        _Map,
        Setting(
            values.simulated_engine,
            "of the engine `memory`: the `cpu` and `memory` of its machine; the UID of its images"
            " (`user`); with `completion: true`, init containers, and containers of pods that are"
            " not always restarted, such as those of Jobs, exit with 0 at once",
            default="`{cpu: 8, memory: 32Gi, user: 0, completion: false}`",
        ),
    ] = {}
    nodeName: Annotated[
        str,
        Setting(
            values.node_name,
            "name of the node; suffix of the names of static pods",
            default="the host's name",
            flag=Flag("--node-name", "NAME", "name of the node (default: the hostname)"),
            aliases=("hostnameOverride",),
        ),
    ]
    enableServer: Annotated[
        bool,
        Setting(values.boolean, "serve the API over TCP, for [kubectl](kubectl.md)"),
    ] = True
    apiAddress: Annotated[
        str,
        Setting(
            values.address,
            "the address that the API listens on; with any but a loopback address, other machines"
            " can reach it",
            flag=Flag("--api-address", "ADDRESS", "address of the API"),
        ),
    ] = "127.0.0.1"
    apiPort: Annotated[
        int,
        Setting(
            values.integer,
            "the API's port; 0 chooses a free port at the first start, and keeps it",
            flag=Flag(
                "--api-port", "PORT", "port of the API (default: a free port, which is kept)"
            ),
            bound=Bound(lambda port: 0 <= port < 65536, "must be between 0 and 65535, inclusive"),
        ),
    ] = 0
    kubeletAddress: Annotated[
        str,
        Setting(
            values.address,
            "as a node of a cluster: the address of the"
            " [kubelet server](cluster-node.md#kubelet-server); also `address`",
            aliases=("address",),
        ),
    ] = "0.0.0.0"
    kubeletPort: Annotated[
        int,
        Setting(
            values.positive,
            "the port of the kubelet server; also `port`",
            bound=Bound(lambda port: port < 65536, "must be between 1 and 65535, inclusive"),
            aliases=("port",),
        ),
    ] = 10250
    tlsCertFile: Annotated[
        Path | None,
        Setting(
            values.optional_path,
            "the certificate of the kubelet server, instead of podtui's own; a replaced file is"
            " loaded",
        ),
    ] = None
    tlsPrivateKeyFile: Annotated[
        Path | None,
        Setting(values.optional_path, "its key", default="in `tlsCertFile`"),
    ] = None
    clientCAFile: Annotated[
        Path | None,
        Setting(
            values.optional_path,
            "the authorities of the certificates of the kubelet server's clients; also"
            " `authentication.x509.clientCAFile`",
            aliases=("authentication.x509.clientCAFile",),
        ),
    ] = None
    authenticationTokenWebhook: Annotated[
        bool,
        Setting(
            values.boolean,
            "accept tokens that the cluster's API server knows; also"
            " `authentication.webhook.enabled`",
            aliases=("authentication.webhook.enabled",),
        ),
    ] = True
    authenticationTokenWebhookCacheTTL: Annotated[
        float,
        Setting(
            values.duration_or(120.0),
            "how long the user of a token is remembered; also `authentication.webhook.cacheTTL`",
            aliases=("authentication.webhook.cacheTTL",),
        ),
    ] = 120.0
    anonymousAuth: Annotated[
        bool,
        Setting(
            values.boolean,
            "requests to the kubelet server without credentials are those of `system:anonymous`;"
            " also `authentication.anonymous.enabled`",
            aliases=("authentication.anonymous.enabled",),
        ),
    ] = False
    authorizationMode: Annotated[
        Literal["Webhook", "AlwaysAllow"],
        Setting(
            values.one_of("Webhook", "AlwaysAllow"),
            "`Webhook` asks the cluster's API server what users may do; with `AlwaysAllow`, each"
            " authenticated user controls the node; also `authorization.mode`",
            aliases=("authorization.mode",),
        ),
    ] = "Webhook"
    authorizationWebhookCacheAuthorizedTTL: Annotated[
        float,
        Setting(
            values.duration_or(300.0),
            "how long a permission is remembered; also `authorization.webhook.cacheAuthorizedTTL`",
            aliases=("authorization.webhook.cacheAuthorizedTTL",),
        ),
    ] = 300.0
    authorizationWebhookCacheUnauthorizedTTL: Annotated[
        float,
        Setting(
            values.duration_or(30.0),
            "how long a refusal is remembered; also `authorization.webhook.cacheUnauthorizedTTL`",
            aliases=("authorization.webhook.cacheUnauthorizedTTL",),
        ),
    ] = 30.0
    servicesAddress: Annotated[
        str,
        Setting(
            values.address,
            "the address of node ports, load balancers and Ingresses; with any but a loopback"
            " address, other machines can reach [Services](services.md#from-this-machine)",
        ),
    ] = "127.0.0.1"
    ingressPort: Annotated[
        int,
        Setting(
            values.integer,
            "the port of [Ingresses](services.md#ingress), for HTTP and HTTPS; if it is in use, the"
            " next of the nine ports after it that is free; 0 serves no Ingresses",
            bound=Bound(lambda port: 0 <= port < 65527, "must be between 0 and 65526, inclusive"),
        ),
    ] = 8480
    bootstrapKubeconfig: Annotated[
        Path | None,
        Setting(
            values.path,
            "the kubeconfig with which the first [certificate](cluster-node.md#certificates) of a"
            " node is requested, if `nodeKubeconfig` does not exist; then it is written",
            default="none",
            flag=Flag(
                "--bootstrap-kubeconfig", "FILE", "kubeconfig to request a client certificate with"
            ),
        ),
    ] = None
    kubeAPIQPS: Annotated[
        int,
        Setting(
            values.integer,
            "as a node of a cluster: requests to its API server per second; 0 means 5, as in"
            " Kubernetes' client library",
            bound=Bound(lambda number: number >= 0, "must not be a negative number"),
        ),
    ] = 50
    kubeAPIBurst: Annotated[
        int,
        Setting(
            values.integer,
            "the burst of requests that `kubeAPIQPS` allows; 0 means 10",
            bound=Bound(lambda number: number >= 0, "must not be a negative number"),
        ),
    ] = 100
    eventRecordQPS: Annotated[
        int,
        Setting(
            values.integer,
            "as a node of a cluster: events written to its API server per second; 0 means 5, as in"
            " Kubernetes' client library",
            bound=Bound(lambda number: number >= 0, "must not be a negative number"),
        ),
    ] = 50
    eventBurst: Annotated[
        int,
        Setting(
            values.integer,
            "the burst of events that `eventRecordQPS` allows; 0 means 10",
            bound=Bound(lambda number: number >= 0, "must not be a negative number"),
        ),
    ] = 100
    rotateCertificates: Annotated[
        bool,
        Setting(
            values.boolean,
            "as a node of a cluster: request another client certificate before it expires",
        ),
    ] = True
    serverTLSBootstrap: Annotated[
        bool,
        Setting(
            values.boolean,
            "as a node of a cluster: request the serving certificate from the cluster, instead of"
            " a self-signed one",
        ),
    ] = False
    auditLog: Annotated[
        bool,
        Setting(
            values.boolean,
            "record writes and sessions of the API in the [audit log](security.md#audit-log)",
        ),
    ] = False
    theme: Annotated[
        str,
        Setting(
            values.text,
            "a file of `themes/`, without its extension",
            flag=Flag("--theme", "NAME", "initial theme"),
            screen=True,
        ),
    ] = ""
    readOnly: Annotated[
        bool,
        Setting(
            values.boolean,
            "read-only screen: no edit, delete, restart, shell or copy",
            flag=Flag("--readonly", "", "make the screen read-only"),
            screen=True,
        ),
    ] = False
    keys: Annotated[
        _Map,
        Setting(
            values.keys_by_binding, "[custom keys](#keys), by the id of the binding", screen=True
        ),
    ] = {}
    commands: Annotated[
        tuple[object, ...],
        Setting(
            values.commands,
            "[custom commands](#custom-commands)",
            screen=True,
            verbatim=True,
            file_only=True,
        ),
    ] = ()
    """As written. They are checked where the bindings are known."""
    hotkeys: Annotated[
        _Map,
        Setting(
            values.lines_by_key,
            "[keys that run a `:` command](#hotkeys)",
            screen=True,
            verbatim=True,
        ),
    ] = {}
    notifyOn: Annotated[
        tuple[str, ...],
        Setting(
            values.some_of(NOTIFY_ON),
            "[events to notify of](#notifications): `crashLoop`, `failed`, `ready` (again),"
            " `nodeNotReady`",
            default="all four",
            screen=True,
        ),
    ] = NOTIFY_ON
    notifyBy: Annotated[
        tuple[str, ...],
        Setting(
            values.some_of(NOTIFY_BY),
            "notification through the terminal: `bell`, `osc9`",
            screen=True,
        ),
    ] = ()
    notifyCommand: Annotated[
        tuple[str, ...],
        Setting(
            values.command,
            "a program to run for each notification, as a list: the program and its arguments",
            screen=True,
        ),
    ] = ()
    nodeKubeconfig: Annotated[
        Path | None,
        Setting(
            values.path,
            "a kubeconfig with the credentials of a node: the agent is then the kubelet of that"
            " [cluster](cluster-node.md), and not a cluster of its own",
            default="none",
            flag=Flag("--node-kubeconfig", "FILE", "join a cluster with the node's kubeconfig"),
        ),
    ] = None
    kubeletStrict: Annotated[
        bool,
        Setting(values.boolean, "disable the [departures](departures.md) from the kubelet"),
    ] = False
    enableScheduler: Annotated[
        bool,
        Setting(
            values.boolean,
            "choose a node for pods that are created without one ([scheduler](scheduler.md))",
        ),
    ] = True
    volumePath: Annotated[
        Path | None,
        Setting(
            values.path,
            "the directory of the [volumes](volumes.md) of the storage class `standard`, on the"
            " engine's machine",
            default="`volumes` in the root directory",
        ),
    ] = None
    enableControllers: Annotated[
        bool,
        Setting(
            values.boolean,
            "run the [controllers](controllers.md) of Deployments and other kinds",
        ),
    ] = True
    maxPods: Annotated[int, Setting(values.positive, "the maximum number of pods on the node")] = (
        110
    )
    systemReserved: Annotated[
        _Map, Setting(values.text_map, "subtracted from capacity: `{cpu: 100m, memory: 256Mi}`")
    ] = {}
    kubeReserved: Annotated[
        _Map, Setting(values.text_map, "also subtracted from capacity, for podtui itself")
    ] = {}
    evictionHard: Annotated[
        _Map,
        Setting(
            values.text_map,
            "the minimum that must stay available (`100Mi`, `10%`) of `memory.available`,"
            " `nodefs.available`, `nodefs.inodesFree`, `imagefs.available`, `imagefs.inodesFree`,"
            " `pid.available`; the first two reduce allocatable. Your thresholds replace all of the"
            " kubelet's",
            default="the kubelet's",
        ),
    ] = field(default_factory=lambda: dict(EVICTION_HARD))
    mergeDefaultEvictionSettings: Annotated[
        bool, Setting(values.boolean, "your thresholds replace only those of the same signal")
    ] = False
    evictionSoft: Annotated[
        _Map,
        Setting(values.text_map, "soft thresholds; each signal also needs a grace period"),
    ] = {}
    evictionSoftGracePeriod: Annotated[
        Mapping[str, float],
        Setting(
            values.durations, "by signal: how long a soft threshold must be met before podtui acts"
        ),
    ] = {}
    evictionMinimumReclaim: Annotated[
        _Map, Setting(values.text_map, "how much to reclaim beyond the threshold")
    ] = {}
    evictionPressureTransitionPeriod: Annotated[
        float,
        Setting(
            values.duration_or(300.0),
            "how long a pressure condition is kept after the pressure was last observed",
        ),
    ] = 300.0
    evictionMaxPodGracePeriod: Annotated[
        int,
        Setting(
            values.integer,
            "the longest grace period of a pod evicted by a soft threshold, in seconds",
            bound=Bound(lambda seconds: seconds >= 0, "must not be negative"),
        ),
    ] = 0
    fileCheckFrequency: Annotated[
        float,
        Setting(
            values.duration_or(20.0),
            "interval of full lists of the folder, in addition to the watch",
        ),
    ] = 20.0
    syncFrequency: Annotated[
        float, Setting(values.duration_or(60.0), "interval at which a pod without events is synced")
    ] = 60.0
    maxContainerRestartPeriod: Annotated[
        float,
        Setting(
            values.duration,
            "cap of the crash-loop back-off, 1s to 300s; also under `crashLoopBackOff`",
            bound=Bound(lambda seconds: 1 <= seconds <= 300, "must be between 1s and 300s"),
            aliases=("crashLoopBackOff.maxContainerRestartPeriod",),
        ),
    ] = 300.0
    serializeImagePulls: Annotated[bool, Setting(values.boolean, "one image pull at a time")] = True
    maxParallelImagePulls: Annotated[
        int,
        Setting(
            values.positive,
            "the maximum number of parallel pulls if they are not serialized",
            default="no limit",
        ),
    ] = 0
    registryPullQPS: Annotated[
        int,
        Setting(
            values.integer,
            "pulls per second; 0 means no limit",
            bound=Bound(lambda number: number >= 0, "must not be a negative number"),
        ),
    ] = 5
    registryBurst: Annotated[
        int,
        Setting(
            values.integer,
            "the burst of pulls that `registryPullQPS` allows",
            bound=Bound(lambda number: number >= 0, "must not be a negative number"),
        ),
    ] = 10
    imageGCHighThresholdPercent: Annotated[
        int,
        Setting(
            values.percent,
            "disk usage at which podtui starts to delete unused images that it pulled; 100 disables"
            " this",
        ),
    ] = 85
    imageGCLowThresholdPercent: Annotated[
        int, Setting(values.percent, "disk usage at which it stops deleting them")
    ] = 80
    imageMinimumGCAge: Annotated[
        float, Setting(values.duration_or(120.0), "images younger than this are kept")
    ] = 120.0
    imageMaximumGCAge: Annotated[
        float,
        Setting(
            values.duration,
            "unused images older than this are deleted at any disk usage; 0 disables this",
        ),
    ] = 0.0
    allowedUnsafeSysctls: Annotated[
        tuple[str, ...], Setting(values.texts, "patterns such as `net.core.*`")
    ] = ()
    nodeLabels: Annotated[
        _Map, Setting(values.text_map, "labels of the node, for `nodeSelector`")
    ] = {}
    registerNode: Annotated[
        bool,
        Setting(values.boolean, "create the node if it does not exist"),
    ] = True
    registerWithTaints: Annotated[
        tuple[tuple[str, str, str], ...],
        Setting(
            values.taints,
            "taints that the node has when it is created, such as `dedicated=web:NoSchedule`",
        ),
    ] = ()
    """Key, value and effect of each."""
    clusterDNS: Annotated[
        tuple[str, ...],
        Setting(
            values.texts,
            "name servers for pods with `ClusterFirst`, instead of the built-in one",
        ),
    ] = ()
    clusterDomain: Annotated[
        str,
        Setting(
            values.any_text,
            "domain of the names of Services, and search domain for pods with `ClusterFirst`",
        ),
    ] = "cluster.local"
    resolvConf: Annotated[
        str,
        Setting(
            values.any_text,
            "the node's resolver file, for a local engine; if empty, the engine decides",
        ),
    ] = "/etc/resolv.conf"
    seccompDefault: Annotated[
        bool,
        Setting(values.boolean, "use `RuntimeDefault` for containers without a seccomp profile"),
    ] = False
    cpuCFSQuota: Annotated[bool, Setting(values.boolean, "enforce cpu limits")] = True
    cpuCFSQuotaPeriod: Annotated[
        float,
        Setting(
            values.duration,
            "the period of cpu limits, 1ms to 1s",
            bound=Bound(lambda seconds: 0.001 <= seconds <= 1, "must be between 1ms and 1s"),
        ),
    ] = 0.1
    cpuManagerPolicy: Annotated[
        Literal["none", "static"],
        Setting(
            values.one_of("none", "static"),
            "`static`: containers of Guaranteed pods that request whole CPUs get them exclusively",
        ),
    ] = "none"
    cpuManagerPolicyOptions: Annotated[
        _Map,
        Setting(
            values.text_map,
            "`full-pcpus-only`, `distribute-cpus-across-numa`, `align-by-socket`,"
            " `distribute-cpus-across-cores`, `strict-cpu-reservation`,"
            " `prefer-align-cpus-by-uncorecache`: each `true` or `false`",
        ),
    ] = {}
    cpuManagerReconcilePeriod: Annotated[
        float,
        Setting(
            values.duration_or(10.0), "interval at which the CPUs of running containers are updated"
        ),
    ] = 10.0
    reservedSystemCPUs: Annotated[
        str,
        Setting(
            values.cpu_set,
            "CPUs that are never exclusive, such as `0-1`; their number replaces the `cpu` of"
            " `systemReserved` and `kubeReserved`",
        ),
    ] = ""
    memoryManagerPolicy: Annotated[
        Literal["None", "Static"],
        Setting(
            values.one_of("None", "Static"),
            "`Static`: containers of Guaranteed pods get memory of specific NUMA nodes",
        ),
    ] = "None"
    reservedMemory: Annotated[
        tuple[tuple[int, Mapping[str, str]], ...],
        Setting(
            values.reserved_memory,
            "memory and huge pages, by NUMA node, that the memory manager does not allocate:"
            " `[{numaNode: 0, limits: {memory: 1Gi}}]`; the sum must equal what"
            " `systemReserved`, `kubeReserved` and `evictionHard` reserve",
        ),
    ] = ()
    topologyManagerPolicy: Annotated[
        Literal["none", "best-effort", "restricted", "single-numa-node"],
        Setting(
            values.one_of("none", "best-effort", "restricted", "single-numa-node"),
            "how CPUs and memory are aligned on NUMA nodes, and which pods are rejected",
        ),
    ] = "none"
    topologyManagerScope: Annotated[
        Literal["container", "pod"],
        Setting(
            values.one_of("container", "pod"), "`container` or `pod`: what is aligned as a whole"
        ),
    ] = "container"
    topologyManagerPolicyOptions: Annotated[
        _Map,
        Setting(values.text_map, "`prefer-closest-numa-nodes`, `max-allowable-numa-nodes`"),
    ] = {}
    pluginDir: Annotated[
        Path | None,
        Setting(
            values.optional_path,
            "the directory of `device-plugins/kubelet.sock` and `plugins_registry`; device plugins "
            "expect `/var/lib/kubelet`",
            default="the root directory",
        ),
    ] = None
    podPidsLimit: Annotated[
        int, Setting(values.integer, "maximum processes per container; -1 means no limit")
    ] = -1
    featureGates: Annotated[
        Mapping[str, bool],
        Setting(
            values.gates,
            "feature gates by name; only gates of features that podtui implements have an effect",
            default="the kubelet's",
        ),
    ] = {}
    containerLogMaxSize: Annotated[
        int, Setting(values.size, "size of a log file of a container", default="`10Mi`")
    ] = 10 * 1024 * 1024
    containerLogMaxFiles: Annotated[
        int,
        Setting(
            values.positive,
            "number of log files of a container, at least two",
            bound=Bound(lambda number: number >= 2, "must be greater than 1"),
        ),
    ] = 5
    shutdownGracePeriod: Annotated[
        float,
        Setting(
            values.duration,
            "time for pods to terminate when the [machine shuts down](systemd.md); 0 leaves the"
            " pods to the engine",
            bound=Bound(
                lambda seconds: not 0 < seconds < 1, "must be either zero or otherwise >= 1 sec"
            ),
        ),
    ] = 0.0
    shutdownGracePeriodCriticalPods: Annotated[
        float,
        Setting(
            values.duration,
            "the part of `shutdownGracePeriod` that is reserved for critical pods",
            bound=Bound(
                lambda seconds: not 0 < seconds < 1, "must be either zero or otherwise >= 1 sec"
            ),
        ),
    ] = 0.0
    shutdownGracePeriodByPodPriority: Annotated[
        tuple[tuple[int, int], ...],
        Setting(
            values.shutdown_steps,
            "periods by pod priority, instead of the two above:"
            " `[{priority: 0, shutdownGracePeriodSeconds: 60}]`",
            file_only=True,
        ),
    ] = ()
    """(priority, seconds) pairs, ascending."""

    @property
    def socket_path(self) -> Path:
        return self.rootDir / "podtui.sock"

    @property
    def lock_path(self) -> Path:
        return self.rootDir / "podtui.lock"

    @property
    def records_path(self) -> Path:
        """The records; a node of a cluster has others than an agent that is its own cluster."""
        return self.rootDir / (RECORDS if self.nodeKubeconfig is None else CLUSTER_RECORDS)

    @property
    def pki_path(self) -> Path:
        return self.rootDir / "pki"

    @property
    def volumes_path(self) -> Path:
        return self.volumePath or self.rootDir / "volumes"

    @property
    def kubeconfig_path(self) -> Path:
        return self.rootDir / "kubeconfig"

    @property
    def audit_log_path(self) -> Path:
        return self.rootDir / "audit.log"

    @property
    def agent_log_path(self) -> Path:
        return self.rootDir / "agent.log"


SETTINGS: Final[Mapping[str, Setting]] = {
    key: hint.__metadata__[0] for key, hint in get_type_hints(Settings, include_extras=True).items()
}
"""The declarations by key, in the order of `Settings`."""


def attribute_name(key: str) -> str:
    """Return a setting's name in Python's style: ``cpuCFSQuota`` becomes ``cpu_cfs_quota``, and
    ``reservedSystemCPUs`` ``reserved_system_cpus``."""
    boundaries = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s\b)[a-z])"
    return re.sub(boundaries, "_", key).lower()


def environment_name(key: str) -> str:
    """Return the environment variable of a setting: ``maxPods`` becomes ``PODTUI_MAX_PODS``."""
    return f"PODTUI_{attribute_name(key).upper()}"


def broken_rules(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (setting, problem) for each broken rule; a kubelet refuses the same configurations."""
    for key, setting in SETTINGS.items():
        if setting.bound is not None and not setting.bound.holds(getattr(settings, key)):
            yield key, setting.bound.text
    try:
        eviction_thresholds(
            hard=settings.evictionHard,
            soft=settings.evictionSoft,
            soft_grace=settings.evictionSoftGracePeriod,
            minimum_reclaim=settings.evictionMinimumReclaim,
        )
    except ThresholdError as error:
        yield error.setting, str(error)
    if settings.bootstrapKubeconfig is not None and settings.nodeKubeconfig is None:
        yield "bootstrapKubeconfig", "requires nodeKubeconfig, the file that is written with it"
    yield from _broken_image_rules(settings)
    yield from _broken_shutdown_rules(settings)


def _broken_image_rules(settings: Settings) -> Iterator[tuple[str, str]]:
    low, high = settings.imageGCLowThresholdPercent, settings.imageGCHighThresholdPercent
    if low >= high:
        yield (
            "imageGCLowThresholdPercent",
            f"{low} must be less than imageGCHighThresholdPercent {high}",
        )
    if 0 < settings.imageMaximumGCAge <= settings.imageMinimumGCAge:
        yield "imageMaximumGCAge", "must be greater than imageMinimumGCAge"
    if settings.maxParallelImagePulls > 1 and settings.serializeImagePulls:
        yield (
            "maxParallelImagePulls",
            "cannot be larger than 1 unless serializeImagePulls is set to false",
        )


def _broken_shutdown_rules(settings: Settings) -> Iterator[tuple[str, str]]:
    whole = settings.shutdownGracePeriod
    critical = settings.shutdownGracePeriodCriticalPods
    if critical > whole:
        yield "shutdownGracePeriodCriticalPods", "must be <= shutdownGracePeriod"
    steps = settings.shutdownGracePeriodByPodPriority
    if steps and (whole or critical):
        yield (
            "shutdownGracePeriodByPodPriority",
            "cannot be combined with shutdownGracePeriod or shutdownGracePeriodCriticalPods",
        )
    if any(seconds < 0 for _, seconds in steps):
        yield "shutdownGracePeriodByPodPriority", "must not contain negative seconds"
    if len({priority for priority, _ in steps}) < len(steps):
        yield "shutdownGracePeriodByPodPriority", "contains a priority twice"
