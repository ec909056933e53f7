"""Write ``docs/conformance.md`` and ``docs/pod-fields.md`` from what the tests showed.

``pytest --marks-report=FILE`` says which tests cover which acceptance cases and pod fields; give
this script the reports of a whole run. ``--check`` writes nothing and exits 1 where a case has no
test, a field no answer, two tests disagree, a mark names what does not exist, or a committed
document is not what the reports give.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from podtui.api import v1

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "scripts" / "proof"
WORDS = {
    "honoured": "honoured",
    "no-effect": "accepted, no effect here (said once)",
    "refused": "refused, with the reason",
}
# Init and ephemeral containers have the shape of plain ones; a row of their own only where marked.
SAME_SHAPE = ("spec.initContainers", "spec.ephemeralContainers")


@dataclass(frozen=True, slots=True)
class Proof:
    """One test, without its parameters."""

    node: str
    cases: tuple[int, ...]
    fields: Mapping[str, str]
    outcome: str
    compares: tuple[str, ...] = ()

    @property
    def link(self) -> str:
        path, _, name = self.node.partition("::")
        return f"[{name.replace('::', '.')}](../{path})"


def read_reports(paths: Sequence[Path]) -> tuple[Proof, ...]:
    found: dict[str, Proof] = {}
    for path in paths:
        for node, said in json.loads(path.read_text()).items():
            rows = tuple(said.get("compares", ()))
            proof = Proof(node, tuple(said["cases"]), said["fields"], said["outcome"], rows)
            known = found.get(node)
            # A test that one run of several leaves out did run in another.
            if known is None or known.outcome == "skipped":
                found[node] = proof
    return tuple(found[node] for node in sorted(found))


def _struct_in(kind: object) -> type[msgspec.Struct] | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    for argument in typing.get_args(kind):
        found = _struct_in(argument)
        if found is not None:
            return found
    return None


def leaves(struct: type[msgspec.Struct], prefix: str) -> Iterator[str]:
    """Paths of all fields beneath, list indexes left out."""
    for one in msgspec.structs.fields(struct):
        path = f"{prefix}.{one.name}"
        inner = _struct_in(one.type)
        if inner is None:
            yield path
        else:
            yield from leaves(inner, path)


def all_fields() -> tuple[str, ...]:
    return (*leaves(v1.ObjectMeta, "metadata"), *leaves(v1.PodSpec, "spec"))


def _beneath(path: str, ancestor: str) -> bool:
    return path == ancestor or path.startswith(ancestor + ".")


def _canonical(path: str) -> str:
    for other in SAME_SHAPE:
        if path.startswith(other + "."):
            return "spec.containers" + path.removeprefix(other)
    return path


def answers(
    fields: Sequence[str], proofs: Sequence[Proof]
) -> tuple[dict[str, tuple[str, list[Proof]]], list[str]]:
    """Per field its answer and the tests that prove it, nearest mark first; then what is wrong."""
    problems: list[str] = []
    marks: dict[str, dict[str, list[Proof]]] = {}
    for proof in proofs:
        for path, answer in proof.fields.items():
            if not any(_beneath(field, path) for field in fields):
                problems.append(f"{proof.node}: no such field: {path}")
            marks.setdefault(path, {}).setdefault(answer, []).append(proof)
    for path, by_answer in sorted(marks.items()):
        if len(by_answer) > 1:
            said = "; ".join(f"{a}: {', '.join(p.node for p in ps)}" for a, ps in by_answer.items())
            problems.append(f"{path}: tests disagree: {said}")
    found: dict[str, tuple[str, list[Proof]]] = {}
    for field in fields:
        nearest = max((p for p in marks if _beneath(field, p)), key=len, default=None)
        canonical = _canonical(field)
        if canonical != field:
            shared = max((p for p in marks if _beneath(canonical, p)), key=len, default="")
            if nearest is None or len(shared) - len("spec.containers") > len(nearest) - len(
                next(other for other in SAME_SHAPE if field.startswith(other))
            ):
                nearest = shared or None
        if nearest is None:
            problems.append(f"{field}: no test proves what becomes of it")
            continue
        answer, tests = next(iter(marks[nearest].items()))
        found[field] = (answer, tests)
    return found, problems


def _shown_fields(
    fields: Sequence[str], found: Mapping[str, tuple[str, list[Proof]]]
) -> Iterator[tuple[str, str, list[Proof]]]:
    """Rows: init and ephemeral containers only where they differ from plain ones."""
    for field in fields:
        if field not in found:
            continue
        answer, tests = found[field]
        canonical = _canonical(field)
        if canonical != field and found.get(canonical, ("", []))[0] == answer:
            continue
        yield field, answer, tests


def field_document(
    fields: Sequence[str],
    found: Mapping[str, tuple[str, list[Proof]]],
    podman: Mapping[str, str],
) -> str:
    counts = dict.fromkeys(WORDS, 0)
    lines: list[str] = []
    group = ""
    for field, answer, tests in _shown_fields(fields, found):
        counts[answer] += 1
        top = _group_of(field)
        if top != group:
            group = top
            lines += ["", f"## {group}", "", "| field | podtui | podman kube play | proved by |"]
            lines += ["|---|---|---|---|"]
        peer = podman.get(max((p for p in podman if _beneath(field, p)), key=len, default=""), "")
        proof = ", ".join(test.link for test in tests[:2])
        more = f" and {len(tests) - 2} more" if len(tests) > 2 else ""
        name = field.removeprefix(group + ".")
        lines.append(f"| `{name}` | {WORDS[answer]} | {peer or '–'} | {proof}{more} |")
    total = sum(counts.values())
    head = [
        "# Every field of a Pod, and what becomes of it",
        "",
        "Written by `make docs` from the marks of the tests that prove each row; `make test` fails",
        "when a field has no answer. Init and ephemeral containers have the shape of plain ones,",
        "and are listed only where they differ. The column of `podman kube play` is its own list;",
        "a dash means that the list does not name the field.",
        "",
        f"{total} fields: {counts['honoured']} honoured, {counts['no-effect']} accepted without",
        f"effect here (one Warning event or diagnostic says so), {counts['refused']} refused with",
        "the reason.",
    ]
    return "\n".join([*head, *lines]) + "\n"


def _group_of(field: str) -> str:
    parts = field.split(".")
    deep = ("containers", "initContainers", "ephemeralContainers", "volumes", "securityContext")
    if len(parts) > 2 and parts[1] in deep:
        return ".".join(parts[:2])
    return parts[0]


def case_document(
    titles: Mapping[str, Mapping[str, str]], proofs: Sequence[Proof]
) -> tuple[str, list[str]]:
    by_case: dict[int, list[Proof]] = {}
    known = {int(number) for group in titles.values() for number in group}
    problems = [
        f"{proof.node}: no such case: {number}"
        for proof in proofs
        for number in proof.cases
        if number not in known
    ]
    for proof in proofs:
        for number in proof.cases:
            by_case.setdefault(number, []).append(proof)
    problems += [f"case {number}: no test" for number in sorted(known - by_case.keys())]
    lines: list[str] = []
    passed = 0
    for group, cases in titles.items():
        lines += ["", f"## {group}", "", "| | case | result | tests |", "|---|---|---|---|"]
        for number, title in cases.items():
            tests = by_case.get(int(number), [])
            result = _result(tests)
            passed += result == "passed"
            links = ", ".join(test.link for test in tests)
            lines.append(f"| {number} | {title} | {result} | {links} |")
    head = [
        "# Acceptance cases",
        "",
        "The acceptance cases of the kubelet reference (v1.36), the tests that show each, and how",
        "they ended. Written by `make docs`; `make test` fails when a case has no test or a test",
        "fails. What a real kubelet did with whole manifests, and podtui beside it, is in",
        "[golden.md](golden.md).",
        "",
        f"{passed} of {len(known)} pass.",
    ]
    return "\n".join([*head, *lines]) + "\n", problems


def _result(tests: Sequence[Proof]) -> str:
    if not tests:
        return "no test"
    outcomes = {test.outcome for test in tests}
    if "failed" in outcomes:
        return "failed"
    return "passed" if "passed" in outcomes else "skipped"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    proofs = read_reports(arguments.reports)
    titles = tomllib.loads((DATA / "acceptance_cases.toml").read_text())
    podman = tomllib.loads((DATA / "podman_fields.toml").read_text())
    fields = all_fields()
    found, problems = answers(fields, proofs)
    cases, more = case_document(titles, proofs)
    problems += more
    documents = {
        ROOT / "docs" / "conformance.md": cases,
        ROOT / "docs" / "pod-fields.md": field_document(fields, found, podman),
    }
    for path, text in documents.items():
        if arguments.check:
            if not path.exists() or path.read_text() != text:
                problems.append(f"{path.relative_to(ROOT)} is stale: run make docs")
        else:
            path.write_text(text)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
