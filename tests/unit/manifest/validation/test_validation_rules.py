"""podtui agrees with the kubelet on every rule for pods (kubelet.md §1.4).

The rules, and the manifests that keep and break them, are in ``cases/``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec
import pytest
from validation_rules import FOLDER, NODE, Case, Rule, Written, cases, is_expected, keys_of, rules

from podtui.api.v1 import Pod
from podtui.manifest.decode import decode
from podtui.manifest.defaults import apply_defaults
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.identity import identify
from podtui.manifest.reader import read_document
from podtui.manifest.validation import FieldError, validate_pod, written_empties
from podtui.manifest.validation.errors import FORBIDDEN

PATH = "/m/web.yaml"
FILES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "words")


def found_errors(text: str) -> list[FieldError]:
    tree, _ = decode(read_document(text.encode()), strict=True)
    assert tree is not None
    apply_defaults(tree)
    pod = identify(msgspec.convert(tree, Pod), node_name=NODE, path=PATH)
    return [*validate_pod(pod), *written_empties(tree)]


def differences(case: Case) -> Iterator[str]:
    """Return the differences between podtui and the kubelet in one case."""
    written = Written(case.manifest)
    errors = found_errors(written.text)
    missing = list(case.errors)
    for message in (error.message() for error in errors):
        known = next((e for e in missing if is_expected(e, message)), None)
        if known is None:
            yield f"{case}: unexpected: {message}"
        else:
            missing.remove(known)
    yield from (f"{case}: missing: {message}" for message in missing)
    # Each error is reported at its position in the file.
    reported = read_manifest(PATH, written.text.encode(), node_name=NODE).diagnostics
    places = {(found.line, found.column) for found in reported}
    for error in errors:
        position = written.position(error.location, key=error.type == FORBIDDEN)
        if position not in places:
            yield f"{case}: {error.message()} is not reported at {position} of\n{written.text}"


@pytest.mark.parametrize("file", FILES)
def test_verdicts_match_the_kubelet(file: str) -> None:
    found = [case for case in cases() if case.file == file]
    assert found
    assert [one for case in found for one in differences(case)] == []


def test_every_rule_has_a_failing_case() -> None:
    known: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules():
        known[rule.function].append(rule)
    broken: set[Rule] = set()
    for case in cases():
        for function in case.functions:
            for message in case.errors:
                fitting = [rule for rule in known[function] if rule.is_broken_in(message)]
                # A rule with a detail takes precedence over one without.
                broken.update(sorted(fitting, key=lambda rule: len(rule.detail))[-1:])
    assert [str(rule) for rule in rules() if rule not in broken] == []


def test_every_error_of_a_case_has_a_listed_rule() -> None:
    unlisted = {
        message
        for case in cases()
        for message in case.errors
        if not any(rule.is_broken_in(message) for rule in rules())
    }
    assert unlisted == set()


def test_every_rule_has_a_passing_case_that_sets_its_field() -> None:
    kept: dict[str, set[str]] = defaultdict(set)
    for case in cases():
        if not case.errors:
            kept[case.file].update(keys_of(case.manifest))
    unkept: dict[str, set[str]] = defaultdict(set)
    for rule, file in rules().items():
        if rule.leaf not in kept[file]:
            unkept[file].add(rule.leaf.replace(" ", ""))
    assert unkept == {file: set(fields.split()) for file, fields in NEVER_VALID.items()}


NEVER_VALID = {
    # Ephemeral containers and gates are invalid at creation, whatever their values.
    "containers": "subPath subPathExpr targetContainerName uID",
    "pod": "ephemeralContainers nodeName",
    "scheduling": "schedulingGates namespace {topologyKey,whenUnsatisfiable}",
    # The API server's spelling, or a path that matches no field.
    "ephemeral-claims": "pod",
    "security": "HostIPC HostPID",
    "volume-drivers": "initiatorname",
    "volumes": "cephFS downwarAPI",
    # Fields of Linux pods only, which are checked under security and pod.
    "windows": (
        "allowPrivilegeEscalation appArmorProfile capabilities fsGroup fsGroupChangePolicy hostIPC"
        " hostPID hostUsers privileged procMount readOnlyRootFilesystem runAsGroup"
        " seLinuxChangePolicy seLinuxOptions seccompProfile shareProcessNamespace"
        " supplementalGroups supplementalGroupsPolicy sysctls"
    ),
}
"""Fields of rules that no valid pod of their file can set."""
