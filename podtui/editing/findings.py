"""Comparison of the findings of a text before and after an edit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from podtui.api.local import Diagnostic

_NOT_ENFORCED: Final = "NotEnforced"
_INDEX: Final = re.compile(r"\[\d+\]")


def kind_of(finding: Diagnostic) -> tuple[str, str, str]:
    """Return what two findings of one fault have in common: indexes shift if an item is removed,
    and messages list what the text has."""
    return finding.severity, finding.code, _INDEX.sub("[]", finding.field)


def is_better(
    before: Iterable[Diagnostic], after: Iterable[Diagnostic], resolved: Iterable[Diagnostic] = ()
) -> bool:
    """Return whether no finding is new, and the ``resolved`` ones are gone. That nothing acts on a
    kind is no finding about the text."""
    left = Counter(map(kind_of, before))
    left.subtract(map(kind_of, resolved))
    counts = Counter(kind_of(finding) for finding in after if finding.code != _NOT_ENFORCED)
    return all(count <= left[kind] for kind, count in counts.items())
