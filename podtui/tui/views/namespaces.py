"""The choice of a namespace, from the number of objects in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from podtui.text.terminal_text import plural
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.sanitize import clean

ALL_NAMESPACES: Final = "all"


class NamespaceChoice(Struct, frozen=True):
    """The namespaces that have objects, with the number of them in each, and the number of all.

    A namespace is empty for all namespaces.
    """

    counts: Mapping[str, int]
    total: int
    noun: str = "pod"

    @property
    def namespaces(self) -> list[str]:
        """The namespaces in the order of `lines`."""
        return ["", *sorted(self.counts)]

    def named(self, name: str) -> str | None:
        """Return the namespace that the user typed; None if no pod is in it."""
        if name in self.counts:
            return name
        return "" if name == ALL_NAMESPACES else None

    @property
    def names(self) -> str:
        """The names that the user may type."""
        return ", ".join((ALL_NAMESPACES, *map(clean, sorted(self.counts))))

    def index(self, namespace: str) -> int:
        """Return the line of a namespace; the first one if it has no pods."""
        return self.namespaces.index(namespace) if namespace in self.counts else 0

    def lines(self) -> list[Line]:
        digits = len(f"{self.total:,}")
        rows = [(ALL_NAMESPACES, self.total), *sorted(self.counts.items())]
        return [
            (Span(f"{clean(name)}  ", "name"),
             Span(f"{count:>{digits},} {plural(count, self.noun).partition(' ')[2]}", "muted"))
            for name, count in rows
        ]  # fmt: skip
