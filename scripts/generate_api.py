"""Write the types of the API from the JSON schema that ``kubernetes-validate`` carries:
``podtui/api/v1.py`` with those of the core group and what every object needs, and a module for each
other group that has controllers of its own.

The schema knows names, nesting, lists, maps and which fields are required; it knows neither enums
nor which strings are pointers. Therefore:

* a required field has no default, every other one has its empty value;
* collections are immutable in type (``tuple``), so that a decoded object can be shared freely;
* quantities, times and durations stay strings, as on the wire (`podtui.api.quantity`
  reads them), int-or-string stays a union.

Run ``python scripts/generate_api.py`` after raising ``VERSION``; ``--check`` fails if a committed
file differs from the output for the schema.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

VERSION = "v1.36.0"
API = "io.k8s.api."
CORE = API + "core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
ROOTS = (
    *(CORE + name for name in ("Pod", "PodList", "Node", "NodeList", "Event", "EventList")),
    *(CORE + name for name in ("ConfigMap", "Secret", "Namespace", "ServiceAccount", "Binding")),
    *(CORE + name for name in ("Service", "Endpoints", "PodTemplateSpec", "ReplicationController")),
    *(CORE + name for name in ("PersistentVolume", "PersistentVolumeClaim")),
    *(CORE + name for name in ("LimitRange", "ResourceQuota")),
    API + "coordination.v1.Lease",
    API + "node.v1.RuntimeClass",
    API + "policy.v1.Eviction",
    *(META + name for name in ("Status", "DeleteOptions")),
)
# The modules beside ``v1``, with the kinds of a group.
GROUPS = {
    "apps": ("apps.v1", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    "autoscaling": ("autoscaling.v2", "HorizontalPodAutoscaler"),
    "batch": ("batch.v1", "CronJob Job"),
    "discovery": ("discovery.v1", "EndpointSlice"),
    "networking": ("networking.v1", "Ingress IngressClass IPAddress NetworkPolicy ServiceCIDR"),
    "policy": ("policy.v1", "PodDisruptionBudget"),
    "rbac": ("rbac.v1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    "scale": ("autoscaling.v1", "Scale"),
    "scheduling": ("scheduling.v1", "PriorityClass"),
    "storage": ("storage.v1", "CSIDriver CSINode StorageClass VolumeAttachment"),
}
PACKAGE = Path(__file__).resolve().parent.parent / "podtui" / "api"
SCALARS = {"string": "str", "integer": "int", "boolean": "bool", "number": "float"}
EMPTY = {"str": '""', "bool": "None", "int": "None", "float": "None"}
# Definitions that are one JSON value on the wire.
PLAIN = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ("Quantity", '""'),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ("IntOrString | None", "None"),
    META + "Time": ("Time | None", "None"),
    META + "MicroTime": ("Time | None", "None"),
    META + "FieldsV1": ("dict[str, Any]", "{}"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ("dict[str, Any]", "{}"),
}


# Struct fields that Go holds by value, so that reading one needs no check for None. The metadata,
# spec and status of every kind are held so as well.
BY_VALUE = {
    ("CronJobSpec", "jobTemplate"),
    ("DaemonSetSpec", "updateStrategy"),
    ("DeploymentSpec", "strategy"),
    ("Endpoint", "conditions"),
    ("HTTPIngressPath", "backend"),
    ("IngressServiceBackend", "port"),
    ("IngressStatus", "loadBalancer"),
    ("JobTemplateSpec", "metadata"),
    ("JobTemplateSpec", "spec"),
    ("NetworkPolicySpec", "podSelector"),
    ("PodTemplateSpec", "metadata"),
    ("PodTemplateSpec", "spec"),
    ("ReplicaSetSpec", "template"),
    ("ServiceStatus", "loadBalancer"),
    ("StatefulSetSpec", "updateStrategy"),
    ("Container", "resources"),
    ("EphemeralContainer", "resources"),
    ("ContainerStatus", "state"),
    ("ContainerStatus", "lastState"),
    ("Event", "source"),
    ("VolumeAttachment", "status"),
}
# Fields that the API writes even if they are empty: ``{}``, ``""``, 0, or ``null`` for a time. A
# factory is never equal to the omitted default. So are those of `BY_VALUE`, the statuses of most
# kinds, and required numbers of statuses.
ALWAYS_WRITTEN = {
    ("Lease", "spec"),
    # An API server writes null if there are none; it is read as an empty list.
    ("CSINodeSpec", "drivers"),
    ("Condition", "lastTransitionTime"),
    ("PodCondition", "lastProbeTime"),
    ("PodCondition", "lastTransitionTime"),
    ("Event", "reportingComponent"),
    ("Event", "reportingInstance"),
    ("Event", "eventTime"),
    ("Event", "firstTimestamp"),
    ("Event", "lastTimestamp"),
    ("JobTemplateSpec", "metadata"),
    ("PodTemplateSpec", "metadata"),
    ("PodDisruptionBudget", "spec"),
    ("PodDisruptionBudgetStatus", "currentHealthy"),
    ("PodDisruptionBudgetStatus", "desiredHealthy"),
    ("PodDisruptionBudgetStatus", "disruptionsAllowed"),
    ("PodDisruptionBudgetStatus", "expectedPods"),
    ("PriorityClass", "value"),
    ("StatefulSetSpec", "serviceName"),
    ("StatefulSetStatus", "availableReplicas"),
    ("VolumeAttachmentStatus", "attached"),
}
# Fields that Go holds by pointer, so that the API tells an absent value from an empty one.
BY_POINTER = {
    ("ControllerRevision", "data"),
    ("DaemonSetSpec", "selector"),
    ("DeploymentSpec", "selector"),
    ("IPAddressSpec", "parentRef"),
    ("PersistentVolumeClaimSpec", "storageClassName"),
    ("ReplicaSetSpec", "selector"),
    ("StatefulSetSpec", "selector"),
}
# Kinds whose status is never empty when it is written.
NEVER_EMPTY = ("Pod", "Node", "Namespace")


class Schema:
    def __init__(self) -> None:
        root = resources.files("kubernetes_validate") / "kubernetes-json-schema"
        text = (root / f"{VERSION}-local" / "_definitions.json").read_text()
        self.definitions: dict[str, dict[str, Any]] = json.loads(text)["$defs"]
        self.order: list[str] = []
        self._visiting: set[str] = set()

    def visit(self, name: str) -> None:
        """Append ``name`` to the order after the types it refers to."""
        if name in PLAIN or name in self.order or name in self._visiting:
            return
        self._visiting.add(name)
        for prop in self.definitions[name].get("properties", {}).values():
            for ref in references(prop):
                self.visit(ref)
        self.order.append(name)

    def is_kind(self, name: str) -> bool:
        """Return whether objects of this type have metadata, and perhaps a spec and a status."""
        properties = self.definitions[name].get("properties", {})
        return short(name) != "Status" and {"apiVersion", "kind", "metadata"} <= properties.keys()

    def python_type(self, prop: dict[str, Any]) -> tuple[str, str]:
        """Return the annotation of a property and the literal of its empty value."""
        if "$ref" in prop:
            ref = prop["$ref"].rsplit("/", 1)[-1]
            if ref in PLAIN:
                return PLAIN[ref]
            return f"{short(ref)} | None", "None"
        kind = prop["type"]
        kind = kind if isinstance(kind, str) else next(k for k in kind if k != "null")
        if kind == "array":
            return f"tuple[{self.item_type(prop['items'])}, ...]", "()"
        if kind == "object":
            return f"dict[str, {self.item_type(prop.get('additionalProperties', {}))}]", "{}"
        python = SCALARS[kind]
        if python == "str":
            return "str", '""'
        return f"{python} | None", "None"

    def item_type(self, prop: dict[str, Any]) -> str:
        if not prop:
            return "Any"
        return self.python_type(prop)[0].removesuffix(" | None")


def references(prop: Any) -> list[str]:
    if isinstance(prop, dict):
        found = [prop["$ref"].rsplit("/", 1)[-1]] if isinstance(prop.get("$ref"), str) else []
        return found + [ref for value in prop.values() for ref in references(value)]
    if isinstance(prop, list):
        return [ref for value in prop for ref in references(value)]
    return []


def short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def struct(schema: Schema, name: str) -> str:
    definition = schema.definitions[name]
    lines = [f"class {short(name)}(Struct, frozen=True, kw_only=True):"]
    for wire, prop in definition.get("properties", {}).items():
        annotation, default = member(schema, name, wire, prop)
        attribute = wire.replace("$", "_").replace("-", "_")
        renamed = attribute + "_" if keyword.iskeyword(attribute) else attribute
        arguments = [f'name="{wire}"'] if renamed != wire else []
        if default.startswith("factory "):
            arguments.append(f"default_factory={default.removeprefix('factory ')}")
        elif arguments and default:
            arguments.append(f"default={default}")
        value = f"field({', '.join(arguments)})" if arguments else default
        lines.append(f"    {renamed}: {annotation}" + (f" = {value}" if value else ""))
    if len(lines) == 1:
        lines.append("    pass")
    return "\n".join(lines)


def member(schema: Schema, name: str, wire: str, prop: dict[str, Any]) -> tuple[str, str]:
    """Return the annotation of a field and its default: empty for none, ``factory T`` for the
    result of a call."""
    owner = short(name)
    annotation, empty = schema.python_type(prop)
    plain = annotation.removesuffix(" | None")
    required = wire in schema.definitions[name].get("required", ())
    part = schema.is_kind(name) and wire in ("metadata", "spec", "status")
    if (owner, wire) in BY_VALUE or (part and not required):
        if not has_default(schema, prop["$ref"].rsplit("/", 1)[-1]):
            return plain, ""
        written = (owner, wire) in ALWAYS_WRITTEN
        written |= (owner, wire) in BY_VALUE and wire != "metadata"
        written |= wire == "status" and owner not in NEVER_EMPTY
        return plain, f"factory {plain}" if written else f"{plain}()"
    if owner.endswith("Status") and required and plain == "int" and owner != "ContainerStatus":
        return plain, "factory int"
    if (owner, wire) in BY_POINTER:
        return f"{plain} | None", "None"
    if (owner, wire) in ALWAYS_WRITTEN and plain.startswith(("int", "bool", "tuple")):
        return plain, f"factory {plain}"
    if (owner, wire) in ALWAYS_WRITTEN:
        return annotation, "factory str" if annotation == "str" else "factory type(None)"
    return (plain, "") if required else (annotation, empty)


def has_default(schema: Schema, name: str) -> bool:
    """Return whether every field of a type has a default."""
    properties = schema.definitions[name].get("properties", {})
    return all(member(schema, name, wire, prop)[1] for wire, prop in properties.items())


HEADER = '''"""The types of the Kubernetes API that podtui speaks ({version}){of}.

