"""The documents of a file, JSON if it begins with ``{``, otherwise YAML (kubelet.md §1.1), and the
selection of those that are read (departure 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from podtui.api import v1
from podtui.api.local import Severity
from podtui.manifest.decode import found_text
from podtui.manifest.document import (
    FURTHER_DOCUMENT,
    OTHER_OBJECT,
    Document,
    Position,
    Problem,
    UnreadableText,
    decode_text,
    within,
)
from podtui.manifest.foreign import is_foreign, kind_advice, known_kind, runs_pods, unsupported_kind
from podtui.manifest.json_reader import read_json
from podtui.manifest.objects import OBJECT_KINDS
from podtui.manifest.yaml_reader import read_all_yaml, read_yaml

_MOST_DOCUMENTS: Final = 200
_OWN_FILE: Final = "put each pod into its own file"


@dataclass(slots=True)
class Contents:
    """``pod`` is the document to read as the pod, if any; ``objects`` are the ConfigMaps and
    Secrets; ``problems`` are the findings about all other documents."""

    pod: Document | None = None
    objects: list[tuple[Document, type[v1.ConfigMap] | type[v1.Secret]]] = field(
        default_factory=list[tuple[Document, type[v1.ConfigMap] | type[v1.Secret]]]
    )
    problems: list[Problem] = field(default_factory=list[Problem])


def split_documents(documents: Iterable[Document]) -> Contents:
    """Select the first Pod of a file and all ConfigMaps and Secrets, including those in Lists.

    A kubelet reads only the first document. Here too, other documents only cause warnings; but
    if the file contains nothing else, the first one is read as the pod, and its errors are
    reported.
    """
    contents = Contents()
    others: list[Document] = []
    for document in expand_lists(documents, contents.problems):
        kind = _kind(document)
        if kind in OBJECT_KINDS and not _is_foreign(document):
            contents.objects.append((document, OBJECT_KINDS[kind]))
        elif contents.pod is None and kind == "Pod":
            contents.pod = document
        else:
            others.append(document)
    if contents.pod is None:
        contents.pod = next(filter(_is_like_a_pod, others), None)
        if contents.pod is not None:
            others.remove(contents.pod)
    if contents.pod is None and not contents.objects:
        contents.pod = others.pop(0) if others else Document(None)
    contents.problems += (_not_read(document) for document in others)
    contents.problems += (problem for document in others for problem in _warnings(document))
    return contents


def expand_lists(documents: Iterable[Document], problems: list[Problem]) -> Iterator[Document]:
    """Yield the documents, with each List replaced by its items."""
    count = 0
    for document in documents:
        for item in _items(document):
            count += 1
            if count > _MOST_DOCUMENTS:
                message = f"more than {_MOST_DOCUMENTS} objects; the rest is ignored"
                problems.append(_remark(message, item.position(())))
                return
            yield item
        if _is_list(document):
            problems += document.problems


def _map(document: Document) -> dict[str, Any]:
    value: object = document.value
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _kind(document: Document) -> str:
    kind = _map(document).get("kind")
    return kind if isinstance(kind, str) else ""


def _is_like_a_pod(document: Document) -> bool:
    return not _is_foreign(document) and known_kind(_kind(document)) == "Pod"


def _is_foreign(document: Document) -> bool:
    version: object = _map(document).get("apiVersion")
    return isinstance(version, str) and is_foreign(version)


def _is_list(document: Document) -> bool:
    root = _map(document)
    listed = (root.get("apiVersion"), root.get("kind")) == ("v1", "List")
    return listed and isinstance(root.get("items"), list)


def _items(document: Document) -> Iterator[Document]:
    if not _is_list(document):
        yield document
        return
    for index, item in enumerate(cast("list[Any]", document.value["items"])):
        if item is not None:
            yield within(document, ("items", index))


def _warnings(document: Document) -> Iterator[Problem]:
    """Return the warnings of a skipped document about unread text that follows it."""
    return (p for p in document.problems if p.code == FURTHER_DOCUMENT)


def _not_read(document: Document) -> Problem:
    value: object = document.value
    if not isinstance(value, dict):
        return _remark(f"found {found_text(value)} here, which is not read", document.position(()))
    kind, position = _kind(document), document.position(("kind",))
    if kind == "Pod":
        message = "only the first Pod of a file is run"
        return _remark(message, position, _OWN_FILE)
    if not kind:
        return _remark("an object without a kind; ignored", position)
    if runs_pods(kind):
        message = f"{unsupported_kind(kind)}: its pods do not run"
        return _remark(message, position, kind_advice(kind, ()))
    message = f"{unsupported_kind(kind)}; ignored"
    return replace(_remark(message, position, kind_advice(kind, ())), code=OTHER_OBJECT)


def _remark(message: str, position: Position | None, fix: str = "") -> Problem:
    return Problem(
        code=FURTHER_DOCUMENT,
        message=message,
        position=position,
        fix=fix,
        severity=Severity.WARNING,
    )


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
            documents = read_all_yaml(text)
        except UnreadableText:
            documents = ()
        if len(documents) == 1:
            [document] = documents
            if isinstance(document.value, dict) and not document.cut_off:
                return documents
        raise
