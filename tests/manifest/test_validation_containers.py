"""Rules of containers: names, images, ports, variables, mounts, resources, probes, hooks."""

from __future__ import annotations

from typing import Any

from validation_cases import (
    Edits,
    Expected,
    broken,
    container,
    handler,
    probe,
    table,
    volume,
)

from podtui.manifest.validation.errors import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
)

C0 = "spec.containers[0]"
I0 = "spec.initContainers[0]"


def main(**fields: Any) -> Edits:
    return {"spec.containers": [container(**fields)]}


def init(**fields: Any) -> Edits:
    return {"spec.initContainers": [container(**{"name": "setup", **fields})]}


@table(
    ("no name", main(name=""), [(f"{C0}.name", REQUIRED)]),
    ("name with dots", main(name="a.b"), [(f"{C0}.name", INVALID)]),
    ("name of 63", main(name="a" * 63), []),
    ("name of 64", main(name="a" * 64), [(f"{C0}.name", INVALID)]),
    (
        "name twice",
        {"spec.containers": [container("a"), container("a")]},
        [("spec.containers[1].name", DUPLICATE)],
    ),
    ("name of an init container too", init(name="main"), [(f"{I0}.name", DUPLICATE)]),
    (
        "name of two init containers",
        {"spec.initContainers": [container("a"), container("a")]},
        [("spec.initContainers[1].name", DUPLICATE)],
    ),
    ("no image", main(image=""), [(f"{C0}.image", REQUIRED)]),
    ("padded image", main(image=" a:1"), [(f"{C0}.image", INVALID)]),
    ("padded init image", init(image="a:1\n"), [(f"{I0}.image", INVALID)]),
    ("command empty", main(command=[], args=[]), []),
    ("pull policy", main(imagePullPolicy="Often"), [(f"{C0}.imagePullPolicy", NOT_SUPPORTED)]),
    ("no pull policy", main(imagePullPolicy=""), [(f"{C0}.imagePullPolicy", REQUIRED)]),
    (
        "message policy",
        main(terminationMessagePolicy="Logs"),
        [(f"{C0}.terminationMessagePolicy", NOT_SUPPORTED)],
    ),
    (
        "no message policy",
        main(terminationMessagePolicy=""),
        [(f"{C0}.terminationMessagePolicy", REQUIRED)],
    ),
    ("message policy logs", main(terminationMessagePolicy="FallbackToLogsOnError"), []),
    (
        "ephemeral container",
        {
            "spec.ephemeralContainers": [
                container(
                    "main",
                    targetContainerName="other",
                    ports=[{"containerPort": 1, "protocol": "TCP"}],
                    resources={"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                    lifecycle={},
                )
            ]
        },
        [
            ("spec.ephemeralContainers[0].name", DUPLICATE),
            ("spec.ephemeralContainers[0].targetContainerName", NOT_FOUND),
            ("spec.ephemeralContainers[0].ports", FORBIDDEN),
            ("spec.ephemeralContainers[0].resources", FORBIDDEN),
            ("spec.ephemeralContainers[0].lifecycle", FORBIDDEN),
            ("spec.ephemeralContainers", FORBIDDEN),
        ],
    ),
)
def test_names_and_images(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def port(number: int = 80, **fields: Any) -> dict[str, Any]:
    return {"containerPort": number, "protocol": "TCP", **fields}


def ports(*entries: Any) -> Edits:
    return main(ports=list(entries))


P0 = f"{C0}.ports[0]"


@table(
    ("sound", ports(port(1, name="http-1"), port(65535, protocol="SCTP")), []),
    ("zero", ports(port(0)), [(f"{P0}.containerPort", REQUIRED)]),
    ("too high", ports(port(65536)), [(f"{P0}.containerPort", INVALID)]),
    ("negative", ports(port(-1)), [(f"{P0}.containerPort", INVALID)]),
    ("host port", ports(port(hostPort=70000)), [(f"{P0}.hostPort", INVALID)]),
    ("no host port", ports(port(hostPort=0)), []),
    ("protocol", ports(port(protocol="tcp")), [(f"{P0}.protocol", NOT_SUPPORTED)]),
    ("no protocol", ports(port(protocol="")), [(f"{P0}.protocol", REQUIRED)]),
    ("name of 16", ports(port(name="a" * 16)), [(f"{P0}.name", INVALID)]),
    ("name in upper case", ports(port(name="Http")), [(f"{P0}.name", INVALID)]),
    ("name of digits", ports(port(name="80")), [(f"{P0}.name", INVALID)]),
    ("name with two hyphens", ports(port(name="a--b")), [(f"{P0}.name", INVALID)]),
    ("name ends in a hyphen", ports(port(name="a-")), [(f"{P0}.name", INVALID)]),
    (
        "name twice",
        ports(port(name="http"), port(81, name="http")),
        [(f"{C0}.ports[1].name", DUPLICATE)],
    ),
    (
        "name in two containers",
        {
            "spec.containers": [
                container(ports=[port(name="a")]),
                container("b", ports=[port(name="a")]),
            ]
        },
        [],
    ),
    ("container port twice", ports(port(), port()), []),
    (
        "host port twice",
        ports(port(hostPort=80), port(81, hostPort=80)),
        [(f"{C0}.ports[1].hostPort", DUPLICATE)],
    ),
    (
        "host port of two containers",
        {
            "spec.containers": [
                container(ports=[port(hostPort=80)]),
                container("b", ports=[port(hostPort=80)]),
            ]
        },
        [("spec.containers[1].ports[0].hostPort", DUPLICATE)],
    ),
    (
        "host port at two addresses or protocols",
        ports(
            port(hostPort=80),
            port(hostPort=80, hostIP="127.0.0.1"),
            port(hostPort=80, protocol="UDP"),
        ),
        [],
    ),
    (
        "init containers run one by one",
        {
            "spec.initContainers": [
                container("a", ports=[port(hostPort=80)]),
                container("b", ports=[port(hostPort=80)]),
            ]
        },
        [],
    ),
    (
        "an init container with itself",
        init(ports=[port(hostPort=80), port(hostPort=80)]),
        [(f"{I0}.ports[1].hostPort", DUPLICATE)],
    ),
)
def test_ports(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def env(name: str = "A", **fields: Any) -> Edits:
    return main(env=[{"name": name, **fields}])


def source(**kinds: Any) -> Edits:
    return env(valueFrom=kinds)


def field_ref(path: str, version: str = "v1") -> Edits:
    return source(fieldRef={"apiVersion": version, "fieldPath": path})


def resource_ref(resource: str, **fields: Any) -> Edits:
    return source(resourceFieldRef={"resource": resource, **fields})


E0 = f"{C0}.env[0]"
V0 = f"{E0}.valueFrom"
SCRATCH: Edits = {"spec.volumes": [volume(emptyDir={})]}


@table(
    ("value", env(value="x"), []),
    ("any printable name", env("1 a.b-c%$"), []),
    ("no name", env(""), [(f"{E0}.name", REQUIRED)]),
    ("equals sign", env("A=B"), [(f"{E0}.name", INVALID)]),
    ("umlaut", env("Ä"), [(f"{E0}.name", INVALID)]),
    ("same name twice", main(env=[{"name": "A"}, {"name": "A"}]), []),
    ("no source", source(), [(V0, INVALID)]),
    (
        "value and source",
        env(value="x", valueFrom={"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}),
        [(V0, INVALID)],
    ),
    (
        "two sources",
        source(
            fieldRef={"apiVersion": "v1", "fieldPath": "metadata.name"},
            resourceFieldRef={"resource": "limits.cpu"},
        ),
        [(V0, INVALID)],
    ),
    *(
        (f"field {name}", field_ref(name), [])
        for name in (
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "metadata.labels['app']",
            "metadata.annotations['Example.COM/A']",
            "spec.nodeName",
            "spec.host",
            "spec.serviceAccountName",
            "status.hostIP",
            "status.podIPs",
        )
    ),
    (
        "field for volumes only",
        field_ref("metadata.labels"),
        [(f"{V0}.fieldRef.fieldPath", NOT_SUPPORTED)],
    ),
    ("field for nobody", field_ref("status.phase"), [(f"{V0}.fieldRef.fieldPath", NOT_SUPPORTED)]),
    ("field unknown", field_ref("spec.image"), [(f"{V0}.fieldRef.fieldPath", INVALID)]),
    (
        "field with subscript",
        field_ref("spec.nodeName['x']"),
        [(f"{V0}.fieldRef.fieldPath", INVALID)],
    ),
    ("label key", field_ref("metadata.labels['a b']"), [(f"{V0}.fieldRef", INVALID)]),
    ("field version", field_ref("metadata.name", "v2"), [(f"{V0}.fieldRef.fieldPath", INVALID)]),
    ("no field version", field_ref("metadata.name", ""), [(f"{V0}.fieldRef.apiVersion", REQUIRED)]),
    ("no field path", field_ref(""), [(f"{V0}.fieldRef.fieldPath", REQUIRED)]),
    ("resource", resource_ref("limits.cpu", divisor="1m"), []),
    ("resource zero divisor", resource_ref("limits.cpu", divisor="0"), []),
    ("resource in Mi", resource_ref("requests.memory", divisor="1Mi"), []),
    ("huge pages", resource_ref("limits.hugepages-2Mi", divisor="1Ki"), []),
    ("no resource", resource_ref(""), [(f"{V0}.resourceFieldRef.resource", REQUIRED)]),
    (
        "resource unknown",
        resource_ref("limits.gpu"),
        [(f"{V0}.resourceFieldRef.resource", NOT_SUPPORTED)],
    ),
    *(
        (
            f"divisor {divisor} of {resource}",
            resource_ref(resource, divisor=divisor),
            [(f"{V0}.resourceFieldRef.divisor", INVALID)],
        )
        for resource, divisor in (
            ("limits.cpu", "10m"),
            ("limits.memory", "2Mi"),
            ("requests.ephemeral-storage", "1m"),
            ("limits.hugepages-2Mi", "3"),
            ("limits.cpu", "much"),
        )
    ),
    ("config map key", source(configMapKeyRef={"name": "cm", "key": "a.b_C-d"}), []),
    (
        "config map key bad",
        source(configMapKeyRef={"name": "", "key": ""}),
        [(f"{V0}.configMapKeyRef.name", INVALID), (f"{V0}.configMapKeyRef.key", REQUIRED)],
    ),
    (
        "secret key bad",
        source(secretKeyRef={"name": "A", "key": "a/b"}),
        [(f"{V0}.secretKeyRef.name", INVALID), (f"{V0}.secretKeyRef.key", INVALID)],
    ),
    (
        "secret key is a step up",
        source(secretKeyRef={"name": "a", "key": ".."}),
        [(f"{V0}.secretKeyRef.key", INVALID)],
    ),
    (
        "secret key climbs",
        source(secretKeyRef={"name": "a", "key": "..b"}),
        [(f"{V0}.secretKeyRef.key", INVALID)],
    ),
    (
        "file key",
        {**SCRATCH, **source(fileKeyRef={"key": "A", "path": "env", "volumeName": "data"})},
        [],
    ),
    (
        "file key without anything",
        {**SCRATCH, **source(fileKeyRef={"key": "", "path": "", "volumeName": ""})},
        [
            (f"{V0}.fileKeyRef.key", REQUIRED),
            (f"{V0}.fileKeyRef.volumeName", REQUIRED),
            (f"{V0}.fileKeyRef.path", REQUIRED),
            (f"{V0}.fileKeyRef.volumeName", NOT_FOUND),
        ],
    ),
    (
        "file key out of a host path",
        {
            "spec.volumes": [volume(hostPath={"path": "/x"})],
            **source(fileKeyRef={"key": "A=", "path": "../x", "volumeName": "data"}),
        },
        [
            (f"{V0}.fileKeyRef.key", INVALID),
            (f"{V0}.fileKeyRef.path", INVALID),
            (f"{V0}.fileKeyRef.volumeName", INVALID),
        ],
    ),
    ("envFrom", main(envFrom=[{"prefix": "P_", "configMapRef": {"name": "cm"}}]), []),
    (
        "envFrom bad",
        main(
            envFrom=[
                {"prefix": "a="},
                {"secretRef": {"name": ""}},
                {"configMapRef": {"name": "A"}},
                {"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}},
            ]
        ),
        [
            (f"{C0}.envFrom[0].prefix", INVALID),
            (f"{C0}.envFrom", INVALID),
            (f"{C0}.envFrom[1].secretRef.name", REQUIRED),
            (f"{C0}.envFrom[2].configMapRef.name", INVALID),
            (f"{C0}.envFrom", INVALID),
        ],
    ),
)
def test_variables(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def needs(limits: dict[str, str], requests: dict[str, str] | None = None) -> Edits:
    """Resources as defaulting leaves them: a request for each limit."""
    return main(resources={"limits": limits, "requests": {**limits, **(requests or {})}})


R = f"{C0}.resources"


@table(
    ("sound", needs({"cpu": "1", "memory": "1Gi"}, {"cpu": "500m"}), []),
    ("storage and extended", needs({"ephemeral-storage": "1Gi", "example.com/gpu": "2"}), []),
    ("above the limit", needs({"cpu": "1"}, {"cpu": "1100m"}), [(f"{R}.requests", INVALID)]),
    ("the same in other words", needs({"memory": "1Gi"}, {"memory": "1024Mi"}), []),
    (
        "negative",
        main(resources={"requests": {"cpu": "-1"}}),
        [(f"{R}.requests[cpu]", INVALID)],
    ),
    ("no amount", main(resources={"limits": {"cpu": "lots"}}), [(f"{R}.limits[cpu]", INVALID)]),
    (
        "no compute resource",
        main(resources={"limits": {"pods": "1"}}),
        [(f"{R}.limits[pods]", INVALID)],
    ),
    (
        "unknown resource",
        main(resources={"limits": {"gpu": "1"}}),
        [(f"{R}.limits[gpu]", INVALID), (f"{R}.limits[gpu]", INVALID)],
    ),
    (
        "half an extended resource",
        main(resources={"limits": {"example.com/gpu": "500m"}}),
        [(f"{R}.limits[example.com/gpu]", INVALID)],
    ),
    (
        "extended resource of the quota's kind",
        main(resources={"limits": {"requests.example.com/gpu": "1"}}),
        [(f"{R}.limits[requests.example.com/gpu]", INVALID)],
    ),
    (
        "extended request off its limit",
        needs({"example.com/gpu": "2"}, {"example.com/gpu": "1"}),
        [(f"{R}.requests", INVALID)],
    ),
    (
        "extended request without limit",
        main(resources={"requests": {"example.com/gpu": "1"}}),
        [(f"{R}.limits", REQUIRED)],
    ),
    ("huge pages", needs({"hugepages-2Mi": "4Mi", "cpu": "1"}), []),
    ("huge pages alone", needs({"hugepages-2Mi": "4Mi"}), [(R, FORBIDDEN)]),
    (
        "huge pages not whole",
        needs({"hugepages-2Mi": "3Mi", "cpu": "1"}),
        [(f"{R}.limits[hugepages-2Mi]", INVALID), (f"{R}.requests[hugepages-2Mi]", INVALID)],
    ),
    (
        "huge pages of no size",
        main(resources={"limits": {"hugepages-big": "1", "cpu": "1"}}),
        [(f"{R}.limits[hugepages-big]", INVALID)],
    ),
    (
        "claims",
        {
            **main(resources={"claims": [{"name": "a", "request": "r"}, {"name": "b"}]}),
            "spec.resourceClaims": [
                {"name": "a", "resourceClaimName": "x"},
                {"name": "b", "resourceClaimName": "x"},
            ],
        },
        [],
    ),
    (
        "claims bad",
        {
            **main(
                resources={
                    "claims": [
                        {"name": ""},
                        {"name": "a", "request": "R"},
                        {"name": "a"},
                        {"name": "a"},
                        {"name": "nobody"},
                    ]
                }
            ),
            "spec.resourceClaims": [{"name": "a", "resourceClaimName": "x"}],
        },
        [
            (f"{R}.claims[0]", REQUIRED),
            (f"{R}.claims[1].request", INVALID),
            (f"{R}.claims[2]", DUPLICATE),
            (f"{R}.claims[3]", DUPLICATE),
            (f"{R}.claims[4]", NOT_FOUND),
        ],
    ),
    (
        "resize",
        main(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
        [],
    ),
    (
        "resize bad",
        main(
            resizePolicy=[
                {"resourceName": "cpu", "restartPolicy": "Maybe"},
                {"resourceName": "cpu", "restartPolicy": ""},
                {"resourceName": "disk", "restartPolicy": "NotRequired"},
                {"resourceName": "", "restartPolicy": "NotRequired"},
            ]
        ),
        [
            (f"{C0}.resizePolicy", NOT_SUPPORTED),
            (f"{C0}.resizePolicy[1]", DUPLICATE),
            (f"{C0}.resizePolicy", REQUIRED),
            (f"{C0}.resizePolicy", NOT_SUPPORTED),
            (f"{C0}.resizePolicy", REQUIRED),
        ],
    ),
    (
        "resize where nothing restarts",
        {
            **main(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            "spec.restartPolicy": "Never",
        },
        [(f"{C0}.resizePolicy", INVALID)],
    ),
    (
        "resize of an init container",
        init(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
        [(f"{I0}.resizePolicy[0].restartPolicy", INVALID)],
    ),
)
def test_resources(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


L = f"{C0}.livenessProbe"


def liveness(**handlers: Any) -> Edits:
    return main(livenessProbe=handler(**handlers))


def http(**fields: Any) -> Edits:
    return liveness(httpGet={"path": "/", "port": 80, "scheme": "HTTP", **fields})


@table(
    ("exec", main(livenessProbe=probe(), readinessProbe=probe(), startupProbe=probe()), []),
    ("http", http(port="web", httpHeaders=[{"name": "X-A", "value": "b"}]), []),
    ("grpc", liveness(grpc={"port": 5000, "service": ""}), []),
    ("no handler", liveness(), [(L, REQUIRED)]),
    (
        "two handlers",
        main(livenessProbe=probe(tcpSocket={"port": 0}, grpc={"port": 1})),
        [(f"{L}.tcpSocket", FORBIDDEN), (f"{L}.grpc", FORBIDDEN)],
    ),
    (
        "no command",
        main(livenessProbe=probe(exec={"command": []})),
        [(f"{L}.exec.command", REQUIRED)],
    ),
    ("http without path", http(path=""), [(f"{L}.httpGet.path", REQUIRED)]),
    ("http port 0", http(port=0), [(f"{L}.httpGet.port", INVALID)]),
    ("http port name", http(port="Web_1"), [(f"{L}.httpGet.port", INVALID)]),
    ("http scheme", http(scheme="http"), [(f"{L}.httpGet.scheme", NOT_SUPPORTED)]),
    (
        "http header",
        http(httpHeaders=[{"name": "a b", "value": ""}]),
        [(f"{L}.httpGet.httpHeaders", INVALID)],
    ),
    ("tcp port", liveness(tcpSocket={"port": 65536}), [(f"{L}.tcpSocket.port", INVALID)]),
    ("grpc port", liveness(grpc={"port": 0}), [(f"{L}.grpc.port", INVALID)]),
    *(
        (
            f"negative {name}",
            main(readinessProbe=probe(**{name: -1})),
            [(f"{C0}.readinessProbe.{name}", INVALID)],
        )
        for name in (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        )
    ),
    ("readiness after two", main(readinessProbe=probe(successThreshold=2)), []),
    (
        "liveness after two",
        main(livenessProbe=probe(successThreshold=2)),
        [(f"{L}.successThreshold", INVALID)],
    ),
    (
        "startup after two",
        main(startupProbe=probe(successThreshold=2)),
        [(f"{C0}.startupProbe.successThreshold", INVALID)],
    ),
    ("own grace period", main(livenessProbe=probe(terminationGracePeriodSeconds=1)), []),
    (
        "grace period 0",
        main(startupProbe=probe(terminationGracePeriodSeconds=0)),
        [(f"{C0}.startupProbe.terminationGracePeriodSeconds", INVALID)],
    ),
    (
        "grace period on readiness",
        main(readinessProbe=probe(terminationGracePeriodSeconds=1)),
        [(f"{C0}.readinessProbe.terminationGracePeriodSeconds", INVALID)],
    ),
)
def test_probes(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


LC = f"{C0}.lifecycle"


def hooks(**fields: Any) -> Edits:
    return main(lifecycle=fields)


@table(
    ("sound", hooks(postStart={"exec": {"command": ["a"]}}, preStop={"sleep": {"seconds": 0}}), []),
    ("sleep all the grace period", hooks(preStop={"sleep": {"seconds": 30}}), []),
    (
        "sleep too long",
        hooks(preStop={"sleep": {"seconds": 31}}),
        [(f"{LC}.preStop.sleep", INVALID)],
    ),
    (
        "sleep negative",
        hooks(preStop={"sleep": {"seconds": -1}}),
        [(f"{LC}.preStop.sleep", INVALID)],
    ),
    ("no handler", hooks(postStart={}), [(f"{LC}.postStart", REQUIRED)]),
    (
        "two handlers",
        hooks(preStop={"exec": {"command": ["a"]}, "sleep": {"seconds": 1}}),
        [(f"{LC}.preStop.sleep", FORBIDDEN)],
    ),
    ("stop signal without os", hooks(stopSignal="SIGTERM"), [(f"{LC}.stopSignal", FORBIDDEN)]),
    ("stop signal", {**hooks(stopSignal="SIGRTMIN+3"), "spec.os": {"name": "linux"}}, []),
    (
        "stop signal unknown",
        {**hooks(stopSignal="SIGFOO"), "spec.os": {"name": "linux"}},
        [(f"{LC}.stopSignal", NOT_SUPPORTED)],
    ),
    (
        "stop signal on windows",
        {**hooks(stopSignal="SIGINT"), "spec.os": {"name": "windows"}},
        [(f"{LC}.stopSignal", NOT_SUPPORTED)],
    ),
    (
        "init container",
        init(lifecycle={}, livenessProbe=probe(), readinessProbe=probe(), startupProbe=probe()),
        [
            (f"{I0}.lifecycle", FORBIDDEN),
            (f"{I0}.livenessProbe", FORBIDDEN),
            (f"{I0}.readinessProbe", FORBIDDEN),
            (f"{I0}.startupProbe", FORBIDDEN),
        ],
    ),
    (
        "sidecar",
        init(restartPolicy="Always", lifecycle={}, readinessProbe=probe(), startupProbe=probe()),
        [],
    ),
    (
        "sidecar with a bad probe",
        init(restartPolicy="Always", livenessProbe=handler()),
        [(f"{I0}.livenessProbe", REQUIRED)],
    ),
)
def test_hooks(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}


@table(
    ("own policy", main(restartPolicy="Never", restartPolicyRules=[RULE]), []),
    ("own policy unknown", main(restartPolicy="Maybe"), [(f"{C0}.restartPolicy", NOT_SUPPORTED)]),
    ("rules alone", main(restartPolicyRules=[RULE]), [(f"{C0}.restartPolicy", REQUIRED)]),
    (
        "init rules alone",
        init(restartPolicyRules=[{"action": "x"}]),
        [(f"{I0}.restartPolicy", REQUIRED)],
    ),
    ("init policy", init(restartPolicy="OnFailure"), []),
    ("init policy unknown", init(restartPolicy="x"), [(f"{I0}.restartPolicy", NOT_SUPPORTED)]),
    ("20 rules", main(restartPolicy="Never", restartPolicyRules=[RULE] * 20), []),
    (
        "21 rules",
        main(restartPolicy="Never", restartPolicyRules=[RULE] * 21),
        [(f"{C0}.restartPolicyRules", TOO_MANY)],
    ),
    (
        "rules bad",
        main(
            restartPolicy="Never",
            restartPolicyRules=[
                {"action": "Stop", "exitCodes": {"operator": "Above", "values": [1] * 256}},
                {"action": "RestartAllContainers"},
            ],
        ),
        [
            (f"{C0}.restartPolicyRules[0].action", NOT_SUPPORTED),
            (f"{C0}.restartPolicyRules[0].exitCodes.operator", NOT_SUPPORTED),
            (f"{C0}.restartPolicyRules[0].exitCodes.values", TOO_MANY),
            (f"{C0}.restartPolicyRules[1].exitCodes", REQUIRED),
        ],
    ),
)
def test_restart_rules(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def mounts(*entries: dict[str, Any], **fields: Any) -> Edits:
    sound = [{"name": "data", "mountPath": f"/m{n}", **entry} for n, entry in enumerate(entries)]
    return {**SCRATCH, **main(volumeMounts=sound, **fields)}


VM = f"{C0}.volumeMounts"


@table(
    ("sound", mounts({"subPath": "a/b"}, {"subPathExpr": "$(A)/b", "readOnly": True}), []),
    (
        "unknown volume",
        mounts({"name": "nope"}, {"name": ""}),
        [(f"{VM}[0].name", NOT_FOUND), (f"{VM}[1].name", REQUIRED), (f"{VM}[1].name", NOT_FOUND)],
    ),
    ("no path", mounts({"mountPath": ""}), [(f"{VM}[0].mountPath", REQUIRED)]),
    (
        "same path",
        mounts({"mountPath": "/a"}, {"mountPath": "/a"}),
        [(f"{VM}[1].mountPath", INVALID)],
    ),
    ("relative path", mounts({"mountPath": "a"}), []),
    ("subPath absolute", mounts({"subPath": "/a"}), [(f"{VM}.subPath", INVALID)]),
    ("subPath climbs", mounts({"subPath": "a/../b"}), [(f"{VM}.subPath", INVALID)]),
    ("subPath with dots", mounts({"subPath": "a..b/..c"}), []),
    ("subPathExpr climbs", mounts({"subPathExpr": "../$(A)"}), [(f"{VM}.subPathExpr", INVALID)]),
    (
        "both sub paths",
        mounts({"subPath": "a", "subPathExpr": "b"}),
        [(f"{VM}[0].subPathExpr", INVALID)],
    ),
    ("propagation", mounts({"mountPropagation": "HostToContainer"}), []),
    (
        "propagation unknown",
        mounts({"mountPropagation": "Both"}),
        [(f"{VM}.mountPropagation", NOT_SUPPORTED)],
    ),
    (
        "bidirectional",
        mounts({"mountPropagation": "Bidirectional"}),
        [(f"{VM}.mountPropagation", FORBIDDEN)],
    ),
    (
        "bidirectional and privileged",
        mounts({"mountPropagation": "Bidirectional"}, securityContext={"privileged": True}),
        [],
    ),
    ("recursive", mounts({"recursiveReadOnly": "Enabled", "readOnly": True}), []),
    ("recursive off", mounts({"recursiveReadOnly": "Disabled"}), []),
    (
        "recursive writable",
        mounts({"recursiveReadOnly": "IfPossible", "mountPropagation": "HostToContainer"}),
        [(f"{VM}.recursiveReadOnly", FORBIDDEN)] * 2,
    ),
    (
        "recursive unknown",
        mounts({"recursiveReadOnly": "Yes"}),
        [(f"{VM}.recursiveReadOnly", NOT_SUPPORTED)],
    ),
)
def test_mounts(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def devices(*entries: dict[str, str], **fields: Any) -> Edits:
    claim = {"persistentVolumeClaim": {"claimName": "c"}}
    return {
        "spec.volumes": [{"name": "block", **claim}, volume(emptyDir={})],
        **main(volumeDevices=list(entries), **fields),
    }


VD = f"{C0}.volumeDevices"


@table(
    ("sound", devices({"name": "block", "devicePath": "/dev/x"}), []),
    ("no block", devices({"name": "data", "devicePath": "/dev/x"}), [(f"{VD}[0].name", INVALID)]),
    (
        "nothing",
        devices({"name": "", "devicePath": ""}),
        [
            (f"{VD}[0].name", REQUIRED),
            (f"{VD}[0].name", NOT_FOUND),
            (f"{VD}[0].devicePath", REQUIRED),
        ],
    ),
    (
        "twice",
        devices(
            {"name": "block", "devicePath": "/dev/x"}, {"name": "block", "devicePath": "/dev/x"}
        ),
        [(f"{VD}[1].name", INVALID), (f"{VD}[1].devicePath", INVALID)],
    ),
    (
        "climbs",
        devices({"name": "block", "devicePath": "/dev/../x"}),
        [(f"{VD}[0].devicePath", INVALID)],
    ),
    (
        "mounted too",
        devices(
            {"name": "block", "devicePath": "/x"},
            volumeMounts=[{"name": "block", "mountPath": "/x"}],
        ),
        [
            (f"{VM}[0].name", INVALID),
            (f"{VM}[0].mountPath", INVALID),
            (f"{VD}[0].name", INVALID),
            (f"{VD}[0].devicePath", INVALID),
        ],
    ),
    (
        "with own users",
        {**devices({"name": "block", "devicePath": "/dev/x"}), "spec.hostUsers": False},
        [(VD, FORBIDDEN)],
    ),
)
def test_devices(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def context(**fields: Any) -> Edits:
    return main(securityContext=fields)


S = f"{C0}.securityContext"


@table(
    ("sound", context(privileged=True, runAsUser=0, capabilities={"add": ["NET_ADMIN"]}), []),
    (
        "ids",
        context(runAsUser=-1, runAsGroup=2**31),
        [(f"{S}.runAsUser", INVALID), (f"{S}.runAsGroup", INVALID)],
    ),
    (
        "privileged without escalation",
        context(privileged=True, allowPrivilegeEscalation=False),
        [(S, INVALID)],
    ),
    (
        "admin without escalation",
        context(allowPrivilegeEscalation=False, capabilities={"add": ["CAP_SYS_ADMIN"]}),
        [(S, INVALID)],
    ),
    ("proc mount", context(procMount="Default"), []),
    ("proc mount unknown", context(procMount="Open"), [(f"{S}.procMount", NOT_SUPPORTED)]),
    ("proc unmasked", context(procMount="Unmasked"), [(f"{S}.procMount", INVALID)]),
    ("proc unmasked, own users", {**context(procMount="Unmasked"), "spec.hostUsers": False}, []),
    ("seccomp", context(seccompProfile={"type": "Localhost", "localhostProfile": "a/b.json"}), []),
    (
        "seccomp no type",
        context(seccompProfile={"type": ""}),
        [(f"{S}.seccompProfile.type", REQUIRED)],
    ),
    (
        "seccomp unknown",
        context(seccompProfile={"type": "Strict"}),
        [(f"{S}.seccompProfile.type", NOT_SUPPORTED)],
    ),
    (
        "seccomp climbs",
        context(seccompProfile={"type": "Localhost", "localhostProfile": "../x"}),
        [(f"{S}.seccompProfile.localhostProfile", INVALID)],
    ),
    (
        "seccomp with a needless file",
        context(seccompProfile={"type": "Unconfined", "localhostProfile": "x"}),
        [(f"{S}.seccompProfile.localhostProfile", INVALID)],
    ),
    ("apparmor", context(appArmorProfile={"type": "Localhost", "localhostProfile": "web"}), []),
    (
        "apparmor no type",
        context(appArmorProfile={"type": ""}),
        [(f"{S}.appArmorProfile.type", REQUIRED)],
    ),
    (
        "apparmor no profile",
        context(appArmorProfile={"type": "Localhost"}),
        [(f"{S}.appArmorProfile.localhostProfile", REQUIRED)],
    ),
    (
        "apparmor padded",
        context(appArmorProfile={"type": "Localhost", "localhostProfile": " web"}),
        [(f"{S}.appArmorProfile.localhostProfile", INVALID)],
    ),
    (
        "apparmor profile too long",
        context(appArmorProfile={"type": "Localhost", "localhostProfile": "x" * 4096}),
        [(f"{S}.appArmorProfile.localhostProfile", TOO_LONG)],
    ),
    (
        "apparmor needless profile",
        context(appArmorProfile={"type": "RuntimeDefault", "localhostProfile": "web"}),
        [(f"{S}.appArmorProfile.localhostProfile", INVALID)],
    ),
    ("selinux is free", context(seLinuxOptions={"level": "anything"}), []),
)
def test_security_context(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected
