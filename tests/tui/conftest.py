from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)
