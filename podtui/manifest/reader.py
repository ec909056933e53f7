"""Bytes to the documents of a manifest: JSON when they begin with ``{``, else YAML (§1.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from podtui.manifest.document import Document, UnreadableText, decode_text
from podtui.manifest.json_reader import read_json
from podtui.manifest.yaml_reader import read_all_yaml, read_yaml

_HEADER: Final = {"apiversion": "apiVersion", "kind": "kind"}


def read_document(data: bytes) -> Document:
    """The first document, as a kubelet reads it: it takes the later of two equal keys.

    Raises `UnreadableText` where there is none to be had.
    """
    # The first byte decides: behind a byte-order mark JSON is read as YAML.
    if data.lstrip().startswith(b"{"):
        document = read_json(decode_text(data), last_wins=True)
    else:
        document = read_yaml(decode_text(data))
    return _with_header(document)


def _with_header(document: Document) -> Document:
    """The document with kind and version under these very names.

    Go finds them whatever the case of their keys. The last key counts; YAML is turned into JSON
    with sorted keys before.
    """
    value: object = document.value
    if not isinstance(value, dict):
        return document
    tree = cast("dict[str, Any]", value)
    header: dict[str, Any] = {}
    for key in tree if document.is_json else sorted(tree):
        name = _HEADER.get(key.casefold())
        if name is not None and tree[key] is not None and isinstance(header.get(name, ""), str):
            header[name] = tree[key]
    rest = {key: value for key, value in tree.items() if key.casefold() not in _HEADER}
    return replace(document, value=header | rest)


def read_documents(data: bytes) -> tuple[Document, ...]:
    """All documents that hold anything; one without a value where none does.

    Raises `UnreadableText` where there is none to be had.
    """
    text = decode_text(data)
    if not text.lstrip().startswith("{"):
        return read_all_yaml(text)
    try:
        return (read_json(text),)
    except UnreadableText:
        # A YAML flow map begins like JSON and is as good.
        try:
            found = read_all_yaml(text)
        except UnreadableText:
            found = ()
        if len(found) == 1 and isinstance(found[0].value, dict) and not found[0].cut_off:
            return found
        raise
