"""Where the programs are that podtui is compared with; ``make bench`` installs them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_OURS = Path(__file__).resolve().parent.parent / ".cache" / "peers" / "bin"
NOT_HERE = "not installed here, so not measured"


def peer(name: str) -> str | None:
    """The path of a program, None where there is none."""
    return shutil.which(name, path=f"{_OURS}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
