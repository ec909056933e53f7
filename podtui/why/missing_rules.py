"""The RBAC rule that a forbidden request lacks, read from the API server's message."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

_RBAC: Final = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\S+) (?:resource "(?P<resource>[^"]+)"'
    r' in API group "(?P<group>[^"]*)"(?: (?:in the namespace "(?P<namespace>[^"]+)"'
    r'|(?P<cluster>at the cluster scope)))?|path "(?P<path>[^"]+)")'
)
_ACCOUNT_USER: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class MissingRule:
    """A rule that no role gives to a user. An empty ``namespace`` means the whole cluster; ``path``
    is that of a request for no resource."""

    user: str
    verb: str
    resource: str = ""
    group: str = ""
    namespace: str = ""
    path: str = ""

    @property
    def account(self) -> tuple[str, str] | None:
        """Namespace and name of a service account; None for another user."""
        if not self.user.startswith(_ACCOUNT_USER):
            return None
        namespace, _, name = self.user.removeprefix(_ACCOUNT_USER).partition(":")
        return (namespace, name) if name else None

    @property
    def who(self) -> str:
        account = self.account
        return f"the service account {'/'.join(account)}" if account else f"the user {self.user}"

    @property
    def what(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        group = f".{self.group}" if self.group else ""
        where = f" in the namespace {self.namespace}" if self.namespace else " in the whole cluster"
        return f"{self.verb} {self.resource}{group}{where}"

    @property
    def title(self) -> str:
        return f"{self.who} may not {self.what}"

    @property
    def rule(self) -> str:
        """The rule as it is written in a role."""
        if self.path:
            return f'nonResourceURLs: ["{self.path}"], verbs: ["{self.verb}"]'
        return (
            f'apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: ["{self.verb}"]'
        )

    @property
    def advice(self) -> str:
        """The commands that grant the rule. The name of the role is a proposal."""
        account = self.account
        subject = (
            f"--serviceaccount={account[0]}:{account[1]}"
            if account is not None
            else f"--user={self.user}"
        )
        base = account[1] if account is not None else self.user.rpartition(":")[2]
        name = f"{base}-{self.verb}-{self.resource.replace('/', '-') or 'path'}"
        if self.path:
            what = [f"--verb={self.verb}", f"--non-resource-url={self.path}"]
        else:
            group = f".{self.group}" if self.group else ""
            plural, slash, below = self.resource.partition("/")
            what = [f"--verb={self.verb}", f"--resource={plural}{group}{slash}{below}"]
        kind = "role" if self.namespace else "clusterrole"
        where = [f"--namespace={self.namespace}"] if self.namespace else []
        role = ["kubectl", "create", kind, name, *what, *where]
        binding = ["kubectl", "create", f"{kind}binding", name, f"--{kind}={name}", subject, *where]
        return f"Grant it: {shlex.join(role)} && {shlex.join(binding)}"


def missing_rule(text: str) -> MissingRule | None:
    """Return the rule that a text of the API server reports as missing; None if it reports none."""
    match = _RBAC.search(text.replace('\\"', '"'))
    if match is None:
        return None
    return MissingRule(
        match["user"],
        match["verb"],
        match["resource"] or "",
        match["group"] or "",
        match["namespace"] or "",
        match["path"] or "",
    )
