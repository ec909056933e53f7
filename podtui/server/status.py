"""Return every error as a Kubernetes ``Status``, so that clients always have a message to show."""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from podtui.api.v1 import ListMeta, ObjectMeta, Status, StatusCause, StatusDetails
from podtui.errors import EngineError, EngineUnavailable, SessionError, StoreGone
from podtui.manifest.validation.errors import FieldError, printed

log = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
UNSERVED: web.AppKey[Callable[[str], str]] = web.AppKey("unserved")
"""Returns what the server serves, if a path is that of a resource that it does not serve."""
T = TypeVar("T")
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StatusError(Exception):
    """Raised by handlers to respond with a ``Status``; its text is the message. The reason follows
    from the code unless it is given."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        details: StatusDetails | None = None,
        headers: dict[str, str] | None = None,
        metadata: ListMeta | None = None,
        warnings: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.metadata = metadata
        self.code = code
        self.reason = _REASONS.get(code, "Unknown") if reason is None else reason
        self.details = details
        self.headers = headers
        self.warnings = tuple(warnings)

    def status(self) -> Status:
        return Status(
            kind="Status",
            apiVersion="v1",
            metadata=self.metadata or ListMeta(),
            status="Failure",
            message=str(self),
            reason=self.reason,
            details=self.details,
            code=self.code,
        )

    def response(self) -> web.Response:
        headers = warning_headers(self.warnings)
        headers.extend(self.headers or {})
        return json_response(encode_status(self.status()), code=self.code, headers=headers)


_ORDER: Final = ("kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code")
_DETAILS_ORDER: Final = ("name", "group", "kind", "uid", "causes", "retryAfterSeconds")


def encode_status(status: Status) -> bytes:
    """Return the JSON form, with the fields in the order of an API server: ``kubectl create --raw``
    prints it as it is."""
    tree = _ordered(msgspec.to_builtins(status), _ORDER)
    if "details" in tree:
        tree["details"] = _ordered(tree["details"], _DETAILS_ORDER)
    return msgspec.json.encode(tree)


def _ordered(tree: dict[str, Any], order: Sequence[str]) -> dict[str, Any]:
    return {name: tree[name] for name in order if name in tree}


def warning_headers(texts: Iterable[str]) -> CIMultiDict[str]:
    """Return a header for each warning. Equal ones are sent once."""
    return CIMultiDict([("Warning", f"299 - {printed(text)}") for text in dict.fromkeys(texts)])


class JsonResponse(web.Response):
    """A document of the API."""


def json_response(
    body: bytes, *, code: int = 200, headers: Mapping[str, str] | None = None
) -> JsonResponse:
    """Return JSON without a charset: clients of aggregated discovery compare the exact type."""
    all_of_them = CIMultiDict(headers or {})
    all_of_them.setdefault("Content-Type", "application/json")
    return JsonResponse(body=body, status=code, headers=all_of_them)


def success(message: str = "", code: int = 200) -> web.Response:
    status = Status(
        kind="Status",
        apiVersion="v1",
        metadata=ListMeta(),
        status="Success",
        message=message,
        code=code,
    )
    return json_response(encode_status(status), code=code)


def not_found(plural: str, name: str, group: str = "") -> StatusError:
    resource = f"{plural}.{group}" if group else plural
    return StatusError(
        404,
        f'{resource} "{name}" not found',
        details=StatusDetails(name=name, kind=plural, group=group),
    )


def already_exists(plural: str, name: str, group: str = "") -> StatusError:
    return _refused(409, "AlreadyExists", plural, name, group, "already exists")


def submitted_name(meta: ObjectMeta) -> str:
    """Return the name of a new object that the request has, or the prefix of a generated one. The
    API server generates names after the plugins that change objects, so their errors have this."""
    prefix = meta.generateName
    return prefix if prefix and meta.name.startswith(prefix) else meta.name


def forbidden(plural: str, name: str, why: str, group: str = "") -> StatusError:
    return _refused(403, "Forbidden", plural, name, group, f"is forbidden: {why}")


def conflict(plural: str, name: str, why: str = MODIFIED, group: str = "") -> StatusError:
    resource = f"{plural}.{group}" if group else plural
    return StatusError(
        409,
        f'Operation cannot be fulfilled on {resource} "{name}": {why}',
        details=StatusDetails(name=name, kind=plural, group=group),
    )


def _refused(code: int, reason: str, plural: str, name: str, group: str, why: str) -> StatusError:
    resource = f"{plural}.{group}" if group else plural
    named = f'{resource} "{name}"' if name or code != 403 else resource
    return StatusError(
        code,
        f"{named} {why}",
        reason=reason,
        details=StatusDetails(name=name, kind=plural, group=group),
    )


def bad_request(message: str) -> StatusError:
    return StatusError(400, message)


def expired(message: str) -> StatusError:
    return StatusError(410, message, reason="Expired")


def too_large_version(requested: int, current: int) -> StatusError:
    """For a list request with a minimum resource version in the future."""
    message = f"Too large resource version: {requested}, current: {current}"
    cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
    details = StatusDetails(causes=(cause,), retryAfterSeconds=1)
    return StatusError(504, f"Timeout: {message}", details=details, headers={"Retry-After": "1"})


def invalid_fields(
    kind: str, name: str, errors: Sequence[FieldError], group: str = ""
) -> StatusError:
    """Refuse an object that breaks rules, in the API server's words. Equal errors are reported
    once."""
    texts = {f"{error.path}: {error.raw_body()}": error for error in errors}
    messages = list(texts)
    text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    causes = tuple(
        StatusCause(reason=error.type, message=error.raw_body(), field=error.path)
        for error in texts.values()
    )
    qualified = f"{kind}.{group}" if group else kind
    return StatusError(
        422,
        f'{qualified} "{name}" is invalid: {text}',
        details=StatusDetails(name=name, kind=kind, group=group, causes=causes),
    )


def flag_value(text: str) -> bool:
    """Read a boolean parameter as the API server does: only ``false`` and ``0`` are false."""
    return text.lower() not in ("false", "0")


@web.middleware
async def errors_as_status(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The middleware that turns all errors of a request into a ``Status``."""
    answer = await _answer(request, handler)
    return answer.response() if isinstance(answer, StatusError) else answer


