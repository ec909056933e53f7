"""Write ``podtui/api/fields.json``: the facts about fields that ``podtui/api/v1.py`` does not
contain.

These are the wire numbers of the protobuf encoding, the strategies of patches, the kinds of lists
and maps for server-side apply, and the values of enumerations. They come from a checkout of
github.com/kubernetes/kubernetes (its OpenAPI v3 documents, ``.proto`` and Go files).
`podtui.api.fields` describes the format.

Run ``python scripts/generate_fields.py CHECKOUT`` after raising the version of the API.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "podtui" / "api" / "fields.json"
CORE = "io.k8s.api.core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
ROOTS = {
    "api__v1": (
        CORE,
        """Pod PodList Node NodeList Event EventList ConfigMap ConfigMapList Secret SecretList
        ServiceAccount ServiceAccountList Namespace NamespaceList Binding Service ServiceList
        Endpoints EndpointsList LimitRange LimitRangeList PersistentVolume PersistentVolumeList
        PersistentVolumeClaim PersistentVolumeClaimList ReplicationController
        ReplicationControllerList ResourceQuota ResourceQuotaList""",
    ),
    "apis__apps__v1": (
        "io.k8s.api.apps.v1.",
        """ControllerRevision ControllerRevisionList DaemonSet DaemonSetList Deployment
        DeploymentList ReplicaSet ReplicaSetList StatefulSet StatefulSetList""",
    ),
    "apis__autoscaling__v2": (
        "io.k8s.api.autoscaling.v2.",
        "HorizontalPodAutoscaler HorizontalPodAutoscalerList",
    ),
    "apis__autoscaling__v1": (
        "io.k8s.api.autoscaling.v1.",
        "Scale HorizontalPodAutoscaler HorizontalPodAutoscalerList",
    ),
    "apis__batch__v1": ("io.k8s.api.batch.v1.", "CronJob CronJobList Job JobList"),
    "apis__coordination.k8s.io__v1": ("io.k8s.api.coordination.v1.", "Lease LeaseList"),
    "apis__discovery.k8s.io__v1": ("io.k8s.api.discovery.v1.", "EndpointSlice EndpointSliceList"),
    "apis__events.k8s.io__v1": ("io.k8s.api.events.v1.", "Event EventList"),
    "apis__networking.k8s.io__v1": (
        "io.k8s.api.networking.v1.",
        """Ingress IngressList IngressClass IngressClassList IPAddress IPAddressList NetworkPolicy
        NetworkPolicyList ServiceCIDR ServiceCIDRList""",
    ),
    "apis__node.k8s.io__v1": ("io.k8s.api.node.v1.", "RuntimeClass RuntimeClassList"),
    "apis__policy__v1": (
        "io.k8s.api.policy.v1.",
        "Eviction PodDisruptionBudget PodDisruptionBudgetList",
    ),
    "apis__rbac.authorization.k8s.io__v1": (
        "io.k8s.api.rbac.v1.",
        """ClusterRole ClusterRoleList ClusterRoleBinding ClusterRoleBindingList Role RoleList
        RoleBinding RoleBindingList""",
    ),
    "apis__scheduling.k8s.io__v1": (
        "io.k8s.api.scheduling.v1.",
        "PriorityClass PriorityClassList",
    ),
    "apis__authentication.k8s.io__v1": (
        "io.k8s.api.authentication.v1.",
        "TokenRequest TokenReview SelfSubjectReview",
    ),
    "apis__authorization.k8s.io__v1": (
        "io.k8s.api.authorization.v1.",
        """SubjectAccessReview SelfSubjectAccessReview LocalSubjectAccessReview
        SelfSubjectRulesReview""",
    ),
    # After the kinds of requests: `TokenRequest` is the one of authentication.
    "apis__storage.k8s.io__v1": (
        "io.k8s.api.storage.v1.",
        """CSIDriver CSIDriverList CSINode CSINodeList StorageClass StorageClassList
        VolumeAttachment VolumeAttachmentList""",
    ),
}
META_ROOTS = "Status DeleteOptions"
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
    META + "Time": "Time",
    META + "MicroTime": "MicroTime",
    META + "FieldsV1": "FieldsV1",
    META + "Patch": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
}
FORMATS = {
    ("string", ""): "string",
    ("string", "byte"): "bytes",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("boolean", ""): "bool",
    ("number", "double"): "double",
}
PROTO_PACKAGES = {
    package: package.removeprefix("io.k8s.").rstrip(".").replace(".", "/")
    for package in (META, *(package for package, _ in ROOTS.values()))
}
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_GO_FIELD = re.compile(r"^\t(?:(\w+) )?(\S+) +`.*?json:\"([^\"]*)\"", re.MULTILINE)
_ENUM = re.compile(r"^// \+enum\n(?:^//.*\n)*^type (\w+) string$", re.MULTILINE)
_CONSTANT = re.compile(r"^\t?(?:const )?\w+ +(\w+) += \"([^\"]*)\"", re.MULTILINE)
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_LINE = re.compile(
    r"^  (?:optional |repeated |required )?(map<string, [\w.]+>|[\w.]+) (\w+) = (\d+)", re.MULTILINE
)


class Checkout:
    def __init__(self, root: Path) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        for document in ROOTS:
            path = root / "api" / "openapi-spec" / "v3" / f"{document}_openapi.json"
            self.schemas |= json.loads(path.read_text())["components"]["schemas"]
        self.messages: dict[str, dict[str, tuple[int, str]]] = {}
        self.pointers: dict[str, set[str]] = {}
        self.values: dict[str, dict[str, list[str]]] = {}
        for package, folder in PROTO_PACKAGES.items():
            text = (root / "staging/src/k8s.io" / folder / "generated.proto").read_text()
            for name, body in _MESSAGE.findall(text):
                self.messages[package + name] = {
                    field: (int(number), kind) for kind, field, number in _LINE.findall(body)
                }
            self.read_go(package, root / "staging/src/k8s.io" / folder)
        self.names: dict[str, str] = {}
        self.order: list[str] = []

    def read_go(self, package: str, folder: Path) -> None:
        """Collect the fields that Go holds by pointer, and the values of fields whose type is an
        enumeration; those of embedded structs included."""
        text = (folder / "types.go").read_text()
        structs = {
            name: _GO_FIELD.findall(re.sub(r"^\t//.*\n", "", body, flags=re.MULTILINE))
            for name, body in _STRUCT.findall(text)
        }
        values: dict[str, set[str]] = {name: set() for name in _ENUM.findall(text)}
        for name, value in _CONSTANT.findall(text):
            if name in values:
                values[name].add(value)

        def kinds(name: str) -> dict[str, str]:
            found: dict[str, str] = {}
            for _, kind, tag in structs.get(name, ()):
                wire, _, options = tag.partition(",")
                if not wire and "inline" in options:
                    found |= kinds(kind)
                else:
                    found[wire] = kind
            return found

        for name in structs:
            fields = kinds(name)
            self.pointers[package + name] = {
                wire for wire, kind in fields.items() if kind.startswith("*")
            }
            self.values[package + name] = {
                wire: sorted(values[kind.lstrip("*[]")])
                for wire, kind in fields.items()
                if kind.lstrip("*[]") in values
            }

    def visit(self, name: str) -> None:
        """Append a type to the order after everything it refers to."""
        if name in SCALARS or name in self.names:
            return
        self.names[name] = ""
        for found in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(self.schemas[name])):
            self.visit(found)
        self.order.append(name)

    def assign_names(self) -> None:
        """Types have short names; outside core and meta, one that is taken gets its group."""
        taken: set[str] = set()
        for name in sorted(self.order, key=lambda name: not name.startswith((CORE, META))):
            short = name.rpartition(".")[2]
            self.names[name] = short if short not in taken else ".".join(name.split(".")[-3::2])
            taken.add(self.names[name])

    def type_of(self, prop: dict[str, Any]) -> str:
        if "allOf" in prop:
            prop = prop["allOf"][0]
        if "$ref" in prop:
            name = prop["$ref"].rpartition("/")[2]
            return SCALARS.get(name) or self.names[name]
        if prop["type"] == "array":
            return "[]" + self.type_of(prop["items"])
        if prop["type"] == "object":
            return "{}" + self.type_of(prop["additionalProperties"])
        return FORMATS[prop["type"], prop.get("format", "")]

    def numbers(self, name: str) -> dict[str, list[int]]:
        """The wire number of each field; a path of two for a field that JSON shows inlined."""
        message = self.messages[name]
        properties = {key.lower(): key for key in self.schemas[name].get("properties", {})}
        found: dict[str, list[int]] = {}
        for field, (number, kind) in message.items():
            if (key := properties.get(field.lower())) is not None:
                found[key] = [number]
                continue
            package = name.rpartition(".")[0] + "."
            nested = kind.lstrip(".").replace("k8s.io.api.core.v1.", "")
            within = CORE if nested != kind else package
            if within + nested in self.messages:
                inner = self.messages[within + nested]
                found |= {
                    properties[key.lower()]: [number, at]
                    for key, (at, _) in inner.items()
                    if key.lower() in properties
                }
        return found

    def facts(self, name: str) -> dict[str, Any]:
        schema = self.schemas[name]
        numbers = self.numbers(name) if name in self.messages else {}
        required = set(schema.get("required", ()))
        fields: dict[str, Any] = {}
        for field, prop in schema.get("properties", {}).items():
            facts: dict[str, Any] = {"type": self.type_of(prop)}
            if field in numbers:
                facts["at"] = numbers[field]
            if field in required:
                facts["required"] = True
            if field in self.pointers.get(name, ()):
                facts["pointer"] = True
            if "default" in prop and prop["default"] != {}:
                facts["default"] = prop["default"]
            if values := self.values.get(name, {}).get(field):
                facts["values"] = values
            for key, extension in (
                ("list", "list-type"),
                ("keys", "list-map-keys"),
                ("strategy", "patch-strategy"),
                ("merge_key", "patch-merge-key"),
                ("map", "map-type"),
            ):
                if (value := prop.get(f"x-kubernetes-{extension}")) is not None:
                    facts[key] = value
            fields[field] = facts
        kinds = schema.get("x-kubernetes-group-version-kind", [])
        versions = [f"{k['group']}/{k['version']}".lstrip("/") for k in kinds]
        found: dict[str, Any] = {"model": name}
        if versions:
            found["version"] = "v1" if "v1" in versions else versions[0]
        if "x-kubernetes-map-type" in schema:
            found["map"] = schema["x-kubernetes-map-type"]
        return {**found, "fields": fields}


def generate(root: Path) -> str:
    checkout = Checkout(root)
    for package, kinds in ROOTS.values():
        for kind in kinds.split():
            checkout.visit(package + kind)
    for kind in META_ROOTS.split():
        checkout.visit(META + kind)
    checkout.assign_names()
    lines = [
        f"{json.dumps(checkout.names[name])}:"
        + json.dumps(checkout.facts(name), separators=(",", ":"))
        for name in checkout.order
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of kubernetes/kubernetes")
    TARGET.write_text(generate(parser.parse_args().checkout))
    return 0


if __name__ == "__main__":
    sys.exit(main())
