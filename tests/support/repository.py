"""Folders of the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SUPPORT: Final = ROOT / "tests" / "support"
GOLDEN: Final = ROOT / "tests" / "golden"
VALIDATION_CASES: Final = ROOT / "tests" / "unit" / "manifest" / "validation" / "cases"
