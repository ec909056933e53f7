"""The effective settings, and the origin of each: flag > environment > file > default.

The file is YAML with the field names of ``KubeletConfiguration``, so that a kubelet's own file
works; podtui's additional settings have names of the same style. A key that only a kubelet needs is
accepted and listed by ``podtui config``; any other unknown key is an error with line and column.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from podtui.errors import SettingsError
from podtui.settings.declarations import (
    EVICTION_HARD,
    SETTINGS,
    Settings,
    broken_rules,
    environment_name,
)


class Resolved(Struct, frozen=True):
    """``origins`` maps each setting to a text that says where its value comes from. It also has the
    parts of a setting that is a map or a list of maps (``keys.app.quit``, ``commands[0].key``).
    ``ignored`` lists the keys of the file that only a kubelet needs, as ``file:line:column: key``.
    ``path`` is the settings file, whether it exists or not."""

    settings: Settings
    origins: Mapping[str, str]
    ignored: tuple[str, ...] = ()
    path: Path = Path()


def resolve(
    flags: Mapping[str, str | None],
    environ: Mapping[str, str] | None = None,
    *,
    config: Path | None = None,
    working: Path | None = None,
) -> Resolved:
    """Resolve all settings. ``flags`` are by setting name, None for a flag that was not given.

    Raises `SettingsError` for the first invalid value, whatever its origin.
    """
    environ = os.environ if environ is None else environ
    working = Path.cwd() if working is None else working
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    ignored: list[str] = []
    named = config or (Path(environ["PODTUI_CONFIG"]) if environ.get("PODTUI_CONFIG") else None)
    path = named or default_config_dir(environ) / "config.yaml"
    if named is not None and not path.is_file():
        raise SettingsError(f"{path}: no such configuration file")
    if path.is_file():
        from podtui.settings.file import read_settings

        for key, value, position in read_settings(path, ignored, origins):
            values[key] = _parsed(key, value, position)
            origins[key] = position
    for key, setting in SETTINGS.items():
        name = environment_name(key)
        if environ.get(name):
            values[key] = _parsed(key, environ[name], name)
            origins[key] = name
        flag = flags.get(key)
        if flag is not None:
            values[key] = _parsed(key, flag, setting.flag.name if setting.flag else key)
            origins[key] = "command line"
    values.setdefault("rootDir", default_root_dir(environ).absolute())
    values.setdefault("staticPodPath", default_static_pod_path(environ, working).absolute())
    values.setdefault("nodeName", socket.gethostname().lower() or "localhost")
    if values.get("mergeDefaultEvictionSettings"):
        values["evictionHard"] = {**EVICTION_HARD, **values.get("evictionHard", {})}
    settings = Settings(**values)
    for key in SETTINGS:
        origins.setdefault(key, "default")
    for key, problem in broken_rules(settings):
        raise SettingsError(f"{origins[key]}: {key}: {problem}")
    return Resolved(settings, origins, tuple(ignored), path)


def _parsed(key: str, value: object, position: str) -> Any:
    try:
        return SETTINGS[key].parse(value)
    except ValueError as error:
        raise SettingsError(f"{position}: {key}: {error}") from error


def flag_words(settings: Settings, *, without: Collection[str] = frozenset()) -> list[str]:
    """Return the flags that give an agent these settings, except those in ``without``."""
    return [
        f"{setting.flag.name}={value}"
        for key, setting in SETTINGS.items()
        if setting.flag is not None
        and not setting.screen
        and key not in without
        and (value := getattr(settings, key)) is not None
    ]


def config_words(resolved: Resolved) -> list[str]:
    """Return the flag that names the settings file; empty if there is none."""
    return [f"--config={resolved.path.absolute()}"] if resolved.path.is_file() else []


def default_root_dir(environ: Mapping[str, str]) -> Path:
    """Return the user's state directory (XDG)."""
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")) / ".local/state")
    return Path(base).expanduser() / "podtui"


def default_config_dir(environ: Mapping[str, str]) -> Path:
    """Return the user's configuration directory (XDG)."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")) / ".config")
    return Path(base).expanduser() / "podtui"


def default_static_pod_path(environ: Mapping[str, str], working: Path) -> Path:
    """Return ``static_pods/`` in the working directory if it exists, otherwise the user's
    folder."""
    here = working / "static_pods"
    return here if here.is_dir() else default_config_dir(environ) / "static_pods"
