"""Write the table of ``docs/settings.md`` from the declarations; ``--check`` only compares."""

from __future__ import annotations

import sys

import generated
from msgspec.structs import fields

from podtui.settings import SETTINGS, Settings, environment_name

TARGET = generated.DOCS / "settings.md"
HEAD = "| key | environment | default | |\n|---|---|---|---|\n"
UNITS = ((3600.0, "h"), (60.0, "m"), (1.0, "s"), (0.001, "ms"))


def default_cell(value: object) -> str:
    """Return a default as one writes it in the file; durations are the only floats."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        size, unit = next((u for u in UNITS if value >= u[0]), (1.0, "s"))
        return f"`{value / size:g}{unit}`"
    return f"`{value}`" if value else "none"


def table() -> str:
    """Return the whole table."""
    defaults = {one.name: one.default for one in fields(Settings)}
    rows: list[str] = []
    for key, setting in SETTINGS.items():
        environment = "" if setting.file_only else f"`{environment_name(key)}`"
        factory_made = setting.default or not isinstance(defaults[key], bool | int | float | str)
        default = (setting.default or "none") if factory_made else default_cell(defaults[key])
        flag = f". `{setting.flag.name}`" if setting.flag else ""
        rows.append(f"| `{key}` | {environment} | {default} | {setting.doc}{flag} |\n")
    return HEAD + "".join(rows)


def with_table(text: str) -> str:
    """Return the document with the current table in the place of its own."""
    return generated.with_table(text, HEAD, table())


if __name__ == "__main__":
    sys.exit(generated.write_or_check(TARGET, with_table))
