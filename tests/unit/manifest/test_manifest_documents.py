"""Selection of the documents in a file, and the rules of ConfigMaps and Secrets (departure 7)."""

from __future__ import annotations

import base64
import json
import re

import pytest
from manifests import NODE, pod_text

from podtui.api.local import Diagnostic, Severity
from podtui.api.v1 import ConfigMap, Secret
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.kinds import KINDS, Kind
from podtui.manifest.result import ReadResult

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {A: b}\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
USES = "    envFrom: [{configMapRef: {name: c}}]\n"
SERVICE = (
    "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    "spec: {selector: {app: web}, ports: [{port: 80}]}\n"
)
MONITOR = "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: m}\n"
INGRESS = "apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: i}\n"
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: c
        image: busybox
"""


def read(*documents: str, strict: bool = False) -> ReadResult:
    text = "---\n".join(documents)
    return read_manifest("/m/web.yaml", text.encode(), node_name=NODE, strict=strict)


def only(*documents: str, strict: bool = False) -> Diagnostic:
    (found,) = read(*documents, strict=strict).diagnostics
    return found


def made(result: ReadResult) -> list[str]:
    """Return the names of the objects in a file."""
    return [item.metadata.name for item in (*result.pods, *result.objects)]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


# --- selection


def test_a_config_map_beside_its_pod() -> None:
    for documents in ((pod_text(extra=USES), CONFIG), (CONFIG, pod_text(extra=USES))):
        result = read(*documents)
        assert made(result) == ["web-n1", "c"]
        assert [d.code for d in result.diagnostics] == ["NotPortable"]


def test_several_objects_in_one_file() -> None:
    result = read(CONFIG, CONFIG.replace("name: c", "name: d, namespace: other"), SECRET)
    assert (made(result), result.diagnostics) == (["c", "d", "s"], ())
    assert [item.metadata.namespace for item in result.objects] == ["default", "other", "default"]


def test_all_pods_of_a_file_run_beside_objects_of_all_kinds() -> None:
    result = read(CONFIG, pod_text(), pod_text("two"), SERVICE, "hello\n")
    assert made(result) == ["web-n1", "two-n1", "c", "web"]
    assert [(d.code, d.severity, d.line) for d in result.diagnostics] == [
        ("FurtherDocument", Severity.WARNING, 29),
    ]


def test_a_kind_that_is_not_served_does_not_stop_the_others() -> None:
    result = read(CONFIG, MONITOR, pod_text())
    assert made(result) == ["web-n1", "c"]
    (found,) = result.diagnostics
    assert (found.code, found.severity, found.line) == ("OtherObject", Severity.WARNING, 7)
    assert found.message == ("ServiceMonitor of monitoring.coreos.com/v1 is not supported; ignored")


def test_a_file_of_kinds_that_are_not_served_is_ignored_with_a_warning_each() -> None:
    result = read(MONITOR, MONITOR.replace("ServiceMonitor", "PodMonitor"))
    assert made(result) == []
    assert [(d.code, d.severity) for d in result.diagnostics] == [
        ("OtherObject", Severity.WARNING),
        ("OtherObject", Severity.WARNING),
    ]
    jobs = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: j}\n"
    (found,) = read(jobs).diagnostics
    assert (found.code, found.severity) == ("FurtherDocument", Severity.WARNING)
    assert "its pods do not run" in found.message


def test_a_misspelt_kind_is_no_other_api() -> None:
    text = DEPLOYMENT.replace("kind: Deployment", "kind: Deploymnt")
    assert read(text).diagnostics[0].severity is Severity.ERROR
    (found,) = read(CONFIG, text).diagnostics
    assert (found.code, found.fix) == ("FurtherDocument", "write kind: Deployment")


def test_a_former_version_is_an_error_that_names_todays() -> None:
    result = read(CONFIG, INGRESS)
    assert made(result) == []
    (found,) = result.diagnostics
    assert (found.code, found.severity, found.line) == ("FormerVersion", Severity.ERROR, 6)
    assert "today's version is networking.k8s.io/v1" in found.message


def test_errors_inside_a_pod_template_have_their_line() -> None:
    result = read(DEPLOYMENT.replace("image: busybox", "img: busybox"))
    assert [(d.line, d.field) for d in result.diagnostics] == [
        (12, "spec.template.spec.containers[0].img")
    ]
    assert made(read(DEPLOYMENT)) == ["web"]


def test_a_field_of_the_pod_is_found_in_a_template() -> None:
    found = only(DEPLOYMENT + "        hostNetwork: true\n")
    assert found.fix == "move it to spec.template.spec.hostNetwork"


def test_what_is_applied_is_what_the_document_states() -> None:
    [document] = read(DEPLOYMENT + "status: {replicas: 3}\n").documents
    assert document.configuration == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "busybox"}]},
            },
        },
    }
    assert document.item.metadata.namespace == "default"


def test_the_summary_names_each_document_with_its_line() -> None:
    result = read(CONFIG, pod_text(), MONITOR)
    assert [(item.kind, item.name, item.line) for item in result.items] == [
        ("Pod", "web-n1", 6),
        ("ConfigMap", "c", 1),
        ("ServiceMonitor", "m", 15),
    ]


def test_empty_documents_are_ignored() -> None:
    assert made(read("", "# nothing\n", pod_text(), "")) == ["web-n1"]


def test_documents_before_a_yaml_error_are_used() -> None:
    result = read(pod_text(), CONFIG, "a: [\n")
    assert made(result) == ["web-n1", "c"]
    assert [d.severity for d in result.diagnostics] == [Severity.WARNING]


def test_a_file_is_applied_completely_or_not_at_all() -> None:
    bad_config = CONFIG.replace("A: b", "a/b: c")
    assert made(read(pod_text(), bad_config)) == []
    assert made(read(pod_text(name="A_b"), CONFIG)) == []
    assert made(read(CONFIG, bad_config.replace("name: c", "name: d"))) == []


def test_a_duplicate_object_in_one_file() -> None:
    found = only(CONFIG, CONFIG.replace("A: b", "A: c"))
    assert (found.code, found.line, found.column) == ("DuplicateObject", 8, 18)
    assert found.message == "ConfigMap default/c is already defined on line 3"
    assert made(read(CONFIG, CONFIG.replace("A: b", "A: c"))) == []
    assert made(read(CONFIG, CONFIG)) == ["c"]


def as_list(*documents: str) -> str:
    items = "".join("- " + text.replace("\n", "\n  ").rstrip() + "\n" for text in documents)
    return f"apiVersion: v1\nkind: List\nitems:\n{items}"


def test_a_list_is_expanded_to_its_items() -> None:
    result = read(as_list(pod_text(extra=USES), CONFIG, pod_text("two")))
    assert made(result) == ["web-n1", "two-n1", "c"]
    assert [d.code for d in result.diagnostics] == ["NotPortable"]
    found = only(as_list(CONFIG, pod_text(image="[]")))
    assert (found.field, found.line, found.column) == ("spec.containers[0].image", 15, 14)


def test_a_list_in_json() -> None:
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}, None]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    assert made(read(text)) == ["c"]


@pytest.mark.parametrize("text", ["items: 3", "items: []"])
def test_an_empty_list_is_not_a_manifest(text: str) -> None:
    result = read(f"apiVersion: v1\nkind: List\n{text}\n")
    assert result.invalid
    assert made(result) == []


def test_the_number_of_documents_is_limited() -> None:
    result = read(*(CONFIG.replace("name: c", f"name: c{i}") for i in range(1050)))
    assert len(result.objects) == 1000
    assert "more than 1000 objects" in result.diagnostics[-1].message


def test_case_18_under_strict_the_first_of_two_documents_runs() -> None:
    result = read(pod_text(), pod_text("two"), strict=True)
    assert [pod.metadata.name for pod in result.pods] == ["web-n1"]
    assert [(d.code, d.severity) for d in result.diagnostics] == [
        ("FurtherDocument", Severity.WARNING)
    ]


# --- kubeletStrict


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CONFIG, "FieldValueNotSupported"),
        (CONFIG + "---\n" + pod_text(), "FieldValueNotSupported"),
        (as_list(pod_text()), "FieldValueNotSupported"),
        (as_list(pod_text()).replace("kind: List", "kind: PodList"), "FieldValueNotSupported"),
        ("---\n---\n" + pod_text(), "EmptyManifest"),
        ("", "EmptyManifest"),
        ("{apiVersion: v1, kind: Pod}", "InvalidJSON"),
    ],
)
def test_strict_refuses_what_a_kubelet_refuses(text: str, code: str) -> None:
    result = read(text, strict=True)
    assert not result.pods
    assert not result.objects
    assert result.diagnostics[0].code == code
    assert result.diagnostics[0].severity is Severity.ERROR


def test_under_strict_only_the_first_document_counts() -> None:
    result = read(pod_text(), CONFIG, strict=True)
    assert made(result) == ["web-n1"]
    result = read(pod_text(extra=USES), CONFIG, strict=True)
    assert made(result) == []
    assert "static pods may not reference configmaps" in result.diagnostics[0].message


def test_what_the_api_server_allocates_is_not_required() -> None:
    service = """\
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}
"""
    headless = "apiVersion: v1\nkind: Service\nmetadata: {name: db}\nspec: {clusterIP: None}\n"
    for text in (service, headless):
        assert [d for d in read(text).diagnostics if d.severity is Severity.ERROR] == []


def test_a_list_of_one_kind_is_read_if_its_items_name_their_kinds() -> None:
    text = as_list(CONFIG).replace("kind: List", "kind: ConfigMapList")
    assert [item.metadata.name for item in read(text).objects] == ["c"]
    found = read(text.replace("  kind: ConfigMap\n", "")).diagnostics
    assert "write kind: List" in found[0].fix


@pytest.mark.parametrize(
    ("version", "kind", "fix"),
    [
        ("ray.io/v1", "RayService", "move it out of the folder"),
        ("networking.gke.io/v1", "FQDNNetworkPolicy", "move it out of the folder"),
        ("apps/v1", "Deploymnt", "write kind: Deployment"),
        ("policy/v1beta1", "PodSecurityPolicy", "Kubernetes removed this kind in v1.25"),
    ],
)
def test_a_kind_of_another_group_is_no_misspelling(version: str, kind: str, fix: str) -> None:
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"
    for result in (read(text), read(CONFIG + "---\n" + text)):
        assert fix in result.diagnostics[0].fix


# --- the rules of objects


def test_a_generated_name_is_that_of_the_version() -> None:
    def name(text: str) -> str:
        [document] = read(text).documents
        assert document.configuration["metadata"]["name"] == document.item.metadata.name
        return document.item.metadata.name

    text = CONFIG.replace("name: c", "generateName: c-")
    first = name(text)
    assert re.fullmatch("c-[bcdfghjklmnpqrstvwxz2456789]{5}", first)
    assert name(text + "# a comment\n") == first
    assert name(text.replace("A: b", "A: d")) != first
    assert len(name(text.replace("c-", "x" * 100))) == 63


AUTOSCALER = """apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 3
  targetCPUUtilizationPercentage: 50
