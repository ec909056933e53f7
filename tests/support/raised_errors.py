"""Checks which errors code raises on arbitrary input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raises_only(*errors: type[Exception]) -> Iterator[None]:
    """Fail if the block raises anything else; it need not raise."""
    try:
        yield
    except errors:
        pass
    except Exception as error:
        raise AssertionError(f"raised {error!r}") from error
