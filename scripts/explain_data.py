"""Write ``podtui/explain/facts.json``: the facts about each field of a Pod, from their sources.

* support: ``docs/pod-fields.md``, whose rows link the tests
* rules and allowed values: the messages in ``tests/unit/manifest/validation/cases/``
* required fields: the errors of ``podtui check`` if they are omitted
* defaults: the values that `podtui.manifest.defaults` sets
* examples: ``templates/`` and ``static_pods/gallery/``, the simplest first; not the sample pods,
  which users edit
* departures: ``docs/departures.md``

``--check`` writes nothing and exits 1 if the file differs from these sources.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from podtui.api import v1
from podtui.api.local import Severity
from podtui.api.shape import Form, StructField, fields
from podtui.explain.facts import LIKE_PLAIN
from podtui.explain.places import POD, PodField, pod_field_of, struct_of
from podtui.explain.report import DEEPEST
from podtui.manifest.defaults import apply_defaults
from podtui.manifest.diagnose import read_manifest

ROOT: Final = Path(__file__).resolve().parent.parent
FACTS: Final = ROOT / "podtui" / "explain" / "facts.json"
LONGEST_EXAMPLE: Final = 12
_ROW: Final = re.compile(r"\| `([^`]+)` \| (honoured|accepted|refused)")
_SUPPORT: Final = {"honoured": "honoured", "accepted": "no-effect", "refused": "refused"}
_MESSAGE: Final = re.compile(
    r"(?P<field>[^:]+): (?P<type>Required value|Invalid value|Unsupported value|Duplicate value"
    r"|Forbidden|Not found|Too long|Too many)(?:: (?P<rest>.*))?"
)
_VALUE: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|…|[^:\s]+): ')
_BARE: Final = {
    "Required value": "must be set",
    "Duplicate value": "must be unique",
    "Not found": "must exist",
    "Invalid value": "",
    "Forbidden": "not allowed here",
    "Too long": "too long",
    "Too many": "too many",
    "Unsupported value": "",
}
# Specific to one case: amounts and names of that manifest, or other systems.
_OF_ONE_CASE: Final = re.compile(
    r"windows|aggregate|is not positive integer|limit of |Kind=|\bof \d+m?$|\(\d+\)$|metadata\.name"
    r"|disallowed|'In' or 'NotIn' for node|invalid AppArmor|container not found|unexpected end"
    r"|error converting|in references|which is empty|: a$|not Wait|validating label|, was false"
    r"|invalid character"
)
_PATTERN: Final = re.compile(r",? ?regex used for validation is '.*?'(?=\)|$)|,  or '[^']*'")
# Another field may be set instead, or the requirement is conditional.
_CONDITION: Final = re.compile(r"\b(either|one of|when)\b")
# Values in the API's messages that are not paths of the schema.
_PLACES: Final = {"downwardAPI.fieldRef": "downwardAPI.items.fieldRef"}


def support() -> dict[str, str]:
    """By path; a path without an entry uses the entry of its nearest parent."""
    group, found = "", dict[str, str]()
    for line in (ROOT / "docs" / "pod-fields.md").read_text().splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        elif (match := _ROW.match(line)) is not None:
            found[f"{group}.{match[1]}"] = _SUPPORT[match[2]]
    return _folded(found)


def _folded(leaves: Mapping[str, str]) -> dict[str, str]:
    """Return the smallest set of entries with the same meaning."""
    found: dict[str, str] = {}
    for path, support in leaves.items():
        steps = path.split(".")
        # For init and ephemeral containers, list only the differences from regular ones.
        least = 3 if path.startswith(LIKE_PLAIN) else 1
        for end in range(least, len(steps) + 1):
            above = ".".join(steps[:end])
            beneath = {f for p, f in leaves.items() if p == above or p.startswith(above + ".")}
            if beneath == {support}:
                found[above] = support
                break
    return found


class _Loader(yaml.SafeLoader):
    """The corpus has custom tags for long texts; their values are not used here."""


def _nothing(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> None:
    return None


_Loader.add_multi_constructor("!", _nothing)  # pyright: ignore[reportUnknownMemberType]


def _messages() -> Iterator[tuple[str, str, str]]:
    """Yield (path without indexes, type, rest) of every message for an invalid manifest."""
    folder = ROOT / "tests" / "unit" / "manifest" / "validation" / "cases"
    words: dict[str, str] = yaml.safe_load((folder / "words.yaml").read_text())
    for path in sorted(folder.glob("*.yaml")):
        if path.name == "words.yaml":
            continue
        for function in yaml.load(path.read_text(), _Loader).values():
            for case in function.get("cases") or ():
                for line in (case.get("errors") or "").splitlines():
                    text = re.sub(r"\$\(([^)]+)\)", lambda m: words.get(m[1], m[0]), line)
                    match = _MESSAGE.match(text.strip())
                    if match is None:
                        raise SystemExit(f"{path.name}: cannot read {line!r}")
                    where = re.sub(r"\[[^\]]*\]", "", match["field"])
                    for wrong, right in _PLACES.items():
                        where = where.replace(wrong, right)
                    yield where, match["type"], match["rest"] or ""


def _rule(kind: str, rest: str) -> str:
    if kind in ("Invalid value", "Unsupported value", "Duplicate value", "Not found"):
        rest = _VALUE.sub("", f"{rest}: ", count=1).removesuffix(": ")
    rest = re.sub(r"^\d+: ", "", _PATTERN.sub("", rest))
    if kind == "Forbidden" and rest.startswith("when "):
        return f"not allowed {rest}"
    return rest or _BARE[kind]


def rules() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return (rules by path, allowed values by path)."""
    found: dict[str, dict[str, None]] = {}
    values: dict[str, list[str]] = {}
    for path, kind, rest in _messages():
        if not path or pod_field_of(path) is None:
            continue
        rule = _rule(kind, rest)
        if rule.startswith("supported values: "):
            known = re.findall(r'"([^"]*)"', rule)
            if len(known) >= len(values.get(path, ())):
                values[path] = known
        elif rule and not _OF_ONE_CASE.search(rule) and "…" not in rule:
            found.setdefault(path, {})[rule] = None
    return {path: list(texts) for path, texts in sorted(found.items())}, dict(
        sorted(values.items())
    )


