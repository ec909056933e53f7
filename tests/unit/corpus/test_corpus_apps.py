"""The apps that `corpus` finds, and what they refer to."""

from __future__ import annotations

import tarfile
from pathlib import Path

import yaml

from corpus.apps import App, Skipped, apps_below, unpack
from corpus.references import node_labels, outside
from corpus.trial import fixed_files

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: nginx}]}
"""
COMPLETE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: web
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: any, optional: true}}]
      volumes:
      - {name: ca, configMap: {name: kube-root-ca.crt}}
"""
INCOMPLETE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml}
spec:
  template:
    spec:
      serviceAccountName: trainer
      nodeSelector: {accelerator: l4, kubernetes.io/os: linux}
      containers:
      - name: train
        env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}]
        resources: {limits: {nvidia.com/gpu: 1}}
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: data}}
      - {name: models, csi: {driver: buckets.example.com}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: ml}
spec: {storageClassName: fast}
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(root: Path, skipped: Skipped | None = None) -> dict[str, App]:
    apps = apps_below(root, skipped or Skipped())
    return {f"{app.repository}/{app.folder}": app for app in apps}


def test_an_app_is_a_folder_with_workloads(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "shop/deploy/web.yaml": COMPLETE,
            "shop/deploy/more.json": '{"kind": "List", "items": []}',
            "shop/deploy/README.md": "# Shop",
            "shop/ingress.yaml": "kind: Ingress\napiVersion: networking.k8s.io/v1\n",
            "blog/pod.yml": POD,
        },
    )
    apps = found(tmp_path)
    assert list(apps) == ["blog/.", "shop/deploy"]
    assert set(apps["shop/deploy"].files) == {"more.json", "web.yaml"}
    [workload] = apps["shop/deploy"].workloads
    assert workload.key == ("Deployment", "default", "web")


def test_versions_of_an_object_are_one_workload(tmp_path: Path) -> None:
    write(tmp_path, {"book/a.yaml": POD, "book/b.yaml": f"{POD}---\n{POD.replace('web', 'db')}"})
    [app] = found(tmp_path).values()
    assert [workload.name for workload in app.workloads] == ["web", "db"]


def test_a_list_holds_workloads(tmp_path: Path) -> None:
    items = [yaml.safe_load(POD)]
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    write(tmp_path, {"book/list.yaml": text})
    [app] = found(tmp_path).values()
    assert [workload.name for workload in app.workloads] == ["web"]


def test_templates_are_no_manifests(tmp_path: Path) -> None:
    template = "kind: Pod\nmetadata:\n  {{- toYaml .Values.labels }}\n"
    write(tmp_path, {"chart/templates/pod.yaml": template})
    skipped = Skipped()
    assert found(tmp_path, skipped) == {}
    assert skipped.templates == ["chart/templates/pod.yaml"]


def test_the_parts_of_a_kustomization_are_no_manifests(tmp_path: Path) -> None:
    component = "kind: Component\npatches: [{path: ../patches/pod.yaml}]\n"
    write(tmp_path, {"shop/all/kustomization.yaml": component, "shop/patches/pod.yaml": POD})
    assert found(tmp_path) == {}


def test_an_archive_is_unpacked(tmp_path: Path) -> None:
    write(tmp_path, {"in/blog/pod.yaml": POD})
    with tarfile.open(tmp_path / "apps.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "in" / "blog", "blog")
    assert list(found(unpack(tmp_path / "apps.tar.xz", tmp_path / "out"))) == ["blog/."]
    assert unpack(tmp_path / "in", tmp_path / "other") == tmp_path / "in"


def test_a_complete_app_has_what_it_refers_to() -> None:
    assert not outside(yaml.safe_load_all(COMPLETE))


def test_the_rest_is_listed_and_can_be_created() -> None:
    missing = outside(yaml.safe_load_all(INCOMPLETE))
    assert str(missing) == (
        "Secret hub, ServiceAccount trainer, StorageClass fast, device nvidia.com/gpu,"
        " volume csi buckets.example.com"
    )
    secret, account, storage_class = missing.documents()
    assert secret["metadata"] == {"name": "hub", "namespace": "ml"}
    assert secret["stringData"] == {"token": "x"}
    assert account["metadata"] == {"name": "trainer", "namespace": "ml"}
    assert storage_class["metadata"] == {"name": "fast"}
    assert not outside([*yaml.safe_load_all(INCOMPLETE), *missing.documents()]).objects


def test_the_node_gets_the_labels_that_the_app_selects() -> None:
    affinity = """\
kind: Pod
spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - {key: disk, operator: In, values: [ssd, nvme]}
          - {key: spot, operator: DoesNotExist}
"""
    documents = [*yaml.safe_load_all(INCOMPLETE), yaml.safe_load(affinity)]
    assert node_labels(documents) == {"accelerator": "l4", "disk": "ssd"}


def test_placeholders_other_machines_and_several_nodes_are_listed() -> None:
    text = """\
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template:
    spec:
      nodeSelector: {kubernetes.io/arch: arm64}
      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{}]}}
      serviceAccountName: <ACCOUNT>
      containers:
      - {name: a, image: "REGION-docker.pkg.dev/$PROJECT/web:v1"}
      - {name: b, image: "nginx:1.2-ALPINE", ports: [{containerPort: 80}]}
"""
    assert outside([yaml.safe_load(text)]).machine == (
        "2 nodes",
        "a value in image REGION-docker.pkg.dev/$PROJECT/web",
        "a value in serviceAccountName <ACCOUNT>",
        "machine arm64",
    )


def test_files_are_fixed_as_a_user_would_fix_them() -> None:
    former = b"apiVersion: scheduling.k8s.io/v1beta1\nkind: PriorityClass\nmetadata: {name: p}\n"
    today = former.replace(b"v1beta1", b"v1") + b"value: 1\n"
    files = {"a.yaml": former + b"value: 1\n", "b.yaml": today.replace(b"name: p", b"name: q")}
    assert fixed_files(files) == {**files, "a.yaml": today}


def test_storage_behind_a_volume_and_shared_host_ports_are_no_part_of_an_app() -> None:
    volume = """\
apiVersion: v1
kind: PersistentVolume
metadata: {name: data}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], SOURCE}
"""
    for source in ("hostPath: {path: /data}", "nfs: {server: a, path: /b}"):
        assert not outside([yaml.safe_load(volume.replace("SOURCE", source))])
    disk = yaml.safe_load(volume.replace("SOURCE", "gcePersistentDisk: {pdName: a}"))
    assert outside([disk]).machine == ("volume gcePersistentDisk",)
    web = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: COUNT
  template: {spec: {containers: [{name: web, image: nginx, ports: [{hostPort: 80}]}]}}
"""
    once, twice = (yaml.safe_load(web.replace("COUNT", count)) for count in "12")
    assert not outside([once, once])
    assert outside([twice]).machine == ("2 nodes for hostPort TCP 80",)
    assert outside([once, {**once, "metadata": {"name": "b"}}])
