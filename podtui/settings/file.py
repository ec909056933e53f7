"""Reads the settings file: its keys, their values, and their positions.

Import it only if there is a file: YAML's library is slow to import.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

import yaml

from podtui.errors import SettingsError
from podtui.settings.declarations import SETTINGS
from podtui.settings.values import TRUE

# Fields of KubeletConfiguration without a meaning on a single machine outside a cluster.
KUBELET_ONLY: Final = frozenset(
    """apiVersion kind httpCheckFrequency staticPodURL staticPodURLHeader
    readOnlyPort tlsCipherSuites tlsMinVersion
    enableDebuggingHandlers enableContentionProfiling healthzPort healthzBindAddress oomScoreAdj
    streamingConnectionIdleTimeout nodeStatusUpdateFrequency nodeStatusReportFrequency
    nodeLeaseDurationSeconds volumeStatsAggPeriod kubeletCgroups systemCgroups cgroupRoot
    cgroupsPerQOS cgroupDriver singleProcessOOMKill qosReserved runtimeRequestTimeout
    hairpinMode podCIDR runOnce nodeStatusMaxImages maxOpenFiles contentType
    podsPerCore enableControllerAttachDetach protectKernelDefaults
    makeIPTablesUtilChains iptablesMasqueradeBit iptablesDropBit failSwapOn memorySwap
    containerLogMaxWorkers containerLogMonitorInterval configMapAndSecretChangeDetectionStrategy
    systemReservedCgroup kubeReservedCgroup enforceNodeAllocatable showHiddenMetricsForVersion
    volumePluginDir providerID kernelMemcgNotification logging enableSystemLogHandler
    enableSystemLogQuery enableProfilingHandler enableDebugFlagsHandler memoryThrottlingFactor
    tracing localStorageCapacityIsolation
    containerRuntimeEndpoint imageServiceEndpoint failCgroupV1 userNamespaces
    imagePullCredentialsVerificationPolicy preloadedImagesVerificationAllowlist""".split()
)
_ALIASES: Final = {alias: key for key, setting in SETTINGS.items() for alias in setting.aliases}


def read_settings(
    path: Path, ignored: list[str], places: dict[str, str]
) -> list[tuple[str, object, str]]:
    """Return (setting, raw value, position) for each key of a settings file. Keys that only a
    kubelet needs are added to ``ignored``, and positions of the parts of maps to ``places``. Raises
    `SettingsError`."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise SettingsError(f"{path}{where}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: {error}") from error
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError(f"{path}:1:1: must be a map of settings")
    entries: list[tuple[str, object, str]] = []
    _walk(path, node, "", entries, ignored, places)
    return entries


def _place(path: Path, node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _walk(
    path: Path,
    node: yaml.MappingNode,
    prefix: str,
    entries: list[tuple[str, object, str]],
    ignored: list[str],
    places: dict[str, str],
) -> None:
    for key_node, value_node in node.value:
        name = prefix + str(key_node.value)
        position = _place(path, key_node)
        key = _ALIASES.get(name, name)
        if key in SETTINGS:
            read = _verbatim if SETTINGS[key].verbatim else _plain
            entries.append((key, read(value_node), position))
            places |= _parts(path, key, value_node)
        elif any(alias.startswith(name + ".") for alias in _ALIASES):
            if isinstance(value_node, yaml.MappingNode):
                _walk(path, value_node, name + ".", entries, ignored, places)
        elif name in KUBELET_ONLY:
            ignored.append(f"{position}: {name}")
        else:
            near = difflib.get_close_matches(name, [*SETTINGS, *KUBELET_ONLY], n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise SettingsError(f"{position}: {name}: no such setting{hint}")


def _parts(path: Path, name: str, node: yaml.Node) -> dict[str, str]:
    """Return the positions of the parts of a map, or of each map in a list."""
    if isinstance(node, yaml.MappingNode):
        return {f"{name}.{part.value}": _place(path, part) for part, _ in node.value}
    positions: dict[str, str] = {}
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            positions[f"{name}[{number}]"] = _place(path, item)
            if isinstance(item, yaml.MappingNode):
                positions |= _parts(path, f"{name}[{number}]", item)
    return positions


def _verbatim(node: yaml.Node) -> object:
    """Return the value of a node, with every scalar as a string."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _verbatim(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_verbatim(item) for item in node.value]
    return str(node.value)


def _plain(node: yaml.Node) -> object:
    """Return the value of a node. Scalars other than booleans and integers stay strings for the
    parsers."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    text = str(node.value)
    if node.tag == "tag:yaml.org,2002:bool":
        return text.lower() in TRUE
    if node.tag == "tag:yaml.org,2002:int" and text.isdigit():
        return int(text)
    return text
