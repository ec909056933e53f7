"""Decoding trees to the API's types: all errors at once, each with position and advice."""

from __future__ import annotations

import msgspec
import pytest
from manifests import pod_text, read

from podtui.api.local import Diagnostic, Severity
from podtui.api.shape import places_of_names
from podtui.api.v1 import Pod
from podtui.manifest.decode import belongs_at, decode
from podtui.manifest.document import Document
from podtui.manifest.problems import MAX_DIAGNOSTICS
from podtui.manifest.reader import read_document


def only(text: str | bytes) -> Diagnostic:
    (diagnostic,) = read(text).diagnostics
    return diagnostic


def in_container(line: str) -> Diagnostic:
    return only(pod_text(extra=f"    {line}\n"))


def in_spec(line: str) -> Diagnostic:
    return only(pod_text(extra=f"  {line}\n"))


def test_restart_policy_under_metadata_names_its_correct_place() -> None:
    found = only(pod_text().replace("  name: web\n", "  name: web\n  restartPolicy: Never\n"))
    assert (found.line, found.column, found.field) == (5, 3, "metadata.restartPolicy")
    assert found.code == "UnknownField"
    assert "belongs at spec.restartPolicy" in found.message
    assert found.fix == "move it to spec.restartPolicy"


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("imagee: x", '"image" is set as well: keep one of the two'),
        ("imge_pull_policy: Always", 'did you mean "imagePullPolicy"?'),
        ("workdirectory: /tmp", 'perhaps "workingDir" is meant'),
        ("image_pull_policy: Always", 'did you mean "imagePullPolicy"?'),
        ("ImagePullPolicy: Always", 'did you mean "imagePullPolicy"?'),
        ("volumeMount: []", 'did you mean "volumeMounts"?'),
        ("hostNetwork: true", "move it to spec.hostNetwork"),
        ("containerPort: 80", "move it to spec.containers[0].ports[].containerPort"),
        ("limits: {cpu: 1}", "move it to spec.containers[0].resources.limits"),
        ("zzz: 1", ""),
    ],
)
def test_unknown_field_in_a_container(line: str, fix: str) -> None:
    found = in_container(line)
    assert (found.code, found.line, found.column) == ("UnknownField", 9, 5)
    assert found.fix == fix


def test_unknown_field_in_the_spec_points_into_the_containers() -> None:
    found = in_spec("command: [sh]")
    assert found.fix == "move it to spec.containers[].command"


def test_suggests_the_nearest_valid_position() -> None:
    here = ("spec", "containers", 2, "livenessProbe")
    assert belongs_at("restartPolicy", here) == ("spec.containers[2].restartPolicy",)
    assert belongs_at("restartPolicy", ("metadata",)) == ("spec.restartPolicy",)
    assert belongs_at("nowhere", ()) == ()
    assert ("spec", "restartPolicy") in places_of_names()["restartPolicy"]


def test_a_misspelt_required_field_is_reported_once() -> None:
    found = read(pod_text().replace("    image:", "    imagee:"))
    assert [d.code for d in found.diagnostics] == ["UnknownField"]
    found = read(pod_text().replace("- name:", "- nme:"))
    assert [d.code for d in found.diagnostics] == ["UnknownField"]


@pytest.mark.parametrize(
    ("line", "message", "fix"),
    [
        (
            "command: sh -c",
            'found the string "sh -c", but a list is expected',
            'write a list: ["sh -c"]',
        ),
        ("env: {A: b}", "found a map, but a list is expected", "begin each item with '- '"),
        (
            "stdin: 'true'",
            'found the string "true", but a boolean is expected',
            "write it without quotes: true",
        ),
        (
            "workingDir: yes",
            "found true (which is what yes means in YAML), but a string is expected",
            'write it in quotes: "yes"',
        ),
        (
            "workingDir: 0644",
            "found the number 420, but a string is expected",
            'write it in quotes: "0644"',
        ),
        (
            "resources: []",
            "found a list, but a map is expected",
            "write 'key: value' pairs here, without '- '",
        ),
        (
            "ports: [{containerPort: '80'}]",
            'found the string "80", but an integer is expected',
            "write it without quotes: 80",
        ),
        (
            "ports: [{containerPort: 80.5}]",
            "found the number 80.5, but an integer is expected",
            "",
        ),
        (
            "ports: [{containerPort: 99999999999}]",
            "found the number 99999999999, which does not fit into 32 bits",
            "",
        ),
        (
            "livenessProbe: {tcpSocket: {port: true}}",
            "found true, but a number or a name is expected",
            "",
        ),
    ],
)
def test_type_errors_name_the_found_and_expected_type(line: str, message: str, fix: str) -> None:
    found = in_container(line)
    assert (found.code, found.message, found.fix) == ("FieldValueTypeInvalid", message, fix)
    assert found.line == 9


