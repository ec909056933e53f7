"""Reading a pod or its errors from bytes: validation, static rules, ConfigMaps and Secrets."""

from __future__ import annotations

import pytest
from manifests import pod_text, read

from podtui.api.local import Severity
from podtui.manifest.diagnose import MAX_TEXT
from podtui.manifest.result import name_missing

SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {A: b}\n"


def test_golden_invalid_yaml() -> None:
    result = read("apiVersion: v1\nkind: Pod\nmetadata: {name: invalid-yaml\nspec: [\n")
    (found,) = result.diagnostics
    assert (found.code, found.line, found.column) == ("InvalidYAML", 4, 5)
    assert "did not find expected ',' or '}'" in found.message
    assert "line 3" in found.message


@pytest.mark.parametrize("strict", [False, True])
def test_a_flow_scalar_that_ends_with_a_colon_needs_quotes(strict: bool) -> None:
    text = pod_text(extra="    args: [x:]\n")
    (found,) = read(text, strict=strict).diagnostics
    assert (found.code, found.fix) == ("InvalidYAML", "put the text in quotes")
    assert read(text.replace("x:", "'x:'"), strict=strict).pods


def test_golden_invalid_spec() -> None:
    (found,) = read(pod_text(name="Invalid_Name")).diagnostics
    assert (found.line, found.column, found.field) == (4, 9, "metadata.name")
    assert found.message.startswith('Invalid value: "Invalid_Name-n1": a lowercase RFC 1123')
    assert found.fix == 'a valid name: "invalid-name"'


def test_golden_multi_doc_runs_both() -> None:
    result = read(pod_text() + "---\n" + pod_text(name="two"))
    assert [pod.metadata.name for pod in result.pods] == ["web-n1", "two-n1"]
    assert result.diagnostics == ()


def test_a_missing_name_is_an_error_at_the_metadata() -> None:
    (found,) = read(pod_text().replace("  name: web\n", "  labels: {}\n")).diagnostics
    assert (found.code, found.field, found.line) == ("FieldValueRequired", "metadata.name", 3)
    assert found.message == "Required value: name is needed for the pod"


def test_case_15_ephemeral_containers_and_duplicate_names() -> None:
    (found,) = read(pod_text(extra="  ephemeralContainers: [{name: d, image: i}]\n")).diagnostics
    assert (found.code, found.field) == ("FieldValueForbidden", "spec.ephemeralContainers")
    assert (found.line, found.column) == (9, 3)
    (found,) = read(pod_text(extra="  - name: c\n    image: i\n")).diagnostics
    assert (found.code, found.field) == ("FieldValueDuplicate", "spec.containers[1].name")
    assert (found.line, found.column) == (9, 11)


@pytest.mark.parametrize(
    ("extra", "what"),
    [
        ("  volumes: [{name: v, secret: {secretName: s}}]\n", "secrets"),
        ("    envFrom: [{configMapRef: {name: m}}]\n", "configmaps"),
        ("  imagePullSecrets: [{name: s}]\n", "secrets"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_case_14_api_objects_are_refused(extra: str, what: str, strict: bool) -> None:
    result = read(pod_text(extra=extra), strict=strict)
    (found,) = result.diagnostics
    if not strict and what != "serviceaccounts":
        assert found.severity is Severity.WARNING
        assert f"static pods may not reference {what}" in found.message
        return
    assert result.pods == ()
    assert found.message == f"Forbidden: static pods may not reference {what}"
    assert found.line == 9


def test_departure_7_objects_of_the_folder_resolve() -> None:
    result = read(
        pod_text(
            extra="    envFrom: [{configMapRef: {name: m}}]\n"
            "  volumes: [{name: v, secret: {secretName: s}}]\n"
        )
    )
    assert [pod.metadata.name for pod in result.pods] == ["web-n1"]
    config, secret = ("ConfigMap", "default", "m"), ("Secret", "default", "s")
    assert result.needs == {config, secret}
    missing = name_missing(result, {config}, {})
    assert [(d.code, d.severity) for d in missing.diagnostics] == [
        ("NotPortable", Severity.WARNING),
        ("MissingObject", Severity.WARNING),
    ]
    assert missing.diagnostics[1].message == 'there is no Secret "s"; the folder has none'
    assert name_missing(result, {config, secret}, {}) == result


def test_departure_7_does_not_affect_other_refusals() -> None:
    for extra in (
        "    envFrom: [{secretRef: {name: s}}]\n  resourceClaims: [{name: r}]\n",
        "    envFrom: [{secretRef: {name: s}}]\n    tty: 1\n",
        "  volumes: [{name: v, cephfs: {monitors: [a], secretRef: {name: s}}}]\n",
    ):
        assert read(pod_text(extra=extra)).pods == ()


def test_departure_7_does_not_exist_when_strict() -> None:
    (found,) = read(SECRET, strict=True).diagnostics
    assert found.message.startswith('Unsupported value: "Secret"')


def test_the_text_of_a_secret_is_not_stored() -> None:
    assert read(SECRET).text == ""
    assert "hunter2" not in repr(read(SECRET.replace("stringData", "data")).diagnostics)
    assert read(CONFIG).text == CONFIG


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (SECRET.replace("stringData", "data"), "data[password]"),
        (CONFIG.replace("A: b", "A b: c"), "data[A b]"),
        (CONFIG.replace("name: m", "labels: {}"), "metadata.name"),
        (CONFIG.replace("name: m", "name: M_"), "metadata.name"),
        (CONFIG.replace("\ndata:", "\ndta:"), "dta"),
        (CONFIG.replace("A: b", "A: 1"), "data[A]"),
    ],
)
def test_invalid_objects_are_diagnosed(text: str, field: str) -> None:
    result = read(text)
    assert result.objects == ()
    assert [d.field for d in result.diagnostics] == [field]
    assert result.invalid


def test_text_is_truncated_and_undecodable_bytes_replaced() -> None:
    assert read(b"a: \xff").text == "a: \ufffd"
    assert len(read(b"# " + b"x" * (2 * MAX_TEXT)).text) == MAX_TEXT


def test_control_sequences_never_reach_a_message() -> None:
    texts = [
        'a: "\\x1b[31m"',
        '"\\e]0;x\\a": 1',
        pod_text(name='"\\e[31m"'),
        pod_text(extra='    "\\e[2J": 1\n'),
        pod_text(extra='    imagePullPolicy: "\\x9b31m"\n'),
        pod_text(extra='    resources: {limits: {"\\e[2J": "\\e[2J"}}\n'),
    ]
    for text in texts:
        result = read(text)
        assert result.invalid
        for one in result.diagnostics:
            assert (one.message + one.field + one.fix).isprintable(), one


def test_an_internal_error_becomes_a_diagnostic(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> list[object]:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("podtui.manifest.diagnose.validate_pod", broken)
    (found,) = read(pod_text()).diagnostics
    assert found.code == "InternalError"
    assert "ZeroDivisionError: oops" in found.message
    assert "Reading /m/web.yaml failed" in caplog.text
