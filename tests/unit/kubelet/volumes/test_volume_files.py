"""The content and layout of configuration volumes."""

from __future__ import annotations

import base64

import msgspec
import pytest
from pod_builders import ctr, make_pod, node

from podtui.api.v1 import ConfigMap, Secret
from podtui.kubelet.types import ConfigError
from podtui.kubelet.value_sources import ValueSources
from podtui.kubelet.volumes.pod_volumes import pod_volume
from podtui.runtime.protocol import PodVolume

MAP = msgspec.convert(
    {
        "metadata": {"name": "m", "namespace": "default"},
        "data": {"a": "1", "b": "2"},
        "binaryData": {"raw": base64.b64encode(b"\xff\x00").decode()},
    },
    ConfigMap,
)
SECRET = msgspec.convert(
    {"metadata": {"name": "s", "namespace": "default"}, "data": {"p": "aHVzaA=="}}, Secret
)
AROUND = ValueSources(
    node=node(), config_maps={("default", "m"): MAP}, secrets={("default", "s"): SECRET}
)


def volume(source, *containers, **fields) -> PodVolume:
    pod = make_pod(*containers, volumes=[{"name": "v", **source}], **fields)
    return pod_volume(pod, pod.spec.volumes[0], AROUND)


def refused(source) -> str:
    with pytest.raises(ConfigError) as caught:
        volume(source)
    return str(caught.value)


def contents(found: PodVolume) -> dict[str, tuple[bytes, int]]:
    """Return content and mode by the path for a reader, through the links."""
    links = {one.path: one.target for one in found.files if one.target}
    files = {one.path: one for one in found.files if not one.target}
    data = links.pop("..data")
    tops = {path.removeprefix(f"{data}/").partition("/")[0] for path in files}
    assert links == {top: f"..data/{top}" for top in tops}
    return {path.removeprefix(f"{data}/"): (one.content, one.mode) for path, one in files.items()}


def named(path: str, **more) -> dict:
    return {"path": path, "fieldRef": {"fieldPath": "metadata.name"}, **more}


def test_downward_api_items():
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        named("deep/name", mode=0o600),
        {
            "path": "cpu",
            "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1m"},
        },
    ]
    found = volume({"downwardAPI": {"items": items}}, labels={"b": "2", "a": "1"})
    assert contents(found) == {
        "labels": (b'a="1"\nb="2"', 0o644),
        "deep/name": (b"web-n1", 0o600),
        "cpu": (b"2000", 0o644),
    }