def test_all_errors_are_collected_and_sorted_by_place() -> None:
    text = """apiVersion: v1
kind: Pod
metadata:
  name: x
  labels: {a: 1}
spec:
  volumes: {}
  containers:
  - image: 3
    ports: [{containerPort: x}, {}]
    resources: {limits: {cpu: lots}}
  - foo
  hostPID: maybe
"""
    found = read(text).diagnostics
    assert [(d.line, d.field, d.code) for d in found] == [
        (5, "metadata.labels[a]", "FieldValueTypeInvalid"),
        (7, "spec.volumes", "FieldValueTypeInvalid"),
        (9, "spec.containers[0].name", "FieldValueRequired"),
        (9, "spec.containers[0].image", "FieldValueTypeInvalid"),
        (10, "spec.containers[0].ports[0].containerPort", "FieldValueTypeInvalid"),
        (10, "spec.containers[0].ports[1].containerPort", "FieldValueRequired"),
        (11, "spec.containers[0].resources.limits[cpu]", "FieldValueInvalid"),
        (12, "spec.containers[1]", "FieldValueTypeInvalid"),
        (13, "spec.hostPID", "FieldValueTypeInvalid"),
    ]


def test_validation_and_decoding_are_reported_together() -> None:
    text = pod_text(extra="    imagePullPolicy: Alwys\n    stdinn: true\n")
    found = read(text).diagnostics
    assert [(d.code, d.fix) for d in found] == [
        ("FieldValueNotSupported", 'did you mean "Always"?'),
        ("UnknownField", 'did you mean "stdin"?'),
    ]


def test_null_means_absent_and_numbers_are_quantities() -> None:
    text = pod_text(
        extra="    command: null\n    env:\n    resources: {limits: {cpu: 1.5, memory: 1024Ki}}\n"
    )
    (pod,) = read(text).pods
    container = pod.spec.containers[0]
    assert container.command == ()
    assert container.resources.limits == {"cpu": "1500m", "memory": "1Mi"}


def test_null_in_a_list_is_an_empty_value() -> None:
    (pod,) = read(pod_text(extra="    command: [sh, null]\n")).pods
    assert pod.spec.containers[0].command == ("sh", "")
    found = read(pod_text(extra="    env: [null]\n")).diagnostics
    assert [(d.field, d.code) for d in found] == [
        ("spec.containers[0].env[0].name", "FieldValueRequired")
    ]


def test_golden_empty_file() -> None:
    for text in (b"", b"\n", b"# nothing\n", b"---\n"):
        found = only(text)
        assert (found.code, found.line, found.column) == ("EmptyManifest", 1, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", "this is a list, not a Pod"),
        ("just text\n", "this is plain text, not a Pod"),
        ("3\n", "a Pod is expected"),
        ("true\n", "a Pod is expected"),
    ],
)
def test_a_document_must_be_a_map(text: str, words: str) -> None:
    found = only(text)
    assert (found.code, found.line) == ("NotAPod", 1)
    assert words in found.message


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("PodTemplate", "template"),
        ("Gateway", "podtui port-forward POD PORT"),
        ("PodList", "write kind: List"),
        ("Kustomization", "kubectl kustomize"),
        ("SomethingElse", "move it out of the folder"),
    ],
)
def test_other_kinds_are_refused(kind: str, words: str) -> None:
    found = only(pod_text().replace("kind: Pod", f"kind: {kind}"))
    assert (found.line, found.field, found.code) == (2, "", "NotAPod")
    assert words in found.fix
    strict = read(pod_text().replace("kind: Pod", f"kind: {kind}"), strict=True).diagnostics
    assert [d.message for d in strict] == [f'Unsupported value: "{kind}": supported values: "Pod"']
    assert words in strict[0].fix


def test_a_kind_of_the_folder_in_another_group_has_a_fix() -> None:
    found = only(pod_text().replace("kind: Pod", "kind: Deployment"))
    assert (found.line, found.code) == (1, "FieldValueNotSupported")
    assert found.fix == "write apiVersion: apps/v1"
    text = pod_text().replace("kind: Pod", "kind: Deployment")
    (strict,) = read(text, strict=True).diagnostics
    assert "kubectl apply -f FILE" in strict.fix


def test_a_kind_similar_to_a_supported_one_is_an_error() -> None:
    found = only(pod_text().replace("kind: Pod", "kind: pod"))
    known = '"Pod", "ConfigMap", "Secret", "List"'
    assert found.message == f'Unsupported value: "pod": supported values: {known}'
    assert found.fix == "write kind: Pod"


