"""Parses bytes into documents: JSON if they begin with ``{``, otherwise YAML (§1.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from podtui.manifest.document import Document, UnreadableText, decode_text
from podtui.manifest.json_reader import read_json
from podtui.manifest.yaml_reader import read_all_yaml, read_yaml

_HEADER: Final = {"apiversion": "apiVersion", "kind": "kind"}


def read_document(data: bytes) -> Document:
    """Return the first document, read as a kubelet does: of two equal keys the later one counts.

    Raises `UnreadableText` if there is no readable document.
    """
    # The first byte decides: JSON after a byte-order mark is read as YAML.
    if data.lstrip().startswith(b"{"):
        document = read_json(decode_text(data), last_wins=True)
    else:
        document = read_yaml(decode_text(data))
    return _with_header(document)


def _with_header(document: Document) -> Document:
    """Rename the keys of kind and version to their exact spelling.

    Go ignores the case of these keys. The last key counts; YAML is converted to JSON with sorted
    keys first.
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
    """Return all non-empty documents, or one without a value if there is none.

    Raises `UnreadableText` if the text cannot be parsed.
    """
    text = decode_text(data)
    if not text.lstrip().startswith("{"):
        return read_all_yaml(text)
    try:
        return (read_json(text),)
    except UnreadableText:
        # A YAML flow map also begins with a brace and is valid.
        try:
            found = read_all_yaml(text)
        except UnreadableText:
            found = ()
        if len(found) == 1 and isinstance(found[0].value, dict) and not found[0].cut_off:
            return found
        raise
