"""Explanations of refusals of the API server: quotas, limit ranges, accounts, invalid templates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from podtui.api.v1 import ResourceQuota
from podtui.why.inventory import Inventory
from podtui.why.missing_rules import missing_rule

_QUOTA: Final = re.compile(
    r"exceeded quota: (?P<quota>\S+), requested: (?P<requested>\S+), used: (?P<used>\S+),"
    r" limited: (?P<limited>\S+)"
)
_UNSET: Final = re.compile(r"failed quota: (?P<quota>\S+?): must specify (?P<what>.+)")
_ACCOUNT: Final = re.compile(
    r"error looking up service account (?P<namespace>\S+?)/(?P<name>\S+?): "
)
_PRIORITY: Final = re.compile(r"no PriorityClass with name (?P<name>\S+) was found")
_LIMITS: Final = re.compile(
    r"is forbidden: \[?(?P<text>(?:(?:maximum|minimum) \S+ usage per "
    r"|\S+ max limit to request ratio per ).*?)\]?$"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """``title`` is a clause: ``the quota few allows no more``."""

    cause: str
    title: str
    sentences: tuple[str, ...] = ()
    advice: str = ""


def read_refusal(inventory: Inventory, namespace: str, message: str) -> Refusal:
    """Explain the text with which the API server refused to create a pod of this namespace."""
    match = _QUOTA.search(message)
    if match is not None:
        return _exceeded(inventory, namespace, match)
    match = _UNSET.search(message)
    if match is not None:
        return Refusal(
            "QuotaNeedsValues",
            f"the quota {match['quota']} requires values that its containers do not set",
            (f"Missing: {match['what']}.",),
            "Set these requests and limits, or create a LimitRange with defaults.",
        )
    match = _ACCOUNT.search(message)
    if match is not None:
        where, name = match["namespace"], match["name"]
        return Refusal(
            "AccountMissing",
            f"the service account {name} does not exist in the namespace {where}",
            (),
            f"Create it: kubectl create serviceaccount {name} -n {where}",
        )
    match = _PRIORITY.search(message)
    if match is not None:
        return Refusal(
            "PriorityClassMissing",
            f"the PriorityClass {match['name']} does not exist",
            (),
            f"Create it: kubectl create priorityclass {match['name']} --value=1000",
        )
    forbidden = missing_rule(message)
    if forbidden is not None:
        return Refusal("Forbidden", forbidden.title, (), forbidden.advice)
    match = _LIMITS.search(message)
    if match is not None:
        return Refusal(
            "LimitRange",
            f"a LimitRange of the namespace forbids its pods: {match['text']}",
            (),
            "Change the requests and limits of its containers, or the LimitRange"
            f" (kubectl get limitrange -n {namespace}).",
        )
    if " is invalid: " in message:
        text = message.partition(" is invalid: ")[2]
        return Refusal(
            "InvalidTemplate",
            f"its pod template is invalid: {text}",
            (),
            "Correct the field that the message names in its pod template.",
        )
    return Refusal("Refused", f"the API server refuses its pods: {message}")


def _exceeded(inventory: Inventory, namespace: str, match: re.Match[str]) -> Refusal:
    name = match["quota"]
    quota = inventory.get(ResourceQuota, namespace, name)
    requested, used, limited = (_amounts(match[k]) for k in ("requested", "used", "limited"))
    parts = [
        f"{what}: {used.get(what, '?')} of {limited.get(what, '?')} used, {amount} more requested"
        for what, amount in requested.items()
    ]
    sentences = [f"{'; '.join(parts)}."]
    if quota is not None and quota.status.hard:
        now = [
            f"{what} {quota.status.used.get(what, '0')} of {quota.status.hard.get(what, '?')}"
            for what in requested
        ]
        sentences.append(f"Used now: {', '.join(now)}.")
    return Refusal(
        "QuotaExceeded",
        f"the quota {name} allows no more",
        tuple(sentences),
        f"Raise the quota (kubectl edit resourcequota {name} -n {namespace}), or request less.",
    )


def _amounts(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(","))
    return {name: amount for name, _, amount in pairs}
