"""Fields that do not affect containers: metadata, accounts, Windows."""

from __future__ import annotations

import pytest
import yaml
from manifests import NODE, pod_text

from podtui.api.local import Severity
from podtui.api.token_volumes import TOKEN_PATH
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.result import ReadResult


def read(metadata: dict[str, object] | None = None, **spec: object) -> ReadResult:
    return read_manifest("/m/web.yaml", tree_of(metadata, **spec), node_name="n1")


def tree_of(metadata: dict[str, object] | None = None, **spec: object) -> bytes:
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}], **spec},
    }
    return yaml.safe_dump(tree).encode()


def warned(result: ReadResult) -> list[tuple[str, str]]:
    assert result.pods, result.diagnostics
    assert all(one.severity is Severity.WARNING for one in result.diagnostics)
    return [(one.field, one.message) for one in result.diagnostics]


def refused(result: ReadResult) -> list[str]:
    assert not result.pods
    return [one.message for one in result.diagnostics if one.severity is Severity.ERROR]


def test_metadata_of_a_pod() -> None:
    result = read(
        {
            "namespace": "shop",
            "uid": "fixed",
            "labels": {"app": "web"},
            "annotations": {"note": "x"},
            "generation": 3,
        }
    )
    assert warned(result) == []
    meta = result.pods[0].metadata
    assert (meta.name, meta.namespace, meta.uid, meta.generation) == (
        "web-n1",
        "shop",
        "fixed",
        3,
    )
    assert meta.labels == {"app": "web"}
    assert meta.annotations["note"] == "x"
    assert meta.annotations["kubernetes.io/config.hash"] == "fixed"


OWNER = {"apiVersion": "v1", "kind": "Node", "name": "box", "uid": "u"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("generateName", "web-"),
        ("creationTimestamp", "2026-01-02T03:04:05Z"),
        ("deletionTimestamp", "2026-01-02T03:04:05Z"),
        ("deletionGracePeriodSeconds", 5),
        ("resourceVersion", "5"),
        ("selfLink", "/api/v1/pods/web"),
        ("ownerReferences", [OWNER]),
        ("finalizers", ["example.com/guard"]),
        ("managedFields", [{"operation": "Apply", "fieldsType": "FieldsV1"}]),
    ],
)
def test_api_server_fields_are_reported_as_ignored(field: str, value: object) -> None:
    assert warned(read({field: value})) == [
        (f"metadata.{field}", "has no effect: the API server sets it in the mirror pod")
    ]


def test_an_empty_creation_timestamp_is_accepted_silently() -> None:
    assert warned(read({"creationTimestamp": None})) == []


def test_generate_name_does_not_provide_a_name() -> None:
    tree = (
        b"apiVersion: v1\nkind: Pod\nmetadata: {generateName: web-}\n"
        b"spec: {containers: [{name: c, image: b}]}\n"
    )
    assert refused(read_manifest("/m/web.yaml", tree, node_name="n1")) == [
        "Required value: name is needed for the pod"
    ]


def token_mounts(result: ReadResult) -> list[str]:
    """Return the paths of the volumes with tokens in the only container."""
    (pod,) = result.pods
    tokens = {v.name for v in pod.spec.volumes if v.name.startswith("kube-api-access-")}
    (container,) = pod.spec.containers
    return [mount.mountPath for mount in container.volumeMounts if mount.name in tokens]


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_a_static_pod_gets_the_token_of_the_account_that_it_names(field: str) -> None:
    result = read(None, **{field: "builder"})
    assert result.diagnostics == ()
    assert result.pods[0].spec.serviceAccountName == "builder"
    assert token_mounts(result) == [TOKEN_PATH]
    assert token_mounts(read(None, **{field: "builder"}, automountServiceAccountToken=False)) == []
    # The UID is that of the manifest as it is written, and the volume has the same name each time.
    assert read(None, **{field: "builder"}).pods == result.pods
    strict = read_manifest(
        "/m/web.yaml", tree_of(None, **{field: "x"}), node_name="n1", strict=True
    )
    assert refused(strict)[-1].endswith("static pods may not reference serviceaccounts")


def test_a_pod_without_an_account_gets_a_token_only_on_request() -> None:
    assert token_mounts(read()) == []
    result = read(automountServiceAccountToken=True)
    assert (token_mounts(result), result.diagnostics) == ([TOKEN_PATH], ())
    assert warned(read(automountServiceAccountToken=False)) == []


def test_a_token_is_not_mounted_over_a_volume_of_the_pod() -> None:
    mount = {"name": "v", "mountPath": TOKEN_PATH}
    container = {"name": "c", "image": "i", "volumeMounts": [mount]}
    volumes = [{"name": "v", "emptyDir": {}}]
    result = read(serviceAccountName="x", containers=[container], volumes=volumes)
    assert token_mounts(result) == []
    assert [volume.name for volume in result.pods[0].spec.volumes] == ["v"]


