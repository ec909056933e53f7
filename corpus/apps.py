"""Finds the apps below a folder: folders with workloads, plain ones and kustomizations."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

Map = dict[str, Any]
EXTENSIONS: Final = frozenset({".yaml", ".yml", ".json"})
KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
PODS_OF: Final = frozenset({
    "Pod", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job",
    "CronJob",
})  # fmt: skip
_GROUPS: Final = frozenset({"v1", "apps", "batch", "extensions"})
_RENDER_SECONDS: Final = 60
_DOWNLOADED: Final = Path(__file__).resolve().parent.parent / ".cache" / "kubectl"
"""The folder of the versions that ``make kubectl`` downloads."""
RENDERED: Final = "rendered.yaml"


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that runs pods. Versions of one object in several files are one workload."""

    kind: str
    namespace: str
    name: str
    api_version: str
    file: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class App:
    """``files`` are the contents by name, as they are put into a fresh folder."""

    repository: str
    folder: str
    files: dict[str, bytes]
    workloads: tuple[Workload, ...]
    documents: tuple[Map, ...] = ()


@dataclass(slots=True)
class Skipped:
    """Folders that are no apps: templates of other programs, and kustomizations without a base."""

    templates: list[str] = field(default_factory=list[str])
    kustomizations: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def unpack(source: Path, target: Path) -> Path:
    """Return the folder of a source: itself, or the unpacked archive."""
    if source.is_dir():
        return source
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            archive.extractall(target)
    else:
        with tarfile.open(source) as archive:
            archive.extractall(target, filter="data")
    return target


def apps_below(root: Path, skipped: Skipped) -> Iterator[App]:
    """Yield the apps; the first part of a path is the repository."""
    folders = sorted({path.parent for path in root.rglob("*") if path.is_file()})
    parts = parts_of_kustomizations(root)
    for folder in folders:
        app = _app(root, folder, parts, skipped)
        if app is not None and app.workloads:
            yield app


def parts_of_kustomizations(root: Path) -> frozenset[Path]:
    """Return the files that a kustomization patches with or configures: no manifests by
    themselves."""
    parts = set[Path]()
    for name in KUSTOMIZATIONS:
        for path in root.rglob(name):
            for document in _documents(path.read_bytes()) or []:
                parts |= {(path.parent / part).resolve() for part in _parts(document)}
    return frozenset(parts)


def _parts(kustomization: Map) -> Iterator[str]:
    for key in ("patchesStrategicMerge", "configurations", "transformers", "generators", "crds"):
        for item in kustomization.get(key) or ():
            if isinstance(item, str) and "\n" not in item:
                yield item
    for key in ("patches", "patchesJson6902", "replacements"):
        for item in kustomization.get(key) or ():
            if isinstance(item, dict) and isinstance(item.get("path"), str):
                yield cast("Map", item)["path"]
    for key in ("configMapGenerator", "secretGenerator"):
        for item in kustomization.get(key) or ():
            for file in (item or {}).get("files") or ():
                yield str(file).rpartition("=")[2]


def _app(root: Path, folder: Path, parts: frozenset[Path], skipped: Skipped) -> App | None:
    relative = folder.relative_to(root)
    repository = relative.parts[0] if relative.parts else root.name
    name = "/".join(relative.parts[1:]) or "."
    kustomization = next((folder / n for n in KUSTOMIZATIONS if (folder / n).is_file()), None)
    if kustomization is not None:
        head = next(iter(_documents(kustomization.read_bytes()) or []), {})
        if head.get("kind") == "Component":
            return None
        text, error = render(folder)
        if error:
            error = error.replace(f"{root}/", "")
            skipped.kustomizations.append((f"{repository}/{name}", error))
            return None
        files = {RENDERED: text}
    else:
        files = {
            path.name: path.read_bytes()
            for path in sorted(folder.iterdir())
            if path.is_file() and path.suffix in EXTENSIONS and path.resolve() not in parts
        }
    documents = list[Map]()
    workloads = dict[tuple[str, str, str], Workload]()
    kept = dict[str, bytes]()
    for file, content in files.items():
        parsed = _documents(content)
        if parsed is None and b"{{" in content:
            skipped.templates.append(f"{repository}/{name}/{file}")
            continue
        kept[file] = content
        for document in expand(parsed or ()):
            documents.append(document)
            workload = workload_of(document, file)
            if workload is not None:
                workloads.setdefault(workload.key, workload)
    return App(repository, name, kept, tuple(workloads.values()), tuple(documents))


def render(folder: Path) -> tuple[bytes, str]:
    """Return what ``kubectl kustomize`` prints, or its error."""
    kubectl = shutil.which("kubectl") or max(map(str, _DOWNLOADED.glob("*/kubectl")), default=None)
    if kubectl is None:
        return b"", "kubectl is not installed"
    try:
        done = subprocess.run(
            [kubectl, "kustomize", str(folder)],
            capture_output=True, check=False, timeout=_RENDER_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return b"", f"no answer within {_RENDER_SECONDS} s"
    if done.returncode != 0:
        return b"", done.stderr.decode(errors="replace").strip()
    return done.stdout, ""


def _documents(content: bytes) -> list[Map] | None:
    """Return the objects of a text; None if it is not YAML."""
    try:
        loaded = list(yaml.load_all(content, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError):
        return None
    return [cast("Map", item) for item in loaded if isinstance(item, dict)]


def expand(documents: Iterable[Map]) -> Iterator[Map]:
    for document in documents:
        kind, items = document.get("kind"), document.get("items")
        if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
            yield from expand(item for item in cast("list[Any]", items) if isinstance(item, dict))
        else:
            yield document


def workload_of(document: Map, file: str) -> Workload | None:
    kind, version, meta = document.get("kind"), document.get("apiVersion"), document.get("metadata")
    if kind not in PODS_OF or not isinstance(version, str) or not isinstance(meta, dict):
        return None
    if version.split("/")[0] not in _GROUPS:
        return None
    meta = cast("Map", meta)
    name = str(meta.get("name") or meta.get("generateName") or "")
    return Workload(str(kind), str(meta.get("namespace") or "default"), name, version, file)


def pod_spec(document: Map) -> Map:
    """Return the pod spec of a workload, as far as it has one."""
    spec: Any = document.get("spec")
    for key in {"Pod": (), "CronJob": ("jobTemplate", "spec", "template", "spec")}.get(
        str(document.get("kind")), ("template", "spec")
    ):
        spec = spec.get(key) if isinstance(spec, dict) else None
    return cast("Map", spec) if isinstance(spec, dict) else {}
