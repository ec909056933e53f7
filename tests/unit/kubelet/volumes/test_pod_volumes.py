"""The requirements for the setup of a pod's volumes."""

from __future__ import annotations

import pytest
from pod_builders import GI, MI, ctr, make_pod, node

from podtui.api.v1 import Volume
from podtui.kubelet.pods.sync import unsupported
from podtui.kubelet.types import ConfigError, NodeResources
from podtui.kubelet.value_sources import ValueSources
from podtui.kubelet.volumes.pod_volumes import (
    HostPathCheck,
    NfsCheck,
    VolumePlan,
    created_as,
    host_path_problem,
    plan_volumes,
    pod_volume,
)
from podtui.runtime.protocol import HostPathKind, NfsShare, PodVolume

AROUND = ValueSources(node=node(memory=4 * GI))


def mounting(*names: str, **fields):
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return ctr(**{"volumeMounts": mounts, **fields})


def plan(*volumes, strict=False, around=AROUND, **fields) -> VolumePlan:
    """Return the plan of a pod that mounts all of them."""
    pod = make_pod(mounting(*(one["name"] for one in volumes)), volumes=volumes, **fields)
    return plan_volumes(pod, around, strict=strict)


def volume(source, *containers, around=AROUND, **fields) -> PodVolume:
    pod = make_pod(*containers, volumes=[{"name": "v", **source}], **fields)
    return pod_volume(pod, pod.spec.volumes[0], around)


def test_empty_dir_is_open_to_all_and_its_disk_is_not_limited():
    assert volume({"emptyDir": {}}) == PodVolume(name="v", mode=0o777)
    assert volume({}) == PodVolume(name="v", mode=0o777)
    assert volume({"emptyDir": {"sizeLimit": "1Mi"}}).size_limit is None


@pytest.mark.parametrize(
    ("source", "own", "of_group"),
    [
        ({"emptyDir": {}}, 0o777, 0o2777),
        ({"emptyDir": {"medium": "Memory"}}, 0o1777, 0o3777),
        ({"emptyDir": {"medium": "HugePages"}}, 0o755, 0o2775),
        ({"downwardAPI": {}}, 0o1777, 0o3777),
        ({"projected": {"sources": []}}, 0o1777, 0o3777),
        ({"configMap": {"name": "a", "optional": True}}, 0o777, 0o2777),
        ({"secret": {"secretName": "a", "optional": True}}, 0o1777, 0o3777),
    ],
)
def test_modes_of_directories_are_those_of_their_file_systems(source, own, of_group):
    containers = (container_with_huge_pages("2Mi"),)
    found = volume(source, *containers, around=paged("2Mi"))
    assert (found.gid, found.mode) == (0, own)
    found = volume(source, *containers, around=paged("2Mi"), securityContext={"fsGroup": 5})
    assert (found.gid, found.mode) == (5, of_group)


def test_only_config_maps_and_plain_empty_dirs_are_on_disk():
    sources = (
        {"emptyDir": {}},
        {"configMap": {"name": "a", "optional": True}},
        {"secret": {"secretName": "a", "optional": True}},
        {"projected": {"sources": []}},
        {"downwardAPI": {}},
        {"emptyDir": {"medium": "Memory"}},
    )
    assert [volume(source).memory for source in sources] == [False] * 2 + [True] * 4


@pytest.mark.parametrize("policy", ["Always", "OnRootMismatch"])
def test_the_change_policy_has_no_effect_on_created_volumes(policy):
    context = {"fsGroup": 5, "fsGroupChangePolicy": policy}
    assert volume({"emptyDir": {}}, securityContext=context) == volume(
        {"emptyDir": {}}, securityContext={"fsGroup": 5}
    )