@pytest.mark.parametrize(
    ("path", "manifest", "absolute"),
    [
        ("./html", "/m/web.yaml", "/m/html"),
        ("html/a", "/m/web.yaml", "/m/html/a"),
        ("../html", "/m/a/web.yaml", "/m/html"),
        (".", "/m/web.yaml", "/m"),
        ("~/data", "/m/web.yaml", "/home/me/data"),
        ("~", "/m/web.yaml", "/home/me"),
        ("~other/data", "/m/web.yaml", ""),
        ("html", "-", ""),
    ],
)
def test_a_relative_host_path_is_an_error_with_the_absolute_one(
    path: str, manifest: str, absolute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    volumes = [{"name": "v", "hostPath": {"path": path}}]
    result = read_manifest(manifest, tree_of(volumes=volumes), node_name="n1")
    (error,) = result.diagnostics
    assert (error.code, error.field) == ("FieldValueInvalid", "spec.volumes[0].hostPath.path")
    assert error.message == f'Invalid value: "{path}": must be an absolute path'
    wanted = f'did you mean "{absolute}"?' if absolute else "write the whole path, from / on"
    assert error.fix == wanted
    # A kubelet accepts it, unless it leads up.
    strict = read_manifest(manifest, tree_of(volumes=volumes), node_name="n1", strict=True)
    assert bool(strict.pods) == (".." not in path)


def test_volumes_are_not_relabelled_either_way() -> None:
    assert warned(read(securityContext={"seLinuxChangePolicy": "Recursive"})) == [
        (
            "spec.securityContext.seLinuxChangePolicy",
            "has no effect: podtui does not set SELinux labels on volumes",
        )
    ]
    # It requires a feature gate that is off.
    (message,) = refused(read(securityContext={"seLinuxChangePolicy": "MountOption"}))
    assert 'Unsupported value: "MountOption"' in message


OPTIONS: tuple[dict[str, object], ...] = (
    {"runAsUserName": "ContainerUser"},
    {"gmsaCredentialSpecName": "web"},
    {"gmsaCredentialSpec": "{}"},
    {"hostProcess": False},
)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: next(iter(one)))
def test_windows_options_of_a_pod(options: dict[str, object]) -> None:
    assert warned(read(securityContext={"windowsOptions": options})) == [
        (
            "spec.securityContext.windowsOptions",
            "has no effect: the node runs Linux",
        )
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: next(iter(one)))
def test_windows_options_of_a_container(options: dict[str, object]) -> None:
    container = {
        "name": "c",
        "image": "busybox:1",
        "securityContext": {"windowsOptions": options},
    }
    assert warned(read(containers=[container])) == [
        (
            "spec.containers[0].securityContext.windowsOptions",
            "has no effect: the node runs Linux",
        )
    ]


def test_a_linux_pod_may_not_have_windows_options() -> None:
    context = {"windowsOptions": {"runAsUserName": "ContainerUser"}}
    (message,) = refused(read(os={"name": "linux"}, securityContext=context))
    assert "windows options cannot be set for a linux pod" in message


def test_a_field_of_another_release_is_refused() -> None:
    (message,) = refused(read(workloadRef={"name": "x"}))
    assert 'unknown field "workloadRef"' in message


def test_a_dangling_volume_or_port_reference_lists_the_existing_ones() -> None:
    extra = (
        "    ports: [{name: http, containerPort: 80}]\n"
        "    livenessProbe: {httpGet: {port: htpt}}\n"
        "    volumeMounts: [{name: date, mountPath: /d}]\n"
        "  volumes: [{name: data, emptyDir: {}}, {name: tmp, emptyDir: {}}]\n"
    )

    def messages(*, strict: bool) -> list[tuple[str, str]]:
        data = pod_text(extra=extra).encode()
        found = read_manifest("/m/web.yaml", data, node_name=NODE, strict=strict).diagnostics
        return [(d.message, d.fix) for d in found]

    port = ('there is no port "htpt"; the container c has "http"', 'did you mean "http"?')
    assert messages(strict=False) == [
        port,
        ('there is no volume "date"; the Pod has "data", "tmp"', 'did you mean "data"?'),
    ]
    assert messages(strict=True) == [port, ('Not found: "date"', 'did you mean "data"?')]


@pytest.mark.parametrize(
    "volume",
    [
        "{name: d, hostPath: {path: /x, type: Dir}}",
        "{name: d, emptyDir: yes}",
        "{name: d, hostPath: {path: /x}, emptyDir: {}}",
        "{name: d, emtpyDir: {}}",
        "{name: D_, emptyDir: {}}",
    ],
)
def test_a_volume_with_errors_is_not_called_missing(volume: str) -> None:
    name = volume.partition(",")[0].removeprefix("{name: ")
    extra = (
        f"    volumeMounts: [{{name: {name}, mountPath: /d}}, {{name: other, mountPath: /o}}]\n"
        f"  volumes: [{volume}]\n"
    )
    found = read_manifest("/m/web.yaml", pod_text(extra=extra).encode(), node_name=NODE).diagnostics
    missing = [d.message for d in found if d.message.startswith("there is no")]
    assert missing == [f'there is no volume "other"; the Pod has "{name}"']
    assert len(found) == 2


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_too_much_data_is_reported_with_its_size_and_the_limit(kind: str) -> None:
    part = "data" if kind == "ConfigMap" else "stringData"
    text = (
        f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n{part}: {{a: {'x' * 5_000_000}}}\n"
    )
    (found,) = read_manifest("/m/a.yaml", text.encode(), node_name=NODE).diagnostics
    assert (found.code, found.field) == ("FieldValueTooLong", "data")
    assert "1048576 bytes" in found.message
    assert "it has 5000000 bytes" in found.fix


@pytest.mark.parametrize(
    ("extra", "fix"),
    [
        (
            "  volumes: [{name: t, ephemeral: {volumeClaimTemplate: {spec: {}}}}]\n",
            "create a PersistentVolumeClaim in the API",
        ),
    ],
)
def test_a_reference_that_only_an_api_pod_may_have_says_so(extra: str, fix: str) -> None:
    data = pod_text(extra=extra).encode()
    found = next(
        each
        for each in read_manifest("/m/web.yaml", data, node_name=NODE).diagnostics
        if each.code == "FieldValueForbidden"
    )
    assert found.code == "FieldValueForbidden"
    assert fix in found.fix
