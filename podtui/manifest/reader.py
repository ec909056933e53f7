"""Bytes to the documents of a manifest: JSON when they begin with ``{``, else YAML (§1.1)."""

from __future__ import annotations

from podtui.manifest.document import Document, UnreadableText, decode_text
from podtui.manifest.json_reader import read_json
from podtui.manifest.yaml_reader import read_all_yaml, read_yaml


def read_document(data: bytes) -> Document:
    """The first document, as a kubelet reads it: it takes the later of two equal keys.

    Raises `UnreadableText` where there is none to be had.
    """
    text = decode_text(data)
    return read_json(text, last_wins=True) if _is_json(text) else read_yaml(text)


def read_documents(data: bytes) -> tuple[Document, ...]:
    """All documents that hold anything; one without a value where none does.

    Raises `UnreadableText` where there is none to be had.
    """
    text = decode_text(data)
    if not _is_json(text):
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


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{")
