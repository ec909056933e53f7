"""How many examples hypothesis tries: a few in a quick run, all of them in a thorough one.

``HYPOTHESIS_PROFILE`` is ``quick`` (the default) or ``thorough`` (``make test`` and CI). A quick
run tries the same examples each time, so that its result does not depend on chance; a thorough run
searches new ones.
"""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import settings

SHARE: Final = 5
THOROUGH: Final = 100

settings.register_profile(
    "quick", max_examples=THOROUGH // SHARE, derandomize=True, database=None, deadline=None
)
settings.register_profile("thorough", max_examples=THOROUGH, print_blob=True, deadline=None)
PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)


def examples(number: int, **more: Any) -> settings:
    """Return the settings of a test with ``number`` examples; a quick run takes a fifth of them."""
    return settings(max_examples=number if PROFILE == "thorough" else number // SHARE, **more)
