"""Where the engine's errors become podtui's, once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import aiohttp
import docker.errors

from podtui.errors import EngineConflict, EngineError, EngineNotFound, EngineUnavailable

_TAKEN = ("port is already allocated", "address already in use", "is already in use by")
_WRONG_STATE = "container state improper"
"""Podman's words where Docker answers with 409: an exec in, or an attach to, what does not run."""
_ENGINE_PREFIX = "Error response from daemon: "


class Refused(EngineError):
    """An answer of the engine other than success, before anybody knows what it means.

    ``status`` is the HTTP status, ``text`` the engine's word.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def meaning(refused: Refused) -> EngineError:
    """The error of the protocol that a refusal stands for."""
    if any(hint in refused.text for hint in _TAKEN):
        return EngineConflict(refused.text)
    if refused.status == 404:
        return EngineNotFound(refused.text)
    if refused.status == 409 or _WRONG_STATE in refused.text:
        return EngineConflict(refused.text)
    return EngineError(refused.text)


@contextmanager
def meant() -> Generator[None]:
    """Turns `Refused` into what it stands for."""
    try:
        yield
    except Refused as error:
        raise meaning(error) from error


@contextmanager
def translated(endpoint: str) -> Generator[None]:
    """Turns what the SDK and the HTTP client raise into `Refused` or `EngineUnavailable`.

    ``endpoint`` is the engine's address, for the text.
    """
    try:
        yield
    except docker.errors.APIError as error:
        raise refusal(error) from error
    except TimeoutError as error:
        raise EngineUnavailable(f"{endpoint}: no answer in time") from error
    except (docker.errors.DockerException, aiohttp.ClientError, OSError) as error:
        raise EngineUnavailable(f"{endpoint}: {error}") from error


def refusal(error: docker.errors.APIError) -> Refused:
    status = error.status_code or 500
    text = error.explanation or str(error)
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return Refused(status, str(text).removeprefix(_ENGINE_PREFIX).strip())


@contextmanager
def understood(answer: str) -> Generator[None]:
    """Turn what reading a malformed answer raises into `EngineError`."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise EngineError(f"cannot read the engine's answer of {answer}: {error!r}") from error
