"""Documents as YAML, in the form in which an API server and kubectl write them.

Keys are sorted, texts of several lines are blocks, and a text that any YAML reader could take for a
number, a boolean, a time or null is in double quotes.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

_STRING: Final = "tag:yaml.org,2002:str"
# Readers of other YAML versions take these for numbers and booleans; PyYAML does not.
_NUMBER: Final = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)(e[-+]?\d+)?|0[xob][0-9a-f]+", re.IGNORECASE)
_BOOLEANS: Final = frozenset("yYnN")
_BASE: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):
    def ignore_aliases(self, data: Any) -> bool:
        """Write equal values again instead of referring to the first."""
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text:
        style = "|"
    elif _needs_quotes(dumper, text):
        style = '"'
    return dumper.represent_scalar(_STRING, text, style=style)


def _needs_quotes(dumper: Any, text: str) -> bool:
    resolved = dumper.resolve(yaml.ScalarNode, text, (True, False))
    return resolved != _STRING or text in _BOOLEANS or _NUMBER.fullmatch(text) is not None


_Dumper.add_representer(str, _text)


def write_yaml(document: Any) -> str:
    """Return a document of plain values (dicts, lists, texts, numbers) as YAML."""
    text: str = yaml.dump(document, Dumper=_Dumper, allow_unicode=True)
    return text