def test_each_content_has_its_own_directory():
    source = {
        "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    }
    one, again = (volume(source, labels={"a": "1"}) for _ in range(2))
    other = volume(source, labels={"a": "2"})
    assert again == one
    assert {file.path for file in other.files} != {file.path for file in one.files}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", b"web-n1"),
        ("metadata.namespace", b"default"),
        ("metadata.uid", b"u1"),
        ("metadata.labels['app']", b"web"),
        ("metadata.annotations['kubernetes.io/config.source']", b"file"),
        ("metadata.annotations", b'kubernetes.io/config.source="file"'),
    ],
)
def test_downward_api_fields(path, expected):
    source = {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": path}}]}}
    assert contents(volume(source, labels={"app": "web"})) == {"x": (expected, 0o644)}


@pytest.mark.parametrize(
    "source",
    [
        {"downwardAPI": {"defaultMode": 0o400, "items": [named("a"), named("b", mode=0o640)]}},
        {
            "projected": {
                "defaultMode": 0o400,
                "sources": [{"downwardAPI": {"items": [named("a"), named("b", mode=0o640)]}}],
            }
        },
        {
            "configMap": {
                "name": "m",
                "defaultMode": 0o400,
                "items": [{"key": "a", "path": "a"}, {"key": "b", "path": "b", "mode": 0o640}],
            }
        },
        {
            "secret": {
                "secretName": "s",
                "defaultMode": 0o400,
                "items": [{"key": "p", "path": "a"}, {"key": "p", "path": "b", "mode": 0o640}],
            }
        },
    ],
)
def test_modes(source):
    found = contents(volume(source))
    assert {path: mode for path, (_, mode) in found.items()} == {"a": 0o400, "b": 0o640}


def test_fields_not_available_in_volumes():
    item = {"path": "x", "fieldRef": {"fieldPath": "spec.nodeName"}}
    other = {"path": "y", "fieldRef": {"fieldPath": "status.podIP"}}
    assert refused({"downwardAPI": {"items": [item]}}) == "unsupported fieldPath: spec.nodeName"
    assert refused({"downwardAPI": {"items": [item, other, item]}}) == (
        "[unsupported fieldPath: spec.nodeName, unsupported fieldPath: status.podIP]"
    )


def test_documents_as_files():
    whole = volume({"configMap": {"name": "m"}})
    assert contents(whole) == {
        "a": (b"1", 0o644),
        "b": (b"2", 0o644),
        "raw": (b"\xff\x00", 0o644),
    }
    picked = volume({"configMap": {"name": "m", "items": [{"key": "b", "path": "x/y"}]}})
    assert contents(picked) == {"x/y": (b"2", 0o644)}
    assert contents(volume({"secret": {"secretName": "s"}})) == {"p": (b"hush", 0o644)}
    item = {"key": "p", "path": "deep/p"}
    assert contents(volume({"secret": {"secretName": "s", "items": [item]}})) == {
        "deep/p": (b"hush", 0o644)
    }


def test_projected_sources_share_a_directory_and_the_last_path_wins():
    sources = [
        {"configMap": {"name": "m", "items": [{"key": "a", "path": "a"}]}},
        {"secret": {"name": "s", "items": [{"key": "p", "path": "deep/p", "mode": 0o400}]}},
        {"downwardAPI": {"items": [named("n")]}},
        {"configMap": {"name": "m", "items": [{"key": "b", "path": "a"}]}},
        {"secret": {"name": "none", "optional": True}},
    ]
    assert contents(volume({"projected": {"sources": sources}})) == {
        "a": (b"2", 0o644),
        "deep/p": (b"hush", 0o400),
        "n": (b"web-n1", 0o644),
    }


def test_a_file_cannot_be_the_directory_of_another():
    sources = [{"downwardAPI": {"items": [named("a"), named("a/b/c")]}}]
    assert refused({"projected": {"sources": sources}}) == "mkdir a: not a directory"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "x"}}, 'configmap "x" not found'),
        ({"secret": {"secretName": "x"}}, 'secret "x" not found'),
        (
            {"configMap": {"name": "m", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
        (
            {"projected": {"sources": [{"configMap": {"name": "x"}}, {"secret": {"name": "y"}}]}},
            '[configmap "x" not found, secret "y" not found]',
        ),
        (
            {"projected": {"sources": [{"configMap": {"name": "x"}}]}},
            'configmap "x" not found',
        ),
    ],
)
def test_missing_sources(source, message):
    assert refused(source) == message


def test_missing_optional_sources_are_omitted():
    assert contents(volume({"configMap": {"name": "x", "optional": True}})) == {}
    assert contents(volume({"secret": {"secretName": "x", "optional": True}})) == {}
    items = [{"key": "z", "path": "z"}, {"key": "a", "path": "a"}]
    found = volume({"configMap": {"name": "m", "optional": True, "items": items}})
    assert contents(found) == {"a": (b"1", 0o644)}
    items = [{"key": "z", "path": "z"}]
    assert contents(volume({"secret": {"secretName": "s", "optional": True, "items": items}})) == {}


def test_fs_group_owns_the_files_and_reads_them():
    items = [named("n", mode=0o400), named("x/y", mode=0o711)]
    found = volume({"downwardAPI": {"items": items}}, securityContext={"fsGroup": 5})
    assert contents(found) == {"n": (b"web-n1", 0o440), "x/y": (b"web-n1", 0o751)}
    assert (found.mode, found.gid) == (0o3777, 5)
    assert {one.gid for one in found.files} == {5}


def test_of_another_container():
    ref = {"containerName": "b", "resource": "requests.memory"}
    source = {"downwardAPI": {"items": [{"path": "m", "resourceFieldRef": ref}]}}
    pods = ctr("a"), ctr("b", resources={"requests": {"memory": "1Ki"}})
    assert contents(volume(source, *pods)) == {"m": (b"1024", 0o644)}