def test_golden_not_a_pod() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: not-a-pod}\ndata: {a: b}\n"
    assert read(text).pods == ()
    assert read(text, strict=True).invalid
    assert not read(text).invalid  # departure 7


def test_kind_and_version_are_required() -> None:
    found = read(pod_text().replace("apiVersion: v1", "apiVersion: v2")).diagnostics
    assert [(d.field, d.code) for d in found] == [("apiVersion", "FieldValueNotSupported")]
    found = read(pod_text().replace("kind: Pod", "knd: Pod")).diagnostics
    assert [(d.field, d.code) for d in found] == [
        ("kind", "FieldValueRequired"),
        ("knd", "UnknownField"),
    ]
    assert found[0].fix == '"knd" should be "kind"'


def test_a_missing_spec_is_reported_once() -> None:
    found = only("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")
    assert (found.field, found.code) == ("spec", "FieldValueRequired")


def test_golden_unknown_field_is_an_error_and_a_warning_when_strict() -> None:
    text = pod_text(extra="  nosuchField: 3\n")
    loose, strict = read(text), read(text, strict=True)
    assert loose.pods == ()
    assert [d.severity for d in loose.diagnostics] == [Severity.ERROR]
    assert len(strict.pods) == 1
    assert [d.severity for d in strict.diagnostics] == [Severity.WARNING]
    assert strict.diagnostics[0].message == loose.diagnostics[0].message


def test_a_status_is_ignored_with_a_warning() -> None:
    result = read(pod_text() + "status: {phase: Running, nonsense: 1}\n")
    assert [d.code for d in result.diagnostics] == ["IgnoredField"]
    assert result.pods[0].status.phase == "Pending"
    assert result.pods[0].metadata.uid == read(pod_text()).pods[0].metadata.uid
    assert read(pod_text() + "status: {}\n").diagnostics == ()


def test_output_of_kubectl_is_a_valid_manifest() -> None:
    text = pod_text().replace("  name: web\n", "  name: web\n  creationTimestamp: null\n")
    assert read(text + "    resources: {}\nstatus: {}\n").diagnostics == ()


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("2024-01-31T12:00:00Z", "2024-01-31T12:00:00Z"),
        ("2024-02-29T7:00:00.123456789123+02:00", "2024-02-29T05:00:00Z"),
        ("2024-01-01T00:00:00,5-00:30", "2024-01-01T00:30:00Z"),
        *(
            (text, None)
            for text in (
                "2024-13-01T00:00:00Z 2024-02-30T00:00:00Z 2024-01-01T24:00:00Z"
                " 2024-01-01t00:00:00Z 2024-01-01T00:00:00z 2024-01-01T00:00:60Z"
                " 2024-01-01T00:00:00+25:00 0001-01-01T00:00:00+01:00"
            ).split()
        ),
    ],
)
def test_times_are_parsed_like_go(written: str, read_as: str | None) -> None:
    tree, problems = decode(Document({"metadata": {"creationTimestamp": written}}))
    wrong = [p for p in problems if p.path == ("metadata", "creationTimestamp")]
    assert bool(wrong) == (read_as is None)
    assert tree is not None
    assert tree["metadata"].get("creationTimestamp") == read_as


def _verdicts(text: str | bytes) -> tuple[bool, bool]:
    """Return whether the manifest defines a pod under strict, and by default."""
    return bool(read(text, strict=True).pods), bool(read(text).pods)


