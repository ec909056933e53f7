"""Citations of docs/kubelet.md in the code, the tests and the documents."""

from __future__ import annotations

import re
from pathlib import Path

from repository import ROOT

FOLDERS = ("podtui", "tests", "scripts", "conformance", "corpus", "soak", "benchmarks", "docs")
HEADING = re.compile(r"^#+ (?:(\d+(?:\.\d+)?)|Appendix ([A-Z]))\b", re.MULTILINE)
# One § may begin a list or a range: "§1, 6.2", "§13.1-13.3".
CITATION = re.compile(r"§((?:\d+(?:\.\d+)?(?:, |; |-|–)?)+)|App\. ([A-Z])\b")


def cited(text: str) -> set[str]:
    found: set[str] = set()
    for sections, appendix in CITATION.findall(text):
        found.update(re.findall(r"\d+(?:\.\d+)?", sections) or [appendix])
    return found


def test_each_cited_section_is_a_heading() -> None:
    headings = {a or b for a, b in HEADING.findall((ROOT / "docs" / "kubelet.md").read_text())}
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".md"} and "golden" not in path.parts:
                found |= dict.fromkeys(cited(path.read_text()), path.relative_to(ROOT))
    assert len(found) > 50
    assert {section: path for section, path in found.items() if section not in headings} == {}