@web.middleware
async def errors_as_text(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The middleware that turns all errors of a request into plain text, as a kubelet does."""

    async def with_texts(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPNotFound as error:
            raise StatusError(404, "404: Page Not Found") from error
        except web.HTTPException as error:
            raise StatusError(error.status, f"{error.status}: {error.reason}") from error

    answer = await _answer(request, with_texts)
    if isinstance(answer, StatusError):
        headers = {"X-Content-Type-Options": "nosniff", **(answer.headers or {})}
        return web.Response(status=answer.code, text=str(answer), headers=headers)
    return answer


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse | StatusError:
    try:
        return await handler(request)
    except StatusError as error:
        return error
    except StoreGone as error:
        return expired(str(error))
    except EngineUnavailable as error:
        return StatusError(503, str(error))
    except web.HTTPException as error:
        return _of_http(error, request)
    except Exception as error:
        log.exception("%s %s failed", request.method, request.path)
        details = StatusDetails(causes=(StatusCause(message=str(error)),))
        return StatusError(500, f"Internal error occurred: {error}", details=details)


def _of_http(error: web.HTTPException, request: web.Request) -> StatusError:
    if isinstance(error, web.HTTPNotFound):
        message = "the server could not find the requested resource"
        served = request.app[UNSERVED](request.path) if UNSERVED in request.app else ""
        text = f"{message}; {served}" if served else message
        return StatusError(404, text, details=StatusDetails())
    if isinstance(error, web.HTTPMethodNotAllowed):
        return StatusError(
            405,
            "the server does not allow this method on the requested resource",
            details=StatusDetails(),
            headers={"Allow": ", ".join(sorted(error.allowed_methods))},
        )
    return StatusError(error.status, error.text or HTTPStatus(error.status).phrase)


@contextmanager
def refusals() -> Generator[None]:
    """Translate the errors of `podtui.server.protocol.SessionEndpoints` into `StatusError`."""
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