def _full(struct: type[v1.Struct], depth: int = 0) -> dict[str, Any]:
    """Return a tree in which every object exists, but is empty."""
    found: dict[str, Any] = {}
    for name, field in fields(struct).items():
        inner = struct_of(field)
        if inner is None or depth > 9 or inner is struct:
            continue
        tree = _full(inner, depth + 1)
        found[name] = [tree] if field.shape.form is Form.LIST else tree
    return found


def _filled(struct: type[v1.Struct], before: Any, after: Any) -> Iterator[tuple[str, Any]]:
    known: Mapping[str, StructField] = fields(struct)
    for name, value in after.items():
        field = known.get(name)
        if field is None:
            continue
        inner = struct_of(field)
        if name not in before:
            if value not in ({}, []):
                yield f"{struct.__name__}.{name}", value
        elif inner is not None:
            one = isinstance(value, list)
            yield from _filled(inner, before[name][0] if one else before[name],
                               value[0] if one else value)  # fmt: skip


def defaults() -> dict[str, Any]:
    """Return the defaults by type and field."""
    found: dict[str, Any] = {}
    sources = [name for name in fields(v1.Volume) if name != "name"]
    for source in sources:
        before, after = ({"spec": _full(v1.PodSpec)} for _ in range(2))
        for tree in (before, after):
            volume = tree["spec"]["volumes"][0]
            tree["spec"]["volumes"] = [{source: volume[source]}]
        apply_defaults(after)
        found |= dict(_filled(v1.Pod, before, after))
    return dict(sorted(found.items()))


def required() -> list[str]:
    """Return the fields that ``podtui check`` requires.

    If their object exists but is empty, it reports an error at them or below them. A conditional
    one counts only for a field that the schema requires, too.
    """
    found: set[str] = set()
    level = [POD]
    while level:
        for place in level:
            missing = _errors_of(place)
            for child in place.children:
                assert child.field is not None
                beneath = child.text + "."
                if any(
                    (path == child.text or path.startswith(beneath))
                    and (child.field.required or is_unconditional)
                    for path, is_unconditional in missing
                ):
                    found.add(child.text)
        level = [
            child
            for place in level
            for child in place.children
            if child.struct is not None and len(child.path) < DEEPEST
        ]
    return sorted(path for path in found if not path.startswith(LIKE_PLAIN))


