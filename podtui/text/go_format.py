"""Durations, quoted texts and joined errors as Go prints them."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(text: str) -> str:
    """Quote a value of a downward API map: double quotes, control characters escaped."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    out: list[str] = []
    for character in text:
        if character in escapes:
            out.append(escapes[character])
        elif character.isprintable():
            out.append(character)
        elif ord(character) < 0x80:
            out.append(f"\\x{ord(character):02x}")
        else:
            code = ord(character)
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f'"{"".join(out)}"'


def go_duration(seconds: float) -> str:
    """Format a duration, cut to milliseconds."""
    millis = int(seconds * 1000 + 1e-6)
    if millis < 1000:
        return f"{millis}ms" if millis else "0s"
    minutes, millis = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    rest = f"{millis / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{rest}"
    return f"{minutes}m{rest}" if minutes else rest


def aggregated(errors: Iterable[str]) -> str:
    """Join errors without duplicates into one message; two or more are put in brackets."""
    distinct = tuple(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
