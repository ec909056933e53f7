"""Diagnosis of a pod that is not running: the root cause, its evidence, the line of the manifest,
and the change if it can be made mechanically.

Pure functions of API objects; nothing here reads a file or sends a request.
"""

from podtui.api.health import Health
from podtui.api.local import Edit
from podtui.editing.edits import EditError, apply_edits, diff_lines, diff_texts
from podtui.why.diagnose import diagnose, diagnose_manifest
from podtui.why.types import Diagnosis, Evidence, Facts, Fix, Kind

__all__ = [
    "Diagnosis",
    "Edit",
    "EditError",
    "Evidence",
    "Facts",
    "Fix",
    "Health",
    "Kind",
    "apply_edits",
    "diagnose",
    "diagnose_manifest",
    "diff_lines",
    "diff_texts",
]