"""


def test_an_autoscaler_of_v1_is_applied_in_the_form_of_v2() -> None:
    result = read(AUTOSCALER)
    assert result.diagnostics == ()
    [document] = result.documents
    assert document.configuration["apiVersion"] == "autoscaling/v2"
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    assert document.configuration["spec"]["metrics"] == [metric]
    assert "targetCPUUtilizationPercentage" not in document.configuration["spec"]


def test_the_errors_of_an_autoscaler_of_v1_have_its_lines() -> None:
    [error] = read(AUTOSCALER.replace(": 50", ": -1")).diagnostics
    assert (error.line, error.column) == (7, 35)
    [error] = read(AUTOSCALER + "  metrics: []\n").diagnostics
    assert error.code == "FormerVersion"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (CONFIG.replace("name: c", "name: A_b"), (3, 18), 'Invalid value: "A_b": a lowercase'),
        (CONFIG.replace("{name: c}", "{}"), (3, 1), "Required value: name or generateName"),
        (CONFIG.replace("A: b", "a/b: c"), (4, 13), 'Invalid value: "a/b": a valid config key'),
        (CONFIG.replace("A: b", "..: c"), (4, 12), "must not be '..'"),
        (CONFIG.replace("A: b", "A: 3"), (4, 11), "found the number 3, but a string is expected"),
        (CONFIG + "binaryData: {A: YQ==}\n", (4, 11), "duplicate of key present in binaryData"),
        (CONFIG + "binaryData: {B: 'a*'}\n", (5, 17), "illegal base64 data at character 2"),
        (
            CONFIG.replace("A: b", f"A: {'x' * (1024 * 1024)}, B: z"),
            (4, 7),
            "Too long: may not be more than 1048576 bytes",
        ),
        (CONFIG + "immutable: 1\n", (5, 12), "a boolean is expected"),
        (CONFIG + "extra: 1\n", (5, 1), 'unknown field "extra"'),
        (SECRET + "data: {a: aGVsbG8}\n", (4, 11), "illegal base64 data at character 8"),
        (SECRET + "data: {a: '%'}\n", (4, 11), "illegal base64 data at character 1"),
        (SECRET + "data: {a: 'é'}\n", (4, 11), "illegal base64 data"),
        (SECRET + "stringData: {a/b: c}\n", (4, 19), 'Invalid value: "a/b": a valid config key'),
        (
            SECRET + f"stringData: {{A: {'x' * (1024 * 1024 + 1)}}}\n",
            (1, 1),
            "Too long: may not be more than 1048576 bytes",
        ),
        (
            SECRET + "type: kubernetes.io/service-account-token\n",
            (3, 1),
            "Required value",
        ),
        (SECRET + "type: kubernetes.io/dockerconfigjson\n", (1, 1), "Required value"),
        (
            SECRET + "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '['}\n",
            (5, 33),
            'Invalid value: "<secret contents redacted>": not a JSON object',
        ),
        (SECRET + "type: kubernetes.io/dockercfg\n", (1, 1), "Required value"),
        (
            SECRET + "type: kubernetes.io/ssh-auth\ndata: {ssh-privatekey: ''}\n",
            (5, 24),
            "Required",
        ),
        (SECRET + "type: kubernetes.io/tls\ndata: {tls.crt: ''}\n", (5, 1), "Required value"),
    ],
)
def test_objects_refused_by_the_api(text: str, place: tuple[int, int], message: str) -> None:
    found = only(text)
    assert message in found.message
    assert (found.line, found.column) == place
    assert made(read(text)) == []


def test_basic_auth_requires_a_username_or_password() -> None:
    text = SECRET + "type: kubernetes.io/basic-auth\n"
    assert [d.field for d in read(text).diagnostics] == ["data.username", "data.password"]
    assert made(read(text + "stringData: {password: ''}\n")) == ["s"]


@pytest.mark.parametrize(
    "text",
    [
        "type: kubernetes.io/dockercfg\nstringData: {.dockercfg: '{}'}\n",
        f"type: kubernetes.io/dockerconfigjson\ndata: {{.dockerconfigjson: {encoded(b'{}')}}}\n",
        "type: kubernetes.io/ssh-auth\nstringData: {ssh-privatekey: k}\n",
        "type: kubernetes.io/tls\nstringData: {tls.crt: c, tls.key: ''}\n",
        "type: example.com/mine\n",
        "data:\n  a: |\n    aGVs\n    bG8=\n",
    ],
)
def test_valid_secrets(text: str) -> None:
    result = read(SECRET + text)
    assert (made(result), result.diagnostics) == (["s"], ())


def test_an_account_token_names_its_account() -> None:
    note = "{name: s, annotations: {kubernetes.io/service-account.name: a}}"
    text = SECRET.replace("{name: s}", note) + "type: kubernetes.io/service-account-token\n"
    assert made(read(text)) == ["s"]


def test_a_secret_is_stored_like_in_the_api() -> None:
    text = SECRET + "data:\n  a: |\n    aGVs\n    bG8=\n  b: eA==\nstringData: {b: 'y', c: 'é'}\n"
    (secret,) = read(text).objects
    assert isinstance(secret, Secret)
    expected = {"a": b"hello", "b": b"y", "c": "é".encode()}
    assert secret.data == {key: encoded(value) for key, value in expected.items()}
    assert (secret.type, secret.stringData) == ("Opaque", {})
    (config,) = read(CONFIG + "binaryData:\n  d: |\n    aGVs\n    bG8=\n").objects
    assert isinstance(config, ConfigMap)
    assert (config.data, config.binaryData) == ({"A": "b"}, {"d": encoded(b"hello")})


# --- no output contains the data of a Secret

HIDDEN = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"data: {{a: {HIDDEN}}}\n",
        f"data: {HIDDEN}\n",
        f"data: [{HIDDEN}]\n",
        f"stringData: {{a: {{b: {HIDDEN}}}}}\n",
        f"stringData: {{a: *{HIDDEN}}}\n",
        f"stringData: {{a: &{HIDDEN} *{HIDDEN}}}\n",
        f"stringData: {{a: '{HIDDEN}}}\n",
        f"stringData: {{a: {HIDDEN}\n",
        f"stringData: {{a: !!int {HIDDEN}}}\n",
        f"type: kubernetes.io/dockercfg\nstringData: {{.dockercfg: {HIDDEN}}}\n",
    ],
)
@pytest.mark.parametrize("beside", ["", pod_text() + "---\n"])
@pytest.mark.parametrize("strict", [False, True])
def test_no_message_contains_secret_data(text: str, beside: str, strict: bool) -> None:
    result = read(beside + SECRET + text, strict=strict)
    assert result.diagnostics
    assert HIDDEN not in "".join(d.message + d.fix + d.field for d in result.diagnostics)
    assert result.text == ""


@pytest.mark.parametrize("number", ["271828", "2.71828", ".inf"])
def test_messages_contain_no_numbers_of_a_secret(number: str) -> None:
    result = read(SECRET + f"stringData: {{pin: {number}}}\n")
    assert result.invalid
    assert number not in "".join(d.message + d.fix for d in result.diagnostics)


def test_secrets_in_json_or_with_a_misspelt_kind_are_protected() -> None:
    for text in ('{"kind":"Secret","data":"hunter2"', "kind: secret\ndata: hunter2\n"):
        assert read(text).text == ""


def test_a_list_of_secrets_is_protected() -> None:
    result = read(as_list(SECRET + f"data: {{a: {HIDDEN}!}}\n"))
    assert result.invalid
    assert HIDDEN not in str(result)


@pytest.mark.parametrize("metadata", ["", "metadata:\n", "Metadata: {name: x}\n"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_an_object_of_any_kind_needs_a_name(kind: Kind, metadata: str) -> None:
    rest = "spec: {limits: []}\n" if kind.name == "LimitRange" else ""
    result = read(f"apiVersion: {kind.api_version}\nkind: {kind.name}\n{metadata}{rest}")
    messages = [item.message for item in result.diagnostics]
    assert "Required value: name or generateName is required" in messages
