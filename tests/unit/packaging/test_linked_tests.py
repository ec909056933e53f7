"""Documents link existing tests, in each row that needs one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from repository import ROOT

from podtui.explain.facts import LIKE_PLAIN
from podtui.explain.places import PodField, pod_field_of

DOCS = ROOT / "docs"
LINK = re.compile(r"\[(test_\w+(?:\.py)?)\]\(\.\./(tests/[^)]+)\)")
TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
FIELD = re.compile(r"\| `([^`]+)` \| (honoured|accepted|refused)")


@cache
def names_in(file: str) -> frozenset[str]:
    return frozenset((*TEST.findall((ROOT / file).read_text()), Path(file).name))


def rows(document: str) -> Iterator[tuple[str, str]]:
    """Yield each row of the tables with the heading above it."""
    heading = ""
    for line in (DOCS / document).read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| |") and heading:
            yield heading, line


def test_each_linked_test_exists() -> None:
    links = {
        (document.name, name, file)
        for document in DOCS.glob("*.md")
        for name, file in LINK.findall(document.read_text())
    }
    assert len(links) > 300
    assert [link for link in sorted(links) if link[1] not in names_in(link[2])] == []


def test_each_row_of_podtui_in_the_comparison_links_a_test() -> None:
    answers = [(row, row.split(" | ")[-2]) for _, row in rows("comparison.md")]
    for row, answer in answers:
        assert answer.startswith(("**yes**", "**partly**", "**no**")), row
        assert (LINK.search(row) is None) == answer.startswith("**no**"), row
    yes, partly, no = (
        sum(f"**{word}**" in a for _, a in answers) for word in ("yes", "partly", "no")
    )
    head = " ".join((DOCS / "comparison.md").read_text()[:500].split())
    assert (
        f"Of {len(answers)} rows podtui supports {yes} fully and {partly} partly;"
        f" {no} are not supported" in head
    )


RESULTS = "Kubernetes' own end-to-end tests"
"""The heading of results, whose tests are not podtui's."""


@pytest.mark.parametrize(("document", "least"), [("conformance.md", 108), ("pod-fields.md", 500)])
def test_each_row_links_a_test(document: str, least: int) -> None:
    found = [
        row
        for heading, row in rows(document)
        if heading != RESULTS and not row.startswith("| field")
    ]
    assert len(found) >= least
    assert [row for row in found if LINK.search(row) is None] == []


def leaves(place: PodField) -> Iterator[str]:
    if not place.children:
        yield place.text
    for child in place.children:
        yield from leaves(child)


def test_each_field_of_a_pod_has_a_row() -> None:
    """Init and ephemeral containers have rows only for what differs from regular containers."""
    listed = {
        f"{heading}.{match[1]}": match[2]
        for heading, row in rows("pod-fields.md")
        if (match := FIELD.match(row)) is not None
    }
    counts = Counter(listed.values())
    head = " ".join((DOCS / "pod-fields.md").read_text()[:700].split())
    assert f"{len(listed)} fields: {counts['honoured']} honoured, {counts['accepted']} acc" in head
    for top in ("metadata", "spec"):
        place = pod_field_of(top)
        assert place is not None
        for path in leaves(place):
            plain = re.sub("|".join(map(re.escape, LIKE_PLAIN)), "spec.containers", path)
            assert path in listed or plain in listed, path
