"""Rules for restarts: the pod's policy, a container's own policy, its exit-code rules, and the
policy for in-place resize."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import Container, ContainerResizePolicy, ContainerRestartRule
from podtui.manifest.validation.errors import (
    Errors,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)

POD_POLICIES: Final = ("Always", "OnFailure", "Never")
CONTAINER_POLICIES: Final = ("Always", "Never", "OnFailure")
RULE_ACTIONS: Final = ("Restart", "RestartAllContainers")
EXIT_CODE_OPERATORS: Final = ("In", "NotIn")
RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
MAX_RULES: Final = 20
MAX_EXIT_CODES: Final = 255


def pod_policy(policy: str, path: str) -> Errors:
    if not policy:
        yield required(path)
    elif policy not in POD_POLICIES:
        yield not_supported(path, policy, POD_POLICIES)


def container_policy(container: Container, path: str, *, init: bool) -> Errors:
    """Check the container's own policy and its exit-code rules (kubelet.md §6.8)."""
    policy, rules = container.restartPolicy, container.restartPolicyRules
    here = f"{path}.restartPolicy"
    if not policy:
        if rules:
            yield required(here, "must specify restartPolicy when restart rules are used")
        if init or not rules:
            return
    elif policy not in CONTAINER_POLICIES:
        yield not_supported(here, policy, CONTAINER_POLICIES)
    if len(rules) > MAX_RULES:
        yield too_many(f"{path}.restartPolicyRules", len(rules), MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _rule(rule, f"{path}.restartPolicyRules[{index}]")


def _rule(rule: ContainerRestartRule, path: str) -> Errors:
    if rule.action not in RULE_ACTIONS:
        yield not_supported(f"{path}.action", rule.action, RULE_ACTIONS)
    here = f"{path}.exitCodes"
    if rule.exitCodes is None:
        yield required(here, "must be specified")
        return
    if rule.exitCodes.operator not in EXIT_CODE_OPERATORS:
        yield not_supported(f"{here}.operator", rule.exitCodes.operator, EXIT_CODE_OPERATORS)
    if len(rule.exitCodes.values) > MAX_EXIT_CODES:
        yield too_many(f"{here}.values", len(rule.exitCodes.values), MAX_EXIT_CODES)


def resize(policies: tuple[ContainerResizePolicy, ...], pod_restart: str, path: str) -> Errors:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        here = f"{path}[{index}]"
        if policy.resourceName in seen:
            yield duplicate(here, policy.resourceName, at=f"{here}.resourceName")
        seen.add(policy.resourceName)
        yield from _one_of(policy.resourceName, ("cpu", "memory"), path, f"{here}.resourceName")
        at = f"{here}.restartPolicy"
        yield from _one_of(policy.restartPolicy, RESIZE_POLICIES, path, at)
        if pod_restart == "Never" and policy.restartPolicy != "NotRequired":
            why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield invalid(path, policy.restartPolicy, why, at=at)


def _one_of(value: str, choices: tuple[str, ...], path: str, at: str) -> Errors:
    if not value:
        yield required(path, at=at)
    elif value not in choices:
        yield not_supported(path, value, choices, at=at)


def init_resize(container: Container, path: str) -> Errors:
    """A plain init container runs once, so that a resize cannot restart it."""
    if container.restartPolicy == "Always":
        return
    for index, policy in enumerate(container.resizePolicy):
        if policy.restartPolicy == "RestartContainer":
            yield invalid(
                f"{path}.resizePolicy[{index}].restartPolicy",
                policy.restartPolicy,
                "must not be set to 'RestartContainer' for non-sidecar initContainers",
            )
