"""Image names: what a reference may look like, and its default tag (reference §6.7)."""

from __future__ import annotations

import re
from typing import Final

_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE: Final = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?P<tag>:[\w][\w.-]{0,127})?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_LONGEST: Final = 255


class InvalidImageName(ValueError):
    """Raised for a text that is no image reference; says why in the reference parser's words."""


def with_default_tag(image: str) -> str:
    """The image with ``:latest`` where it has neither tag nor digest.

    Raises `InvalidImageName`.
    """
    match = _REFERENCE.fullmatch(image)
    if match is None:
        lower = _REFERENCE.fullmatch(image.lower())
        problem = "invalid reference format"
        if lower is not None and image != image.lower():
            problem += f": repository name ({image.rpartition(':')[0] or image}) must be lowercase"
        raise InvalidImageName(f'couldn\'t parse image name "{image}": {problem}')
    if len(match["name"]) > _LONGEST or _IDENTIFIER.fullmatch(image):
        raise InvalidImageName(f'couldn\'t parse image name "{image}": invalid reference format')
    return image if match["tag"] or match["digest"] else f"{image}:latest"
