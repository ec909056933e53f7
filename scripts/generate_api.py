"""Write ``podtui/api/v1.py`` from the JSON schema that ``kubernetes-validate`` carries.

The schema knows names, nesting, lists, maps and which fields are required; it knows neither enums
nor which strings are pointers. Therefore:

* a required field has no default, every other one has its empty value;
* collections are immutable in type (``tuple``), so that a decoded object can be shared freely;
* quantities, times and durations stay strings, as on the wire (`podtui.api.quantity`
  reads them), int-or-string stays a union.

Run ``python scripts/generate_api.py`` after raising ``VERSION``; ``--check`` fails if the committed
file differs from the output for the schema.
"""

from __future__ import annotations

import argparse
import json
import keyword
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
    CORE + "Service",
    API + "coordination.v1.Lease",
    API + "node.v1.RuntimeClass",
    API + "policy.v1.Eviction",
    *(META + name for name in ("Status", "DeleteOptions")),
)
TARGET = Path(__file__).resolve().parent.parent / "podtui" / "api" / "v1.py"
SCALARS = {"string": "str", "integer": "int", "boolean": "bool", "number": "float"}
EMPTY = {"str": '""', "bool": "None", "int": "None", "float": "None"}
# Definitions that are one JSON value on the wire.
PLAIN = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ("Quantity", '""'),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ("IntOrString | None", "None"),
    META + "Time": ("Time | None", "None"),
    META + "MicroTime": ("Time | None", "None"),
    META + "FieldsV1": ("dict[str, Any]", "{}"),
}


# Struct fields that Go holds by value, so that reading one needs no check for None.
BY_VALUE = {
    ("Pod", "metadata"),
    ("Pod", "status"),
    ("PodList", "metadata"),
    ("Node", "metadata"),
    ("Node", "spec"),
    ("Node", "status"),
    ("NodeList", "metadata"),
    ("EventList", "metadata"),
    ("ConfigMap", "metadata"),
    ("Secret", "metadata"),
    ("Namespace", "metadata"),
    ("Namespace", "spec"),
    ("Namespace", "status"),
    ("ServiceAccount", "metadata"),
    ("Binding", "metadata"),
    ("Service", "metadata"),
    ("Service", "spec"),
    ("Service", "status"),
    ("Lease", "metadata"),
    ("Lease", "spec"),
    ("RuntimeClass", "metadata"),
    ("Eviction", "metadata"),
    ("Container", "resources"),
    ("EphemeralContainer", "resources"),
    ("ContainerStatus", "state"),
    ("ContainerStatus", "lastState"),
    ("Event", "source"),
}
REQUIRED = {("Pod", "spec")}
# Fields that the API writes even if they are empty: ``{}``, ``""``, or ``null`` for a time. A
# factory is never equal to the omitted default.
ALWAYS_WRITTEN = {
    ("Container", "resources"),
    ("EphemeralContainer", "resources"),
    ("ContainerStatus", "state"),
    ("ContainerStatus", "lastState"),
    ("Lease", "spec"),
    ("PodCondition", "lastProbeTime"),
    ("PodCondition", "lastTransitionTime"),
    ("Event", "reportingComponent"),
    ("Event", "reportingInstance"),
    ("Event", "source"),
    ("Event", "eventTime"),
    ("Event", "firstTimestamp"),
    ("Event", "lastTimestamp"),
}


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
    required = set(definition.get("required", ()))
    lines = [f"class {short(name)}(Struct, frozen=True, kw_only=True):"]
    for wire, prop in definition.get("properties", {}).items():
        annotation, empty = schema.python_type(prop)
        attribute = wire.replace("$", "_").replace("-", "_")
        renamed = attribute + "_" if keyword.iskeyword(attribute) else attribute
        if (short(name), wire) in BY_VALUE:
            annotation = annotation.removesuffix(" | None")
            empty = f"{annotation}()"
        if (short(name), wire) in ALWAYS_WRITTEN:
            by_value = annotation == "str" or (short(name), wire) in BY_VALUE
            factory = annotation if by_value else "type(None)"
            default = f" = field(default_factory={factory})"
        elif wire in required or (short(name), wire) in REQUIRED:
            annotation = annotation.removesuffix(" | None")
            default = f' = field(name="{wire}")' if renamed != wire else ""
        elif renamed != wire:
            default = f' = field(name="{wire}", default={empty})'
        else:
            default = f" = {empty}"
        lines.append(f"    {renamed}: {annotation}{default}")
    if len(lines) == 1:
        lines.append("    pass")
    return "\n".join(lines)


HEADER = '''"""The types of the Kubernetes API that podtui speaks ({version}).

Generated by ``scripts/generate_api.py``; do not edit. Attribute names are the wire names. Objects
are frozen and their lists are tuples: change one with ``msgspec.structs.replace``.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field

type_names: tuple[str, ...]

Quantity = str
Time = str
IntOrString = int | str


class Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of every API type: unknown fields are skipped, empty ones are not written.

    None is ever part of a cycle, so the search for garbage leaves them out: a thousand pods are ten
    thousand of them.
    """

'''


def generate() -> str:
    schema = Schema()
    for root in ROOTS:
        schema.visit(root)
    parts = [HEADER.format(version=VERSION).replace("type_names: tuple[str, ...]\n\n", "")]
    parts += [struct(schema, name) for name in schema.order]
    source = "\n\n".join(parts) + "\n"
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    )
    return formatted.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the file is out of date")
    arguments = parser.parse_args()
    source = generate()
    if arguments.check:
        if TARGET.read_text() != source:
            print(f"{TARGET.name} is not what the schema gives: run scripts/generate_api.py")
            return 1
        return 0
    TARGET.write_text(source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
