"""Report the errors of opening a session as ``Status``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import TypeVar

from podtui.errors import EngineError, EngineUnavailable, SessionError
from podtui.server.status import StatusError

T = TypeVar("T")


@contextmanager
def refusals() -> Generator[None]:
    """Translate the errors of `podtui.server.protocol.PodSessions` into `StatusError`."""
    try:
        yield
    except SessionError as error:
        raise StatusError(error.code, str(error)) from error
    except EngineUnavailable:
        raise
    except EngineError as error:
        raise StatusError(500, f"Internal error occurred: {error}") from error


@asynccontextmanager
async def entered(opened: AbstractAsyncContextManager[T]) -> AsyncGenerator[T]:
    """Enter a context manager. Only errors on entering are translated, not those of the block."""
    async with AsyncExitStack() as stack:
        with refusals():
            it = await stack.enter_async_context(opened)
        yield it