@pytest.mark.parametrize(
    ("size", "limits", "fields", "expected"),
    [
        ("", [None], {}, 4 * GI),
        ("64Mi", [None], {}, 64 * MI),
        ("8Gi", [None], {}, 4 * GI),
        ("", ["1Gi", "1Gi"], {}, 2 * GI),
        ("64Mi", ["1Gi", "1Gi"], {}, 64 * MI),
        ("", ["1Gi", None], {}, 4 * GI),
        ("", [None], {"resources": {"limits": {"memory": "3Gi"}}}, 3 * GI),
        ("", ["1Gi"], {"overhead": {"memory": "1Gi"}}, 2 * GI),
        ("", ["1Gi"], {"init": (ctr("i"),)}, 4 * GI),
        (
            "",
            ["1Gi"],
            {"init": (ctr("i", resources={"limits": {"memory": "3Gi"}}),)},
            3 * GI,
        ),
        ("0", [None], {}, 4 * GI),
    ],
)
def test_a_memory_volume_has_the_smallest_limit(size, limits, fields, expected):
    containers = [
        ctr(f"c{number}", resources={"limits": {"memory": limit}} if limit else {})
        for number, limit in enumerate(limits)
    ]
    empty = {"medium": "Memory"} | ({"sizeLimit": size} if size else {})
    found = volume({"emptyDir": empty}, *containers, **fields)
    assert (found.memory, found.size_limit) == (True, expected)


# --- huge pages


def paged(*sizes: str) -> ValueSources:
    amounts = {"memory": 4 * GI} | {f"hugepages-{size}": 64 * MI for size in sizes}
    return ValueSources(node=node(resources=NodeResources(capacity=amounts, allocatable=amounts)))


def container_with_huge_pages(*sizes: str):
    amounts = {f"hugepages-{size}": "4Mi" for size in sizes}
    return ctr(resources={"requests": amounts, "limits": amounts})


@pytest.mark.parametrize(
    ("medium", "sizes", "expected"),
    [
        ("HugePages", ("2Mi",), 2 * MI),
        ("HugePages-2Mi", ("2Mi",), 2 * MI),
        ("HugePages-1Gi", ("2Mi", "1Gi"), GI),
    ],
)
def test_huge_pages_of_the_requested_size(medium, sizes, expected):
    found = volume(
        {"emptyDir": {"medium": medium}},
        container_with_huge_pages(*sizes),
        around=paged("2Mi", "1Gi"),
    )
    assert (found.huge_pages, found.memory, found.size_limit) == (expected, False, None)


NOT_REQUESTED = "hugePages storage requested, but there is no resource request for huge pages"


@pytest.mark.parametrize(
    ("medium", "sizes", "message"),
    [
        (
            "HugePages",
            (),
            f"medium HugePages: {NOT_REQUESTED}",
        ),
        (
            "HugePages-1Gi",
            ("2Mi",),
            f"medium HugePages-1Gi: {NOT_REQUESTED}",
        ),
        (
            "HugePages",
            ("2Mi", "1Gi"),
            "medium: HugePages can't be used if container requests multiple huge page sizes",
        ),
        ("HugePages", ("64Ki",), "the node has no huge pages of 64Ki"),
    ],
)
def test_unavailable_huge_pages(medium, sizes, message):
    with pytest.raises(ConfigError) as caught:
        volume(
            {"emptyDir": {"medium": medium}},
            container_with_huge_pages(*sizes),
            around=paged("2Mi", "1Gi"),
        )
    assert str(caught.value) == message


# --- the plan


def test_a_plan_lists_volumes_to_create_check_and_refuse():
    found = plan(
        {"name": "e", "emptyDir": {}},
        {"name": "h", "hostPath": {"path": "/h"}},
        {"name": "d", "hostPath": {"path": "/d", "type": "Directory"}},
        {"name": "c", "configMap": {"name": "none"}},
        {"name": "i", "image": {"reference": "a:1"}},
        {"name": "r", "hostPath": {"path": "./html"}},
        {"name": "n", "nfs": {"server": "s", "path": "/", "readOnly": True}},
        {"name": "f", "fc": {"targetWWNs": ["w"], "lun": 0}},
    )
    assert [one.name for one in found.volumes] == ["e", "i"]
    share = NfsShare(server="s", path="/", options=("ro",))
    assert found.checks == (HostPathCheck("d", "/d", "Directory"), NfsCheck("n", share))
    assert found.failures == {
        "c": 'configmap "none" not found',
        "r": 'the hostPath "./html" is not absolute',
    }
    assert found.foreign == ("f",)