_JSON = (
    '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":'
    '[{"name":"c","image":"b"%s}]}%s}'
)
_TERM = "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}"


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        (pod_text().encode("utf-16"), (True, True)),
        (pod_text().replace("apiVersion:", "ApiVersion:"), (True, False)),
        (pod_text().replace("kind:", "KIND:"), (True, False)),
        (pod_text().replace(": v1", ": /v1"), (True, False)),
        ("%YAML 1.2\n---\n" + pod_text(), (False, True)),
        (pod_text(extra='    args: ["\\/"]\n'), (False, True)),
        (pod_text(extra="    args: [a\ufeffb]\n"), (True, True)),
        (_JSON % (',"args":["\x7f"]', ""), (True, True)),
        (_JSON % (',"args":["\\/"]', ""), (True, True)),
        (_JSON % ("", ',"metadata":null'), (True, False)),
        (_JSON % ("", ',"spec":{"restartPolicy":"Never"}'), (True, False)),
        (_JSON % (',"stdin":"x","stdin":true', ""), (False, False)),
        (_JSON % (',"resources":{"limits":{"cpu":"x"},"limits":null}', ""), (False, False)),
        (_JSON % (',"resources":5,"resources":{}', ""), (False, False)),
        (_JSON % (',"livenessProbe":{},"livenessProbe":null', ""), (True, False)),
        (_JSON % (',"command":[],"command":null', ""), (True, False)),
        (_JSON % ("", ',"spec":{"containers":null}'), (False, False)),
        (_JSON % ("", ',"spec":{"containers":[{"name":"x"},{}]}'), (False, False)),
        (_JSON % (',"resources":{"limits":{"memory":1e400}}', ""), (True, True)),
        (_JSON % (',"args":[1e400]', ""), (False, False)),
        (pod_text(extra="    resources: {requests: {cpu: m}}\n"), (True, False)),
        (pod_text(extra="    resources: {requests: {cpu: 1e400}}\n"), (True, True)),
        (pod_text(extra='    resources: {requests: {cpu: "1\\n"}}\n'), (False, False)),
        (pod_text(extra='    resources: {requests: {cpu: "\\t1"}}\n'), (False, False)),
        (pod_text(extra='    resources: {requests: {cpu: " 1 "}}\n'), (True, True)),
        (pod_text(extra=f"    args: [{'a, ' * 10_000}]\n"), (True, True)),
        (pod_text(extra=f"  {_TERM}\n"), (True, True)),
        (pod_text(extra="  resources: {claims: []}\n"), (False, False)),
        (pod_text(extra="  resources: {claims: null}\n"), (True, True)),
        (
            pod_text(extra="  tolerations: [{operator: Exists, effect: NoExecute,"
            " tolerationSeconds: -9223372036854775809}]\n"),
            (False, False),
        ),
        (
            pod_text(extra="  volumes: [{name: v, iscsi: {targetPortal: 1.2.3.4,"
            ' iqn: "iqn.2001-04.com.example:a"}}]\n'),
            (True, True),
        ),
        *((pod_text() + f"status: {status}\n", (False, True)) for status in (
            "5", "[]", "x", "{phase: 5}", "{startTime: y}", "{conditions: 5}",
            "{containerStatuses: [{restartCount: x}]}", "{allocatedResources: {cpu: x}}",
        )),
        *((pod_text() + f"status: {status}\n", (True, True)) for status in (
            "null", "{}", "{phase: Bogus, foo: 5}", "{conditions: [{type: a}]}",
        )),
    ],
)  # fmt: skip
def test_verdicts_of_the_kubelets_decoder(text: str | bytes, verdicts: tuple[bool, bool]) -> None:
    """The results of Kubernetes 1.36 for these files, and podtui's differences by default."""
    assert _verdicts(text) == verdicts


def test_scale_io_needs_no_secret() -> None:
    volume = "scaleIO: {gateway: g, system: s, volumeName: vol}"
    assert read(pod_text(extra=f"  volumes: [{{name: v, {volume}}}]\n"), strict=True).pods


def test_a_secret_in_utf_16_is_not_shown() -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hidden}\n"
    for data in (secret.encode("utf-16"), secret.encode("utf-16") + b"x"):
        result = read(data)
        assert result.text == ""
        assert not any("hidden" in d.message for d in result.diagnostics)


def test_formats_kept_by_kubernetes_are_kept() -> None:
    (pod,) = read(pod_text(extra="  volumes: [{name: v, emptyDir: {sizeLimit: '+5'}}]\n")).pods
    assert pod.spec.volumes[0].emptyDir is not None
    assert pod.spec.volumes[0].emptyDir.sizeLimit == "+5"
    (pod,) = read(_JSON % (',"resources":{"limits":{"memory":1.500}}', "")).pods
    assert pod.spec.containers[0].resources.limits == {"memory": "1.500"}


def test_times_are_checked() -> None:
    text = pod_text().replace("  name: web\n", "  name: web\n  creationTimestamp: %s\n")
    (warning,) = read(text % "2024-01-31T12:00:00Z").diagnostics
    assert warning.code == "NoEffect"
    assert only(text % "yesterday").code == "FieldValueTypeInvalid"


def test_the_number_of_errors_is_limited() -> None:
    fields = "".join(f"  f{i}: 1\n" for i in range(3000))
    result = read(pod_text(extra=fields))
    found = result.diagnostics
    assert len(found) == MAX_DIAGNOSTICS + 1
    assert found[-1].code == "MoreProblems"
    assert result.invalid


def test_every_decoded_tree_builds_a_pod() -> None:
    """Also an empty tree: absent required fields become empty values."""
    text = (
        "kind: Pod\napiVersion: v1\nspec: {affinity: {nodeAffinity: "
        "{requiredDuringSchedulingIgnoredDuringExecution: {}, "
        "preferredDuringSchedulingIgnoredDuringExecution: [{}]}}, containers: [{}], "
        "volumes: [{scaleIO: {}, rbd: {}}]}"
    )
    tree, problems = decode(read_document(text.encode()))
    assert tree is not None
    assert problems
    msgspec.convert(tree, Pod)
