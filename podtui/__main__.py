"""``python -m podtui``."""

from __future__ import annotations

import sys

from podtui.cli import main

sys.exit(main())
