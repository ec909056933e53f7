"""Sandbox configurations: names, namespaces, ports, volumes, resolvers."""

from __future__ import annotations

import msgspec
import pytest
from pod_builders import GI, MI, ctr, make_pod, node, sidecar

from podtui.api.v1 import ConfigMap, Secret
from podtui.kubelet.config_error import ConfigError
from podtui.kubelet.sandbox_config import sandbox_config
from podtui.kubelet.sysctls import SAFE
from podtui.kubelet.volumes import host_path_checks, unsupported
from podtui.runtime.protocol import NamespaceMode, PodVolume, PortMapping


def config(*containers, **fields):
    return sandbox_config(make_pod(*containers, **fields), node(), attempt=3)


def test_a_plain_sandbox():
    found = config(labels={"app": "web"})
    assert (found.name, found.namespace, found.uid, found.attempt) == (
        "web-n1",
        "default",
        "u1",
        3,
    )
    assert found.hostname == "web-n1"
    assert found.labels == {
        "app": "web",
        "io.kubernetes.pod.name": "web-n1",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "u1",
    }
    assert found.annotations == {"kubernetes.io/config.source": "file"}
    assert (found.network, found.ipc, found.pid) == (
        NamespaceMode.POD,
        NamespaceMode.POD,
        NamespaceMode.CONTAINER,
    )
    assert (found.ports, found.volumes, found.dns, found.privileged) == ((), (), None, False)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"hostNetwork": True}, ("node", "pod", "container")),
        ({"hostIPC": True}, ("pod", "node", "container")),
        ({"hostPID": True}, ("pod", "pod", "node")),
        ({"shareProcessNamespace": True}, ("pod", "pod", "pod")),
    ],
)
def test_case_88_namespaces(fields, expected):
    found = config(**fields)
    assert (found.network, found.ipc, found.pid) == expected


def test_ports():
    ports = [
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
        {"containerPort": 81},
        {"containerPort": 80, "hostPort": 8080, "name": "again"},
    ]
    found = config(ctr(ports=ports), init=(sidecar(ports=[{"containerPort": 1, "hostPort": 1}]),))
    assert found.ports == (
        PortMapping(container_port=80, host_port=8080),
        PortMapping(container_port=53, host_port=53, protocol="UDP", host_ip="10.0.0.1"),
    )
    assert config(ctr(ports=ports), hostNetwork=True).ports == ()


def test_case_84_host_aliases():
    found = config(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a", "b"]}])
    assert found.extra_hosts == (("a", "10.0.0.1"), ("b", "10.0.0.1"))


def test_sysctls_and_privilege():
    sysctl = {"name": "net/ipv4/tcp_syncookies", "value": "1"}
    found = config(
        ctr("a"),
        ctr("b", securityContext={"privileged": True}),
        securityContext={"sysctls": [sysctl]},
    )
    assert found.sysctls == {"net.ipv4.tcp_syncookies": "1"}
    assert set(found.sysctls) <= set(SAFE)
    assert found.privileged


# --- volumes


def volume(source, **fields) -> PodVolume:
    (found,) = config(volumes=[{"name": "v", **source}], **fields).volumes
    return found


def contents(found: PodVolume) -> dict[str, tuple[bytes, int]]:
    """Content and mode by the path that a reader sees, through the links."""
    links = {one.path: one.target for one in found.files if one.target}
    files = {one.path: one for one in found.files if not one.target}
    data = links.pop("..data")
    tops = {path.removeprefix(f"{data}/").partition("/")[0] for path in files}
    assert links == {top: f"..data/{top}" for top in tops}
    return {path.removeprefix(f"{data}/"): (one.content, one.mode) for path, one in files.items()}


def test_case_74_empty_dir():
    assert volume({"emptyDir": {}}) == PodVolume(name="v", mode=0o777)
    assert volume({}) == PodVolume(name="v", mode=0o777)
    # A limit on disk is watched, not enforced.
    assert volume({"emptyDir": {"sizeLimit": "1Mi"}}).size_limit is None


def test_fs_group():
    found = volume({"emptyDir": {}}, securityContext={"fsGroup": 5})
    assert (found.gid, found.mode) == (5, 0o2777)
    field = {"path": "n", "mode": 0o400, "fieldRef": {"fieldPath": "metadata.name"}}
    found = volume({"downwardAPI": {"items": [field]}}, securityContext={"fsGroup": 5})
    assert contents(found) == {"n": (b"web-n1", 0o440)}
    assert {one.gid for one in found.files if not one.target} == {5}


@pytest.mark.parametrize(
    ("size", "limits", "pod_limit", "expected"),
    [
        ("", [None], None, 4 * GI),
        ("64Mi", [None], None, 64 * MI),
        ("8Gi", [None], None, 4 * GI),
        ("", ["1Gi", "1Gi"], None, 2 * GI),
        ("64Mi", ["1Gi", "1Gi"], None, 64 * MI),
        ("", ["1Gi", None], None, 4 * GI),
        ("", [None], "3Gi", 3 * GI),
        ("0", [None], None, 4 * GI),
    ],
)
def test_memory_volumes(size, limits, pod_limit, expected):
    containers = [
        ctr(f"c{number}", resources={"limits": {"memory": limit}} if limit else {})
        for number, limit in enumerate(limits)
    ]
    fields = {"resources": {"limits": {"memory": pod_limit}}} if pod_limit else {}
    empty = {"medium": "Memory"} | ({"sizeLimit": size} if size else {})
    pod = make_pod(*containers, volumes=[{"name": "v", "emptyDir": empty}], **fields)
    (found,) = sandbox_config(pod, node(memory=4 * GI), attempt=0).volumes
    assert (found.memory, found.size_limit) == (True, expected)


def test_case_81_downward_api():
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "deep/name", "mode": 0o600, "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}},
    ]
    found = volume({"downwardAPI": {"items": items}}, labels={"b": "2", "a": "1"})
    assert contents(found) == {
        "labels": (b'a="1"\nb="2"', 0o644),
        "deep/name": (b"web-n1", 0o600),
        "cpu": (b"2", 0o644),
    }
    again = volume({"downwardAPI": {"items": items}}, labels={"b": "2", "a": "1"})
    other = volume({"downwardAPI": {"items": items}}, labels={"b": "3", "a": "1"})
    assert again == found
    assert {one.path for one in other.files} != {one.path for one in found.files}


