"""Rules for probes and lifecycle hooks, and for the handlers inside them."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import (
    Errors,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)

_SECONDS_AND_COUNTS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
WINDOWS_SIGNALS: Final = ("SIGKILL", "SIGTERM")
LINUX_SIGNALS: Final = tuple(
    sorted(
        [
            *(
                f"SIG{name}"
                for name in "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL"
                " PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2"
                " VTALRM WINCH XCPU XFSZ RTMIN RTMAX".split()
            ),
            *(f"SIGRTMIN+{number}" for number in range(1, 16)),
            *(f"SIGRTMAX-{number}" for number in range(1, 15)),
        ]
    )
)
_SIGNALS: Final = {"linux": LINUX_SIGNALS, "windows": WINDOWS_SIGNALS}


def probe(check: Probe, path: str) -> Errors:
    """Check the rules that all three probes share."""
    yield from _handler(check, path, None)
    for name in _SECONDS_AND_COUNTS:
        number: int = getattr(check, name) or 0
        if number < 0:
            yield invalid(f"{path}.{name}", number, "must be greater than or equal to 0")
    grace = check.terminationGracePeriodSeconds
    if grace is not None and grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def killing_probe(check: Probe | None, path: str) -> Errors:
    """Check a liveness or startup probe: its success threshold must be 1."""
    if check is None:
        return
    yield from probe(check, path)
    if check.successThreshold != 1:
        yield invalid(f"{path}.successThreshold", check.successThreshold or 0, "must be 1")


def readiness_probe(check: Probe | None, path: str) -> Errors:
    if check is None:
        return
    yield from probe(check, path)
    if check.terminationGracePeriodSeconds is not None:
        yield invalid(
            f"{path}.terminationGracePeriodSeconds",
            check.terminationGracePeriodSeconds,
            "must not be set for readinessProbes",
        )


def lifecycle(hooks: Lifecycle, path: str, grace: int | None, os_name: str | None) -> Errors:
    """``grace`` is the maximum duration of a sleep; None means no maximum, because a missing grace
    period is reported elsewhere."""
    if hooks.postStart is not None:
        yield from _handler(hooks.postStart, f"{path}.postStart", grace)
    if hooks.preStop is not None:
        yield from _handler(hooks.preStop, f"{path}.preStop", grace)
    if hooks.stopSignal:
        yield from stop_signal(hooks.stopSignal, f"{path}.stopSignal", os_name)


def stop_signal(signal: str, path: str, os_name: str | None) -> Errors:
    if os_name is None:
        yield forbidden(path, "may not be set for containers with empty `spec.os.name`")
    elif os_name in _SIGNALS and signal not in _SIGNALS[os_name]:
        yield not_supported(path, signal, _SIGNALS[os_name])


def _exec(action: ExecAction, path: str) -> Errors:
    if not action.command:
        yield required(f"{path}.command")


def _http_get(action: HTTPGetAction, path: str) -> Errors:
    if not action.path:
        yield required(f"{path}.path")
    yield from _port(action.port, f"{path}.port")
    if action.scheme not in ("HTTP", "HTTPS"):
        yield not_supported(f"{path}.scheme", action.scheme, ("HTTP", "HTTPS"))
    for index, header in enumerate(action.httpHeaders):
        yield from invalid_each(
            f"{path}.httpHeaders",
            header.name,
            formats.HEADER_NAME.problems(header.name),
            at=f"{path}.httpHeaders[{index}].name",
        )


def _port(port: int | str, path: str) -> Errors:
    check = formats.port_number(port) if isinstance(port, int) else formats.port_name(port)
    yield from invalid_each(path, port, check)


def _sleep(action: SleepAction, path: str, grace: int | None) -> Errors:
    if grace is not None and not 0 <= action.seconds <= grace:
        yield invalid(
            path,
            action.seconds,
            f"must be non-negative and less than terminationGracePeriodSeconds ({grace})",
            at=f"{path}.seconds",
        )


def _handler(holder: Probe | LifecycleHandler, path: str, grace: int | None) -> Errors:
    """Check that there is exactly one handler, and the rules of the first one."""
    given = [name for name in _HANDLERS if getattr(holder, name, None) is not None]
    if not given:
        yield required(path, "must specify a handler type")
        return
    yield from _action(getattr(holder, given[0]), f"{path}.{given[0]}", grace)
    for name in given[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def _action(action: object, path: str, grace: int | None) -> Errors:
    match action:
        case ExecAction():
            yield from _exec(action, path)
        case HTTPGetAction():
            yield from _http_get(action, path)
        case TCPSocketAction() | GRPCAction():
            yield from _port(action.port, f"{path}.port")
        case SleepAction():
            yield from _sleep(action, path, grace)
        case _:
            pass
