"""Amounts that are a number or a share, such as ``maxUnavailable``."""

from __future__ import annotations

from podtui.api.v1 import IntOrString


def scaled(amount: IntOrString | None, total: int, *, up: bool) -> int:
    """Return the number that ``25%`` of ``total`` is, rounded up or down; a number is itself, and
    no amount is 0. Raises `ValueError` for another text."""
    if amount is None:
        return 0
    if isinstance(amount, int):
        return amount
    share = int(amount.removesuffix("%"))
    return -(-share * total // 100) if up else share * total // 100