def test_downward_api_fields_that_are_none():
    item = {"path": "x", "fieldRef": {"fieldPath": "spec.nodeName"}}
    with pytest.raises(ConfigError, match=r"unsupported fieldPath: spec\.nodeName"):
        volume({"downwardAPI": {"items": [item]}})


MAP = msgspec.convert(
    {"metadata": {"name": "m", "namespace": "default"}, "data": {"a": "1", "b": "2"}}, ConfigMap
)
SECRET = msgspec.convert(
    {"metadata": {"name": "s", "namespace": "default"}, "data": {"p": "aHVzaA=="}}, Secret
)


def with_documents(source) -> PodVolume:
    pod = make_pod(volumes=[{"name": "v", **source}])
    (found,) = sandbox_config(
        pod,
        node(),
        attempt=0,
        config_maps={("default", "m"): MAP},
        secrets={("default", "s"): SECRET},
    ).volumes
    return found


def test_departure_7_documents_as_files():
    whole = with_documents({"configMap": {"name": "m", "defaultMode": 0o600}})
    assert contents(whole) == {"a": (b"1", 0o600), "b": (b"2", 0o600)}
    picked = with_documents({"configMap": {"name": "m", "items": [{"key": "b", "path": "x/y"}]}})
    assert contents(picked) == {"x/y": (b"2", 0o644)}
    assert contents(with_documents({"secret": {"secretName": "s"}})) == {"p": (b"hush", 0o644)}
    projected = with_documents(
        {
            "projected": {
                "sources": [
                    {"configMap": {"name": "m"}},
                    {"secret": {"name": "s"}},
                    {
                        "downwardAPI": {
                            "items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]
                        }
                    },
                ]
            }
        }
    )
    assert set(contents(projected)) == {"a", "b", "p", "n"}


def test_missing_documents():
    for source, message in (
        ({"configMap": {"name": "x"}}, 'configmap "x" not found'),
        ({"secret": {"secretName": "x"}}, 'secret "x" not found'),
        (
            {"configMap": {"name": "m", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "z", "path": "z"}]}},
            "secret references non-existent secret key: z",
        ),
    ):
        with pytest.raises(ConfigError) as caught:
            with_documents(source)
        assert str(caught.value) == message
    optional = with_documents({"configMap": {"name": "x", "optional": True}})
    assert contents(optional) == {}


def test_host_paths_and_foreign_volumes_make_no_directory():
    found = config(
        volumes=[
            {"name": "h", "hostPath": {"path": "/x"}},
            {"name": "n", "nfs": {"server": "s", "path": "/"}},
            {"name": "i", "image": {"reference": "a:1"}},
        ]
    )
    assert found.volumes == ()


def test_what_is_not_supported_is_said():
    pod = make_pod(
        ctr(
            volumeDevices=[{"name": "n", "devicePath": "/dev/x"}],
            env=[
                {
                    "name": "F",
                    "valueFrom": {"fileKeyRef": {"volumeName": "e", "path": "p", "key": "k"}},
                }
            ],
        ),
        volumes=[
            {"name": "e", "emptyDir": {}},
            {"name": "h", "hostPath": {"path": "/x"}},
            {"name": "n", "nfs": {"server": "s", "path": "/"}},
            {"name": "i", "image": {"reference": "a:1"}},
            {"name": "p", "emptyDir": {"medium": "HugePages-2Mi"}},
        ],
    )
    assert unsupported(pod) == (
        'volumes of type nfs are not supported: containers that mount "n" do not start',
        'image volumes are not supported: volume "i" is not mounted',
        'emptyDir volumes of huge pages are not supported: volume "p" is a plain directory',
        'volume devices are not supported: /dev/x is not there in container "c"',
        'fileKeyRef is not supported: variable F of container "c"',
    )
    assert unsupported(make_pod()) == ()


def test_host_paths_to_look_at_first():
    pod = make_pod(
        volumes=[
            {"name": "a", "hostPath": {"path": "/a"}},
            {"name": "b", "hostPath": {"path": "/b", "type": "Directory"}},
            {"name": "c", "hostPath": {"path": "/c", "type": "DirectoryOrCreate"}},
            {"name": "d", "hostPath": {"path": "/d", "type": "Socket"}},
        ]
    )
    assert host_path_checks(pod) == (("b", "/b", "Directory"), ("d", "/d", "Socket"))
