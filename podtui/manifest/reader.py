"""Bytes to the first document of a manifest: JSON when it begins with ``{``, else YAML (§1.1)."""

from __future__ import annotations

from podtui.manifest.document import Document, UnreadableText, decode_text
from podtui.manifest.json_reader import read_json
from podtui.manifest.yaml_reader import read_yaml


def read_document(data: bytes) -> Document:
    """Raises `UnreadableText` where there is no document to be had."""
    text = decode_text(data)
    if not text.lstrip().startswith("{"):
        return read_yaml(text)
    try:
        return read_json(text)
    except UnreadableText:
        # A YAML flow map begins like JSON and is as good.
        try:
            document = read_yaml(text)
        except UnreadableText:
            document = None
        if document is None or not isinstance(document.value, dict):
            raise
        if any(problem.code == "FurtherDocument" for problem in document.problems):
            raise
        return document
