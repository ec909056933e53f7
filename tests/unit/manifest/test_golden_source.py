"""Manifests recorded with a real kubelet: the same results under ``kubeletStrict``, and by default
the differences of `docs/departures.md`."""

from __future__ import annotations

import json

import pytest
from repository import GOLDEN

from podtui.api.local import Severity
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.result import ReadResult

NODE = "refnode"


def read(case: str, *, strict: bool) -> ReadResult:
    data = (GOLDEN / case / "manifest.yaml").read_bytes()
    path = f"/etc/kubernetes/manifests/{case}.yaml"
    return read_manifest(path, data, node_name=NODE, strict=strict)


def made(result: ReadResult) -> list[str]:
    return [item.metadata.name for item in (*result.pods, *result.objects)]


def refusal(case: str) -> str:
    """Return the kubelet's reason for not creating a pod."""
    return (GOLDEN / case / "refusal.txt").read_text().strip()


def ran(case: str) -> bool:
    return json.loads((GOLDEN / case / "pod.json").read_text()) != []


def code_and_place(result: ReadResult) -> list[tuple[str, int | None, int | None]]:
    return [(d.code, d.line, d.column) for d in result.diagnostics]


@pytest.mark.parametrize("case", ["json-manifest", "multi-doc", "unknown-field"])
def test_pods_that_the_kubelet_ran(case: str) -> None:
    assert ran(case)
    result = read(case, strict=True)
    assert made(result) == [f"{case}-{NODE}"]
    assert all(found.severity is Severity.WARNING for found in result.diagnostics)


def test_the_same_without_strict() -> None:
    assert made(read("json-manifest", strict=False)) == [f"json-manifest-{NODE}"]


def test_without_strict_all_pods_of_a_file_run() -> None:
    names = made(read("multi-doc", strict=False))
    assert names == [f"multi-doc-{NODE}", f"multi-doc-two-{NODE}"]


def test_without_strict_pods_may_refer_to_config_maps() -> None:
    result = read("configmap-env", strict=False)
    assert made(result) == [f"configmap-env-{NODE}"]
    (found,) = result.diagnostics
    assert (found.code, found.severity) == ("NotPortable", Severity.WARNING)


def test_an_unknown_field_is_an_error_by_default() -> None:
    result = read("unknown-field", strict=False)
    assert made(result) == []
    assert code_and_place(result) == [("UnknownField", 8, 3)]


@pytest.mark.parametrize(
    ("case", "place", "strict"),
    [
        ("invalid-spec", (4, 9), False),
        ("invalid-spec", (4, 9), True),
        ("subpath-missing-vol", (13, 27), False),
        ("subpath-missing-vol", (13, 27), True),
        ("configmap-env", (14, 22), True),
    ],
)
def test_pods_that_the_kubelet_refused(case: str, place: tuple[int, int], strict: bool) -> None:
    result = read(case, strict=strict)
    assert made(result) == []
    (found,) = result.diagnostics
    assert (found.line, found.column) == place
    if case == "subpath-missing-vol" and not strict:
        assert found.message == 'there is no volume "nope"; the Pod has none'
        return
    # The kubelet's reason ends with our message, which may start with "Forbidden: " in addition.
    words = found.message.removeprefix("Forbidden: ")
    assert refusal(case).endswith(words)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("case", "found", "words"),
    [
        ("invalid-yaml", ("InvalidYAML", 4, 5), "did not find expected ',' or '}'"),
        ("empty-file", ("EmptyManifest", 1, 1), "the file contains no object"),
    ],
)
def test_files_that_the_kubelet_could_not_parse(
    case: str, found: tuple[str, int, int], words: str, strict: bool
) -> None:
    result = read(case, strict=strict)
    assert (made(result), code_and_place(result)) == ([], [found])
    assert words in result.diagnostics[0].message
    assert not ran(case)


def test_a_config_map_is_not_a_pod_for_the_kubelet() -> None:
    assert not ran("not-a-pod")
    result = read("not-a-pod", strict=True)
    assert (made(result), code_and_place(result)) == ([], [("FieldValueNotSupported", 2, 7)])
    result = read("not-a-pod", strict=False)
    assert (made(result), result.diagnostics) == (["not-a-pod"], ())
