"""The wording and the positions of errors."""

from __future__ import annotations

import pytest
from validation_cases import Edits, built, container, only_error, volume

from podtui.api import v1
from podtui.manifest.validation import FieldError, validate_pod
from podtui.manifest.validation.errors import (
    GoText,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    quoted,
    reported_at,
    required,
    too_long,
    too_many,
)

C0 = "spec.containers[0]"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (required("a.b"), "a.b: Required value"),
        (required("a", "be good"), "a: Required value: be good"),
        (invalid("a", "x", "no"), 'a: Invalid value: "x": no'),
        (invalid("a", 7, "no"), "a: Invalid value: 7: no"),
        (invalid("a", True, "no"), "a: Invalid value: true: no"),
        (invalid("a", None, "no"), "a: Invalid value: null: no"),
        (invalid("a", ("x", "y"), "no"), 'a: Invalid value: ["x","y"]: no'),
        (invalid("a", 10**30, "no"), f"a: Invalid value: {10**30}: no"),
        (
            not_supported("a", "x", ("y", "z")),
            'a: Unsupported value: "x": supported values: "y", "z"',
        ),
        # Texts of an enum are printed as JSON, others as Go quotes them.
        (
            not_supported("a", 'x<"', ("y",)),
            'a: Unsupported value: "x\\u003c\\"": supported values: "y"',
        ),
        (
            not_supported("a", "x<", ("y",), plain=True),
            'a: Unsupported value: "x<": supported values: "y"',
        ),
        (invalid("a", GoText("&"), "no"), 'a: Invalid value: "\\u0026": no'),
        (invalid("a", "&", "no"), 'a: Invalid value: "&": no'),
        # Objects are printed with Go's fields.
        (
            invalid("a", v1.PodResourceClaim(name="b", resourceClaimName="c"), "no"),
            (
                'a: Invalid value: {"Name":"b","ResourceClaimName":"c",'
                '"ResourceClaimTemplateName":null}: no'
            ),
        ),
        (
            invalid(
                "a",
                v1.SecurityContext(
                    privileged=True,
                    capabilities=v1.Capabilities(add=("X",)),
                    seLinuxOptions=v1.SELinuxOptions(level="s0"),
                ),
                "no",
            ),
            (
                'a: Invalid value: {"Capabilities":{"Add":["X"],"Drop":null},"Privileged":true,'
                '"SELinuxOptions":{"User":"","Role":"","Type":"","Level":"s0"},"WindowsOptions":null,'
                '"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,'
                '"AllowPrivilegeEscalation":null,"ProcMount":null,"SeccompProfile":null,'
                '"AppArmorProfile":null}: no'
            ),
        ),
        (
            invalid("a", v1.LabelSelector(matchLabels={"b": "c", "a": "d"}), "no"),
            'a: Invalid value: {"matchLabels":{"a":"d","b":"c"}}: no',
        ),
        (
            invalid(
                "a",
                v1.OwnerReference(apiVersion="", kind="k", name="n", uid="u", controller=True),
                "no",
            ),
            (
                'a: Invalid value: {"apiVersion":"","kind":"k","name":"n","uid":"u",'
                '"controller":true}: no'
            ),
        ),
        (forbidden("a", "no"), "a: Forbidden: no"),
        (duplicate("a", "x"), 'a: Duplicate value: "x"'),
        (not_found("a", "x", []), 'a: Not found: "x"'),
        (too_long("a", 64), "a: Too long: may not be more than 64 bytes"),
        (too_many("a", 21, 20), "a: Too many: 21: must have at most 20 items"),
    ],
)
def test_messages(error: FieldError, message: str) -> None:
    assert error.message() == message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('a"b\\', r'"a\"b\\"'),
        ("\n\t\x1b[2J", r'"\n\t\x1b[2J"'),
        ("é", '"é"'),
        ("\u202e\ud800", r'"\u202e\ud800"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_unprintable_characters_are_escaped(text: str, shown: str) -> None:
    assert quoted(text) == shown


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({f"{C0}.image": ""}, "spec.containers[0].image: Required value"),
        (
            {"spec.restartPolicy": "Sometimes"},
            (
                'spec.restartPolicy: Unsupported value: "Sometimes": supported values:'
                ' "Always", "OnFailure", "Never"'
            ),
        ),
        (
            {f"{C0}.name": "a.b"},
            'spec.containers[0].name: Invalid value: "a.b": must not contain dots',
        ),
        (
            {f"{C0}.name": "A"},
            (
                'spec.containers[0].name: Invalid value: "A": a lowercase RFC 1123 label must'
                " consist of lower case alphanumeric characters or '-', and must start and end"
                " with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for"
                " validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ),
        ),
        (
            {"metadata.name": "Invalid_Name-refnode"},
            (
                'metadata.name: Invalid value: "Invalid_Name-refnode": a lowercase RFC 1123'
                " subdomain must consist of lower case alphanumeric characters, '-' or '.', and"
                " must start and end with an alphanumeric character (e.g. 'example.com', regex"
                " used for validation is"
                r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ),
        ),
        (
            {f"{C0}.volumeMounts": [{"name": "nope", "mountPath": "/a"}]},
            'spec.containers[0].volumeMounts[0].name: Not found: "nope"',
        ),
        (
            {f"{C0}.resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
            (
                'spec.containers[0].resources.requests: Invalid value: "2": must be less than or'
                " equal to cpu limit of 1"
            ),
        ),
        (
            {f"{C0}.ports": [{"containerPort": 70000, "protocol": "TCP"}]},
            (
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1"
                " and 65535, inclusive"
            ),
        ),
        (
            {
                f"{C0}.resources": {"claims": [{"name": "x"}]},
                "spec.resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
            },
            (
                'spec.containers[0].resources.claims[0]: Not found: "x": must be one of the names'
                " in pod.spec.resourceClaims: a"
            ),
        ),
    ],
)
def test_messages_match_the_api_server(edits: Edits, message: str) -> None:
    assert only_error(edits).message() == message


@pytest.mark.parametrize(
    ("edits", "path", "location"),
    [
        ({"metadata.labels": {"a": "b c"}}, "metadata.labels", "metadata.labels[a]"),
        ({"spec.os": {"name": "x"}}, "spec.os", "spec.os.name"),
        (
            {f"{C0}.image": ""},
            "spec.containers[0].image",
            "spec.containers[0].image",
        ),
        (
            {
                "spec.volumes": [volume(emptyDir={})],
                f"{C0}.volumeMounts": [{"name": "data", "mountPath": "/a", "subPath": "/b"}],
            },
            "spec.containers[0].volumeMounts.subPath",
            "spec.containers[0].volumeMounts[0].subPath",
        ),
        (
            {"spec.volumes": [volume(downwardAPI={"items": [{"path": "x"}]})]},
            "spec.volumes[0].downwardAPI",
            "spec.volumes[0].downwardAPI.items[0]",
        ),
        (
            {"spec.volumes": [volume(gcePersistentDisk={"pdName": ""})]},
            "spec.volumes[0].persistentDisk.pdName",
            "spec.volumes[0].gcePersistentDisk.pdName",
        ),
        (
            {"spec.volumes": [volume(emptyDir={}, downwardAPI={})]},
            "spec.volumes[0].downwarAPI",
            "spec.volumes[0].downwardAPI",
        ),
        (
            {
                "spec.initContainers": [
                    container("a"),
                    container(
                        "b", ports=[{"containerPort": 1, "hostPort": 1, "protocol": "TCP"}] * 2
                    ),
                ]
            },
            "spec.initContainers[0].ports[1].hostPort",
            "spec.initContainers[1].ports[1].hostPort",
        ),
        (
            {"spec.overhead": {"cpu": "-1"}},
            "spec.overhead.limits[cpu]",
            "spec.overhead[cpu]",
        ),
        (
            {"spec.hostPID": True, "spec.shareProcessNamespace": True},
            "spec.securityContext.shareProcessNamespace",
            "spec.shareProcessNamespace",
        ),
    ],
)
def test_positions_are_exact_even_if_the_message_is_vague(
    edits: Edits, path: str, location: str
) -> None:
    error = only_error(edits)
    assert (error.path, error.location) == (path, location)


def test_control_characters_of_a_manifest_are_escaped_in_messages() -> None:
    error = only_error({"metadata.annotations": {"a\x1b[31m": ""}})
    assert error.location == "metadata.annotations[a\x1b[31m]"
    assert error.message().isprintable()
    assert invalid("a[\n]", 1, "\x9b").message() == r"a[\n]: Invalid value: 1: \u009b"


def test_errors_elsewhere_keep_their_path() -> None:
    other, own = required("b.c"), required("a.c")
    assert list(reported_at([other, own], "a", "x")) == [other, required("x.c", at="a.c")]


def test_all_errors_are_reported_together() -> None:
    pod = built({"metadata.name": "A", "spec.dnsPolicy": "x", f"{C0}.image": ""})
    assert [error.path for error in validate_pod(pod)] == [
        "metadata.name",
        "spec.containers[0].image",
        "spec.dnsPolicy",
    ]
