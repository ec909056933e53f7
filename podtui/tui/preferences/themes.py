"""Load and validate themes from YAML files, which assign colours to meanings in groups.

An invalid file is reported with line numbers and ignored; existing themes stay.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from rich.terminal_theme import TerminalTheme
from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

from podtui.tui.preferences.file_changes import Stamp, stamp_of

if TYPE_CHECKING:
    import yaml


_COMMENT: Final = re.compile(r" *(?:#.*)?")

_ENTRY: Final = re.compile(
    r"(?P<inside>  )?(?P<key>[a-z][a-z0-9-]*):"
    r"(?: +(?P<value>\"[ !#-\[\]-~]*\"|'[ -&(-~]*'|[A-Za-z][\w-]*))?(?: +(?:#.*)?)?",
    re.ASCII,
)


class NotYaml(Exception):
    """Raised for an invalid text; ``line`` counts from 1, 0 if unknown."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


class ThemeValue(Struct, frozen=True):
    """A value: ``text`` for a string, ``pairs`` for a map; otherwise they are empty and None."""

    line: int
    text: str = ""
    pairs: tuple[tuple[ThemeValue, ThemeValue], ...] | None = None


def read(text: str) -> ThemeValue | None:
    """Parse a file; return None if it is empty. Raises `NotYaml`."""
    return parse_plain(text) or parse_with_library(text)


