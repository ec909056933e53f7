"""Why a pod is not running, and what to change: one root cause, its evidence, the line of the
manifest, and the change where it can be made by rote.

Plain functions on what the API says; nothing here reads a file or asks anybody.
"""

from podtui.api.health import Health
from podtui.why.diagnose import diagnose, diagnose_manifest
from podtui.why.edits import EditError, apply_edits, diff_lines, diff_texts
from podtui.why.types import Diagnosis, Edit, Evidence, Facts, Fix

__all__ = [
    "Diagnosis",
    "Edit",
    "EditError",
    "Evidence",
    "Facts",
    "Fix",
    "Health",
    "apply_edits",
    "diagnose",
    "diagnose_manifest",
    "diff_lines",
    "diff_texts",
]