def _errors_of(place: PodField) -> set[tuple[str, bool]]:
    """Return where ``check`` finds errors in a pod whose object at the place is empty, and
    whether each is unconditional."""
    manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    manifest["spec"] = {"containers": [{"name": "a", "image": "a"}]}
    here: Any = manifest
    for depth in range(1, len(place.path) + 1):
        step = pod_field_of(".".join(place.path[:depth]))
        assert step is not None
        assert step.field is not None
        is_list = step.field.shape.form is Form.LIST
        name, is_last = place.path[depth - 1], depth == len(place.path)
        if is_last or name not in here:
            here[name] = [{}] if is_list else {}
        here = here[name][0] if is_list else here[name]
    if not place.path:
        manifest = {"apiVersion": "v1", "kind": "Pod"}
    data = json.dumps(manifest).encode()
    found = read_manifest("/required.yaml", data, node_name="n").diagnostics
    errors: set[tuple[str, bool]] = set()
    for one in found:
        if one.severity == Severity.ERROR:
            path = re.sub(r"\[[^\]]*\]", "", one.field)
            for wrong, right in _PLACES.items():
                path = path.replace(wrong, right)
            errors.add((path, not _CONDITION.search(one.message)))
    return errors


def departures() -> dict[str, str]:
    """Return the first sentence of each departure, by number."""
    text = (ROOT / "docs" / "departures.md").read_text()
    found = dict(re.findall(r"^\| (\d+) \| (.+?) \|", text, re.MULTILINE))
    for number, sentence in re.findall(r"^(\d+)\. \*\*(.+?)\*\*", text, re.MULTILINE | re.DOTALL):
        found[number] = " ".join(sentence.split()).rstrip(":.")
    plain = {n: re.sub(r";? ?\[[^\]]*\]\([^)]*\)|`|\*\*", "", t).strip() for n, t in found.items()}
    return dict(sorted(plain.items(), key=lambda item: int(item[0])))


def examples() -> dict[str, dict[str, Any]]:
    """Return by path: file, line from 1, and the lines."""
    found: dict[str, dict[str, Any]] = {}
    for folder in ("templates", "static_pods/gallery"):
        for path in sorted((ROOT / folder).glob("*.yaml")):
            if path.name == "unknown-field.yaml":
                continue
            text = path.read_text()
            for node in yaml.compose_all(text, yaml.SafeLoader):
                for where, start, end in _nodes(node, ()):
                    if pod_field_of(where) is None or where in found:
                        continue
                    lines = text.splitlines()[start : max(start + 1, end)]
                    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
                        lines.pop()
                    if not lines:
                        continue
                    indent = len(lines[0]) - len(lines[0].lstrip())
                    cut = [line[indent:] for line in lines[:LONGEST_EXAMPLE]]
                    if len(lines) > LONGEST_EXAMPLE:
                        cut.append("…")
                    found[where] = {
                        "file": f"{folder}/{path.name}", "line": start + 1, "text": "\n".join(cut),
                    }  # fmt: skip
    return dict(sorted(found.items()))


def _nodes(node: Any, above: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*above, str(key.value))
            # A block ends at the next item.
            block = not isinstance(value, yaml.ScalarNode) and not value.flow_style
            end = value.end_mark.line + (0 if block else 1)
            yield ".".join(here), key.start_mark.line, end
            yield from _nodes(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _nodes(item, above)


def facts() -> str:
    texts, values = rules()
    data = {
        "support": support(),
        "rules": texts,
        "values": values,
        "required": required(),
        "defaults": defaults(),
        "departures": departures(),
        "examples": examples(),
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    text = facts()
    if not parser.parse_args().check:
        FACTS.write_text(text)
    elif FACTS.read_text() != text:
        print(f"{FACTS.relative_to(ROOT)} is stale: run scripts/explain_data.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
