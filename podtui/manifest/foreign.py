"""Recognizes files that are not Pod manifests by their content, and gives advice for each.

`foreign_object` recognizes a parsed document, `foreign_text` a text that is not a YAML or JSON
object, and `template_in_pod` a Pod with unrendered placeholders in its names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any, Final, cast

from podtui.manifest.document import Document, Path, Position, Problem, position_at, printable
from podtui.manifest.kinds import KINDS
from podtui.text.nearest import closest, meant

CODE: Final = "NotAPod"
_POD_FIELDS: Final = ("apiVersion", "kind", "metadata", "spec")
_LIKE_A_POD_FIELD: Final = 0.85
_KINDS_READ: Final = ("Pod", "List", *KINDS)
_GROUPS: Final = frozenset(kind.api_version.rpartition("/")[0] for kind in KINDS.values())
_CONFIGURATIONS: Final = frozenset({"kustomize.config.k8s.io", "kubelet.config.k8s.io"})
"""The groups of files for programs, which no API server stores."""
_HOLDS: Final = "the folder holds the objects that 'kubectl api-resources' lists"
_CORE: Final = re.compile(r"/?[vV]?[0-9][A-Za-z0-9.]*")
"""Versions of the core group, valid ones and misspelt ones."""
_MOST_KEYS: Final = 100
_MOVE_OUT: Final = "move it out of the folder"
_HELM: Final = "run 'helm template NAME CHART' and put what it prints into the folder"
_RENDER: Final = "render it first, and put the result into the folder"
_KUSTOMIZE: Final = "run 'kubectl kustomize FOLDER' and put what it prints into the folder"
_RUN_PODS: Final = frozenset(
    """DeploymentConfig PodTemplate Rollout Workflow CronWorkflow TFJob PyTorchJob RayCluster
    RayService RayJob JobSet LeaderWorkerSet MPIJob CloneSet""".split()
)
"""Kinds of other APIs whose objects make pods."""
_ROUTE: Final = (
    "give the container's port a hostPort, or run 'podtui port-forward POD PORT'; "
) + _MOVE_OUT
_ADVICE: Final = {
    "Gateway": _ROUTE,
    "HTTPRoute": _ROUTE,
    "CustomResourceDefinition": "podtui serves no custom resources",
    "PodSecurityPolicy": f"{_MOVE_OUT}: Kubernetes removed this kind in v1.25",
    **{
        f"{kind}List": f"write kind: List, and apiVersion and kind: {kind} in each item"
        for kind in ("Pod", *KINDS)
    },
}

Tree = dict[str, Any]


def _map(value: object) -> Tree:
    return cast("Tree", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _maps(value: object) -> list[Tree]:
    return [cast("Tree", item) for item in _list(value) if isinstance(item, dict)]


def _problem(message: str, fix: str, path: Path = (), position: Position | None = None) -> Problem:
    return Problem(code=CODE, message=message, fix=fix, path=path, position=position, at_key=True)


# --- documents


def foreign_object(tree: Tree) -> Problem | None:
    """Recognize a map that is not an object of the folder; return None if it resembles one."""
    kind = tree.get("kind")
    if isinstance(kind, str) and kind:
        return _foreign_kind(kind, tree)
    for test in (_compose, _chart, _kustomization, _values, _pod_spec, _other_format):
        if (problem := test(tree)) is not None:
            return problem
    keys = islice(tree, _MOST_KEYS)
    if not tree or any(closest(key, _POD_FIELDS, _LIKE_A_POD_FIELD) for key in keys):
        return None
    return _problem(
        "this is not a Kubernetes object: it has neither apiVersion, kind, metadata nor spec",
        f"{_MOVE_OUT}, or begin its name with a dot",
    )


def is_foreign(api_version: str) -> bool:
    """Return whether an apiVersion names a group, whose kinds are not those of the core group."""
    return bool(api_version) and _CORE.fullmatch(api_version) is None


def is_custom(tree: Tree) -> bool:
    """Return whether a map is an object of a kind of another API, as kubectl would send it to an
    API server, and no misspelling."""
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str) or not is_foreign(version):
        return False
    group = version.rpartition("/")[0]
    if not kind or not _map(tree.get("metadata")) or group in _CONFIGURATIONS:
        return False
    return group not in _GROUPS or not known_kind(kind)


def kind_advice(kind: str, kinds: Collection[str], version: object = "") -> str:
    """Return advice for an object whose kind is not in ``kinds``. A kind of another group is no
    misspelling."""
    if kind in _ADVICE:
        return _ADVICE[kind]
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    if group and group not in _GROUPS:
        return _MOVE_OUT
    if kind in KINDS and kind not in kinds:
        return f"create it over the API, with 'kubectl apply -f FILE'; {_MOVE_OUT}"
    if kind == "PodTemplate":
        return (
            "create a Pod from its template: apiVersion: v1, kind: Pod, a metadata.name,"
            " and that spec"
        )
    guess = known_kind(kind, kinds)
    return f"write kind: {guess}" if guess not in ("", kind) else _MOVE_OUT


def known_kind(kind: str, kinds: Collection[str] = _KINDS_READ) -> str:
    """Return the kind of which ``kind`` is a misspelling; empty if it may be another kind."""
    if kind.endswith("List") and kind != "List":
        return ""
    return meant(kind, kinds)


def runs_pods(kind: str) -> bool:
    """Return whether objects of this kind are pods, or make pods."""
    return kind in _RUN_PODS or known_kind(kind) == "Pod" or kind == "PodList"


def unsupported_kind(kind: str, version: object = "") -> str:
    of = f" of {printable(version, 60)}" if isinstance(version, str) and "/" in version else ""
    return f"{printable(kind, 60)}{of} is not supported"


def _foreign_kind(kind: str, tree: Tree) -> Problem | None:
    group = str(tree.get("apiVersion") or "").partition("/")[0]
    path: Path = ("kind",)
    if kind == "Kustomization" or group == "kustomize.config.k8s.io":
        return _problem("this is a kustomization, not a Pod", _KUSTOMIZE, path)
    if kind == "Config" and {"clusters", "contexts", "users"} & tree.keys():
        return _problem(
            "this is a kubeconfig, not a Pod", f"{_MOVE_OUT}; 'podtui --kubeconfig FILE' uses it",
            path,
        )  # fmt: skip
    if kind == "KubeletConfiguration":
        fix = f"{_MOVE_OUT}; 'podtui --config FILE' uses it"
        return _problem("these are a kubelet's settings, not a Pod", fix, path)
    version = tree.get("apiVersion")
    foreign = isinstance(version, str) and is_foreign(version)
    if kind == "Pod" or (known_kind(kind) and not foreign):
        return None
    what = unsupported_kind(kind, version)
    return _problem(f"{what}: {_HOLDS}", kind_advice(kind, _KINDS_READ, version), path)


def _compose(tree: Tree) -> Problem | None:
    services = _map(tree.get("services"))
    path: Path = ("services",)
    if not services and tree and all(map(_is_old_service, tree.values())):
        services, path = tree, ()
    signs = {"image", "build", "ports", "command", "environment", "depends_on", "env_file"}
    signs |= {"extends", "volumes", "networks", "restart", "container_name", "entrypoint"}
    if not any(signs & _map(service).keys() for service in services.values()):
        return None
    names = ", ".join(printable(name, 40) for name in list(services)[:6])
    more = ", …" if len(services) > 6 else ""
    return _problem(
        "this is a Docker Compose file, not a Pod",
        f"podtui runs Pods: create a Pod with one container per service ({names}{more}):"
        " entrypoint becomes command, command becomes args, environment env, ports containerPort"
        " and hostPort, volumes volumes and volumeMounts",
        path,
    )


def _is_old_service(value: object) -> bool:
    """Return whether this is a service of an old Compose file, without the key ``services``."""
    service = _map(value)
    if not isinstance(service.get("image", service.get("build")), str):
        return False
    lists = ("ports", "volumes", "links", "environment", "command")
    return any(isinstance(service.get(name), list | str) for name in lists)


def _chart(tree: Tree) -> Problem | None:
    named = all(isinstance(tree.get(name), str) for name in ("apiVersion", "name", "version"))
    if not named or {"metadata", "spec"} & tree.keys():
        return None
    return _problem("this is the Chart.yaml of a Helm chart, not a Pod", _HELM)


def _kustomization(tree: Tree) -> Problem | None:
    signs = {"namePrefix", "nameSuffix", "commonLabels", "commonAnnotations", "patches"}
    signs |= {"patchesStrategicMerge", "patchesJson6902", "configMapGenerator", "secretGenerator"}
    signs |= {"bases", "components", "helmCharts", "replacements"}
    resources = _list(tree.get("resources"))
    listed = bool(resources) and all(isinstance(item, str) for item in resources)
    if "spec" in tree or not (listed or len(signs & tree.keys()) > 1):
        return None
    path: Path = ("resources",) if listed else ()
    return _problem("this is a kustomization, not a Pod", _KUSTOMIZE, path)


def _values(tree: Tree) -> Problem | None:
    signs = {"replicaCount", "nameOverride", "fullnameOverride", "imagePullSecrets", "ingress"}
    signs |= {"serviceAccount", "autoscaling", "podAnnotations", "podSecurityContext", "global"}
    signs |= {"nodeSelector", "tolerations", "affinity", "resources", "service", "persistence"}
    image = _map(tree.get("image"))
    count = len(signs & tree.keys()) + 2 * bool({"repository", "tag", "pullPolicy"} & image.keys())
    if count < 3 or set(_POD_FIELDS) & tree.keys():
        return None
    return _problem("these are the values of a Helm chart, not a Pod", _HELM)


def _pod_spec(tree: Tree) -> Problem | None:
    containers = _maps(tree.get("containers"))
    if not containers or {"spec", "metadata"} & tree.keys():
        return None
    fix = "put it under spec of a Pod that begins with apiVersion: v1, kind: Pod and metadata.name"
    return _problem("this is only the spec of a Pod", fix, ("containers",))


def _other_format(tree: Tree) -> Problem | None:
    for name, path in _formats(tree):
        return _problem(f"this is {name}, not a Pod", _MOVE_OUT, path)
    return None


def _formats(tree: Tree) -> Iterator[tuple[str, Path]]:
    """Yield the well-known formats that a map has, each with the field that identifies it."""
    keys = tree.keys()
    if {"name", "version"} <= keys and {"scripts", "dependencies", "devDependencies"} & keys:
        yield "an npm package.json", ()
    if "compilerOptions" in keys:
        yield "a TypeScript configuration", ("compilerOptions",)
    if any(
        "runs-on" in _map(job) or "uses" in _map(job) for job in _map(tree.get("jobs")).values()
    ):
        yield "a GitHub Actions workflow", ("jobs",)
    if any("script" in _map(job) for job in tree.values()):
        yield "a GitLab CI configuration", ()
    for key, name in _TELLING_KEYS.items():
        if key in keys:
            yield name, (key,)


_TELLING_KEYS: Final = {
    "openapi": "an OpenAPI description",
    "swagger": "an OpenAPI description",
    "scrape_configs": "a Prometheus configuration",
    "auths": "a Docker client configuration",
    "$schema": "a JSON Schema or a configuration file",
    "staticPodPath": "a settings file",
}


# --- texts


def foreign_list(items: list[Any]) -> Problem:
    """Describe the problem of a list at the top level of a file."""
    maps = _maps(items)
    if any({"hosts", "import_playbook"} & item.keys() for item in maps):
        return _problem("this is an Ansible playbook, not a Pod", _MOVE_OUT)
    if any("kind" in item for item in maps):
        fix = "separate them by lines of '---', or make them the items of a kind: List"
        return _problem("this is a list of objects, but a manifest holds objects", fix)
    return _problem("this is a list, not a Pod", _MOVE_OUT)


_HELM_ACTION: Final = re.compile(
    r"\{\{[^{}\n]*?(?:\.(?:Values|Release|Chart|Capabilities|Files|Template)\b"
    r"|\b(?:include|nindent|toYaml|define|tpl)\b)"
)
_PLACEHOLDER: Final = re.compile(
    r"^[ \t]*(?:-[ \t]+)?(?:[\w./\"-]+:[ \t]+)?(?=\{\{|\{%)", re.MULTILINE
)
_CONFLICT: Final = tuple(re.compile(rf"^{sign * 7}( |$)", re.MULTILINE) for sign in "<=>")
_MANIFEST_KEYS: Final = re.compile(r"^[ \t]*\"?(?:apiVersion|kind)\"?[ \t]*:", re.MULTILINE)
_ASSIGNMENT: Final = re.compile(r"(?:export\s+)?[A-Za-z_]\w*=")
_SECTION: Final = re.compile(r"\[\[?[\w.\-\" ]+\]\]?\s*")
_BLOCK: Final = re.compile(
    r"(?:resource|provider|variable|module|terraform|data|locals|output)\b[^\n]*\{\s*"
)
_MARKDOWN: Final = re.compile(r"^(?:#{1,6} +\S|```|[*-] +\S)|\]\(", re.MULTILINE)
_KEY: Final = re.compile(r"^[\w.-]+:(?: |$)", re.MULTILINE)


def foreign_text(text: str) -> Problem | None:
    """Recognize a text that is not a YAML or JSON object: an unrendered template, or another
    format. Returns None if it resembles a manifest with an error."""
    conflict = [match.start() for sign in _CONFLICT if (match := sign.search(text)) is not None]
    if len(conflict) == len(_CONFLICT) and conflict == sorted(conflict):
        return _problem(
            "this file has an unresolved merge conflict",
            "keep one of the two versions and remove the lines of <<<<<<<, ======= and >>>>>>>",
            position=position_at(text, conflict[0]),
        )
    if (template := _template(text)) is not None:
        return template
    if _MANIFEST_KEYS.search(text):
        return None
    for name, test in _KINDS_OF_TEXT:
        if test(text):
            return _problem(f"this is {name}, not a Pod", _MOVE_OUT, position=(1, 1))
    return None


def plain_text() -> Problem:
    return _problem("this is plain text, not a Pod", _MOVE_OUT, position=(1, 1))


def template_in_pod(document: Document) -> Problem | None:
    """Recognize a Pod that is an unrendered template: its name or an image has placeholders."""
    tree = _map(document.value)
    if tree.get("kind") not in (None, "Pod"):
        return None
    spec = _map(tree.get("spec"))
    paths: list[Path] = [("metadata", "name")]
    for name in ("initContainers", "containers"):
        paths += [("spec", name, index, "image") for index in range(len(_list(spec.get(name))))]
    for path in paths:
        value: Any = tree
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                value = ""
        if isinstance(value, str) and "{{" in value:
            helm = _HELM_ACTION.search(value) is not None
            name, fix = ("a Helm template", _HELM) if helm else ("a template", _RENDER)
            return _problem(f"this is {name}, not a Pod", fix, position=document.position(path))
    return None


def _template(text: str) -> Problem | None:
    helm = _HELM_ACTION.search(text)
    if helm is not None:
        where = position_at(text, helm.start())
        return _problem("this is a Helm template, not a Pod", _HELM, position=where)
    match = _PLACEHOLDER.search(text)
    if match is None:
        return None
    where = position_at(text, match.end())
    return _problem("this is a template, not a Pod", _RENDER, position=where)


def _lines(text: str) -> list[str]:
    """Return the lines that are neither blank nor comments."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", ";", "//"))]


