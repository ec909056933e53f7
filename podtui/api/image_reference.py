"""Image references: name, tag and digest, and the default tag (kubelet.md §1.5, §6.7)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE: Final = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_LONGEST_PATH: Final = 255
_HUB: Final = ("docker.io", "index.docker.io")


def _path(name: str) -> str:
    """Return the path of a name within its registry, completed as Docker does
    (``library/busybox``)."""
    domain, slash, rest = name.partition("/")
    is_domain = domain == "localhost" or "." in domain or ":" in domain or domain.lower() != domain
    if not slash or not is_domain:
        domain, rest = _HUB[0], name
    return f"library/{rest}" if domain in _HUB and "/" not in rest else rest


@dataclass(frozen=True, slots=True)
class ImageReference:
    """``tag`` and ``digest`` are empty if the reference has none."""

    name: str
    tag: str
    digest: str


def parse_image_reference(image: str) -> ImageReference | None:
    """Split a reference into its parts; return None if it is invalid, or a bare image id."""
    match = _REFERENCE.fullmatch(image)
    if match is None or _IDENTIFIER.fullmatch(image):
        return None
    if len(_path(match["name"])) > _LONGEST_PATH:
        return None
    return ImageReference(match["name"], match["tag"] or "", match["digest"] or "")


class InvalidImageName(ValueError):
    """Raised for an invalid image reference; the text is the reference parser's."""


def with_default_tag(image: str) -> str:
    """Return the image with ``:latest`` if it has neither tag nor digest.

    Raises `InvalidImageName`.
    """
    reference = parse_image_reference(image)
    if reference is not None:
        return image if reference.tag or reference.digest else f"{image}:latest"
    raise InvalidImageName(f'couldn\'t parse image name "{image}": {_problem(image)}')


def by_digest(image: str, digests: tuple[str, ...]) -> str:
    """Return the digest reference whose repository is that of ``image``; the first one if none
    matches."""
    reference = parse_image_reference(image)
    name = "" if reference is None else reference.name
    return next((digest for digest in digests if digest.partition("@")[0] == name), digests[0])


def _problem(image: str) -> str:
    """Return the first error that the reference parser would report."""
    if _IDENTIFIER.fullmatch(image):
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    repository = _path(image).partition(":")[0]
    if repository != repository.lower():
        return f"invalid reference format: repository name ({repository}) must be lowercase"
    return "invalid reference format"