def test_unmounted_volumes_are_ignored():
    volumes = [
        {"name": "d", "hostPath": {"path": "/d", "type": "Directory"}},
        {"name": "c", "configMap": {"name": "none"}},
        {"name": "n", "nfs": {"server": "s", "path": "/"}},
        {"name": "e", "emptyDir": {}},
    ]
    pod = make_pod(volumes=volumes)
    assert plan_volumes(pod, AROUND) == VolumePlan(failures={})
    assert unsupported(pod) == ()
    init = make_pod(init=(mounting("e"),), volumes=volumes)
    assert [one.name for one in plan_volumes(init, AROUND).volumes] == ["e"]


def test_strict_has_no_projected_volumes():
    item = {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}
    projected = {"name": "p", "projected": {"sources": [{"downwardAPI": {"items": [item]}}]}}
    plain = {"name": "d", "downwardAPI": {"items": [item]}}
    found = plan(projected, plain, strict=True)
    assert found.failures == {
        "p": "cannot setup projected volume p because kube client is not configured"
    }
    assert [one.name for one in found.volumes] == ["d"]
    assert plan(projected).failures == {}


FOREIGN = {
    "awsElasticBlockStore": {"volumeID": "x"},
    "azureDisk": {"diskName": "d", "diskURI": "u"},
    "cephfs": {"monitors": ["m"]},
    "cinder": {"volumeID": "x"},
    "fc": {"targetWWNs": ["w"], "lun": 0},
    "flexVolume": {"driver": "a/b"},
    "flocker": {"datasetName": "d"},
    "gcePersistentDisk": {"pdName": "d"},
    "gitRepo": {"repository": "r"},
    "iscsi": {"targetPortal": "p", "iqn": "iqn.2026-01.x:y", "lun": 0},
    "photonPersistentDisk": {"pdID": "d"},
    "portworxVolume": {"volumeID": "x"},
    "quobyte": {"registry": "r:1", "volume": "v"},
    "rbd": {"monitors": ["m"], "image": "i"},
    "scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": ""}},
    "storageos": {"volumeName": "v"},
    "vsphereVolume": {"volumePath": "p"},
}
API_ONLY = {
    "azureFile": {"secretName": "s", "shareName": "x"},
    "ephemeral": {},
    "glusterfs": {"endpoints": "e", "path": "p"},
    "persistentVolumeClaim": {"claimName": "c"},
}
OURS = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "hostPath",
    "image",
    "nfs",
    "projected",
    "secret",
}


def test_every_volume_type_has_an_answer():
    types = set(Volume.__struct_fields__) - {"name"}
    assert types == OURS | FOREIGN.keys() | API_ONLY.keys()


@pytest.mark.parametrize(
    "kind",
    [
        *FOREIGN,
        *API_ONLY,
    ],
)
def test_a_volume_that_cannot_be_mounted_is_never_a_plain_directory(kind):
    source = (FOREIGN | API_ONLY)[kind]
    found = plan({"name": "f", kind: source})
    assert (found.volumes, found.foreign) == ((), ("f",))
    pod = make_pod(mounting("f"), volumes=[{"name": "f", kind: source}])
    text = f'volumes of type {kind} are not supported: the pod waits for "f"'
    is_claim = kind in ("persistentVolumeClaim", "ephemeral")
    assert unsupported(pod) == (() if is_claim else (("NotSupported", text),))


# --- host paths


@pytest.mark.parametrize(
    ("kind", "fits", "words"),
    [
        ("Directory", HostPathKind.DIRECTORY, "a directory"),
        ("DirectoryOrCreate", HostPathKind.DIRECTORY, "a directory"),
        ("File", HostPathKind.FILE, "a file"),
        ("FileOrCreate", HostPathKind.FILE, "a file"),
        ("Socket", HostPathKind.SOCKET, "a socket file"),
        ("CharDevice", HostPathKind.CHAR_DEVICE, "a character device"),
        ("BlockDevice", HostPathKind.BLOCK_DEVICE, "a block device"),
    ],
)
def test_a_host_path_must_have_its_type(kind, fits, words):
    for found in HostPathKind:
        problem = "" if found is fits else f"hostPath type check failed: /x is not {words}"
        assert host_path_problem("/x", kind, found) == problem


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("DirectoryOrCreate", "Directory"),
        ("FileOrCreate", "File"),
        ("Directory", ""),
        ("File", ""),
        ("", ""),
    ],
)
def test_missing_host_paths_are_created_by_type(kind, made):
    assert created_as(kind) == made