Generated by ``scripts/generate_api.py``; do not edit. Attribute names are the wire names. Objects
are frozen and their lists are tuples: change one with ``msgspec.structs.replace``.
"""

from __future__ import annotations

'''
BASE = '''from typing import Any

import msgspec
from msgspec import field

Quantity = str
Time = str
IntOrString = int | str


class Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of every API type: unknown fields are skipped, empty ones are not written.

    None is ever part of a cycle, so the search for garbage leaves them out: a thousand pods are ten
    thousand of them.
    """

'''


def generate() -> dict[Path, str]:
    """Return the text of each module."""
    schema = Schema()
    for root in ROOTS:
        schema.visit(root)
    shared = list(schema.order)
    parts = [HEADER.format(version=VERSION, of="") + BASE]
    parts += [struct(schema, name) for name in shared]
    modules = {PACKAGE / "v1.py": formatted("\n\n".join(parts))}
    for module, (package, kinds) in GROUPS.items():
        start = len(schema.order)
        for kind in kinds.split():
            schema.visit(f"{API}{package}.{kind}")
        body = "\n\n".join(struct(schema, name) for name in schema.order[start:])
        names = {short(name) for name in shared} | {"Struct", "Quantity", "Time", "IntOrString"}
        own = {short(name) for name in schema.order[start:]}
        used = sorted((names - own) & set(re.findall(r"\w+", body)))
        head = HEADER.format(version=VERSION, of=f": {package.partition('.')[0]}")
        imports = "from typing import Any\n\n" if "Any" in body else ""
        imports += "from msgspec import field\n\n" if "field(" in body else ""
        imports += f"from podtui.api.v1 import {', '.join(used)}\n\n\n"
        modules[PACKAGE / f"{module}.py"] = formatted(head + imports + body)
    return modules


def formatted(source: str) -> str:
    for command in (("check", "--fix", "--quiet", "--select", "I"), ("format",)):
        source = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruff",
                *command,
                "--stdin-filename",
                str(PACKAGE / "v1.py"),
                "-",
            ],
            input=source + "\n",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return source


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when a file is out of date")
    arguments = parser.parse_args()
    stale = False
    for path, source in generate().items():
        if not arguments.check:
            path.write_text(source)
        elif not path.exists() or path.read_text() != source:
            print(f"{path.name} is not what the schema gives: run scripts/generate_api.py")
            stale = True
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
