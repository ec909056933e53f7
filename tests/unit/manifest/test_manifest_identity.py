"""The identity of a static pod (kubelet.md §1.3)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import yaml
from manifests import pod_text

from podtui.api import names
from podtui.api.v1 import Pod
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.identity import fnv1a_128, seen_text


def read(text: str, *, node: str = "n1", path: str = "/m/web.yaml") -> Pod:
    result = read_manifest(path, text.encode(), node_name=node)
    assert result.pods, [d.message for d in result.diagnostics]
    return result.pods[0]


def test_fnv1a_128_known_answers() -> None:
    assert fnv1a_128(b"") == "6c62272e07bb014262b821756295c58d"
    assert fnv1a_128(b"a") == "d228cb696f1a8caf78912b704e4a8964"
    assert fnv1a_128(b"foobar") == "343e1662793c64bf6f0d3597ba446f18"


def test_case_1_identity_of_a_manifest() -> None:
    pod = read(pod_text())
    meta = pod.metadata
    assert (meta.name, meta.namespace) == ("web-n1", "default")
    assert len(meta.uid) == 32
    assert int(meta.uid, 16) >= 0
    assert meta.annotations == {
        names.CONFIG_HASH: meta.uid,
        names.CONFIG_SOURCE: "file",
        names.MANIFEST_PATH: "/m/web.yaml",
    }
    assert pod.status.phase == "Pending"
    (toleration,) = pod.spec.tolerations
    assert (toleration.operator, toleration.effect) == ("Exists", "NoExecute")


def test_case_2_suffix_is_lower_case_and_node_name_is_not() -> None:
    pod = read(pod_text(), node="N1")
    assert (pod.metadata.name, pod.spec.nodeName) == ("web-n1", "N1")


def test_case_5_json_gives_the_same_uid_as_equal_yaml() -> None:
    as_json = json.dumps(yaml.safe_load(pod_text()))
    assert read(as_json) == read(pod_text())
    assert read(as_json, path="/m/web.json").metadata.uid != read(pod_text()).metadata.uid


def test_case_6_formatting_does_not_change_the_uid() -> None:
    text = pod_text(extra="    imagePullPolicy: IfNotPresent\n")
    shuffled = (
        "# a comment\n\nspec:\n  restartPolicy: Always\n  containers:\n"
        "    - {image: 'busybox:1', name: c}\nkind: Pod\nmetadata: {name: web}\napiVersion: v1\n"
    )
    assert read(text) == read(shuffled) == read(pod_text())


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (pod_text(image="busybox:2"), {}),
        (pod_text(name="web2"), {}),
        (pod_text(extra="    tty: true\n"), {}),
        (pod_text(), {"node": "n2"}),
        (pod_text(), {"path": "/m/other.yaml"}),
    ],
)
def test_case_7_content_changes_the_uid(text: str, settings: dict[str, str]) -> None:
    assert read(text, **settings).metadata.uid != read(pod_text()).metadata.uid


def test_case_8_a_fixed_uid_is_kept() -> None:
    text = pod_text().replace("  name: web\n", "  name: web\n  uid: abc\n")
    pod = read(text)
    assert pod.metadata.uid == "abc"
    assert pod.metadata.annotations[names.CONFIG_HASH] == "abc"
    assert read(text.replace("busybox:1", "busybox:2")).metadata.uid == "abc"


def test_namespace_and_annotations_of_the_manifest_are_kept() -> None:
    text = pod_text().replace(
        "  name: web\n", "  name: web\n  namespace: apps\n  annotations: {a/b: c}\n"
    )
    meta = read(text).metadata
    assert meta.namespace == "apps"
    assert meta.annotations["a/b"] == "c"


def test_seen_has_nine_digits() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 67, tzinfo=UTC)
    assert seen_text(moment) == "2026-01-02T03:04:05.000067000Z"
    assert seen_text(moment, 89) == "2026-01-02T03:04:05.000067089Z"


def test_the_no_execute_toleration_replaces_an_equal_one() -> None:
    text = pod_text(
        extra="  tolerations:\n"
        "  - {operator: Exists, effect: NoExecute, tolerationSeconds: 5}\n"
        "  - {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}\n"
    )
    every, other = read(text).spec.tolerations
    assert (every.key, every.effect, every.tolerationSeconds) == ("", "NoExecute", None)
    assert (other.key, other.tolerationSeconds) == ("a", 5)
