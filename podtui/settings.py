"""The settings in effect, and the origin of each: flag > environment > file > default.

The file is YAML with the field names of ``KubeletConfiguration``, so that a kubelet's own file
works; podtui's additional settings have names of the same style. A key that only a kubelet needs is
accepted and listed by ``podtui config``; any other unknown key is an error with line and column.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct, field

from podtui.api.quantity import parse_quantity
from podtui.errors import SettingsError
from podtui.screen_settings import (
    NOTIFY_BY,
    NOTIFY_ON,
    command_entries,
    command_words,
    hotkey_settings,
    key_settings,
    one_of,
)
from podtui.setting_rules import broken_rules

_DURATION_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "m": 60,
    "h": 3600,
}
_DURATION: Final = re.compile(r"([0-9]*\.?[0-9]+)(ns|us|µs|ms|s|m|h)")
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


def parse_duration(text: str) -> float:
    """Parse a Go duration (``1m30s``) to seconds. Raises ValueError."""
    if text == "0":
        return 0.0
    matches = list(_DURATION.finditer(text))
    if not matches or "".join(m.group(0) for m in matches) != text:
        raise ValueError(f"{text!r} is not a duration such as 20s or 1m30s")
    return float(sum(float(m.group(1)) * _DURATION_UNITS[m.group(2)] for m in matches))


def _duration(value: object) -> float:
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError("wants a duration such as 20s or 1m30s")


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    raise ValueError("wants true or false")


def _positive(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if isinstance(number, int) and not isinstance(number, bool) and number > 0:
        return number
    raise ValueError("wants a whole number above 0")


def _text(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("wants a text that is not empty")


def _any_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("wants a text")


def _path(value: object) -> Path:
    text = _text(value)
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"is in nobody's home directory here: {text}") from error


def _node_name(value: object) -> str:
    name = _text(value)
    if len(name) > 253 or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name):
        raise ValueError("wants a host name: letters, digits, '-' and '.'")
    return name


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part for part in value.split(",") if part)
    if isinstance(value, list) and all(isinstance(v, str) for v in cast(list[object], value)):
        return tuple(cast(list[str], value))
    raise ValueError("wants a list of texts")


def _text_map(value: object) -> Mapping[str, str]:
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part]
        if all(sep for _, sep, _ in pairs):
            return {key.strip(): val.strip() for key, _, val in pairs}
    if isinstance(value, dict):
        items = cast(dict[object, object], value)
        return {str(key): str(val) for key, val in items.items()}
    raise ValueError("wants a map such as {cpu: 100m}")


def _percent(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= 100:
        return number
    raise ValueError("wants a whole number from 0 to 100")


def _integer(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("wants a whole number")


def _bytes(value: object) -> int:
    try:
        size = parse_quantity(str(value)).value()
    except ValueError as error:
        raise ValueError("wants an amount such as 10Mi") from error
    if size > 0:
        return size
    raise ValueError("wants an amount above 0")


def _gates(value: object) -> Mapping[str, bool]:
    return {name: _boolean(text) for name, text in _text_map(value).items()}


def _durations(value: object) -> Mapping[str, float]:
    return {name: _duration(text) for name, text in _text_map(value).items()}


def _shutdown_steps(value: object) -> tuple[tuple[int, int], ...]:
    """Parse a list of maps to (priority, seconds) pairs."""
    if isinstance(value, list):
        found: list[tuple[int, int]] = []
        for item in cast(list[object], value):
            if not isinstance(item, dict):
                break
            pair = cast(dict[str, object], item)
            if pair.keys() != {"priority", "shutdownGracePeriodSeconds"}:
                break
            seconds = _integer(pair["shutdownGracePeriodSeconds"])
            found.append((_integer(pair["priority"]), seconds))
        else:
            return tuple(sorted(found))
    raise ValueError("wants a list of {priority: 0, shutdownGracePeriodSeconds: 20}")


def default_root_dir(environ: Mapping[str, str]) -> Path:
    """Return the user's state directory (XDG)."""
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")) / ".local/state")
    return Path(base).expanduser() / "podtui"