def parse_plain(text: str) -> ThemeValue | None:
    """Parse a map of strings and of maps of strings, one entry per line; None for other text."""
    pairs: list[tuple[ThemeValue, ThemeValue]] = []
    inner: list[tuple[ThemeValue, ThemeValue]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.isprintable():
            return None
        if _COMMENT.fullmatch(line):
            continue
        match = _ENTRY.fullmatch(line)
        if match is None:
            return None
        key, value = ThemeValue(number, match["key"]), match["value"]
        if match["inside"]:
            if not (pairs and pairs[-1][1].pairs is not None and value):
                return None
            inner.append((key, ThemeValue(number, _bare(value))))
        else:
            if not _close(pairs, inner):
                return None
            inner = []
            pairs.append(
                (key, ThemeValue(number, _bare(value)) if value else ThemeValue(number, pairs=()))
            )
    return (
        ThemeValue(pairs[0][0].line, pairs=tuple(pairs)) if pairs and _close(pairs, inner) else None
    )


def _close(
    pairs: list[tuple[ThemeValue, ThemeValue]], inner: list[tuple[ThemeValue, ThemeValue]]
) -> bool:
    """Complete the map of the last key. Returns False if that map is empty."""
    if pairs and pairs[-1][1].pairs is not None:
        key, _ = pairs[-1]
        pairs[-1] = (key, ThemeValue(key.line + 1, pairs=tuple(inner)))
        return bool(inner)
    return True


def _bare(value: str) -> str:
    return value[1:-1] if value[0] in "\"'" else value


def parse_with_library(text: str) -> ThemeValue | None:
    """Parse any YAML text. Raises `NotYaml`."""
    import yaml

    try:
        node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise NotYaml(line, str(error.problem)) from error
    except yaml.YAMLError as error:
        raise NotYaml(0, str(error)) from error
    return None if node is None else _node(node)


def _node(node: yaml.Node, depth: int = 2) -> ThemeValue:
    """Convert a YAML node. Maps below ``depth`` become empty: themes do not use them, and aliases
    can make them infinite."""
    import yaml

    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return ThemeValue(line, str(node.value))
    if not isinstance(node, yaml.MappingNode):
        return ThemeValue(line)
    if not depth:
        return ThemeValue(line, pairs=())
    return ThemeValue(
        line, pairs=tuple((_node(key, 0), _node(value, depth - 1)) for key, value in node.value)
    )


BASE: Final = (
    "primary", "secondary", "accent", "foreground", "background", "surface", "panel", "success",
    "warning", "error",
)  # fmt: skip
# Podtui's variables by group, each with the theme colour that is the default value.
GROUPS: Final = {
    "text": {
        "soft": "foreground",
        "muted": "foreground",
        "key": "primary",
        "reason": "foreground",
        "heading": "foreground",
    },
    "phase": {
        "running": "success",
        "unready": "warning",
        "pending": "warning",
        "init": "accent",
        "error": "error",
        "terminating": "secondary",
        "completed": "foreground",
    },
    "bar": {
        "one": "primary",
        "two": "secondary",
        "chosen": "accent",
        "used": "warning",
        "free": "panel",
    },
    "pane": {
        "border": "panel",
        "border-focus": "primary",
        "title": "foreground",
        "title-focus": "foreground",
    },
    "cursor": {"background": "panel", "blurred": "surface"},
    "simulated": {"background": "warning", "foreground": "background"},
}
MAX_BYTES: Final = 8192
"""Maximum size of a file: a larger one could be nested so deeply that the YAML library in C
overflows its stack."""
DEFAULT_THEME: Final = "podtui-dark"


class ThemeFile(Struct, frozen=True):
    """The result of loading a file: a theme, or ``problems`` such as ``FILE:LINE: message``."""

    path: Path
    theme: Theme | None
    problems: tuple[str, ...] = ()


class _Reading(Struct):
    path: Path
    problems: list[str] = field(default_factory=list[str])

    def problem(self, node: ThemeValue, text: str) -> None:
        self.problems.append(f"{self.path.name}:{node.line}: {text}")


def variable(group: str, name: str) -> str:
    """Return the name of a style sheet variable: ``phase-running``, ``tone-muted``."""
    return f"tone-{name}" if group == "text" else f"{group}-{name}"


def defaults(theme: Theme) -> dict[str, str]:
    """Return default values of podtui's variables, derived from the colours of a theme."""
    generated = theme.to_color_system().generate()
    result: dict[str, str] = {}
    for group, names in GROUPS.items():
        for name, source in names.items():
            result[variable(group, name)] = generated[source]
    if theme.ansi:
        # The terminal's own colours cannot be blended, and panels are transparent.
        for name in ("bar-free", "pane-border"):
            result[name] = "ansi_bright_black"
    else:
        foreground = Color.parse(generated["foreground"])
        background = Color.parse(generated["background"])
        for name, part in (("soft", 0.2), ("muted", 0.4), ("heading", 0.4)):
            result[variable("text", name)] = foreground.blend(background, part).hex
        result["phase-completed"] = result["tone-muted"]
        result["cursor-background"] = background.blend(Color.parse(theme.primary), 0.3).hex
        result["bar-free"] = foreground.blend(background, 0.75).hex
        result["pane-border"] = result["bar-free"]
    return result


def log_colors(theme: Theme, values: Mapping[str, str]) -> TerminalTheme:
    """Return the sixteen colours in which logs are shown, taken from the theme for good contrast.

    Not needed for a theme of the terminal's own colours. ``values`` are all current variables.
    """

    def rgb(name: str) -> tuple[int, int, int]:
        return Color.parse(values[name]).rgb

    names = ("error", "success", "warning", "primary", "secondary", "accent")
    black, white = ("background", "foreground") if theme.dark else ("foreground", "tone-muted")
    return TerminalTheme(
        rgb("background"),
        rgb("foreground"),
        [rgb(name) for name in (black, *names, white)],
        [rgb(name) for name in ("tone-muted", *names, "foreground")],
    )


def load_themes(folders: Iterable[Path]) -> list[ThemeFile]:
    """Load all ``*.yaml`` and ``*.yml`` files, by folder and name; folders may be missing."""
    themes: list[ThemeFile] = []
    for folder in folders:
        try:
            themes += map(load_theme, _theme_paths([folder]))
        except OSError as error:
            themes.append(ThemeFile(folder, None, (f"{folder}: {error.strerror}",)))
    return themes


def theme_stamps(folders: Iterable[Path]) -> dict[Path, Stamp | None]:
    """Return a value that changes when a file of `load_themes` changes, appears or disappears."""
    stamps: dict[Path, Stamp | None] = {}
    for folder in folders:
        try:
            stamps |= {path: stamp_of(path) for path in _theme_paths([folder])}
        except OSError:
            # `load_themes` reports the error.
            continue
    return stamps


def _theme_paths(folders: Iterable[Path]) -> list[Path]:
    paths: list[Path] = []
    for folder in folders:
        try:
            paths += sorted(p for p in folder.iterdir() if p.suffix in (".yaml", ".yml"))
        except (FileNotFoundError, NotADirectoryError):
            continue
    return paths


def load_theme(path: Path) -> ThemeFile:
    """Load a theme; report all errors as problems instead of raising them."""
    reading = _Reading(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            return ThemeFile(path, None, (f"{path.name}: longer than {MAX_BYTES} bytes",))
        node = read(data.decode())
    except (OSError, UnicodeDecodeError) as error:
        return ThemeFile(path, None, (f"{path.name}: {error}",))
    except NotYaml as error:
        line = f":{error.line}" if error.line else ""
        return ThemeFile(path, None, (f"{path.name}{line}: {error}",))
    if node is None or node.pairs is None:
        return ThemeFile(path, None, (f"{path.name}:1: must be a map with name, dark and colors",))
    theme = _theme(node, reading)
    return ThemeFile(path, None if reading.problems else theme, tuple(reading.problems))


def _theme(node: ThemeValue, reading: _Reading) -> Theme | None:
    name = ""
    flags = {"dark": True, "ansi": False}
    base: dict[str, str] = {}
    variables: dict[str, str] = {}
    for key, value in _pairs(node, ("name", *flags, "colors", *GROUPS), reading):
        if key == "name" or key in flags:
            text = value.text
            if key == "name":
                name = text
            elif text in ("true", "false"):
                flags[key] = text == "true"
            else:
                reading.problem(value, f"{key}: must be true or false")
        elif value.pairs is None:
            reading.problem(value, f"{key}: must be a map of colours")
        elif key == "colors":
            base = _colors(value, key, BASE, reading)
        else:
            for part, color in _colors(value, key, tuple(GROUPS[key]), reading).items():
                variables[variable(key, part)] = color
    if not name:
        reading.problem(node, "name: is missing")
    if "primary" not in base and not reading.problems:
        reading.problem(node, "colors: primary is missing")
    if reading.problems:
        return None
    if "tone-muted" in variables:
        variables["text-muted"] = variables["tone-muted"]
    return _built(name, base, variables, **flags)


def _built(
    name: str, base: dict[str, str], variables: dict[str, str], *, dark: bool, ansi: bool
) -> Theme:
    panel = base.get("panel")
    # Textual's style sheet for ANSI themes uses variables that only its built-in themes define.
    builtin = BUILTIN_THEMES["ansi-dark" if dark else "ansi-light"].variables if ansi else {}
    variables = {
        **builtin,
        "scrollbar": variables.get("pane-border", panel or base["primary"]),
        "scrollbar-background": base.get("background", "black" if dark else "white"),
        "scrollbar-corner-color": base.get("background", "black" if dark else "white"),
        **variables,
    }
    return Theme(
        name=name,
        primary=base["primary"],
        secondary=base.get("secondary"),
        accent=base.get("accent"),
        foreground=base.get("foreground"),
        background=base.get("background"),
        surface=base.get("surface"),
        panel=panel,
        success=base.get("success"),
        warning=base.get("warning"),
        error=base.get("error"),
        dark=dark,
        ansi=ansi,
        variables=variables,
    )


def _pairs(
    node: ThemeValue, allowed: Sequence[str], reading: _Reading
) -> list[tuple[str, ThemeValue]]:
    """Return the allowed keys with their values; report the others."""
    pairs: list[tuple[str, ThemeValue]] = []
    for key_node, value in node.pairs or ():
        key = key_node.text
        if key in allowed:
            pairs.append((key, value))
            continue
        near = difflib.get_close_matches(key, allowed, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(allowed)}"
        reading.problem(key_node, f"{key}: unknown{hint}")
    return pairs


def _colors(
    node: ThemeValue, group: str, allowed: Sequence[str], reading: _Reading
) -> dict[str, str]:
    """Return the valid colours by name; report invalid ones."""
    colors: dict[str, str] = {}
    for key, value in _pairs(node, allowed, reading):
        text = value.text
        try:
            Color.parse(text)
        except ColorParseError:
            reading.problem(value, f"{group}.{key}: {text!r} is not a colour such as '#6cb6ff'")
        else:
            colors[key] = text
    return colors
