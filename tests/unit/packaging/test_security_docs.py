"""``docs/security.md`` names tests that exist."""

from __future__ import annotations

import re

from repository import ROOT

DOCS = ROOT / "docs"


def test_every_test_named_in_security_exists() -> None:
    found = re.findall(r"\[(test_\w+)\]\((\S+?)\)", (DOCS / "security.md").read_text())
    assert len(found) > 50
    missing = [
        f"{path}::{name}"
        for name, path in found
        if not re.search(rf"^ *(async )?def {name}\(", (DOCS / path).read_text(), re.MULTILINE)
    ]
    assert not missing