def default_config_dir(environ: Mapping[str, str]) -> Path:
    """Return the user's configuration directory (XDG)."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")) / ".config")
    return Path(base).expanduser() / "podtui"


WEB_TERMINAL: Final = "podtui-web"
"""The value of ``TERM_PROGRAM`` in a tab of ``podtui web``."""


def default_static_pod_path(environ: Mapping[str, str], working: Path) -> Path:
    """Return ``static_pods/`` in the working directory if it exists, otherwise the user's
    folder."""
    here = working / "static_pods"
    return here if here.is_dir() else default_config_dir(environ) / "static_pods"


EVICTION_HARD: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


class Settings(Struct, frozen=True, kw_only=True):
    """All settings, resolved. Durations are in seconds, paths are absolute."""

    rootDir: Path
    staticPodPath: Path
    nodeName: str
    engine: str = "auto"
    theme: str = ""
    readOnly: bool = False
    """True if the screen refuses all changes."""
    kubeletStrict: bool = False
    maxPods: int = 110
    systemReserved: Mapping[str, str] = field(default_factory=dict[str, str])
    kubeReserved: Mapping[str, str] = field(default_factory=dict[str, str])
    evictionHard: Mapping[str, str] = field(default_factory=lambda: dict(EVICTION_HARD))
    fileCheckFrequency: float = 20.0
    syncFrequency: float = 60.0
    maxContainerRestartPeriod: float = 300.0
    serializeImagePulls: bool = True
    maxParallelImagePulls: int = 0
    """Only used if pulls are not serialized; 0 means no limit."""
    allowedUnsafeSysctls: tuple[str, ...] = ()
    nodeLabels: Mapping[str, str] = field(default_factory=dict[str, str])
    clusterDNS: tuple[str, ...] = ()
    clusterDomain: str = ""
    resolvConf: str = "/etc/resolv.conf"
    """A file on the agent's machine; empty for none."""
    seccompDefault: bool = False
    cpuCFSQuota: bool = True
    cpuCFSQuotaPeriod: float = 0.1
    podPidsLimit: int = -1
    """Processes per container; -1 means no limit."""
    featureGates: Mapping[str, bool] = field(default_factory=dict[str, bool])
    registryPullQPS: int = 5
    registryBurst: int = 10
    imageMinimumGCAge: float = 120.0
    imageMaximumGCAge: float = 0.0
    imageGCHighThresholdPercent: int = 85
    imageGCLowThresholdPercent: int = 80
    containerLogMaxSize: int = 10 * 1024 * 1024
    """In bytes."""
    containerLogMaxFiles: int = 5
    evictionSoft: Mapping[str, str] = field(default_factory=dict[str, str])
    evictionSoftGracePeriod: Mapping[str, float] = field(default_factory=dict[str, float])
    evictionPressureTransitionPeriod: float = 300.0
    evictionMaxPodGracePeriod: int = 0
    evictionMinimumReclaim: Mapping[str, str] = field(default_factory=dict[str, str])
    mergeDefaultEvictionSettings: bool = False
    shutdownGracePeriod: float = 0.0
    shutdownGracePeriodCriticalPods: float = 0.0
    shutdownGracePeriodByPodPriority: tuple[tuple[int, int], ...] = ()
    """(priority, seconds) pairs, ascending."""
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Comma-separated keys by binding id."""
    commands: tuple[object, ...] = ()
    """The user's custom commands, as written and not checked yet."""
    hotkeys: Mapping[str, str] = field(default_factory=dict[str, str])
    """``:`` command lines by key."""
    notifyOn: tuple[str, ...] = NOTIFY_ON
    notifyBy: tuple[str, ...] = ()
    notifyCommand: tuple[str, ...] = ()

    @property
    def socket_path(self) -> Path:
        return self.rootDir / "podtui.sock"

    @property
    def lock_path(self) -> Path:
        return self.rootDir / "podtui.lock"

    @property
    def records_path(self) -> Path:
        return self.rootDir / "records.db"

    @property
    def agent_log_path(self) -> Path:
        return self.rootDir / "agent.log"


PARSERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "rootDir": _path,
    "staticPodPath": _path,
    "nodeName": _node_name,
    "engine": _text,
    "theme": _text,
    "readOnly": _boolean,
    "kubeletStrict": _boolean,
    "maxPods": _positive,
    "systemReserved": _text_map,
    "kubeReserved": _text_map,
    "evictionHard": _text_map,
    "fileCheckFrequency": _duration,
    "syncFrequency": _duration,
    "maxContainerRestartPeriod": _duration,
    "serializeImagePulls": _boolean,
    "maxParallelImagePulls": _positive,
    "allowedUnsafeSysctls": _texts,
    "nodeLabels": _text_map,
    "clusterDNS": _texts,
    "clusterDomain": _any_text,
    "resolvConf": _any_text,
    "seccompDefault": _boolean,
    "cpuCFSQuota": _boolean,
    "cpuCFSQuotaPeriod": _duration,
    "podPidsLimit": _integer,
    "featureGates": _gates,
    "registryPullQPS": _integer,
    "registryBurst": _integer,
    "imageMinimumGCAge": _duration,
    "imageMaximumGCAge": _duration,
    "imageGCHighThresholdPercent": _percent,
    "imageGCLowThresholdPercent": _percent,
    "containerLogMaxSize": _bytes,
    "containerLogMaxFiles": _positive,
    "evictionSoft": _text_map,
    "evictionSoftGracePeriod": _durations,
    "evictionPressureTransitionPeriod": _duration,
    "evictionMaxPodGracePeriod": _integer,
    "evictionMinimumReclaim": _text_map,
    "mergeDefaultEvictionSettings": _boolean,
    "shutdownGracePeriod": _duration,
    "shutdownGracePeriodCriticalPods": _duration,
    "shutdownGracePeriodByPodPriority": _shutdown_steps,
    "keys": key_settings,
    "commands": command_entries,
    "hotkeys": hotkey_settings,
    "notifyOn": one_of(NOTIFY_ON),
    "notifyBy": one_of(NOTIFY_BY),
    "notifyCommand": command_words,
}


class Resolved(Struct, frozen=True):
    """``origins`` maps each setting to a text that says where its value comes from. It also has the
    parts of a setting that is a map or a list of maps (``keys.app.quit``, ``commands[0].key``).
    ``ignored`` lists the keys of the file that only a kubelet needs, as ``file:line:column: key``.
    ``path`` is the settings file, whether it exists or not."""

    settings: Settings
    origins: Mapping[str, str]
    ignored: tuple[str, ...] = ()
    path: Path = Path()


def environment_name(key: str) -> str:
    """Return the environment variable of a setting: ``maxPods`` becomes ``PODTUI_MAX_PODS``."""
    return "PODTUI_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).upper()


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
        # YAML's library is slow to import, and most users have no settings file.
        from podtui.settings_file import read_settings

        for key, value, place in read_settings(path, PARSERS.keys(), ignored, origins):
            values[key] = _parsed(key, value, place)
            origins[key] = place
    for key in PARSERS:
        name = environment_name(key)
        if environ.get(name):
            values[key] = _parsed(key, environ[name], name)
            origins[key] = name
        flag = flags.get(key)
        if flag is not None:
            values[key] = _parsed(key, flag, f"--{environment_name(key)[7:].lower()}")
            origins[key] = "command line"
    values.setdefault("rootDir", default_root_dir(environ).absolute())
    values.setdefault("staticPodPath", default_static_pod_path(environ, working).absolute())
    values.setdefault("nodeName", socket.gethostname().lower() or "localhost")
    if values.get("mergeDefaultEvictionSettings"):
        values["evictionHard"] = {**EVICTION_HARD, **values.get("evictionHard", {})}
    settings = Settings(**values)
    for name in Settings.__struct_fields__:
        origins.setdefault(name, "default")
    for key, problem in broken_rules(settings):
        raise SettingsError(f"{origins[key]}: {key}: {problem}")
    return Resolved(settings, origins, tuple(ignored), path)


def _parsed(key: str, value: object, place: str) -> Any:
    try:
        return PARSERS[key](value)
    except ValueError as error:
        raise SettingsError(f"{place}: {key}: {error}") from error