def _is_dockerfile(text: str) -> bool:
    lines = _lines(text)
    while lines and lines[0].startswith("ARG "):
        del lines[0]
    return bool(lines) and re.match(r"FROM\s+\S+(\s+AS\s+\S+)?$", lines[0], re.I) is not None


def _is_environment(text: str) -> bool:
    lines = _lines(text)
    return bool(lines) and all(_ASSIGNMENT.match(line) for line in lines)


def _is_ini(text: str) -> bool:
    lines = _lines(text)
    return bool(lines) and _SECTION.fullmatch(lines[0]) is not None


def _is_markdown(text: str) -> bool:
    return len(_MARKDOWN.findall(text)) > 1 and _KEY.search(text) is None


def _is_terraform(text: str) -> bool:
    return any(_BLOCK.fullmatch(line) for line in _lines(text)[:1])


_KINDS_OF_TEXT: Final[tuple[tuple[str, Callable[[str], bool]], ...]] = (
    ("a script", lambda text: text.startswith("#!")),
    ("a certificate or key", lambda text: text.lstrip().startswith("-----BEGIN ")),
    ("HTML or XML", lambda text: re.match(r"\s*<[!?A-Za-z]", text) is not None),
    ("a diff", lambda text: re.search(r"^--- \S.*\n\+\+\+ \S", text, re.MULTILINE) is not None),
    ("a Dockerfile", _is_dockerfile),
    ("a file of environment variables", _is_environment),
    ("a file in INI or TOML format", _is_ini),
    ("a Terraform file", _is_terraform),
    ("Markdown text", _is_markdown),
)


_MAGIC: Final = (
    (b"\x1f\x8b", "a gzip archive"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x7fELF", "a program"),
    (b"\x89PNG", "a picture"),
    (b"SQLite format 3", "a SQLite database"),
    (b"%PDF", "a PDF document"),
)


def foreign_bytes(data: bytes) -> Problem | None:
    """Recognize a binary file by its first bytes."""
    name = next((name for magic, name in _MAGIC if data.startswith(magic)), "")
    return _problem(f"this is {name}, not a Pod", _MOVE_OUT, position=(1, 1)) if name else None
