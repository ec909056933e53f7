"""gRPC on unix sockets, with the errors of a Go client. This module imports grpclib."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar, cast

from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from grpclib.server import Server, Stream

from podtui.errors import PodtuiError
from podtui.wire.grpc_status import code_name
from podtui.wire.protobuf import Message, ProtobufError, decode_message, encode_message

Reply = TypeVar("Reply", bound=Message)
Request = TypeVar("Request", bound=Message)


class RpcError(PodtuiError):
    """Raised when a call fails, with the text that a Go client has for it."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {text}")


class Codec(CodecBase):
    """Encodes messages that are declared as structs."""

    @property
    def __content_subtype__(self) -> str:
        return "proto"

    def encode(self, message: Message, message_type: type[Message]) -> bytes:
        return encode_message(message)

    def decode(self, data: bytes, message_type: type[Reply]) -> Reply:
        return decode_message(data, message_type)


class PluginChannel:
    """A connection to the socket of a plugin; it is opened by the first call."""

    def __init__(self, path: str) -> None:
        self._channel = Channel(path=path, codec=Codec())

    async def call(
        self, method: str, request: Message, reply: type[Reply], timeout: float
    ) -> Reply:
        """Call a method such as ``/v1beta1.DevicePlugin/Allocate``. Raises `RpcError`."""
        unary = UnaryUnaryMethod(self._channel, method, type(request), reply)
        try:
            return await unary(request, timeout=timeout)
        except _FAILURES as error:
            raise _rpc_error(error) from error

    async def stream(
        self, method: str, request: Message, reply: type[Reply]
    ) -> AsyncIterator[Reply]:
        """Yield the messages of a stream until it ends. Raises `RpcError`."""
        unary = UnaryStreamMethod(self._channel, method, type(request), reply)
        try:
            async with unary.open() as stream:
                await stream.send_message(request, end=True)
                async for message in stream:
                    yield message
        except _FAILURES as error:
            raise _rpc_error(error) from error

    def close(self) -> None:
        self._channel.close()


# The library reports a server that breaks the protocol by assertions, too.
_FAILURES = (
    GRPCError, StreamTerminatedError, ProtocolError, ProtobufError, OSError, TimeoutError,
    AssertionError, NotImplementedError,
)  # fmt: skip


def _rpc_error(error: Exception) -> RpcError:
    late = isinstance(error, GRPCError) and error.status is Status.DEADLINE_EXCEEDED
    if late or isinstance(error, TimeoutError):
        return RpcError("DeadlineExceeded", "context deadline exceeded")
    if isinstance(error, GRPCError):
        return RpcError(code_name(str(error.status.value)), error.message or "")
    if isinstance(error, ProtobufError):
        text = f"grpc: failed to unmarshal the received message: {error}"
        return RpcError("Internal", text)
    if isinstance(error, OSError):
        text = f'connection error: desc = "transport: Error while dialing: {error}"'
        return RpcError("Unavailable", text)
    return RpcError("Unavailable", f"error reading from server: {error or type(error).__name__}")


class RpcService:
    """One method of a service, as the library wants it. ``answer`` raises `PodtuiError` for a
    request that it refuses."""

    def __init__(
        self,
        method: str,
        request: type[Request],
        reply: type[Reply],
        answer: Callable[[Request], Awaitable[Reply]],
    ) -> None:
        self._method = method
        self._request = request
        self._reply = reply
        self._answer = cast("Callable[[Message], Awaitable[Message]]", answer)

    def __mapping__(self) -> dict[str, Handler]:
        return {
            self._method: Handler(self._handle, Cardinality.UNARY_UNARY, self._request, self._reply)
        }

    async def _handle(self, stream: Stream[Message, Message]) -> None:
        request = await stream.recv_message()
        if request is None:
            raise GRPCError(Status.INVALID_ARGUMENT, "no message was received")
        try:
            reply = await self._answer(request)
        except PodtuiError as error:
            raise GRPCError(Status.UNKNOWN, str(error)) from error
        await stream.send_message(reply)


def rpc_server(*services: RpcService) -> Server:
    return Server(services, codec=Codec())
