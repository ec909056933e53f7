"""A valid pod, edits to it, and the errors that are expected of them."""

from __future__ import annotations

import copy
import re
from typing import Any

import msgspec
import pytest

from podtui.api.v1 import Pod
from podtui.manifest.validation import FieldError, validate_pod

Edits = dict[str, Any]
Expected = list[tuple[str, str]]
GONE = object()
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container as defaulting leaves it."""
    return {
        "name": name,
        "image": "registry.example/app:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **fields,
    }


def volume(**source: Any) -> dict[str, Any]:
    return {"name": "data", **source}


def probe(**fields: Any) -> dict[str, Any]:
    """An exec probe as defaulting leaves it."""
    counts = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1}
    return {"exec": {"command": ["true"]}, **counts, "failureThreshold": 3, **fields}


def handler(**fields: Any) -> dict[str, Any]:
    """A probe with the given handler alone."""
    return {key: value for key, value in probe(**fields).items() if key != "exec"}


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
    """The valid pod with the fields at the given paths set, or taken away (`GONE`)."""
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


def broken(edits: Edits) -> Expected:
    return [(error.path, error.type) for error in validate_pod(built(edits))]


def only_error(edits: Edits) -> FieldError:
    (error,) = validate_pod(built(edits))
    return error


def table(*rows: tuple[str, Edits, Expected]) -> pytest.MarkDecorator:
    """Parametrize a test over rows of a name, edits and the errors they make, in order."""
    params = [pytest.param(edits, expected, id=name) for name, edits, expected in rows]
    return pytest.mark.parametrize(("edits", "expected"), params)
