"""Issue tokens of service accounts, and find the user that a token belongs to."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from podtui.api.v1 import Secret, ServiceAccount
from podtui.clock import Clock
from podtui.pki.tokens import (
    Claims,
    InvalidToken,
    LegacyClaims,
    Reference,
    TokenBinding,
    TokenIssuer,
)
from podtui.server.auth.users import User, service_account
from podtui.server.status import StatusError, bad_request, not_found
from podtui.store.protocol import Records
from podtui.store.resources import Resource

LEAST_SECONDS: Final = 600
MOST_SECONDS: Final = 1 << 32
DEFAULT_SECONDS: Final = 3600
_EXTRA: Final = "authentication.kubernetes.io"
_BOUND: Final[dict[tuple[str, str], Resource]] = {
    ("v1", "Pod"): "pods",
    ("v1", "Node"): "nodes",
    ("v1", "Secret"): "secrets",
}


@dataclass(frozen=True, slots=True)
class BoundObject:
    """The object that a token is bound to; an empty ``uid`` accepts any."""

    api_version: str
    kind: str
    name: str
    uid: str = ""


class TokenRegistry:
    def __init__(self, records: Records, issuer: TokenIssuer, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self.issuer = issuer

    async def issue(
        self,
        namespace: str,
        name: str,
        audiences: Sequence[str] = (),
        seconds: int = DEFAULT_SECONDS,
        bound: BoundObject | None = None,
    ) -> tuple[str, Claims, ServiceAccount]:
        """Return a new token, its claims and its account. Raises `StatusError` 400, 404 and 409."""
        account = await self._records.get("serviceaccounts", namespace, name)
        if not isinstance(account, ServiceAccount):
            raise not_found("serviceaccounts", name)
        pod = secret = node = None
        if bound is not None:
            bound_object, host = await self._bound(namespace, name, bound)
            match bound.kind:
                case "Pod":
                    pod, node = bound_object, host
                case "Secret":
                    secret = bound_object
                case _:
                    node = bound_object
        binding = TokenBinding(
            namespace=namespace,
            serviceaccount=Reference(name, account.metadata.uid),
            pod=pod,
            secret=secret,
            node=node,
        )
        token, claims = self.issuer.issue(binding, audiences, seconds, self._clock.now())
        return token, claims, account

    async def _bound(
        self, namespace: str, account: str, bound: BoundObject
    ) -> tuple[Reference, Reference | None]:
        """Return the bound object, and the node of a pod."""
        resource = _BOUND.get((bound.api_version, bound.kind))
        if resource is None:
            group, slash, version = bound.api_version.rpartition("/")
            kind = f"{group}{slash}{version}, Kind={bound.kind}"
            raise bad_request(f"cannot bind token to object of type {kind}")
        where = "" if resource == "nodes" else namespace
        item = await self._records.get(resource, where, bound.name)
        if item is None:
            raise not_found(resource, bound.name)
        uid = item.metadata.uid
        if bound.uid not in ("", uid):
            raise StatusError(
                409,
                f'Operation cannot be fulfilled on {resource} "{bound.name}": the UID in the'
                f" bound object reference ({bound.uid}) does not match the UID in record."
                " The object might have been deleted and then recreated",
            )
        node = None
        spec = getattr(item, "spec", None)
        if resource == "pods" and spec is not None:
            if (spec.serviceAccountName or "default") != account:
                raise bad_request(
                    f'cannot bind token for serviceaccount "{account}" to pod running with'
                    f" different serviceaccount name."
                )
            if spec.nodeName:
                host = await self._records.get("nodes", "", spec.nodeName)
                node = Reference(spec.nodeName, host.metadata.uid if host is not None else "")
        return Reference(bound.name, uid), node

    async def verify(self, token: str) -> User | None:
        """Return the user of a token for the API server; None if it is not valid."""
        try:
            return (await self.review(token, (self.issuer.audience,)))[0]
        except InvalidToken:
            return None

    async def review(self, token: str, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]]:
        """Return the user of a token, and those of ``audiences`` that it is for.

        The account and the bound objects must still exist. Raises `InvalidToken`.
        """
        claims = self.issuer.verify(token, audiences, self._clock.now())
        if isinstance(claims, LegacyClaims):
            return await self._of_secret(token, claims), (self.issuer.audience,)
        binding = claims.binding
        namespace, account = binding.namespace, binding.serviceaccount
        await self._exists("serviceaccounts", namespace, account)
        extra = {f"{_EXTRA}/credential-id": (f"JTI={claims.jti}",)}
        if binding.pod is not None:
            await self._exists("pods", namespace, binding.pod)
            extra[f"{_EXTRA}/pod-name"] = (binding.pod.name,)
            extra[f"{_EXTRA}/pod-uid"] = (binding.pod.uid,)
        if binding.secret is not None:
            await self._exists("secrets", namespace, binding.secret)
        if binding.node is not None:
            if binding.pod is None:
                await self._exists("nodes", "", binding.node)
            extra[f"{_EXTRA}/node-name"] = (binding.node.name,)
            extra[f"{_EXTRA}/node-uid"] = (binding.node.uid,)
        user = service_account(namespace, account.name, account.uid, extra)
        return user, tuple(audience for audience in audiences if audience in claims.aud)

    async def _of_secret(self, token: str, claims: LegacyClaims) -> User:
        """Return the user of a token that a Secret has. Raises `InvalidToken`."""
        secret = await self._records.get("secrets", claims.namespace, claims.secret)
        encoded = base64.b64encode(token.encode()).decode()
        if (
            not isinstance(secret, Secret)
            or secret.metadata.deletionTimestamp is not None
            or not hmac.compare_digest(secret.data.get("token", ""), encoded)
        ):
            raise _invalidated()
        account = Reference(claims.account, claims.uid)
        await self._exists("serviceaccounts", claims.namespace, account)
        return service_account(claims.namespace, claims.account, claims.uid, {})

    async def _exists(self, resource: Resource, namespace: str, wanted: Reference) -> None:
        item = await self._records.get(resource, namespace, wanted.name)
        if item is None or item.metadata.uid != wanted.uid:
            raise _invalidated()


def _invalidated() -> InvalidToken:
    return InvalidToken("[invalid bearer token, service account token has been invalidated]")
