"""The documents that come from the tests' marks tell gaps and quarrels, and list every field."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from podtui.api.v1 import ObjectMeta, PodSpec

ROOT = Path(__file__).resolve().parents[2]
FIELDS = (
    "spec.hostNetwork",
    "spec.containers.tty",
    "spec.containers.stdin",
    "spec.initContainers.tty",
    "spec.initContainers.stdin",
)


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "coverage_docs", ROOT / "scripts/coverage_docs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_docs"] = module
    spec.loader.exec_module(module)
    return module


def proof(docs: ModuleType, name: str, outcome: str = "passed", **said: object):
    return docs.Proof(
        f"tests/test_x.py::{name}", said.get("cases", ()), said.get("fields", {}), outcome
    )


def test_every_field_of_a_pod_is_listed(docs: ModuleType) -> None:
    found = docs.all_fields()
    assert len(found) == len(set(found)) > 500
    for struct, prefix in ((ObjectMeta, "metadata"), (PodSpec, "spec")):
        for name in struct.__struct_fields__:
            path = f"{prefix}.{name}"
            assert any(one == path or one.startswith(path + ".") for one in found), path


def test_the_nearest_mark_counts(docs: ModuleType) -> None:
    proofs = (
        proof(docs, "test_all", fields={"spec.containers": "honoured"}),
        proof(docs, "test_tty", fields={"spec.containers.tty": "no-effect"}),
        proof(docs, "test_net", fields={"spec.hostNetwork": "honoured"}),
    )
    found, problems = docs.answers(FIELDS, proofs)
    assert problems == []
    assert {field: answer for field, (answer, _) in found.items()} == {
        "spec.hostNetwork": "honoured",
        "spec.containers.tty": "no-effect",
        "spec.containers.stdin": "honoured",
        "spec.initContainers.tty": "no-effect",
        "spec.initContainers.stdin": "honoured",
    }


def test_an_init_container_may_differ(docs: ModuleType) -> None:
    proofs = (
        proof(docs, "test_all", fields={"spec": "honoured"}),
        proof(docs, "test_init", fields={"spec.initContainers.tty": "refused"}),
    )
    found, _ = docs.answers(FIELDS, proofs)
    assert found["spec.initContainers.tty"][0] == "refused"
    assert found["spec.containers.tty"][0] == "honoured"
    text = docs.field_document(FIELDS, found, {"spec.containers.tty": "no"})
    assert "`tty` | refused, with the reason" in text
    assert "`tty` | honoured | no |" in text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"spec.hostNetwork": "honoured"}, "spec.containers.tty: no test proves"),
        ({"spec.nonsense": "honoured"}, "no such field: spec.nonsense"),
    ],
)
def test_gaps_are_told(docs: ModuleType, fields: dict[str, str], words: str) -> None:
    _, problems = docs.answers(FIELDS, (proof(docs, "test_one", fields=fields),))
    assert any(words in problem for problem in problems), problems


def test_quarrels_are_told(docs: ModuleType) -> None:
    one = proof(docs, "test_one", fields={"spec": "honoured"})
    two = proof(docs, "test_two", fields={"spec": "refused"})
    _, problems = docs.answers(FIELDS, (one, two))
    assert len(problems) == 1
    assert "tests disagree" in problems[0]


def test_a_case_without_a_test_and_a_test_without_a_case(docs: ModuleType) -> None:
    titles = {"Source": {"1": "first", "2": "second"}}
    text, problems = docs.case_document(titles, (proof(docs, "test_one", cases=(1, 9)),))
    assert problems == ["tests/test_x.py::test_one: no such case: 9", "case 2: no test"]
    assert "| 1 | first | passed |" in text
    assert "| 2 | second | no test |" in text
    assert "1 of 2 pass." in text


def test_one_failing_test_fails_its_case(docs: ModuleType) -> None:
    proofs = (proof(docs, "test_a", cases=(1,)), proof(docs, "test_b", "failed", cases=(1,)))
    text, _ = docs.case_document({"Source": {"1": "first"}}, proofs)
    assert "| 1 | first | failed |" in text


def test_a_test_left_out_in_one_run_and_done_in_another_counts(
    docs: ModuleType, tmp_path: Path
) -> None:
    said = {"cases": [1], "fields": {}}
    for name, outcome in (("a", "skipped"), ("b", "passed")):
        report = {"tests/test_x.py::test_one": {**said, "outcome": outcome}}
        (tmp_path / name).write_text(json.dumps(report))
    (found,) = docs.read_reports((tmp_path / "a", tmp_path / "b"))
    assert found.outcome == "passed"
