"""An asynchronous context on a separate loop and thread, for synchronous tests.

The tested code can then run its own loop and receive signals in the main thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")
Ask = Callable[[Coroutine[Any, Any, Any]], Any]
SECONDS: Final = 40.0


@contextmanager
def on_thread(
    make: Callable[[], AbstractAsyncContextManager[T]],
) -> Generator[tuple[T, Ask]]:
    """Open the context of ``make``, and yield it with a function that runs a coroutine beside it
    and returns its result.

    Opening, each call and closing may take 40 seconds; then they raise `TimeoutError`.
    """
    opened: Future[T] = Future()
    done = asyncio.Event()

    async def hold() -> None:
        # The same task opens and closes it, as task groups and timeouts require.
        async with make() as it:
            opened.set_result(it)
            await done.wait()

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever, name="tests-on-thread")
        thread.start()

        def ask(question: Coroutine[Any, Any, Any]) -> Any:
            return asyncio.run_coroutine_threadsafe(question, loop).result(SECONDS)

        try:
            held = asyncio.run_coroutine_threadsafe(hold(), loop)
            wait((opened, held), SECONDS, FIRST_COMPLETED)
            if not opened.done():
                held.result(0)  # raises the error
            try:
                yield opened.result(0), ask
            finally:
                loop.call_soon_threadsafe(done.set)
                held.result(SECONDS)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(SECONDS)
