"""Requests generated from the OpenAPI document that the API serves.

A request has an operation of the document, and names, parameters, headers and a body that are
valid, nearly valid or broken. A body is an object of a corpus with some of its fields replaced by
values of the schema, or by others; a patch is made of such fields.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

import yaml

from podtui.server.encoding import protobuf

Schema = Mapping[str, Any]
ROOT: Final = Path(__file__).resolve().parent.parent
RECORDED: Final = ROOT / "tests/unit/server"
NAMES: Final = ("a", "a", "a", "b", "uses-secret", "default", "kube-system", "n1")
_PATH_VALUES: Final = (
    "x" * 300, "A_b", "..", ".", "%", "a/b", "\0", "é\u202e", " ", "*", "kube-root-ca.crt",
    "\udcff",
)  # fmt: skip
_TEXTS: Final = (
    "a", "b", "", "x" * 300, "A_B.c", "1", "-1", "10m", "1Gi", "1e400", "\0", "é\u202e",
    "2026-01-01T00:00:00Z", "Always", "Never", "../..", "/etc/x", "10.0.0.1", "::1", "http", "$(A)",
    "{a}", "=", "kubernetes.io/config.mirror", "a.example.org/b", "busybox:1.36", "9" * 30,
    "\\ud800", "TCP", "\ud800", "a\udfff\ud83d", "\udcff",
)  # fmt: skip
_NUMBERS: Final = (0, 1, -1, 2, 30, 8080, 65536, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 1 << 200)
WRONG: Final = (
    None, True, 0, -1, 2**63, 1.5, "", "x", "9" * 400, [], {}, [None], [[]], [{}], {"": None},
    {"x": {}}, ["x", 1], {"$patch": "replace"}, {"$patch": "delete"}, {"$patch": "x"},
)  # fmt: skip
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_APPLY: Final = "application/apply-patch+yaml"
_MEDIA: Final = (_JSON, _YAML, _PROTOBUF, "text/plain", "", "application/json; charset=x", "a/b;;")
_ACCEPT: Final = (
    "*/*", _JSON, _YAML, _PROTOBUF, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;stream=watch",
    "application/json;as=Table;v=v9;g=x", "text/html", "", ",;=", "application/json;q=0", "x" * 999,
)  # fmt: skip
_AGENTS: Final = ("kubectl/v1.33", "", "é/1", "x" * 200, "a b")
_HEADERS: Final = (
    "Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Type", "Cookie",
    "If-None-Match", "Impersonate-Extra-x", "Impersonate-Group", "Impersonate-Uid",
    "Impersonate-User", "Origin", "Range", "Sec-WebSocket-Key", "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Version", "Upgrade", "User-Agent", "X-Stream-Protocol-Version",
)  # fmt: skip
_BYTES: Final = (
    "x\udcff",
    "Bearer \udcff",
    "\udced\udca0\udc80",
    "\udcc3",
    "é",
    "",
    ",",
)
"""Values of headers; ``\\udcff`` is the byte ff."""
_UPGRADES: Final = ("websocket", "SPDY/3.1", "websocket\udcff")
_BOOLEANS: Final = ("true", "false", "1", "", "x")
_WHOLE: Final = ("0", "1", "2", "-1", "", "x", "9" * 30, "1.5", "9223372036854775808", "+1", " 1")
_SELECTORS: Final = (
    "a=b", "a!=b,c", "a in (b,c)", "!a", "a=b=c", "(", ",", "a in ()", "a>1", "metadata.name=a",
    "spec.nodeName!=n1", "status.phase==Running", "metadata.name=a,,", "x.y=z", "type=Opaque",
    "\\,=a",
)  # fmt: skip
_VALUES: Final[Mapping[str, Sequence[str]]] = {
    "continue": ("x", "", "e30", "eyJydiI6MSwic3RhcnQiOlsiYSIsImIiXX0", "eyJydiI6LTF9", "%%"),
    "dryRun": ("All", "", "x"),
    "fieldManager": ("me", "", "x" * 200, "\0", "é"),
    "fieldSelector": _SELECTORS,
    "fieldValidation": ("Ignore", "Warn", "Strict", "", "x"),
    "includeObject": ("None", "Metadata", "Object", "", "x"),
    "labelSelector": _SELECTORS,
    "propagationPolicy": ("Orphan", "Background", "Foreground", "", "x"),
    "resourceVersion": ("", "0", "1", "2", "999999999", "x", "-1", "9" * 30, "1.5", "٣"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "", "x"),
    "sinceTime": ("2026-01-01T00:00:00Z", "x", ""),
    "container": ("c", "", "x"),
    "command": ("true", "", "\0"),
    "ports": ("80", "0", "x"),
}
_COMMON: Final = ("limit", "watch", "resourceVersion", "dryRun", "fieldManager", "force", "x")
_KUBELET_PATHS: Final = (
    "/healthz", "/livez", "/readyz", "/version", "/api", "/apis", "/api/v1", "/apis/policy/v1",
    "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/pods", "/runningpods/", "/metrics",
    "/metrics/resource", "/metrics/probes", "/metrics/cadvisor", "/stats/summary", "/configz",
    "/containerLogs/default/uses-secret/c", "/api/v1/nodes/n1/proxy/metrics", "/%00", "//",
    "/api/v1/x",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``target`` is encoded; a surrogate in a header is a byte that is not UTF-8. ``documented``
    are the schemas of its answers by status, if its path is in the document."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    documented: Mapping[str, Any]


class Requests:
    """Chooses requests from a document of OpenAPI v2."""

    def __init__(self, document: Schema) -> None:
        self.definitions: Schema = document["definitions"]
        self._operations = [
            (path, method, item, operation)
            for path, item in sorted(document["paths"].items())
            for method, operation in sorted(item.items())
            if method != "parameters"
        ]
        self._names = {
            (one["group"], one["version"], one["kind"]): name
            for name, schema in self.definitions.items()
            for one in schema.get("x-kubernetes-group-version-kind", ())
        }
        self._corpus = _corpus()
        lines = (RECORDED / "encoding/recorded_protobuf.jsonl").read_text().splitlines()
        self._protobuf: dict[str, list[bytes]] = {}
        for line in lines:
            body = base64.b64decode(json.loads(line)["body"])
            self._protobuf.setdefault(str(protobuf.decode(body)["kind"]), []).append(body)

    def __len__(self) -> int:
        """The number of operations in the document."""
        return len(self._operations)

    def definition(self, api_version: str, kind: str) -> Schema | None:
        """Return the schema of a kind."""
        group, _, version = api_version.rpartition("/")
        name = self._names.get((group, version, kind))
        return None if name is None else self.definitions[name]

    def kind_of(self, schema: Schema) -> str:
        return next((one["kind"] for one in schema.get("x-kubernetes-group-version-kind", ())), "")

    def request(self, number: int, chance: Random) -> Request:
        """Return a request to the operation with that number, modulo the number of operations."""
        if chance.random() < 0.03:
            return Request(
                method=chance.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")),
                target=chance.choice(_KUBELET_PATHS) + self._query(("timeoutSeconds",), chance),
                headers={"Accept": chance.choice(_ACCEPT)},
                body=b"",
                documented={},
            )
        path, method, item, operation = self._operations[number % len(self._operations)]
        parameters = [*item.get("parameters", ()), *operation.get("parameters", ())]
        for one in parameters:
            if one["in"] == "path":
                name = "node" if "/nodes/" in path else one["name"]
                path = path.replace(f"{{{one['name']}}}", _segment(name, chance))
        names = [one["name"] for one in parameters if one["in"] == "query"]
        query = self._query(names, chance)
        media, body = "", b""
        if any(one["in"] == "body" for one in parameters) or chance.random() < 0.02:
            media, body = self._body(path, operation, chance)
        if media == _APPLY and "fieldManager" not in query and chance.random() < 0.9:
            query += f"{'&' if query else '?'}fieldManager=me"
        return Request(
            method=method.upper(),
            target=path + query,
            headers=_headers(media, chance),
            body=body,
            documented=operation["responses"],
        )

    def _query(self, names: Sequence[str], chance: Random) -> str:
        chosen = [name for name in names if chance.random() < 0.1]
        chosen += [name for name in _COMMON if chance.random() < 0.02]
        if not chosen:
            return ""
        pairs = [(name, self._parameter(name, chance)) for name in chosen]
        return "?" + urlencode(pairs, errors="surrogatepass")

    def _parameter(self, name: str, chance: Random) -> str:
        if chance.random() < 0.1:
            return chance.choice(_TEXTS)
        if name in _VALUES:
            return chance.choice(_VALUES[name])
        numbers = name.endswith(("Seconds", "Lines", "Bytes")) or name == "limit"
        return chance.choice(_WHOLE if numbers else _BOOLEANS)

    # --- bodies

    def _body(self, path: str, operation: Schema, chance: Random) -> tuple[str, bytes]:
        """Return a body and its media type."""
        kind = operation["x-kubernetes-group-version-kind"]
        api_version = f"{kind['group']}/{kind['version']}".removeprefix("/")
        if operation["x-kubernetes-action"].startswith("delete"):
            api_version, name = "v1", "DeleteOptions"
        else:
            name = kind["kind"]
        media = chance.choice(operation.get("consumes", (_JSON,)))
        tree = self._object(api_version, name, chance)
        if media.endswith(("json-patch+json", "merge-patch+json")):
            tree = self._patch(media, tree, self.definition(api_version, name) or {}, chance)
        elif media == _JSON:
            media = chance.choice((_JSON, _JSON, _YAML, _PROTOBUF))
        if chance.random() < 0.05:
            media = chance.choice(_MEDIA)
        if media == _PROTOBUF and (known := self._protobuf.get(name)):
            body = chance.choice(known)
        elif media.endswith("yaml"):
            body = yaml.safe_dump(_printable(tree)).encode()
        else:
            body = json.dumps(tree).encode()
        return media, _damaged(body, chance) if chance.random() < 0.05 else body

    def _object(self, api_version: str, kind: str, chance: Random) -> dict[str, Any]:
        """Return an object of the corpus with up to eight fields changed."""
        schema = self.definition(api_version, kind) or {}
        known = self._corpus.get(kind)
        tree = deepcopy(chance.choice(known)) if known else self.value(schema, chance)
        if not isinstance(tree, dict) or chance.random() < 0.03:
            tree = self.value(schema, chance)
        tree = cast("dict[str, Any]", tree)
        if chance.random() < 0.95:
            tree |= {"apiVersion": api_version, "kind": kind}
        if isinstance(tree.get("metadata"), dict) and chance.random() < 0.9:
            tree["metadata"]["name"] = chance.choice(NAMES)
            tree["metadata"].pop("namespace", None)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 8))):
            self._change(tree, schema, chance)
        return tree

    def _patch(self, media: str, tree: Any, schema: Schema, chance: Random) -> Any:
        if media.endswith("json-patch+json"):
            operations: list[dict[str, Any]] = []
            for _ in range(chance.randrange(4)):
                operation: dict[str, Any] = {
                    "op": chance.choice(("add", "remove", "replace", "move", "copy", "test", "x")),
                    "path": _pointer(tree, chance),
                }
                if chance.random() < 0.7:
                    operation["value"] = chance.choice(WRONG)
                if chance.random() < 0.3:
                    operation["from"] = _pointer(tree, chance)
                operations.append(operation)
            return operations
        patch: dict[str, Any] = {}
        for _ in range(chance.randrange(1, 5)):
            self._change(patch, schema, chance)
        if chance.random() < 0.15:
            directive = chance.choice(
                ("$patch", "$retainKeys", "$setElementOrder/x", "$deleteFromPrimitiveList/x")
            )
            patch[directive] = chance.choice(WRONG)
        return patch

    def _change(self, tree: Any, schema: Schema, chance: Random) -> None:
        """Set or remove a field at a random place, going down through known fields."""
        for _ in range(8):
            schema = self.resolved(schema)
            key: Any
            if isinstance(tree, dict):
                known: Schema = schema.get("properties", {})
                keys = list(cast("dict[str, Any]", tree)) if chance.random() < 0.6 else list(known)
                key = chance.choice(keys or _TEXTS)
                inner = known.get(key, schema.get("additionalProperties", {}))
            elif isinstance(tree, list) and tree:
                key, inner = chance.randrange(len(cast("list[Any]", tree))), schema.get("items", {})
            else:
                return
            below = cast("dict[Any, Any]", tree).get(key) if isinstance(tree, dict) else tree[key]
            if below and isinstance(below, dict | list) and chance.random() < 0.8:
                tree, schema = below, inner
                continue
            if chance.random() < 0.1:
                tree.pop(key, None) if isinstance(tree, dict) else tree.pop(key)
            else:
                wrong = chance.random() < 0.3
                tree[key] = deepcopy(chance.choice(WRONG)) if wrong else self.value(inner, chance)
            return

    def value(self, schema: Schema, chance: Random, depth: int = 0) -> Any:
        """Return a value of a schema."""
        schema = self.resolved(schema)
        if schema.get("format") == "int-or-string" and chance.random() < 0.5:
            return chance.choice(_NUMBERS)
        match schema.get("type"):
            case "string":
                return chance.choice(schema.get("enum", _TEXTS))
            case "integer" | "number":
                return chance.choice(_NUMBERS)
            case "boolean":
                return chance.random() < 0.5
            case "array":
                count = 0 if depth > 5 else chance.randrange(3)
                return [self.value(schema["items"], chance, depth + 1) for _ in range(count)]
            case _:
                known: Schema = schema.get("properties", {})
                chosen = set(schema.get("required", ()))
                if known and depth < 5:
                    chosen |= {chance.choice(list(known)) for _ in range(chance.randrange(4))}
                tree = {name: self.value(known[name], chance, depth + 1) for name in sorted(chosen)}
                if "additionalProperties" in schema and chance.random() < 0.5:
                    inner = schema["additionalProperties"]
                    tree[chance.choice(_TEXTS)] = self.value(inner, chance, depth + 1)
                return tree

    def resolved(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        return schema if reference is None else self.definitions[reference.rpartition("/")[2]]

    # --- answers

    def misfit(self, value: Any, schema: Schema, path: str = "") -> str:
        """Return where a value does not conform to a schema; empty if it does."""
        schema = self.resolved(schema)
        if schema.get("format") == "int-or-string" and isinstance(value, int):
            return ""
        expected = _TYPES.get(schema.get("type", ""), object)
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            return f"{path or 'the answer'}: {value!r:.60} is no {schema['type']}"
        if isinstance(value, list):
            items = enumerate(cast("list[Any]", value))
            return next(filter(None, (
                self.misfit(item, schema["items"], f"{path}[{index}]") for index, item in items
            )), "")  # fmt: skip
        if isinstance(value, dict) and "properties" in schema:
            known, tree = schema["properties"], cast("dict[str, Any]", value)
            for name in schema.get("required", ()):
                if name not in tree:
                    return f"{path}.{name} is missing"
            for name, item in tree.items():
                if name not in known:
                    return f"{path}.{name} is not documented"
                # Kubernetes writes some fields that are not set as null.
                if item is not None and (
                    problem := self.misfit(item, known[name], f"{path}.{name}")
                ):
                    return problem
        if isinstance(value, dict) and "additionalProperties" in schema:
            inner = schema["additionalProperties"]
            return next(filter(None, (
                self.misfit(item, inner, f"{path}.{name}")
                for name, item in cast("dict[str, Any]", value).items()
            )), "")  # fmt: skip
        return ""


_TYPES: Final[Mapping[str, Any]] = {
    "string": str, "integer": int, "number": int | float, "boolean": bool, "array": list,
    "object": dict,
}  # fmt: skip


def _corpus() -> dict[str, list[Any]]:
    """Return objects by kind, from the recorded requests."""
    corpus: dict[str, list[Any]] = {}
    for line in (RECORDED / "resources/recorded_writes.jsonl").read_text().splitlines():
        one = json.loads(line)
        answer = one.get("answer")
        if (
            one["method"] in ("POST", "PUT")
            and one.get("code", 500) < 300
            and isinstance(answer, dict)
        ):
            kind = str(cast("dict[str, Any]", answer).get("kind"))
            if isinstance(one.get("body"), dict):
                corpus.setdefault(kind, []).append(one["body"])
    return corpus


def _segment(parameter: str, chance: Random) -> str:
    if chance.random() < 0.04:
        return quote(chance.choice(_PATH_VALUES), safe="", errors="surrogatepass")
    usual = {"namespace": "default", "node": "n1"}.get(parameter)
    if usual is not None and chance.random() < 0.8:
        return usual
    return chance.choice(NAMES)


def _headers(media: str, chance: Random) -> dict[str, str]:
    headers = {"Accept": chance.choice(_ACCEPT) if chance.random() < 0.12 else _JSON}
    if media:
        headers["Content-Type"] = media
    if chance.random() < 0.05:
        headers["User-Agent"] = chance.choice(_AGENTS)
    if chance.random() < 0.02:
        headers["Impersonate-User"] = chance.choice(("x", "system:serviceaccount:default:default"))
    if chance.random() < 0.01:
        headers["Content-Encoding"] = "gzip"
    if chance.random() < 0.08:
        headers[chance.choice(_HEADERS)] = chance.choice(_BYTES)
    if chance.random() < 0.02:
        headers |= {"Connection": "Upgrade", "Upgrade": chance.choice(_UPGRADES)}
        headers |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    return headers


def _pointer(tree: Any, chance: Random) -> str:
    """Return a JSON pointer into a value; some are invalid."""
    parts: list[str] = []
    while chance.random() < 0.8 and isinstance(tree, dict | list) and tree:
        if isinstance(tree, dict):
            key = chance.choice(sorted(cast("dict[str, Any]", tree)))
            tree = tree[key]
        else:
            key = chance.randrange(len(cast("list[Any]", tree)))
            tree = tree[key]
        parts.append(str(key).replace("~", "~0").replace("/", "~1"))
    if chance.random() < 0.3:
        parts.append(chance.choice(("-", "x", "-1", "99999999999", "01", "~", "~2", "")))
    return "".join(f"/{part}" for part in parts) or chance.choice(("", "x", "/"))


def _damaged(body: bytes, chance: Random) -> bytes:
    """Return a body with bytes replaced, or cut."""
    data = bytearray(body)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) + 1)
        if chance.random() < 0.3:
            del data[at:]
        else:
            data[at : at + 1] = bytes([chance.randrange(256)])
    return bytes(data)


def _printable(tree: Any) -> Any:
    """Return a value that YAML can hold."""
    return json.loads(json.dumps(tree))
