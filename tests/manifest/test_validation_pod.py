"""Rules of the pod as a whole: metadata, names, network, placement, operating system."""

from __future__ import annotations

from validation_cases import GONE, Edits, Expected, broken, container, only_error, table

from podtui.manifest.validation.errors import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
)

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
C0 = "spec.containers[0]"


@table(
    ("sound", {}, []),
    ("no name", {"metadata.name": ""}, [("metadata.name", REQUIRED)]),
    ("name with upper case", {"metadata.name": "Web"}, [("metadata.name", INVALID)]),
    ("name with underscore", {"metadata.name": "a_b"}, [("metadata.name", INVALID)]),
    ("name with dots", {"metadata.name": "a.b.c"}, []),
    ("name of 253", {"metadata.name": "a" * 253}, []),
    ("name of 254", {"metadata.name": "a" * 254}, [("metadata.name", INVALID)]),
    ("generateName with dash", {"metadata.generateName": "web-"}, []),
    (
        "generateName bad",
        {"metadata.generateName": "Web-"},
        [("metadata.generateName", INVALID)],
    ),
    ("no namespace", {"metadata.namespace": ""}, [("metadata.namespace", REQUIRED)]),
    ("namespace with dots", {"metadata.namespace": "a.b"}, [("metadata.namespace", INVALID)]),
    ("negative generation", {"metadata.generation": -1}, [("metadata.generation", INVALID)]),
    ("labels", {"metadata.labels": {"app.kubernetes.io/name": "Web_1.x"}}, []),
    ("label key", {"metadata.labels": {"-x": "a"}}, [("metadata.labels", INVALID)]),
    (
        "label key of two slashes",
        {"metadata.labels": {"a/b/c": ""}},
        [("metadata.labels", INVALID)],
    ),
    (
        "label key empty",
        {"metadata.labels": {"": "a"}},
        [("metadata.labels", INVALID), ("metadata.labels", INVALID)],
    ),
    ("label prefix empty", {"metadata.labels": {"/a": "a"}}, [("metadata.labels", INVALID)]),
    ("label value of 63", {"metadata.labels": {"a": "v" * 63}}, []),
    ("label value of 64", {"metadata.labels": {"a": "v" * 64}}, [("metadata.labels", INVALID)]),
    ("label value", {"metadata.labels": {"a": "b c"}}, [("metadata.labels", INVALID)]),
    ("annotation key in any case", {"metadata.annotations": {"Example.COM/a": "x y"}}, []),
    ("annotation key", {"metadata.annotations": {"a b": ""}}, [("metadata.annotations", INVALID)]),
    ("annotations of 256 KiB", {"metadata.annotations": {"a": "x" * (256 * 1024 - 1)}}, []),
    (
        "annotations too big",
        {"metadata.annotations": {"a": "x" * (256 * 1024)}},
        [("metadata.annotations", TOO_LONG)],
    ),
    ("owner", {"metadata.ownerReferences": [OWNER]}, []),
    (
        "owner without anything",
        {"metadata.ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
        [
            ("metadata.ownerReferences.apiVersion", INVALID),
            ("metadata.ownerReferences.kind", INVALID),
            ("metadata.ownerReferences.name", INVALID),
            ("metadata.ownerReferences.uid", INVALID),
        ],
    ),
    (
        "owner is an event",
        {"metadata.ownerReferences": [{**OWNER, "apiVersion": "v1", "kind": "Event"}]},
        [("metadata.ownerReferences", INVALID)],
    ),
    (
        "two controllers",
        {"metadata.ownerReferences": [{**OWNER, "controller": True}] * 2},
        [("metadata.ownerReferences", INVALID)],
    ),
    ("finalizer", {"metadata.finalizers": ["example.com/f", "orphan"]}, []),
    ("finalizer bad", {"metadata.finalizers": ["a b"]}, [("metadata.finalizers", INVALID)]),
    (
        "finalizers at odds",
        {"metadata.finalizers": ["orphan", "foregroundDeletion"]},
        [("metadata.finalizers", INVALID)],
    ),
    (
        "managed fields",
        {"metadata.managedFields": [{"operation": "Patch", "fieldsType": "V2"}]},
        [
            ("metadata.managedFields[0].operation", INVALID),
            ("metadata.managedFields[0].fieldsType", INVALID),
        ],
    ),
    (
        "managed fields too long",
        {
            "metadata.managedFields": [
                {"operation": "Apply", "manager": "m" * 128 + "\n", "subresource": "s" * 257}
            ]
        },
        [
            ("metadata.managedFields[0].manager", TOO_LONG),
            ("metadata.managedFields[0].manager", INVALID),
            ("metadata.managedFields[0].subresource", TOO_LONG),
        ],
    ),
)
def test_metadata(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def notes(**entries: str) -> Edits:
    return {"metadata.annotations": entries}


COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_MAIN = "container.seccomp.security.alpha.kubernetes.io/main"
APPARMOR_MAIN = "container.apparmor.security.beta.kubernetes.io/main"
TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
MIRROR = "kubernetes.io/config.mirror"


@table(
    ("cost", notes(**{COST: "-10"}), []),
    ("cost with plus", notes(**{COST: "+1"}), [(f"metadata.annotations[{COST}]", INVALID)]),
    ("cost leading zero", notes(**{COST: "08"}), [(f"metadata.annotations[{COST}]", INVALID)]),
    ("cost too big", notes(**{COST: "2147483648"}), [(f"metadata.annotations[{COST}]", INVALID)]),
    ("cost empty", notes(**{COST: ""}), [(f"metadata.annotations[{COST}]", INVALID)]),
    ("seccomp", notes(**{SECCOMP: "runtime/default"}), []),
    ("seccomp bad", notes(**{SECCOMP: "x"}), [(f"metadata.annotations.{SECCOMP}", INVALID)]),
    (
        "seccomp climbs",
        notes(**{SECCOMP_MAIN: "localhost/../x"}),
        [(f"metadata.annotations.{SECCOMP_MAIN}", INVALID)],
    ),
    ("apparmor", notes(**{APPARMOR_MAIN: "localhost/web"}), []),
    (
        "apparmor bad",
        notes(**{APPARMOR_MAIN: "web"}),
        [(f"metadata.annotations[{APPARMOR_MAIN}]", INVALID)],
    ),
    (
        "apparmor for nobody",
        notes(**{APPARMOR_MAIN + "x": "unconfined"}),
        [(f"metadata.annotations[{APPARMOR_MAIN}x]", INVALID)],
    ),
    ("tolerations", notes(**{TOLERATIONS: '[{"key":"a","operator":"Exists"}]'}), []),
    ("tolerations no JSON", notes(**{TOLERATIONS: "["}), [("metadata.annotations", INVALID)]),
    (
        "tolerations bad",
        notes(**{TOLERATIONS: '[{"key":"a","operator":"Is"}]'}),
        [(f"metadata.annotations.{TOLERATIONS}[0].operator", NOT_SUPPORTED)],
    ),
    (
        "mirror without node",
        {**notes(**{MIRROR: "x"}), "spec.nodeName": ""},
        [(f"metadata.annotations[{MIRROR}]", INVALID)],
    ),
    (
        "seccomp differs from the field",
        {
            **notes(**{SECCOMP: "unconfined"}),
            "spec.securityContext.seccompProfile": {"type": "RuntimeDefault"},
        },
        [("spec.securityContext.seccompProfile.type", FORBIDDEN)],
    ),
    (
        "container's seccomp differs",
        {
            **notes(**{SECCOMP_MAIN: "localhost/a"}),
            f"{C0}.securityContext": {
                "seccompProfile": {"type": "Localhost", "localhostProfile": "b"}
            },
        },
        [(f"{C0}.securityContext.seccompProfile.localhostProfile", FORBIDDEN)],
    ),
    (
        "apparmor differs from the pod's",
        {
            **notes(**{APPARMOR_MAIN: "unconfined"}),
            "spec.securityContext.appArmorProfile": {"type": "RuntimeDefault"},
        },
        [(f"{C0}.securityContext.appArmorProfile.type", FORBIDDEN)],
    ),
)
def test_annotations_with_a_meaning(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


@table(
    ("restartPolicy", {"spec.restartPolicy": "Sometimes"}, [("spec.restartPolicy", NOT_SUPPORTED)]),
    ("no restartPolicy", {"spec.restartPolicy": ""}, [("spec.restartPolicy", REQUIRED)]),
    ("dnsPolicy", {"spec.dnsPolicy": "Best"}, [("spec.dnsPolicy", NOT_SUPPORTED)]),
    ("no dnsPolicy", {"spec.dnsPolicy": ""}, [("spec.dnsPolicy", REQUIRED)]),
    (
        "no grace period",
        {"spec.terminationGracePeriodSeconds": GONE},
        [("spec.terminationGracePeriodSeconds", REQUIRED)],
    ),
    # The API server takes it and makes it one second.
    ("negative grace period", {"spec.terminationGracePeriodSeconds": -1}, []),
    ("deadline", {"spec.activeDeadlineSeconds": 2**31 - 1}, []),
    ("deadline 0", {"spec.activeDeadlineSeconds": 0}, [("spec.activeDeadlineSeconds", INVALID)]),
    (
        "deadline too far",
        {"spec.activeDeadlineSeconds": 2**31},
        [("spec.activeDeadlineSeconds", INVALID)],
    ),
    ("nodeName", {"spec.nodeName": "Node 1"}, [("spec.nodeName", INVALID)]),
    (
        "serviceAccountName",
        {"spec.serviceAccountName": "A_b"},
        [("spec.serviceAccountName", INVALID)],
    ),
    ("priorityClassName", {"spec.priorityClassName": "a_b"}, [("spec.priorityClassName", INVALID)]),
    ("runtimeClassName", {"spec.runtimeClassName": "a_b"}, [("spec.runtimeClassName", INVALID)]),
    ("preemptionPolicy", {"spec.preemptionPolicy": "Never"}, []),
    (
        "preemptionPolicy bad",
        {"spec.preemptionPolicy": "Always"},
        [("spec.preemptionPolicy", NOT_SUPPORTED)],
    ),
    ("nodeSelector", {"spec.nodeSelector": {"disk": "ssd disk"}}, [("spec.nodeSelector", INVALID)]),
    ("readiness gate", {"spec.readinessGates": [{"conditionType": "example.com/ready"}]}, []),
    (
        "readiness gate bad",
        {"spec.readinessGates": [{"conditionType": "a b"}]},
        [("spec.readinessGates[0].conditionType", INVALID)],
    ),
    (
        "scheduling gate",
        {"spec.schedulingGates": [{"name": "example.com/g"}]},
        [("spec.nodeName", FORBIDDEN)],
    ),
    (
        "scheduling gates without node",
        {
            "spec.nodeName": "",
            "spec.schedulingGates": [{"name": "g"}, {"name": "g"}, {"name": "a b"}],
        },
        [("spec.schedulingGates[1]", DUPLICATE), ("spec.schedulingGates[2]", INVALID)],
    ),
    ("overhead", {"spec.overhead": {"cpu": "100m", "memory": "64Mi"}}, []),
    ("overhead bad", {"spec.overhead": {"cpu": "-1"}}, [("spec.overhead.limits[cpu]", INVALID)]),
    (
        "scheduling group",
        {"spec.schedulingGroup": {"podGroupName": "A"}},
        [("spec.schedulingGroup.podGroupName", INVALID)],
    ),
    (
        "scheduling group empty",
        {"spec.schedulingGroup": {}},
        [("spec.schedulingGroup.podGroupName", INVALID)],
    ),
    ("resource claim", {"spec.resourceClaims": [{"name": "a", "resourceClaimName": "b"}]}, []),
    (
        "resource claims bad",
        {
            "spec.resourceClaims": [
                {"name": "", "resourceClaimName": "b"},
                {"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"},
                {"name": "a", "resourceClaimTemplateName": "B"},
                {"name": "A.b"},
            ]
        },
        [
            ("spec.resourceClaims[0].name", REQUIRED),
            ("spec.resourceClaims[1]", INVALID),
            ("spec.resourceClaims[2].name", DUPLICATE),
            ("spec.resourceClaims[2].resourceClaimTemplateName", INVALID),
            ("spec.resourceClaims[3].name", INVALID),
            ("spec.resourceClaims[3]", INVALID),
        ],
    ),
    (
        "resource claim of a mirror pod",
        {
            "metadata.annotations": {"kubernetes.io/config.mirror": "x"},
            "spec.resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
        },
        [("", FORBIDDEN)],
    ),
    (
        "old service account",
        {"spec.serviceAccount": "A"},
        [("spec.serviceAccountName", INVALID)],
    ),
    ("pull secret of any name", {"spec.imagePullSecrets": [{"name": "A_b"}]}, []),
    (
        "ephemeral container",
        {"spec.ephemeralContainers": [container("debug")]},
        [("spec.ephemeralContainers", FORBIDDEN)],
    ),
    ("no containers", {"spec.containers": []}, [("spec.containers", REQUIRED)]),
)
def test_spec(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


NONE: Edits = {"spec.dnsPolicy": "None"}


@table(
    ("None without config", NONE, [("spec.dnsConfig", REQUIRED)]),
    (
        "None without server",
        {**NONE, "spec.dnsConfig": {"searches": ["a"]}},
        [("spec.dnsConfig.nameservers", REQUIRED)],
    ),
    ("None", {**NONE, "spec.dnsConfig": {"nameservers": ["10.0.0.1", "2001:db8::1"]}}, []),
    (
        "four servers",
        {"spec.dnsConfig": {"nameservers": ["1.1.1.1"] * 4}},
        [("spec.dnsConfig.nameservers", INVALID)],
    ),
    (
        "no addresses",
        {"spec.dnsConfig": {"nameservers": ["dns", "010.0.0.1", "::ffff:1.2.3.4"]}},
        [(f"spec.dnsConfig.nameservers[{n}]", INVALID) for n in range(3)],
    ),
    (
        "zone",
        {"spec.dnsConfig": {"nameservers": ["fe80::1%eth0"]}},
        [("spec.dnsConfig.nameservers[0]", INVALID)],
    ),
    ("searches", {"spec.dnsConfig": {"searches": [".", "a.b.", "_tcp.x_y.z"]}}, []),
    (
        "search bad",
        {"spec.dnsConfig": {"searches": ["a", "A"]}},
        [("spec.dnsConfig.searches[1]", INVALID)],
    ),
    ("32 searches", {"spec.dnsConfig": {"searches": ["a"] * 32}}, []),
    (
        "33 searches",
        {"spec.dnsConfig": {"searches": ["a"] * 33}},
        [("spec.dnsConfig.searches", INVALID)],
    ),
    ("2048 characters", {"spec.dnsConfig": {"searches": ["a" * 127] * 16}}, []),
    (
        "2049 characters",
        {"spec.dnsConfig": {"searches": ["a" * 127] * 15 + ["a" * 129]}},
        [("spec.dnsConfig.searches", INVALID)],
    ),
    (
        "option without name",
        {"spec.dnsConfig": {"options": [{"name": "ndots", "value": "2"}, {"value": "1"}]}},
        [("spec.dnsConfig.options[1]", REQUIRED)],
    ),
    ("alias", {"spec.hostAliases": [{"ip": "127.0.0.1", "hostnames": ["a.b", "c"]}]}, []),
    (
        "alias bad",
        {"spec.hostAliases": [{"ip": "localhost", "hostnames": ["a", "B_c"]}]},
        [("spec.hostAliases[0].ip", INVALID), ("spec.hostAliases[0].hostnames[1]", INVALID)],
    ),
    ("hostname", {"spec.hostname": "web", "spec.subdomain": "sub"}, []),
    (
        "hostname with dots",
        {"spec.hostname": "a.b", "spec.subdomain": "A"},
        [("spec.hostname", INVALID), ("spec.subdomain", INVALID)],
    ),
    ("override", {"spec.hostnameOverride": "a.example.com"}, []),
    (
        "override too long",
        {"spec.hostnameOverride": "a" * 65},
        [("spec.hostnameOverride", TOO_LONG)],
    ),
    ("override bad", {"spec.hostnameOverride": "A"}, [("spec.hostnameOverride", INVALID)]),
    (
        "override with others",
        {
            "spec.hostnameOverride": "a",
            "spec.setHostnameAsFQDN": True,
            "spec.hostNetwork": True,
        },
        [("spec.hostnameOverride", FORBIDDEN)] * 2,
    ),
    (
        "host network",
        {
            "spec.hostNetwork": True,
            f"{C0}.ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
        },
        [],
    ),
    (
        "host network with another port",
        {
            "spec.hostNetwork": True,
            f"{C0}.ports": [{"containerPort": 80, "hostPort": 81, "protocol": "TCP"}],
        },
        [(f"{C0}.ports[0].hostPort", INVALID)],
    ),
)
def test_network(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


SC = "spec.securityContext"


@table(
    ("ids", {SC: {"fsGroup": 0, "runAsUser": 2**31 - 1, "supplementalGroups": [1]}}, []),
    (
        "ids out of range",
        {SC: {"fsGroup": -1, "runAsUser": 2**31, "runAsGroup": -5, "supplementalGroups": [0, -1]}},
        [
            (f"{SC}.fsGroup", INVALID),
            (f"{SC}.runAsUser", INVALID),
            (f"{SC}.runAsGroup", INVALID),
            (f"{SC}.supplementalGroups[1]", INVALID),
        ],
    ),
    (
        "policies",
        {
            SC: {
                "fsGroupChangePolicy": "OnRootMismatch",
                "supplementalGroupsPolicy": "Strict",
                "seLinuxChangePolicy": "Recursive",
            }
        },
        [],
    ),
    (
        "policies bad",
        {
            SC: {
                "fsGroupChangePolicy": "x",
                "supplementalGroupsPolicy": "x",
                "seLinuxChangePolicy": "MountOption",
            }
        },
        [
            (f"{SC}.fsGroupChangePolicy", NOT_SUPPORTED),
            (f"{SC}.supplementalGroupsPolicy", NOT_SUPPORTED),
            (f"{SC}.seLinuxChangePolicy", NOT_SUPPORTED),
        ],
    ),
    ("sysctl", {f"{SC}.sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}]}, []),
    ("sysctl with slashes", {f"{SC}.sysctls": [{"name": "net/ipv4/eth0.1/x", "value": "1"}]}, []),
    (
        "sysctls bad",
        {
            f"{SC}.sysctls": [
                {"name": "", "value": ""},
                {"name": "Net.x", "value": ""},
                {"name": "a.b", "value": ""},
                {"name": "a.b", "value": ""},
            ]
        },
        [
            (f"{SC}.sysctls[0].name", REQUIRED),
            (f"{SC}.sysctls[1].name", INVALID),
            (f"{SC}.sysctls[3].name", DUPLICATE),
        ],
    ),
    (
        "sysctl of the host's network",
        {"spec.hostNetwork": True, f"{SC}.sysctls": [{"name": "net/core/somaxconn", "value": "1"}]},
        [(f"{SC}.sysctls[0].name", INVALID)],
    ),
    (
        "sysctl of the host's IPC",
        {
            "spec.hostIPC": True,
            f"{SC}.sysctls": [
                {"name": "kernel.shmmax", "value": "1"},
                {"name": "fs.mqueue.msg_max", "value": "1"},
                {"name": "net.core.somaxconn", "value": "1"},
            ],
        },
        [(f"{SC}.sysctls[0].name", INVALID), (f"{SC}.sysctls[1].name", INVALID)],
    ),
    (
        "shared processes on the host's",
        {"spec.hostPID": True, "spec.shareProcessNamespace": True},
        [(f"{SC}.shareProcessNamespace", INVALID)],
    ),
    (
        "own users in the host's namespaces",
        {
            "spec.hostUsers": False,
            "spec.hostNetwork": True,
            "spec.hostPID": True,
            "spec.hostIPC": True,
        },
        [("spec.hostNetwork", FORBIDDEN), ("spec.HostPID", FORBIDDEN), ("spec.HostIPC", FORBIDDEN)],
    ),
    ("own users", {"spec.hostUsers": False}, []),
    (
        "profiles",
        {SC: {"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": "Custom"}}},
        [
            (f"{SC}.seccompProfile.localhostProfile", REQUIRED),
            (f"{SC}.appArmorProfile.type", NOT_SUPPORTED),
        ],
    ),
)
def test_security(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def windows(**fields: object) -> Edits:
    """A Windows pod, without the toleration and context that matter on Linux alone."""
    return {"spec.os": {"name": "windows"}, **{f"spec.{key}": v for key, v in fields.items()}}


HOST_PROCESS = {"windowsOptions": {"hostProcess": True}}


@table(
    ("linux", {"spec.os": {"name": "linux"}}, []),
    ("windows", windows(), []),
    ("unknown", {"spec.os": {"name": "plan9"}}, [("spec.os", NOT_SUPPORTED)]),
    ("empty", {"spec.os": {"name": ""}}, [("spec.os.name", REQUIRED)]),
    (
        "windows options on linux",
        {
            "spec.os": {"name": "linux"},
            f"{SC}.windowsOptions": {},
            f"{C0}.securityContext": {"windowsOptions": {}},
        },
        [(f"{SC}.windowsOptions", FORBIDDEN), (f"{C0}.securityContext.windowsOptions", FORBIDDEN)],
    ),
    (
        "linux fields on windows",
        {
            **windows(hostPID=True, hostIPC=True, hostUsers=True, shareProcessNamespace=False),
            SC: {"runAsUser": 1, "fsGroup": 2, "sysctls": [{"name": "a", "value": "b"}]},
            f"{C0}.securityContext": {"privileged": False, "capabilities": {}, "runAsGroup": 1},
        },
        [
            (f"{SC}.fsGroup", FORBIDDEN),
            (f"{SC}.sysctls", FORBIDDEN),
            (f"{SC}.runAsUser", FORBIDDEN),
            ("spec.hostUsers", FORBIDDEN),
            ("spec.hostPID", FORBIDDEN),
            ("spec.hostIPC", FORBIDDEN),
            ("spec.shareProcessNamespace", FORBIDDEN),
            (f"{C0}.securityContext.capabilities", FORBIDDEN),
            (f"{C0}.securityContext.privileged", FORBIDDEN),
            (f"{C0}.securityContext.runAsGroup", FORBIDDEN),
        ],
    ),
    ("host process", {SC: HOST_PROCESS, "spec.hostNetwork": True}, []),
    ("host process off the network", {SC: HOST_PROCESS}, [("spec.hostNetwork", INVALID)]),
    (
        "host process for some",
        {
            "spec.containers": [container(), container("b", securityContext=HOST_PROCESS)],
            "spec.hostNetwork": True,
        },
        [("spec", INVALID)],
    ),
    (
        "host process at odds",
        {
            SC: {"windowsOptions": {"hostProcess": False}},
            f"{C0}.securityContext": HOST_PROCESS,
            "spec.hostNetwork": True,
        },
        [(f"{C0}.securityContext.windowsOptions.hostProcess", INVALID)],
    ),
    (
        "pod resources on windows",
        windows(resources={"limits": {"cpu": "1"}}),
        [("spec.resources", FORBIDDEN)],
    ),
    ("user", {f"{SC}.windowsOptions": {"runAsUserName": r"corp.example\Jane"}}, []),
    *(
        (
            f"user {name!r}",
            {f"{SC}.windowsOptions": {"runAsUserName": name}},
            [(f"{SC}.windowsOptions.runAsUserName", INVALID)] * count,
        )
        for name, count in (
            ("a\nb", 1),
            (r"a\b\c", 1),
            (r"a:b*\x", 1),
            ("..", 1),
            ("a@b", 1),
            ("x" * 105, 1),
            ("dom\\", 1),
            ("d" * 256 + r"\x", 2),
        )
    ),
    (
        "credential",
        {
            f"{SC}.windowsOptions": {
                "gmsaCredentialSpecName": "A",
                "gmsaCredentialSpec": "x" * 65537,
            }
        },
        [
            (f"{SC}.windowsOptions.gmsaCredentialSpecName", INVALID),
            (f"{SC}.windowsOptions.gmsaCredentialSpec", INVALID),
        ],
    ),
)
def test_operating_system(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


NODE = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
NODE_TERM = f"{NODE}.nodeSelectorTerms[0]"
POD = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
PREFER_NODE = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
PREFER_POD = "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = "spec.topologySpreadConstraints"
EVENLY = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


def node(*expressions: object, fields: object = ()) -> Edits:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}  # type: ignore[call-overload]
    return {NODE: {"nodeSelectorTerms": [term]}}


@table(
    ("node", node(expression("a", "In", "b"), expression("n", "Gt", "1")), []),
    ("no terms", {NODE: {"nodeSelectorTerms": []}}, [(f"{NODE}.nodeSelectorTerms", REQUIRED)]),
    (
        "node operators",
        node(
            expression("a", "In"),
            expression("a", "Exists", "b"),
            expression("a", "Lt", "1", "2"),
            expression("a", "Like", "b"),
            expression("", "Exists"),
            expression("a", "NotIn", "b c"),
        ),
        [
            (f"{NODE_TERM}.matchExpressions[0].values", REQUIRED),
            (f"{NODE_TERM}.matchExpressions[1].values", FORBIDDEN),
            (f"{NODE_TERM}.matchExpressions[2].values", REQUIRED),
            (f"{NODE_TERM}.matchExpressions[3].operator", INVALID),
            (f"{NODE_TERM}.matchExpressions[4].key", INVALID),
            (f"{NODE_TERM}.matchExpressions[4].key", INVALID),
            (f"{NODE_TERM}.matchExpressions[5].values[0]", INVALID),
        ],
    ),
    ("node fields", node(fields=[expression("metadata.name", "In", "node")]), []),
    (
        "node fields bad",
        node(
            fields=[
                expression("metadata.name", "In", "a", "b"),
                expression("metadata.name", "Exists"),
                expression("metadata.uid", "In", "a"),
                expression("metadata.name", "In", "A"),
            ]
        ),
        [
            (f"{NODE_TERM}.matchFields[0].values", REQUIRED),
            (f"{NODE_TERM}.matchFields[1].operator", INVALID),
            (f"{NODE_TERM}.matchFields[2].key", INVALID),
            (f"{NODE_TERM}.matchFields[3].values[0]", INVALID),
        ],
    ),
    (
        "weights",
        {
            PREFER_NODE: [
                {"weight": 0, "preference": {}},
                {"weight": 100, "preference": {"matchExpressions": [expression("a", "In", "b c")]}},
            ],
            PREFER_POD: [{"weight": 101, "podAffinityTerm": {"topologyKey": "zone"}}],
        },
        [(f"{PREFER_NODE}[0].weight", INVALID), (f"{PREFER_POD}[0].weight", INVALID)],
    ),
    (
        "pod term",
        {
            POD: [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"a": "b"}},
                    "matchLabelKeys": ["c"],
                    "mismatchLabelKeys": ["d"],
                    "namespaces": ["default"],
                }
            ]
        },
        [],
    ),
    (
        "pod term bad",
        {
            POD: [
                {
                    "topologyKey": "",
                    "labelSelector": {"matchExpressions": [expression("a", "Gt", "1")]},
                    "namespaceSelector": {"matchLabels": {"a b": "c"}},
                    "namespaces": ["A"],
                    "matchLabelKeys": ["a b", "x"],
                    "mismatchLabelKeys": ["x"],
                }
            ]
        },
        [
            (f"{POD}[0].labelSelector.matchExpressions[0].operator", INVALID),
            (f"{POD}[0].namespaceSelector.matchLabels", INVALID),
            (f"{POD}[0].namespace", INVALID),
            (f"{POD}[0].matchLabelKeys[0]", INVALID),
            (f"{POD}[0].matchLabelKeys[1]", INVALID),
            (f"{POD}[0].topologyKey", REQUIRED),
            (f"{POD}[0].topologyKey", INVALID),
            (f"{POD}[0].topologyKey", INVALID),
        ],
    ),
    (
        "keys without selector",
        {POD: [{"topologyKey": "zone", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"]}]},
        [(f"{POD}[0].matchLabelKeys", FORBIDDEN), (f"{POD}[0].mismatchLabelKeys", FORBIDDEN)],
    ),
    (
        "key in both",
        {
            POD: [
                {
                    "topologyKey": "zone",
                    "matchLabelKeys": ["a"],
                    "labelSelector": {
                        "matchLabels": {"a": "b"},
                        "matchExpressions": [expression("a", "In", "b")],
                    },
                }
            ]
        },
        [(f"{POD}[0][0]", INVALID)],
    ),
    ("spread", {SPREAD: [{**EVENLY, "minDomains": 2, "nodeTaintsPolicy": "Honor"}]}, []),
    (
        "spread bad",
        {
            SPREAD: [
                {
                    "maxSkew": 0,
                    "topologyKey": "",
                    "whenUnsatisfiable": "Wait",
                    "minDomains": 0,
                    "nodeAffinityPolicy": "x",
                    "nodeTaintsPolicy": "y",
                    "matchLabelKeys": ["a"],
                }
            ]
        },
        [
            (f"{SPREAD}[0].maxSkew", INVALID),
            (f"{SPREAD}[0].topologyKey", REQUIRED),
            (f"{SPREAD}[0].whenUnsatisfiable", NOT_SUPPORTED),
            (f"{SPREAD}[0].minDomains", INVALID),
            (f"{SPREAD}[0].minDomains", INVALID),
            (f"{SPREAD}[0].nodeAffinityPolicy", NOT_SUPPORTED),
            (f"{SPREAD}[0].nodeTaintsPolicy", NOT_SUPPORTED),
            (f"{SPREAD}[0].matchLabelKeys", FORBIDDEN),
        ],
    ),
    (
        "spread twice",
        {SPREAD: [EVENLY, EVENLY]},
        [(f"{SPREAD}[0].{{topologyKey, whenUnsatisfiable}}", DUPLICATE)],
    ),
)
def test_affinity_and_spread(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def toleration(**fields: object) -> Edits:
    return {"spec.tolerations": [fields]}


T0 = "spec.tolerations[0]"


@table(
    ("equal", toleration(key="a", value="b", effect="NoSchedule"), []),
    ("exists", toleration(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=5), []),
    ("key", toleration(key="a b", operator="Exists"), [(f"{T0}.key", INVALID)]),
    ("all of one value", toleration(operator="Equal"), [(f"{T0}.operator", INVALID)]),
    (
        "seconds for another effect",
        toleration(operator="Exists", tolerationSeconds=1),
        [(f"{T0}.effect", INVALID)],
    ),
    ("value", toleration(key="a", value="b c"), [(f"{T0}.operator", INVALID)]),
    (
        "exists with a value",
        toleration(key="a", operator="Exists", value="b"),
        [(f"{T0}.operator", INVALID)],
    ),
    ("less", toleration(key="a", operator="Lt", value="1"), [(f"{T0}.operator", NOT_SUPPORTED)]),
    ("operator", toleration(key="a", operator="Is"), [(f"{T0}.operator", NOT_SUPPORTED)]),
    ("effect", toleration(key="a", effect="Nothing"), [(f"{T0}.effect", NOT_SUPPORTED)]),
)
def test_tolerations(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def pod_level(containers: Edits, **own: object) -> Edits:
    return {"spec.resources": own, f"{C0}.resources": containers}


@table(
    ("enough", pod_level({"requests": {"cpu": "1"}}, requests={"cpu": "1"}), []),
    (
        "less than the containers",
        pod_level({"requests": {"cpu": "1100m"}}, requests={"cpu": "1"}),
        [("spec.resources.requests[cpu]", INVALID)],
    ),
    (
        "a container above the pod",
        pod_level({"limits": {"memory": "2Gi"}}, limits={"memory": "1Gi"}),
        [("spec.resources.containers[0][memory].limits", INVALID)],
    ),
    (
        "huge pages less than the containers'",
        pod_level(
            {
                "requests": {"hugepages-2Mi": "4Mi", "cpu": "1"},
                "limits": {"hugepages-2Mi": "4Mi", "cpu": "1"},
            },
            limits={"hugepages-2Mi": "2Mi", "cpu": "1"},
        ),
        [
            ("spec.resources.limits[hugepages-2Mi]", INVALID),
            ("spec.resources.containers[0][hugepages-2Mi].limits", INVALID),
        ],
    ),
    (
        "an unfit resource",
        pod_level({}, limits={"ephemeral-storage": "1Gi"}),
        [("spec.resources.limits[ephemeral-storage]", NOT_SUPPORTED)],
    ),
    (
        "claims",
        {"spec.resources": {"claims": [{"name": "a"}]}},
        [("spec.resources.claims", FORBIDDEN), ("spec.resources.claims[0]", NOT_FOUND)],
    ),
    (
        "a sidecar counts beside the others",
        {
            "spec.resources": {"requests": {"cpu": "2"}},
            f"{C0}.resources": {"requests": {"cpu": "1"}},
            "spec.initContainers": [
                container("s", restartPolicy="Always", resources={"requests": {"cpu": "1500m"}})
            ],
        },
        [("spec.resources.requests[cpu]", INVALID)],
    ),
    (
        "an init container counts alone",
        {
            "spec.resources": {"requests": {"cpu": "2"}},
            f"{C0}.resources": {"requests": {"cpu": "1"}},
            "spec.initContainers": [container("i", resources={"requests": {"cpu": "1500m"}})],
        },
        [],
    ),
)
def test_pod_level_resources(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def test_the_sum_is_named() -> None:
    error = only_error(pod_level({"requests": {"memory": "1536Mi"}}, requests={"memory": "1Gi"}))
    assert error.message() == (
        'spec.resources.requests[memory]: Invalid value: "1Gi": must be greater than or equal to'
        " aggregate container requests of 1536Mi"
    )
