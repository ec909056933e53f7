"""A valid pod as defaulting leaves it, and edits to it."""

from __future__ import annotations

import copy
import re
from typing import Any

import msgspec

from podtui.api.v1 import Pod
from podtui.manifest.validation import FieldError, validate_pod

Edits = dict[str, Any]
GONE = object()
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    """Return a container with defaults."""
    return {
        "name": name,
        "image": "registry.example/app:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **fields,
    }


def main_container(**fields: Any) -> Edits:
    """Return edits that replace the containers by one with these fields."""
    return {"spec.containers": [container(**fields)]}


def volume(**source: Any) -> dict[str, Any]:
    return {"name": "data", **source}


_BASE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-node", "namespace": "default"},
    "spec": {
        "containers": [container()],
        "nodeName": "node",
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
    },
}


def built(edits: Edits) -> Pod:
    """Return the valid pod with the fields at the given paths set, or removed (`GONE`)."""
    tree = copy.deepcopy(_BASE)
    for path, value in edits.items():
        _set(tree, path, value)
    return msgspec.convert(tree, Pod)


def _set(tree: dict[str, Any], path: str, value: Any) -> None:
    steps = [int(s[1:-1]) if s[0] == "[" else s for s in _STEP.findall(path)]
    here: Any = tree
    for step in steps[:-1]:
        here = here[step] if isinstance(step, int) else here.setdefault(step, {})
    if value is GONE:
        del here[steps[-1]]
    else:
        here[steps[-1]] = copy.deepcopy(value)


def only_error(edits: Edits) -> FieldError:
    (error,) = validate_pod(built(edits))
    return error
