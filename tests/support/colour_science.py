"""Colour perception: the contrast of the WCAG, and the distance of two colours for eyes with and
without red or green."""

from __future__ import annotations

import math

RGB = tuple[int, int, int]
Vector = tuple[float, float, float]

# Machado, Oliveira and Fernandes (2009), full severity, on linear light.
SIGHTS: dict[str, tuple[Vector, Vector, Vector]] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
}


def _linear(color: RGB) -> Vector:
    def part(value: int) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    return part(color[0]), part(color[1]), part(color[2])


def _luminance(color: RGB) -> float:
    red, green, blue = _linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: RGB, other: RGB) -> float:
    """Return the contrast, from 1 (equal) to 21 (black on white)."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _seen(color: RGB, vision: str) -> Vector:
    linear = _linear(color)
    red, green, blue = (
        max(0.0, min(1.0, sum(a * b for a, b in zip(row, linear, strict=True))))
        for row in SIGHTS[vision]
    )
    return red, green, blue


def _lab(light: Vector) -> Vector:
    red, green, blue = light

    def curve(value: float) -> float:
        return value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116

    x = curve((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047)
    y = curve(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    z = curve((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one: RGB, other: RGB, vision: str) -> float:
    """CIE76: about 2 is just noticed, 20 is plainly another colour."""
    return math.dist(_lab(_seen(one, vision)), _lab(_seen(other, vision)))
