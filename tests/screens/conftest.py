from __future__ import annotations

import os

os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
