"""The bodies of requests: their media types, and the documents in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import msgspec
from aiohttp import web

from podtui.api import v1
from podtui.api.fields import name_of_kind
from podtui.manifest.document import UnreadableText, decode_text
from podtui.manifest.yaml_reader import read_yaml
from podtui.server.encoding import protobuf
from podtui.server.encoding.decoding import DecodeError, Tree, json_kind, parse_json
from podtui.server.status import StatusError, bad_request
from podtui.wire.protobuf import ProtobufError

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_SHOWN_BYTES: Final = 30
S = TypeVar("S", bound=v1.Struct)
_SCHEME: Final = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"


def parse_body(request: web.Request, body: bytes, kind: str) -> Tree:
    """Return the document of a body. ``kind`` is what is expected, for error texts. Raises
    `StatusError` 400 or 415."""
    media = request.content_type if "Content-Type" in request.headers else JSON
    match media:
        case "application/json":
            parse = parse_json
        case "application/yaml":
            parse = parse_yaml
        case "application/vnd.kubernetes.protobuf":
            return _parse_protobuf(body)
        case _:
            accepted = ", ".join((JSON, YAML, PROTOBUF))
            raise StatusError(
                415,
                "the body of the request was in an unknown format - accepted media types include:"
                f" {accepted}",
            )
    try:
        tree: object = parse(body)
    except DecodeError as error:
        raise _unrecognized(
            kind, f"couldn't get version/kind; json parse error: {error}", body
        ) from (error)
    if not isinstance(tree, dict):
        problem = (
            f"json: cannot unmarshal {json_kind(tree)} into Go value of type"
            r' struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string'
            r' "json:\"kind,omitempty\"" }'
        )
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {problem}", body)
    return cast("Tree", tree)


def _parse_protobuf(body: bytes) -> Tree:
    try:
        return protobuf.decode(body)
    except ProtobufError as error:
        raise bad_request(str(error)) from error


def parse_yaml(body: bytes) -> Any:
    """Parse a YAML document (or JSON). Raises `DecodeError`."""
    try:
        text = decode_text(body)
        return parse_json(body) if text.lstrip().startswith("{") else read_yaml(text).value
    except UnreadableText as error:
        raise DecodeError(f"error converting YAML to JSON: yaml: {error}") from error


def _unrecognized(kind: str, problem: str, body: bytes) -> StatusError:
    shown = body if body.startswith(b"{") else body.hex().encode()
    limit = _SHOWN_BYTES if body.startswith(b"{") else 2 * _SHOWN_BYTES
    text = shown[:limit].decode("utf-8", "replace") + (" ..." if len(shown) > limit else "")
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {problem}"
        f" ({text or '<empty>'})"
    )


def decode_body(
    tree: Tree, decode: Callable[[Tree], tuple[Tree, list[str]]], api_version: str, kind: str
) -> tuple[Tree, list[str]]:
    """Decode a document as an object of a kind. Raises `StatusError` 400."""
    given_kind = tree.get("kind") or kind
    version = tree.get("apiVersion") or api_version
    if given_kind != kind or version != api_version:
        problem = _wrong_kind(str(version), str(given_kind), api_version, kind)
    else:
        try:
            return decode(tree)
        except DecodeError as error:
            problem = str(error)
    shown = str(version).rpartition("/")[2]
    raise bad_request(f'{given_kind} in version "{shown}" cannot be handled as a {kind}: {problem}')


def _wrong_kind(version: str, kind: str, wanted_version: str, wanted: str) -> str:
    if name_of_kind(version, kind) is None:
        return f'no kind "{kind}" is registered for version "{version}" in scheme "{_SCHEME}"'
    package = wanted_version.rpartition("/")[0].partition(".")[0] or "core"
    shown = version.rpartition("/")[2]
    return f"converting ({shown}.{kind}) to ({package}.{wanted}): unknown conversion"


def to_struct(tree: Tree, struct: type[S]) -> S:
    """Convert a decoded tree. Raises `StatusError` 400, which only a bug in the decoding needs."""
    try:
        return msgspec.convert(tree, struct)
    except msgspec.ValidationError as error:
        raise bad_request(f"{struct.__name__} cannot be handled: {error}") from error
