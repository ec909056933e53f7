"""The documents of a file, JSON if it begins with ``{``, otherwise YAML (kubelet.md §1.1), and the
selection of those that are read (departure 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

from podtui.api.local import Severity
from podtui.manifest.decode import found_text
from podtui.manifest.document import (
    FURTHER_DOCUMENT,
    OTHER_OBJECT,
    Document,
    Path,
    Position,
    Problem,
    UnreadableText,
    decode_text,
    printable,
    quoted,
    within,
)
from podtui.manifest.foreign import (
    is_custom,
    is_foreign,
    kind_advice,
    known_kind,
    runs_pods,
    unsupported_kind,
)
from podtui.manifest.json_reader import read_json
from podtui.manifest.kinds import KINDS, Kind, current_version, kind_of
from podtui.manifest.yaml_reader import read_all_yaml, read_yaml

Found = TypeVar("Found")
_MOST_DOCUMENTS: Final = 1000
FORMER_VERSION: Final = "FormerVersion"
"""The code of errors about objects in a version that Kubernetes no longer serves."""


@dataclass(slots=True)
class Contents:
    """``pods`` are the documents to read as pods, ``objects`` those of the other kinds that the
    folder may hold, with their kinds; ``former`` are objects of these kinds in other versions,
    ``others`` all other documents, and ``problems`` the findings about both."""

    pods: list[Document] = field(default_factory=list[Document])
    objects: list[tuple[Document, Kind]] = field(default_factory=list[tuple[Document, Kind]])
    former: list[Document] = field(default_factory=list[Document])
    others: list[Document] = field(default_factory=list[Document])
    problems: list[Problem] = field(default_factory=list[Problem])


def split_documents(documents: Iterable[Document]) -> Contents:
    """Select the documents of a file that are read, including those in Lists.

    A kubelet reads only the first document, as a Pod. Here, documents of other kinds than the
    folder's cause findings of their own, as kubectl goes on after them. If the file contains
    nothing else, the first one that is not an object of another API is read as a pod, and its
    errors are reported.
    """
    contents = Contents()
    for document in map(_with_metrics, expand_lists(documents, contents.problems)):
        tree = _map(document)
        version, name = tree.get("apiVersion"), tree.get("kind")
        kind = kind_of(version, name)
        if kind is not None:
            contents.objects.append((document, kind))
        elif _is_like_a_pod(document):
            contents.pods.append(document)
        elif wanted := _wanted_version(version, name):
            contents.former.append(document)
            contents.problems.append(_former(document, wanted))
        else:
            contents.others.append(document)
    if not (contents.pods or contents.objects or contents.former):
        others = contents.others
        strange = next((each for each in others if not is_custom(_map(each))), None)
        if strange is not None:
            others.remove(strange)
        if strange is not None or not others:
            contents.pods.append(strange or Document(None))
    contents.problems += map(_not_read, contents.others)
    contents.problems += (p for document in contents.others for p in _warnings(document))
    return contents


_V1_UTILIZATION: Final = "targetCPUUtilizationPercentage"
_V2_UTILIZATION: Final = ("metrics", 0, "resource", "target", "averageUtilization")


def _with_metrics(document: Document) -> Document:
    """Return an autoscaler of ``autoscaling/v1``, which the API serves too, in the form of
    ``autoscaling/v2``; other documents as they are."""
    tree = _map(document)
    if (tree.get("apiVersion"), tree.get("kind")) != ("autoscaling/v1", "HorizontalPodAutoscaler"):
        return document
    stated: object = tree.get("spec")
    spec = {**cast("dict[str, Any]", stated)} if isinstance(stated, dict) else {}
    if spec.keys() & {"metrics", "behavior"}:
        return document
    percent = spec.pop(_V1_UTILIZATION, None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    value = {**tree, "apiVersion": "autoscaling/v2"} | ({"spec": spec} if spec else {})
    old, new = ("spec", _V1_UTILIZATION), ("spec", *_V2_UTILIZATION)

    def renamed(table: Mapping[Path, Found]) -> dict[Path, Found]:
        return {new if path == old else path: each for path, each in table.items()}

    return replace(
        document,
        value=value,
        keys=renamed(document.keys),
        values=renamed(document.values),
        raw=renamed(document.raw),
    )


def _wanted_version(version: object, name: object) -> str:
    """Return the version of a kind of the folder that an object with another version should have;
    empty if it is an object of another group."""
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        return ""
    if current_version(version, name) or not isinstance(version, str) or not is_foreign(version):
        return kind.api_version
    group, _, _ = version.rpartition("/")
    return kind.api_version if group == kind.api_version.rpartition("/")[0] else ""


def _former(document: Document, wanted: str) -> Problem:
    """Return the error about an object with another version than today's."""
    tree = _map(document)
    kind, version = tree["kind"], tree.get("apiVersion")
    if version is None:
        return Problem(
            code="FieldValueRequired",
            message="Required value (apiVersion)",
            position=document.position(("kind",)),
            fix=f"add apiVersion: {wanted}",
        )
    position = document.position(("apiVersion",))
    if current_version(version, kind):
        return Problem(
            code=FORMER_VERSION,
            message=f"files cannot use {printable(version, 60)} of {kind};"
            f" today's version is {wanted}",
            position=position,
            fix=f"write apiVersion: {wanted}, and convert what differs in it",
        )
    return Problem(
        code="FieldValueNotSupported",
        message=f'Unsupported value: {quoted(version, 60)}: supported values: "{wanted}"',
        position=position,
        fix=f"write apiVersion: {wanted}",
    )


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
    version: object = _map(document).get("apiVersion")
    foreign = isinstance(version, str) and is_foreign(version)
    return not foreign and known_kind(_kind(document)) == "Pod"


def _is_list(document: Document) -> bool:
    """Return whether this is a List, or a list of one kind whose items name their kinds, as kubectl
    accepts it."""
    root = _map(document)
    kind, items = _kind(document), root.get("items")
    if not isinstance(items, list) or not kind.endswith("List"):
        return False
    if kind == "List":
        return root.get("apiVersion") == "v1"
    maps = [item for item in cast("list[Any]", items) if item is not None]
    return all(isinstance(item, dict) and "kind" in item for item in maps)


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
    if not kind:
        return _remark("an object without a kind; ignored", position)
    version = _map(document).get("apiVersion")
    named = unsupported_kind(kind, version)
    advice = kind_advice(kind, ("Pod", *KINDS), version)
    if runs_pods(kind):
        return _remark(f"{named}: its pods do not run", position, advice)
    if not is_custom(_map(document)):
        # Probably a misspelling of a kind that would be used.
        return _remark(f"{named}; ignored", position, advice)
    return replace(_remark(f"{named}; ignored", position, advice), code=OTHER_OBJECT)


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
