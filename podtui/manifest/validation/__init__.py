"""The API server's rules for creating a Pod (v1.36), and the kubelet's for static pods."""

from __future__ import annotations

from podtui.manifest.validation.empty_strings import written_empties
from podtui.manifest.validation.errors import FieldError
from podtui.manifest.validation.pod import validate_pod
from podtui.manifest.validation.static import ACCOUNTS, CLAIMS, validate_static

__all__ = ["ACCOUNTS", "CLAIMS", "FieldError", "validate_pod", "validate_static", "written_empties"]
