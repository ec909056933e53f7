"""The files that the documents for contributors name exist."""

from __future__ import annotations

import re

import pytest
from repository import ROOT

FILE = re.compile(r"`((?:podtui|tests|scripts|conformance)/[\w/.]+)`")


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_each_file_exists(document: str) -> None:
    found = set(FILE.findall((ROOT / document).read_text()))
    assert found
    assert {path for path in found if not (ROOT / path).exists()} == set()
