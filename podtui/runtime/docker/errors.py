"""Translate the engine's errors into podtui's, in one place."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import aiohttp
import docker.errors
import requests

from podtui.errors import (
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineTimeout,
    EngineUnavailable,
)

_TAKEN = ("port is already allocated", "address already in use", "is already in use by")
_WRONG_STATE = "container state improper"
"""Podman's text where Docker answers 409: exec in or attach to a container that is not running."""
_ENGINE_PREFIX = "Error response from daemon: "


class Refused(EngineError):
    """An error response of the engine, before it is translated into a specific error.

    ``status`` is the HTTP status, ``text`` the engine's message.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def engine_error(refused: Refused) -> EngineError:
    """Return the matching error of the runtime contract."""
    if any(hint in refused.text for hint in _TAKEN):
        return EngineConflict(refused.text)
    if refused.status == 404:
        return EngineNotFound(refused.text)
    if refused.status == 409 or _WRONG_STATE in refused.text:
        return EngineConflict(refused.text)
    return EngineError(refused.text)


@contextmanager
def translate_errors() -> Generator[None]:
    """Translate a refused call into the matching `EngineError`."""
    try:
        yield
    except Refused as error:
        raise engine_error(error) from error


@contextmanager
def translate_transport_errors(endpoint: str) -> Generator[None]:
    """Translate exceptions of the SDK and the HTTP client into `Refused`, `EngineTimeout` or
    `EngineUnavailable`.

    ``endpoint`` is the engine's address, for the message.
    """
    try:
        yield
    except docker.errors.APIError as error:
        raise refusal(error) from error
    except (TimeoutError, requests.ReadTimeout) as error:
        raise EngineTimeout(f"{endpoint}: no answer in time") from error
    except (docker.errors.DockerException, aiohttp.ClientError, OSError) as error:
        raise EngineUnavailable(f"{endpoint}: {error}") from error


def refusal(error: docker.errors.APIError) -> Refused:
    status = error.status_code or 500
    text = error.explanation or str(error)
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return Refused(status, str(text).removeprefix(_ENGINE_PREFIX).strip())


@contextmanager
def parsing(answer: str) -> Generator[None]:
    """Translate the exceptions of parsing a malformed response into `EngineError`."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise EngineError(f"cannot read the engine's answer of {answer}: {error!r}") from error
