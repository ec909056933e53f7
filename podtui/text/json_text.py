"""JSON and other text from outside as valid Unicode.

Go replaces what is not a character by U+FFFD, the replacement character: a lone surrogate
(``"\\ud800"``) and each byte that is not UTF-8. Python keeps both as surrogates, which cannot be
encoded again.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
# A pair of surrogates, a lone one, and any other escape. Backslashes occur only in strings.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][\da-fA-F]{2})|.)",
    re.DOTALL,
)


def valid_text(text: str) -> str:
    """Replace surrogates: those of an escape, and those that stand for bytes that are not UTF-8
    (``surrogateescape``)."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def valid_json(text: str) -> str:
    """Return a JSON document whose strings have no surrogates; positions stay the same."""
    text = valid_text(text)
    return _ESCAPE.sub(_replaced, text) if _ESCAPED_SURROGATE.search(text) else text


def _replaced(match: re.Match[str]) -> str:
    return r"\ufffd" if match["lone"] else match[0]


def read_json(text: str) -> Any:
    """Parse JSON. Raises ValueError and RecursionError."""
    return json.loads(valid_json(text))
