"""Connections that were tried from inside a pod, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from podtui.api.insight import ConnectionAttempt, ConnectionCheck, Outcome


def accepts(check: ConnectionCheck) -> bool:
    return any(attempt.outcome is Outcome.ACCEPTED for attempt in check.attempts)


def fails(check: ConnectionCheck) -> bool:
    """Return whether there is no address, or none accepts."""
    return bool(check.error) or (check.port != 0 and not accepts(check))


def check_text(check: ConnectionCheck) -> str:
    """Return what was seen, without a full stop: ``db.shop.svc.cluster.local is 10.96.3.7, port
    5432 refused the connection``."""
    if check.error:
        return _no_address(check)
    if not check.attempts:
        return _address(check)
    if len(check.attempts) == 1:
        return f"{_address(check)}, port {check.port} {_outcome(check.attempts[0])}"
    outcomes = "; ".join(f"{each.address} {_outcome(each)}" for each in check.attempts)
    return f"{_address(check)}; port {check.port}: {outcomes}"


def check_lines(check: ConnectionCheck) -> Iterator[str]:
    """Yield the answer of ``podtui why --reach``."""
    yield check_text(check)
    if check.servers:
        yield f"name servers of the pod: {', '.join(check.servers)}"


def _address(check: ConnectionCheck) -> str:
    addresses = ", ".join(check.addresses)
    return f"{check.name} is {addresses}" if check.name else addresses


def _no_address(check: ConnectionCheck) -> str:
    answered = f" from {check.source}" if check.source else ""
    match check.error:
        case "NXDOMAIN":
            return f"{check.host} does not exist (NXDOMAIN{answered})"
        case "no address":
            return f"{check.name} has no address (no A and AAAA records{answered})"
        case "no answer":
            servers = ", ".join(check.servers)
            return f"no name server answered for {check.host} (asked: {servers})"
        case "no name server":
            return f"the pod has no name server to ask for {check.host}"
        case code:
            return f"{check.name or check.host} is unknown ({code}{answered})"


def _outcome(attempt: ConnectionAttempt) -> str:
    match attempt.outcome:
        case Outcome.ACCEPTED:
            return f"accepted the connection in {attempt.seconds * 1000:.1f} ms"
        case Outcome.REFUSED:
            return "refused the connection"
        case Outcome.TIMED_OUT:
            return f"did not answer within {attempt.seconds:.1f} s"
        case Outcome.UNREACHABLE:
            return f"cannot be reached: {attempt.error}"
        case Outcome.FAILED:
            return f"failed: {attempt.error}"
