"""Pods that were created at a real API server (v1.36.2): its warnings, and the fields it set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from podtui.manifest.strategies.pods import PODS
from podtui.manifest.warnings import pod_warnings
from podtui.server.encoding.bodies import to_struct

RECORDING = Path(__file__).with_name("pod_warnings.jsonl")
CASES = [json.loads(line) for line in RECORDING.read_text().splitlines()]
SELECTING = ("affinity", "topologySpreadConstraints")


def pod_of(case: dict[str, Any]) -> Any:
    tree = json.loads(json.dumps(case["pod"]))
    tree["metadata"]["namespace"] = "default"
    PODS.defaults(tree)
    return to_struct(tree, PODS.struct)


def test_the_warnings_are_those_of_a_real_api_server() -> None:
    wrong: list[Any] = []
    for case in CASES:
        pod = pod_of(case)
        assert not list(PODS.validate_create(PODS.prepare_create(pod))), case
        # The headers of a response have each text once.
        found = list(dict.fromkeys(PODS.warnings(pod, None)))
        if found != case["warnings"]:
            wrong.append((case["pod"], found, case["warnings"]))
    assert wrong == []
    assert sum(bool(case["warnings"]) for case in CASES) > 80


def test_label_keys_and_apparmor_annotations_are_copied_to_fields() -> None:
    wrong: list[Any] = []
    for case in CASES:
        spec = json.loads(msgspec.json.encode(PODS.prepare_create(pod_of(case)).spec))
        found = {name: spec[name] for name in SELECTING if spec.get(name)}
        contexts = [one.get("securityContext") for one in spec["containers"]]
        if (found, contexts) != (case["spec"], case["contexts"]):
            wrong.append((case, found, contexts))
    assert wrong == []
    assert any("matchExpressions" in json.dumps(case["spec"]) for case in CASES)
    assert any(any(case["contexts"]) for case in CASES)


def test_an_update_of_a_pod_has_no_warnings() -> None:
    pod = pod_of(CASES[0])
    assert list(pod_warnings(pod))
    assert list(PODS.warnings(pod, pod)) == []
