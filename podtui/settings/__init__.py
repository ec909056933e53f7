"""The settings: declared once in `declarations`, parsed by `values`, read from flags, environment
and file by `resolve`.

Other rooms import from here.
"""

from __future__ import annotations

from podtui.errors import SettingsError
from podtui.settings.declarations import (
    CLUSTER_RECORDS,
    EVICTION_HARD,
    RECORDS,
    SETTINGS,
    Setting,
    Settings,
    environment_name,
)
from podtui.settings.resolve import (
    Resolved,
    config_words,
    default_config_dir,
    default_root_dir,
    flag_words,
    resolve,
)
from podtui.settings.values import parse_duration

__all__ = [
    "CLUSTER_RECORDS",
    "EVICTION_HARD",
    "RECORDS",
    "SETTINGS",
    "Resolved",
    "Setting",
    "Settings",
    "SettingsError",
    "config_words",
    "default_config_dir",
    "default_root_dir",
    "environment_name",
    "flag_words",
    "parse_duration",
    "resolve",
]
