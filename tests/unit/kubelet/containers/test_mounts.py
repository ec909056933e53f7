"""Mounts of containers."""

from __future__ import annotations

import pytest
from pod_builders import ctr, make_pod

from podtui.kubelet.containers.mounts import container_mounts
from podtui.kubelet.types import ConfigError
from podtui.runtime.protocol import Mount, NfsShare

READ_ONLY = ("downwardAPI", "projected", "configMap", "secret", "image")


def mounts(mount, volume=None, variables=None, *, supported=False, **fields):
    mount = {"name": "v", "mountPath": "/m", **mount}
    source = {"emptyDir": {}} if volume is None else volume
    pod = make_pod(ctr(volumeMounts=[mount]), volumes=[{"name": "v", **source}], **fields)
    (container,) = pod.spec.containers
    return container_mounts(pod, container, variables or {}, recursive_read_only=supported)


def refused(mount, **fields) -> str:
    with pytest.raises(ConfigError) as caught:
        mounts(mount, **fields)
    return str(caught.value)


@pytest.mark.parametrize(
    ("mount", "volume", "expected"),
    [
        ({}, {"emptyDir": {}}, {"volume": "v"}),
        ({}, {}, {"volume": "v"}),
        ({"readOnly": True}, {"emptyDir": {}}, {"volume": "v", "read_only": True}),
        ({"subPath": "a/b"}, {"emptyDir": {}}, {"volume": "v", "sub_path": "a/b"}),
        ({}, {"hostPath": {"path": "/x"}}, {"host_path": "/x"}),
        (
            {"readOnly": True, "subPath": "s"},
            {"hostPath": {"path": "/x", "type": "Directory"}},
            {"host_path": "/x", "sub_path": "s", "read_only": True},
        ),
        (
            {},
            {"hostPath": {"path": "/x", "type": "DirectoryOrCreate"}},
            {"host_path": "/x", "host_path_create": "Directory"},
        ),
        (
            {},
            {"hostPath": {"path": "/x", "type": "FileOrCreate"}},
            {"host_path": "/x", "host_path_create": "File"},
        ),
        (
            {"mountPropagation": "HostToContainer"},
            {"hostPath": {"path": "/x"}},
            {"host_path": "/x", "propagation": "rslave"},
        ),
        (
            {"mountPropagation": "Bidirectional"},
            {"hostPath": {"path": "/x"}},
            {"host_path": "/x", "propagation": "rshared"},
        ),
        ({"mountPropagation": "None"}, {"emptyDir": {}}, {"volume": "v"}),
    ],
)
def test_mounts(mount, volume, expected):
    assert mounts(mount, volume) == (Mount(container_path="/m", **expected),)


@pytest.mark.parametrize("kind", READ_ONLY)
def test_kubelet_written_volumes_are_mounted_read_only(kind):
    (found,) = mounts(
        {"subPath": "a"}, {kind: {}} if kind != "configMap" else {kind: {"name": "m"}}
    )
    assert (found.volume, found.sub_path, found.read_only) == ("v", "a", True)


def test_created_sub_paths_belong_to_the_fs_group():
    group = {"securityContext": {"fsGroup": 123}}
    for mount, volume, gid in (
        ({"subPath": "a"}, {"emptyDir": {}}, 123),
        ({"subPathExpr": "a"}, {"emptyDir": {"medium": "Memory"}}, 123),
        ({"subPath": "a"}, {"hostPath": {"path": "/x"}}, 0),
        ({}, {"emptyDir": {}}, 0),
    ):
        assert mounts(mount, volume, **group)[0].gid == gid, (mount, volume)
    assert mounts({"subPath": "a"})[0].gid == 0


def test_a_relative_mount_path_is_below_the_root():
    assert mounts({"mountPath": "data"})[0].container_path == "/data"


def test_sub_paths_from_variables():
    (found,) = mounts({"subPathExpr": "$(POD)/$$x/$(A"}, variables={"POD": "p"})
    assert found.sub_path == "p/$x/$(A"
    for empty in ({}, {"POD": ""}):
        assert refused({"subPathExpr": "$(POD)"}, variables=empty) == "missing value for POD"
    assert refused({"subPathExpr": "$(Z)$(B)$(A)"}, variables={"B": "b"}) == (
        "missing value for A, Z"
    )


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"subPath": "/a"}, "error SubPath `/a` must not be an absolute path"),
        ({"subPath": "a/../b"}, "unable to provision SubPath `a/../b`: must not contain '..'"),
        (
            {"subPathExpr": "$(UP)"},
            "unable to provision SubPath `../x`: must not contain '..'",
        ),
        ({"subPathExpr": "$(ROOT)"}, "error SubPath `/x` must not be an absolute path"),
        ({"name": "nope"}, 'cannot find volume "nope" to mount into container "c"'),
    ],
)
def test_invalid_mounts(mount, message):
    assert refused(mount, variables={"UP": "../x", "ROOT": "/x"}) == message


def test_an_nfs_volume():
    nfs = {"nfs": {"server": "s", "path": "/p", "readOnly": True}}
    (mount,) = mounts({"subPath": "a"}, volume=nfs)
    assert mount.nfs == NfsShare(server="s", path="/p", options=("ro",))
    assert (mount.volume, mount.host_path, mount.sub_path) == ("", "", "a")
    assert not mount.read_only


def test_a_volume_that_cannot_be_mounted_is_none():
    fc = {"fc": {"targetWWNs": ["w"], "lun": 0}}
    assert refused({}, volume=fc) == 'cannot find volume "v" to mount into container "c"'


@pytest.mark.parametrize(
    ("mode", "supported", "expected"),
    [
        ("", True, False),
        ("Disabled", True, False),
        ("IfPossible", True, True),
        ("IfPossible", False, False),
        ("Enabled", True, True),
    ],
)
def test_recursive_read_only(mode, supported, expected):
    (found,) = mounts({"readOnly": True, "recursiveReadOnly": mode}, supported=supported)
    assert (found.read_only, found.recursive_read_only) == (True, expected)


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        ({"readOnly": True}, "not supported by the runtime"),
        ({}, "not read-only"),
        (
            {"readOnly": True, "mountPropagation": "HostToContainer"},
            'not compatible with propagation "HostToContainer"',
        ),
    ],
)
def test_unsupported_recursive_read_only(mount, why):
    assert refused({"recursiveReadOnly": "Enabled", **mount}) == (
        "failed to resolve recursive read-only mode:"
        f' volume "v" requested recursive read-only mode, but it is {why}'
    )
