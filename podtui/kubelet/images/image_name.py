"""Image names: validation and the default tag (kubelet.md §6.7)."""

from __future__ import annotations

import re

from podtui.api.image_reference import parse_image_reference


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
    return next((one for one in digests if one.partition("@")[0] == name), digests[0])


def _problem(image: str) -> str:
    """Return the first error that the reference parser would report."""
    if re.fullmatch(r"[a-f0-9]{64}", image):
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    repository = _path(image).partition(":")[0]
    if repository != repository.lower():
        return f"invalid reference format: repository name ({repository}) must be lowercase"
    return "invalid reference format"


def _path(image: str) -> str:
    """Return the name without its registry, in the default registry's normalized form."""
    first, slash, rest = image.partition("/")
    if not slash:
        return f"library/{image}"
    elsewhere = first == "localhost" or "." in first or ":" in first or first != first.lower()
    return rest if elsewhere else image
